//! Responses: the rules of RFC 9112 one by one, and the limits. Sections are those of RFC 9112
//! unless another RFC is named. Each case is also compared with the oracle, whole and in parts.

use pinion_http::h1::client::limits::{
    CHUNK_EXTENSIONS_MAX_BYTES, INTERIM_RESPONSES_MAX, RESPONSE_FIELDS_MAX,
    RESPONSE_HEAD_MAX_BYTES, ResponseLimits,
};
use pinion_http::h1::client::request_writer::SentRequest;
use pinion_http::h1::client::response_error::ResponseError as Error;
use pinion_http::h1::client::response_framing::ResponseFraming;
use pinion_http::h1::client::response_parser::{
    InputEnd, Persistence, ResponseEvent, ResponseParser,
};
use pinion_http::h1::head_parser::HeadStorage;
use pinion_http::limits::{CHUNK_LINE_MAX_BYTES, FIELDS_MAX, TRAILER_MAX_BYTES};
use pinion_http::method::Method;

use crate::oracle::h1_response::{Case, Ended, Found, check_case};

const CUT: usize = 7;

/// Returns the response to a GET over a connection that stays open.
fn open(wire: &str) -> Found {
    check_case(&Case::get(InputEnd::Open), wire.as_bytes(), CUT)
}

/// Returns the response to a GET over a connection that the server then closes.
fn closed(wire: &str) -> Found {
    check_case(&Case::get(InputEnd::Closed), wire.as_bytes(), CUT)
}

fn error(wire: impl AsRef<[u8]>) -> Option<Error> {
    match check_case(&Case::get(InputEnd::Open), wire.as_ref(), CUT).ended {
        Ended::Error(error) => Some(error),
        Ended::End(_) => None,
        Ended::NeedMore => panic!("not whole: {:?}", wire.as_ref().escape_ascii().to_string()),
    }
}

fn to(method: Method, wire: &str) -> Found {
    let mut case = Case::get(InputEnd::Open);
    case.request.method = method;
    check_case(&case, wire.as_bytes(), CUT)
}

const REUSE: Ended = Ended::End(Persistence::Reuse);
const CLOSE: Ended = Ended::End(Persistence::Close);
const TUNNEL: Ended = Ended::End(Persistence::Tunnel);

#[test]
fn a_servers_response() {
    let wire = "HTTP/1.1 404 Not Found\r\nServer: x\r\nContent-Length: 5\r\nETag:  \"a\" \r\n\r\n\
                helloHTTP";
    let found = open(wire);
    let head = found.head.unwrap();
    assert_eq!((head.status, head.reason.as_slice()), (404, &b"Not Found"[..]));
    assert!(!head.is_1_0);
    assert_eq!(head.content_length, Some(5));
    assert_eq!(head.fields[2], (b"ETag".to_vec(), b"\"a\"".to_vec()));
    assert_eq!(found.content, b"hello");
    assert_eq!(found.ended, REUSE);
    // The bytes after it are not read.
    assert_eq!(&wire[found.used..], "HTTP");
}

/// §4: "status-line = HTTP-version SP status-code SP [ reason-phrase ]".
#[test]
fn status_lines() {
    let of = |line: &str| error(format!("{line}\r\nContent-Length: 0\r\n\r\n"));
    for line in [
        "HTTP/1.1 200 OK",
        "HTTP/1.0 200 OK",
        "HTTP/1.1 200 ",
        // §4: "recipients MAY instead parse on whitespace-delimited word boundaries"; servers leave
        // out the space before an empty reason phrase.
        "HTTP/1.1 200",
        "HTTP/1.1 200  two spaces\tand a tab ",
        "HTTP/1.1 200 \u{e9}",
        // RFC 9110 §15: a client must accept codes that it does not know; one above 599 is treated
        // as a 5xx.
        "HTTP/1.1 299 x",
        "HTTP/1.1 599 x",
        "HTTP/1.1 600 x",
        "HTTP/1.1 999 Request Denied",
    ] {
        assert_eq!(of(line), None, "{line:?}");
    }
    for line in [
        "HTTP/1.1 099 x",
        "HTTP/1.1 000 x",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 2x0 OK",
        "HTTP/1.1 +20 OK",
        "HTTP/1.1  200 OK",
        "HTTP/1.1\t200 OK",
        "HTTP/1.1 200\tOK",
        "HTTP/1.1 200OK",
        "HTTP/1.1 OK",
        "HTTP/1.1",
        " HTTP/1.1 200 OK",
        "http/1.1 200 OK",
        "HTTP/1.10 200 OK",
        "HTTP/11.1 200 OK",
        "HTTP/1,1 200 OK",
        "HTTP/ 1.1 200 OK",
        "HTTPS/1.1 200 OK",
        "ICY 200 OK",
        "220 mail.example ESMTP",
        "SSH-2.0-OpenSSH_9.6",
        "<html>",
        "\u{15}\u{3}\u{3}\0\u{2}",
        // RFC 9110 §5.5: a reason phrase has no control bytes.
        "HTTP/1.1 200 O\0K",
        "HTTP/1.1 200 O\u{7f}K",
        "HTTP/1.1 200 \u{1b}[31m",
    ] {
        assert_eq!(of(line), Some(Error::MalformedStatusLine), "{line:?}");
    }
}

