//! The states of streams (RFC 9113 §5.1), and the end of streams and connections.

use pinion_http::h2::frame::ErrorCode;
use pinion_http::h2::session::SessionSettings;

use super::raw_client::*;

/// RFC 9113 §5.1, half-closed (remote): "If an endpoint receives additional frames, other than
/// WINDOW_UPDATE, PRIORITY, or RST_STREAM, [...] it MUST respond with a stream error (Section
/// 5.4.2) of type STREAM_CLOSED."
#[test]
fn frames_after_the_end_of_a_request_are_stream_errors() {
    for wrong in [data(1, 0, b"x"), data(1, END_STREAM, b""), get(1), headers(1, 0, &[])] {
        let mut peer = Peer::open();
        peer.send(&[get(1), get(3)].concat());
        assert_eq!(peer.send(&wrong), ["reset 1 StreamClosed by us"]);
        assert_eq!(peer.sent(), ["RST_STREAM 1 STREAM_CLOSED"]);
        peer.response(3);
        // The frames after it are still processed.
        let mut peer = Peer::open();
        peer.send(&get(1));
        let both = [wrong, reset(3, 8)].concat();
        assert_eq!(peer.send(&both), ["reset 1 StreamClosed by us", "fatal ProtocolError"]);
    }
    let mut peer = Peer::open();
    peer.send(&get(1));
    let fine = [window_update(1, 1), frame(PRIORITY, 0, 1, &[0; 5]), reset(1, 8)].concat();
    assert_eq!(peer.send(&fine), ["reset 1 Cancel by peer"]);
}

/// RFC 9113 §5.1, closed: a connection error if the client must know that the stream is closed;
/// frames that may have been on their way are ignored.
#[test]
fn frames_of_a_stream_that_both_sides_have_ended() {
    for wrong in [data(1, 0, b"x"), get(1), headers(1, END_STREAM, &[])] {
        let mut peer = Peer::open();
        peer.send(&get(1));
        peer.response(1);
        assert_eq!(peer.sent(), ["HEADERS 1 end"]);
        let late = [window_update(1, 1), frame(PRIORITY, 0, 1, &[0; 5]), reset(1, 8)].concat();
        assert!(peer.send(&late).is_empty());
        assert_eq!(peer.send(&wrong), ["fatal StreamClosed"]);
    }
    let mut peer = Peer::open();
    peer.send(&[post(1), reset(1, 8)].concat());
    assert_eq!(peer.send(&data(1, 0, b"x")), ["fatal StreamClosed"]);
}

/// RFC 9113 §5.1, closed: "An endpoint that sends a RST_STREAM frame on a stream that is in the
/// 'open' or 'half-closed (local)' state could receive any type of frame." HEADERS change the table
/// of the compression and DATA the window of the connection nevertheless (§5.4.2).
#[test]
fn frames_of_a_stream_that_we_have_ended() {
    let mut peer = Peer::open_with(&SessionSettings {
        connection_window_bytes: 0,
        ..SessionSettings::default()
    });
    peer.send(&post(1));
    peer.session.reset(1, ErrorCode::Cancel, &mut peer.out);
    assert_eq!(peer.sent(), ["RST_STREAM 1 CANCEL"]);
    // The field adds an entry to the table: 0x40 is a literal with a new name and incremental
    // indexing.
    let trailers = frame(HEADERS, END_STREAM | END_HEADERS, 1, b"\x40\x01x\x01y");
    for _ in 0..2 {
        assert!(peer.send(&data(1, 0, &[0; 8000])).is_empty());
    }
    assert!(
        peer.send(&[window_update(1, 1), trailers, data(1, 0, &[0; 9000])].concat()).is_empty()
    );
    let returned: u32 = frames(&peer.out).iter().map(|frame| frame.number(0)).sum();
    assert!(returned >= 16_000, "{returned}");
    let indexed = [&block(&GET)[..], &[0x80 | 62]].concat();
    assert_eq!(peer.send(&frame(HEADERS, 5, 3, &indexed)), ["head 3 GET / end"]);
    assert_eq!(peer.section.fields().get(b"x"), Some(&b"y"[..]));
}

