//! Extensible priorities (RFC 9218) on a connection.

use pinion_http::priority::Priority;

use super::raw_client::*;

fn with_priority(stream: u32, values: &[&str]) -> Vec<u8> {
    let fields: Vec<_> =
        GET.into_iter().chain(values.iter().map(|value| ("priority", *value))).collect();
    headers(stream, END_STREAM, &fields)
}

fn update(stream: u32, value: &str) -> Vec<u8> {
    frame(PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes()[..], value.as_bytes()].concat())
}

/// Returns the streams of the next frames of content, with a byte in each.
fn turns(peer: &mut Peer, count: usize) -> Vec<u32> {
    let mut turns = Vec::new();
    for _ in 0..count {
        let Some(stream) = peer.session.next_ready() else { break };
        assert!(peer.session.data(stream, 1, false, &mut peer.out));
        turns.push(stream);
    }
    peer.out.clear();
    turns
}

fn open(requests: &[Vec<u8>]) -> Peer {
    let mut peer = Peer::open();
    for seen in peer.send(&requests.concat()) {
        let stream = seen.split(' ').nth(1).unwrap().parse().unwrap();
        peer.begin(stream);
    }
    peer
}

/// RFC 9218 §4, §5, §10.
#[test]
fn the_priority_field_of_a_request_is_used() {
    let mut peer = open(&[
        with_priority(1, &["u=5"]),
        with_priority(3, &["i"]),
        with_priority(5, &["u=1"]),
        with_priority(7, &["u=5, i", "u=3"]),
        with_priority(9, &[]),
        with_priority(11, &["u=1"]),
    ]);
    assert_eq!(turns(&mut peer, 2), [5, 5]);
    peer.session.set_ready(5, false);
    assert_eq!(turns(&mut peer, 1), [11]);
    peer.session.reset(11, pinion_http::h2::frame::ErrorCode::Cancel, &mut peer.out);
    // Streams 3 and 7 take turns, and so does 9, which is not incremental.
    assert_eq!(turns(&mut peer, 6), [3, 7, 9, 3, 7, 9]);
    for stream in [3, 7, 9] {
        peer.session.set_ready(stream, false);
    }
    assert_eq!(turns(&mut peer, 1), [1]);
    peer.session.set_ready(1, false);
    assert_eq!(turns(&mut peer, 1), [0; 0]);
    peer.session.set_ready(1, true);
    peer.session.set_ready(1, true);
    assert_eq!(turns(&mut peer, 1), [1]);
}

/// Non-incremental responses are sent one after the other (RFC 9218 §10), and one with a closed
/// window delays no other.
#[test]
fn non_incremental_responses_are_sent_one_after_the_other() {
    let mut peer = open(&[get(1), get(3), get(5)]);
    assert_eq!(turns(&mut peer, 3), [1, 1, 1]);
    peer.send(&settings(&[(4, 3)]));
    assert_eq!(turns(&mut peer, 9), [3, 3, 3, 5, 5, 5]);
    assert!(peer.session.is_held_up());
    peer.send(&window_update(3, 1));
    assert!(!peer.session.is_held_up());
    assert_eq!(turns(&mut peer, 9), [3]);
}

/// RFC 9218 §7.1: PRIORITY_UPDATE for streams that are open, not yet open, or closed.
#[test]
fn priority_updates_change_the_order() {
    let mut peer = open(&[get(1), get(3)]);
    assert!(peer.send(&[update(3, "u=0"), update(9, "u=7"), update(5, "u=0")].concat()).is_empty());
    assert_eq!(turns(&mut peer, 1), [3]);
    peer.send(&update(3, "u=7"));
    assert_eq!(turns(&mut peer, 1), [1]);
    // An earlier update has precedence over the field, and the last update counts.
    peer.send(&[update(5, "u=2"), with_priority(5, &["u=6"])].concat());
    peer.begin(5);
    assert_eq!(turns(&mut peer, 1), [5]);
    // Stream 7 is skipped, and 9 has waited.
    peer.send(&[update(7, "u=0"), get(9)].concat());
    peer.begin(9);
    peer.send(&reset(5, 8));
    assert_eq!(turns(&mut peer, 1), [1]);
    peer.respond_to_all(&[1, 3]);
    assert_eq!(turns(&mut peer, 1), [9]);
    assert!(peer.send(&[update(1, "u=0"), update(7, "u=0")].concat()).is_empty());
    // An application may set another priority.
    peer.session.set_priority(9, Priority { urgency: 1, incremental: true });
}

/// RFC 9218 §7.1: "Servers that receive a PRIORITY_UPDATE for a push stream [...] in the 'idle'
/// state [...] PROTOCOL_ERROR"; stream 0; a stream other than 0 in the header; and more streams
/// than may be open.
#[test]
fn invalid_priority_updates_are_connection_errors() {
    let broken = ["fatal ProtocolError"];
    assert_eq!(Peer::open().send(&update(0, "u=1")), broken);
    assert_eq!(Peer::open().send(&update(2, "u=1")), broken);
    let on_a_stream = frame(PRIORITY_UPDATE, 0, 1, b"\0\0\0\x01u=1");
    assert_eq!(open(&[get(1)]).send(&on_a_stream), broken);
    let mut peer = open(&[get(1)]);
    for stream in 0..127 {
        assert!(peer.send(&update(2 * stream + 3, "u=1")).is_empty());
    }
    assert!(peer.send(&update(3, "u=2")).is_empty());
    assert_eq!(peer.send(&update(1001, "u=1")), broken);
}
