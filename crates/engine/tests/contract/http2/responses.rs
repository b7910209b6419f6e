//! Responses: complete ones, streamed ones and wrong ones, and the events of their handlers.

use std::time::Duration;

use pinion_engine::app::Gone;

use super::Http2;
use crate::on_both;
use crate::strict::{End, Manner};
use crate::test_server::{BIG_BYTES, SHARED, big};

const INTERNAL_ERROR: u32 = 2;
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn concurrent_requests_get_responses_on_their_streams() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        for round in 0..4 {
            let paths = ["/hello", "/hints", "/deadline", "/posted", "/stopping"];
            let asked: Vec<_> =
                (0..50).map(|n| (n, http2.client.get(paths[n % paths.len()]))).collect();
            for (n, id) in asked {
                let expected =
                    ["hello world!\n", "hinted\n", "late\n", "from a thread\n", "serving\n"];
                assert_eq!(http2.content_of(id), expected[n % paths.len()], "round {round}");
                let stream = &http2.client.streams[&id];
                let hints: &[u16] = if n % paths.len() == 1 { &[103] } else { &[] };
                assert_eq!(stream.interim, hints);
                assert!(stream.field("date").is_some(), "{stream:?}");
            }
        }
    });
}

#[test]
fn large_content_arrives_whole_concurrently_and_at_a_slow_reader() {
    on_both(|server| {
        let expected = big();
        let mut http2 = Http2::connect(&server);
        let both = [http2.client.get("/big"), http2.client.get("/big")];
        assert_eq!(http2.get("/hello"), "hello world!\n");
        for id in both {
            http2.content_of(id);
            assert!(http2.client.streams[&id].content == expected);
        }
        // The windows of the stream and of the connection are opened in small steps.
        let mut http2 = Http2::with(&server, Manner { window_bytes: 100, gives_back: false });
        let id = http2.client.get("/big");
        for _ in 0..50 {
            let had = http2.client.streams[&id].content.len();
            http2.client.open_window(id, 777);
            http2.until(|client| client.streams[&id].content.len() >= had + 777);
        }
        let got = http2.client.streams[&id].content.len();
        assert!(http2.client.streams[&id].end.is_none() && got < BIG_BYTES);
        http2.client.open_window(id, BIG_BYTES as u32);
        http2.content_of(id);
        assert!(http2.client.streams[&id].content == expected);
    });
}

/// The handler of `/fill` continues only after `Writable`.
#[test]
fn a_handler_continues_when_there_is_space_for_output() {
    on_both(|server| {
        let mut http2 = Http2::with(&server, Manner { window_bytes: 1000, gives_back: true });
        let many: Vec<_> = (0..5).map(|_| http2.client.get("/fill")).collect();
        for id in many {
            assert!(http2.content_of(id) == "x".repeat(1 << 20));
        }
    });
}

#[test]
fn files_and_shared_bytes_are_sent_in_order() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        let id = http2.client.get("/pieces");
        http2.content_of(id);
        let expected = [&SHARED, &big()[5..15], &SHARED[2..4], &big()].concat();
        assert!(http2.client.streams[&id].content == expected);
        for path in ["/pieces", "/big", "/hello", "/fill"] {
            let id = http2.client.request("HEAD", path, &[], true);
            assert_eq!(http2.content_of(id), "", "{path}");
        }
    });
}

#[test]
fn a_message_for_one_exchange_reaches_no_other() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        let mut wait = || {
            let id = http2.client.get("/waits");
            http2.flush();
            (id, server.next_waiting())
        };
        let (first, second) = (wait(), wait());
        server.post(second.1, "second\n");
        assert_eq!(http2.content_of(second.0), "second\n");
        server.post(second.1, "too late\n");
        let third = http2.client.get("/waits");
        http2.flush();
        let third = (third, server.next_waiting());
        server.post(first.1, "first\n");
        server.post(third.1, "third\n");
        assert_eq!(http2.content_of(first.0), "first\n");
        assert_eq!(http2.content_of(third.0), "third\n");
    });
}

#[test]
fn an_aborted_or_short_response_never_looks_complete() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        for path in ["/abort", "/short", "/upgrade"] {
            let id = http2.client.get(path);
            assert_eq!(http2.end_of(id).end, Some(End::Reset(INTERNAL_ERROR)), "{path}");
            assert_eq!(http2.get("/hello"), "hello world!\n", "others live on");
        }
        assert!(server.gone.try_recv().is_err(), "the handlers ended these");
    });
}

/// The written bytes are sent before the stream is reset.
#[test]
fn an_aborted_response_sends_the_written_bytes() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        for (path, content) in [("/cut", "only this, to be cut"), ("/cut-chunks", ", to be cut")] {
            let id = http2.client.get(path);
            let stream = http2.end_of(id);
            assert_eq!(stream.end, Some(End::Reset(INTERNAL_ERROR)), "{path}");
            assert_eq!(String::from_utf8_lossy(&stream.content), content, "{path}");
            assert_eq!(http2.get("/hello"), "hello world!\n", "others live on");
        }
        assert!(server.gone.try_recv().is_err(), "the handlers ended these");
    });
}

#[test]
fn a_handler_is_notified_of_its_invalid_response() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        for path in ["/long", "/beyond", "/endless-file", "/behind-files", "/too-many-files"] {
            let id = http2.client.get(path);
            assert_eq!(http2.end_of(id).end, Some(End::Reset(INTERNAL_ERROR)), "{path}");
            assert_eq!(server.gone.recv_timeout(PATIENCE), Ok(Gone::Broken), "{path}");
            assert_eq!(http2.get("/hello"), "hello world!\n", "others live on");
        }
        assert!(server.gone.try_recv().is_err(), "once each");
    });
}

/// A file that cannot be read any more is detected when the header of a frame was already sent, so
/// the connection is closed.
#[test]
fn changed_files_never_make_a_complete_response() {
    on_both(|server| {
        for path in ["/shrinks", "/directory"] {
            let mut http2 = Http2::connect(&server);
            let id = http2.client.get(path);
            let stream = http2.end_of(id);
            assert_ne!(stream.end, Some(End::Whole), "{path}");
            assert_eq!(server.gone.recv_timeout(PATIENCE), Ok(Gone::Broken), "{path}");
        }
    });
}

#[test]
fn a_handler_without_a_response_causes_500() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        for (method, is_empty) in [("GET", false), ("HEAD", true)] {
            let id = http2.client.request(method, "/nothing", &[], true);
            let stream = http2.end_of(id);
            assert_eq!((stream.status, stream.end), (Some(500), Some(End::Whole)));
            assert_eq!(stream.content.is_empty(), is_empty);
        }
        assert_eq!(http2.get("/hello"), "hello world!\n");
    });
}
