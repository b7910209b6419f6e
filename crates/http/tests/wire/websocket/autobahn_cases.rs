//! Correct and wrong input of clients, in the order of the cases of Autobahn's suite.

use pinion_http::websocket::error::WebSocketError as Error;
use pinion_http::websocket::frame_head::MessageKind::{Binary, Text};
use pinion_http::websocket::frame_reader::{WebSocketEvent, WebSocketReader};
use pinion_http::websocket::limits::MESSAGE_MAX_BYTES;

use super::{FIN, KEY, RSV1, deflate, frame};
use crate::oracle::websocket::{Event, Found, Rules, check_frames};

/// Opcodes.
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

fn found(has_deflate: bool, frames: &[Vec<u8>]) -> Found {
    check_frames(Rules { max_bytes: 1 << 17, has_deflate }, &frames.concat(), 7, 11)
}

/// Asserts that all frames are correct and give these events.
fn check_events(frames: &[Vec<u8>], events: &[Event]) {
    let found = found(false, frames);
    assert_eq!((&found.events[..], found.error), (events, None), "{frames:x?}");
}

/// Asserts that there is an error after this many events.
fn check_error(frames: &[Vec<u8>], events: usize, error: Error, code: u16) {
    for has_deflate in [false, true] {
        let found = found(has_deflate, frames);
        assert_eq!((found.events.len(), found.error), (events, Some(error)), "{frames:x?}");
        assert_eq!(error.code(), code);
        assert!(error.reason().len() <= 123);
    }
}

fn message(kind: u8, content: &[u8]) -> Event {
    Event::Message(if kind == TEXT { Text } else { Binary }, content.to_vec())
}

/// Cases 1: each form of length, and the values around its limits.
#[test]
fn messages_of_all_lengths() {
    for bytes in [0, 1, 125, 126, 127, 128, 65535, 65536, 1 << 17] {
        for kind in [TEXT, BINARY] {
            let content = vec![b'*'; bytes];
            check_events(&[frame(FIN | kind, &content)], &[message(kind, &content)]);
        }
    }
    // RFC 6455 §5.7.
    let hello = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58".to_vec();
    check_events(&[hello], &[message(TEXT, b"Hello")]);
}

/// Cases 2: pings and pongs.
#[test]
fn pings_and_pongs_have_up_to_125_bytes() {
    for bytes in [0, 5, 125] {
        let content = vec![0xfe; bytes];
        check_events(
            &[frame(FIN | PING, &content), frame(FIN | PONG, &content)],
            &[Event::Ping(content.clone()), Event::Pong(content.clone())],
        );
    }
    check_error(&[frame(FIN | PING, &[0xfe; 126])], 0, Error::ControlLength, 1002);
    check_error(&[frame(FIN | PONG, &[0xfe; 126])], 0, Error::ControlLength, 1002);
    check_error(&[frame(FIN | CLOSE, &[3; 126])], 0, Error::ControlLength, 1002);
}

/// Cases 3 and 4: reserved bits and opcodes.
#[test]
fn reserved_bits_and_codes_are_refused() {
    for bits in [0x10, 0x20, 0x30] {
        for kind in [CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG] {
            let frames = [frame(FIN | TEXT, b"a"), frame(FIN | bits | kind, b"")];
            check_error(&frames, 1, Error::ReservedBits, 1002);
        }
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        let frames = [frame(FIN | TEXT, b"a"), frame(FIN | opcode, b"")];
        check_error(&frames, 1, Error::Opcode { opcode }, 1002);
    }
    for kind in [TEXT, BINARY] {
        let one = found(false, &[frame(FIN | RSV1 | kind, &deflate(b"a"))]);
        assert_eq!(one.error, Some(Error::ReservedBits));
    }
    for kind in [CLOSE, PING, PONG] {
        check_error(&[frame(FIN | RSV1 | kind, b"")], 0, Error::ReservedBits, 1002);
    }
    let frames = [frame(TEXT, b"a"), frame(FIN | RSV1 | CONTINUATION, b"")];
    check_error(&frames, 0, Error::ReservedBits, 1002);
}

/// Cases 5: messages in fragments, and control frames between them.
#[test]
fn fragments_are_one_message() {
    check_events(
        &[
            frame(TEXT, b"frag"),
            frame(FIN | PING, b"1"),
            frame(CONTINUATION, b""),
            frame(FIN | PONG, b"2"),
            frame(FIN | CONTINUATION, b"ment"),
            frame(BINARY, b""),
            frame(FIN | CONTINUATION, b""),
        ],
        &[
            Event::Ping(b"1".to_vec()),
            Event::Pong(b"2".to_vec()),
            message(TEXT, b"fragment"),
            message(BINARY, b""),
        ],
    );
    for kind in [PING, PONG, CLOSE] {
        check_error(&[frame(kind, b"")], 0, Error::FragmentedControl, 1002);
    }
    for first in [CONTINUATION, FIN | CONTINUATION] {
        let frames = [frame(FIN | TEXT, b"a"), frame(first, b"b")];
        check_error(&frames, 1, Error::NoMessage, 1002);
    }
    for kind in [TEXT, BINARY] {
        let frames = [frame(TEXT, b"a"), frame(FIN | kind, b"b")];
        check_error(&frames, 0, Error::MessageInMessage, 1002);
    }
}

