//! The output of programs: the rules of RFC 3875 §6 one by one, and the limits. Sections are those
//! of RFC 3875 unless another RFC is named. Each case is also compared with the oracle, whole and
//! in parts.

use pinion_http::cgi::error::CgiError as Error;
use pinion_http::cgi::limits::SKIPPED_OUTPUT_MAX_BYTES;
use pinion_http::cgi::response_event::GatewayEvent;
use pinion_http::cgi::response_reader::CgiReader;
use pinion_http::field::KnownField;
use pinion_http::h1::client::limits::{
    RESPONSE_FIELDS_MAX, RESPONSE_HEAD_MAX_BYTES, ResponseLimits,
};
use pinion_http::h1::client::response_framing::ResponseFraming;
use pinion_http::h1::client::response_parser::{InputEnd, Persistence, ResponseEvent};
use pinion_http::h1::head_parser::HeadStorage;
use pinion_http::method::Method;

use crate::oracle::cgi_reader_check::check_case;
use crate::oracle::plain_cgi_output::{Case, Ended, Event, Found, Head};

const CUT: usize = 7;

/// Returns the response of a program that then closes its output.
fn closed(output: impl AsRef<[u8]>) -> Found<Error> {
    check_case(&Case::get(InputEnd::Closed), output.as_ref(), CUT)
}

fn error(output: impl AsRef<[u8]>) -> Option<Error> {
    match closed(output).ended {
        Ended::Error(error) => Some(error),
        Ended::End(_) | Ended::NeedMore => None,
    }
}

fn head(output: &str) -> Head {
    let found = closed(output);
    found.head().cloned().unwrap_or_else(|| panic!("no head in {output:?}: {found:?}"))
}

impl<E> Found<E> {
    pub(crate) fn head(&self) -> Option<&Head> {
        self.events.iter().find_map(|event| match event {
            Event::Head(head) => Some(head),
            _ => None,
        })
    }

    pub(crate) fn content(&self) -> Vec<u8> {
        self.stream(|event| match event {
            Event::Content(bytes) => Some(bytes),
            _ => None,
        })
    }

    pub(crate) fn stderr(&self) -> Vec<u8> {
        self.stream(|event| match event {
            Event::Stderr(bytes) => Some(bytes),
            _ => None,
        })
    }

    fn stream(&self, of: impl Fn(&Event) -> Option<&Vec<u8>>) -> Vec<u8> {
        self.events.iter().filter_map(of).flatten().copied().collect()
    }
}

const END: Ended<Error> = Ended::End(Persistence::Close);

/// §6.2.1: a document response. Lines end with LF or CRLF (§6.2, `NL`).
#[test]
fn documents() {
    for output in [
        "Content-Type: text/plain\n\nhello\r\n",
        "Content-Type: text/plain\r\n\r\nhello\r\n",
        "Content-Type: text/plain\n\r\nhello\r\n",
        "Content-Type:text/plain\t \r\n\nhello\r\n",
    ] {
        let found = closed(output);
        let head = found.head().unwrap();
        assert_eq!((head.status, head.reason.as_slice()), (200, &b""[..]));
        assert_eq!(head.fields, [(b"Content-Type".to_vec(), b"text/plain".to_vec())]);
        assert_eq!(head.content_length, None);
        assert_eq!(found.content(), b"hello\r\n");
        assert_eq!(found.ended, END);
    }
    // Without content, and with binary content.
    assert_eq!(closed("Content-Type: a/b\n\n").ended, END);
    let found = closed(b"Content-Type: a/b\n\n\0\x01\n\r\xff");
    assert_eq!(found.content(), b"\0\x01\n\r\xff");
}

