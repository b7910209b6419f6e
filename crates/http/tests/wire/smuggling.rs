//! Requests that two servers could read differently: each is refused, with the status in the test.
//! Sections are those of RFC 9112 unless another RFC is named.

use pinion_http::h1::body::{BodyReader, BodyStep};
use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
use pinion_http::limits::Limits;
use pinion_http::refusal::Refusal;
use pinion_http::request_head::Framing;

fn refusal(head: &[u8]) -> Option<Refusal> {
    let mut storage = HeadStorage::new();
    match parse(head, 0, &mut storage, &Limits::default()) {
        Ok(Parsed::Head { .. }) => None,
        Ok(Parsed::Partial { .. }) => panic!("partial: {:?}", head.escape_ascii().to_string()),
        Err(refusal) => Some(refusal),
    }
}

/// Returns the refusal of the field lines, in a correct 1.1 request with `Host`.
fn fields(lines: &str) -> Option<Refusal> {
    refusal(format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").as_bytes())
}

#[test]
fn content_length() {
    let refused = Some(Refusal::ContentLength);
    for value in [
        "5,5", "5, 5", "+5", "-5", "", " ", "0x5", "5 5", "5.0", "5e1", "five", "5;", "\u{ff15}",
        "5\t5", "_5", "5,",
    ] {
        assert_eq!(fields(&format!("Content-Length: {value}\r\n")), refused, "{value:?}");
    }
    // §6.3: "multiple Content-Length header fields"; equal ones may be refused too.
    assert_eq!(fields("Content-Length: 5\r\nContent-Length: 6\r\n"), refused);
    assert_eq!(fields("Content-Length: 5\r\ncontent-length: 5\r\n"), refused);
    assert_eq!(fields("Content-Length: 0\r\nContent-Length: 0\r\n"), refused);
    // RFC 9110 §8.6: "anticipate potentially large decimal numerals".
    for huge in ["18446744073709551616", "99999999999999999999999999"] {
        let refused = Some(Refusal::ContentTooLarge);
        assert_eq!(fields(&format!("Content-Length: {huge}\r\n")), refused, "{huge}");
    }
    for good in ["0", "5", "0005", " 5\t", "1048576", "18446744073709551615"] {
        assert_eq!(fields(&format!("Content-Length: {good}\r\n")), None, "{good:?}");
    }
}

#[test]
fn transfer_encoding() {
    let te = |value: &str| fields(&format!("Transfer-Encoding: {value}\r\n"));
    for good in ["chunked", "Chunked", "CHUNKED", " \tchunked\t "] {
        assert_eq!(te(good), None, "{good:?}");
    }
    // §6.1: "a transfer coding it does not understand SHOULD respond with 501".
    for unknown in ["identity", "gzip", "xchunked", "chunkedx", "x-chunked", "gzip, chunked", "cow"]
    {
        assert_eq!(te(unknown), Some(Refusal::TransferCoding), "{unknown}");
    }
    // §6.3: "the chunked transfer coding is not the final encoding … MUST respond with 400".
    for ambiguous in [
        "chunked, gzip",
        "chunked, chunked",
        "chunked, identity",
        "",
        ",",
        "chunked;x=y",
        "\"chunked\"",
        "chunked gzip",
        "chunked\tx",
        "chunk ed",
    ] {
        assert_eq!(te(ambiguous), Some(Refusal::TransferEncoding), "{ambiguous:?}");
    }
    let refused = Some(Refusal::TransferEncoding);
    let twice = "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n";
    assert_eq!(fields(twice), refused);
    let hidden = "Transfer-Encoding: chunked\r\nTransfer-encoding: cow\r\n";
    assert_eq!(fields(hidden), refused);
    // Characters that are no white space of HTTP are not removed.
    assert_eq!(te("\u{b}chunked"), Some(Refusal::FieldLine));
    assert_eq!(te("\u{a0}chunked"), refused);
}

/// §6.1: "a server MAY reject a request that contains both Content-Length and Transfer-Encoding",
/// and must not trust Transfer-Encoding in HTTP/1.0.
#[test]
fn both_framings_and_old_versions() {
    let refused = Some(Refusal::TransferEncoding);
    assert_eq!(fields("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), refused);
    assert_eq!(fields("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), refused);
    assert_eq!(fields("Transfer-Encoding: chunked\r\nContent-Length: +5\r\n"), refused);
    assert_eq!(refusal(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), refused);
}

/// §5.1: "No whitespace is allowed between the field name and colon"; §5.2: folding is refused.
#[test]
fn field_lines() {
    for lines in [
        "Content-Length : 5\r\n",
        "Content-Length\t: 5\r\n",
        " Content-Length: 5\r\n",
        "\tContent-Length: 5\r\n",
        "X: a\r\n b\r\n",
        "X: a\r\n\tb\r\n",
        "X: a\r\n \r\n",
        ": a\r\n",
        "X\r\n",
        "X a\r\n",
        "X(y): a\r\n",
        "X\u{e9}: a\r\n",
        "\"X\": a\r\n",
        "X: a\0b\r\n",
        "X: \0\r\n",
        "X\0: a\r\n",
        "X: a\u{1}\r\n",
        "X: a\u{7f}\r\n",
        "X: a\u{8}\r\n",
        "X: a\u{1b}[0m\r\n",
        "X: a\u{b}b\r\n",
        "X: a\u{c}b\r\n",
    ] {
        assert_eq!(fields(lines), Some(Refusal::FieldLine), "{lines:?}");
    }
    for lines in ["X:\r\n", "X: \r\n", "X:a\r\n", "X: \t a b \t\r\n", "X: \u{e9}\r\n", "!#$: a\r\n"]
    {
        assert_eq!(fields(lines), None, "{lines:?}");
    }
}

/// §2.2: "a recipient … MUST … a bare CR", and a bare LF is where servers differ most.
#[test]
fn bare_cr_and_lf() {
    for head in [
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: y\nContent-Length: 5\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: y\rContent-Length: 5\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\r\n",
        "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\rHost: a\r\r",
        "GET /\r HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /\n HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET\r / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\n\n",
        "\r\r",
    ] {
        let status = refusal(head.as_bytes()).map(Refusal::status);
        assert_eq!(status, Some(400), "{head:?}");
    }
}

/// §3.2: "respond with a 400 … to any HTTP/1.1 request message that lacks a Host header field and
/// to any request message that contains more than one Host header field line or a Host header
/// field with an invalid field value".
#[test]
fn host() {
    let refused = Some(Refusal::Host);
    let with = |lines: &str| refusal(format!("GET / HTTP/1.1\r\n{lines}\r\n").as_bytes());
    for lines in [
        "",
        "X: y\r\n",
        "Host: a\r\nHost: a\r\n",
        "Host: a\r\nHost: b\r\n",
        "Host: a\r\nX: y\r\nhost: a\r\n",
        "Host:\r\n",
        "Host: a b\r\n",
        "Host: a,b c\r\n",
        "Host: a/b\r\n",
        "Host: a@b\r\n",
        "Host: a:b\r\n",
        "Host: a:80:80\r\n",
        "Host: http://a\r\n",
        "Host: a?b\r\n",
        "Host: a#b\r\n",
        "Host: [::1\r\n",
        "Host: \u{e9}\r\n",
    ] {
        assert_eq!(with(lines), refused, "{lines:?}");
    }
    assert_eq!(refusal(b"GET http://a/ HTTP/1.1\r\n\r\n"), refused);
    assert_eq!(refusal(b"GET http://a/ HTTP/1.1\r\nHost: a b\r\n\r\n"), refused);
    assert_eq!(refusal(b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"), refused);
    assert_eq!(refusal(b"GET / HTTP/1.0\r\nHost: a b\r\n\r\n"), refused);
    assert_eq!(refusal(b"GET / HTTP/1.0\r\n\r\n"), None);
    assert_eq!(refusal(b"GET http://a/ HTTP/1.1\r\nHost: other\r\n\r\n"), None);
}

/// §3: method SP request-target SP HTTP-version, one space each.
#[test]
fn request_lines() {
    let status =
        |line: &str| refusal(format!("{line}\r\nHost: a\r\n\r\n").as_bytes()).map(Refusal::status);
    for line in [
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        " GET / HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET\t/ HTTP/1.1",
        "GET /\tHTTP/1.1",
        "GET / a HTTP/1.1",
        "GET /",
        "GET",
        "GET / ",
        "G(T / HTTP/1.1",
        "G\u{e9}T / HTTP/1.1",
        "G\0T / HTTP/1.1",
        "/ HTTP/1.1",
        "GET HTTP/1.1",
        "GET / HTTP",
        "GET / HTTP/",
        "GET / HTTP/1",
        "GET / HTTP/1.",
        "GET / HTTP/1.1.1",
        "GET / HTTP/11.1",
        "GET / HTTP/1.10",
        "GET / HTTP/1,1",
        "GET / HTTP/+1.1",
        "GET / HTTP/a.b",
        "GET / http/1.1",
        "GET / Http/1.1",
        "GET / HTTPS/1.1",
        "GET / FTP/1.1",
        "GET / HTTP /1.1",
        "GET / HTTP/1.1\0",
        "{\"a\": 1}",
        "\u{16}\u{3}\u{1}",
    ] {
        assert_eq!(status(line), Some(400), "{line:?}");
    }
    // RFC 9110 §15.6.6: a major version that is not supported.
    for line in ["GET / HTTP/0.9", "GET / HTTP/2.0", "GET / HTTP/3.0", "PRI * HTTP/2.0"] {
        assert_eq!(status(line), Some(505), "{line}");
    }
    // RFC 9110 §2.5: a higher minor version is served as the highest known.
    for line in ["GET / HTTP/1.1", "GET / HTTP/1.2", "GET / HTTP/1.9", "gEt / HTTP/1.1"] {
        assert_eq!(status(line), None, "{line}");
    }
    // §3: "a method longer than any that it implements SHOULD respond with a 501".
    assert_eq!(status(&format!("{} / HTTP/1.1", "M".repeat(32))), None);
    assert_eq!(status(&format!("{} / HTTP/1.1", "M".repeat(33))), Some(501));
}

/// §3.2: no form, or a form of another method; RFC 9110 §4.2.4: user information.
#[test]
fn targets() {
    let status = |method: &str, target: &str| {
        let head = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        refusal(head.as_bytes())
    };
    for target in [
        "*",
        "a",
        "a:80",
        "../a",
        "http:",
        "http:/a",
        "http://",
        "http:///",
        "http://:80/",
        "http://u@a/",
        "http://u:p@a/",
        "http://a:b/",
        "http://a:99999/",
        "http://[::1/",
        "ftp://a/",
        "/#",
        "/a#b",
        "/\"",
        "/<",
        "/>",
        "/\\",
        "/`",
        "/{",
        "/}",
        "/?a=\"",
        "/?a=<",
        "/?a=>",
        "/\u{e9}",
        "/\0",
        "/\u{7f}",
        "http://a\\b/",
        "http://a/\"",
    ] {
        let found = status("GET", target).map(Refusal::status);
        assert_eq!(found, Some(400), "{target:?}");
    }
    for target in ["/", "*", "http://a/", "a", ":80", "a:", "u@a:80"] {
        assert_eq!(status("CONNECT", target), Some(Refusal::Target), "{target}");
    }
    assert_eq!(status("CONNECT", "a:80"), None);
    assert_eq!(status("OPTIONS", "*"), None);
    assert_eq!(status("GET", "/?a[b]='(c)'&d=%"), None);
    // Browsers leave these characters as they are (docs/decisions/0008).
    assert_eq!(status("GET", "/a|b^c?q={a}|b^`\\"), None);
}

/// RFC 9110 §10.1.1.
#[test]
fn expectations() {
    assert_eq!(fields("Expect: 100-continue\r\n"), None);
    assert_eq!(fields("Expect: 100-Continue\r\nExpect: 100-continue\r\n"), None);
    for lines in ["Expect: 200-ok\r\n", "Expect:\r\n", "Expect: 100-continue, x\r\n"] {
        assert_eq!(fields(lines), Some(Refusal::Expectation), "{lines:?}");
    }
    assert_eq!(refusal(b"GET / HTTP/1.0\r\nExpect: x\r\n\r\n"), None);
}

/// Reads chunked content to its end or refusal.
fn chunked(wire: &str) -> Result<String, Refusal> {
    let mut reader = BodyReader::new(Framing::Chunked, 1 << 20);
    let mut content = Vec::new();
    let mut rest = wire.as_bytes();
    loop {
        let (bytes, step) = reader.step(rest, u64::MAX)?;
        rest = &rest[bytes..];
        match step {
            BodyStep::Data(data) => content.extend_from_slice(data),
            BodyStep::End(_) => return Ok(String::from_utf8(content).unwrap()),
            BodyStep::NeedMore => panic!("{wire:?} is not at its end"),
        }
    }
}

/// §7.1: chunk-size = 1*HEXDIG, CRLF exactly.
#[test]
fn chunk_sizes() {
    for wire in [
        "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-1\r\nhello\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "5\t\r\nhello\r\n0\r\n\r\n",
        "\r\n5\r\nhello\r\n0\r\n\r\n",
        "\r\n",
        ";x\r\n",
        "g\r\n",
        "5h\r\n",
        "5,5\r\nhello\r\n",
        "5.\r\nhello\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5\r\rhello\r\n0\r\n\r\n",
        "5\r\nhelloo\r\n0\r\n\r\n",
        "5\r\nhell\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello\r0\r\n\r\n",
        "10000000000000000\r\n",
        "ffffffffffffffff0\r\n",
        "fffffffffffffffff\r\n",
        "100000000000000000000005\r\nhello\r\n0\r\n\r\n",
        "5\0\r\nhello\r\n0\r\n\r\n",
        "0\n\r\n",
        "0\r\n\n",
        "0\r\nX: y\n\r\n",
    ] {
        assert_eq!(chunked(wire).map_err(Refusal::status), Err(400), "{wire:?}");
    }
    // A number is right, but more than allowed.
    for wire in ["100001\r\n", "ffffffffffffffff\r\n", "000000000ffffffffffffffff\r\n"] {
        assert_eq!(chunked(wire), Err(Refusal::ContentTooLarge), "{wire:?}");
    }
    for (wire, content) in [
        ("0\r\n\r\n", ""),
        ("000\r\n\r\n", ""),
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("005\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\n\r\n", "hello world"),
        ("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"),
        ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n"),
    ] {
        assert_eq!(chunked(wire).as_deref(), Ok(content), "{wire:?}");
    }
}

/// §7.1.1: extensions are read strictly and dropped.
#[test]
fn chunk_extensions() {
    for extension in [
        ";x",
        ";x=y",
        ";x=\"y\"",
        " ; x = y",
        "\t;\tx\t=\t\"a b\"",
        ";x;y;z",
        ";x=\"\\\"\"",
        ";x=\"\u{e9}\"",
        ";x=\";\";y",
        ";x ;y",
        ";x=\"\"",
    ] {
        let wire = format!("5{extension}\r\nhello\r\n0{extension}\r\n\r\n");
        assert_eq!(chunked(&wire).as_deref(), Ok("hello"), "{extension:?}");
    }
    for extension in [
        ";",
        "; ",
        ";x=",
        ";x= ",
        ";=y",
        ";x y",
        ";x=y z",
        ";x ",
        ";x=y ",
        ";x=\"y",
        ";x=\"y\"z",
        ";x=\"\u{1}\"",
        ";x=\"\\\u{7f}\"",
        ";x=\"a\nb\"",
        ";x\n",
        ";x=y=z",
        ";;",
        ";x;",
        "x",
        "=y",
        "\"\"",
    ] {
        let wire = format!("5{extension}\r\nhello\r\n0\r\n\r\n");
        assert_eq!(chunked(&wire), Err(Refusal::Chunk), "{extension:?}");
    }
}

/// §7.1.2: trailer fields have the grammar of field lines.
#[test]
fn trailers() {
    for trailer in ["X: y\r\n", "X:\r\nY: \t\u{e9}\r\n", "Content-Length: 5\r\n"] {
        assert_eq!(chunked(&format!("0\r\n{trailer}\r\n")).as_deref(), Ok(""), "{trailer:?}");
    }
    for trailer in [
        "X : y\r\n",
        " X: y\r\n",
        "X: a\r\n b\r\n",
        "X\r\n",
        ": y\r\n",
        "X: \0\r\n",
        "X: a\rb\r\n",
        "X: a\nb\r\n",
        "GET / HTTP/1.1\r\n",
        "X: a\r\r\n",
        "\r\r\n",
    ] {
        assert_eq!(chunked(&format!("0\r\n{trailer}\r\n")), Err(Refusal::Trailer), "{trailer:?}");
    }
}
