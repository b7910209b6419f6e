//! Request streams (RFC 9114 §4.1, §7).

use pinion_http::h3::event::RequestStreamEvent;
use pinion_http::h3::limits::BLOCK_MAX_BYTES;
use pinion_http::h3::request_stream::INPUT_MAX_BYTES;
use pinion_http::h3::session::SessionSettings;
use pinion_http::limits::{FIELDS_MAX, HEAD_MAX_BYTES};
use pinion_http::request_head::Framing;
use pinion_http::version::Version;

use super::raw_client::*;

const UNEXPECTED: &str = "fatal FrameUnexpected";
const MALFORMED: &str = "stream MessageError";

/// RFC 9114 §4.1: a head, content, trailers; and the end, when it is known early and late.
#[test]
fn messages_have_head_content_trailers_and_end() {
    let mut peer = Peer::new();
    assert_eq!(peer.request(&[&get()]), ["head GET / end"]);
    let sum = headers(&[("sum", "7"), ("content-length", "9")]);
    let content = [&post("5")[..], &data(b"hel"), &data(b"lo"), &sum];
    let seen = ["head POST /", "data hel", "data lo", "trailers sum=7", "end"];
    assert_eq!(peer.request(&content), seen);
    assert_eq!(peer.request(&content[..3]), ["head POST /", "data hel", "data lo", "end"]);

    let mut stream = peer.begin();
    assert_eq!(peer.send(&mut stream, &get(), false), ["head GET /"]);
    assert_eq!(peer.send(&mut stream, b"", true), ["end"]);
    // Bytes after the end are ignored.
    assert!(peer.send(&mut stream, &data(b"x"), false).is_empty());
}

#[test]
fn the_head_event_has_the_framing_of_the_content() {
    for (fields, fin, framing) in [
        (get(), true, Framing::None),
        (get(), false, Framing::Frames),
        (post("0"), false, Framing::None),
        (post("7"), false, Framing::Length(7)),
    ] {
        let mut peer = Peer::new();
        let mut stream = peer.begin();
        let (Peer { session, section, .. }, mut place) = (&mut peer, None);
        let step = stream.step(&fields, fin, session, section, &mut place, 0).unwrap();
        let RequestStreamEvent::Head { head, end } = step.event else { panic!("{:?}", step.event) };
        assert_eq!((head.version, head.framing, end), (Version::Http3, framing, fin));
        assert_eq!(step.used, fields.len());
    }
}

/// RFC 9114 §4.1: "Receipt of an invalid sequence of frames MUST be treated as a connection error
/// of type H3_FRAME_UNEXPECTED."
#[test]
fn frames_in_a_wrong_order_are_connection_errors() {
    let mut peer = Peer::new();
    assert_eq!(peer.request(&[&data(b"x")]), [UNEXPECTED]);
    assert_eq!(peer.request(&[&data(b"")]), [UNEXPECTED]);
    let (head, trailers) = (headers(&POST), headers(&[("x", "y")]));
    for behind in [&headers(&[("x", "y")])[..], &data(b"x"), &data(b"")] {
        let seen = peer.request(&[&head, &trailers, behind]);
        assert_eq!(seen, ["head POST /", "trailers x=y", UNEXPECTED]);
    }
}

/// RFC 9114 §7.2.3 to §7.2.8, RFC 9218 §7.2: frames of other streams, of servers, of HTTP/2.
#[test]
fn frames_that_request_streams_forbid_are_errors() {
    let others =
        [CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY, MAX_PUSH_ID, PRIORITY_UPDATE, 0xf0701];
    for kind in others.into_iter().chain([0x2, 0x6, 0x8, 0x9]) {
        let mut peer = Peer::new();
        assert_eq!(peer.request(&[&frame(kind, b"\0")]), [UNEXPECTED], "{kind:#x}");
        let seen = peer.request(&[&headers(&POST), &frame(kind, b"\0")]);
        assert_eq!(seen, ["head POST /", UNEXPECTED], "{kind:#x}");
        // The header is enough.
        let mut stream = peer.begin();
        assert_eq!(peer.send(&mut stream, &front(kind, 1 << 40), false), [UNEXPECTED]);
    }
}