/// §6.3.3: `Status = "Status:" status-code SP reason-phrase NL`.
#[test]
fn status_codes() {
    for (value, status, reason) in [
        ("404 Not Found", 404, "Not Found"),
        ("200", 200, ""),
        ("204 ", 204, ""),
        ("599 \u{e9} ", 599, "\u{e9}"),
        ("999 x", 999, "x"),
    ] {
        let head = head(&format!("Status: {value}\nX: y\n\n"));
        assert_eq!((head.status, head.reason), (status, reason.as_bytes().to_vec()), "{value}");
        assert_eq!(head.fields, [(b"X".to_vec(), b"y".to_vec())]);
    }
    for value in [
        "",
        "OK",
        "20",
        "2000",
        "20x OK",
        "+20 OK",
        "-20",
        "200OK",
        "200\tOK",
        "000",
        "99",
        "099 x",
        // There are no interim responses (§6.2).
        "100 Continue",
        "101 Switching Protocols",
        "199",
        "HTTP/1.1 200 OK",
        "\u{662}00",
    ] {
        assert_eq!(error(format!("Status: {value}\n\n")), Some(Error::InvalidStatus), "{value:?}");
    }
}

/// §6.3: "Each CGI field MUST NOT appear more than once in the response."
#[test]
fn fields_that_may_be_given_once() {
    for (name, value) in [("Status", "200 OK"), ("Location", "http://a/"), ("Content-Length", "0")]
    {
        let lower = name.to_lowercase();
        let output = format!("{name}: {value}\n{lower}: {value}\n\n");
        assert_eq!(error(output), Some(Error::RepeatedField { name }));
    }
    let cookies = head("Set-Cookie: a=1\nSet-Cookie: b=2\n\n");
    assert_eq!(cookies.fields.len(), 2);
}

/// §6.2.2: a local redirect, whose content and other fields mean nothing.
#[test]
fn local_redirects() {
    for output in ["Location: /a/b?c=d\n\n", "X: y\r\nlocation: /a/b?c=d\r\n\r\nmoved"] {
        let found = closed(output);
        assert_eq!(found.events, [Event::LocalRedirect(b"/a/b?c=d".to_vec())], "{output}");
        assert_eq!(found.ended, END);
    }
    for path in ["/a b", "/a#b", "/\u{e9}\\"] {
        let ended = closed(format!("Location: {path}\n\n")).ended;
        let is_target =
            pinion_http::request_target::Target::parse(Method::Get, path.as_bytes()).is_ok();
        let expected = if is_target { END } else { Ended::Error(Error::InvalidLocation) };
        assert_eq!(ended, expected, "{path}");
    }
    assert_eq!(error("Location: /a#b\n\n"), Some(Error::InvalidLocation));
    assert_eq!(error("Location:\n\n"), Some(Error::InvalidLocation));
}

/// §6.2.3, §6.2.4: a redirect for the client has 302, or the status of the program.
#[test]
fn client_redirects() {
    for (output, status) in [
        ("Location: https://example.org/x\n\n", 302),
        ("Location: //example.org/x\n\n", 302),
        ("Location: other\n\n", 302),
        ("Location: #fragment\n\n", 302),
        ("Status: 301 Moved\nLocation: https://example.org/x\n\nmoved", 301),
        // A status makes it a response for the client: PHP always sends both.
        ("Status: 302 Found\nLocation: /login\n\n", 302),
        ("Status: 201 Created\nLocation: /items/7\n\n", 201),
    ] {
        let head = head(output);
        assert_eq!(head.status, status, "{output}");
        assert!(head.fields.iter().any(|(name, _)| name == b"Location"), "{output}");
    }
}

/// §6.3.4, RFC 9110 §7.6.1: fields that frame the message or control the connection belong to the
/// server.
#[test]
fn fields_of_the_connection_are_left_out() {
    let head = head(
        "Content-Type: a/b\nConnection: X-Hop, close\nKeep-Alive: 5\nTransfer-Encoding: chunked\n\
         Trailer: X\nUpgrade: h2c\nTE: trailers\nProxy-Connection: x\nHTTP2-Settings: x\n\
         transfer_encoding: chunked\nx-hop: 1\nX-Hops: 2\n\n5\r\nhello\r\n0\r\n\r\n",
    );
    let names: Vec<_> = head.fields.iter().map(|(name, _)| name.as_slice()).collect();
    assert_eq!(names, [&b"Content-Type"[..], b"X-Hops"]);
    let head = self::head("Connection: Content-Length\nContent-Length: 2\n\nok");
    assert_eq!(head.content_length, Some(2));
    assert_eq!(head.fields.len(), 1);
}

