//! Input that a client could repeat without end is limited (RFC 9113 §10.5).

use super::raw_client::*;

/// Sends `bytes` until the connection ends, and returns the number of rounds and the event. The
/// argument of `bytes` grows by two in each round.
fn until_the_end(peer: &mut Peer, mut bytes: impl FnMut(u32) -> Vec<u8>) -> (usize, String) {
    for round in 0..5000 {
        let seen = peer.send(&bytes(2 * round as u32 + 1));
        if let Some(fatal) = seen.iter().find(|seen| seen.starts_with("fatal")) {
            assert!(peer.sent().last().unwrap().ends_with("ENHANCE_YOUR_CALM"));
            return (round, fatal.clone());
        }
    }
    panic!("no end");
}

fn flood(bytes: impl FnMut(u32) -> Vec<u8>) -> (usize, String) {
    let mut peer = Peer::open();
    peer.send(&post(10_001));
    until_the_end(&mut peer, bytes)
}

const RESETS: &str = "fatal EnhanceYourCalm Resets";
const REPLIES: &str = "fatal EnhanceYourCalm Replies";
const TRIFLES: &str = "fatal EnhanceYourCalm Trifles";
const WINDOWS: &str = "fatal EnhanceYourCalm Windows";
const HEADS: &str = "fatal EnhanceYourCalm Heads";
const BLOCK: &str = "fatal EnhanceYourCalm Block";

/// CVE-2023-44487.
#[test]
fn rapid_reset_ends_the_connection() {
    let mut peer = Peer::open();
    let all = until_the_end(&mut peer, |stream| [get(stream), reset(stream, 8)].concat());
    assert_eq!(all, (256, RESETS.to_owned()));
    // The client did not learn that the last stream has ended, so it must be among the open ones.
    let open: Vec<u32> = peer.session.each_own().map(|(stream, _)| stream).collect();
    assert_eq!((peer.session.open_streams(), open), (1, vec![2 * 256 + 1]));
}

/// CVE-2025-8671: the client makes this side end its streams, in every possible way.
#[test]
fn made_you_reset_ends_the_connection() {
    let ways: [fn(u32) -> Vec<u8>; 6] = [
        |stream| window_update(stream, 0),
        |stream| window_update(stream, (1 << 31) - 1),
        |stream| data(stream, 0, b"behind the end"),
        get,
        |stream| frame(PRIORITY, 0, stream, &[0; 4]),
        |stream| headers(stream, END_STREAM, &[(":path", "/")]),
    ];
    for way in ways {
        let all = until_the_end(&mut Peer::open(), |stream| [get(stream), way(stream)].concat());
        assert_eq!(all, (256, RESETS.to_owned()));
    }
    // Malformed requests, and more than may be open.
    let malformed = |stream| headers(stream, END_STREAM, &[(":method", "GET")]);
    assert_eq!(until_the_end(&mut Peer::open(), malformed), (256, RESETS.to_owned()));
    assert_eq!(until_the_end(&mut Peer::open(), get), (128 + 256, RESETS.to_owned()));
}

/// CVE-2019-9512, CVE-2019-9515. One was used up by the acknowledgement, and one by SETTINGS.
#[test]
fn pings_and_settings_are_limited() {
    assert_eq!(flood(|_| frame(PING, 0, 0, &[0; 8])), (126, REPLIES.to_owned()));
    assert_eq!(flood(|_| settings(&[])), (126, REPLIES.to_owned()));
    assert_eq!(flood(|_| frame(SETTINGS, ACK, 0, b"")), (126, REPLIES.to_owned()));
}

/// RFC 9113 §6.7: the client must acknowledge the server's own PINGs, so that does not count as its
/// own work. Other acknowledgements, and repeated ones, do.
#[test]
fn acknowledgements_of_our_own_pings_are_not_counted() {
    let streams: Vec<u32> = (0..128).map(|n| 2 * n + 1).collect();
    let all = |bytes: &dyn Fn(u32) -> Vec<u8>| -> Vec<u8> {
        streams.iter().flat_map(|stream| bytes(*stream)).collect()
    };
    let response =
        |stream: u32| frame(PING, ACK, 0, &[b"done", &stream.to_be_bytes()[..]].concat());
    // A client that has ended its request meanwhile got a PING nevertheless.
    for ends in [false, true] {
        let mut peer = Peer::open();
        assert_eq!(peer.send(&all(&post)).len(), 128);
        streams.iter().for_each(|stream| peer.response(*stream));
        if ends {
            peer.send(&all(&|stream| data(stream, END_STREAM, b"all")));
        }
        peer.sent();
        assert!(peer.send(&all(&response)).is_empty());
        assert!(peer.sent().is_empty());
        assert_eq!(peer.ask(&frame(PING, 0, 0, b"is there")), ["PING ack is there"]);
        assert_eq!(until_the_end(&mut peer, |_| response(1)), (127, REPLIES.to_owned()));
    }
}

