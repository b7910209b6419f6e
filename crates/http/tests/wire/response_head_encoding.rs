//! Response heads, byte for byte.

use pinion_http::field::Field;
use pinion_http::h1::response_encoder::{self, BodyLength, ConnectionFields};
use pinion_http::prepared_response::{ContentRange, Location, Prepared, SharedFields};

const TAIL: &[u8] = b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n";

fn prepared(response: &Prepared<'_>, connection: ConnectionFields, tail: &[u8]) -> String {
    let mut out = b"before|".to_vec();
    response_encoder::prepared(&mut out, response, connection, tail);
    String::from_utf8(out).unwrap().strip_prefix("before|").unwrap().into()
}

#[test]
fn an_empty_response() {
    let head = prepared(&Prepared::empty(204), ConnectionFields::Stay, b"\r\n");
    assert_eq!(head, "HTTP/1.1 204 No Content\r\n\r\n");
}

#[test]
fn a_file() {
    let response = Prepared {
        shared: SharedFields::h1(b"Content-Type: text/css\r\nVary: Accept-Encoding\r\n"),
        etag: Some(b"abcdefghijklmnopqrstuv"),
        last_modified: Some(784_111_777),
        content_length: Some(1234),
        ..Prepared::empty(200)
    };
    assert_eq!(
        prepared(&response, ConnectionFields::Stay, TAIL),
        "HTTP/1.1 200 OK\r\n\
         Content-Type: text/css\r\n\
         Vary: Accept-Encoding\r\n\
         ETag: \"abcdefghijklmnopqrstuv\"\r\n\
         Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
         Content-Length: 1234\r\n\
         Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
    );
}

#[test]
fn every_field_is_written() {
    let response = Prepared {
        shared: SharedFields::h1(b"X-Shared: yes\r\n"),
        etag: Some(b"t"),
        last_modified: Some(0),
        location: Some(Location { path: b"/a%20b/", query: Some(b"q=1") }),
        content_location: Some(b"/a.html"),
        content_range: Some(ContentRange::Bytes { first: 0, last: 9, total: 100 }),
        content_type: Some(b"text/plain"),
        allow: Some(b"GET, HEAD"),
        content_length: Some(0),
        ..Prepared::empty(206)
    };
    let head = prepared(&response, ConnectionFields::Close, TAIL);
    let mut lines: Vec<&str> = head.split("\r\n").collect();
    assert_eq!(lines.remove(0), "HTTP/1.1 206 Partial Content");
    assert_eq!(lines.split_off(lines.len() - 2), ["", ""], "one blank line at the end");
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "Allow: GET, HEAD",
            "Connection: close",
            "Content-Length: 0",
            "Content-Location: /a.html",
            "Content-Range: bytes 0-9/100",
            "Content-Type: text/plain",
            "Date: Sun, 06 Nov 1994 08:49:37 GMT",
            "ETag: \"t\"",
            "Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT",
            "Location: /a%20b/?q=1",
            "X-Shared: yes",
        ]
    );
}

#[test]
fn locations() {
    for (query, expected) in [(None, "/a/"), (Some(&b""[..]), "/a/?"), (Some(b"b=c"), "/a/?b=c")] {
        let response =
            Prepared { location: Some(Location { path: b"/a/", query }), ..Prepared::empty(308) };
        let head = prepared(&response, ConnectionFields::Stay, b"\r\n");
        assert!(head.contains(&format!("\r\nLocation: {expected}\r\n")), "{head}");
    }
}

