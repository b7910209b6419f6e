//! Requests as a client writes them: the rules of RFC 9112 and RFC 9110, and attempts to smuggle
//! something into a request. Sections are those of RFC 9112 unless another RFC is named.

use pinion_http::field::Field;
use pinion_http::h1::client::content_writer::ContentWriter;
use pinion_http::h1::client::request_error::RequestError as Error;
use pinion_http::h1::client::request_writer::{
    ConnectionOption, OutgoingRequest, RequestContent, RequestTarget, SentRequest, write_request,
};
use pinion_http::method::Method;

const TARGET: RequestTarget<'_> = RequestTarget::Origin { authority: b"a.example", target: b"/" };

fn field<'a>(name: &'a str, value: &'a str) -> Field<'a> {
    Field { name: name.as_bytes(), value: value.as_bytes() }
}

fn write(request: &OutgoingRequest<'_>, fields: &[Field<'_>]) -> Result<String, Error> {
    Ok(write_all(request, fields)?.0)
}

fn write_all(
    request: &OutgoingRequest<'_>,
    fields: &[Field<'_>],
) -> Result<(String, SentRequest, ContentWriter), Error> {
    let mut out = b"before".to_vec();
    match write_request(&mut out, request, fields.iter().copied()) {
        Ok(written) => {
            let text = String::from_utf8(out).unwrap();
            let text = text.strip_prefix("before").unwrap().to_owned();
            Ok((text, written.request, written.content))
        }
        Err(error) => {
            assert_eq!(out, b"before", "nothing is written");
            Err(error)
        }
    }
}

fn method<'a>(method: &'a str, content: RequestContent) -> OutgoingRequest<'a> {
    OutgoingRequest { method: method.as_bytes(), content, ..OutgoingRequest::get(TARGET) }
}

const NONE: RequestContent = RequestContent::Length(0);

#[test]
fn a_request() {
    let request = OutgoingRequest::get(TARGET);
    let fields = [field("Accept", "*/*"), field("X-Empty", ""), field("x-space", " \ta b\t")];
    let (text, sent, content) = write_all(&request, &fields).unwrap();
    let expected =
        "GET / HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\nX-Empty: \r\nx-space: a b\r\n\r\n";
    assert_eq!(text, expected);
    assert!(content.is_complete());
    let expected =
        SentRequest { method: Method::Get, upgrade: false, close: false, expects_continue: false };
    assert_eq!(sent, expected);
}

/// §3.2: the four forms; "a client MUST send a field value for Host that is identical to that
/// authority component", and RFC 9110 §7.2 wants it first.
#[test]
fn targets() {
    for (name, target, line, host) in [
        ("GET", TARGET, "GET / HTTP/1.1", "a.example"),
        (
            "GET",
            RequestTarget::Origin { authority: b"[::1]:8080", target: b"/a%20b?c=/?d" },
            "GET /a%20b?c=/?d HTTP/1.1",
            "[::1]:8080",
        ),
        (
            "GET",
            RequestTarget::Absolute(b"http://b.example:81/x?y"),
            "GET http://b.example:81/x?y HTTP/1.1",
            "b.example:81",
        ),
        (
            "CONNECT",
            RequestTarget::Authority(b"c.example:443"),
            "CONNECT c.example:443 HTTP/1.1",
            "c.example:443",
        ),
        (
            "OPTIONS",
            RequestTarget::Asterisk { authority: b"a.example" },
            "OPTIONS * HTTP/1.1",
            "a.example",
        ),
        // §3.2.4: for a proxy, OPTIONS about the server has no path.
        (
            "OPTIONS",
            RequestTarget::Absolute(b"http://d.example"),
            "OPTIONS http://d.example HTTP/1.1",
            "d.example",
        ),
    ] {
        let request = OutgoingRequest { method: name.as_bytes(), ..OutgoingRequest::get(target) };
        let text = write(&request, &[]).unwrap();
        assert_eq!(text, format!("{line}\r\nHost: {host}\r\n\r\n"));
    }
}