/// One of the acknowledgements shows that the client has received GOAWAY.
#[test]
fn the_acknowledgement_of_goaway_is_not_counted() {
    let mut peer = Peer::open();
    peer.send(&post(1));
    // The whole budget, as in `pings_and_settings_are_limited`.
    peer.send(&frame(PING, 0, 0, &[0; 8]).repeat(126));
    peer.session.go_away(&mut peer.out);
    peer.sent();
    let response = frame(PING, ACK, 0, b"leaving.");
    assert_eq!(peer.ask(&response), ["GOAWAY 1 NO_ERROR"]);
    assert_eq!(until_the_end(&mut peer, |_| response.clone()), (0, REPLIES.to_owned()));
}

/// CVE-2019-9518, CVE-2019-9513, and other frames without effect.
#[test]
fn frames_without_effect_are_limited() {
    let flood = |bytes: Vec<u8>| {
        let mut peer = Peer::open();
        peer.send(&[post(1), get(3), reset(3, 8)].concat());
        until_the_end(&mut peer, |_| bytes.clone())
    };
    for bytes in [
        data(1, 0, b""),
        data(1, PADDED, &[9, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        frame(PRIORITY, 0, 5, &[0; 5]),
        frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1"),
        frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x63u=1"),
        frame(0x77, 0, 0, b""),
        frame(GOAWAY, 0, 0, &[0; 8]),
        reset(3, 8),
    ] {
        assert_eq!(flood(bytes), (1024, TRIFLES.to_owned()));
    }
    // A stream that this side has ended.
    for bytes in [data(1, 0, b""), headers(1, END_STREAM, &[])] {
        let mut peer = Peer::open();
        peer.send(&post(1));
        peer.response(1);
        assert_eq!(until_the_end(&mut peer, |_| bytes.clone()), (1024, TRIFLES.to_owned()));
    }
}

/// CVE-2024-27316: a field block without end, in long frames and in short ones.
#[test]
fn continuation_frames_are_limited() {
    let flood = |part: &[u8]| {
        let mut peer = Peer::open();
        peer.send(&frame(HEADERS, 0, 1, b""));
        until_the_end(&mut peer, |_| frame(CONTINUATION, 0, 1, part))
    };
    assert_eq!(flood(&[0; 16_384]), (3, BLOCK.to_owned()));
    assert_eq!(flood(&[0; 1024]), (48, BLOCK.to_owned()));
    assert_eq!(flood(&[0; 1]), (1024, TRIFLES.to_owned()));
    assert_eq!(flood(b""), (1024, TRIFLES.to_owned()));
}

/// CVE-2016-6581 and others: fields that are short on the wire and long when decoded. The request
/// is refused, the table stays valid, and the connection stays open: a few such heads get a
/// response.
#[test]
fn a_header_bomb_is_refused_and_keeps_the_table() {
    let mut peer = Peer::open();
    // 4000 bytes are added to the table; then each byte is a field of that length.
    let first = [b"\x40\x01x\x7f\xa1\x1e", &[b'y'; 4000][..]].concat();
    let bomb = [&block(&GET)[..], &first, &[0x80 | 62; 12_000]].concat();
    let seen = peer.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb));
    assert_eq!(seen, ["refused 1 431 end"]);
    peer.response(1);
    let again = [&block(&GET)[..], &[0x80 | 62]].concat();
    assert_eq!(peer.send(&frame(HEADERS, 5, 3, &again)), ["head 3 GET / end"]);
    assert_eq!(peer.section.fields().get(b"x").map(<[u8]>::len), Some(4000));
}

/// A client that repeats them without end is disconnected, although it reads each response. Heads
/// that are refused for other reasons count too, and good requests between them do not refill the
/// budget.
#[test]
fn refused_heads_are_limited() {
    let large = "y".repeat(9000);
    let large = block(&[&GET[..], &[("x", &large), ("z", &large)]].concat());
    let (front, rest) = large.split_at(16_000);
    let long = |stream| [frame(HEADERS, 1, stream, front), frame(CONTINUATION, 4, stream, rest)];
    let many = [&GET[..], &[("x", "y"); 101]].concat();
    let bad = [&GET[..2], &[(":path", "x"), GET[3]]].concat();
    let ways: [&dyn Fn(u32) -> Vec<u8>; 3] = [
        &|stream| long(stream).concat(),
        &|stream| headers(stream, END_STREAM, &many),
        &|stream| headers(stream, END_STREAM, &bad),
    ];
    for way in ways {
        let mut peer = Peer::open();
        let flood = |peer: &mut Peer| {
            for round in 0..1000 {
                let stream = 4 * round + 1;
                let seen = peer.send(&way(stream));
                if seen == [HEADS] {
                    assert!(peer.sent().last().unwrap().ends_with("ENHANCE_YOUR_CALM"));
                    return round;
                }
                assert!(seen[0].starts_with("refused"), "{seen:?}");
                peer.response(stream);
                assert_eq!(peer.send(&get(stream + 2)).len(), 1);
                peer.response(stream + 2);
            }
            panic!("no end");
        };
        assert_eq!(flood(&mut peer), 256);
        // A page of a hundred resources, each refused for its cookies, again every few seconds.
        let mut peer = Peer::open();
        for round in 0..1000 {
            let stream = 2 * round + 1;
            assert!(peer.send(&way(stream))[0].starts_with("refused"));
            peer.response(stream);
            if round % 100 == 99 {
                peer.now_ms += 7000;
            }
        }
    }
}