/// Such a stream may still get as many bytes as are read and dropped of an upload: no client can
/// upload without end where the content is not read, and none is disconnected for small frames that
/// were on their way.
#[test]
fn content_for_a_stream_that_we_have_ended_is_bounded() {
    const MOST: usize = 1 << 20;
    let mut peer = Peer::open();
    peer.send(&post(1));
    peer.response(1);
    for _ in 0..1000 {
        assert!(peer.send(&data(1, 0, b"x")).is_empty());
    }
    let mut left = MOST - 1000;
    while left > 0 {
        let bytes = left.min(16_384);
        assert!(peer.send(&data(1, 0, &vec![0; bytes])).is_empty());
        left -= bytes;
    }
    assert_eq!(peer.send(&data(1, 0, b"x")), ["fatal StreamClosed"]);
    // A refused stream has its initial window.
    let mut peer = Peer::open_with(&SessionSettings { streams: 0, ..SessionSettings::default() });
    peer.send(&post(1));
    for _ in 0..3 {
        assert!(peer.send(&data(1, 0, &[0; 16_384])).is_empty());
    }
    assert!(peer.send(&data(1, 0, &[0; 16_383])).is_empty());
    assert_eq!(peer.send(&data(1, 0, b"x")), ["fatal StreamClosed"]);
}

/// RFC 9113 §5.1.1: "The identifier of a newly established stream MUST be numerically greater than
/// all streams that the initiating endpoint has opened or reserved. [...] An endpoint that receives
/// an unexpected stream identifier MUST respond with a connection error (Section 5.4.1) of type
/// PROTOCOL_ERROR."
#[test]
fn stream_numbers_must_increase() {
    let mut peer = Peer::open();
    assert_eq!(peer.send(&get(5)), ["head 5 GET / end"]);
    assert_eq!(peer.send(&get(3)), ["fatal ProtocolError"]);
    let mut peer = Peer::open();
    let last = (1 << 31) - 1;
    assert_eq!(peer.send(&get(last)), [format!("head {last} GET / end")]);
}

/// RFC 9113 §5.1.2: "An endpoint that receives a HEADERS frame that causes its advertised
/// concurrent stream limit to be exceeded MUST treat this as a stream error (Section 5.4.2) of type
/// PROTOCOL_ERROR or REFUSED_STREAM."
#[test]
fn too_many_streams() {
    let mut peer = Peer::open_with(&SessionSettings { streams: 3, ..SessionSettings::default() });
    assert_eq!(peer.send(&[get(1), post(3), get(5)].concat()).len(), 3);
    // The fields of a refused stream are added to the table too, and its content is skipped.
    let block = [&block(&POST)[..], b"\x40\x01x\x01y"].concat();
    assert!(peer.send(&frame(HEADERS, END_HEADERS, 7, &block)).is_empty());
    assert!(peer.send(&data(7, END_STREAM, b"content")).is_empty());
    assert_eq!(peer.sent(), ["RST_STREAM 7 REFUSED_STREAM"]);
    peer.response(3);
    let opened = format!("WINDOW_UPDATE 3 {}", (1 << 20) - 65_535);
    assert_eq!(peer.sent(), ["HEADERS 3 end", &opened, r"PING done\x00\x00\x00\x03"]);
    assert_eq!(peer.send(&frame(HEADERS, 5, 9, &block[..])), ["head 9 POST / end"]);
    assert_eq!(peer.session.open_streams(), 3);
}

