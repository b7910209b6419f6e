//! Request heads that are correct, too large, or arrive in parts.

use pinion_http::field::KnownField;
use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
use pinion_http::limits::{FIELDS_MAX, HEAD_MAX_BYTES, Limits, TARGET_MAX_BYTES};
use pinion_http::method::Method;
use pinion_http::refusal::Refusal;
use pinion_http::request_head::{Framing, RequestHead};
use pinion_http::request_target::Form;
use pinion_http::version::Version;

fn with<R>(text: &str, f: impl FnOnce(&RequestHead<'_>, usize) -> R) -> R {
    let mut storage = HeadStorage::new();
    match parse(text.as_bytes(), 0, &mut storage, &Limits::default()) {
        Ok(Parsed::Head { head, bytes }) => f(&head, bytes),
        other => panic!("{text:?}: {other:?}"),
    }
}

fn parse_all(text: &[u8], scanned: usize, limits: &Limits) -> Result<Option<usize>, Refusal> {
    let mut storage = HeadStorage::new();
    match parse(text, scanned, &mut storage, limits)? {
        Parsed::Partial { .. } => Ok(None),
        Parsed::Head { bytes, .. } => Ok(Some(bytes)),
    }
}

#[test]
fn a_browsers_request() {
    let text = "GET /a/b.css?v=1 HTTP/1.1\r\nHost: www.example.com:8080\r\n\
                User-Agent: Mozilla/5.0\r\nAccept: text/css,*/*;q=0.1\r\n\
                accept-encoding: gzip, deflate, br\r\nIf-None-Match: \"x\"\r\n\r\nGET /next";
    with(text, |head, bytes| {
        assert_eq!(head.method, Method::Get);
        assert_eq!(head.method_token, b"GET");
        assert_eq!(head.version, Version::Http11);
        assert_eq!(head.target.form, Form::Origin);
        assert_eq!(head.target.path, b"/a/b.css");
        assert_eq!(head.target.query, Some(&b"v=1"[..]));
        assert_eq!(head.authority, Some(&b"www.example.com:8080"[..]));
        assert_eq!(head.fields.len(), 5);
        assert_eq!(head.value(KnownField::UserAgent), Some(&b"Mozilla/5.0"[..]));
        let codings: Vec<_> = head.values(KnownField::AcceptEncoding).collect();
        assert_eq!(codings, [b"gzip, deflate, br"]);
        assert_eq!(head.framing, Framing::None);
        assert!(head.keep_alive);
        assert!(!head.expect_continue);
        assert_eq!(&text[bytes..], "GET /next");
    });
}

/// RFC 9112 §3.2.2: the authority of an absolute target has precedence over Host.
#[test]
fn authority_of_an_absolute_target() {
    with("GET http://b:1/x HTTP/1.1\r\nHost: a\r\n\r\n", |head, _| {
        assert_eq!(head.authority, Some(&b"b:1"[..]));
        assert_eq!(head.target.path, b"/x");
    });
    with("GET / HTTP/1.0\r\n\r\n", |head, _| assert_eq!(head.authority, None));
    with("CONNECT b:1 HTTP/1.1\r\nHost: a\r\n\r\n", |head, _| {
        assert_eq!(head.authority, Some(&b"b:1"[..]));
    });
}

/// RFC 9112 §9.3.
#[test]
fn persistence() {
    for (version, connection, keep_alive) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: Close\r\n", false),
        ("1.1", "Connection: keep-alive\r\n", true),
        ("1.1", "Connection: keep-alive, close\r\n", false),
        ("1.1", "Connection: x\r\nConnection: y , close\r\n", false),
        ("1.1", "Connection: closed\r\n", true),
        ("1.1", "Connection: upgrade\r\n", true),
        ("1.1", "Connection:\r\n", true),
        ("1.1", "Connection: \"x, close\r\n", false),
        ("1.5", "", true),
        ("1.0", "", false),
        ("1.0", "Connection: keep-alive\r\n", true),
        ("1.0", "Connection: TE, Keep-Alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
        ("1.0", "Connection: close\r\nConnection: keep-alive\r\n", false),
        ("1.0", "Keep-Alive: timeout=5\r\n", false),
    ] {
        let text = format!("GET / HTTP/{version}\r\nHost: a\r\n{connection}\r\n");
        with(&text, |head, _| assert_eq!(head.keep_alive, keep_alive, "{text:?}"));
    }
}

/// RFC 9112 §6.3.
#[test]
fn the_framing_fields_determine_the_framing() {
    for (fields, framing) in [
        ("", Framing::None),
        ("Content-Length: 0\r\n", Framing::None),
        ("Content-Length: 17\r\n", Framing::Length(17)),
        ("Transfer-Encoding: chunked\r\n", Framing::Chunked),
    ] {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        with(&text, |head, _| assert_eq!(head.framing, framing, "{fields}"));
    }
}

/// RFC 9110 §10.1.1: without content, or in HTTP/1.0, no client waits for 100.
#[test]
fn expect_continue() {
    for (version, fields, expected) in [
        ("1.1", "Content-Length: 5\r\n", true),
        ("1.1", "Transfer-Encoding: chunked\r\n", true),
        ("1.1", "Content-Length: 0\r\n", false),
        ("1.1", "", false),
        ("1.0", "Content-Length: 5\r\n", false),
    ] {
        let text =
            format!("PUT / HTTP/{version}\r\nHost: a\r\nExpect: 100-continue\r\n{fields}\r\n");
        with(&text, |head, _| assert_eq!(head.expect_continue, expected, "{text:?}"));
    }
}

/// RFC 9112 §2.2: "SHOULD ignore at least one empty line (CRLF) received prior to the
/// request-line".
#[test]
fn empty_lines_before_the_request() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for lines in 0..=2 {
        let text = format!("{}{request}", "\r\n".repeat(lines));
        with(&text, |_, bytes| assert_eq!(bytes, text.len()));
    }
    let limits = Limits::default();
    assert_eq!(parse_all(b"\r\n\r\n\r\n", 0, &limits), Err(Refusal::EmptyLines));
    assert_eq!(parse_all(b"", 0, &limits), Ok(None));
    assert_eq!(parse_all(b"\r", 0, &limits), Ok(None));
    assert_eq!(parse_all(b"\r\n\r\n\r", 0, &limits), Ok(None));
}

