//! Answers without an entry: error pages and the answers to OPTIONS.

use pinion_archive::{Archive, Role};
use pinion_http::field::KnownField;
use pinion_http::negotiate::prefers_text;
use pinion_http::page;
use pinion_http::prepared::{Prepared, PreparedBody, SharedFields};
use pinion_http::request::RequestHead;

/// What every resource of a site can be asked with (RFC 9110 §9.1: GET and HEAD at least).
pub(crate) const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

/// The page of a status: the site's own, or the built-in one in the form the client prefers, with
/// the archive's fields for generated answers.
pub(crate) fn error<'x>(
    status: u16,
    archive: &Archive<'x>,
    head: &RequestHead<'_>,
) -> Prepared<'x> {
    let text = prefers_text(head.values(KnownField::Accept));
    let answer = error_page(status, text, archive);
    Prepared { allow: (status == 405).then_some(ALLOW), ..answer }
}

/// The page of a status: the site's own, or the built-in one as text or HTML. Neither costs a
/// look-up, and both are there whatever has become of the archive's file.
#[must_use]
pub fn error_page<'x>(status: u16, text: bool, archive: &Archive<'x>) -> Prepared<'x> {
    match archive.error_page(status) {
        Some(page) => Prepared {
            shared: page.fields,
            content_length: Some(page.body.len() as u64),
            body: PreparedBody::Bytes(page.body),
            ..Prepared::empty(status)
        },
        None => Prepared { shared: generated_fields(archive), ..page::answer(status, text, b"") },
    }
}

/// The answer to OPTIONS, of one resource or of the server (RFC 9110 §9.3.7).
pub(crate) fn options<'x>(archive: &Archive<'x>) -> Prepared<'x> {
    let shared = generated_fields(archive);
    Prepared { shared, allow: Some(ALLOW), ..Prepared::empty(204) }
}

/// The fields of whatever the server answers on behalf of a site: those the archive brings for
/// it, else the built-in ones.
#[must_use]
pub fn generated_fields<'x>(archive: &Archive<'x>) -> SharedFields<'x> {
    let shared = archive.shared_for(Role::Generated);
    shared.map_or(SharedFields::h1(page::BUILT_IN_FIELDS), |shared| shared.fields_without_type())
}
