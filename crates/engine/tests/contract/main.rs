//! Tests the contract of the engine (docs/ARCHITECTURE.md, "The contract") on real sockets, over
//! each backend: streamed bodies both ways, `want`, messages from another thread, deadlines,
//! aborts, upgrades, byte streams.

mod accepting;
mod alarms_and_messages;
mod byte_streams;
mod exchange_ends;
mod fairness;
mod http2;
mod http3;
mod lingering;
mod outgoing;
mod outgoing_tls;
mod plain_client;
mod protocol_detection;
mod proxy_protocol;
mod request_content;
mod slices;
mod stopping;
#[path = "../strict/mod.rs"]
mod strict;
mod test_server;

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use pinion_engine::app::Gone;
use pinion_engine::server::Io;
use pinion_engine::settings::WorkerSettings;
use test_server::{BIG_BYTES, TestServer, big, connect, read_response};

/// Runs a test over both backends.
pub(crate) fn on_both(test: impl Fn(TestServer)) {
    for io in [Io::Epoll, Io::Uring] {
        eprintln!("over {io:?}");
        test(TestServer::start(io, WorkerSettings::default()));
    }
}

#[test]
fn connections_are_kept_and_pipelined_responses_ordered() {
    on_both(|server| {
        let mut stream = server.connect();
        for _ in 0..3 {
            stream.write_all(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let (head, body) = read_response(&mut stream);
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            assert!(head.contains("\r\nDate: "), "{head}");
            assert_eq!(body, b"hello world!\n");
        }
        let mut many = Vec::new();
        for n in 0..200 {
            let path = if n % 2 == 0 { "/hello" } else { "/hints" };
            many.extend_from_slice(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        }
        stream.write_all(&many).unwrap();
        for n in 0..200 {
            if n % 2 == 1 {
                let (head, _) = read_response(&mut stream);
                assert!(head.starts_with("HTTP/1.1 103 Early Hints\r\nLink: "), "{head}");
            }
            let body = read_response(&mut stream).1;
            assert_eq!(body, if n % 2 == 0 { &b"hello world!\n"[..] } else { b"hinted\n" });
        }
    });
}

#[test]
fn a_request_may_come_byte_by_byte() {
    on_both(|server| {
        let mut stream = server.connect();
        stream.set_nodelay(true).unwrap();
        for byte in b"\r\nGET /hello HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n" {
            stream.write_all(&[*byte]).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(read_response(&mut stream).1, b"hello world!\n");
    });
}

#[test]
fn a_large_mapped_body_arrives_whole_even_to_a_slow_reader() {
    on_both(|server| {
        let expected = big();
        let mut stream = server.connect();
        stream.write_all(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let (_, body) = read_response(&mut stream);
        assert_eq!(body.len(), BIG_BYTES);
        assert!(body == expected);
        // Two requests are sent at once, so that one waits for the other.
        stream.write_all(&b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2)).unwrap();
        assert!(read_response(&mut stream).1 == expected);
        assert!(read_response(&mut stream).1 == expected);
    });
}

#[test]
fn bodies_stream_both_ways() {
    on_both(|server| {
        let content: Vec<u8> = (0..500_000u32).map(|n| (n % 253) as u8).collect();
        let mut stream = server.connect();
        let head =
            format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", content.len());
        let mut writer = stream.try_clone().unwrap();
        let sent = content.clone();
        let sending = std::thread::spawn(move || {
            writer.write_all(head.as_bytes()).unwrap();
            writer.write_all(&sent).unwrap();
            writer.write_all(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        });
        assert!(read_response(&mut stream).1 == content);
        assert_eq!(read_response(&mut stream).1, b"hello world!\n");
        sending.join().unwrap();
    });
}

#[test]
fn chunked_content_is_received_and_sent_chunked() {
    on_both(|server| {
        let request = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\
            Connection: close\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nT: v\r\n\r\n";
        let response = String::from_utf8(server.exchange(request)).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("Transfer-Encoding: chunked"), "{head}");
        assert_eq!(body, "5\r\nhello\r\n6\r\n world\r\n0\r\nT: v\r\n\r\n");
    });
}

#[test]
fn an_http_1_0_client_gets_a_stream_until_close() {
    on_both(|server| {
        let response = server.exchange(b"GET /fill HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let at = response.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8_lossy(&response[..at]);
        assert!(!head.contains("chunked") && head.contains("Connection: close"), "{head}");
        assert_eq!(response.len() - at - 4, 1 << 20);
    });
}

/// Returns the head of a request that waits for `100 Continue` before it sends its two bytes of
/// content.
fn asking(path: &str) -> Vec<u8> {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        .into_bytes()
}

#[test]
fn continue_is_sent_only_when_the_handler_wants_content() {
    on_both(|server| {
        let mut stream = server.connect();
        stream.write_all(&asking("/echo")).unwrap();
        let (head, _) = read_response(&mut stream);
        assert_eq!(head, "HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(b"ok").unwrap();
        assert_eq!(read_response(&mut stream).1, b"ok");
        // The request is refused without reading: there is no 100, and the connection ends (RFC
        // 9110 §10.1.1).
        stream.write_all(&asking("/hello")).unwrap();
        let (head, _) = read_response(&mut stream);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
    });
}

#[test]
fn another_thread_and_the_clock_can_complete_an_exchange() {
    on_both(|server| {
        let mut stream = server.connect();
        let get = |path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        let three = ["/posted", "/deadline", "/hello"].map(get).concat();
        stream.write_all(three.as_bytes()).unwrap();
        assert_eq!(read_response(&mut stream).1, b"from a thread\n");
        assert_eq!(read_response(&mut stream).1, b"late\n");
        assert_eq!(read_response(&mut stream).1, b"hello world!\n");
    });
}

const WAITS: &[u8] = b"GET /waits HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_message_for_one_exchange_reaches_no_later_one() {
    on_both(|server| {
        let mut stream = server.connect();
        stream.write_all(WAITS).unwrap();
        let first = server.next_waiting();
        server.post(first, "first\n");
        assert_eq!(read_response(&mut stream).1, b"first\n");
        stream.write_all(WAITS).unwrap();
        let second = server.next_waiting();
        server.post(first, "too late\n");
        server.post(second, "second\n");
        assert_eq!(read_response(&mut stream).1, b"second\n");
    });
}

#[test]
fn a_message_for_an_exchange_does_not_reach_the_stream_it_became() {
    on_both(|server| {
        let mut stream = server.connect();
        stream.write_all(b"GET /upgrade HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        read_response(&mut stream);
        server.post(server.next_waiting(), "too late");
        stream.write_all(b"post").unwrap();
        let mut response = [0; 14];
        stream.read_exact(&mut response).unwrap();
        assert_eq!(&response, b"from a thread\n");
    });
}

#[test]
fn a_message_from_before_a_panic_reaches_no_later_connection() {
    on_both(|server| {
        let mut lost = server.connect();
        lost.write_all(WAITS).unwrap();
        let before = server.next_waiting();
        let mut panics = server.connect();
        panics.write_all(b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!(panics.read(&mut [0; 10]).unwrap_or(0), 0);
        let mut stream = server.connect();
        stream.write_all(WAITS).unwrap();
        let after = server.next_waiting();
        assert_eq!((before.worker, before.slot), (after.worker, after.slot), "the same place");
        server.post(before, "somebody else's\n");
        server.post(after, "its own\n");
        assert_eq!(read_response(&mut stream).1, b"its own\n");
    });
}

#[test]
fn timeouts_can_be_disabled() {
    on_both(|server| {
        let mut stream = server.connect();
        stream.write_all(WAITS).unwrap();
        server.post(server.next_waiting(), "at last\n");
        assert_eq!(read_response(&mut stream).1, b"at last\n");
        let mut stream = connect(server.raw);
        stream.write_all(b"patience").unwrap();
        // Bytes that arrive together would be one event for the handler.
        std::thread::sleep(Duration::from_millis(50));
        stream.write_all(b" rewarded").unwrap();
        let mut echoed = [0; 9];
        stream.read_exact(&mut echoed).unwrap();
        assert_eq!(&echoed, b" rewarded");
    });
}

#[test]
fn an_aborted_or_short_response_never_looks_complete() {
    on_both(|server| {
        for path in ["/abort", "/short"] {
            let mut stream = server.connect();
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
            let mut got = Vec::new();
            let _ = stream.read_to_end(&mut got);
            assert!(got.len() < 250, "{path} announced 100 bytes and must not deliver them");
        }
    });
}

/// The written bytes are sent, and the end of the content is not.
#[test]
fn an_aborted_response_sends_the_written_bytes() {
    on_both(|server| {
        let received = |request: &str| {
            let mut stream = server.connect();
            stream.write_all(request.as_bytes()).unwrap();
            let mut received = Vec::new();
            // The connection ends as after any last response.
            stream.read_to_end(&mut received).unwrap();
            String::from_utf8(received).unwrap()
        };
        let response = received("GET /cut HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(response.contains("\r\nContent-Length: 100\r\n"), "{response}");
        assert!(response.ends_with("\r\n\r\nonly this, to be cut"), "{response}");
        let response = received("GET /cut-chunks HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(response.ends_with("\r\n\r\nb\r\n, to be cut\r\n"), "{response}");
        // If the end of the connection is the end of the content, it must not end in an orderly
        // way.
        let mut stream = server.connect();
        stream.write_all(b"GET /cut-chunks HTTP/1.0\r\n\r\n").unwrap();
        let ended = stream.read_to_end(&mut Vec::new());
        assert_eq!(ended.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
    });
}

#[test]
fn a_handler_is_notified_of_its_invalid_response() {
    on_both(|server| {
        for path in ["/long", "/beyond", "/endless-file", "/behind-files", "/too-many-files"] {
            let mut stream = server.connect();
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
            assert_eq!(server.gone.recv_timeout(Duration::from_secs(10)), Ok(Gone::Broken));
            let mut got = Vec::new();
            let _ = stream.read_to_end(&mut got);
            assert!(!got.ends_with(b"too long"), "{path}");
        }
    });
}

#[test]
fn a_handler_without_a_response_causes_500() {
    on_both(|server| {
        let response = server.exchange(b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(response.starts_with(b"HTTP/1.1 500 "), "{}", String::from_utf8_lossy(&response));
    });
}

#[test]
fn a_panic_ends_the_connections_of_its_worker_and_restarts_it() {
    on_both(|server| {
        let mut stream = server.connect();
        stream.write_all(b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!(stream.read(&mut [0; 10]).unwrap_or(0), 0);
        let mut stream = server.connect();
        stream.write_all(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!(read_response(&mut stream).1, b"hello world!\n");
    });
}

#[test]
fn a_panic_leaves_the_connections_of_other_workers_alone() {
    for io in [Io::Epoll, Io::Uring] {
        let server = TestServer::start_workers(io, WorkerSettings::default(), 2);
        let hello = b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
        // So many connections that the kernel distributes some to both workers.
        let mut clients: Vec<_> = (0..60).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.write_all(hello).unwrap();
            assert_eq!(read_response(client).1, b"hello world!\n");
        }
        let mut first = clients.swap_remove(0);
        first.write_all(b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!(first.read(&mut [0; 10]).unwrap_or(0), 0);
        let mut alive = 0;
        for client in &mut clients {
            let mut byte = [0; 1];
            if client.write_all(hello).is_ok() && client.read(&mut byte).is_ok_and(|got| got == 1) {
                alive += 1;
            }
        }
        assert!((1..clients.len()).contains(&alive), "{alive} of {} live on", clients.len());
    }
}

#[test]
fn clients_during_a_panic_get_a_response_or_are_closed() {
    on_both(|server| {
        let mut stream = server.connect();
        stream.write_all(b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let request = b"GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let clients: Vec<_> = (0..40)
            .map(|_| {
                let mut client = server.connect();
                let _reset_already = client.write_all(request);
                client
            })
            .collect();
        for mut client in clients {
            let mut got = Vec::new();
            match client.read_to_end(&mut got) {
                Ok(_) => assert!(got.is_empty() || got.ends_with(b"hello world!\n")),
                Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
            }
        }
    });
}

#[test]
fn upgraded_connections_and_those_of_a_byte_stream_listener_are_byte_streams() {
    on_both(|server| {
        let mut upgraded = server.connect();
        upgraded.write_all(b"GET /upgrade HTTP/1.1\r\nHost: a\r\n\r\nfirst").unwrap();
        let (head, _) = read_response(&mut upgraded);
        assert!(
            head.starts_with("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n"),
            "{head}"
        );
        for mut stream in [upgraded, connect(server.raw)] {
            stream.write_all(b" bytes").unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut echoed = Vec::new();
            stream.read_to_end(&mut echoed).unwrap();
            assert!(echoed.ends_with(b" bytes"));
        }
    });
}

/// A waiting request gets the event that its client sends no more, and can still respond (RFC 9112
/// §9.6).
#[test]
fn an_exchange_is_notified_of_the_end_of_client_input() {
    on_both(|server| {
        for request in [
            "GET /until-input-end HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /until-input-end HTTP/1.0\r\n\r\n",
            // The request begins when the end of its client's input is already known.
            "GET /posted HTTP/1.1\r\nHost: a\r\n\r\n\
             GET /until-input-end HTTP/1.1\r\nHost: a\r\n\r\n",
        ] {
            let mut stream = server.connect();
            stream.write_all(request.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            if request.contains("/posted") {
                assert_eq!(read_response(&mut stream).1, b"from a thread\n");
            }
            assert_eq!(read_response(&mut stream).1, b"no more\n");
        }
    });
}

#[test]
fn a_byte_stream_gets_messages_and_alarms_and_can_be_aborted() {
    on_both(|server| {
        let mut stream = connect(server.raw);
        let mut response = [0; 14];
        stream.write_all(b"post").unwrap();
        stream.read_exact(&mut response).unwrap();
        assert_eq!(&response, b"from a thread\n");
        stream.write_all(b"wait").unwrap();
        stream.read_exact(&mut response[..5]).unwrap();
        assert_eq!(response[..5], big()[7..12]);
        stream.write_all(b"abort").unwrap();
        assert_eq!(stream.read(&mut response).unwrap_or(0), 0, "what was queued is not sent");
    });
}

#[test]
fn a_client_that_leaves_is_reported_to_the_handler() {
    on_both(|server| {
        let mut stream = server.connect();
        stream
            .write_all(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf")
            .unwrap();
        drop(stream);
        assert_eq!(server.gone.recv_timeout(Duration::from_secs(10)), Ok(Gone::Peer));
    });
}

#[test]
fn draining_completes_open_requests_and_closes_idle_connections() {
    on_both(|server| {
        let mut idle = server.connect();
        idle.write_all(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        read_response(&mut idle);
        let mut busy = server.connect();
        busy.write_all(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nha").unwrap();
        while server.control.connections() < 2 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(50));
        server.control.drain();
        assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0, "idle connections close");
        busy.write_all(b"lf").unwrap();
        assert_eq!(read_response(&mut busy).1, b"half");
        assert_eq!(busy.read(&mut [0; 1]).unwrap(), 0, "and the busy one after its answer");
    });
}
