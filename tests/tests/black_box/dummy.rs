//! The constant responses of `--dummy` over every protocol: the same few bytes, without a site.

use pinion_tests::client::http3::kind;
use pinion_tests::client::qpack;
use pinion_tests::client::quic::{Quic, frame, take_frame, wait};
use pinion_tests::external_programs::stdout;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use quinn::{ReadError, ReadToEndError, RecvStream, VarInt};
use rustix::process::Signal;
use std::io::ErrorKind;
use std::pin::pin;
use std::task::{Context, Waker};

fn start(protocol: Protocol, io: Io, flags: &[&str]) -> Server {
    let way = Way { protocol, io, form: Form::Archive };
    Start::serve(flags).in_way(way).start()
}

/// Returns the names of the fields, in lower case and in order, and the content; the status is 200.
#[track_caller]
fn response(server: &Server) -> (Vec<(String, String)>, Vec<u8>) {
    if !server.protocol().is_known_to_curl() {
        return response_over_quic(server);
    }
    let output =
        stdout(server.curl().args(["--silent", "--include"]).arg(server.url("/any/thing")));
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let head = std::str::from_utf8(&output[..end]).expect("text");
    let (status, fields) = head.split_once("\r\n").expect("fields");
    assert_eq!(status.split(' ').nth(1), Some("200"), "{head}");
    let field = |line: &str| {
        let (name, value) = line.split_once(": ").expect("a field");
        (name.to_ascii_lowercase(), value.to_owned())
    };
    (fields.split("\r\n").map(field).collect(), output[end + 4..].to_vec())
}

/// Returns a HEADERS frame of a request that has one more field.
fn request(name: &str) -> Vec<u8> {
    let mut section = Request::get("/any/thing").section("https");
    section.push((name.to_owned(), "x".to_owned()));
    frame(kind::HEADERS, &qpack::encode(&section))
}

/// Sends bytes on a new stream and returns its receiving side.
#[track_caller]
fn ask(quic: &Quic, bytes: &[u8]) -> RecvStream {
    let opened = wait(quic.connection().open_bi()).expect("no wait");
    let (mut sender, receiver) = opened.expect("a stream");
    wait(sender.write_all(bytes)).expect("room").expect("sent");
    sender.finish().expect("it was not finished before");
    receiver
}

#[track_caller]
fn response_over_quic(server: &Server) -> (Vec<(String, String)>, Vec<u8>) {
    let quic = Quic::open(server.peer()).expect("a connection");
    let mut bytes = wait(ask(&quic, &request("x")).read_to_end(1000)).expect("an end");
    let bytes = bytes.as_mut().expect("an answer");
    let (headers, block) = take_frame(bytes).expect("a head");
    let section = qpack::decode(&block).expect("a section");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let mut fields: Vec<(String, String)> =
        section.into_iter().map(|(name, value)| (text(name), text(value))).collect();
    assert_eq!((headers, fields.remove(0)), (kind::HEADERS, (":status".into(), "200".into())));
    let mut content = Vec::new();
    while let Some((data, piece)) = take_frame(bytes) {
        assert_eq!(data, kind::DATA);
        content.extend(piece);
    }
    assert_eq!(*bytes, b"", "whole frames");
    (fields, content)
}

/// Checks the fields of a response, which depend on the protocol; HTTP/1 connections are persistent
/// without a field.
#[track_caller]
fn says(server: &Server, content: &[u8]) {
    let (mut fields, found) = response(server);
    let protocol = server.protocol();
    assert_eq!(found, content, "{protocol:?}");
    fields.retain(|(name, _)| name != "date");
    let length = ("content-length".to_owned(), content.len().to_string());
    assert_eq!(fields, [length], "{protocol:?}");
}

#[test]
fn every_protocol_has_the_same_13_bytes_and_nothing_else() {
    for (&protocol, io) in Protocol::SPOKEN.iter().flat_map(|p| Io::BOTH.map(|io| (p, io))) {
        for (flags, content) in [
            (&["--dummy"][..], &b"hello, world\n"[..]),
            (&["--dummy", "--dummy-delay", "60ms"], b"hello, world\n"),
            (&["--dummy-empty"], b""),
            (&["--dummy", "--dummy-bytes", "20"], b"hello, world\nhello, "),
        ] {
            let server = start(protocol, io, flags);
            says(&server, content);
            server.stop();
        }
    }
}

/// `--stats` counts the bytes that were sent: a response to HEAD has no content, whether or not it
/// is delayed.
#[test]
fn content_is_counted_where_there_is_some() {
    for (&protocol, io) in Protocol::SPOKEN.iter().flat_map(|p| Io::BOTH.map(|io| (p, io))) {
        for delay in [&[][..], &["--dummy-delay", "5ms"]] {
            let flags = [&["--dummy", "--dummy-bytes", "500", "--stats", "60"], delay].concat();
            let mut server = start(protocol, io, &flags);
            assert_eq!(response(&server).1.len(), 500);
            for _ in 0..2 {
                assert_eq!(server.client().exchange(&Request::head("/")).status, 200);
            }
            server.signal(Signal::TERM);
            assert!(server.wait().success());
            let stats = server.wait_for_line(0, |line| line.starts_with("stats after"));
            assert!(stats.contains("3 responses"), "{stats}");
            assert!(stats.contains("; content 500 B "), "{protocol:?} {delay:?}: {stats}");
        }
    }
}

/// A delay far longer than the checks take.
const LONG: [&str; 5] = ["--dummy", "--dummy-delay", "60s", "--workers", "1"];

/// Responses of the server itself are sent at once, although their requests are later: by then the
/// only worker has read the delayed request without responding to it.
#[test]
fn over_http1_a_response_has_the_configured_delay() {
    for (protocol, io) in [Protocol::Http1, Protocol::Http1Tls]
        .into_iter()
        .flat_map(|protocol| Io::BOTH.map(|io| (protocol, io)))
    {
        let server = start(protocol, io, &LONG);
        let mut waiting = server.connect();
        waiting.send(Request::get("/").bytes());
        let mut other = server.connect();
        other.send("no request\r\n\r\n");
        assert_eq!(other.receive().status, 400);
        waiting.stream().set_nonblocking(true).expect("a socket");
        let nothing = waiting.read_some(1).expect_err("no answer");
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock, "{protocol:?} over {io:?}");
    }
}

#[test]
fn over_http3_a_response_has_the_configured_delay() {
    /// H3_MESSAGE_ERROR (RFC 9114 §8.1).
    const MESSAGE_ERROR: VarInt = VarInt::from_u32(0x10e);
    for io in Io::BOTH {
        let server = start(Protocol::Http3, io, &LONG);
        let quic = Quic::open(server.peer()).expect("a connection");
        let mut waiting = ask(&quic, &request("x"));
        // RFC 9114 §4.2: a name in upper case makes a request malformed.
        let refused = wait(ask(&quic, &request("X")).read_to_end(1000)).expect("an end");
        let wanted = ReadToEndError::Read(ReadError::Reset(MESSAGE_ERROR));
        assert_eq!(refused, Err(wanted), "over {io:?}");
        let reading = pin!(waiting.read_chunk(1, true));
        let found = reading.poll(&mut Context::from_waker(Waker::noop()));
        assert!(found.is_pending(), "over {io:?}: {found:?}");
    }
}
