//! Responses without an entry: error pages and the response to OPTIONS.

use pinion_archive::{Archive, ErrorPage, Role, SharedBlock};
use pinion_http::field::KnownField;
use pinion_http::negotiate::error_format;
use pinion_http::page::{self, ErrorFormat};
use pinion_http::prepared::{Prepared, PreparedBody, SharedFields};
use pinion_http::refusal::RefusedRequest;
use pinion_http::request::RequestHead;

use crate::answer::Question;
use crate::fields::{FieldSort, SentPage, append_decoded, append_path};
use crate::work::{ResponseBuffers, Work};

/// What every resource of a site can be asked with (RFC 9110 §9.1: GET and HEAD at least).
pub(crate) const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

/// The page of a status for a request: the site's own, or the built-in one in the form the client
/// prefers, with the fields of the archive and of the rules for the path.
pub(crate) fn error<'x>(
    question: &Question<'_, 'x>,
    status: u16,
    buffers: ResponseBuffers<'x>,
) -> Prepared<'x> {
    let Question { archive, head, .. } = question;
    let format = error_format(head.values(KnownField::Accept));
    let answer = pathless_error(status, archive, head);
    if archive.field_rules().is_empty() {
        return answer;
    }
    let (page, sent) = ((status, format), missing_page(buffers.target));
    let block = buffers.apply(question, error_block(page, archive), FieldSort::Error, sent);
    Prepared { shared: error_fields(page, archive, block), ..answer }
}

/// The page of a status, see [`error_page`], with the fields of the rules for the path of its
/// request, see [`field_rules_path`].
pub fn error_page_at<'x>(
    path: &[u8],
    status: u16,
    format: ErrorFormat,
    archive: &Archive<'x>,
    work: &'x mut Work,
) -> Prepared<'x> {
    let block = error_block((status, format), archive);
    let block = work.fields.apply_to_path(archive, path, block, FieldSort::Error);
    let shared = error_fields((status, format), archive, block);
    Prepared { shared, ..error_page(status, format, archive) }
}

/// The page of a status for a request that is refused, see [`error_page`], with the fields of the
/// rules for its path as far as that is known.
pub fn refused_page<'x>(
    status: u16,
    request: &RefusedRequest<'_>,
    archive: &Archive<'x>,
    work: &'x mut Work,
) -> Prepared<'x> {
    let (mut decoded, mut path) = (Vec::new(), Vec::new());
    match request.path.filter(|_| !archive.field_rules().is_empty()) {
        Some(sent) if append_decoded(sent, &mut decoded, &mut path) => {
            error_page_at(&path, status, request.format, archive, work)
        }
        _ => error_page(status, request.format, archive),
    }
}

/// Returns the site's own page of a status, unless the client is to have problem details: those
/// take the place of any page that is not JSON itself.
fn own_page<'x>(
    (status, format): (u16, ErrorFormat),
    archive: &Archive<'x>,
) -> Option<ErrorPage<'x>> {
    let page = archive.error_page(status)?;
    (format != ErrorFormat::Problem || is_json(&page.shared)).then_some(page)
}

/// Returns whether content with these fields is JSON.
fn is_json(block: &SharedBlock<'_>) -> bool {
    let line = block.type_line();
    let value = line.iter().position(|&byte| byte == b':').and_then(|at| line.get(at + 1..));
    let media_type = value.unwrap_or_default().split(|&byte| byte == b';').next();
    let media_type = media_type.unwrap_or_default().trim_ascii();
    media_type.eq_ignore_ascii_case(b"application/json")
        || media_type.to_ascii_lowercase().ends_with(b"+json")
}

/// The fields that are stored for the page of a status.
fn error_block<'x>(page: (u16, ErrorFormat), archive: &Archive<'x>) -> SharedBlock<'x> {
    own_page(page, archive).map_or_else(|| generated_block(archive), |page| page.shared)
}

/// The fields of a page of a status that has its fields in `block`: the built-in pages have their
/// media types beside them.
fn error_fields<'x>(
    page: (u16, ErrorFormat),
    archive: &Archive<'x>,
    block: SharedBlock<'x>,
) -> SharedFields<'x> {
    match own_page(page, archive) {
        Some(_) => block.full_fields(),
        None => block.fields_without_type(),
    }
}

/// The decoded path of a request, as the rules for fields of an archive know it. `None` if there
/// are no such rules, or the path names no resource at all.
pub fn field_rules_path(archive: &Archive<'_>, head: &RequestHead<'_>) -> Option<Box<[u8]>> {
    if archive.field_rules().is_empty() {
        return None;
    }
    let mut path = Vec::new();
    append_path(head, &mut Vec::new(), &mut path).then(|| path.into())
}

