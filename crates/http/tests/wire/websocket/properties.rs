//! Frames in any order and cut anywhere, and messages that are written and read again.

use pinion_http::websocket::close_frame::CloseFrame;
use pinion_http::websocket::deflate_offer::DeflateAgreement;
use pinion_http::websocket::deflate_pool::DeflatePool;
use pinion_http::websocket::frame_head::MessageKind;
use pinion_http::websocket::frame_writer::{
    MessageError, WebSocketWriter, write_close, write_ping, write_pong,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::{FIN, KEY, RSV1, deflate, frame};
use crate::oracle::websocket::{Event, Rules, check_frames};

/// Generates content of messages: text, bytes, and well compressible content.
fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "\\PC{0,40}".prop_map(String::into_bytes),
        vec(any::<u8>(), 0..200),
        (vec(any::<u8>(), 1..10), 0_usize..2000).prop_map(|(some, times)| some.repeat(times)),
    ]
}

/// Generates a message in fragments, with a ping between them.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let first = select(vec![1_u8, 2]);
    (first, any::<bool>(), content(), 1_usize..100, any::<bool>()).prop_map(
        |(kind, is_compressed, content, cut, has_ping)| {
            let bytes = if is_compressed { deflate(&content) } else { content };
            let bits = if is_compressed { RSV1 } else { 0 };
            let mut wire = Vec::new();
            for (number, piece) in bytes.chunks(cut.max(bytes.len() / 5)).enumerate() {
                wire.extend(frame(if number == 0 { kind | bits } else { 0 }, piece));
                if has_ping {
                    wire.extend(frame(FIN | 9, b"ping"));
                }
            }
            let last = if wire.is_empty() { kind } else { 0 };
            [wire, frame(FIN | last, b"")].concat()
        },
    )
}

/// Generates frames that are almost always wrong.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (any::<u8>(), vec(any::<u8>(), 0..9)).prop_map(|(first, bytes)| frame(first, &bytes)),
        vec(any::<u8>(), 0..20),
        (vec(any::<u8>(), 0..9)).prop_map(|bytes| frame(FIN | RSV1 | 2, &bytes)),
    ]
}

proptest! {
    #[test]
    fn frames_cut_anywhere_give_the_same_messages(
        parts in vec(prop_oneof![4 => message(), 1 => noise()], 1..4),
        has_deflate in prop::bool::weighted(0.8), is_limited in prop::bool::weighted(0.2),
        cut in 1_usize..100, room in 1_usize..1000,
    ) {
        let max_bytes = if is_limited { 1000 } else { 1 << 16 };
        check_frames(Rules { max_bytes, has_deflate }, &parts.concat(), cut, room);
    }

    /// Messages that the server writes can be read again, once the frames have masks.
    #[test]
    fn written_messages_are_read(
        messages in vec((any::<bool>(), content(), 1_usize..3000), 0..6),
        bits in select(vec![None, Some(8), Some(9), Some(12), Some(15)]),
    ) {
        let pool = DeflatePool::default();
        let deflate = bits.map(|bits| (agreement(bits), pool.clone()));
        let mut writer = WebSocketWriter::new(deflate);
        let (mut out, mut expected) = (Vec::new(), Vec::new());
        for (is_text, content, cut) in messages {
            let is_text = is_text && std::str::from_utf8(&content).is_ok();
            let kind = if is_text { MessageKind::Text } else { MessageKind::Binary };
            let mut rest = &content[..];
            loop {
                let (piece, behind) = rest.split_at(cut.min(rest.len()));
                rest = behind;
                let is_end = rest.is_empty();
                writer.write_message(&mut out, kind, piece, is_end).expect("it is good");
                // The ping is between any two frames.
                write_ping(&mut out, b"?");
                expected.push(Event::Ping(b"?".to_vec()));
                if is_end {
                    break;
                }
            }
            expected.pop();
            out.truncate(out.len() - 3);
            expected.push(Event::Message(kind, content));
        }
        let max_bytes = 1 << 17;
        let (wire, _) = masked(&out);
        let found = check_frames(Rules { max_bytes, has_deflate: bits.is_some() }, &wire, 99, 999);
        prop_assert_eq!(found.error, None);
        prop_assert_eq!(found.events, expected);
    }
}

/// Returns the agreement that follows from an offer.
fn agreement(bits: u8) -> DeflateAgreement {
    super::handshakes::agreement(&format!("permessage-deflate; server_max_window_bits={bits}"))
        .expect("it is taken")
}