/// §2.3, RFC 9110 §2.5: there is no other version that a client could get over HTTP/1.
#[test]
fn versions() {
    for version in ["0.9", "1.2", "1.9", "2.0", "3.0", "9.1"] {
        let wire = format!("HTTP/{version} 200 OK\r\n\r\n");
        assert_eq!(error(wire), Some(Error::UnsupportedVersion), "{version}");
    }
    assert_eq!(error("HTTP/2"), Some(Error::UnsupportedVersion), "as soon as it is there");
}

/// §2.2: only a server skips empty lines before a message.
#[test]
fn empty_lines_before_a_response() {
    for wire in ["\r\nHTTP/1.1 200 OK\r\n\r\n", "\nHTTP/1.1 200 OK\r\n\r\n", "\r\n", "\n"] {
        assert_eq!(error(wire), Some(Error::MalformedStatusLine), "{wire:?}");
    }
}

/// §2.2: a bare CR, and a bare LF that a recipient may take for the end of a line, are where
/// recipients differ most.
#[test]
fn bare_cr_and_lf() {
    for wire in [
        "HTTP/1.1 200 OK\nX: y\r\n\r\n",
        "HTTP/1.1 200\nX: y\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: y\n\r\n",
        "HTTP/1.1 200 OK\r\nX: y\r\n\n",
        "HTTP/1.1 200 OK\n\n",
        "HTTP/1.1 200 OK\r\nX: y\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: y\rContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: y\r\r\n\r\n",
        "HTTP/1.1 200 O\rK\r\n\r\n",
        "HTTP/1.1 200\rOK\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\r\n\r\n",
    ] {
        assert_eq!(error(wire), Some(Error::MisplacedLineEnd), "{wire:?}");
    }
}

/// §5, §5.1: "No whitespace is allowed between the field name and colon". §5.2: a user agent may
/// replace folding; this one refuses it, as browsers do for requests and HTTP/2 for all messages.
/// §2.2: white space before the first field line is rejected.
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
        "X: a\0b\r\n",
        "X\0: a\r\n",
        "X: a\u{7f}\r\n",
        "X: a\u{1b}[0m\r\n",
    ] {
        let wire = format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 0\r\n\r\n");
        assert_eq!(error(wire), Some(Error::MalformedFieldLine), "{lines:?}");
    }
    for lines in ["X:\r\n", "X:a\r\n", "X: \t a b \t\r\n", "X: \u{e9}\r\n", "!#$: a\r\n"] {
        let wire = format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 0\r\n\r\n");
        assert_eq!(error(wire), None, "{lines:?}");
    }
}

