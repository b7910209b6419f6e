//! What every answer must obey, whatever the request: checked on every answer of every test.

use crate::response::Response;

/// Checks one answer, interim or final.
///
/// # Panics
/// With the paragraph that it breaks.
#[track_caller]
pub fn check(response: &Response, to_head: bool) {
    if let Some(broken) = broken(response, to_head) {
        panic!("{broken}\n{response}");
    }
}

fn broken(response: &Response, to_head: bool) -> Option<&'static str> {
    let has = |name| response.values(name).next().is_some();
    let value = |name| response.values(name).next().unwrap_or_default();
    let status = response.status;
    if (100..200).contains(&status) {
        let framed = has("Content-Length") || has("Transfer-Encoding");
        return framed.then_some("RFC 9112 §6.3: an interim answer has no content");
    }
    let repeated = response.fields.iter().any(|(name, _)| response.values(name).nth(1).is_some());
    [
        (repeated, "RFC 9110 §5.3: no field of ours may come twice"),
        (!is_date(value("Date")), "RFC 9110 §6.6.1: Date, as an IMF-fixdate"),
        (
            matches!(status, 204 | 304) && has("Content-Length"),
            "RFC 9110 §8.6: no Content-Length in 204, none that could be wrong in 304",
        ),
        (has("ETag") && !is_strong_tag(value("ETag")), "RFC 9110 §8.8.3: a strong entity tag"),
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
            status >= 400 && value("Cache-Control") != "no-store",
            "design §5: errors are never cached",
        ),
        (
            !response.body.is_empty() && !has("Content-Type"),
            "RFC 9110 §8.3: content has a media type",
        ),
        (to_head && !response.body.is_empty(), "RFC 9110 §9.3.2: no content in answer to HEAD"),
    ]
    .into_iter()
    .find_map(|(is_broken, law)| is_broken.then_some(law))
}

/// `IMF-fixdate` of RFC 9110 §5.6.7.
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

fn is_strong_tag(text: &str) -> bool {
    let opaque = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    opaque.is_some_and(|opaque| !opaque.is_empty() && !opaque.contains(['"', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, fields: &[(&str, &str)]) -> Response {
        let date = [("Date", "Sun, 06 Nov 1994 08:49:37 GMT")];
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let fields = date.iter().chain(fields).map(own).collect();
        Response { status, reason: String::new(), fields, body: Vec::new() }
    }

    #[test]
    fn what_is_right_passes() {
        let fields = [("ETag", "\"x\""), ("Content-Encoding", "br"), ("Vary", "Accept-Encoding")];
        assert_eq!(broken(&response(200, &fields), false), None);
        assert_eq!(broken(&response(404, &[("Cache-Control", "no-store")]), false), None);
        assert_eq!(broken(&response(206, &[("Content-Range", "bytes 0-0/1")]), false), None);
    }

    #[test]
    fn what_breaks_the_law_is_found() {
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
            (405, &[("Cache-Control", "no-store")]),
            (416, &[("Cache-Control", "no-store"), ("Content-Range", "bytes 0-0/1")]),
        ] {
            assert!(broken(&response(status, fields), false).is_some(), "{status} {fields:?}");
        }
        assert!(!is_date("Sunday, 06-Nov-94 08:49:37 GMT") && !is_date(""));
    }
}