/// RFC 9110 §8.6: a wrong length is an error of the program, and never results in a shorter or
/// longer response.
#[test]
fn content_must_match_its_length() {
    let found = closed("Content-Length: 5\n\nhello");
    assert_eq!((found.content(), found.ended), (b"hello".to_vec(), END));
    assert_eq!(error("Content-Length: 0\n\n"), None);
    for (content, expected) in [
        ("", Error::ContentTooShort { missing_bytes: 5 }),
        ("hell", Error::ContentTooShort { missing_bytes: 1 }),
        ("hello\n", Error::ContentTooLong),
    ] {
        let found = closed(format!("Content-Length: 5\n\n{content}"));
        assert_eq!(found.ended, Ended::Error(expected), "{content:?}");
    }
    for value in ["", "+5", "5 5", "5, 5", "-1", "0x5", "99999999999999999999"] {
        let output = format!("Content-Length: {value}\n\n");
        assert_eq!(error(output), Some(Error::InvalidContentLength), "{value:?}");
    }
}

/// A malformed head has an error with the reason.
#[test]
fn malformed_heads() {
    for (output, expected) in [
        (&b""[..], Error::NoOutput),
        (b"\n", Error::NoFields),
        (b"\r\nhello", Error::NoFields),
        (b"Content-Type: a/b", Error::HeadIncomplete),
        (b"Content-Type: a/b\r\n", Error::HeadIncomplete),
        (b"Content-Type: a/b\r\n\r", Error::HeadIncomplete),
        (b"hello", Error::HeadIncomplete),
        (b"hello\n", Error::MalformedFieldLine),
        (b"hello\n\n", Error::MalformedFieldLine),
        (b"HTTP/1.1 200 OK\r\n\r\n", Error::MalformedFieldLine),
        (b"X : y\n\n", Error::MalformedFieldLine),
        (b" X: y\n\n", Error::MalformedFieldLine),
        (b"X: y\n folded\n\n", Error::MalformedFieldLine),
        (b": y\n\n", Error::MalformedFieldLine),
        (b"\x7fELF\x02\x01", Error::ControlByteInHead),
        (b"\x89PNG\r\n\x1a\n", Error::ControlByteInHead),
        (b"X: a\0b\n\n", Error::ControlByteInHead),
        (b"X: a\rb\n\n", Error::ControlByteInHead),
        (b"X: a\r\r\n\n", Error::ControlByteInHead),
        (b"X: \x1b[31m\n\n", Error::ControlByteInHead),
    ] {
        assert_eq!(error(output), Some(expected), "{}", output.escape_ascii());
    }
}

/// A program that is killed has no whole response, also if no length is missing.
#[test]
fn truncated_output_is_an_error() {
    let broken =
        |output: &str| check_case(&Case::get(InputEnd::Broken), output.as_bytes(), CUT).ended;
    assert_eq!(broken("X: y\n\nhello"), Ended::Error(Error::OutputAborted));
    assert_eq!(broken("Content-Length: 5\n\nhello"), Ended::Error(Error::OutputAborted));
    let missing = Error::ContentTooShort { missing_bytes: 1 };
    assert_eq!(broken("Content-Length: 5\n\nhell"), Ended::Error(missing));
    assert_eq!(broken("X: y\n"), Ended::Error(Error::HeadIncomplete));
    assert_eq!(broken(""), Ended::Error(Error::NoOutput));
}

/// §4.3.3, RFC 9110 §6.4.1: a response to HEAD, or with 204 or 304, has no content, for any output.
#[test]
fn responses_without_content() {
    let mut case = Case::get(InputEnd::Closed);
    case.request.method = Method::Head;
    let found = check_case(&case, b"Content-Length: 5\n\n", CUT);
    assert_eq!(found.head().unwrap().content_length, Some(5));
    assert_eq!(found.ended, END);
    assert_eq!(check_case(&case, b"Content-Length: 5\n\nhello!", CUT).content(), b"");
    for status in [204, 304] {
        let found = closed(format!("Status: {status}\n\nhello"));
        assert_eq!((found.content(), found.ended), (Vec::new(), END), "{status}");
    }
}