/// §6.3, rule 1: "Any response to a HEAD request and any response with a 1xx, 204, or 304 status
/// code is always terminated by the first empty line after the header fields, regardless of the
/// header fields present in the message".
#[test]
fn responses_without_content() {
    for (method, status) in
        [(Method::Head, 200), (Method::Head, 404), (Method::Get, 204), (Method::Get, 304)]
    {
        for fields in
            ["", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Content-Length: x\r\n"]
        {
            let wire = format!("HTTP/1.1 {status} x\r\n{fields}\r\n5\r\nhello");
            let found = to(method, &wire);
            assert!(matches!(found.ended, Ended::End(_)), "{method:?} {status} {fields}");
            assert_eq!(&wire[found.used..], "5\r\nhello");
            assert_eq!(found.content, b"");
            let length = (fields == "Content-Length: 5\r\n").then_some(5);
            assert_eq!(found.head.unwrap().content_length, length);
        }
    }
}

/// RFC 9110 §8.6 and RFC 9112 §6.1 forbid the fields in a 204 and a 1xx. A server that sends them
/// may send content too, so its connection is not used again.
#[test]
fn content_announced_where_none_can_be_prevents_reuse() {
    for (method, status, fields, ended) in [
        (Method::Get, 204, "", REUSE),
        (Method::Get, 204, "Content-Length: 0\r\n", REUSE),
        (Method::Get, 204, "Content-Length: 5\r\n", CLOSE),
        (Method::Get, 204, "Content-Length: x\r\n", CLOSE),
        (Method::Get, 204, "Transfer-Encoding: chunked\r\n", CLOSE),
        (Method::Get, 304, "Content-Length: 5\r\n", REUSE),
        (Method::Get, 304, "Transfer-Encoding: chunked\r\n", REUSE),
        (Method::Get, 304, "Content-Length: 5\r\nContent-Length: 6\r\n", CLOSE),
        (Method::Head, 200, "Content-Length: 5\r\n", REUSE),
        (Method::Head, 200, "Transfer-Encoding: chunked\r\n", REUSE),
        (Method::Head, 200, "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", CLOSE),
        (Method::Head, 204, "Content-Length: 5\r\n", CLOSE),
        (Method::Head, 200, "Content-Length: -5\r\n", CLOSE),
    ] {
        let found = to(method, &format!("HTTP/1.1 {status} x\r\n{fields}\r\n"));
        assert_eq!(found.ended, ended, "{method:?} {status} {fields}");
    }
    for fields in ["Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"] {
        let wire = format!("HTTP/1.1 103 x\r\n{fields}\r\nHTTP/1.1 200 OK\r\nContent-Length: 0");
        assert_eq!(open(&format!("{wire}\r\n\r\n")).ended, CLOSE, "{fields}");
    }
    let wire = "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(to(Method::Head, wire).ended, CLOSE);
}

/// §6.3, rule 2: "Any 2xx (Successful) response to a CONNECT request implies that the connection
/// will become a tunnel … A client MUST ignore any Content-Length or Transfer-Encoding".
#[test]
fn connect() {
    for fields in ["", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"] {
        let wire = format!("HTTP/1.1 200 OK\r\n{fields}\r\nSSH-2.0");
        let found = to(Method::Connect, &wire);
        assert_eq!(found.ended, TUNNEL, "{fields}");
        assert_eq!(&wire[found.used..], "SSH-2.0");
    }
    assert_eq!(to(Method::Connect, "HTTP/1.1 299 x\r\n\r\n").ended, TUNNEL);
    let refused = to(Method::Connect, "HTTP/1.1 403 x\r\nContent-Length: 2\r\n\r\nno");
    assert_eq!((refused.content.as_slice(), refused.ended), (&b"no"[..], REUSE));
}

/// §6.3, rule 3: both fields "ought to be handled as an error".
#[test]
fn both_framings() {
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: x\r\n",
        "Transfer-Encoding: identity\r\nContent-Length: 5\r\n",
    ] {
        let wire = format!("HTTP/1.1 200 OK\r\n{fields}\r\n0\r\n\r\n");
        assert_eq!(error(wire), Some(Error::AmbiguousTransferEncoding), "{fields}");
    }
}

/// §6.3, rule 4, in the strict reading: content in another coding could not be decoded. §6.1: in
/// HTTP/1.0 "the framing is faulty".
#[test]
fn transfer_encoding() {
    let of = |version: &str, value: &str| {
        let wire = format!("HTTP/{version} 200 OK\r\nTransfer-Encoding: {value}\r\n\r\n0\r\n\r\n");
        error(wire)
    };
    for good in ["chunked", "Chunked", "CHUNKED", " \tchunked\t "] {
        assert_eq!(of("1.1", good), None, "{good:?}");
    }
    for unknown in ["identity", "gzip", "gzip, chunked", "xchunked", "cow"] {
        assert_eq!(of("1.1", unknown), Some(Error::UnsupportedTransferCoding), "{unknown}");
    }
    for ambiguous in [
        "chunked, gzip",
        "chunked, chunked",
        "",
        ",",
        "chunked;x=y",
        "\"chunked\"",
        "chunked gzip",
        "chunked\r\nTransfer-Encoding: chunked",
        "chunked\r\nTransfer-Encoding: identity",
    ] {
        assert_eq!(of("1.1", ambiguous), Some(Error::AmbiguousTransferEncoding), "{ambiguous:?}");
    }
    assert_eq!(of("1.0", "chunked"), Some(Error::AmbiguousTransferEncoding));
    assert_eq!(of("1.1", "\u{b}chunked"), Some(Error::MalformedFieldLine));
}

