//! Responses without an entry: error pages and the response to OPTIONS.

use pinion_archive::{Archive, ErrorPage, Role, SharedBlock};
use pinion_http::error_page::{self, ErrorFormat, PageContent};
use pinion_http::field::KnownField;
use pinion_http::media_type::MediaType;
use pinion_http::negotiate::preferred_error_format;
use pinion_http::prepared_response::{Prepared, PreparedBody, SharedFields};
use pinion_http::refusal::RefusedRequest;
use pinion_http::request_head::RequestHead;

use crate::field_rules::{FieldSort, SentPage, append_decoded, append_path};
use crate::request_buffers::{RequestBuffers, ResponseBuffers};
use crate::response::SiteLookup;

/// The methods that every resource of a site supports (RFC 9110 §9.1: GET and HEAD at least).
pub(crate) const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

/// The response with the page of a status.
#[derive(Clone, Copy, Debug)]
pub struct ErrorResponse<'x> {
    /// The response.
    pub prepared: Prepared<'x>,
    /// The source of its page.
    pub source: ErrorPageSource<'x>,
}

impl<'x> ErrorResponse<'x> {
    /// Returns the response with this page in place of the usual built-in one. A page of the site
    /// stays.
    #[must_use]
    pub fn with_built_in_page(self, page: PageContent) -> Prepared<'x> {
        match self.source {
            ErrorPageSource::Site { .. } => self.prepared,
            ErrorPageSource::BuiltIn => Prepared {
                content_type: Some(page.content_type),
                content_length: Some(page.body.len() as u64),
                body: PreparedBody::Bytes(page.body),
                ..self.prepared
            },
        }
    }
}

/// The source of the page of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorPageSource<'x> {
    /// Pinion, in the format that the client prefers.
    BuiltIn,
    /// The site.
    Site {
        /// Its media type, with parameters.
        media_type: &'x [u8],
    },
}

/// The page of a status as it is stored, without the rules for the path of a request.
#[derive(Clone, Copy)]
struct StoredErrorPage<'x> {
    status: u16,
    fields: SharedBlock<'x>,
    body: &'x [u8],
    /// The media type of a built-in page. `None` for a page of the site, whose fields have it.
    built_in_type: Option<&'static [u8]>,
}

impl<'x> StoredErrorPage<'x> {
    /// Returns the site's own page, or else the built-in one in this format. Problem details
    /// replace any page of the site that is not JSON itself. Neither page costs a lookup, and both
    /// are available even if the archive's file is damaged.
    fn of(status: u16, error_format: ErrorFormat, archive: &Archive<'x>) -> Self {
        let own = archive.error_page(status);
        let is_sent = |page: &ErrorPage<'_>| {
            error_format != ErrorFormat::ProblemDetails || is_json(&page.shared)
        };
        match own.filter(is_sent) {
            Some(ErrorPage { shared, body }) => {
                Self { status, fields: shared, body, built_in_type: None }
            }
            None => {
                let PageContent { content_type, body } = error_page::page(status, error_format);
                let built_in_type = Some(content_type);
                Self { status, fields: generated_block(archive), body, built_in_type }
            }
        }
    }

    /// Returns the response with this page and with `fields`, which are its own fields as the rules
    /// have changed them.
    fn response(&self, fields: &SharedBlock<'x>) -> ErrorResponse<'x> {
        let (shared, source) = match self.built_in_type {
            Some(_) => (fields.fields_without_type(), ErrorPageSource::BuiltIn),
            None => {
                let media_type = fields.media_type();
                (fields.full_fields(), ErrorPageSource::Site { media_type })
            }
        };
        let prepared = Prepared {
            shared,
            content_type: self.built_in_type,
            content_length: Some(self.body.len() as u64),
            body: PreparedBody::Bytes(self.body),
            ..Prepared::empty(self.status)
        };
        ErrorResponse { prepared, source }
    }
}