/// Output that is no content is read up to a limit, and then the response ends.
#[test]
fn skipped_output_has_a_limit() {
    let case = Case::get(InputEnd::Open);
    let read = |bytes: usize| {
        let mut reader = CgiReader::new(case.request, &case.limits);
        let output = [&b"Status: 204\n\n"[..], &vec![b'x'; bytes]].concat();
        let mut storage = HeadStorage::new();
        let head = reader.step(&output, InputEnd::Open, u64::MAX, &mut storage).unwrap().used;
        let rest = &output[head..];
        let step = reader.step(rest, InputEnd::Open, u64::MAX, &mut storage).unwrap();
        let is_end = matches!(step.event, GatewayEvent::Response(ResponseEvent::End { .. }));
        (step.used, is_end, reader.is_at_end())
    };
    let max = SKIPPED_OUTPUT_MAX_BYTES as usize;
    assert_eq!(read(max), (max, false, false));
    assert_eq!(read(max + 1), (max, true, true));
}

#[test]
fn limits_of_heads() {
    // The last two bytes are the ends of lines, so the value ends where 16 bits do.
    let most = RESPONSE_HEAD_MAX_BYTES - "X:\n\n".len();
    let output = format!("X:{}\n\n", "y".repeat(most));
    assert_eq!(head(&output).fields[0].1.len(), most);
    let max_bytes = RESPONSE_HEAD_MAX_BYTES;
    let output = format!("X:{}\n\n", "y".repeat(most + 1));
    assert_eq!(error(output), Some(Error::HeadTooLarge { max_bytes }));
    let max = RESPONSE_FIELDS_MAX;
    assert_eq!(head(&format!("{}\n", "X: y\n".repeat(max))).fields.len(), max);
    let output = format!("{}\n", "X: y\n".repeat(max + 1));
    assert_eq!(error(output), Some(Error::TooManyFields { max }));
}

#[test]
fn limit_of_content() {
    let mut case = Case::get(InputEnd::Closed);
    case.limits.content_bytes = 5;
    assert_eq!(check_case(&case, b"X: y\n\nhello", CUT).ended, END);
    let found = check_case(&case, b"X: y\n\nhello!", CUT);
    assert_eq!(found.ended, Ended::Error(Error::ContentTooLarge { max_bytes: 5 }));
    assert_eq!(found.content(), b"hello");
}

/// A head in several pieces is put together, and the values that the client of HTTP/1 uses are all
/// there.
#[test]
fn a_head_in_pieces_is_parsed_like_a_whole_one() {
    let request = Case::get(InputEnd::Open).request;
    let output = b"Status: 206 Part\nRange: bytes=0-4\nContent-Length: 3\n\nabc";
    for cut in 1..output.len() - 3 {
        let mut reader = CgiReader::new(request, &ResponseLimits::default());
        let mut storage = HeadStorage::new();
        let first = reader.step(&output[..cut], InputEnd::Open, 1, &mut storage).unwrap();
        let mut used = first.used;
        if cut < output.len() - 3 {
            assert_eq!(used, cut, "a part of a head is kept by the reader");
        }
        if matches!(first.event, GatewayEvent::Response(ResponseEvent::NeedMore)) {
            let step = reader.step(&output[used..], InputEnd::Open, 1, &mut storage).unwrap();
            used += step.used;
            let GatewayEvent::Response(ResponseEvent::Head(head)) = step.event else {
                panic!("no head behind {cut} bytes: {step:?}")
            };
            assert_eq!((head.status, head.reason, head.keep_alive), (206, &b"Part"[..], false));
            assert_eq!(head.framing, ResponseFraming::Length(3));
            assert_eq!(head.value(KnownField::Range), Some(&b"bytes=0-4"[..]));
            assert_eq!(head.value(KnownField::ContentLength), Some(&b"3"[..]));
        }
        assert_eq!(&output[used..], b"abc");
    }
}
