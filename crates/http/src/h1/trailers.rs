//! The trailer fields of chunked content (RFC 9112 §7.1.2), without those that are forbidden there.
//!
//! They are never merged into the fields of the head (RFC 9110 §6.5.1): the head was acted upon
//! before they came, and a client that may not set a field there could set it here.

use super::head_lexer;
use super::head_parser::HeadStorage;
use crate::field::{Fields, is_same_name};
use crate::limits::FIELDS_MAX;
use crate::refusal::Refusal;

/// Reads a whole trailer section, as [`BodyStep::End`](super::body::BodyStep::End) has it. Fields
/// that are [forbidden](is_forbidden) there are left out.
///
/// # Errors
/// A line that is no field line, or more lines than a head may have.
#[inline]
pub fn read<'h>(section: &'h [u8], storage: &'h mut HeadStorage) -> Result<Fields<'h>, Refusal> {
    match section {
        // The usual cases: no section, or a blank line.
        [] | [_, _] => Ok(Fields::EMPTY),
        _ => read_some(section, storage),
    }
}

#[cold]
fn read_some<'h>(section: &'h [u8], storage: &'h mut HeadStorage) -> Result<Fields<'h>, Refusal> {
    read_allowed(section, storage, is_forbidden)
}

/// Reads a whole trailer section, and leaves out the fields whose names are forbidden.
fn read_allowed<'h>(
    section: &'h [u8],
    storage: &'h mut HeadStorage,
    is_forbidden: impl Fn(&[u8]) -> bool,
) -> Result<Fields<'h>, Refusal> {
    let lines = storage.lines();
    head_lexer::field_lines(section, lines, FIELDS_MAX)?;
    lines.retain(|line| !is_forbidden(line.name_in(section)));
    Ok(Fields::new(section, lines))
}

/// Reads the whole trailer section of a response as [`read`] does that of a request, without the
/// fields that are [forbidden](is_forbidden_in_response) there.
pub(super) fn read_response<'h>(
    section: &'h [u8],
    storage: &'h mut HeadStorage,
) -> Result<Fields<'h>, Refusal> {
    match section {
        [] | [_, _] => Ok(Fields::EMPTY),
        _ => read_allowed(section, storage, is_forbidden_in_response),
    }
}

/// Fields that are forbidden after the content, because they are acted upon before it, or trusted:
/// framing, routing, the connection, controls of the request, authentication, the processing of the
/// content (RFC 9110 §6.5.1; the list is that of RFC 7230 §4.1.2 for requests), and the claims of
/// proxies about the client and its request (RFC 7239, and the widespread names without one).
const FORBIDDEN: [&str; 24] = [
    "Authorization",
    "CF-Connecting-IP",
    "Cache-Control",
    "Connection",
    "Content-Encoding",
    "Content-Length",
    "Content-Range",
    "Content-Type",
    "Cookie",
    "Expect",
    "Forwarded",
    "Host",
    "Keep-Alive",
    "Max-Forwards",
    "Pragma",
    "Range",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "True-Client-IP",
    "Upgrade",
    "Via",
    "X-Client-IP",
    "X-HTTP-Method-Override",
];

/// Fronts of such names.
const FORBIDDEN_FRONTS: [&str; 6] =
    ["If-", "Proxy-", "X-Forwarded-", "X-Original-", "X-Real-", "X-Rewrite-"];

/// Fields that are forbidden after the content of a response, because a recipient acts on them
/// before the content: framing, the connection, control data, cookies and authentication, the
/// processing of the content (RFC 9110 §6.5.1; the list is that of RFC 7230 §4.1.2 for responses),
/// and the policies that browsers apply to a page or a site.
const FORBIDDEN_IN_RESPONSE: [&str; 27] = [
    "Age",
    "Alt-Svc",
    "Cache-Control",
    "Clear-Site-Data",
    "Connection",
    "Content-Encoding",
    "Content-Length",
    "Content-Location",
    "Content-Range",
    "Content-Security-Policy",
    "Content-Type",
    "Date",
    "Expires",
    "Keep-Alive",
    "Location",
    "Proxy-Authenticate",
    "Proxy-Connection",
    "Retry-After",
    "Set-Cookie",
    "Strict-Transport-Security",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
    "Vary",
    "Via",
    "WWW-Authenticate",
    "Warning",
];