/// Returns the response with the page of a status for a request, in the format that the client
/// prefers, with the fields of the archive and of the rules for the path.
pub(crate) fn error<'x>(
    lookup: &SiteLookup<'_, 'x>,
    status: u16,
    buffers: ResponseBuffers<'x>,
) -> Prepared<'x> {
    let error_format = preferred_error_format(lookup.head.values(KnownField::Accept));
    error_in_format(lookup, status, error_format, buffers).prepared
}

/// Returns the response of [`error`] for a client that prefers this format.
pub(crate) fn error_in_format<'x>(
    lookup: &SiteLookup<'_, 'x>,
    status: u16,
    error_format: ErrorFormat,
    buffers: ResponseBuffers<'x>,
) -> ErrorResponse<'x> {
    let page = StoredErrorPage::of(status, error_format, &lookup.archive);
    let sent = missing_page(buffers.target);
    let fields = buffers.apply(lookup, page.fields, FieldSort::Error, sent);
    let ErrorResponse { prepared, source } = page.response(&fields);
    let allow = (status == 405).then_some(ALLOW);
    ErrorResponse { prepared: Prepared { allow, ..prepared }, source }
}

/// Returns the response with the page of a status in this format, with the fields of the rules for
/// the path of its request, see [`field_rules_path`].
pub fn error_page_at<'x>(
    path: Option<&[u8]>,
    status: u16,
    error_format: ErrorFormat,
    archive: &Archive<'x>,
    request_buffers: &'x mut RequestBuffers,
) -> ErrorResponse<'x> {
    let page = StoredErrorPage::of(status, error_format, archive);
    let fields = request_buffers.fields.apply_to_path(archive, path, page.fields, FieldSort::Error);
    page.response(&fields)
}

/// Returns the response with the page of a status for a request that is refused, with the fields of
/// the rules for its path as far as that is known.
pub fn refused_page<'x>(
    status: u16,
    request: &RefusedRequest<'_>,
    archive: &Archive<'x>,
    request_buffers: &'x mut RequestBuffers,
) -> Prepared<'x> {
    let (mut decoded, mut path) = (Vec::new(), Vec::new());
    let sent = request.path.filter(|_| !archive.field_rules().is_empty());
    let is_known = sent.is_some_and(|sent| append_decoded(sent, &mut decoded, &mut path));
    let path = is_known.then_some(&*path);
    error_page_at(path, status, request.error_format, archive, request_buffers).prepared
}

/// Returns whether content with these fields is JSON.
fn is_json(block: &SharedBlock<'_>) -> bool {
    MediaType::parse(block.media_type()).is_some_and(|media_type| media_type.is_json())
}

/// Returns the decoded path of a request, in the form of the rules for fields of an archive. `None`
/// if there are no such rules, or the path names no resource at all.
pub fn field_rules_path(archive: &Archive<'_>, head: &RequestHead<'_>) -> Option<Box<[u8]>> {
    if archive.field_rules().is_empty() {
        return None;
    }
    let mut path = Vec::new();
    append_path(head, &mut Vec::new(), &mut path).then(|| path.into())
}

/// Returns the default field lines of a script's responses, with the rules for the path of the
/// request. Fields that say how long a response may be kept are left out: only the script knows
/// that.
pub fn script_fields(
    archive: &Archive<'_>,
    path: &[u8],
    request_buffers: &mut RequestBuffers,
) -> Vec<u8> {
    let block = generated_block(archive);
    let block =
        request_buffers.fields.apply_to_path(archive, Some(path), block, FieldSort::NoContent);
    without_storing(block.fields_without_type())
}

/// Returns the lines of [`script_fields`] without a path.
#[must_use]
pub fn pathless_script_fields(archive: &Archive<'_>) -> Vec<u8> {
    without_storing(generated_fields(archive))
}

fn without_storing(fields: SharedFields<'_>) -> Vec<u8> {
    let lines = fields.h1.split_inclusive(|&byte| byte == b'\n');
    let is_kept = |line: &&[u8]| !line.to_ascii_lowercase().starts_with(b"cache-control:");
    lines.filter(is_kept).collect::<Vec<_>>().concat()
}

