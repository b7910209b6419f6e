//! The rules that every response must obey, whatever the request. The tests check every response
//! with them.

use crate::protocol::Protocol;
use crate::response::Response;

/// Fields that only HTTP/1 has: a response with one of them is malformed over HTTP/2 and HTTP/3.
const OF_THE_CONNECTION: [&str; 5] =
    ["Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"];

/// Checks one response, interim or final.
///
/// # Panics
/// Panics with the paragraph that the response breaks.
#[track_caller]
pub fn check(response: &Response, to_head: bool) {
    if let Some(broken) = broken(response, to_head) {
        panic!("{broken}\n{response}");
    }
}

/// Returns whether a response is only for clients with the same `Accept`.
fn varies_by_accept(response: &Response) -> bool {
    let mut members = response.values("Vary").flat_map(|value| value.split(", "));
    members.any(|member| member.eq_ignore_ascii_case("accept"))
}

fn broken(response: &Response, to_head: bool) -> Option<&'static str> {
    let has = |name| response.values(name).next().is_some();
    let value = |name| response.values(name).next().unwrap_or_default();
    let (status, protocol) = (response.status, response.protocol);
    if let Some(broken) = broken_over(protocol, response) {
        return Some(broken);
    }
    if (100..200).contains(&status) {
        let framed = has("Content-Length") || has("Transfer-Encoding");
        return framed.then_some("RFC 9112 §6.3: an interim answer has no content");
    }
    // A 304 does not have the coding of the content, only the fact that there are several.
    let may_be_encoded = has("Content-Encoding") || status == 304 && has("Vary");
    // Each cookie has a line of its own, which RFC 9110 §5.3 allows.
    let repeated = response.fields.iter().any(|(name, _)| {
        !name.eq_ignore_ascii_case("set-cookie") && response.values(name).nth(1).is_some()
    });
    [
        (repeated, "RFC 9110 §5.3: no field of ours may come twice"),
        (!is_date(value("Date")), "RFC 9110 §6.6.1: Date, as an IMF-fixdate"),
        (
            matches!(status, 204 | 304) && has("Content-Length"),
            "RFC 9110 §8.6: no Content-Length in 204, none that could be wrong in 304",
        ),
        (
            has("ETag") && !is_tag(value("ETag"), may_be_encoded),
            "RFC 9110 §8.8.3: an entity tag, a strong one unless it is of encoded content",
        ),
        (
            has("Last-Modified") && !is_date(value("Last-Modified")),
            "RFC 9110 §8.8.2: Last-Modified is a date",
        ),
        (
            has("Content-Encoding") && !value("Vary").contains("Accept-Encoding"),
            "RFC 9110 §12.5.5: Vary names what the choice was made by",
        ),
        (status == 405 && !has("Allow"), "RFC 9110 §15.5.6: 405 comes with Allow"),
        (
            status == 416 && !value("Content-Range").starts_with("bytes */"),
            "RFC 9110 §15.5.17: 416 says how long the representation is",
        ),
        (
            status == 206
                && has("Content-Range")
                    == value("Content-Type").starts_with("multipart/byteranges"),
            "RFC 9110 §15.3.7: Content-Range in 206, unless the parts have it",
        ),
        (
            matches!(status, 301 | 302 | 303 | 307 | 308) && !has("Location"),
            "RFC 9110 §15.4: a redirect says where to",
        ),
        (
            status >= 400 && value("Cache-Control") != "no-store" && !varies_by_accept(response),
            "docs/resolution.md: errors are not cached, or only for clients with the same Accept",
        ),
        (
            !response.body.is_empty() && !has("Content-Type"),
            "RFC 9110 §8.3: content has a media type",
        ),
        (to_head && !response.body.is_empty(), "RFC 9110 §9.3.2: no content in answer to HEAD"),
        (
            !to_head
                && has("Content-Length")
                && value("Content-Length") != response.body.len().to_string(),
            "RFC 9110 §8.6: Content-Length is the length of the content",
        ),
    ]
    .into_iter()
    .find_map(|(is_broken, law)| is_broken.then_some(law))
}

/// Returns the rule of its protocol that a response breaks.
fn broken_over(protocol: Protocol, response: &Response) -> Option<&'static str> {
    let has = |name: &&str| response.values(name).next().is_some();
    let of_connection = OF_THE_CONNECTION.iter().any(has);
    if !protocol.is_http1() && of_connection {
        return Some("RFC 9113 §8.2.2, RFC 9114 §4.2: no fields about the connection");
    }
    let is_upper =
        |(name, _): &(String, String)| name.bytes().any(|byte| byte.is_ascii_uppercase());
    if !protocol.is_http1() && response.fields.iter().any(is_upper) {
        return Some("RFC 9113 §8.2.1, RFC 9114 §4.2: names in lower case");
    }
    if !protocol.is_encrypted() && has(&"Strict-Transport-Security") {
        return Some("RFC 6797 §7.2: not over a transport that is not secure");
    }
    // RFC 7838 §2.1 allows the field over plain HTTP, but a client could not trust it.
    (!protocol.is_encrypted() && has(&"Alt-Svc")).then_some("docs/http3.md: Alt-Svc over TLS alone")
}

