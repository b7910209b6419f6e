//! Properties of the client side of HTTP/1: responses built from important pieces, each checked by
//! the oracle; and written requests that the server side parses.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use pinion_http::field::Field;
use pinion_http::h1::body::{BodyReader, BodyStep};
use pinion_http::h1::client::request_writer::{
    ConnectionOption, OutgoingRequest, RequestContent, RequestTarget, write_request,
};
use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
use pinion_http::h1::trailers;
use pinion_http::limits::Limits;
use pinion_http::request_head::Framing;

use crate::oracle::h1_response;

/// Pieces of responses, correct and wrong.
pub(crate) const RESPONSE_PIECES: &[&str] = &[
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 200 OK\r\n",
    "HTTP/1.1 204 No Content\r\n",
    "HTTP/1.1 304 Not Modified\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n",
    "HTTP/1.1 999\r\n",
    "HTTP/1.1 ",
    "HTTP/1.2 200 OK\r\n",
    "HTTP/2.0 200 OK\r\n",
    "http/1.1 200 OK\r\n",
    "200",
    " ",
    "\t",
    "\r\n",
    "\r\n\r\n",
    "\n",
    "\r",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "content-length: 5, 5\r\n",
    "Content-Length: 6\r\n",
    "Content-Length: +5\r\n",
    "Content-Length: 99999999999999999999\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip\r\n",
    "Transfer-Encoding: chunked, chunked\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "Upgrade: x\r\n",
    "X: y\r\n",
    "X : y\r\n",
    " fold\r\n",
    ":",
    "X",
    "\0",
    "\u{e9}",
    "hello",
    "5\r\nhello\r\n",
    "1;x=\"y\"\r\nx\r\n",
    "0\r\n\r\n",
    "0\r\nSum: 7\r\nSet-Cookie: x\r\n\r\n",
    "5",
    "0",
    ";x",
];

/// Generates a correct response: interim ones, head, content, trailers.
pub(crate) fn good_response() -> impl Strategy<Value = Vec<u8>> {
    let interim = select(vec!["100 Continue", "102", "103 Early Hints\r\nLink: </a>; rel=x"]);
    let line = select(vec!["200 OK", "200", "206 ", "204 x", "304 x", "404 \u{e9}", "999 x"]);
    let version = select(vec!["1.1", "1.1", "1.0"]);
    let field = select(vec![
        "Server: x",
        "Set-Cookie: a=b; Path=/",
        "Connection: close",
        "Connection: Keep-Alive, x",
        "X-Long:   a  b\t\t",
        "X-Empty:",
        "X-Opaque: \u{e9}",
    ]);
    let pieces = vec(vec(any::<u8>(), 1..30), 0..5);
    let trailers = vec(select(vec!["X: y\r\n", "Date: x\r\n", "z:\t\u{e9} \r\n"]), 0..3);
    (vec(interim, 0..3), version, line, vec(field, 0..5), 0..3, pieces, trailers).prop_map(
        |(interim, version, line, fields, framing, pieces, trailers)| {
            let mut wire = Vec::new();
            for interim in interim {
                wire.extend_from_slice(format!("HTTP/1.1 {interim}\r\n\r\n").as_bytes());
            }
            wire.extend_from_slice(format!("HTTP/{version} {line}\r\n").as_bytes());
            fields
                .iter()
                .for_each(|field| wire.extend_from_slice(format!("{field}\r\n").as_bytes()));
            let content = pieces.concat();
            match framing {
                0 => wire.extend_from_slice(
                    format!("Content-Length: {}\r\n\r\n", content.len()).as_bytes(),
                ),
                1 => wire.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n"),
                _ => wire.extend_from_slice(b"\r\n"),
            }
            if framing != 1 {
                wire.extend_from_slice(&content);
                return wire;
            }
            for piece in &pieces {
                wire.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                wire.extend_from_slice(piece);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(format!("0\r\n{}\r\n", trailers.concat()).as_bytes());
            wire
        },
    )
}

fn check(kind: u8, cut: u8, wire: &[u8]) {
    h1_response::check(&[&[kind, cut], wire].concat());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8 * ProptestConfig::default().cases))]

    #[test]
    fn responses_of_pieces(
        kind in 0..64u8,
        cut in 0..40u8,
        pieces in vec(select(RESPONSE_PIECES), 0..14),
    ) {
        check(kind, cut, pieces.concat().as_bytes());
    }

    #[test]
    fn good_responses(kind in 0..32u8, cut in 0..40u8, wire in good_response()) {
        check(kind, cut, &wire);
    }

    #[test]
    fn good_responses_with_a_byte_changed(
        kind in 0..64u8,
        wire in good_response(),
        at: prop::sample::Index,
        byte in select(b"\r\n \t:;\0\x7f\xff0159aH,".to_vec()),
        how in 0..3,
    ) {
        let mut wire = wire;
        let at = at.index(wire.len());
        match how {
            0 => wire[at] = byte,
            1 => wire.insert(at, byte),
            _ => drop(wire.remove(at)),
        }
        check(kind, 3, &wire);
    }

    #[test]
    fn any_bytes_as_a_response(kind: u8, cut: u8, wire in vec(any::<u8>(), 0..200)) {
        check(kind, cut, &wire);
        check(kind, cut, &[b"HTTP/1.1 200 ", wire.as_slice()].concat());
    }

    /// A server parses the request that a client has written.
    #[test]
    fn a_written_request_is_parsed_unchanged(request in request()) {
        request.check();
    }

    /// A request with a text in one part that could end the part is refused, or parsed as one
    /// request with exactly these parts.
    #[test]
    fn no_part_of_a_request_makes_another_one(
        request in request(),
        part in 0..7,
        text in select(SPOILING),
        at: prop::sample::Index,
        field: prop::sample::Index,
    ) {
        let mut request = request;
        let parts = match part {
            0 => Some(&mut request.method),
            1 => Some(&mut request.authority),
            2 => Some(&mut request.target),
            3 => Some(request.protocols.insert(b"websocket".to_vec())),
            4 | 5 if !request.fields.is_empty() => {
                let (name, value) = field.get_mut(&mut request.fields);
                Some(if part == 4 { name } else { value })
            }
            6 if !request.trailers.is_empty() => Some(&mut field.get_mut(&mut request.trailers).0),
            _ => None,
        };
        if let Some(part) = parts {
            let at = at.index(part.len() + 1);
            part.splice(at..at, text.bytes());
        }
        request.check_if_written();
    }
}