/// §6.3, rule 5: an invalid value is an error, "unless the field value can be successfully parsed
/// as a comma-separated list, all values in the list are valid, and all values in the list are the
/// same".
#[test]
fn content_length() {
    let of = |value: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {value}\r\n\r\nhello");
    for good in [
        "5",
        "0005",
        " 5\t",
        "5, 5",
        "5,5,5",
        "5\r\nContent-Length: 5",
        "5\r\ncontent-length: 5, 5",
    ] {
        let found = open(&of(good));
        assert_eq!((found.content.as_slice(), found.ended), (&b"hello"[..], REUSE), "{good:?}");
    }
    for bad in [
        "",
        " ",
        ",",
        "5,",
        "5, 6",
        "5\r\nContent-Length: 6",
        "5\r\nX: y\r\nContent-Length:",
        "+5",
        "-5",
        "0x5",
        "5 5",
        "5.0",
        "5;",
        "five",
        "\"5\"",
        "\u{ff15}",
        "18446744073709551616",
        "99999999999999999999999999",
    ] {
        assert_eq!(error(of(bad)), Some(Error::InvalidContentLength), "{bad:?}");
    }
}

/// §6.3, rule 6, and §8: "If the sender closes the connection … before the indicated number of
/// octets are received, the recipient MUST consider the message to be incomplete".
#[test]
fn content_with_a_length() {
    let wire = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    for cut in 1..=5 {
        let short = &wire[..wire.len() - cut];
        assert_eq!(open(short).ended, Ended::NeedMore);
        let found = closed(short);
        assert_eq!(found.ended, Ended::Error(Error::ContentIncomplete));
        assert_eq!(found.content, &b"hello"[..5 - cut], "what came is handed on");
    }
    // A content that has reached its length is complete, for any later end of the connection.
    let broken = check_case(&Case::get(InputEnd::Broken), wire.as_bytes(), CUT);
    assert_eq!((broken.content.as_slice(), broken.ended), (&b"hello"[..], REUSE));
    let nothing = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(open(nothing).ended, REUSE);
}

/// §6.3, rule 8: "a response message without a declared message body length … is determined by the
/// number of octets received prior to the server closing the connection". §9.8: over TLS only a
/// close with `close_notify` ends it.
#[test]
fn content_until_close() {
    let wire = "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\nhello";
    assert_eq!(open(wire).ended, Ended::NeedMore);
    assert_eq!(open(wire).content, b"hello", "content is handed on as it comes");
    let whole = closed(wire);
    assert_eq!((whole.content.as_slice(), whole.ended), (&b"hello"[..], CLOSE));
    let broken = check_case(&Case::get(InputEnd::Broken), wire.as_bytes(), CUT);
    assert_eq!(broken.ended, Ended::Error(Error::ContentIncomplete));
    assert_eq!(closed("HTTP/1.0 200 OK\r\n\r\n").ended, CLOSE);
}

/// §7.1, and §8: "A message body that uses the chunked transfer coding is incomplete if the
/// zero-sized chunk that terminates the encoding has not been received".
#[test]
fn chunked_content() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunks = "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n";
    let found = open(&format!("{head}{chunks}HTTP"));
    assert_eq!((found.content.as_slice(), found.ended), (&b"hello world"[..], REUSE));
    assert_eq!(found.used, head.len() + chunks.len());
    for cut in 1..chunks.len() {
        let short = format!("{head}{}", &chunks[..cut]);
        assert_eq!(open(&short).ended, Ended::NeedMore, "{short:?}");
        assert_eq!(closed(&short).ended, Ended::Error(Error::ContentIncomplete), "{short:?}");
    }
    for bad in [
        "x\r\n",
        "\r\n",
        "-1\r\n",
        "+1\r\n",
        "0x1\r\n",
        " 1\r\n",
        "1 \r\n",
        "1\n",
        "1\r\nab",
        "1\r\na\n",
        "1\r\na0\r\n\r\n",
        "fffffffffffffffff\r\n",
        "1;\r\n",
        "1;x=\"\r\n",
    ] {
        assert_eq!(error(format!("{head}{bad}")), Some(Error::MalformedChunk), "{bad:?}");
    }
}