/// RFC 9110 §2.5: such a request has all of its fields.
#[test]
fn later_minor_versions() {
    let text = "POST /x HTTP/1.7\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n";
    with(text, |head, bytes| {
        assert_eq!(head.version, Version::Http11);
        assert_eq!(head.method, Method::Post);
        assert_eq!(head.target.path, b"/x");
        assert_eq!(head.framing, Framing::Chunked);
        assert_eq!(head.fields.get(b"x"), Some(&b"y"[..]));
        assert_eq!(bytes, text.len());
    });
    for cut in 0..text.len() {
        assert_eq!(parse_all(&text.as_bytes()[..cut], 0, &Limits::default()), Ok(None), "{cut}");
    }
}

/// Byte by byte, with the hint passed on, a correct head is parsed at its last byte and not before.
#[test]
fn byte_by_byte() {
    let text = b"\r\nGET /index.html HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
    let limits = Limits::default();
    let mut hint = 0;
    for end in 0..text.len() {
        let mut storage = HeadStorage::new();
        match parse(&text[..end], hint, &mut storage, &limits) {
            Ok(Parsed::Partial { scanned }) => {
                assert!(scanned <= end && scanned >= hint);
                hint = scanned;
            }
            other => panic!("{end}: {other:?}"),
        }
    }
    assert_eq!(parse_all(text, hint, &limits), Ok(Some(text.len())));
}

/// Returns a head with a target of `target_bytes` and `head_bytes` in total.
fn sized(target_bytes: usize, head_bytes: usize) -> Vec<u8> {
    let start = format!("GET /{} HTTP/1.1\r\nHost: a\r\nX: ", "t".repeat(target_bytes - 1));
    let padding = head_bytes - start.len() - 4;
    [start.as_bytes(), &vec![b'x'; padding], b"\r\n\r\n"].concat()
}

#[test]
fn head_limit() {
    let limits = Limits::default();
    let most = sized(1, HEAD_MAX_BYTES);
    assert_eq!(parse_all(&most, 0, &limits), Ok(Some(HEAD_MAX_BYTES)));
    let more = sized(1, HEAD_MAX_BYTES + 1);
    assert_eq!(parse_all(&more, 0, &limits), Err(Refusal::HeadTooLarge));
    // The head is refused as soon as it exceeds the limit, complete or not, resumed or not.
    assert_eq!(parse_all(&more[..HEAD_MAX_BYTES], 0, &limits), Err(Refusal::HeadTooLarge));
    assert_eq!(parse_all(&more[..HEAD_MAX_BYTES], 100, &limits), Err(Refusal::HeadTooLarge));
    assert_eq!(parse_all(&more[..HEAD_MAX_BYTES - 1], 0, &limits), Ok(None));
    let small = Limits { head_bytes: 64, ..limits };
    assert_eq!(parse_all(&sized(1, 64), 0, &small), Ok(Some(64)));
    assert_eq!(parse_all(&sized(1, 65), 0, &small), Err(Refusal::HeadTooLarge));
}

