//! Rules for single frames: preface, lengths, streams they may name (RFC 9113 §3, §4, §6).

use pinion_http::h2::session::SessionSettings;

use super::raw_client::*;

fn fatal(bytes: &[u8]) -> String {
    let mut peer = Peer::open();
    let seen = peer.send(bytes);
    let sent = peer.sent();
    let last = sent.last().expect("GOAWAY").clone();
    assert!(last.starts_with("GOAWAY"), "{sent:?}");
    // The machine reads nothing more, and writes nothing more.
    assert!(peer.send(&[get(101), frame(PING, 0, 0, &[0; 8])].concat()).is_empty());
    assert!(peer.out.is_empty() && peer.session.is_finished());
    let code = last.split(' ').next_back().expect("a code").to_owned();
    assert!(seen.last().expect("an event").starts_with("fatal"), "{seen:?}");
    code
}

/// RFC 9113 §3.4: the server's preface is SETTINGS, and the first frame it sends.
#[test]
fn our_settings_are_sent_first() {
    let peer = Peer::new(&SessionSettings::default());
    let sent = frames(&peer.out);
    assert_eq!((sent[0].kind, sent[0].flags, sent[0].stream), (SETTINGS, 0, 0));
    let settings: Vec<_> = sent[0]
        .payload
        .chunks(6)
        .map(|c| (u16::from_be_bytes([c[0], c[1]]), u32::from_be_bytes([c[2], c[3], c[4], c[5]])))
        .collect();
    assert_eq!(settings, [(3, 128), (6, 16 * 1024), (9, 1)]);
    assert_eq!((sent[1].kind, sent[1].stream), (WINDOW_UPDATE, 0));
    assert_eq!(sent[1].number(0), 16 * 1024 * 1024 - 65_535);
    assert_eq!(sent.len(), 2);
    // RFC 8441 §3.
    let peer = Peer::new(&SessionSettings { extended_connect: true, ..SessionSettings::default() });
    assert_eq!(frames(&peer.out)[0].payload[3 * 6..], [0, 8, 0, 0, 0, 1]);
}

/// RFC 9113 §3.4: "Clients and servers MUST treat an invalid connection preface as a connection
/// error (Section 5.4.1) of type PROTOCOL_ERROR."
#[test]
fn preface() {
    for at in 0..PREFACE.len() {
        let mut wrong = PREFACE.to_vec();
        wrong[at] ^= 1;
        let mut peer = Peer::new(&SessionSettings::default());
        peer.out.clear();
        assert!(peer.send(&wrong[..at]).is_empty());
        assert_eq!(peer.send(&wrong[at..=at]), ["fatal ProtocolError"]);
        assert_eq!(peer.sent(), ["GOAWAY 0 PROTOCOL_ERROR"]);
    }
}

/// RFC 9113 §3.4: the client's preface "MUST be followed by a SETTINGS frame".
#[test]
fn settings_follow_the_preface() {
    for other in [get(1), frame(SETTINGS, ACK, 0, b""), frame(PING, 0, 0, &[0; 8])] {
        let mut peer = Peer::new(&SessionSettings::default());
        assert_eq!(peer.send(&[PREFACE, &other].concat()), ["fatal ProtocolError"]);
    }
    let mut peer = Peer::new(&SessionSettings::default());
    peer.out.clear();
    assert_eq!(peer.ask(&[PREFACE, &settings(&[])].concat()), ["SETTINGS ack"]);
}

/// RFC 9113 §4.2: "An endpoint MUST send an error code of FRAME_SIZE_ERROR if a frame exceeds the
/// size defined in SETTINGS_MAX_FRAME_SIZE".
#[test]
fn too_long_frames_are_errors() {
    for kind in [DATA, HEADERS, SETTINGS, CONTINUATION, PRIORITY_UPDATE, 0x42] {
        let long = frame(kind, 0, u32::from(kind < 2), &[0; 16_385]);
        assert_eq!(fatal(&long), "FRAME_SIZE_ERROR", "{kind}");
        // The header is enough to detect it.
        let mut peer = Peer::open();
        assert_eq!(peer.send(&long[..9]), ["fatal FrameSizeError"]);
    }
    let mut peer = Peer::open();
    assert!(peer.send(&frame(0x42, 0, 0, &[0; 16_384])).is_empty());
    let longest = [("x", "y".repeat(16_000))];
    let fields: Vec<_> = GET.into_iter().chain(longest.iter().map(|(n, v)| (*n, &v[..]))).collect();
    assert_eq!(peer.send(&headers(1, END_STREAM, &fields)), ["head 1 GET / end"]);
}

