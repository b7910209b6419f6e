//! Responses of an archive as a developer gets them: pages with the script that reloads them, and
//! nothing that a browser keeps without asking.

use super::Developer;
use pinion_http::field::KnownField;
use pinion_http::prepared_response::{Piece, Prepared, PreparedBody, SharedFields};
use pinion_http::request_head::RequestHead;

/// Fields by which a browser asks for less than all of a representation, or for a coding of it.
/// The end of a page can be added to neither.
const NARROWING: [KnownField; 5] = [
    KnownField::AcceptEncoding,
    KnownField::IfModifiedSince,
    KnownField::IfNoneMatch,
    KnownField::IfRange,
    KnownField::Range,
];

/// Returns the head of a request for the whole representation without a coding.
pub(crate) fn widened<'h>(head: &RequestHead<'h>) -> RequestHead<'h> {
    RequestHead { known: head.known.without(&NARROWING), ..*head }
}

impl Developer {
    /// Calls `send` with the developer's version of a response. A browser has to revalidate
    /// everything in its cache, as a page that reloads must not show an earlier state of the site.
    pub(crate) fn adapt<R>(
        self,
        response: &Prepared<'_>,
        send: impl FnOnce(&Prepared<'_>) -> R,
    ) -> R {
        let is_page = self.wants_page && is_html(response);
        let lines = revalidated(response.shared.h1, is_page);
        let response = Prepared { shared: SharedFields::h1(&lines), ..*response };
        let Some(length) = response.content_length.filter(|_| is_page) else {
            return send(&response);
        };
        let end = self.page_end();
        let response = Prepared {
            etag: None,
            last_modified: None,
            content_length: Some(length + end.len() as u64),
            ..response
        };
        match response.body {
            PreparedBody::Archive(pieces) => {
                let pieces = [pieces, &[Piece::Bytes(&end)]].concat();
                send(&Prepared { body: PreparedBody::Archive(&pieces), ..response })
            }
            PreparedBody::Bytes(page) => {
                let page = [page, &end].concat();
                send(&Prepared { body: PreparedBody::Bytes(&page), ..response })
            }
            PreparedBody::None => send(&Prepared { content_length: Some(length), ..response }),
        }
    }
}

/// Returns whether a response is a whole page of HTML.
fn is_html(response: &Prepared<'_>) -> bool {
    let is_html_type = |value: &[u8]| {
        let essence = value.split(|&byte| byte == b';').next().unwrap_or_default();
        essence.trim_ascii().eq_ignore_ascii_case(b"text/html")
    };
    let has_type = match response.content_type {
        Some(value) => is_html_type(value),
        None => value_of(response.shared.h1, b"content-type").is_some_and(is_html_type),
    };
    let is_coded = value_of(response.shared.h1, b"content-encoding").is_some();
    has_type && !is_coded && response.content_range.is_none()
}

/// Returns the field lines with a `Cache-Control` by which a browser asks each time. A page is not
/// stored at all, and has no parts.
fn revalidated(lines: &[u8], is_page: bool) -> Vec<u8> {
    let mut kept = Vec::with_capacity(lines.len() + 32);
    let mut is_stored = !is_page;
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        if is_named(line, b"cache-control") {
            is_stored &= !line.windows(8).any(|part| part == b"no-store");
        } else if !(is_page && is_named(line, b"accept-ranges")) {
            kept.extend_from_slice(line);
        }
    }
    let value: &[u8] = if is_stored { b"no-cache" } else { b"no-store" };
    for part in [b"Cache-Control: ", value, b"\r\n"] {
        kept.extend_from_slice(part);
    }
    kept
}

fn value_of<'l>(lines: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let mut lines = lines.split(|&byte| byte == b'\n');
    lines.find(|line| is_named(line, name)).and_then(|line| line.get(name.len() + 1..))
}

fn is_named(line: &[u8], name: &[u8]) -> bool {
    let is_equal = |start: &[u8]| start.eq_ignore_ascii_case(name);
    line.get(name.len()) == Some(&b':') && line.get(..name.len()).is_some_and(is_equal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_http::prepared_response::ArchiveRange;

    const PAGE: &[u8] = b"Content-Type: text/html; charset=utf-8\r\nCache-Control: max-age=9\r\n\
        Vary: Accept-Encoding\r\n";

    fn developer(wants_page: bool) -> Developer {
        Developer { version: 1, wants_page }
    }

    /// Returns the field lines, the length and the number of pieces of a response.
    fn adapted(developer: Developer, response: &Prepared<'_>) -> (String, Option<u64>, usize) {
        developer.adapt(response, |response| {
            let lines = String::from_utf8(response.shared.h1.to_vec()).expect("text");
            let pieces = match response.body {
                PreparedBody::Archive(pieces) => pieces.len(),
                PreparedBody::Bytes(_) => 1,
                PreparedBody::None => 0,
            };
            if let PreparedBody::Bytes(page) = response.body {
                assert_eq!(response.content_length, Some(page.len() as u64));
            }
            (lines, response.content_length, pieces)
        })
    }

    #[test]
    fn a_page_gets_an_end_and_is_not_stored() {
        let piece = [Piece::Archive(ArchiveRange { offset: 0, bytes: 10 })];
        let response = Prepared {
            shared: SharedFields::h1(PAGE),
            etag: Some(b"tag"),
            content_length: Some(10),
            body: PreparedBody::Archive(&piece),
            ..Prepared::empty(200)
        };
        let end = developer(true).page_end().len() as u64;
        let (lines, length, pieces) = adapted(developer(true), &response);
        assert_eq!((length, pieces), (Some(10 + end), 2));
        assert!(lines.contains("no-store") && !lines.contains("max-age"), "{lines}");
        // Content that a script of a page requests is not changed.
        let (lines, length, pieces) = adapted(developer(false), &response);
        assert_eq!((length, pieces), (Some(10), 1));
        assert!(lines.contains("no-cache") && lines.contains("Vary"), "{lines}");
        // An error page keeps the field that forbids to store it.
        let error = SharedFields::h1(b"Cache-Control: no-store\r\n");
        let (lines, ..) = adapted(developer(false), &Prepared { shared: error, ..response });
        assert_eq!(lines, "Cache-Control: no-store\r\n");
    }

    #[test]
    fn only_whole_html_without_a_coding_gets_an_end() {
        let html = Prepared {
            content_type: Some(b"text/html; charset=utf-8"),
            content_length: Some(2),
            body: PreparedBody::Bytes(b"hi"),
            ..Prepared::empty(404)
        };
        let is_longer = |response: &Prepared<'_>| adapted(developer(true), response).1 > Some(2);
        assert!(is_longer(&html));
        assert!(!is_longer(&Prepared { content_type: Some(b"text/plain"), ..html }));
        assert!(!is_longer(&Prepared {
            content_type: Some(b"text/html5"),
            ..Prepared::empty(200)
        }));
        let coded = SharedFields::h1(b"Content-Encoding: br\r\n");
        assert!(!is_longer(&Prepared { shared: coded, ..html }));
        assert!(!is_longer(&Prepared { body: PreparedBody::None, ..html }));
    }
}
