//! Reads hints for the error page from the bytes of a refused request: the form of the page, and
//! the path and the host whose fields it has.

use crate::grammar::trim;
use crate::host;
use crate::limits::HEAD_MAX_BYTES;
use crate::negotiate::preferred_error_format;
use crate::refusal::RefusedRequest;
use crate::request_target::Target;

/// Reads the received part of a head that is malformed, over a limit or incomplete. It is lenient,
/// since only the look and the fields of a page depend on it: unreadable lines are skipped.
#[cold]
#[must_use]
pub fn glance(input: &[u8]) -> RefusedRequest<'_> {
    let input = input.get(..HEAD_MAX_BYTES).unwrap_or(input);
    let mut lines = input.split_inclusive(|&byte| byte == b'\n');
    // Empty lines before the request line are allowed (RFC 9112 §2.2).
    let request_line = lines.by_ref().map(without_end).find(|line| !line.is_empty());
    let request_line = request_line.unwrap_or_default();
    let fields = lines.take_while(|line| !without_end(line).is_empty());
    let accept = fields.clone().filter_map(|line| value_of(line, b"accept"));
    // A line that is not whole may name another host.
    let whole = fields.clone().filter(|line| line.ends_with(b"\n"));
    let mut hosts = whole.filter_map(|line| value_of(line, b"host"));
    let host = hosts.next().filter(|host| host::split(host).is_ok());
    let is_one_host = hosts.next().is_none();
    let target = target(request_line);
    let authority = target.and_then(|target| target.authority).or(host);
    RefusedRequest {
        head_only: request_line.starts_with(b"HEAD "),
        error_format: preferred_error_format(accept),
        path: target.map(|target| target.path),
        authority: authority.filter(|_| is_one_host),
    }
}

/// Returns the target of a request line, as far as it is there.
fn target(request_line: &[u8]) -> Option<Target<'_>> {
    let mut parts = request_line.splitn(3, |&byte| byte == b' ');
    let target = parts.nth(1)?;
    Target::of_refused(target, parts.next().is_some())
}

/// Returns the value of a field line, if that has this name, which is in small letters.
fn value_of<'h>(line: &'h [u8], wanted: &[u8]) -> Option<&'h [u8]> {
    let line = without_end(line);
    let colon = line.iter().position(|&byte| byte == b':')?;
    let (name, value) = line.split_at(colon);
    name.eq_ignore_ascii_case(wanted).then(|| trim(value.get(1..).unwrap_or_default()))
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::glance;
    use crate::error_page::ErrorFormat::{Html, ProblemDetails, Text};
    use crate::refusal::RefusedRequest;

    #[test]
    fn a_refused_head_hints_at_its_method_and_error_format() {
        let head = true;
        for (input, head_only, error_format) in [
            ("", !head, Html),
            ("HEAD", !head, Html),
            ("HEAD / HTTP/1.1\r\n\r\n", head, Html),
            ("\r\nHEAD / HTTP/1.1\r\n\r\n", head, Html),
            ("HEADER / HTTP/1.1\r\n\r\n", !head, Html),
            ("head / HTTP/1.1\r\n\r\n", !head, Html),
            ("GET / HTTP/1.1\r\nAccept: text/plain\r\n\r\n", !head, Text),
            ("GET / HTTP/1.1\r\naccept:text/plain;q=0.5, */*;q=0.1\r\n", !head, Text),
            ("GET / HTTP/1.1\nACCEPT: text/plain\n\n", !head, Text),
            ("GET / HTTP/1.1\r\nHost: a b\r\nbroken\r\nAccept: text/plain", !head, Text),
            ("GET / HTTP/1.1\r\nAccept: text/html\r\nAccept: text/plain\r\n\r\n", !head, Html),
            ("GET / HTTP/1.1\r\nX-Accept: text/plain\r\n\r\n", !head, Html),
            ("GET / HTTP/1.1\r\nAccept: application/json\r\n\r\n", !head, ProblemDetails),
            // A line after the blank line is no field.
            ("GET / HTTP/9.9\r\n\r\nAccept: text/plain\r\n", !head, Html),
        ] {
            let hints = glance(input.as_bytes());
            assert_eq!(
                (hints.head_only, hints.error_format),
                (head_only, error_format),
                "{input:?}"
            );
        }
    }

    #[test]
    fn hints_are_taken_only_from_the_longest_allowed_head() {
        let long = [&b"GET / HTTP/1.1\r\nX: "[..], &[b'x'; 1 << 16], b"\r\nAccept: text/plain\r\n"];
        let long = long.concat();
        let hints = glance(&long);
        assert_eq!(hints.error_format, Html);
    }

    /// A path is known only if bytes that have not arrived could not change it, and a host only if
    /// the head names exactly one, in a whole line.
    #[test]
    fn a_refused_head_hints_at_its_path_and_host() {
        let long = format!("/a?{}", "x".repeat(20_000));
        let long_path = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(9000));
        let long_query = format!("GET {long} HTTP/1.1\r\n\r\n");
        let none = (None, None);
        for (input, expected) in [
            ("", none),
            ("GET", none),
            ("GET ", none),
            ("GET /a", none),
            ("GET /a\r\n", none),
            ("GET /a ", (Some("/a"), None)),
            ("GET /a?", (Some("/a"), None)),
            ("GET /a?b HTTP/9.9\r\n", (Some("/a"), None)),
            ("\r\nPOST /a%2Fb HTTP/1.1\r\nHost: h\r\n", (Some("/a%2Fb"), Some("h"))),
            ("GET /a HTTP/1.1\r\nHost: h", (Some("/a"), None)),
            ("GET /a HTTP/1.1\r\nHost: h:80\r\nbroken", (Some("/a"), Some("h:80"))),
            ("GET /a HTTP/1.1\r\nHost: h\r\nhost: i\r\n", (Some("/a"), None)),
            ("GET /a HTTP/1.1\r\nHost: h i\r\n", (Some("/a"), None)),
            ("GET /a HTTP/1.1\r\n\r\nHost: h\r\n", (Some("/a"), None)),
            ("GET http://g/a?b HTTP/1.1\r\nHost: h\r\n", (Some("/a"), Some("g"))),
            ("GET http://g HTTP/1.1\r\nHost: h\r\n", (Some("/"), Some("g"))),
            ("GET http://g/a?b", none),
            ("GET /a\"b HTTP/1.1\r\nHost: h\r\n", (None, Some("h"))),
            ("GET /a\rb HTTP/1.1\r\nHost: h\r\n", (None, Some("h"))),
            ("GET a HTTP/1.1\r\nHost: h\r\n", (None, Some("h"))),
            ("OPTIONS * HTTP/1.1\r\nHost: h\r\n", (None, Some("h"))),
            ("CONNECT h:1 HTTP/1.1\r\nHost: h\r\n", (None, Some("h"))),
            (long_path.as_str(), none),
            (long_query.as_str(), (Some("/a"), None)),
        ] {
            let RefusedRequest { path, authority, .. } = glance(input.as_bytes());
            let (path_expected, host_expected) = expected;
            let bytes = |text: Option<&'static str>| text.map(str::as_bytes);
            assert_eq!(path, bytes(path_expected), "{input:.60}");
            assert_eq!(authority, bytes(host_expected), "{input:.60}");
        }
    }
}