/// A response to a refused head refills no other budget either.
#[test]
fn refused_heads_earn_nothing() {
    let bad = [&GET[..2], &[(":path", "x"), GET[3]]].concat();
    let mut peer = Peer::open();
    let mut resets = 0;
    let fatal = loop {
        let stream = 4 * resets + 1;
        if resets % 2 == 0 {
            assert_eq!(peer.send(&headers(stream, END_STREAM, &bad)), [refused(stream, 400)]);
            peer.response(stream);
        }
        let seen = peer.send(&[get(stream + 2), reset(stream + 2, 8)].concat());
        if let Some(fatal) = seen.iter().find(|seen| seen.starts_with("fatal")) {
            break fatal.clone();
        }
        resets += 1;
    };
    assert_eq!((resets, fatal), (256, RESETS.to_owned()));
}

fn refused(stream: u32, status: u16) -> String {
    format!("refused {stream} {status} end")
}

/// CVE-2019-9511, the data dribble: windows that are opened byte by byte, so that content is sent
/// in frames of a byte.
#[test]
fn windows_opened_byte_by_byte_are_limited() {
    let mut peer = Peer::open();
    peer.send(&[settings(&[(4, 0)]), get(1)].concat());
    peer.begin(1);
    let mut rounds = 0;
    let fatal = loop {
        let seen = peer.send(&window_update(1, 1));
        if seen != ["opened"] {
            break seen;
        }
        assert_eq!(peer.content(1), 1);
        rounds += 1;
    };
    assert_eq!((rounds, fatal), (1024, vec![WINDOWS.to_owned()]));
    // A client that opens windows without requesting content gets no larger budget, nor does one
    // that opens the windows of closed streams.
    let mut peer = Peer::open();
    peer.send(&[get(1), reset(1, 8)].concat());
    assert_eq!(until_the_end(&mut peer, |_| window_update(1, 1)), (1024, WINDOWS.to_owned()));
    assert_eq!(flood(|_| window_update(0, 1)), (1024, WINDOWS.to_owned()));
}

/// Honest clients are not limited: responses, content and time refill the budgets.
#[test]
fn work_and_time_fill_the_budgets() {
    let mut peer = Peer::open();
    for round in 0..3000 {
        let stream = 2 * round + 1;
        let seen = peer.send(
            &[
                // A request, and all other frames that a client may send with it.
                get(stream),
                frame(PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes()[..], b"u=1"].concat()),
                window_update(stream, 1000),
                window_update(0, 1000),
                frame(PING, 0, 0, &[0; 8]),
            ]
            .concat(),
        );
        assert_eq!(seen, [format!("head {stream} GET / end")]);
        peer.begin(stream);
        assert!(peer.session.data(stream, 1000, true, &mut peer.out));
        peer.session.close(stream, &mut peer.out);
        peer.out.clear();
    }
    // A download: two WINDOW_UPDATE and a PING for each frame.
    peer.send(&get(9001));
    peer.begin(9001);
    for _ in 0..3000 {
        assert!(peer.content(9001) > 1000);
        let more = [window_update(0, 16_384), window_update(9001, 16_384)];
        let seen = peer.send(&[more.concat(), frame(PING, 0, 0, &[0; 8])].concat());
        assert!(seen.iter().all(|seen| seen == "opened"), "{seen:?}");
    }
    // A client that opens its windows with each 4 KiB it reads.
    for _ in 0..3000 {
        assert!(peer.content(9001) > 1000);
        let more = [window_update(0, 4096), window_update(9001, 4096)].concat();
        assert!(peer.send(&more.repeat(4)).iter().all(|seen| seen == "opened"));
    }
    // A connection that is only kept open.
    for _ in 0..3000 {
        peer.now_ms += 100;
        assert!(peer.send(&frame(PING, 0, 0, &[0; 8])).is_empty());
    }
    // Events of a few bytes, for each of which the client opens two windows.
    for _ in 0..3000 {
        assert!(peer.session.data(9001, 20, false, &mut peer.out));
        peer.out.clear();
        assert!(peer.send(&[window_update(0, 20), window_update(9001, 20)].concat()).is_empty());
    }
    // A page is left with all its streams, then the next one, and so on, one each second.
    for round in 0..50 {
        let streams = (0..8).map(|n| 9003 + round * 16 + 2 * n);
        let all: Vec<u8> = streams.flat_map(|s| [get(s), reset(s, 8)].concat()).collect();
        assert!(peer.send(&all).iter().all(|seen| !seen.starts_with("fatal")));
        peer.now_ms += 1000;
    }
}