/// A response may be complete before the request is. Some clients read nothing before they have
/// sent all, so the window is opened for content that is read and dropped. A client with more is
/// asked to stop "by sending a RST_STREAM with an error code of NO_ERROR" (RFC 9113 §8.1) after
/// that content has arrived and its acknowledgement of the PING has shown that it has read the
/// response.
#[test]
fn a_response_may_end_before_its_request() {
    const ANSWERED: &[u8; 8] = b"done\0\0\0\x01";
    let mut peer = Peer::open();
    peer.consumes = false;
    let read = frame(PING, ACK, 0, ANSWERED);
    peer.send(&[post(1), data(1, 0, b"some")].concat());
    peer.sent();
    assert!(peer.ask(&read).is_empty(), "no response is complete");
    peer.response(1);
    let opened = format!("WINDOW_UPDATE 1 {}", (1 << 20) - 65_535 + 4);
    assert_eq!(peer.sent(), ["HEADERS 1 end", &opened, r"PING done\x00\x00\x00\x01"]);
    assert_eq!(peer.session.open_streams(), 0);
    assert!(peer.ask(&read).is_empty(), "it may still send");
    for _ in 0..63 {
        assert!(peer.ask(&data(1, 0, &[0; 16_384])).is_empty());
    }
    assert_eq!(peer.ask(&data(1, 0, &[0; 16_384])), ["RST_STREAM 1 NO_ERROR"]);
    // Closing a response that is not complete is an error.
    peer.send(&get(3));
    assert!(peer.session.close(3, &mut peer.out).is_some());
    assert_eq!(peer.sent(), ["RST_STREAM 3 INTERNAL_ERROR"]);
}

/// Both conditions hold in either order: a client that is asked to stop before it has read the
/// response may lose it.
#[test]
fn a_client_is_asked_to_stop_only_after_it_has_read_the_response() {
    let mut peer = Peer::open();
    peer.send(&post(1));
    peer.response(1);
    peer.sent();
    for _ in 0..64 {
        assert!(peer.ask(&data(1, 0, &[0; 16_384])).is_empty());
    }
    let read = frame(PING, ACK, 0, b"done\0\0\0\x01");
    assert_eq!(peer.ask(&read), ["RST_STREAM 1 NO_ERROR"]);
    assert!(peer.ask(&read).is_empty(), "once");
}

/// RFC 9113 §5.1: "An endpoint MUST NOT send frames other than PRIORITY on a closed stream", and a
/// stream is closed when the client has ended it too.
#[test]
fn a_client_that_has_stopped_is_not_asked_to() {
    for end in [data(1, END_STREAM, b"all"), headers(1, END_STREAM, &[("a", "b")]), reset(1, 8)] {
        let mut peer = Peer::open();
        peer.send(&post(1));
        peer.response(1);
        peer.sent();
        assert!(peer.send(&end).is_empty());
        assert!(peer.ask(&frame(PING, ACK, 0, b"done\0\0\0\x01")).is_empty());
    }
}

/// A client that announces no more than its window or the dropped content is never asked to stop,
/// and its window is opened for all of it.
#[test]
fn a_client_whose_content_fits_is_not_asked_to_stop() {
    for (sent, length, opened, is_asked_to_stop) in [
        (0, 65_535, 0, false),
        (0, 65_536, (1 << 20) - 65_535, false),
        (10_000, 75_535, (1 << 20) - 55_535, false),
        (0, 1 << 20, (1 << 20) - 65_535, false),
        (0, (1 << 20) + 1, (1 << 20) - 65_535, true),
    ] {
        let mut peer = Peer::open();
        peer.consumes = false;
        let length_field = length.to_string();
        let fields = [&POST[..], &[("content-length", length_field.as_str())]].concat();
        peer.send(&[headers(1, 0, &fields), data(1, 0, &vec![0; sent])].concat());
        peer.sent();
        peer.response(1);
        let mut expected = vec!["HEADERS 1 end".to_owned()];
        if opened > 0 {
            expected.push(format!("WINDOW_UPDATE 1 {opened}"));
        }
        if is_asked_to_stop {
            expected.push(r"PING done\x00\x00\x00\x01".to_owned());
        }
        assert_eq!(peer.sent(), expected, "{sent} of {length}");
    }
}