/// RFC 9110 §14.4.
#[test]
fn content_ranges() {
    let last = u64::MAX - 1;
    for (range, expected) in [
        (ContentRange::Bytes { first: 42, last: 1233, total: 1234 }, "bytes 42-1233/1234"),
        (ContentRange::Unsatisfied { total: 1234 }, "bytes */1234"),
        (ContentRange::Unsatisfied { total: 0 }, "bytes */0"),
        (
            ContentRange::Bytes { first: 0, last, total: u64::MAX },
            "bytes 0-18446744073709551614/18446744073709551615",
        ),
    ] {
        let mut out = Vec::new();
        response_encoder::content_range(&mut out, range);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

/// RFC 9112 §9.3, and the old Keep-Alive field.
#[test]
fn connection_fields() {
    for (connection, lines) in [
        (ConnectionFields::Stay, ""),
        (ConnectionFields::Close, "Connection: close\r\n"),
        (
            ConnectionFields::KeepAlive { timeout_seconds: 60, max_requests: None },
            "Connection: keep-alive\r\nKeep-Alive: timeout=60\r\n",
        ),
        (
            ConnectionFields::KeepAlive { timeout_seconds: 5, max_requests: Some(99) },
            "Connection: keep-alive\r\nKeep-Alive: timeout=5, max=99\r\n",
        ),
    ] {
        let head = prepared(&Prepared::empty(200), connection, b"\r\n");
        assert_eq!(head, format!("HTTP/1.1 200 OK\r\n{lines}\r\n"));
    }
}

fn field(name: &'static str, value: &'static str) -> Field<'static> {
    Field { name: name.as_bytes(), value: value.as_bytes() }
}

#[test]
fn dynamic_heads() {
    for (body, line) in [
        (BodyLength::None, ""),
        (BodyLength::UntilClose, ""),
        (BodyLength::Length(7), "Content-Length: 7\r\n"),
        (BodyLength::Chunked, "Transfer-Encoding: chunked\r\n"),
    ] {
        let mut out = Vec::new();
        let fields = [field("X", "y"), field("Set-Cookie", "a=b")];
        response_encoder::head(
            &mut out,
            201,
            fields.into_iter(),
            body,
            ConnectionFields::Stay,
            TAIL,
        );
        let expected = format!(
            "HTTP/1.1 201 Created\r\nX: y\r\nSet-Cookie: a=b\r\n{line}\
             Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

/// No application can split a response.
#[test]
fn unsafe_lines_are_left_out() {
    let fields = [
        field("A", "b\r\nSet-Cookie: x"),
        field("B", "b\nc"),
        field("C\r\nX", "d"),
        field("C:", "d"),
        field("", "e"),
        field("D", "f\0"),
        field("E", "kept \t\u{e9}"),
    ];
    let mut out = Vec::new();
    response_encoder::interim(&mut out, 103, fields.into_iter());
    assert_eq!(out, "HTTP/1.1 103 Early Hints\r\nE: kept \t\u{e9}\r\n\r\n".as_bytes());
    let mut out = Vec::new();
    response_encoder::last_chunk(&mut out, fields.into_iter());
    assert_eq!(out, "0\r\nE: kept \t\u{e9}\r\n\r\n".as_bytes());
}

/// No application can frame a response in a second way (RFC 9112 §6, §11.2).
#[test]
fn framing_and_date_fields_of_an_application_are_omitted() {
    let fields = [
        field("Content-Length", "5"),
        field("content-length", "7"),
        field("TRANSFER-ENCODING", "chunked"),
        field("Connection", "close"),
        field("Keep-Alive", "timeout=1"),
        field("dATE", "Thu, 01 Jan 1970 00:00:00 GMT"),
        field("Content-Lengths", "kept"),
    ];
    let mut out = Vec::new();
    let stay = ConnectionFields::Stay;
    response_encoder::head(&mut out, 200, fields.into_iter(), BodyLength::Length(3), stay, TAIL);
    let head = [&b"HTTP/1.1 200 OK\r\nContent-Lengths: kept\r\nContent-Length: 3\r\n"[..], TAIL];
    assert_eq!(out, head.concat());
    let mut out = Vec::new();
    response_encoder::last_chunk(&mut out, fields.into_iter());
    assert_eq!(out, b"0\r\nContent-Lengths: kept\r\n\r\n");
    let mut out = Vec::new();
    response_encoder::interim(&mut out, 103, fields.into_iter());
    assert_eq!(out, b"HTTP/1.1 103 Early Hints\r\nContent-Lengths: kept\r\n\r\n");
    let mut out = Vec::new();
    response_encoder::interim(&mut out, 101, fields.into_iter());
    let switching = b"HTTP/1.1 101 Switching Protocols\r\nConnection: close\r\n\
        Content-Lengths: kept\r\n\r\n";
    assert_eq!(out, switching);
}

/// The reader decodes chunks that the encoder has written.
#[test]
fn written_chunks_round_trip() {
    use pinion_http::h1::body::{BodyReader, BodyStep};
    let mut out = Vec::new();
    for data in [vec![b'x'; 1], vec![b'y'; 255], vec![b'z'; 4096]] {
        response_encoder::chunk_prefix(&mut out, data.len() as u64);
        out.extend(data);
        out.extend(response_encoder::CHUNK_END);
    }
    response_encoder::last_chunk(&mut out, [field("X", "y")].into_iter());
    let mut reader = BodyReader::new(pinion_http::request_head::Framing::Chunked, 1 << 20);
    let mut at = 0;
    for length in [1, 255, 4096] {
        let (bytes, step) = reader.step(&out[at..], u64::MAX).unwrap();
        assert!(matches!(step, BodyStep::Data(data) if data.len() == length));
        at += bytes;
    }
    let end = BodyStep::End(b"X: y\r\n\r\n");
    assert_eq!(reader.step(&out[at..], u64::MAX), Ok((out.len() - at, end)));
}

#[test]
fn numbers() {
    let mut numbers = vec![0, u64::MAX];
    numbers.extend((0..20).flat_map(|power| {
        let power = 10u64.pow(power);
        [power - 1, power, power + 1]
    }));
    for number in numbers {
        let mut out = Vec::new();
        response_encoder::decimal(&mut out, number);
        assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        if number > 0 {
            let mut out = Vec::new();
            response_encoder::chunk_prefix(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{number:x}\r\n"));
        }
    }
}