/// §7.1.2, RFC 9110 §6.5.1: trailers are kept apart from the head, and fields that a recipient uses
/// before the content are left out.
#[test]
fn trailers() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: head\r\n\r\n";
    let with = |trailers: &str| format!("{head}1\r\na\r\n0\r\n{trailers}\r\n");
    let found = open(&with(
        "X: trailer\r\nset-cookie: a=b\r\nContent_Length: 7\r\nServer-Timing:\r\nLocation: /\r\n",
    ));
    let trailer = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    assert_eq!(found.trailers, [trailer("X", "trailer"), trailer("Server-Timing", "")]);
    assert_eq!(found.head.unwrap().fields[1], trailer("X", "head"));
    for bad in ["X : y\r\n", " X: y\r\n", "X\r\n", "X: y\r\n z\r\n", "X: \0\r\n", "X: y\n", ":\r\n"]
    {
        assert_eq!(error(with(bad)), Some(Error::MalformedTrailer), "{bad:?}");
    }
}

/// RFC 9110 §15.2: "A client MUST be able to parse one or more 1xx responses received prior to a
/// final response, even if the client does not expect one."
#[test]
fn interim_responses() {
    let end = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let hint = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
    let wire = format!("HTTP/1.1 100 Continue\r\n\r\n{hint}{hint}HTTP/1.1 199\r\n\r\n{end}");
    let found = open(&wire);
    let statuses: Vec<_> = found.interim.iter().map(|head| head.status).collect();
    assert_eq!(statuses, [100, 103, 103, 199]);
    assert_eq!(found.interim[1].fields[0].1, b"</a.css>; rel=preload");
    assert_eq!((found.content.as_slice(), found.ended), (&b"ok"[..], REUSE));
    // Alone they are no response.
    let alone = closed(hint);
    assert_eq!((alone.interim.len(), alone.ended), (1, Ended::Error(Error::HeadIncomplete)));
    // §9.3: the last message decides, but an announced close is not withdrawn.
    let close = "HTTP/1.1 100 x\r\nConnection: close\r\n\r\n";
    assert_eq!(open(&format!("{close}{end}")).ended, CLOSE);
}

/// RFC 9110 §7.8: "A server MUST NOT switch to a protocol that was not indicated by the client";
/// §15.2.2: the response names the protocol.
#[test]
fn switching_protocols() {
    let wire = "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\u{1}bytes";
    assert_eq!(open(wire).ended, Ended::Error(Error::UnexpectedUpgrade));
    let mut case = Case::get(InputEnd::Open);
    case.request.upgrade = true;
    let found = check_case(&case, wire.as_bytes(), CUT);
    assert_eq!(found.ended, TUNNEL);
    assert_eq!(&wire[found.used..], "\u{1}bytes");
    for (from, to) in [("Upgrade: websocket\r\n", ""), ("websocket", ""), ("HTTP/1.1", "HTTP/1.0")]
    {
        let wire = wire.replacen(from, to, 1);
        let found = check_case(&case, wire.as_bytes(), CUT);
        assert_eq!(found.ended, Ended::Error(Error::UnexpectedUpgrade), "{wire:?}");
    }
    // The server may just as well stay with HTTP/1.
    let stays = "HTTP/1.1 100 x\r\n\r\nHTTP/1.1 426 x\r\nUpgrade: x\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(check_case(&case, stays.as_bytes(), CUT).ended, REUSE);
}

/// §9.3: "If the close connection option is present …, the connection will not persist …; if the
/// received protocol is HTTP/1.1 (or later), the connection will persist …; if the received
/// protocol is HTTP/1.0, the keep-alive connection option is present …, the connection will
/// persist …; the connection will close after the current response."
#[test]
fn persistence() {
    for (version, connection, ended) in [
        ("1.1", "", REUSE),
        ("1.1", "Connection: close\r\n", CLOSE),
        ("1.1", "Connection: CLOSE\r\n", CLOSE),
        ("1.1", "Connection: keep-alive\r\n", REUSE),
        ("1.1", "Connection: keep-alive, close\r\n", CLOSE),
        ("1.1", "Connection: x\r\nConnection: y , close\r\n", CLOSE),
        ("1.1", "Connection: closed\r\n", REUSE),
        ("1.1", "Connection:\r\n", REUSE),
        ("1.1", "Keep-Alive: timeout=5\r\n", REUSE),
        ("1.0", "", CLOSE),
        ("1.0", "Connection: keep-alive\r\n", REUSE),
        ("1.0", "Connection: TE, Keep-Alive\r\n", REUSE),
        ("1.0", "Connection: keep-alive, close\r\n", CLOSE),
        ("1.0", "Keep-Alive: timeout=5\r\n", CLOSE),
    ] {
        let wire = format!("HTTP/{version} 200 OK\r\n{connection}Content-Length: 2\r\n\r\nok");
        let found = open(&wire);
        assert_eq!(found.ended, ended, "{wire:?}");
        assert_eq!(found.head.unwrap().keep_alive, ended == REUSE, "known with the head");
        let mut case = Case::get(InputEnd::Open);
        case.request.close = true;
        let after_close = check_case(&case, wire.as_bytes(), CUT);
        assert_eq!(after_close.ended, CLOSE, "the request has asked to close");
    }
}