/// RFC 9114 §9: "Implementations MUST discard data or abort reading on [...] frames that have
/// unknown types", wherever they are (§7.2.8).
#[test]
fn unknown_frames() {
    let mut peer = Peer::new();
    let (long, short) = (frame(UNKNOWN, &[7; 1000]), frame(UNKNOWN + 0x1f, b""));
    let (head, sum) = (headers(&POST), headers(&[("x", "y")]));
    let all = [&long[..], &short, &head, &short, &data(b"x"), &long, &sum, &long, &short];
    assert_eq!(peer.request(&all), ["head POST /", "data x", "trailers x=y", "end"]);
    // Such frames have any length, and are not stored.
    let mut stream = peer.begin();
    assert!(peer.send(&mut stream, &front(UNKNOWN, (1 << 62) - 1), false).is_empty());
    for _ in 0..100 {
        assert!(peer.send(&mut stream, &[7; 10_000], false).is_empty());
    }
    assert_eq!(peer.session.memory_bytes(), 0);
}

/// RFC 9114 §7.1: "if the last frame on the stream was truncated, this MUST be treated as a
/// connection error of type H3_FRAME_ERROR".
#[test]
fn truncated_frames() {
    let (head, unknown) = (headers(&POST), frame(UNKNOWN, b"abc"));
    for (before, last) in [
        (&b""[..], &head),
        (b"", &unknown),
        (&head, &data(b"abc")),
        (&head, &unknown),
        (&head, &headers(&[("x", "y")])),
    ] {
        for cut in 1..last.len() {
            let mut peer = Peer::new();
            let seen = peer.request(&[before, &last[..cut]]);
            assert_eq!(seen.last().unwrap(), "fatal FrameError", "{cut} of {last:?}");
        }
    }
    let mut peer = Peer::new();
    let mut stream = peer.begin();
    let seen = peer.send(&mut stream, &[&head[..], &front(DATA, 9), b"abc"].concat(), false);
    assert_eq!(seen, ["head POST /", "data abc"]);
    assert_eq!(peer.send(&mut stream, b"", true), ["fatal FrameError"]);
}

/// RFC 9114 §4.1: "When a server does not receive a complete request, it SHOULD abort its response
/// stream with the error code H3_REQUEST_INCOMPLETE."
#[test]
fn incomplete_requests_reset_the_stream() {
    let mut peer = Peer::new();
    assert_eq!(peer.request(&[]), ["stream RequestIncomplete"]);
    assert_eq!(peer.request(&[&frame(UNKNOWN, b"")]), ["stream RequestIncomplete"]);
}

/// RFC 9114 §4.1.2: "Malformed requests [...] MUST be treated as a stream error of type
/// H3_MESSAGE_ERROR". The tests of HTTP/2, which has the same parser, cover all malformed fields.
#[test]
fn malformed_messages() {
    let mut peer = Peer::new();
    for field in [("X", "y"), ("connection", "close"), ("x", " y"), (":status", "200")] {
        let fields = [&GET[..], &[field]].concat();
        assert_eq!(peer.request(&[&headers(&fields)]), [MALFORMED], "{field:?}");
        let seen = peer.request(&[&headers(&POST), &headers(&[field])]);
        assert_eq!(seen, ["head POST /", MALFORMED]);
    }
    assert_eq!(peer.request(&[&headers(&GET[..2])]), [MALFORMED]);
    // Trailers over the limits: it is too late to refuse the request.
    let many = headers(&vec![("x", "y"); FIELDS_MAX + 1]);
    assert_eq!(peer.request(&[&headers(&POST), &many]), ["head POST /", "stream ExcessiveLoad"]);
    let seen = peer.request(&[&headers(&POST), &headers(&[(":path", "/")])]);
    assert_eq!(seen, ["head POST /", MALFORMED]);
}