/// RFC 9113 §6.3, §6.4, §6.5, §6.7, §6.8, §6.9: lengths that are wrong.
#[test]
fn frames_of_a_wrong_length_are_errors() {
    for (kind, flags, stream, bytes) in [
        (RST_STREAM, 0, 1, 3),
        (RST_STREAM, 0, 1, 5),
        (SETTINGS, 0, 0, 1),
        (SETTINGS, 0, 0, 7),
        (SETTINGS, ACK, 0, 6),
        (PING, 0, 0, 7),
        (PING, 0, 0, 9),
        (PING, ACK, 0, 0),
        (GOAWAY, 0, 0, 7),
        (GOAWAY, 0, 0, 0),
        (WINDOW_UPDATE, 0, 0, 3),
        (WINDOW_UPDATE, 0, 1, 5),
        // The part that a flag announces is missing.
        (DATA, PADDED, 1, 0),
        (HEADERS, PADDED | END_HEADERS, 3, 0),
        (HEADERS, WITH_PRIORITY | END_HEADERS, 3, 4),
        // RFC 9218 §7.1.
        (PRIORITY_UPDATE, 0, 0, 3),
        // RFC 9113 §6.3 wants a stream error, which a stream that is not open cannot have.
        (PRIORITY, 0, 3, 4),
    ] {
        let bytes = [post(1), frame(kind, flags, stream, &vec![0; bytes])].concat();
        assert_eq!(fatal(&bytes), "FRAME_SIZE_ERROR", "type {kind}");
    }
}

/// RFC 9113 §6.3: "A PRIORITY frame with a length other than 5 octets MUST be treated as a stream
/// error (Section 5.4.2) of type FRAME_SIZE_ERROR."
#[test]
fn priority_of_a_wrong_length() {
    let mut peer = Peer::open();
    peer.send(&get(1));
    assert_eq!(peer.send(&frame(PRIORITY, 0, 1, &[0; 4])), ["reset 1 FrameSizeError by us"]);
    assert_eq!(peer.sent(), ["RST_STREAM 1 FRAME_SIZE_ERROR"]);
}

/// RFC 9113 §6: frames of streams on the connection, frames of the connection on a stream; and
/// RFC 9113 §5.1.1, §5.1: streams that no client can open, or has not opened.
#[test]
fn frames_on_a_wrong_stream_are_errors() {
    for (kind, payload) in [
        (DATA, &b"x"[..]),
        (HEADERS, b"\x82\x86\x84"),
        (PRIORITY, &[0; 5]),
        (RST_STREAM, &[0; 4]),
        (CONTINUATION, b""),
    ] {
        let flags = if kind == HEADERS { END_HEADERS } else { 0 };
        assert_eq!(fatal(&frame(kind, flags, 0, payload)), "PROTOCOL_ERROR", "type {kind}");
    }
    for (kind, payload) in [(SETTINGS, &[][..]), (PING, &[0; 8]), (GOAWAY, &[0; 8])] {
        let bytes = [get(1), frame(kind, 0, 1, payload)].concat();
        assert_eq!(fatal(&bytes), "PROTOCOL_ERROR", "type {kind}");
    }
    for stream in [2, 7, 8] {
        for (kind, payload) in [(DATA, &b"x"[..]), (RST_STREAM, &[0; 4]), (WINDOW_UPDATE, &[1; 4])]
        {
            let bytes = [get(5), frame(kind, 0, stream, payload)].concat();
            assert_eq!(fatal(&bytes), "PROTOCOL_ERROR", "type {kind}, stream {stream}");
        }
    }
    assert_eq!(fatal(&headers(2, END_STREAM, &GET)), "PROTOCOL_ERROR");
}

/// RFC 9113 §8.4: "A client cannot push. Thus, servers MUST treat the receipt of a PUSH_PROMISE
/// frame as a connection error (Section 5.4.1) of type PROTOCOL_ERROR."
#[test]
fn push_promise_is_an_error() {
    let promise = frame(PUSH_PROMISE, END_HEADERS, 1, &[&[0, 0, 0, 2], &block(&GET)[..]].concat());
    assert_eq!(fatal(&[get(1), promise].concat()), "PROTOCOL_ERROR");
}

/// RFC 9113 §6.1, §6.2: padding that is as long as its frame.
#[test]
fn padding() {
    for (kind, flags) in [(DATA, PADDED), (HEADERS, PADDED | END_HEADERS)] {
        for payload in [&[1][..], &[5, 0, 0, 0, 0], &[255, 0]] {
            let stream = if kind == DATA { 1 } else { 3 };
            let bytes = [post(1), frame(kind, flags, stream, payload)].concat();
            assert_eq!(fatal(&bytes), "PROTOCOL_ERROR", "{payload:?}");
        }
    }
    let mut peer = Peer::open();
    let padded = [&[3][..], &[0; 5], &block(&POST), &[0; 3]].concat();
    let head = frame(HEADERS, PADDED | WITH_PRIORITY | END_HEADERS, 1, &padded);
    assert_eq!(peer.send(&head), ["head 1 POST /"]);
    let seen = peer.send(&data(1, PADDED, b"\x02hello\0\0"));
    assert_eq!(seen, ["data 1 hello"]);
    assert_eq!(peer.send(&data(1, PADDED | END_STREAM, &[0, b'!'])), ["data 1 ! end"]);
    let mut peer = Peer::open();
    assert_eq!(
        peer.send(&[post(1), data(1, PADDED | END_STREAM, &[1, 0])].concat()),
        ["head 1 POST /", "data 1  end"]
    );
}

