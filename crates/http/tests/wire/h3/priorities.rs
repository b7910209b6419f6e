//! The field and the frame of RFC 9218.

use pinion_http::h3::request_stream::RequestStream;
use pinion_http::h3::session::SessionSettings;
use pinion_http::priority::Priority;

use super::raw_client::*;

fn with_field(value: &str) -> Vec<u8> {
    headers(&[&GET[..], &[("priority", value)]].concat())
}

fn said(stream: &RequestStream) -> (u8, bool) {
    let Priority { urgency, incremental } = stream.priority();
    (urgency, incremental)
}

/// RFC 9218 §4, §5.
#[test]
fn the_priority_field_of_a_request_is_used() {
    let mut peer = Peer::new();
    for (value, expected) in [("", (3, false)), ("u=1, i", (1, true)), ("u=9", (3, false))] {
        let mut stream = peer.begin();
        peer.send(&mut stream, &with_field(value), true);
        assert_eq!(said(&stream), expected, "{value}");
    }
    let mut stream = peer.begin();
    let lines = [("priority", "u=6"), ("priority", "i")];
    peer.send(&mut stream, &headers(&[&GET[..], &lines].concat()), true);
    assert_eq!(said(&stream), (6, true));
    // Responses to refused requests are sent in their order too.
    let mut stream = peer.begin();
    let refused = [("priority", "u=0"), ("content-length", "x")];
    peer.send(&mut stream, &headers(&[&GET[..], &refused].concat()), true);
    assert_eq!(said(&stream), (0, false));
}

/// RFC 9218 §7: a frame may come "before the stream that it references is open"; the last one
/// counts, and has precedence over the field.
#[test]
fn a_priority_update_before_its_stream_is_used() {
    let mut peer = Peer::new();
    let updates = [priority_update(4, "u=5"), priority_update(4, "u=6, i")].concat();
    let (_, seen) = peer.control(&[&settings(&[]), &updates]);
    assert!(seen.is_empty());
    for expected in [(1, false), (6, true), (1, false)] {
        let mut stream = peer.begin();
        peer.send(&mut stream, &with_field("u=1"), true);
        assert_eq!(said(&stream), expected);
    }
}

/// A frame between the beginning of a stream and its head, and one after the head.
#[test]
fn a_priority_update_for_an_open_stream_is_used() {
    let mut peer = Peer::new();
    let mut stream = peer.begin();
    let (_, seen) = peer.control(&[&settings(&[]), &priority_update(0, "u=5, i")]);
    assert_eq!(seen, ["priority 0 5 true"]);
    stream.set_priority(Priority { urgency: 5, incremental: true });
    peer.send(&mut stream, &with_field("u=1"), true);
    assert_eq!(said(&stream), (5, true));
    stream.set_priority(Priority::default());
    assert_eq!(said(&stream), (3, false));
}

/// RFC 9218 §7.2: "MUST be within the client-initiated bidirectional stream limit", and of no other
/// kind.
#[test]
fn priority_updates_for_impossible_streams_are_errors() {
    let ours = SessionSettings { streams: 3, ..SessionSettings::default() };
    for (stream, fatal) in [
        (1, true),
        (2, true),
        (3, true),
        (4, false),
        (12, false),
        (16, true),
        ((1 << 62) - 4, true),
    ] {
        let mut peer = Peer::with(&ours);
        peer.begin();
        let (_, seen) = peer.control(&[&settings(&[]), &priority_update(stream, "u=1")]);
        assert_eq!(seen, if fatal { vec!["fatal IdError"] } else { vec![] }, "{stream}");
    }
}

/// Priorities kept for future streams are counted, with the limit of the streams that may be
/// opened.
#[test]
fn kept_priorities_do_not_accumulate() {
    let mut peer = Peer::new();
    let (mut state, _) = peer.control(&[&settings(&[])]);
    let mut bytes = Vec::new();
    for round in 0..3 {
        let updates = (0..100).flat_map(|n| priority_update(4 * (100 * round + n), "u=1"));
        assert!(peer.uni(&mut state, &updates.collect::<Vec<u8>>(), false).is_empty());
        bytes.push(peer.session.memory_bytes());
        // This stream shows that the others have ended.
        peer.session.begin(4 * (100 * round + 99), peer.now_ms).unwrap();
    }
    assert!(bytes[0] > 100 * 8);
    assert_eq!(bytes, [bytes[0]; 3]);
}
