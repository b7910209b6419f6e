//! The locations of redirects.

use pinion_http::prepared_response::Location;
use pinion_http::request_target::{escape, is_path_byte, is_uri_byte};

/// Writes a decoded path as the path of a URI reference, with a `slash` at its end if requested.
/// Returns false if it would read as another reference: `//name` is the name of another host (RFC
/// 3986 §4.2).
pub(crate) fn write_path(out: &mut Vec<u8>, path: &[u8]) -> bool {
    out.clear();
    escape(out, path.iter().copied(), is_path_byte);
    !path.starts_with(b"//")
}

/// Returns the location of a path in `text`, with the query of the request.
pub(crate) fn slash<'x>(text: &'x mut Vec<u8>, query: Option<&'x [u8]>) -> Location<'x> {
    let path_bytes = text.len();
    let clean = query.is_none_or(is_uri);
    if let Some(query) = query
        && !clean
    {
        escape(text, query.iter().copied(), is_uri_byte);
    }
    let (path, escaped) = text.split_at(path_bytes.min(text.len()));
    Location { path, query: if clean { query } else { Some(escaped) } }
}

/// Returns the location of a redirect entry whose query is carried over. The target may have a
/// query of its own, to which the client's query is joined, and a fragment, which stays last.
pub(crate) fn with_query<'x>(
    target: &'x [u8],
    query: Option<&'x [u8]>,
    out: &'x mut Vec<u8>,
) -> Location<'x> {
    let Some(query) = query else { return Location { path: target, query: None } };
    let end = target.iter().position(|&byte| byte == b'#').unwrap_or(target.len());
    let (base, fragment) = target.split_at(end);
    let has_query = base.contains(&b'?');
    if fragment.is_empty() && !has_query && is_uri(query) {
        return Location { path: target, query: Some(query) };
    }
    out.clear();
    out.extend_from_slice(base);
    out.push(if has_query { b'&' } else { b'?' });
    escape(out, query.iter().copied(), is_uri_byte);
    out.extend_from_slice(fragment);
    Location { path: out, query: None }
}

fn is_uri(query: &[u8]) -> bool {
    query.iter().all(|&byte| is_uri_byte(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped_byte_by_byte() {
        let mut out = Vec::new();
        assert!(write_path(&mut out, "/a b/ü%?#".as_bytes()));
        assert_eq!(out, b"/a%20b/%C3%BC%25%3F%23");
        assert!(write_path(&mut out, b"/\\evil\r\n"));
        assert_eq!(out, b"/%5Cevil%0D%0A");
    }

    #[test]
    fn a_path_that_begins_with_two_slashes_is_refused() {
        assert!(!write_path(&mut Vec::new(), b"//evil.example/x"));
    }

    /// RFC 3986 §3.4: a browser's query may have bytes that no URI has; a location is one.
    #[test]
    fn a_slash_redirect_keeps_and_escapes_the_query() {
        for (query, expected) in [
            (None, None),
            (Some("a=b"), Some("a=b")),
            (Some("{a}|b"), Some("%7Ba%7D%7Cb")),
            (Some(""), Some("")),
        ] {
            let mut text = b"/dir/".to_vec();
            let location = slash(&mut text, query.map(str::as_bytes));
            assert_eq!(location.path, b"/dir/");
            assert_eq!(location.query, expected.map(str::as_bytes));
        }
    }

    #[test]
    fn a_query_is_inserted_before_the_fragment() {
        let joined = |target: &'static [u8], query| {
            let mut out = Vec::new();
            let location = with_query(target, query, &mut out);
            let mut whole = location.path.to_vec();
            if let Some(query) = location.query {
                whole.push(b'?');
                whole.extend_from_slice(query);
            }
            String::from_utf8(whole).expect("ASCII")
        };
        assert_eq!(joined(b"/a", None), "/a");
        assert_eq!(joined(b"/a#f", None), "/a#f");
        assert_eq!(joined(b"/a", Some(b"x=1")), "/a?x=1");
        assert_eq!(joined(b"/a?y=2", Some(b"x=1")), "/a?y=2&x=1");
        assert_eq!(joined(b"/a#f?g", Some(b"x=1")), "/a?x=1#f?g");
        assert_eq!(joined(b"/a", Some(b"{x}|^`\\%7B")), "/a?%7Bx%7D%7C%5E%60%5C%7B");
        assert_eq!(joined(b"/a#f", Some(b"x|y")), "/a?x%7Cy#f");
        assert_eq!(joined(b"/a?y#f", Some(b"x")), "/a?y&x#f");
    }
}