/// RFC 9113 §6.5.2: values that no setting has.
#[test]
fn invalid_settings_are_errors() {
    for (name, value, code) in [
        (2, 2, "PROTOCOL_ERROR"),
        (4, 1 << 31, "FLOW_CONTROL_ERROR"),
        (4, u32::MAX, "FLOW_CONTROL_ERROR"),
        (5, 16_383, "PROTOCOL_ERROR"),
        (5, 1 << 24, "PROTOCOL_ERROR"),
        // RFC 9218 §2.1.
        (9, 2, "PROTOCOL_ERROR"),
    ] {
        assert_eq!(fatal(&settings(&[(name, value)])), code, "{name}");
    }
    // RFC 9113 §6.5.2: others are ignored.
    let fine = [
        (1, 0),
        (2, 1),
        (3, 0),
        (4, (1 << 31) - 1),
        (5, (1 << 24) - 1),
        (6, 0),
        (8, 7),
        (9, 1),
        (0xffff, 5),
    ];
    assert_eq!(Peer::open().ask(&settings(&fine)), ["SETTINGS ack"]);
}

/// RFC 9113 §5.5: "Implementations MUST discard frames that have unknown or unsupported types."
/// §4.1: unknown flags are ignored, and so is the reserved bit.
#[test]
fn unknown_frames_and_flags_are_ignored() {
    let mut peer = Peer::open();
    for stream in [0, 1, 2, 77] {
        assert!(peer.send(&frame(0x33, 0xff, stream, b"whatever")).is_empty());
    }
    assert_eq!(peer.send(&frame(HEADERS, 0xd5 & !PADDED, 1, &block(&GET))), ["head 1 GET / end"]);
    let reserved = 1 | 1 << 31;
    assert!(peer.send(&frame(WINDOW_UPDATE, 0xff, reserved, &[0x80, 0, 0, 1])).is_empty());
    assert_eq!(peer.session.room(1), 16_384);
    assert!(peer.out.is_empty());
}

/// RFC 9113 §6.7: "MUST send a PING frame with the ACK flag set in response, with an identical
/// frame payload"; "MUST NOT respond to PING frames containing this flag".
#[test]
fn pings() {
    let mut peer = Peer::open();
    assert_eq!(peer.ask(&frame(PING, 0, 0, b"ping-pon")), ["PING ack ping-pon"]);
    assert!(peer.ask(&frame(PING, ACK, 0, b"ping-pon")).is_empty());
}

/// RFC 9113 §6.2, §6.10, §4.3: a field block is one stretch of frames.
#[test]
fn continuation() {
    let block = block(&GET);
    let begin = frame(HEADERS, END_STREAM, 1, &block[..3]);
    for other in [
        get(3),
        frame(CONTINUATION, END_HEADERS, 3, &block),
        frame(PING, 0, 0, &[0; 8]),
        frame(0x33, 0, 0, b""),
        data(1, 0, b""),
    ] {
        assert_eq!(fatal(&[begin.clone(), other].concat()), "PROTOCOL_ERROR");
    }
    assert_eq!(
        fatal(&[get(1), frame(CONTINUATION, END_HEADERS, 1, b"")].concat()),
        "PROTOCOL_ERROR"
    );
    let mut peer = Peer::open();
    assert!(peer.send(&begin).is_empty());
    assert!(peer.send(&frame(CONTINUATION, 0, 1, &block[3..7])).is_empty());
    assert!(peer.send(&frame(CONTINUATION, END_STREAM, 1, b"")).is_empty());
    let seen = peer.send(&frame(CONTINUATION, END_HEADERS, 1, &block[7..]));
    assert_eq!(seen, ["head 1 GET / end"]);
}

/// RFC 9113 §4.3: "A decoding error in a field block MUST be treated as a connection error
/// (Section 5.4.1) of type COMPRESSION_ERROR."
#[test]
fn compression() {
    assert_eq!(fatal(&frame(HEADERS, END_HEADERS, 1, &[0x80])), "COMPRESSION_ERROR");
    assert_eq!(fatal(&frame(HEADERS, END_HEADERS, 1, &[0x40, 0xff])), "COMPRESSION_ERROR");
}

/// RFC 9113 §6.8: a client announces that it leaves. Its leaving has no effect, for any code (§7):
/// its later frames are read until it has closed the connection.
#[test]
fn a_goaway_of_the_client_has_no_effect() {
    let mut peer = Peer::open();
    peer.send(&get(1));
    for payload in [&[0; 8][..], b"\0\0\0\0\0\0\0\x0bdebug", &[0, 0, 0, 0, 0, 0, 0, 0xff]] {
        assert!(peer.send(&frame(GOAWAY, 0, 0, payload)).is_empty());
    }
    peer.response(1);
    peer.sent();
    assert!(!peer.session.is_finished());
    assert_eq!(peer.ask(&frame(PING, 0, 0, b"pingpong")), ["PING ack pingpong"]);
}