/// Cases 6: UTF-8, which fails with the first wrong byte.
#[test]
fn text_is_utf8() {
    let good = "Hello-µ@ßöäüàá-UTF-8!! κόσμε 𐍈 \u{10ffff} \u{0}".as_bytes();
    check_events(&[frame(FIN | TEXT, good)], &[message(TEXT, good)]);
    let mut frames: Vec<_> = good.iter().map(|byte| frame(CONTINUATION, &[*byte])).collect();
    frames[0][0] = TEXT;
    frames.push(frame(FIN | CONTINUATION, b""));
    check_events(&frames, &[message(TEXT, good)]);
    for wrong in [
        &b"\xed\xa0"[..],
        b"\xf4\x90",
        b"\xc0",
        b"\xe0\x80",
        b"\xf8",
        b"\xff",
        b"\x80",
        b"\xce\xce",
        b"\xe1\xbd\x61",
    ] {
        // The message is incomplete.
        let frames = [frame(TEXT, good), frame(CONTINUATION, wrong)];
        check_text_error(&frames);
        let (last, before) = wrong.split_last().expect("it has bytes");
        let rest = found(false, &[frame(TEXT, before)]);
        assert_eq!(rest.error, None, "{wrong:x?} fails with its last byte only");
        check_text_error(&[frame(TEXT, before), frame(CONTINUATION, &[*last])]);
        // The frame is incomplete, too.
        let mut frame = frame(FIN | TEXT, &[wrong, good].concat());
        frame.truncate(6 + wrong.len());
        check_text_error(&[frame]);
    }
    for start in [&b"\xce"[..], b"\xe1\xbd", b"\xf0\x90\x8d"] {
        assert_eq!(found(false, &[frame(TEXT, start)]).error, None);
        check_text_error(&[frame(FIN | TEXT, start)]);
        check_text_error(&[frame(TEXT, start), frame(FIN | CONTINUATION, b"")]);
        check_events(&[frame(FIN | BINARY, start)], &[message(BINARY, start)]);
    }
    assert_eq!(Error::Text.code(), 1007);
}

/// Asserts that the text fails.
fn check_text_error(frames: &[Vec<u8>]) {
    let found = found(false, frames);
    assert_eq!((found.events, found.error), (vec![], Some(Error::Text)), "{frames:x?}");
    assert_eq!(failure(MESSAGE_MAX_BYTES, &frames.concat()), Some(Error::Text));
}

/// Returns the error of the reader itself.
fn failure(max_bytes: u64, wire: &[u8]) -> Option<Error> {
    let mut reader = WebSocketReader::new(max_bytes, None);
    let (mut content, mut rest) = (Vec::new(), wire);
    loop {
        match reader.step(rest, usize::MAX, &mut content) {
            Ok(step) if step.event == WebSocketEvent::NeedMore => return None,
            Ok(step) => rest = &rest[step.used..],
            Err(error) => return Some(error),
        }
    }
}

/// Cases 7: the closing frame.
#[test]
fn codes_and_reasons_of_closing() {
    let close =
        |code: u16, reason: &[u8]| frame(FIN | CLOSE, &[&code.to_be_bytes(), reason].concat());
    let after = frame(FIN | 15, b"whatever follows is not looked at");
    check_events(&[frame(FIN | CLOSE, b""), after.clone()], &[Event::Close(1005, String::new())]);
    for code in [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014] {
        check_events(&[close(code, b"")], &[Event::Close(code, String::new())]);
    }
    for code in [3000, 3999, 4000, 4999] {
        let reason = "*".repeat(123);
        let frames = [close(code, reason.as_bytes()), after.clone()];
        check_events(&frames, &[Event::Close(code, reason)]);
    }
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535] {
        check_error(&[close(code, b"")], 0, Error::CloseCode { code }, 1002);
    }
    check_error(&[frame(FIN | CLOSE, &[3])], 0, Error::CloseLength, 1002);
    check_error(&[close(1000, b"\xce\xba\xed\xa0\x80")], 0, Error::CloseReason, 1007);
    check_error(&[close(1000, b"\xce")], 0, Error::CloseReason, 1007);
    let frames = [frame(TEXT, b"a"), close(1000, b"")];
    check_events(&frames, &[Event::Close(1000, String::new())]);
}

/// Frames without a mask, and lengths with more bytes than necessary (RFC 6455 §5.1, §5.2).
#[test]
fn malformed_heads() {
    check_error(&[b"\x81\x05Hello".to_vec()], 0, Error::NotMasked, 1002);
    check_error(&[b"\x88\x00".to_vec()], 0, Error::NotMasked, 1002);
    for (kind, length) in [
        (126, &[0, 0][..]),
        (126, &[0, 125]),
        (127, &[0, 0, 0, 0, 0, 0, 0, 1]),
        (127, &[0, 0, 0, 0, 0, 0, 255, 255]),
        (127, &[0x80, 0, 0, 0, 0, 0, 0, 0]),
        (127, &[255; 8]),
    ] {
        let head = [&[FIN | BINARY, 0x80 | kind], length, &KEY].concat();
        check_error(&[head], 0, Error::LengthForm, 1002);
    }
}