/// Texts that could end a part of a request, or begin another one, and harmless ones.
const SPOILING: &[&str] = &[
    "\r\n",
    "\n",
    "\r",
    "\0",
    " ",
    "\t",
    ":",
    ",",
    "/",
    "#",
    "@",
    "x",
    "\x7f",
    "\u{e9}",
    "\r\n\r\n",
    " HTTP/1.1\r\nHost: b\r\n",
    "\r\nContent-Length: 7\r\n",
    "\r\n\r\nGET /admin HTTP/1.1\r\nHost: b\r\n\r\n",
];

/// A request with owned parts.
#[derive(Clone, Debug)]
struct Request {
    method: Vec<u8>,
    authority: Vec<u8>,
    target: Vec<u8>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    pieces: Vec<Vec<u8>>,
    is_chunked: bool,
    trailers: Vec<(Vec<u8>, Vec<u8>)>,
    protocols: Option<Vec<u8>>,
}

fn request() -> impl Strategy<Value = Request> {
    let method =
        select(vec!["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "brew"]);
    let authority = select(vec!["a.example", "a.example:8080", "[::1]", "127.0.0.1:1"]);
    let target = select(vec!["/", "/a/b?c=d&e", "/%20/", "//", "/?http://x/", "/a;b"]);
    let name = "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}";
    let value = "[ -~\t\u{80}-\u{ff}]{0,20}";
    let fields = vec((name, value), 0..6);
    let pieces = vec(vec(any::<u8>(), 0..40), 0..5);
    let trailers = vec((name, value), 0..3);
    (method, authority, target, fields, pieces, any::<bool>(), trailers).prop_map(
        |(method, authority, target, fields, pieces, is_chunked, trailers)| {
            let bytes = |fields: Vec<(String, String)>| {
                let bytes = |(name, value): (String, String)| (name.into(), value.into());
                fields.into_iter().map(bytes).collect()
            };
            Request {
                method: method.into(),
                authority: authority.into(),
                target: target.into(),
                fields: bytes(fields),
                pieces,
                is_chunked,
                trailers: if is_chunked { bytes(trailers) } else { Vec::new() },
                protocols: None,
            }
        },
    )
}

fn fields(fields: &[(Vec<u8>, Vec<u8>)]) -> impl Iterator<Item = Field<'_>> + Clone {
    fields.iter().map(|(name, value)| Field { name, value })
}

/// Returns fields as a recipient gets them.
fn trimmed(fields: &[(Vec<u8>, Vec<u8>)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    fields.iter().map(|(name, value)| (name.clone(), value.trim_ascii().to_vec())).collect()
}

impl Request {
    /// Returns the bytes of the request, `None` if it is refused.
    fn written(&self) -> Option<Vec<u8>> {
        let bytes: usize = self.pieces.iter().map(Vec::len).sum();
        let content = if self.is_chunked {
            RequestContent::Chunked
        } else {
            RequestContent::Length(bytes as u64)
        };
        let connection = match &self.protocols {
            Some(protocols) => ConnectionOption::Upgrade(protocols),
            None => ConnectionOption::KeepAlive,
        };
        let target = RequestTarget::Origin { authority: &self.authority, target: &self.target };
        let request = OutgoingRequest {
            method: &self.method,
            content,
            connection,
            ..OutgoingRequest::get(target)
        };
        let mut out = Vec::new();
        let Ok(written) = write_request(&mut out, &request, fields(&self.fields)) else {
            assert!(out.is_empty());
            return None;
        };
        let mut writer = written.content;
        for piece in &self.pieces {
            writer.write(&mut out, piece).unwrap();
        }
        let before = out.len();
        if writer.end(&mut out, fields(&self.trailers)).is_err() {
            assert_eq!(out.len(), before);
            return None;
        }
        assert!(writer.is_complete());
        Some(out)
    }

    /// Returns whether it has a name that a request cannot have; random names rarely are.
    fn has_reserved_name(&self) -> bool {
        use pinion_http::h1::client::request_writer::reserved_field;
        let is_reserved = |(name, _): &(Vec<u8>, Vec<u8>)| reserved_field(name).is_some();
        let is_forbidden = |(name, _): &(Vec<u8>, Vec<u8>)| {
            is_reserved(&(name.clone(), Vec::new())) || trailers::is_forbidden(name)
        };
        self.fields.iter().any(is_reserved) || self.trailers.iter().any(is_forbidden)
    }

    fn check(&self) {
        if !self.has_reserved_name() {
            let written = self.written().expect("nothing is wrong with it");
            self.check_written(&written);
        }
    }

    fn check_if_written(&self) {
        if let Some(written) = self.written() {
            self.check_written(&written);
        }
    }

    /// Asserts that the server side parses this request, and nothing after it.
    fn check_written(&self, written: &[u8]) {
        let mut storage = HeadStorage::new();
        let parsed = parse(written, 0, &mut storage, &Limits::default());
        let Ok(Parsed::Head { head, bytes }) = parsed else { panic!("{parsed:?}") };
        assert_eq!(head.method_token, self.method);
        assert_eq!(head.target.raw, self.target);
        assert_eq!(head.authority, Some(self.authority.as_slice()));
        assert_eq!(head.fields.iter().next().map(|field| field.name), Some(&b"Host"[..]));
        let own: [&[u8]; 5] =
            [b"Host", b"Content-Length", b"Transfer-Encoding", b"Connection", b"Upgrade"];
        let found = head.fields.iter().filter(|field| !own.contains(&field.name));
        let found: Vec<_> = found.map(|f| (f.name.to_vec(), f.value.to_vec())).collect();
        assert_eq!(found, trimmed(&self.fields));
        assert!(head.keep_alive);
        let content = self.pieces.concat();
        match head.framing {
            Framing::Chunked => assert!(self.is_chunked),
            Framing::Length(bytes) => {
                assert_eq!((bytes, self.is_chunked), (content.len() as u64, false));
            }
            Framing::None => assert!(content.is_empty() && !self.is_chunked),
            Framing::Frames => unreachable!("HTTP/1 has no frames"),
        }
        let mut reader = BodyReader::new(head.framing, u64::MAX);
        let (mut at, mut read) = (bytes, Vec::new());
        loop {
            let (used, step) = reader.step(&written[at..], u64::MAX).unwrap();
            at += used;
            match step {
                BodyStep::Data(data) => read.extend_from_slice(data),
                BodyStep::NeedMore => panic!("the request is not whole"),
                BodyStep::End(section) => {
                    let mut storage = HeadStorage::new();
                    let found = trailers::read(section, &mut storage).unwrap();
                    let found: Vec<_> =
                        found.iter().map(|f| (f.name.to_vec(), f.value.to_vec())).collect();
                    assert_eq!(found, trimmed(&self.trailers));
                    break;
                }
            }
        }
        assert_eq!(read, content);
        assert_eq!(at, written.len(), "nothing follows");
    }
}