/// §9.3.1: a connection that was closed before a byte of the response is a case of its own.
#[test]
fn a_connection_that_ends_early() {
    assert_eq!(open("").ended, Ended::NeedMore);
    assert_eq!(closed("").ended, Ended::Error(Error::NoResponse));
    let broken = check_case(&Case::get(InputEnd::Broken), b"", CUT);
    assert_eq!(broken.ended, Ended::Error(Error::NoResponse));
    let head = "HTTP/1.1 200 OK\r\nX: y\r\n\r\n";
    for cut in 1..head.len() {
        assert_eq!(open(&head[..cut]).ended, Ended::NeedMore, "{cut}");
        assert_eq!(closed(&head[..cut]).ended, Ended::Error(Error::HeadIncomplete), "{cut}");
    }
}

/// Returns a head of this many bytes.
fn head_of(bytes: usize) -> Vec<u8> {
    let front = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: ";
    let padding = vec![b'x'; bytes - front.len() - 4];
    [front.as_slice(), &padding, b"\r\n\r\n"].concat()
}

#[test]
fn head_limit() {
    let too_large = Some(Error::HeadTooLarge { max_bytes: RESPONSE_HEAD_MAX_BYTES });
    assert_eq!(error(head_of(RESPONSE_HEAD_MAX_BYTES)), None);
    let more = head_of(RESPONSE_HEAD_MAX_BYTES + 1);
    assert_eq!(error(&more), too_large);
    // It is refused as soon as it cannot fit any more.
    assert_eq!(error(&more[..RESPONSE_HEAD_MAX_BYTES]), too_large);
    assert_eq!(open_bytes(&more[..RESPONSE_HEAD_MAX_BYTES - 1]), Ended::NeedMore);
    // The value at the end of the longest head is complete.
    let case = Case::get(InputEnd::Open);
    let found = check_case(&case, &head_of(RESPONSE_HEAD_MAX_BYTES), 5000);
    assert_eq!(found.head.unwrap().fields[1].1.len(), RESPONSE_HEAD_MAX_BYTES - 43);
    let mut small = case;
    small.limits.head_bytes = 64;
    assert_eq!(check_case(&small, &head_of(64), CUT).ended, REUSE);
    let refused = Ended::Error(Error::HeadTooLarge { max_bytes: 64 });
    assert_eq!(check_case(&small, &head_of(65), CUT).ended, refused);
    // Interim responses have the limit each.
    let interim = format!("HTTP/1.1 100 {}\r\n\r\n", "x".repeat(40));
    let wire = [interim.as_bytes(), interim.as_bytes(), &head_of(64)].concat();
    assert_eq!(check_case(&small, &wire, CUT).ended, REUSE);
}

fn open_bytes(wire: &[u8]) -> Ended {
    check_case(&Case::get(InputEnd::Open), wire, 4000).ended
}

#[test]
fn field_limit() {
    let lines = |count: usize| {
        format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", "X: y\r\n".repeat(count - 1))
    };
    assert_eq!(error(lines(RESPONSE_FIELDS_MAX)), None, "the last one is found");
    let refused = Some(Error::TooManyFields { max: RESPONSE_FIELDS_MAX });
    assert_eq!(error(lines(RESPONSE_FIELDS_MAX + 1)), refused);
    let mut case = Case::get(InputEnd::Open);
    case.limits.fields = 3;
    assert_eq!(check_case(&case, lines(3).as_bytes(), CUT).ended, REUSE);
    let refused = Ended::Error(Error::TooManyFields { max: 3 });
    assert_eq!(check_case(&case, lines(4).as_bytes(), CUT).ended, refused);
}

/// Neither limit can be raised above what positions of fields can hold.
#[test]
fn limits_have_a_ceiling() {
    let limits = ResponseLimits { head_bytes: usize::MAX, fields: usize::MAX, ..FREE };
    let first_error = |wire: &[u8]| {
        let request = Case::get(InputEnd::Open).request;
        let mut parser = ResponseParser::new(request, &limits);
        let mut storage = HeadStorage::new();
        parser.step(wire, InputEnd::Open, 0, &mut storage).err()
    };
    let too_large = Error::HeadTooLarge { max_bytes: RESPONSE_HEAD_MAX_BYTES };
    assert_eq!(first_error(&head_of(RESPONSE_HEAD_MAX_BYTES + 1)), Some(too_large));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(RESPONSE_FIELDS_MAX + 1));
    let too_many = Error::TooManyFields { max: RESPONSE_FIELDS_MAX };
    assert_eq!(first_error(many.as_bytes()), Some(too_many));
}