/// Returns whether a text has the format `IMF-fixdate` of RFC 9110 §5.6.7.
fn is_date(text: &str) -> bool {
    let shape = "aaa, 00 aaa 0000 00:00:00 GMT";
    text.len() == shape.len()
        && text.ends_with(" GMT")
        && text.chars().zip(shape.chars()).all(|(own, wanted)| match wanted {
            'a' => own.is_ascii_alphabetic(),
            '0' => own.is_ascii_digit(),
            other => own == other,
        })
}

/// Returns whether a text is an entity tag. Content that is compressed while it is sent has the tag
/// of its file, as a weak one.
fn is_tag(text: &str, may_be_weak: bool) -> bool {
    let strong = text.strip_prefix("W/").filter(|_| may_be_weak).unwrap_or(text);
    let opaque = strong.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    opaque.is_some_and(|opaque| !opaque.is_empty() && !opaque.contains(['"', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, fields: &[(&str, &str)]) -> Response {
        let date = [("Date", "Sun, 06 Nov 1994 08:49:37 GMT")];
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let fields = date.iter().chain(fields).map(own).collect();
        let (protocol, reason) = (Protocol::Http1, String::new());
        Response { protocol, status, reason, fields, body: Vec::new() }
    }

    #[test]
    fn valid_responses_pass() {
        let fields = [("ETag", "\"x\""), ("Content-Encoding", "br"), ("Vary", "Accept-Encoding")];
        assert_eq!(broken(&response(200, &fields), false), None);
        assert_eq!(broken(&response(404, &[("Cache-Control", "no-store")]), false), None);
        assert_eq!(broken(&response(404, &[("Vary", "Origin, Accept")]), false), None);
        assert_eq!(broken(&response(206, &[("Content-Range", "bytes 0-0/1")]), false), None);
    }

    #[test]
    fn responses_that_violate_an_invariant_are_found() {
        let multipart = ("Content-Type", "multipart/byteranges; boundary=x");
        for (status, fields) in [
            (200, &[("Date", "Sun, 06 Nov 1994 08:49:37 GMT")][..]),
            (200, &[("ETag", "W/\"x\"")]),
            (200, &[("ETag", "x")]),
            (200, &[("Last-Modified", "today")]),
            (200, &[("Content-Encoding", "br")]),
            (204, &[("Content-Length", "0")]),
            (206, &[]),
            (206, &[multipart, ("Content-Range", "bytes 0-0/1")]),
            (304, &[("Content-Length", "0")]),
            (308, &[]),
            (404, &[("Cache-Control", "max-age=0")]),
            (404, &[("Vary", "Accept-Encoding")]),
            (405, &[("Cache-Control", "no-store")]),
            (416, &[("Cache-Control", "no-store"), ("Content-Range", "bytes 0-0/1")]),
        ] {
            assert!(broken(&response(status, fields), false).is_some(), "{status} {fields:?}");
        }
        assert!(!is_date("Sunday, 06-Nov-94 08:49:37 GMT") && !is_date(""));
    }

    #[test]
    fn fields_that_the_protocol_forbids_are_found() {
        let over = |protocol, name, value| {
            let mut response = response(404, &[("Cache-Control", "no-store"), (name, value)]);
            for (name, _) in &mut response.fields {
                *name =
                    if protocol == Protocol::Http1Tls { name.clone() } else { name.to_lowercase() };
            }
            response.protocol = protocol;
            broken(&response, false)
        };
        for protocol in [Protocol::Http2, Protocol::Http2Clear, Protocol::Http3] {
            assert_eq!(over(protocol, "x", "y"), None);
            for name in OF_THE_CONNECTION {
                assert!(over(protocol, name, "x").is_some(), "{name}");
            }
        }
        for name in ["Strict-Transport-Security", "Alt-Svc"] {
            assert_eq!(over(Protocol::Http1Tls, name, "x"), None);
            assert!(over(Protocol::Http1, name, "x").is_some());
            assert!(over(Protocol::Http2Clear, name, "x").is_some());
        }
        assert!(over(Protocol::Http1, "Content-Length", "1").is_some());
        let mut upper = response(404, &[("Cache-Control", "no-store")]);
        upper.protocol = Protocol::Http2;
        assert!(broken(&upper, false).is_some(), "names in upper case");
    }
}