#[test]
fn malformed_targets_are_refused() {
    let origin = |target: &'static str| RequestTarget::Origin {
        authority: b"a.example",
        target: target.as_bytes(),
    };
    for (name, target) in [
        ("GET", origin("")),
        ("GET", origin("x")),
        ("GET", origin("/a b")),
        ("GET", origin("/a HTTP/1.1\r\nX: y")),
        ("GET", origin("/a\r\n")),
        ("GET", origin("/a\0")),
        ("GET", origin("/a\tb")),
        ("GET", origin("/#fragment")),
        ("GET", origin("/\u{e9}")),
        ("GET", origin("/\"")),
        ("GET", origin("http://a.example/")),
        ("GET", origin("*")),
        ("OPTIONS", origin("*")),
        ("CONNECT", origin("/")),
        ("CONNECT", origin("a.example:443")),
        ("GET", RequestTarget::Absolute(b"/")),
        ("GET", RequestTarget::Absolute(b"ftp://a.example/")),
        ("GET", RequestTarget::Absolute(b"http://u:p@a.example/")),
        ("GET", RequestTarget::Absolute(b"http:///")),
        ("OPTIONS", RequestTarget::Absolute(b"*")),
        ("CONNECT", RequestTarget::Absolute(b"http://a.example/")),
        ("GET", RequestTarget::Authority(b"a.example:443")),
        ("CONNECT", RequestTarget::Authority(b"a.example")),
        ("CONNECT", RequestTarget::Authority(b"a.example:443\r\nX: y")),
        ("GET", RequestTarget::Asterisk { authority: b"a.example" }),
    ] {
        let request = OutgoingRequest { method: name.as_bytes(), ..OutgoingRequest::get(target) };
        assert_eq!(write(&request, &[]), Err(Error::Target), "{name} {target:?}");
    }
    for authority in
        ["", "a b", "a\r\nX: y", "u@a", "a/", "a:b", "a:99999", "a\0", "[::1", "\u{e9}"]
    {
        let authority = authority.as_bytes();
        for (name, target) in [
            ("GET", RequestTarget::Origin { authority, target: b"/" }),
            ("OPTIONS", RequestTarget::Asterisk { authority }),
        ] {
            let request =
                OutgoingRequest { method: name.as_bytes(), ..OutgoingRequest::get(target) };
            assert_eq!(write(&request, &[]), Err(Error::Authority), "{authority:?}");
        }
    }
}

/// RFC 9110 §9.1: a method is a token, in its own case.
#[test]
fn methods() {
    for name in ["GET", "get", "PROPFIND", "M-SEARCH", "!"] {
        let text = write(&method(name, NONE), &[]).unwrap();
        assert!(text.starts_with(&format!("{name} / HTTP/1.1\r\n")), "{text:?}");
    }
    let long = "M".repeat(33);
    for name in ["", "G ET", "GET /x HTTP/1.1\r\nX:", "GET\r\n", "G\0T", "\u{e9}", "G:T", &long] {
        assert_eq!(write(&method(name, NONE), &[]), Err(Error::Method), "{name:?}");
    }
}

/// RFC 9110 §8.6: a length for the methods that are expected to have content, even if there is
/// none; §9.3.6, §9.3.8: none for CONNECT and TRACE.
#[test]
fn the_method_and_content_determine_the_framing_field() {
    for (name, content, field) in [
        ("GET", NONE, ""),
        ("HEAD", NONE, ""),
        ("DELETE", NONE, ""),
        ("OPTIONS", NONE, ""),
        ("TRACE", NONE, ""),
        ("PROPFIND", NONE, ""),
        ("POST", NONE, "Content-Length: 0\r\n"),
        ("PUT", NONE, "Content-Length: 0\r\n"),
        ("PATCH", NONE, "Content-Length: 0\r\n"),
        ("QUERY", NONE, "Content-Length: 0\r\n"),
        ("GET", RequestContent::Length(5), "Content-Length: 5\r\n"),
        ("POST", RequestContent::Length(u64::MAX), "Content-Length: 18446744073709551615\r\n"),
        ("POST", RequestContent::Chunked, "Transfer-Encoding: chunked\r\n"),
        ("PROPFIND", RequestContent::Chunked, "Transfer-Encoding: chunked\r\n"),
    ] {
        let (text, _, writer) = write_all(&method(name, content), &[]).unwrap();
        let expected = format!("{name} / HTTP/1.1\r\nHost: a.example\r\n{field}\r\n");
        assert_eq!(text, expected);
        assert_eq!(writer.is_complete(), content == NONE);
    }
    for content in [RequestContent::Length(1), RequestContent::Chunked] {
        assert_eq!(write(&method("TRACE", content), &[]), Err(Error::ContentNotAllowed));
        let target = RequestTarget::Authority(b"a.example:443");
        let connect = OutgoingRequest { target, method: b"CONNECT", ..method("CONNECT", content) };
        assert_eq!(write(&connect, &[]), Err(Error::ContentNotAllowed));
    }
}