/// Masks the frames of a server. Returns also the first byte and the content length of each.
fn masked(mut wire: &[u8]) -> (Vec<u8>, Vec<(u8, usize)>) {
    let (mut out, mut heads) = (Vec::new(), Vec::new());
    while let [first, length, rest @ ..] = wire {
        let (bytes, rest) = match length {
            127 => rest.split_at(8),
            126 => rest.split_at(2),
            _ => wire[1..].split_at(1),
        };
        let bytes = bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let (content, behind) = rest.split_at(bytes);
        out.extend(frame(*first, content));
        heads.push((*first, bytes));
        wire = behind;
    }
    assert!(wire.is_empty(), "frames are whole");
    (out, heads)
}

fn written(writer: &mut WebSocketWriter, pieces: &[(&[u8], bool)]) -> Vec<(u8, usize)> {
    let mut out = Vec::new();
    for (piece, is_end) in pieces {
        let written = writer.write_message(&mut out, MessageKind::Binary, piece, *is_end);
        written.expect("it is good");
    }
    masked(&out).1
}

#[test]
fn messages_are_compressed_if_that_gains_something() {
    let mut writer = WebSocketWriter::new(Some((agreement(15), DeflatePool::default())));
    let whole = FIN | 2;
    let long = vec![b'a'; 200_000];
    assert_eq!(written(&mut writer, &[(&[b'a'; 511], true)]), [(whole, 511)]);
    let short = written(&mut writer, &[(&[b'a'; 512], true)]);
    assert!(matches!(short[..], [(first, 1..20)] if first == whole | RSV1), "{short:?}");
    assert_eq!(written(&mut writer, &[(&[b'a'; 512], true)]), short, "nothing is remembered");
    // Incompressible content is sent uncompressed.
    let mut seed = 1_u32;
    let random: Vec<u8> = (0..200_000)
        .map(|_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        })
        .collect();
    let ascii = written(&mut writer, &[(&random[..600], true)]);
    assert_eq!(ascii, [(whole, 600)]);
    // Each part of a long message is sent at once, and only the first one has the bit.
    let in_parts = written(&mut writer, &[(&random, false), (&long, true)]);
    let firsts: Vec<u8> = in_parts.iter().map(|head| head.0).collect();
    assert_eq!((firsts[0], firsts[firsts.len() - 1]), (RSV1 | 2, FIN));
    assert!(firsts[1..firsts.len() - 1].iter().all(|first| *first == 0));
    // Without compression there is a frame for each piece.
    let mut writer = WebSocketWriter::new(None);
    let heads = written(&mut writer, &[(&long, false), (b"", false), (b"b", false), (b"", true)]);
    assert_eq!(heads, [(2, 200_000), (0, 1), (FIN, 0)]);
    // The compressor does not support this window.
    let mut writer = WebSocketWriter::new(Some((agreement(8), DeflatePool::default())));
    assert_eq!(written(&mut writer, &[(&long, true)]), [(whole, 200_000)]);
}

#[test]
fn an_application_sends_text_that_is_utf8() {
    let mut out = Vec::new();
    for pieces in
        [&[(&b"\xff"[..], true)][..], &[(b"\xce", true)], &[(b"\xce", false), (b"a", true)]]
    {
        let mut writer = WebSocketWriter::new(None);
        let results = pieces.iter().map(|(piece, is_end)| {
            writer.write_message(&mut out, MessageKind::Text, piece, *is_end)
        });
        assert_eq!(results.last(), Some(Err(MessageError::Text)));
    }
    let mut writer = WebSocketWriter::new(None);
    assert_eq!(writer.write_message(&mut out, MessageKind::Binary, b"\xff", true), Ok(()));
}

#[test]
fn control_frames_are_within_their_limits() {
    let mut out = Vec::new();
    write_ping(&mut out, &[b'a'; 126]);
    write_pong(&mut out, b"b");
    write_close(&mut out, CloseFrame { code: 1005, reason: "left out" });
    write_close(&mut out, CloseFrame { code: 1006, reason: "" });
    let reason = ["a".repeat(122), "µ".repeat(9)].concat();
    write_close(&mut out, CloseFrame { code: 1000, reason: &reason });
    let (wire, heads) = masked(&out);
    assert_eq!(heads, [(0x89, 125), (0x8a, 1), (0x88, 0), (0x88, 2), (0x88, 124)]);
    assert_eq!(out[130..136], [0x88, 0, 0x88, 2, 0x03, 0xf3]);
    assert!(out.ends_with(b"aaa"), "a character is not cut");
    assert_eq!(wire[2..6], KEY);
}