/// Lines of the fields that the responses of a script have unless it sets them, with the rules for
/// the path of the request. Those that say how long a response may be kept are left out: that only
/// the script knows.
pub fn script_fields(archive: &Archive<'_>, path: &[u8], work: &mut Work) -> Vec<u8> {
    let block = generated_block(archive);
    let block = work.fields.apply_to_path(archive, path, block, FieldSort::Error);
    without_storing(block.fields_without_type())
}

/// As [`script_fields`], without a path.
#[must_use]
pub fn pathless_script_fields(archive: &Archive<'_>) -> Vec<u8> {
    without_storing(generated_fields(archive))
}

fn without_storing(fields: SharedFields<'_>) -> Vec<u8> {
    let lines = fields.h1.split_inclusive(|&byte| byte == b'\n');
    let is_kept = |line: &&[u8]| !line.to_ascii_lowercase().starts_with(b"cache-control:");
    lines.filter(is_kept).collect::<Vec<_>>().concat()
}

/// The page at the path that a rewrite leads to, in `target` unless it is empty: it is not sent,
/// but its rules apply.
fn missing_page(target: &[u8]) -> SentPage<'_> {
    SentPage { path: target, is_stored: false }
}

/// Returns whether problem details take the place of the content of an entry, which would be sent
/// with the status of an error.
pub(crate) fn is_problem(
    question: &Question<'_, '_>,
    status: u16,
    block: &SharedBlock<'_>,
) -> bool {
    status >= 400
        && error_format(question.head.values(KnownField::Accept)) == ErrorFormat::Problem
        && !is_json(block)
}

/// The page of a status for a request whose path is not looked at.
pub(crate) fn pathless_error<'x>(
    status: u16,
    archive: &Archive<'x>,
    head: &RequestHead<'_>,
) -> Prepared<'x> {
    let format = error_format(head.values(KnownField::Accept));
    let answer = error_page(status, format, archive);
    Prepared { allow: (status == 405).then_some(ALLOW), ..answer }
}

/// The page of a status for a request that is not answered from the archive, with the fields of the
/// rules for its path.
pub fn error_for<'x>(
    status: u16,
    archive: &Archive<'x>,
    head: &RequestHead<'x>,
    work: &'x mut Work,
) -> Prepared<'x> {
    let question = Question { archive: *archive, head, now: 0 };
    let Work { text, path, fields, .. } = work;
    error(&question, status, ResponseBuffers { text, decoded: path, target: b"", fields })
}

/// The response to OPTIONS for a request that is not answered from the archive, with the fields of
/// the rules for its path.
pub fn options_for<'x>(
    archive: &Archive<'x>,
    head: &RequestHead<'x>,
    work: &'x mut Work,
) -> Prepared<'x> {
    let question = Question { archive: *archive, head, now: 0 };
    let Work { text, path, fields, .. } = work;
    options(&question, ResponseBuffers { text, decoded: path, target: b"", fields })
}

/// The page of a status: the site's own, or the built-in one in the form that the client prefers.
/// Neither costs a look-up, and both are there whatever has become of the archive's file.
#[must_use]
pub fn error_page<'x>(status: u16, format: ErrorFormat, archive: &Archive<'x>) -> Prepared<'x> {
    match own_page((status, format), archive) {
        Some(page) => Prepared {
            shared: page.shared.full_fields(),
            content_length: Some(page.body.len() as u64),
            body: PreparedBody::Bytes(page.body),
            ..Prepared::empty(status)
        },
        None => Prepared { shared: generated_fields(archive), ..page::answer(status, format, b"") },
    }
}

/// The response to OPTIONS for a resource (RFC 9110 §9.3.7).
pub(crate) fn options<'x>(
    question: &Question<'_, 'x>,
    buffers: ResponseBuffers<'x>,
) -> Prepared<'x> {
    let block = generated_block(&question.archive);
    let sent = missing_page(buffers.target);
    let block = buffers.apply(question, block, FieldSort::Error, sent);
    Prepared { shared: block.fields_without_type(), ..server_options(&question.archive) }
}

/// The response to OPTIONS for the server as a whole.
pub(crate) fn server_options<'x>(archive: &Archive<'x>) -> Prepared<'x> {
    let shared = generated_fields(archive);
    Prepared { shared, allow: Some(ALLOW), ..Prepared::empty(204) }
}

/// The fields of whatever the server answers on behalf of a site: those the archive brings for
/// it, else the built-in ones.
#[must_use]
pub fn generated_fields<'x>(archive: &Archive<'x>) -> SharedFields<'x> {
    generated_block(archive).fields_without_type()
}

pub(crate) fn generated_block<'x>(archive: &Archive<'x>) -> SharedBlock<'x> {
    let shared = archive.shared_for(Role::Generated);
    shared.unwrap_or_else(|| SharedBlock::of_lines(page::BUILT_IN_FIELDS, b"", 0))
}