/// RFC 9110 §15.5.15.
#[test]
fn target_limit() {
    let limits = Limits::default();
    let most = sized(TARGET_MAX_BYTES, TARGET_MAX_BYTES + 100);
    assert_eq!(parse_all(&most, 0, &limits), Ok(Some(most.len())));
    let more = sized(TARGET_MAX_BYTES + 1, TARGET_MAX_BYTES + 100);
    assert_eq!(parse_all(&more, 0, &limits), Err(Refusal::TargetTooLong));
    // "GET " and the target: the next byte exceeds the limit.
    let refused_at = 4 + TARGET_MAX_BYTES + 1;
    assert_eq!(parse_all(&more[..refused_at - 1], 0, &limits), Ok(None));
    assert_eq!(parse_all(&more[..refused_at], 0, &limits), Err(Refusal::TargetTooLong));
    assert_eq!(parse_all(&more[..refused_at], 9, &limits), Err(Refusal::TargetTooLong));
    // An endless target is refused as too long, whatever other errors it has.
    let endless = [b"GET /", [b'a'; 9000].as_slice(), b"\x01"].concat();
    assert_eq!(parse_all(&endless, 0, &limits), Err(Refusal::TargetTooLong));
    let small = Limits { target_bytes: 10, ..limits };
    assert_eq!(parse_all(&sized(10, 100), 0, &small), Ok(Some(100)));
    assert_eq!(parse_all(&sized(11, 100), 0, &small), Err(Refusal::TargetTooLong));
}

#[test]
fn method_limit() {
    let limits = Limits::default();
    assert_eq!(parse_all(&[b'M'; 32], 0, &limits), Ok(None));
    assert_eq!(parse_all(&[b'M'; 33], 0, &limits), Err(Refusal::MethodTooLong));
    assert_eq!(parse_all(&[b'M'; 33], 32, &limits), Err(Refusal::MethodTooLong));
}

#[test]
fn field_limit() {
    let limits = Limits::default();
    let lines = |count: usize| {
        format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(count - 1)).into_bytes()
    };
    let most = lines(FIELDS_MAX);
    assert_eq!(parse_all(&most, 0, &limits), Ok(Some(most.len())));
    assert_eq!(parse_all(&lines(FIELDS_MAX + 1), 0, &limits), Err(Refusal::TooManyFields));
    let small = Limits { fields: 3, ..limits };
    assert!(parse_all(&lines(3), 0, &small).is_ok());
    assert_eq!(parse_all(&lines(4), 0, &small), Err(Refusal::TooManyFields));
    // The limit cannot exceed the capacity of the storage.
    let large = Limits { fields: usize::MAX, ..limits };
    assert_eq!(parse_all(&lines(FIELDS_MAX + 1), 0, &large), Err(Refusal::TooManyFields));
    let later = String::from_utf8(lines(4)).unwrap().replace("HTTP/1.1", "HTTP/1.3");
    assert_eq!(parse_all(later.as_bytes(), 0, &small), Err(Refusal::TooManyFields));
}

/// Slow input costs linear work: a resumed call does not parse the head again before the blank
/// line, so it does not detect some errors.
#[test]
fn resumed_calls_only_search_for_the_end() {
    let limits = Limits::default();
    let bad = b"GET / HTTP/1.1\r\nHost : a\r\n";
    assert_eq!(parse_all(bad, 0, &limits), Err(Refusal::FieldLine));
    assert_eq!(parse_all(bad, 16, &limits), Ok(None));
    let whole = [bad.as_slice(), b"\r\n"].concat();
    assert_eq!(parse_all(&whole, bad.len(), &limits), Err(Refusal::FieldLine));
    // An error that hides the end of the head is detected at once.
    assert_eq!(parse_all(b"GET / HTTP/1.1\r\nX: y\n", 16, &limits), Err(Refusal::LineEnd));
}
