//! The frames that the machine writes.

use pinion_http::field_section::FieldSection;
use pinion_http::hpack::decoder::Decoder;
use pinion_http::limits::Limits;

use super::raw_client::*;

/// Returns the fields of a block, as text.
fn decode(decoder: &mut Decoder, block: &[u8]) -> Vec<(String, usize)> {
    let mut section = FieldSection::new();
    decoder.decode(block, &mut section, &Limits::default()).unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    section.fields().iter().map(|field| (text(field.name), field.value.len())).collect()
}

/// RFC 9113 §8.1: interim heads, a final one, content, trailers.
#[test]
fn a_whole_response() {
    let mut peer = Peer::open();
    peer.send(&get(1));
    let Peer { session, out, .. } = &mut peer;
    assert!(session.head(1, false, out, |_, block| block.extend_from_slice(b"\x08\x03103")));
    assert!(session.head(1, false, out, |_, block| block.push(0x88)));
    assert!(session.data(1, 5, false, out));
    out.extend_from_slice(b"hello");
    assert!(session.data(1, 0, false, out));
    assert!(session.trailers(1, out, |block| block.extend_from_slice(b"\0\x01x\x01y")));
    // After the end of the stream nothing is written.
    assert!(!session.head(1, true, out, |_, _| panic!("written")));
    assert!(!session.data(1, 0, true, out));
    assert!(session.close(1, out).is_some());
    assert!(session.close(1, out).is_none());
    assert!(!session.head(1, true, out, |_, _| panic!("written")));
    assert!(!session.data(1, 0, true, out));
    let sent = ["HEADERS 1", "HEADERS 1", "DATA 1 5", "DATA 1 0", "HEADERS 1 end"];
    assert_eq!(peer.sent(), sent);
}

/// RFC 9113 §4.2, §6.10: a block longer than a frame that the client takes.
#[test]
fn a_long_head_is_split_into_continuation_frames() {
    for (bytes, parts) in [
        (16_384, &["HEADERS 1 end"][..]),
        (16_385, &["HEADERS 1 end …", "CONTINUATION 1"]),
        (32_768, &["HEADERS 1 end …", "CONTINUATION 1"]),
        (32_769, &["HEADERS 1 end …", "CONTINUATION 1 …", "CONTINUATION 1"]),
    ] {
        let mut peer = Peer::open();
        peer.send(&get(1));
        peer.out.extend_from_slice(&frame(PING, 0, 0, b"in front"));
        let block: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
        let Peer { session, out, .. } = &mut peer;
        assert!(session.head(1, true, out, |_, out| out.extend_from_slice(&block)));
        let sent = frames(out);
        let payload: Vec<u8> = sent[1..].iter().flat_map(|frame| frame.payload.clone()).collect();
        assert!(payload == block, "{bytes}");
        assert!(sent.iter().all(|frame| frame.payload.len() <= 16_384));
        assert_eq!(peer.sent()[1..], *parts);
    }
}

/// RFC 7541 §4.2: an encoder announces that it uses less when the client allows less, once, at the
/// beginning of the next block; RFC 9113 §4.3.1: after the settings are acknowledged.
#[test]
fn a_smaller_table_is_acknowledged_in_the_next_block() {
    let mut peer = Peer::open();
    let block_of = |peer: &mut Peer, stream| {
        peer.send(&get(stream));
        peer.response(stream);
        frames(&std::mem::take(&mut peer.out)).pop().unwrap().payload
    };
    assert_eq!(block_of(&mut peer, 1), [0x88]);
    assert_eq!(peer.ask(&settings(&[(1, 4096)])), ["SETTINGS ack"]);
    assert_eq!(block_of(&mut peer, 3), [0x88]);
    peer.ask(&settings(&[(1, 100), (1, 10_000)]));
    let block = block_of(&mut peer, 5);
    assert_eq!(block, [0x20, 0x88]);
    assert_eq!(decode(&mut Decoder::new(4096), &block), [(":status".to_owned(), 3)]);
    assert_eq!(block_of(&mut peer, 7), [0x88]);
    // A table of no size cannot become smaller.
    peer.ask(&settings(&[(1, 0)]));
    assert_eq!(block_of(&mut peer, 9), [0x88]);
}

/// RFC 9113 §6.9.1, as a fault of the server itself.
#[test]
fn content_is_never_sent_beyond_its_window() {
    let mut peer = Peer::open();
    peer.send(&get(1));
    peer.begin(1);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        peer.session.data(1, 16_385, false, &mut peer.out)
    }));
    assert!(result.is_err(), "a fault of the server");
}
