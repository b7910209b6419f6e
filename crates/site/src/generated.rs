//! Answers without an entry: error pages and the answers to OPTIONS.

use pinion_archive::{Archive, Role};
use pinion_http::field::KnownField;
use pinion_http::negotiate::prefers_text;
use pinion_http::page::page;
use pinion_http::prepared::{Prepared, PreparedBody, SharedFields};
use pinion_http::request::RequestHead;

/// What every resource of a site can be asked with (RFC 9110 §9.1: GET and HEAD at least).
pub(crate) const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

/// Fields of a generated answer when the archive brings none of its own.
const BUILT_IN_FIELDS: &[u8] = b"Cache-Control: no-store\r\n\
    X-Content-Type-Options: nosniff\r\n\
    Referrer-Policy: strict-origin-when-cross-origin\r\n\
    X-Frame-Options: SAMEORIGIN\r\n";

/// The built-in page of a status, as HTML or text, with the built-in fields: for refusals, when
/// there is no request head and perhaps no archive. Never cached.
pub fn error_page(status: u16, text: bool) -> Prepared<'static> {
    with_page(status, text, BUILT_IN_FIELDS)
}

/// The built-in page of a status in the form the client prefers, with the archive's fields for
/// generated answers.
pub(crate) fn error<'x>(
    status: u16,
    archive: &Archive<'x>,
    head: &RequestHead<'_>,
) -> Prepared<'x> {
    let text = prefers_text(head.values(KnownField::Accept));
    let answer = with_page(status, text, fields(archive));
    Prepared { allow: (status == 405).then_some(ALLOW), ..answer }
}

/// The answer to OPTIONS, of one resource or of the server (RFC 9110 §9.3.7).
pub(crate) fn options<'x>(archive: &Archive<'x>) -> Prepared<'x> {
    let shared = SharedFields { h1: fields(archive) };
    Prepared { shared, allow: Some(ALLOW), ..Prepared::empty(204) }
}

/// The fields of a generated answer.
pub(crate) fn fields<'x>(archive: &Archive<'x>) -> &'x [u8] {
    archive.shared_for(Role::Generated).map_or(BUILT_IN_FIELDS, |shared| shared.without_type())
}

fn with_page(status: u16, text: bool, fields: &[u8]) -> Prepared<'_> {
    let page = page(status, text);
    Prepared {
        shared: SharedFields { h1: fields },
        content_type: Some(page.content_type),
        content_length: Some(page.body.len() as u64),
        body: PreparedBody::Bytes(page.body),
        ..Prepared::empty(status)
    }
}