const FREE: ResponseLimits = ResponseLimits {
    head_bytes: RESPONSE_HEAD_MAX_BYTES,
    fields: RESPONSE_FIELDS_MAX,
    interim_responses: INTERIM_RESPONSES_MAX,
    chunk_extension_bytes: CHUNK_EXTENSIONS_MAX_BYTES,
    content_bytes: u64::MAX,
};

#[test]
fn interim_limit() {
    let wire = |count: usize| {
        let interim = "HTTP/1.1 102 Processing\r\n\r\n".repeat(count);
        format!("{interim}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    };
    assert_eq!(error(wire(INTERIM_RESPONSES_MAX)), None);
    let refused = Error::TooManyInterimResponses { max: INTERIM_RESPONSES_MAX };
    assert_eq!(error(wire(INTERIM_RESPONSES_MAX + 1)), Some(refused));
}

#[test]
fn trailer_limits() {
    let wire = |section: &str| {
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{section}\r\n")
    };
    // The name, the colon, its CRLF and the blank line have six bytes.
    let section = |bytes: usize| format!("X:{}\r\n", "x".repeat(bytes - 6));
    assert_eq!(error(wire(&section(TRAILER_MAX_BYTES))), None);
    assert_eq!(error(wire(&section(TRAILER_MAX_BYTES + 1))), Some(Error::TrailersTooLarge));
    assert_eq!(error(wire(&"X:\r\n".repeat(FIELDS_MAX))), None);
    assert_eq!(error(wire(&"X:\r\n".repeat(FIELDS_MAX + 1))), Some(Error::TooManyTrailers));
}

/// §7.1.1: "A recipient … ought to limit the total length of chunk extensions".
#[test]
fn chunk_extension_limits() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    // A line of this many bytes, its CRLF included, and a byte of content.
    let chunk = |bytes: usize| format!("1;{}\r\n.\r\n", "x".repeat(bytes - 4));
    let one = |bytes: usize| format!("{head}{}0\r\n\r\n", chunk(bytes));
    assert_eq!(error(one(CHUNK_LINE_MAX_BYTES)), None);
    assert_eq!(error(one(CHUNK_LINE_MAX_BYTES + 1)), Some(Error::MalformedChunk));
    let counted = (CHUNK_LINE_MAX_BYTES - 18) as u64;
    let most = usize::try_from(CHUNK_EXTENSIONS_MAX_BYTES / counted).unwrap();
    let many =
        |count: usize| format!("{head}{}0\r\n\r\n", chunk(CHUNK_LINE_MAX_BYTES).repeat(count));
    assert_eq!(error(many(most)), None);
    let refused = Error::ChunkExtensionsTooLarge { max_bytes: CHUNK_EXTENSIONS_MAX_BYTES };
    assert_eq!(error(many(most + 1)), Some(refused));
    // Content does not count, nor do lines of sizes.
    let plain = format!("{head}{}0\r\n\r\n", "000000000001\r\n.\r\n".repeat(20_000));
    assert_eq!(open_bytes(plain.as_bytes()), REUSE);
}

/// A limit of content is exact, and content that is known to be longer is refused before it
/// arrives.
#[test]
fn content_limit() {
    let mut case = Case::get(InputEnd::Closed);
    case.limits.content_bytes = 10;
    let refused = Ended::Error(Error::ContentTooLarge { max_bytes: 10 });
    let of = |wire: &str| {
        let found = check_case(&case, wire.as_bytes(), 3);
        (found.content, found.ended)
    };
    let length = |bytes: usize| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n{}", "x".repeat(bytes))
    };
    assert_eq!(of(&length(10)), (vec![b'x'; 10], REUSE));
    assert_eq!(of(&length(11)), (Vec::new(), refused.clone()));
    let chunks = |last: &str| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        format!("{head}5;{}\r\nxxxxx\r\n{last}0\r\n\r\n", "e".repeat(100))
    };
    assert_eq!(of(&chunks("5\r\nxxxxx\r\n")), (vec![b'x'; 10], REUSE));
    assert_eq!(of(&chunks("6\r\nxxxxxx\r\n")), (vec![b'x'; 5], refused.clone()));
    assert_eq!(of(&chunks("ffffffffffffffff\r\n")), (vec![b'x'; 5], refused.clone()));
    let until_close = |bytes: usize| format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(bytes));
    assert_eq!(of(&until_close(10)), (vec![b'x'; 10], CLOSE));
    assert_eq!(of(&until_close(11)), (vec![b'x'; 10], refused));
}

