//! The end of connections, and the events of handlers when the server stops.

use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use pinion_engine::app::Gone;
use pinion_engine::server::Io;
use pinion_engine::settings::WorkerSettings;

use super::Http2;
use crate::on_both;
use crate::strict::http2_frames::NO_ERROR;
use crate::test_server::TestServer;

#[test]
fn draining_completes_open_requests_and_closes_idle_connections() {
    on_both(|server| {
        let mut idle = Http2::connect(&server);
        assert_eq!(idle.get("/hello"), "hello world!\n");
        let mut busy = Http2::connect(&server);
        let length = [("content-length", "4")];
        let id = busy.client.request("POST", "/echo", &length, false);
        busy.client.data(id, b"ha", false);
        busy.seen();
        server.control.drain();
        for http2 in [&mut idle, &mut busy] {
            http2.until(|client| client.leaves.len() == 2);
            assert!(http2.client.leaves.iter().all(|&(_, code)| code == NO_ERROR));
        }
        assert_eq!(busy.client.leaves[1].0, id);
        idle.closed();
        busy.client.data(id, b"lf", true);
        assert_eq!(busy.content_of(id), "half");
        busy.closed();
        assert_eq!(server.gone.try_recv(), Err(TryRecvError::Empty));
    });
}

#[test]
fn endless_responses_can_end_properly_during_a_drain() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        let many: Vec<_> = (0..3).map(|_| http2.client.get("/endless")).collect();
        http2.flush();
        let _begun: Vec<_> = many.iter().map(|_| server.next_waiting()).collect();
        server.control.drain();
        for id in many {
            let text = http2.content_of(id);
            assert!(text.ends_with("tick\nbye\n") && text.matches("bye").count() == 1, "{text}");
        }
        http2.closed();
        assert_eq!(server.gone.try_recv(), Err(TryRecvError::Empty), "they ended by themselves");
    });
}

/// Content of which the server reads and drops only a part: it is longer than the limit.
const UNREAD: [(&str, &str); 1] = [("content-length", "2000000")];

/// RFC 9113 §8.1: a client that got its response before it had sent its whole request is asked to
/// stop sending, even if that response is the last one.
#[test]
fn a_client_is_asked_to_stop_uploading_before_the_connection_ends() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        let id = http2.client.request("POST", "/waits", &UNREAD, false);
        http2.flush();
        let waiting = server.next_waiting();
        server.control.drain();
        http2.until(|client| client.leaves.len() == 2);
        server.post(waiting, "at last\n");
        assert_eq!(http2.content_of(id), "at last\n");
        http2.closed();
        assert!(http2.client.streams[&id].asked_to_stop);
    });
}

/// The same holds if the server stops before the client acknowledges the response.
#[test]
fn a_connection_is_not_idle_before_its_client_is_asked_to_stop() {
    on_both(|server| {
        let mut idle = Http2::connect(&server);
        idle.get("/hello");
        let (mut tardy, mut silent) = (Http2::connect(&server), Http2::connect(&server));
        let mut ids = [0; 2];
        for (http2, id) in [&mut tardy, &mut silent].into_iter().zip(&mut ids) {
            http2.get("/hello");
            *id = http2.client.request("POST", "/hello", &UNREAD, false);
            http2.flush();
            http2.listen(|client| client.out.windows(4).any(|part| part == b"done"));
        }
        server.control.drain();
        idle.listen(|_| false);
        // Idle connections are closed by now.
        tardy.closed();
        assert!(tardy.client.streams[&ids[0]].asked_to_stop);
        // A client that never acknowledges does not delay the end of the server.
        silent.listen(|_| false);
        assert!(silent.client.streams[&ids[1]].asked_to_stop);
    });
}

/// The server does not wait for an acknowledgement either if the response comes later than that.
#[test]
fn a_silent_client_does_not_delay_the_end_after_its_last_response() {
    // This is longer than the patience of the client.
    const IDLE_MS: u64 = 600_000;
    for io in [Io::Epoll, Io::Uring] {
        let server =
            TestServer::start(io, WorkerSettings { idle_ms: IDLE_MS, ..WorkerSettings::default() });
        let mut silent = Http2::connect(&server);
        let id = silent.client.request("POST", "/waits", &UNREAD, false);
        silent.flush();
        let waiting = server.next_waiting();
        server.control.drain();
        silent.until(|client| client.leaves.len() == 2);
        // The time has ended in which the server closes connections that have got their responses.
        std::thread::sleep(Duration::from_millis(1200));
        server.post(waiting, "at last\n");
        silent.listen(|_| false);
        assert!(silent.client.streams[&id].asked_to_stop);
        // The same holds for a client that never acknowledges GOAWAY.
        let one = WorkerSettings {
            idle_ms: IDLE_MS,
            requests_per_connection: Some(1),
            ..WorkerSettings::default()
        };
        let server = TestServer::start(io, one);
        let mut deaf = Http2::connect(&server);
        deaf.client.get("/hello");
        deaf.flush();
        deaf.listen(|_| false);
        assert_eq!(deaf.client.leaves.last(), Some(&(1, NO_ERROR)));
    }
}

/// A request that is on its way when the server announces its end gets a response.
#[test]
fn requests_that_begin_during_the_stop_get_a_response() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        assert_eq!(http2.get("/stopping"), "serving\n");
        let open = http2.client.get("/waits");
        http2.flush();
        let waiting = server.next_waiting();
        server.control.drain();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(http2.get("/stopping"), "stopping\n");
        assert!(!http2.client.leaves.is_empty());
        server.post(waiting, "at last\n");
        assert_eq!(http2.content_of(open), "at last\n");
        http2.closed();
    });
}

#[test]
fn open_exchanges_are_notified_when_the_grace_period_ends() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        for _ in 0..3 {
            http2.client.get("/waits");
            http2.flush();
            server.next_waiting();
        }
        server.control.stop();
        for _ in 0..3 {
            let heard = server.gone.recv_timeout(Duration::from_secs(10));
            assert_eq!(heard, Ok(Gone::Stopping));
        }
        http2.closed();
        assert!(server.gone.try_recv().is_err(), "once each");
    });
}

#[test]
fn a_connection_ends_after_its_request_limit_with_all_responses() {
    for io in [Io::Epoll, Io::Uring] {
        let settings =
            WorkerSettings { requests_per_connection: Some(5), ..WorkerSettings::default() };
        let server = TestServer::start(io, settings);
        let mut http2 = Http2::connect(&server);
        for nth in 1..=5 {
            assert!(http2.client.leaves.is_empty(), "before request {nth}");
            assert_eq!(http2.get("/hello"), "hello world!\n");
        }
        http2.closed();
        assert_eq!(http2.client.leaves.last(), Some(&(9, NO_ERROR)));
        // With many requests at once, those above the last stream are not processed, and the others
        // get their responses.
        let mut http2 = Http2::connect(&server);
        let all: Vec<_> = (0..20).map(|_| http2.client.get("/hello")).collect();
        http2.closed();
        let last = http2.client.leaves.last().expect("it leaves").0;
        for id in all {
            let is_answered = http2.client.streams[&id].end.is_some();
            assert_eq!(is_answered, id <= last, "stream {id}, last is {last}");
        }
    }
}

#[test]
fn a_panic_ends_the_connections_of_its_worker_and_the_next_one_serves() {
    on_both(|server| {
        let mut http2 = Http2::connect(&server);
        http2.client.get("/panic");
        http2.closed();
        assert!(!http2.client.is_answered());
        assert_eq!(Http2::connect(&server).get("/hello"), "hello world!\n");
    });
}