/// RFC 9110 §10.1.1: "A client MUST NOT generate a 100-continue expectation in a request that does
/// not include content."
#[test]
fn expect_continue() {
    for (content, expects) in
        [(NONE, false), (RequestContent::Length(5), true), (RequestContent::Chunked, true)]
    {
        let request = OutgoingRequest { expect_continue: true, ..method("PUT", content) };
        let (text, sent, _) = write_all(&request, &[]).unwrap();
        assert_eq!(text.contains("\r\nExpect: 100-continue\r\n"), expects, "{text:?}");
        assert_eq!(sent.expects_continue, expects);
    }
}

/// RFC 9110 §7.6.1: a field that is for the connection is named in `Connection`; §7.8: so is
/// `Upgrade`; §10.1.4: so is `TE`.
#[test]
fn connection_options() {
    use ConnectionOption::{Close, KeepAlive, Upgrade};
    for (connection, accepts_trailers, lines) in [
        (KeepAlive, false, ""),
        (KeepAlive, true, "TE: trailers\r\nConnection: TE\r\n"),
        (Close, false, "Connection: close\r\n"),
        (Close, true, "TE: trailers\r\nConnection: close, TE\r\n"),
        (Upgrade(b"websocket"), false, "Upgrade: websocket\r\nConnection: Upgrade\r\n"),
        (
            Upgrade(b" HTTP/2.0, x/1 "),
            true,
            "Upgrade: HTTP/2.0, x/1\r\nTE: trailers\r\nConnection: Upgrade, TE\r\n",
        ),
    ] {
        let request =
            OutgoingRequest { connection, accepts_trailers, ..OutgoingRequest::get(TARGET) };
        let (text, sent, _) = write_all(&request, &[field("X", "y")]).unwrap();
        let expected = format!("GET / HTTP/1.1\r\nHost: a.example\r\n{lines}X: y\r\n\r\n");
        assert_eq!(text, expected);
        assert_eq!(sent.close, connection == Close);
        assert_eq!(sent.upgrade, matches!(connection, Upgrade(_)));
    }
    for protocols in ["", ",", "a,", "a b", "a/", "/a", "a/b/c", "a\r\nX: y", "\"a\"", "a\0"] {
        let connection = Upgrade(protocols.as_bytes());
        let request = OutgoingRequest { connection, ..OutgoingRequest::get(TARGET) };
        assert_eq!(write(&request, &[]), Err(Error::Upgrade), "{protocols:?}");
    }
    let target = RequestTarget::Authority(b"a.example:443");
    let connect = OutgoingRequest {
        method: b"CONNECT",
        connection: Upgrade(b"x"),
        ..OutgoingRequest::get(target)
    };
    assert_eq!(write(&connect, &[]), Err(Error::Upgrade));
}

/// §11.1, §11.2: no field can end its line, frame the message or name another host, in any case,
/// nor with `_`, which programs with a gateway read as `-`.
#[test]
fn request_parts_cannot_smuggle_a_second_request() {
    let request = method("POST", RequestContent::Length(5));
    let with = |name: &str, value: &str| write(&request, &[field("X", "y"), field(name, value)]);
    for name in [
        "Connection",
        "Content-Length",
        "Expect",
        "Host",
        "HTTP2-Settings",
        "Keep-Alive",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
    ] {
        let refused = Err(Error::ReservedField { name });
        for spelling in [name.to_lowercase(), name.to_uppercase(), name.replace('-', "_")] {
            assert_eq!(with(&spelling, "5"), refused, "{spelling}");
            assert_eq!(with(&spelling, ""), refused, "{spelling}");
        }
    }
    for name in [
        "",
        " Content-Length",
        "Content-Length ",
        "Content-Length:",
        "Content-Length\t",
        "X\r\nContent-Length",
        "X\nContent-Length",
        "X\rContent-Length",
        "X\0",
        "X: y\r\nHost",
        "\u{e9}",
        ":authority",
    ] {
        assert_eq!(with(name, "5"), Err(Error::FieldName { position: 1 }), "{name:?}");
    }
    for value in [
        "y\r\nContent-Length: 5",
        "y\nContent-Length: 5",
        "y\rContent-Length: 5",
        "y\r\n\r\nGET /admin HTTP/1.1",
        "\r",
        "\n",
        "y\0",
        "y\u{7f}",
        "\u{b}",
        "\u{1b}",
    ] {
        assert_eq!(with("X", value), Err(Error::FieldValue { position: 1 }), "{value:?}");
    }
    for (name, value) in [("X", "\u{e9}\ty"), ("Content-Lengthy", "5"), ("Hosts", "b"), ("T", "E")]
    {
        assert!(with(name, value).is_ok(), "{name}: {value}");
    }
}