/// Without space in the buffer no content is delivered, and the close of the connection is not an
/// error yet.
#[test]
fn only_content_needs_output_space() {
    let request = Case::get(InputEnd::Open).request;
    for (head, content) in [
        ("Content-Length: 5", "hello"),
        ("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"),
        ("X: y", "hello"),
    ] {
        let wire = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{content}");
        let wire = wire.as_bytes();
        let mut parser = ResponseParser::new(request, &FREE);
        let mut storage = HeadStorage::new();
        let mut used = 0;
        let step = parser.step(wire, InputEnd::Closed, 0, &mut storage).unwrap();
        assert!(matches!(step.event, ResponseEvent::Head(_)));
        used += step.used;
        for _ in 0..2 {
            let step = parser.step(&wire[used..], InputEnd::Closed, 0, &mut storage).unwrap();
            assert!(matches!(step.event, ResponseEvent::NeedMore), "{head}");
            used += step.used;
        }
        let step = parser.step(&wire[used..], InputEnd::Closed, 4, &mut storage).unwrap();
        assert!(matches!(step.event, ResponseEvent::Content(b"hell")), "{head}");
        used += step.used;
        let step = parser.step(&wire[used..], InputEnd::Closed, 9, &mut storage).unwrap();
        assert!(matches!(step.event, ResponseEvent::Content(b"o")), "{head}");
        used += step.used;
        let step = parser.step(&wire[used..], InputEnd::Closed, 0, &mut storage).unwrap();
        assert!(matches!(step.event, ResponseEvent::End { .. }), "{head}");
    }
}

/// The head determines the framing of its content before any of it has arrived.
#[test]
fn the_framing_is_known_with_the_head() {
    for (method, status, fields, framing) in [
        (Method::Get, 200, "", ResponseFraming::UntilClose),
        (Method::Get, 200, "Content-Length: 0\r\n", ResponseFraming::None),
        (Method::Get, 200, "Content-Length: 7\r\n", ResponseFraming::Length(7)),
        (Method::Get, 200, "Transfer-Encoding: chunked\r\n", ResponseFraming::Chunked),
        (Method::Get, 205, "Content-Length: 7\r\n", ResponseFraming::Length(7)),
        (Method::Get, 304, "Content-Length: 7\r\n", ResponseFraming::None),
        (Method::Head, 200, "", ResponseFraming::None),
        (Method::Connect, 200, "", ResponseFraming::Tunnel),
    ] {
        let request = SentRequest { method, ..Case::get(InputEnd::Open).request };
        let mut parser = ResponseParser::new(request, &FREE);
        let wire = format!("HTTP/1.1 {status} x\r\n{fields}\r\n");
        let mut storage = HeadStorage::new();
        let step = parser.step(wire.as_bytes(), InputEnd::Open, 0, &mut storage).unwrap();
        let ResponseEvent::Head(head) = step.event else { panic!("{:?}", step.event) };
        assert_eq!(head.framing, framing, "{method:?} {wire:?}");
    }
}

/// The storage is empty between two steps, so parsers of many connections can share one.
#[test]
fn parsers_share_a_storage() {
    let request = Case::get(InputEnd::Open).request;
    let wires =
        ["HTTP/1.1 200 A\r\nName: a\r\n\r\n", "HTTP/1.1 201 B\r\nX:\r\nY:\r\nName: b\r\n\r\n"];
    let mut parsers = [ResponseParser::new(request, &FREE), ResponseParser::new(request, &FREE)];
    let mut storage = HeadStorage::new();
    for (parser, wire) in parsers.iter_mut().zip(wires) {
        let part = &wire.as_bytes()[..wire.len() - 1];
        let step = parser.step(part, InputEnd::Open, 0, &mut storage).unwrap();
        assert!(matches!(step.event, ResponseEvent::NeedMore));
    }
    for (parser, (wire, name)) in parsers.iter_mut().zip(wires.iter().zip([b"a", b"b"])) {
        let step = parser.step(wire.as_bytes(), InputEnd::Open, 0, &mut storage).unwrap();
        let ResponseEvent::Head(head) = step.event else { panic!("{:?}", step.event) };
        assert_eq!(head.fields.get(b"name"), Some(name.as_slice()));
    }
}
