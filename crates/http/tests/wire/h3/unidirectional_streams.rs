//! Unidirectional streams (RFC 9114 §6.2, §7.2; RFC 9204 §4.2).

use pinion_http::h3::limits::CONTROL_FRAME_MAX_BYTES;
use pinion_http::h3::session::SessionSettings;
use pinion_http::h3::unidirectional_streams::UniState;

use super::raw_client::*;

const UNEXPECTED: &str = "fatal FrameUnexpected";
const CLOSED: &str = "fatal ClosedCriticalStream";
const CREATION: &str = "fatal StreamCreationError";
const ID: &str = "fatal IdError";
const FRAME: &str = "fatal FrameError";

/// Returns the events of the machine for a control stream with frames after empty SETTINGS.
fn behind_settings(frames: &[&[u8]]) -> Vec<String> {
    Peer::new().control(&[&settings(&[]), &frames.concat()]).1
}

#[test]
fn the_control_stream_begins_with_the_settings() {
    let mut out = Vec::new();
    Peer::new().session.open(&mut out);
    // The type of the stream; SETTINGS with MAX_FIELD_SECTION_SIZE 16384 and a reserved one.
    assert_eq!(out, b"\x00\x04\x08\x06\x80\x00\x40\x00\x40\x40\x00");
    // RFC 9220 §3: SETTINGS_ENABLE_CONNECT_PROTOCOL.
    out.clear();
    let settings = SessionSettings { extended_connect: true, ..SessionSettings::default() };
    Peer::with(&settings).session.open(&mut out);
    assert_eq!(out, b"\x00\x04\x0a\x06\x80\x00\x40\x00\x08\x01\x40\x40\x00");
}

/// RFC 9114 §6.2.1: SETTINGS "MUST be sent as the first frame of each control stream".
#[test]
fn the_peer_must_send_settings_first() {
    let good = settings(&[(1, 4096), (7, 100), (6, 1 << 40), (UNKNOWN, 0), (8, 1)]);
    assert!(Peer::new().control(&[&good]).1.is_empty());
    for kind in [DATA, GOAWAY, MAX_PUSH_ID, PRIORITY_UPDATE, 0x2, UNKNOWN] {
        let seen = Peer::new().control(&[&frame(kind, b"\0"), &settings(&[])]).1;
        assert_eq!(seen, ["fatal MissingSettings"], "{kind:#x}");
    }
    // RFC 9114 §7.2.4: "MUST NOT be sent subsequently".
    assert_eq!(behind_settings(&[&settings(&[])]), [UNEXPECTED]);
}

/// RFC 9114 §7.2.4.1, §11.2.2: settings of HTTP/2, and any that came twice, are refused.
#[test]
fn forbidden_settings_are_errors() {
    for name in [0, 2, 3, 4, 5] {
        assert_eq!(Peer::new().control(&[&settings(&[(name, 0)])]).1, ["fatal SettingsError"]);
    }
    for name in [1, 6, 7, 8, 0x33] {
        let twice = settings(&[(name, 0), (UNKNOWN, 0), (name, 0)]);
        assert_eq!(Peer::new().control(&[&twice]).1, ["fatal SettingsError"]);
    }
    // RFC 9114 §7.1: a payload that ends within a field.
    for cut in [1, 2, 3] {
        let payload = &[number(0x40), number(0x40)].concat()[..cut];
        assert_eq!(Peer::new().control(&[&frame(SETTINGS, payload)]).1, [FRAME], "{cut}");
    }
}

/// RFC 9114 §7.2.1, §7.2.2, §7.2.5, §7.2.8.
#[test]
fn frames_that_the_control_stream_forbids_are_errors() {
    for kind in [DATA, HEADERS, PUSH_PROMISE, 0x2, 0x6, 0x8, 0x9] {
        assert_eq!(behind_settings(&[&frame(kind, b"")]), [UNEXPECTED], "{kind:#x}");
        assert_eq!(behind_settings(&[&front(kind, 1 << 40)]), [UNEXPECTED], "{kind:#x}");
    }
}

/// RFC 9114 §9: unknown frames of any length are ignored.
#[test]
fn unknown_frames() {
    let long = frame(UNKNOWN, &[7; 5000]);
    let seen = behind_settings(&[&long, &frame(UNKNOWN, b""), &frame(CANCEL_PUSH, b"\0")]);
    assert_eq!(seen, [ID], "what is behind them is read");
    let mut peer = Peer::new();
    let endless = front(UNKNOWN, (1 << 62) - 1);
    let (mut state, _) = peer.control(&[&settings(&[]), &endless]);
    assert!(peer.uni(&mut state, &[7; 100_000], false).is_empty());
    assert!(peer.session.memory_bytes() < 100);
}

/// RFC 9114 §5.2, §7.2.6.
#[test]
fn go_away() {
    let go_away = |id| frame(GOAWAY, &number(id));
    assert!(behind_settings(&[&go_away(70), &go_away(70), &go_away(3)]).is_empty());
    assert_eq!(behind_settings(&[&go_away(3), &go_away(4)]), [ID]);
}

/// RFC 9114 §7.2.3, §7.2.7: there are no pushes to cancel, and the highest push number never
/// decreases.
#[test]
fn pushes() {
    let most = |id| frame(MAX_PUSH_ID, &number(id));
    assert!(behind_settings(&[&most(3), &most(3), &most(100)]).is_empty());
    assert_eq!(behind_settings(&[&most(3), &most(2)]), [ID]);
    assert_eq!(behind_settings(&[&most(3), &frame(CANCEL_PUSH, b"\x01")]), [ID]);
    assert_eq!(behind_settings(&[&most(3), &frame(PUSH_PRIORITY_UPDATE, b"\x01u=1")]), [ID]);
}

