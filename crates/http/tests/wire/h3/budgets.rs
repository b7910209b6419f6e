//! Input that a client could repeat without end is limited (RFC 9114 §10.5).

use pinion_http::h3::limits::{BLOCK_MAX_BYTES, SKIP_UNIT_BYTES};
use pinion_http::h3::unidirectional_streams::UniState;

use super::raw_client::*;

const RESETS: &str = "fatal ExcessiveLoad Resets";
const HEADS: &str = "fatal ExcessiveLoad Heads";
const TRIFLES: &str = "fatal ExcessiveLoad Trifles";

/// Repeats a round until the connection ends, and returns the number of rounds and the reason.
fn until_the_end(mut round: impl FnMut() -> Vec<String>) -> (usize, String) {
    for count in 0..5000 {
        if let Some(fatal) = round().into_iter().find(|seen| seen.starts_with("fatal")) {
            return (count, fatal);
        }
    }
    panic!("no end");
}

/// Streams are reset by the client (CVE-2023-44487), or because of its errors (CVE-2025-8671).
#[test]
fn resets_are_limited() {
    let mut peer = Peer::new();
    let all = until_the_end(|| {
        peer.request(&[&get()]);
        let error = peer.session.reset_by_peer(peer.now_ms).err();
        error.map(|fatal| failure(&fatal.into())).into_iter().collect()
    });
    assert_eq!(all, (256, RESETS.to_owned()));
    for frames in [vec![], headers(&[]), [post("3"), data(b"abcd")].concat()] {
        let mut peer = Peer::new();
        assert_eq!(until_the_end(|| peer.request(&[&frames])), (256, RESETS.to_owned()));
    }
}

/// Heads over the limits, or otherwise refused, whose responses are read. Good requests between
/// them do not refill the budget.
#[test]
fn refused_heads_are_limited() {
    let many = headers(&[&GET[..], &[("x", "y"); 101]].concat());
    let long = "x".repeat(3 * BLOCK_MAX_BYTES);
    let longer = headers(&[&GET[..], &[("x", &long)]].concat());
    let bad = headers(&[&GET[..2], &[(":path", "x"), GET[3]]].concat());
    for head in [many, longer, bad] {
        let mut peer = Peer::new();
        let mut ask = |bytes: &[u8]| {
            let mut stream = peer.begin();
            let seen = peer.send(&mut stream, bytes, true);
            peer.session.answered(&stream);
            seen
        };
        let all = until_the_end(|| {
            assert_eq!(ask(&get()), ["head GET / end"]);
            ask(&head)
        });
        assert_eq!(all, (256, HEADS.to_owned()));
        // The budget is refilled by time.
        peer.now_ms += 1000;
        assert!(!peer.request(&[&head])[0].starts_with("fatal"));
    }
}

/// Frames without effect, on a request stream.
#[test]
fn frames_without_effect_on_a_request_stream_are_limited() {
    for bytes in [frame(UNKNOWN, b""), frame(UNKNOWN, b"x"), data(b"")] {
        let mut peer = Peer::new();
        let mut stream = peer.begin();
        peer.send(&mut stream, &headers(&POST), false);
        let all = until_the_end(|| peer.send(&mut stream, &bytes, false));
        assert_eq!(all, (1024, TRIFLES.to_owned()));
    }
}

/// Frames without effect on the control stream. SETTINGS uses up one of the budget.
#[test]
fn frames_without_effect_on_the_control_stream_are_limited() {
    for bytes in [
        frame(UNKNOWN, b""),
        frame(GOAWAY, b"\0"),
        frame(MAX_PUSH_ID, b"\0"),
        priority_update(0, "u=1"),
        priority_update(4, "u=1"),
    ] {
        let mut peer = Peer::new();
        peer.begin();
        let (mut state, _) = peer.control(&[&settings(&[])]);
        let all = until_the_end(|| peer.uni(&mut state, &bytes, false));
        assert_eq!(all, (1023, TRIFLES.to_owned()));
    }
    let mut peer = Peer::new();
    let all = until_the_end(|| peer.uni(&mut UniState::default(), &number(UNKNOWN), false));
    assert_eq!(all, (1024, TRIFLES.to_owned()));
}

/// Frames of unlimited length that are skipped, on any stream and in pieces of any size.
#[test]
fn skipped_bytes_are_limited() {
    let unit = vec![0; SKIP_UNIT_BYTES as usize];
    let endless = front(UNKNOWN, (1 << 62) - 1);
    let mut peer = Peer::new();
    let mut stream = peer.begin();
    peer.send(&mut stream, &endless, false);
    let all = until_the_end(|| peer.send(&mut stream, &unit, false));
    assert_eq!(all, (1023, TRIFLES.to_owned()));
    let mut peer = Peer::new();
    let (mut state, _) = peer.control(&[&settings(&[]), &endless]);
    let all = until_the_end(|| peer.uni(&mut state, &unit[..unit.len() / 4], false));
    assert_eq!(all.1, TRIFLES);
    assert!((4 * 1021..4 * 1023).contains(&all.0), "{all:?}");
}

/// Streams that end, or are reset, before their type is known.
#[test]
fn streams_that_end_before_their_type_are_limited() {
    let mut peer = Peer::new();
    let all = until_the_end(|| peer.uni(&mut UniState::default(), b"", true));
    assert_eq!(all, (1024, TRIFLES.to_owned()));
    let mut peer = Peer::new();
    let all = until_the_end(|| {
        let reset = peer.session.uni_reset(&UniState::default(), peer.now_ms);
        reset.err().map(|fatal| failure(&fatal.into())).into_iter().collect()
    });
    assert_eq!(all, (1024, TRIFLES.to_owned()));
}

/// Streams that are opened after GOAWAY.
#[test]
fn streams_after_goaway_are_limited() {
    let mut peer = Peer::new();
    peer.session.go_away(&mut Vec::new());
    peer.session.go_away(&mut Vec::new());
    let mut next = 0;
    let all = until_the_end(|| {
        next += 4;
        vec![failure(&peer.session.begin(next, peer.now_ms).map(|_| ()).unwrap_err())]
    });
    assert_eq!(all, (1024, TRIFLES.to_owned()));
}

/// Honest clients are not limited: responses and time refill the budgets.
#[test]
fn work_and_time_fill_the_budgets() {
    let mut peer = Peer::new();
    let (mut state, _) = peer.control(&[&settings(&[])]);
    for round in 0..3000 {
        let update = [priority_update(4 * round, "u=1"), frame(UNKNOWN, b"grease")].concat();
        assert!(peer.uni(&mut state, &update, false).is_empty());
        let grease = frame(UNKNOWN, b"grease");
        let mut stream = peer.begin();
        let seen = peer.send(&mut stream, &[get(), grease].concat(), true);
        assert_eq!(seen, ["head GET /", "end"]);
        peer.session.answered(&stream);
    }
    for _ in 0..1000 {
        for _ in 0..8 {
            peer.request(&[&get()]);
            peer.session.reset_by_peer(peer.now_ms).unwrap();
        }
        peer.now_ms += 1000;
    }
}