/// Returns the target page of a rewrite, in `target` unless it is empty: it is not sent, but its
/// rules apply.
fn missing_page(target: &[u8]) -> SentPage<'_> {
    SentPage { path: target, is_stored: false }
}

/// Returns whether the content of an entry, which would be sent with the status of an error, gives
/// way to problem details.
pub(crate) fn gives_way_to_problem_details(
    lookup: &SiteLookup<'_, '_>,
    status: u16,
    block: &SharedBlock<'_>,
) -> bool {
    let accept = || lookup.head.values(KnownField::Accept);
    status >= 400
        && preferred_error_format(accept()) == ErrorFormat::ProblemDetails
        && !is_json(block)
}

/// Returns the response with the page of a status for a request whose path is not looked up: for
/// CONNECT, whose responses no cache stores (RFC 9110 §9.3.6).
pub(crate) fn pathless_error<'x>(
    status: u16,
    archive: &Archive<'x>,
    head: &RequestHead<'_>,
) -> Prepared<'x> {
    let error_format = preferred_error_format(head.values(KnownField::Accept));
    let page = StoredErrorPage::of(status, error_format, archive);
    page.response(&page.fields).prepared
}

/// Returns the response with the page of a status for a request that is not answered from the
/// archive, with the fields of the rules for its path.
pub fn error_for<'x>(
    status: u16,
    archive: &Archive<'x>,
    head: &RequestHead<'x>,
    request_buffers: &'x mut RequestBuffers,
) -> Prepared<'x> {
    let error_format = preferred_error_format(head.values(KnownField::Accept));
    error_in_format_for(status, error_format, archive, head, request_buffers).prepared
}

/// Returns the response of [`error_for`] for a client that prefers this format.
pub fn error_in_format_for<'x>(
    status: u16,
    error_format: ErrorFormat,
    archive: &Archive<'x>,
    head: &RequestHead<'x>,
    request_buffers: &'x mut RequestBuffers,
) -> ErrorResponse<'x> {
    let lookup = SiteLookup { archive: *archive, head, now: 0 };
    let RequestBuffers { text, path, fields, .. } = request_buffers;
    let buffers = ResponseBuffers { text, decoded: path, target: b"", fields };
    error_in_format(&lookup, status, error_format, buffers)
}

/// Returns the response to OPTIONS for a request that is not answered from the archive, with the
/// fields of the rules for its path.
pub fn options_for<'x>(
    archive: &Archive<'x>,
    head: &RequestHead<'x>,
    request_buffers: &'x mut RequestBuffers,
) -> Prepared<'x> {
    let lookup = SiteLookup { archive: *archive, head, now: 0 };
    let RequestBuffers { text, path, fields, .. } = request_buffers;
    options(&lookup, ResponseBuffers { text, decoded: path, target: b"", fields })
}

/// Returns the response to OPTIONS for a resource (RFC 9110 §9.3.7).
pub(crate) fn options<'x>(
    lookup: &SiteLookup<'_, 'x>,
    buffers: ResponseBuffers<'x>,
) -> Prepared<'x> {
    let block = generated_block(&lookup.archive);
    let sent = missing_page(buffers.target);
    let block = buffers.apply(lookup, block, FieldSort::NoContent, sent);
    Prepared { shared: block.fields_without_type(), ..server_options(&lookup.archive) }
}

/// Returns the response to OPTIONS for the server as a whole.
pub(crate) fn server_options<'x>(archive: &Archive<'x>) -> Prepared<'x> {
    let shared = generated_fields(archive);
    Prepared { shared, allow: Some(ALLOW), ..Prepared::empty(204) }
}

/// Returns the fields of all responses that the server generates for a site: those in the archive,
/// else the built-in ones.
#[must_use]
pub fn generated_fields<'x>(archive: &Archive<'x>) -> SharedFields<'x> {
    generated_block(archive).fields_without_type()
}

pub(crate) fn generated_block<'x>(archive: &Archive<'x>) -> SharedBlock<'x> {
    let shared = archive.shared_for(Role::Generated);
    shared.unwrap_or_else(|| SharedBlock::of_lines(error_page::BUILT_IN_FIELDS, b"", 0))
}