/// RFC 9114 §7.1: "additional bytes after the identified fields", or an end before theirs.
#[test]
fn payloads_of_a_wrong_length_are_errors() {
    for kind in [GOAWAY, MAX_PUSH_ID, CANCEL_PUSH] {
        for payload in [&b""[..], b"\x40", b"\0\0", b"\xc0\0\0\0\0\0\0"] {
            assert_eq!(behind_settings(&[&frame(kind, payload)]), [FRAME], "{payload:?}");
        }
    }
    for kind in [PRIORITY_UPDATE, PUSH_PRIORITY_UPDATE] {
        for payload in [&b""[..], b"\x40", b"\x80\0\0"] {
            assert_eq!(behind_settings(&[&frame(kind, payload)]), [FRAME], "{payload:?}");
        }
    }
}

/// A frame that must be put together has a limit.
#[test]
fn long_frames() {
    // Settings of three bytes, and one of four.
    let mut most = vec![(UNKNOWN, 0); CONTROL_FRAME_MAX_BYTES / 3 - 1];
    most.push((UNKNOWN, 0x40));
    let most = settings(&most);
    assert_eq!(most.len(), CONTROL_FRAME_MAX_BYTES + 3);
    assert!(Peer::new().control(&[&most]).1.is_empty());
    let more = front(SETTINGS, CONTROL_FRAME_MAX_BYTES as u64 + 1);
    assert_eq!(Peer::new().control(&[&more]).1, ["fatal ExcessiveLoad Block"]);
}

/// RFC 9114 §6.2.1, RFC 9204 §4.2: critical streams must not end.
#[test]
fn closed_critical_streams_are_errors() {
    for kind in [0, 2, 3] {
        let mut peer = Peer::new();
        let mut state = UniState::default();
        assert!(peer.uni(&mut state, &[kind], false).is_empty());
        assert!(peer.session.uni_reset(&state, 0).is_err());
        assert_eq!(peer.uni(&mut state, b"", true), [CLOSED]);
        assert_eq!(peer.uni(&mut UniState::default(), &[kind], true), [CREATION]);
        let whole = Peer::new().uni(&mut UniState::default(), &[kind], true);
        assert_eq!(whole, [CLOSED]);
    }
    let mut peer = Peer::new();
    let (mut state, _) = peer.control(&[&settings(&[])]);
    assert_eq!(peer.uni(&mut state, &frame(GOAWAY, b"\0"), true), [CLOSED]);
}

/// RFC 9114 §6.2.1, RFC 9204 §4.2: there is one of each; §6.2.2: "a client cannot push".
#[test]
fn forbidden_streams_are_errors() {
    for kind in [0, 2, 3] {
        let mut peer = Peer::new();
        assert!(peer.uni(&mut UniState::default(), &[kind], false).is_empty());
        assert_eq!(peer.uni(&mut UniState::default(), &[kind], false), [CREATION]);
    }
    assert_eq!(Peer::new().uni(&mut UniState::default(), &[1, 0], false), [CREATION]);
}

/// RFC 9114 §6.2, §6.2.3: "MUST NOT consider unknown stream types to be a connection error".
#[test]
fn unknown_streams() {
    let mut peer = Peer::new();
    for kind in [4, 0x21, UNKNOWN, (1 << 62) - 1] {
        let mut state = UniState::default();
        let bytes = [&number(kind)[..], &[0xff; 100]].concat();
        assert_eq!(peer.uni(&mut state, &bytes, false), ["stop"]);
        assert!(peer.session.uni_reset(&state, 0).is_ok());
        assert_eq!(peer.uni(&mut state, b"more", true), ["end"]);
    }
    // A stream that ends before its type has come.
    let mut state = UniState::default();
    assert!(peer.uni(&mut state, b"\x40", false).is_empty());
    assert!(peer.session.uni_reset(&state, 0).is_ok());
    assert_eq!(peer.uni(&mut state, b"", true), ["end"]);
}

/// RFC 9204 §4.3, §4.4: there is no table on either side.
#[test]
fn streams_of_qpack() {
    let mut peer = Peer::new();
    let (mut encoder, mut decoder) = (UniState::default(), UniState::default());
    assert!(peer.uni(&mut encoder, b"\x02\x20\x20", false).is_empty());
    assert_eq!(peer.uni(&mut encoder, b"\x3f\x01", false), ["fatal QpackEncoderStreamError"]);
    // Stream cancellations are fine, cut within a number too.
    assert!(peer.uni(&mut decoder, b"\x03\x40\x7f", false).is_empty());
    assert!(peer.uni(&mut decoder, b"\x80\x01\x41", false).is_empty());
    assert_eq!(peer.uni(&mut decoder, b"\x80", false), ["fatal QpackDecoderStreamError"]);
}

/// Types and frames may come in any pieces.
#[test]
fn frames_are_parsed_in_any_pieces() {
    let update = priority_update(0, "u=5");
    let pushed = frame(CANCEL_PUSH, b"\0");
    let unknown = frame(UNKNOWN, b"abc");
    let frames = [&settings(&[(6, 9)])[..], &update, &unknown, &pushed].concat();
    let bytes = [&b"\x40\x00"[..], &frames].concat();
    for cut in 0..bytes.len() {
        let mut peer = Peer::new();
        peer.begin();
        let mut state = UniState::default();
        let mut seen = peer.uni(&mut state, &bytes[..cut], false);
        seen.extend(peer.uni(&mut state, &bytes[cut..], false));
        assert_eq!(seen, ["priority 0 5 false", ID], "{cut}");
    }
}