/// Cases 9 and 12: a message of the maximum length is accepted, and one more byte fails: before it
/// is received, or when it is decompressed.
#[test]
fn messages_have_a_limit() {
    let head = |first: u8, bytes: u64| [&[first, 0xff], &bytes.to_be_bytes()[..], &KEY].concat();
    let max_bytes = MESSAGE_MAX_BYTES;
    assert_eq!(max_bytes, 16 * 1024 * 1024);
    let too_large = Some(Error::MessageTooLarge { max_bytes });
    assert_eq!(Error::MessageTooLarge { max_bytes }.code(), 1009);
    assert_eq!(failure(max_bytes, &head(FIN | BINARY, max_bytes)), None);
    assert_eq!(failure(max_bytes, &head(FIN | BINARY, max_bytes + 1)), too_large);
    assert_eq!(failure(max_bytes, &head(FIN | BINARY, i64::MAX as u64)), too_large);
    let in_two = [frame(BINARY, b"a"), head(FIN | CONTINUATION, max_bytes)].concat();
    assert_eq!(failure(max_bytes, &in_two), too_large);

    let limited = |bytes: usize| {
        let wire = frame(FIN | RSV1 | BINARY, &deflate(&vec![0; bytes]));
        let rules = Rules { max_bytes: 5000, has_deflate: true };
        check_frames(rules, &wire, 3, 100)
    };
    assert_eq!(limited(5000).events, [message(BINARY, &[0; 5000])]);
    let too_large = Some(Error::MessageTooLarge { max_bytes: 5000 });
    assert_eq!((limited(5001).events, limited(5001).error), (vec![], too_large));
}

/// Cases 12 and 13: compressed messages, and those of RFC 7692 §7.2.3.
#[test]
fn compressed_messages() {
    let long: Vec<u8> = (0..100_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
    let long = &long[..1 << 17];
    let all = deflate(long);
    let (front, back) = all.split_at(all.len() / 3);
    let hello = message(TEXT, b"Hello");
    let text = FIN | RSV1 | TEXT;
    for (frames, events) in [
        (vec![frame(text, &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 7, 0])], vec![hello.clone()]),
        (
            vec![frame(RSV1 | TEXT, &[0xf2, 0x48, 0xcd]), frame(FIN, &[0xc9, 0xc9, 7, 0])],
            vec![hello.clone()],
        ),
        // An uncompressed block.
        (vec![frame(text, b"\0\x05\0\xfa\xffHello\0")], vec![hello.clone()]),
        // A block with the flag of the last one.
        (vec![frame(text, &[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 7, 0, 0])], vec![hello.clone()]),
        // Two blocks.
        (
            vec![frame(text, &[0xf2, 0x48, 5, 0, 0, 0, 0xff, 0xff, 0xca, 0xc9, 0xc9, 7, 0])],
            vec![hello.clone()],
        ),
        (vec![frame(text, &[0])], vec![message(TEXT, b"")]),
        (vec![frame(FIN | TEXT, b"Hello")], vec![hello.clone()]),
        (
            vec![
                frame(RSV1 | BINARY, front),
                frame(FIN | PING, b"a"),
                frame(CONTINUATION, b""),
                frame(FIN, back),
                frame(text, &deflate(b"Hello")),
            ],
            vec![Event::Ping(b"a".to_vec()), message(BINARY, long), hello],
        ),
    ] {
        let found = found(true, &frames);
        assert_eq!((found.events, found.error), (events, None));
    }
    // The second message of the example refers to the first one.
    let history =
        [frame(text, &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 7, 0]), frame(text, &[0xf2, 0, 0x11, 0, 0])];
    for wrong in [&history[1..], &history[..], &[frame(text, &[0xff, 0xff])]] {
        assert_eq!(found(true, wrong).error, Some(Error::Compression), "{wrong:x?}");
    }
    assert_eq!(Error::Compression.code(), 1007);
}

/// A frame of a compressed message is read to its end before the next one, however small the space
/// for output is: the first error is reported first.
#[test]
fn the_first_error_does_not_depend_on_the_output_space() {
    let malformed = frame(RSV1 | TEXT, &[0xd2, 0x40, 0x40]);
    let frames = [malformed, frame(FIN | TEXT, b"")];
    let found = found(true, &frames);
    assert_eq!((found.events, found.error), (vec![], Some(Error::Compression)));
    // A wrong byte of text before malformed data, and before the limit.
    let text = [&deflate(b"a\xff")[..], &[7, 0xff, 0xff]].concat();
    for (max_bytes, expected) in
        [(100, Error::Text), (2, Error::Text), (1, Error::MessageTooLarge { max_bytes: 1 })]
    {
        let rules = Rules { max_bytes, has_deflate: true };
        let found = check_frames(rules, &frame(FIN | RSV1 | TEXT, &text), 1, 1);
        assert_eq!((found.events, found.error), (vec![], Some(expected)));
    }
}
