//! Connections that end while streams are open on them.

use std::io::Write;
use std::time::Duration;

use pinion_engine::app::Gone;
use pinion_engine::server::Io;
use pinion_engine::settings::WorkerSettings;
use quinn::{ConnectionError, ReadError, ReadToEndError};

use crate::http3::{GET, Http3, at_once, frame, head, wait};
use crate::on_both;
use crate::test_server::{TestServer, read_response};

const HELLO: &[u8] = b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";

/// A deadline that passes while QUIC still keeps a closed connection (RFC 9000 §10.2): that of the
/// engine for an incomplete head, and that of a handler.
#[test]
fn a_deadline_of_a_closed_connection_has_no_effect() {
    let settings = || WorkerSettings { head_ms: 200, ..WorkerSettings::default() };
    for io in [Io::Epoll, Io::Uring] {
        for (bytes, limit_ms) in
            [(head(GET, "/five")[..2].to_vec(), 200), (head(GET, "/late"), 200)]
        {
            let server = TestServer::start(io, settings());
            // A panic would end this connection too.
            let mut other = server.connect();
            other.write_all(HELLO).unwrap();
            assert_eq!(read_response(&mut other).1, b"hello world!\n");
            let clients: Vec<_> = (0..60).map(|_| Http3::connect(&server)).collect();
            let streams: Vec<_> = clients.iter().map(|client| client.open(&bytes)).collect();
            // The connections end at different times around the limit, some before it and some
            // after it.
            wait(async {
                tokio::time::sleep(Duration::from_millis(limit_ms - 100)).await;
                for client in &clients {
                    client.connection.close(0x100_u32.into(), b"");
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            });
            drop(streams);
            for _ in 0..3 {
                std::thread::sleep(Duration::from_millis(50));
                other.write_all(HELLO).unwrap();
                assert_eq!(read_response(&mut other).1, b"hello world!\n");
            }
        }
    }
}

/// Streams that a client has opened together with a frame that ends the connection have no effect.
#[test]
fn a_connection_ends_once() {
    on_both(|server| {
        let client = Http3::connect(&server);
        let nothing = frame(0x21, &[]).repeat(400);
        let request = head(GET, "/forever");
        // All of it is sent in one flight.
        let connection = client.connection.clone();
        at_once(async move {
            let mut streams = Vec::new();
            for _ in 0..20 {
                let (mut sender, receiver) = connection.open_bi().await.unwrap();
                sender.write_all(&[&nothing[..], &request[..]].concat()).await.unwrap();
                streams.push((sender, receiver));
            }
            connection.closed().await
        });
        while server.control.connections() > 0 {
            std::thread::yield_now();
        }
        assert_eq!(server.floods.try_iter().count(), 1);
        // Exchanges that had begun before are refused; later ones would get the event of the
        // client's end.
        assert!(server.gone.try_iter().all(|why| why == Gone::Refused));
    });
}

/// A client that has sent as many requests as allowed is asked to reconnect, and its connection
/// ends when it has all responses. Requests that are on their way then are rejected without being
/// processed (RFC 9114 §5.2).
#[test]
fn a_connection_ends_after_its_request_limit_with_all_responses() {
    const REJECTED: u32 = 0x10b; // H3_REQUEST_REJECTED
    for io in [Io::Epoll, Io::Uring] {
        let settings =
            WorkerSettings { requests_per_connection: Some(5), ..WorkerSettings::default() };
        let server = TestServer::start(io, settings);
        let client = Http3::connect(&server);
        for _ in 1..=5 {
            assert!(client.get("/hello").ends_with(b"hello world!\n"));
        }
        closed_in_peace(&client);
        // Many at once.
        let client = Http3::connect(&server);
        let connection = client.connection.clone();
        let responses = at_once(async move {
            let mut receivers = Vec::new();
            for _ in 0..20 {
                let (mut sender, receiver) = connection.open_bi().await.unwrap();
                sender.write_all(&head(GET, "/hello")).await.unwrap();
                sender.finish().unwrap();
                receivers.push(receiver);
            }
            let mut responses = Vec::new();
            for mut receiver in receivers {
                responses.push(receiver.read_to_end(1000).await);
            }
            responses
        });
        let (mut taken, mut rejected) = (0, 0);
        for response in responses {
            match response {
                Ok(response) => {
                    assert!(response.ends_with(b"hello world!\n"));
                    assert_eq!(rejected, 0, "the first ones are taken");
                    taken += 1;
                }
                Err(ReadToEndError::Read(ReadError::Reset(code))) => {
                    assert_eq!(code, REJECTED.into());
                    rejected += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert!(taken >= 5 && rejected > 0, "{taken} taken, {rejected} rejected");
        closed_in_peace(&client);
    }
}

/// Asserts that the server closes the connection with H3_NO_ERROR.
#[track_caller]
fn closed_in_peace(client: &Http3) {
    const NO_ERROR: u32 = 0x100;
    match wait(client.connection.closed()) {
        ConnectionError::ApplicationClosed(close) => {
            assert_eq!(close.error_code, NO_ERROR.into());
        }
        other => panic!("{other}"),
    }
}