/// RFC 9114 §4.1.2: the "value of a Content-Length header field does not equal the sum of the DATA
/// frame lengths received".
#[test]
fn content_length() {
    let mut peer = Peer::new();
    let head = "head POST /";
    assert_eq!(peer.request(&[&post("3")]), [MALFORMED]);
    assert_eq!(peer.request(&[&post("3"), &data(b"ab")]), [head, "data ab", MALFORMED]);
    assert_eq!(peer.request(&[&post("3"), &data(b"abc")]), [head, "data abc", "end"]);
    assert_eq!(peer.request(&[&post("3"), &data(b"abcd")]), [head, MALFORMED]);
    let seen = peer.request(&[&post("3"), &data(b"abc"), &data(b"d")]);
    assert_eq!(seen, [head, "data abc", MALFORMED]);
    let seen = peer.request(&[&post("3"), &data(b"ab"), &headers(&[("x", "y")])]);
    assert_eq!(seen, [head, "data ab", MALFORMED]);
    assert_eq!(peer.request(&[&post("0")]), ["head POST / end"]);
    assert_eq!(peer.request(&[&post("0"), &data(b"")]), [head, "end"]);
    assert_eq!(peer.request(&[&post("0"), &data(b"a")]), [head, MALFORMED]);
    // The announced length is sufficient for the error.
    let mut stream = peer.begin();
    let seen = peer.send(&mut stream, &[post("3"), front(DATA, 4)].concat(), false);
    assert_eq!(seen, [head, MALFORMED]);
    // The end arrives late.
    let mut stream = peer.begin();
    assert_eq!(peer.send(&mut stream, &post("3"), false), [head]);
    assert_eq!(peer.send(&mut stream, b"", true), [MALFORMED]);
}

/// RFC 9204 §2.2: a section that cannot be read ends the connection.
#[test]
fn malformed_field_sections_are_errors() {
    // An index beyond the table; the dynamic table; a string that is not all there; no prefix.
    for bad in [&b"\0\0\xff\x24"[..], b"\x02\0\x80", b"\0\0\x80", b"\0\0\x50\x05ab", b"\0", b""] {
        let mut peer = Peer::new();
        let fatal = "fatal QpackDecompressionFailed";
        assert_eq!(peer.request(&[&frame(HEADERS, bad)]), [fatal], "{bad:?}");
        let seen = peer.request(&[&headers(&POST), &frame(HEADERS, bad)]);
        assert_eq!(seen, ["head POST /", fatal], "{bad:?}");
    }
}

/// Requests that get a status over HTTP/1 get it here too, and their content is still received.
#[test]
fn refusals() {
    let mut peer = Peer::new();
    let bad = [("accept", "text/plain"), ("content-length", "x")];
    let head = headers(&[&POST[..], &bad].concat());
    assert_eq!(peer.request(&[&head]), ["refused 400 text end"]);
    assert_eq!(peer.request(&[&head, &data(b"abc")]), ["refused 400 text", "data abc", "end"]);
    let most = vec![("x", "y"); FIELDS_MAX - 1];
    assert_eq!(peer.request(&[&headers(&[&GET[..], &most].concat())]), ["head GET / end"]);
    let more = vec![("x", "y"); FIELDS_MAX];
    assert_eq!(peer.request(&[&headers(&[&GET[..], &more].concat())]), ["refused 431 end"]);
    let long = "x".repeat(HEAD_MAX_BYTES);
    assert_eq!(
        peer.request(&[&headers(&[&GET[..], &[("x", &long)]].concat())]),
        ["refused 431 end"]
    );
}

/// A head over the limit is refused once its first part has arrived; the rest is skipped.
#[test]
fn a_head_over_the_limit_is_refused_early_and_skipped() {
    let mut peer = Peer::new();
    let long = "x".repeat(3 * BLOCK_MAX_BYTES);
    let fields = [(":method", "HEAD"), ("accept", "text/plain"), ("x", &long)];
    let head = headers(&fields);
    let mut stream = peer.begin();
    let front = peer.send(&mut stream, &head[..BLOCK_MAX_BYTES], false);
    assert!(front.is_empty(), "the caller keeps it");
    assert_eq!(
        peer.send(&mut stream, &head[..INPUT_MAX_BYTES], false),
        ["refused 431 head-only text"]
    );
    assert!(peer.send(&mut stream, &head[INPUT_MAX_BYTES..], false).is_empty());
    assert_eq!(peer.send(&mut stream, &data(b"abc"), true), ["data abc", "end"]);
    assert_eq!(peer.session.memory_bytes(), 0);
    // The head must still be decodable.
    let bad = [&front_of(BLOCK_MAX_BYTES + 1)[..], b"\0\0\xff\x24"].concat();
    let bad = [&bad[..], &[0; BLOCK_MAX_BYTES]].concat();
    assert_eq!(peer.request(&[&bad])[0], "fatal QpackDecompressionFailed");
    // For trailers, the response can no longer have an error status.
    let mut stream = peer.begin();
    let seen = peer.send(&mut stream, &[headers(&POST), front_of(1 << 40)].concat(), false);
    assert_eq!(seen, ["head POST /", "stream ExcessiveLoad"]);
}