/// Returns whether a field of this name is left out of the trailers of a response.
#[must_use]
pub fn is_forbidden_in_response(name: &[u8]) -> bool {
    FORBIDDEN_IN_RESPONSE.iter().any(|known| is_same_name(name, known))
}

/// Returns whether a field of this name is left out of the trailers of a request.
#[must_use]
pub fn is_forbidden(name: &[u8]) -> bool {
    FORBIDDEN.iter().any(|known| is_same_name(name, known))
        || FORBIDDEN_FRONTS
            .iter()
            .any(|front| name.get(..front.len()).is_some_and(|begins| is_same_name(begins, front)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_with_a_meaning_for_a_server_are_dropped() {
        let section = b"Digest: x\r\nHOST: evil\r\ntransfer_encoding: chunked\r\nX-Sum:\t 7 \r\n\
            x-forwarded-for: 1.2.3.4\r\nIf-Match: *\r\nHosts: fine\r\nX-Sum: 8\r\nEmpty:\r\n\r\n";
        let mut storage = HeadStorage::new();
        let fields = read(section, &mut storage).unwrap();
        let names: Vec<_> = fields.iter().map(|field| field.name).collect();
        assert_eq!(names, [&b"Digest"[..], b"X-Sum", b"Hosts", b"X-Sum", b"Empty"]);
        assert_eq!(fields.all(b"x-sum").collect::<Vec<_>>(), [b"7", b"8"]);
        assert_eq!(fields.get(b"empty"), Some(&b""[..]));
    }

    #[test]
    fn every_forbidden_name_is_dropped_in_any_spelling() {
        for name in FORBIDDEN.iter().chain(&FORBIDDEN_FRONTS) {
            for spelling in [name.to_lowercase(), name.to_uppercase(), name.replace('-', "_")] {
                assert!(is_forbidden(spelling.as_bytes()), "{spelling}");
            }
        }
        for name in ["", "X", "Hos", "Hosts", "Content-Digest", "ETag", "Iffy", "X-Forwarded"] {
            assert!(!is_forbidden(name.as_bytes()), "{name}");
        }
    }

    /// RFC 9110 §6.5.1, and §11.6.3 allows `Authentication-Info` there.
    #[test]
    fn names_forbidden_in_response_trailers_are_dropped() {
        for name in FORBIDDEN_IN_RESPONSE {
            for spelling in [name.to_lowercase(), name.to_uppercase(), name.replace('-', "_")] {
                assert!(is_forbidden_in_response(spelling.as_bytes()), "{spelling}");
            }
        }
        for name in ["", "ETag", "Content-Digest", "Server-Timing", "Authentication-Info", "Ages"] {
            assert!(!is_forbidden_in_response(name.as_bytes()), "{name}");
        }
        let section = b"Content-Digest: x\r\nSet-Cookie: a=b\r\ncontent_length: 5\r\n\r\n";
        let mut storage = HeadStorage::new();
        let fields = read_response(section, &mut storage).unwrap();
        let names: Vec<_> = fields.iter().map(|field| field.name).collect();
        assert_eq!(names, [b"Content-Digest"]);
        assert!(read_response(b"\r\n", &mut storage).unwrap().is_empty());
    }

    #[test]
    fn trailers_have_the_line_limit_of_a_head() {
        let mut storage = HeadStorage::reserved();
        let section = |lines: usize| ["X: y\r\n".repeat(lines), "\r\n".to_owned()].concat();
        let most = section(FIELDS_MAX);
        assert_eq!(read(most.as_bytes(), &mut storage).unwrap().len(), FIELDS_MAX);
        let more = section(FIELDS_MAX + 1);
        assert_eq!(read(more.as_bytes(), &mut storage).err(), Some(Refusal::TooManyFields));
        for section in ["", "\r\n"] {
            assert!(read(section.as_bytes(), &mut storage).unwrap().is_empty());
        }
    }
}