/// The data kept with a stream is returned once, whichever side ends the stream.
#[test]
fn the_data_of_a_stream_is_returned_once() {
    let mut peer = Peer::open();
    peer.send(&[get(1), get(3), get(5), get(7)].concat());
    for stream in [1, 3, 5, 7] {
        *peer.session.own(stream).unwrap() = stream * 10;
    }
    let mut all: Vec<_> = peer.session.each_own().map(|(id, own)| (id, *own)).collect();
    all.sort_unstable();
    assert_eq!(all, [(1, 10), (3, 30), (5, 50), (7, 70)]);
    assert_eq!(peer.session.reset(3, ErrorCode::Cancel, &mut peer.out), Some(&mut 30));
    assert_eq!(peer.session.reset(3, ErrorCode::Cancel, &mut peer.out), None);
    assert!(peer.session.head(7, true, &mut peer.out, |_, _| ()));
    assert_eq!(peer.session.close(7, &mut peer.out), Some(&mut 70));
    let mut step = |bytes: &[u8]| {
        let mut place = None;
        let step = peer.session.step(bytes, &mut peer.section, &mut place, 0, &mut peer.out);
        match step.event {
            pinion_http::h2::event::Event::Reset { .. } => *peer.session.left().unwrap(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(step(&reset(1, 8)), 10);
    assert_eq!(step(&window_update(5, 0)), 50);
    assert_eq!((peer.session.open_streams(), peer.session.own(1)), (0, None));
}

/// RFC 9113 §6.8: first a GOAWAY that refuses nothing, then one with the last accepted stream.
/// Later streams are ignored, except for the state that they share.
#[test]
fn a_graceful_goaway_has_two_steps() {
    let mut peer = Peer::open();
    peer.send(&post(1));
    peer.session.go_away(&mut peer.out);
    assert_eq!(peer.sent(), ["GOAWAY 2147483647 NO_ERROR", "PING leaving."]);
    assert_eq!(peer.send(&get(3)), ["head 3 GET / end"]);
    assert_eq!(peer.ask(&frame(PING, ACK, 0, b"leaving.")), ["GOAWAY 3 NO_ERROR"]);
    peer.session.go_away(&mut peer.out);
    assert!(peer.sent().is_empty());
    let block = [&block(&GET)[..], b"\x40\x01x\x01y"].concat();
    assert!(peer.send(&frame(HEADERS, END_HEADERS, 5, &block)).is_empty());
    assert!(
        peer.send(&[data(5, 0, b"ignored"), reset(5, 8), window_update(5, 1)].concat()).is_empty()
    );
    assert_eq!(peer.send(&data(1, END_STREAM, b"here")), ["data 1 here end"]);
    peer.response(1);
    assert!(!peer.session.is_finished());
    peer.response(3);
    assert!(peer.session.is_finished());
    peer.session.fail(ErrorCode::InternalError, &mut peer.out);
    assert_eq!(peer.sent().last().unwrap(), "GOAWAY 3 INTERNAL_ERROR");
}

/// An end that cannot wait for the response of the client.
#[test]
fn a_second_go_away_ends_the_connection_at_once() {
    let mut peer = Peer::open();
    peer.session.go_away(&mut peer.out);
    peer.session.go_away(&mut peer.out);
    let all = ["GOAWAY 2147483647 NO_ERROR", "PING leaving.", "GOAWAY 0 NO_ERROR"];
    assert_eq!(peer.sent(), all);
    assert!(peer.session.is_finished());
    // The acknowledgement of the PING comes late and changes nothing.
    assert!(peer.ask(&frame(PING, ACK, 0, b"leaving.")).is_empty());
    // An acknowledgement from a client that got no GOAWAY has no meaning.
    assert!(Peer::open().ask(&frame(PING, ACK, 0, b"leaving.")).is_empty());
}

/// RFC 9113 §8.1: a client that has to stop is asked to before the connection ends, even if no
/// stream is open any more.
#[test]
fn the_connection_end_waits_until_a_client_is_asked_to_stop() {
    const LEAVING: &[u8; 8] = b"leaving.";
    const ANSWERED: &[u8; 8] = b"done\0\0\0\x01";
    let ack = |payload: &[u8]| frame(PING, ACK, 0, payload);
    // The acknowledgement comes after the last GOAWAY, and before the first.
    for is_answered_first in [false, true] {
        for (end, response) in [
            (ack(ANSWERED), &["RST_STREAM 1 NO_ERROR"][..]),
            (data(1, END_STREAM, b"all"), &[]),
            (headers(1, END_STREAM, &[]), &[]),
            (reset(1, 8), &[]),
        ] {
            let mut peer = Peer::open();
            peer.send(&post(1));
            if is_answered_first {
                peer.response(1);
            }
            peer.session.go_away(&mut peer.out);
            peer.send(&ack(LEAVING));
            if !is_answered_first {
                peer.response(1);
            }
            assert_eq!(peer.session.open_streams(), 0);
            assert!(!peer.session.is_finished());
            peer.sent();
            assert_eq!(peer.ask(&end), response);
            assert!(peer.session.is_finished());
        }
    }
}

/// A client that is not waited for any longer is asked to stop without having acknowledged.
#[test]
fn an_immediate_end_still_asks_uploading_clients_to_stop() {
    let mut peer = Peer::open();
    peer.send(&[post(1), post(3)].concat());
    peer.response(1);
    peer.response(3);
    peer.send(&data(1, END_STREAM, b"all"));
    peer.sent();
    peer.session.finish(&mut peer.out);
    let goodbye = ["GOAWAY 2147483647 NO_ERROR", "PING leaving.", "GOAWAY 3 NO_ERROR"];
    assert_eq!(peer.sent(), [&goodbye[..], &["RST_STREAM 3 NO_ERROR"]].concat());
    assert!(peer.session.is_finished());
    peer.session.finish(&mut peer.out);
    assert!(peer.ask(&frame(PING, ACK, 0, b"done\0\0\0\x03")).is_empty(), "once");
}

/// All streams that were ended at once are remembered.
#[test]
fn all_streams_may_end_at_once() {
    let mut peer = Peer::open();
    let streams: Vec<u32> = (0..128).map(|n| 2 * n + 1).collect();
    for round in [0, 256] {
        streams.iter().for_each(|stream| drop(peer.send(&post(round + stream))));
        for stream in &streams {
            peer.session.reset(round + stream, ErrorCode::Cancel, &mut peer.out);
        }
        for stream in &streams {
            assert!(peer.send(&data(round + stream, END_STREAM, b"late")).is_empty());
        }
    }
    assert_eq!(peer.send(&data(1, 0, b"very late")), ["fatal StreamClosed"]);
}

/// The memory that a client makes the session keep is counted, for each kind.
#[test]
fn memory_that_a_client_causes_is_counted() {
    let bytes = |frames: &[Vec<u8>]| {
        let mut peer = Peer::open();
        assert_eq!(peer.session.memory_bytes(), 0);
        peer.send(&frames.concat());
        peer.session.memory_bytes()
    };
    let updates: Vec<_> = (0..100u32)
        .map(|n| frame(PRIORITY_UPDATE, 0, 0, &[&(2 * n + 1).to_be_bytes()[..], b"u=1"].concat()))
        .collect();
    assert!(bytes(&updates) >= 100 * 6);
    let all: Vec<_> = (0..100).map(|n| get(2 * n + 1)).collect();
    assert!(bytes(&all) >= 100 * 40);
    assert!(bytes(&[frame(HEADERS, 0, 1, &[0; 1000])]) >= 1000);
    // Streams that only this side has ended are remembered.
    let malformed: Vec<_> = (0..100).map(|n| headers(2 * n + 1, 0, &[])).collect();
    assert!(bytes(&malformed) >= 100 * 8);
}