fn front_of(bytes: usize) -> Vec<u8> {
    front(HEADERS, bytes as u64)
}

/// A head within its limit may be in a frame of the greatest length; one byte more is refused.
#[test]
fn the_longest_frame() {
    let mut peer = Peer::new();
    let mut payload = section(&GET);
    // 9600 times the code of a backslash, which has 19 bits (RFC 7541 Appendix B).
    let codes = "1111111111111110000".repeat(9600);
    let byte = |bits: &[u8]| bits.iter().fold(0, |value, bit| value << 1 | (bit - b'0'));
    let codes: Vec<u8> = codes.as_bytes().chunks(8).map(byte).collect();
    // The length of the value: Huffman, 127 and the rest in groups of seven bits.
    let rest = codes.len() - 127;
    payload.extend_from_slice(&[0x21, b'x', 0xff, rest as u8 | 0x80]);
    payload.extend_from_slice(&[(rest >> 7) as u8 | 0x80, (rest >> 14) as u8]);
    payload.extend_from_slice(&codes);
    // A flag and a name of one byte, a length of three.
    let left = BLOCK_MAX_BYTES - payload.len() - 5;
    payload.extend_from_slice(&section(&[("y", &"v".repeat(left))])[2..]);
    assert_eq!(payload.len(), BLOCK_MAX_BYTES);
    assert_eq!(peer.request(&[&frame(HEADERS, &payload)]), ["head GET / end"]);
    assert_eq!(peer.section.fields().get(b"x").map(<[u8]>::len), Some(9600));
    payload.extend_from_slice(&section(&[("z", "")])[2..]);
    let seen = peer.request(&[&frame(HEADERS, &payload)]);
    assert_eq!(seen, ["refused 431", "end"]);
}

/// RFC 9114 §5.2: streams that GOAWAY has excluded are not processed.
#[test]
fn streams_after_goaway_are_rejected() {
    let mut peer = Peer::new();
    let mut out = Vec::new();
    peer.request(&[&get()]);
    peer.session.go_away(&mut out);
    // 2^62-4 comes first: requests that are on their way still count.
    assert_eq!(out, [&[7, 8][..], &[0xff; 7], &[0xfc]].concat());
    assert_eq!(peer.request(&[&get()]), ["head GET / end"]);
    out.clear();
    peer.session.go_away(&mut out);
    assert_eq!(out, [7, 1, 8]);
    let rejected = peer.session.begin(8, 0).map(|_| ()).unwrap_err();
    assert_eq!(failure(&rejected), "stream RequestRejected");
    // A third one would have no new information.
    out.clear();
    peer.session.go_away(&mut out);
    assert!(out.is_empty());
}

/// RFC 9220 §3, RFC 8441 §4; RFC 9114 §4.4: in a tunnel "receipt of any other known frame type MUST
/// be treated as a connection error of type H3_FRAME_UNEXPECTED".
#[test]
fn extended_connect() {
    let settings = SessionSettings { extended_connect: true, ..SessionSettings::default() };
    let mut peer = Peer::with(&settings);
    let tunnel = headers(&TUNNEL);
    let frames = [&tunnel[..], &data(b"x"), &frame(UNKNOWN, b"y"), &data(b"z")];
    assert_eq!(peer.request(&frames), ["head CONNECT /chat", "data x", "data z", "end"]);
    let get = headers(&[&GET[..], &[(":protocol", "websocket")]].concat());
    assert_eq!(peer.request(&[&get]), [MALFORMED]);
    let without_path = headers(&[&TUNNEL[..3], &TUNNEL[4..]].concat());
    assert_eq!(peer.request(&[&without_path]), [MALFORMED]);
    assert_eq!(peer.request(&[&headers(&TUNNEL[..4])]), ["refused 400 end"]);
    assert_eq!(Peer::new().request(&[&tunnel]), [MALFORMED], "it was not announced");
    let trailers = headers(&[("x", "y")]);
    let seen = peer.request(&[&tunnel, &data(b"x"), &trailers]);
    assert_eq!(seen, ["head CONNECT /chat", "data x", UNEXPECTED]);
}
