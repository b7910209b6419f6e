//! What the bytes of a refused request still tell: enough to choose the form of the error page.

use crate::grammar::trim;
use crate::limits::HEAD_MAX_BYTES;
use crate::negotiate::prefers_text;

/// The form in which a client can read that its request is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageForm {
    /// The method is HEAD: the answer has no content (RFC 9110 §9.3.2).
    pub head_only: bool,
    /// `Accept` prefers plain text to HTML.
    pub text: bool,
}

/// Looks at what there is of a head that is malformed, over a limit or not whole. Lenient, since
/// nothing but the look of a page depends on it: lines that cannot be read are passed over.
#[cold]
#[must_use]
pub fn glance(input: &[u8]) -> PageForm {
    let input = input.get(..HEAD_MAX_BYTES).unwrap_or(input);
    let mut lines =
        input.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    // Empty lines before the request line are allowed (RFC 9112 §2.2).
    let request_line = lines.find(|line| !line.is_empty()).unwrap_or_default();
    let accept = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let (name, value) = line.split_at(colon);
        name.eq_ignore_ascii_case(b"accept").then(|| trim(value.get(1..).unwrap_or_default()))
    });
    PageForm { head_only: request_line.starts_with(b"HEAD "), text: prefers_text(accept) }
}

#[cfg(test)]
mod tests {
    use super::{PageForm, glance};

    #[test]
    fn what_a_refused_head_tells() {
        let (head, text) = (true, true);
        for (input, head_only, text) in [
            ("", !head, !text),
            ("HEAD", !head, !text),
            ("HEAD / HTTP/1.1\r\n\r\n", head, !text),
            ("\r\nHEAD / HTTP/1.1\r\n\r\n", head, !text),
            ("HEADER / HTTP/1.1\r\n\r\n", !head, !text),
            ("head / HTTP/1.1\r\n\r\n", !head, !text),
            ("GET / HTTP/1.1\r\nAccept: text/plain\r\n\r\n", !head, text),
            ("GET / HTTP/1.1\r\naccept:text/plain;q=0.5, */*;q=0.1\r\n", !head, text),
            ("GET / HTTP/1.1\nACCEPT: text/plain\n\n", !head, text),
            ("GET / HTTP/1.1\r\nHost: a b\r\nbroken\r\nAccept: text/plain", !head, text),
            ("GET / HTTP/1.1\r\nAccept: text/html\r\nAccept: text/plain\r\n\r\n", !head, !text),
            ("GET / HTTP/1.1\r\nX-Accept: text/plain\r\n\r\n", !head, !text),
            // What stands behind the blank line is no field.
            ("GET / HTTP/9.9\r\n\r\nAccept: text/plain\r\n", !head, !text),
        ] {
            assert_eq!(glance(input.as_bytes()), PageForm { head_only, text }, "{input:?}");
        }
    }

    #[test]
    fn looks_no_further_than_the_longest_head() {
        let long = [&b"GET / HTTP/1.1\r\nX: "[..], &[b'x'; 1 << 16], b"\r\nAccept: text/plain\r\n"];
        assert_eq!(glance(&long.concat()), PageForm::default());
    }
}
