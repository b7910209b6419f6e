//! Connections after their last response, while their clients still send.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use pinion_engine::server::Io;
use pinion_engine::settings::WorkerSettings;

use crate::test_server::TestServer;

/// More than is read and dropped before another request, so the connection ends.
const HEAD: &[u8] = b"POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 200000000\r\n\r\n";

/// Returns a client that has its response, and more of its request to send.
fn lingering(server: &TestServer) -> TcpStream {
    let mut stream = server.connect();
    stream.write_all(HEAD).expect("written");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response and its end");
    assert!(response.ends_with("hello world!\n"), "{response}");
    stream
}

/// RFC 9112 §9.6: a client that reads nothing before it has sent everything gets its response, for
/// any duration of that.
#[test]
fn a_lingering_client_may_continue_to_send_after_a_pause() {
    for io in [Io::Epoll, Io::Uring] {
        let server = TestServer::start(io, WorkerSettings::default());
        let mut stream = server.connect();
        stream.write_all(HEAD).expect("written");
        std::thread::sleep(Duration::from_millis(2500));
        for _ in 0..200 {
            stream.write_all(&[b'x'; 100_000]).expect("written");
        }
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response and its end");
        assert!(response.ends_with("hello world!\n"), "{response}");
    }
}

/// The permits are for clients that are served: the oldest gives way.
#[test]
fn lingering_connections_hold_a_quarter_of_the_permits() {
    const PERMITS: usize = 32;
    for io in [Io::Epoll, Io::Uring] {
        let settings = WorkerSettings { connections: PERMITS, ..WorkerSettings::default() };
        let server = TestServer::start(io, settings);
        let mut clients: Vec<TcpStream> = (0..PERMITS).map(|_| lingering(&server)).collect();
        while server.control.connections() > PERMITS / 4 {
            std::thread::yield_now();
        }
        let last = clients.last_mut().expect("a client");
        last.write_all(&[b'x'; 1000]).expect("written");
        // A connection that had been closed would have been reset by now.
        std::thread::sleep(Duration::from_millis(50));
        last.write_all(&[b'x'; 1000]).expect("it is still open");
    }
}

/// Its clients have had their responses, and one may be silent for long.
#[test]
fn a_server_that_stops_does_not_wait_for_content_that_it_drops() {
    for io in [Io::Epoll, Io::Uring] {
        let server = TestServer::start(io, WorkerSettings::default());
        let client = lingering(&server);
        // Little enough to be dropped before another request.
        let mut other = server.connect();
        other.write_all(b"POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n").unwrap();
        let (_, body) = crate::test_server::read_response(&mut other);
        assert_eq!(body, b"hello world!\n");
        server.control.drain();
        // Less than the thirty seconds for which a client may be silent.
        let began = std::time::Instant::now();
        while server.control.connections() > 0 {
            assert!(began.elapsed() < Duration::from_secs(20), "it waits");
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(client);
    }
}