fn writer(content: RequestContent) -> ContentWriter {
    write_all(&method("POST", content), &[]).unwrap().2
}

/// §6.2: the content has exactly the announced length.
#[test]
fn content_with_a_length() {
    let mut writer = writer(RequestContent::Length(5));
    let mut out = Vec::new();
    writer.write(&mut out, b"he").unwrap();
    assert_eq!(writer.end(&mut out, []), Err(Error::ContentTooShort { missing_bytes: 3 }));
    assert_eq!(writer.write(&mut out, b"llo!"), Err(Error::ContentTooLong));
    assert!(!writer.is_complete());
    // A piece that is sent from where it is has nothing around it.
    assert_eq!(writer.frame(&mut out, 3), Ok(&b""[..]));
    assert!(writer.is_complete());
    assert_eq!(writer.write(&mut out, b""), Ok(()));
    assert_eq!(writer.write(&mut out, b"!"), Err(Error::ContentTooLong));
    let trailer = [field("X", "y")];
    assert_eq!(writer.end(&mut out, trailer), Err(Error::TrailersWithoutChunks));
    assert_eq!(writer.end(&mut out, []), Ok(()));
    assert_eq!(out, b"he");
}

/// §7.1: an empty chunk ends the content, so an empty piece is none.
#[test]
fn content_in_chunks() {
    let mut writer = writer(RequestContent::Chunked);
    let mut out = Vec::new();
    writer.write(&mut out, b"hello").unwrap();
    writer.write(&mut out, b"").unwrap();
    let end = writer.frame(&mut out, 0xabc).unwrap();
    out.extend_from_slice(b"...");
    out.extend_from_slice(end);
    assert!(!writer.is_complete());
    writer.end(&mut out, []).unwrap();
    assert!(writer.is_complete());
    assert_eq!(out, b"5\r\nhello\r\nabc\r\n...\r\n0\r\n\r\n");
    let before = out.clone();
    assert_eq!(writer.write(&mut out, b"!"), Err(Error::ContentTooLong));
    assert_eq!(writer.end(&mut out, []), Ok(()));
    assert_eq!(out, before, "the end comes once");
}

/// §7.1.2, RFC 9110 §6.5.1.
#[test]
fn trailers() {
    for (name, value, error) in [
        ("Content-Length", "5", Error::ForbiddenTrailer { position: 1 }),
        ("transfer_encoding", "chunked", Error::ForbiddenTrailer { position: 1 }),
        ("Host", "b", Error::ForbiddenTrailer { position: 1 }),
        ("Authorization", "x", Error::ForbiddenTrailer { position: 1 }),
        ("Upgrade", "x", Error::ForbiddenTrailer { position: 1 }),
        ("If-Match", "*", Error::ForbiddenTrailer { position: 1 }),
        ("X y", "z", Error::FieldName { position: 1 }),
        ("X", "y\r\n\r\nGET / HTTP/1.1", Error::FieldValue { position: 1 }),
    ] {
        let mut writer = writer(RequestContent::Chunked);
        let mut out = b"before".to_vec();
        let refused = writer.end(&mut out, [field("Digest", "7"), field(name, value)]);
        assert_eq!(refused, Err(error), "{name}");
        assert_eq!(out, b"before");
        assert!(!writer.is_complete());
        writer.end(&mut out, [field("Digest", " 7 "), field("Empty", "")]).unwrap();
        assert_eq!(out, b"before0\r\nDigest: 7\r\nEmpty: \r\n\r\n");
    }
}

/// Each cause can be read by the author of a script.
#[test]
fn errors_describe_their_cause() {
    for (error, text) in [
        (
            Error::ReservedField { name: "Transfer-Encoding" },
            "Transfer-Encoding cannot be set: the client writes it",
        ),
        (Error::FieldValue { position: 0 }, "the value of field 1 has a control character"),
        (Error::FieldName { position: 2 }, "the name of field 3 is no token"),
        (
            Error::ContentTooShort { missing_bytes: 3 },
            "the content is 3 bytes shorter than announced",
        ),
        (Error::ForbiddenTrailer { position: 0 }, "trailer field 1 is not allowed behind content"),
    ] {
        assert_eq!(error.to_string(), text);
    }
}
