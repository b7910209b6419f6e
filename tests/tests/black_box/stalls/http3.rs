//! Stalls over HTTP/3. QUIC ends a connection without traffic on its own (RFC 9000 §10.1), without
//! a message to the peer; so some clients send keep-alive packets.

use super::{LARGE_BYTES, LONG_ROUNDS, Stall, to_half};
use pinion_tests::client::Broken;
use pinion_tests::client::http3::Http3;
use pinion_tests::client::quic::wait;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::Server;
use quinn::ConnectionError;
use std::thread;
use std::time::Duration;

pub(crate) const ALL: &[Stall] = &[
    idle_after_an_response,
    idle_but_kept_alive,
    half_a_head,
    half_a_content,
    half_a_content_behind_half_a_response,
    half_a_head_beside_requests,
    half_a_content_beside_requests,
    shut_windows,
    shut_windows_and_silence,
    slow_but_steady,
];

/// RFC 9114 §8.1.
const NO_ERROR: u64 = 0x100;
const INTERNAL_ERROR: u64 = 0x102;
const EXCESSIVE_LOAD: u64 = 0x107;

fn connect(server: &Server) -> Http3 {
    Http3::try_open(server.peer()).expect("a connection")
}

fn kept_alive(server: &Server) -> Http3 {
    Http3::try_open(&server.peer().clone().kept_alive()).expect("a connection")
}

#[track_caller]
fn is_home(client: &Http3) {
    assert_eq!(client.try_exchange(&Request::get("/")).expect("an answer").text(), "home");
}

/// Returns how the connection ends, with the code if the server closes it.
#[track_caller]
fn end(client: &Http3) -> Result<u64, ConnectionError> {
    let connection = client.quic().connection();
    // A closed window has 90 seconds.
    let ended = (0..2).find_map(|_| wait(connection.closed()).ok()).expect("it is still open");
    match ended {
        ConnectionError::ApplicationClosed(close) => Ok(close.error_code.into_inner()),
        other => Err(other),
    }
}

fn idle_after_an_response(server: &Server) {
    let client = connect(server);
    is_home(&client);
    let ended = end(&client);
    assert!(matches!(ended, Ok(NO_ERROR) | Err(ConnectionError::TimedOut)), "{ended:?}");
}

/// A connection without a request is idle, although QUIC is not.
fn idle_but_kept_alive(server: &Server) {
    let client = kept_alive(server);
    is_home(&client);
    assert_eq!(end(&client), Ok(NO_ERROR));
}

/// Other requests on the connection are not affected.
fn half_a_head(server: &Server) {
    let client = connect(server);
    let response = client.try_half_head(&Request::get("/")).expect("an answer");
    assert_eq!(response.status, 408, "{response}");
    is_home(&client);
}

fn half_a_content(server: &Server) {
    let client = connect(server);
    let response = client.try_half_content(&to_half("/echo")).expect("an answer");
    assert_eq!(response.status, 408, "{response}");
    is_home(&client);
}

fn half_a_content_behind_half_a_response(server: &Server) {
    let client = connect(server);
    let broken = client.try_half_content(&to_half("/begun")).expect_err("half an answer");
    assert!(matches!(broken, Broken::Reset(INTERNAL_ERROR)), "{broken:?}");
    is_home(&client);
}

fn half_a_head_beside_requests(server: &Server) {
    beside_requests(server, |client| client.try_half_head(&Request::get("/")));
}

fn half_a_content_beside_requests(server: &Server) {
    beside_requests(server, |client| client.try_half_content(&to_half("/echo")));
}

/// Requests that arrive meanwhile do not extend the deadline.
fn beside_requests(server: &Server, stop: fn(&Http3) -> Result<Response, Broken>) {
    let client = connect(server);
    thread::scope(|scope| {
        let stopped = scope.spawn(|| stop(&client));
        let is_refused = (0..LONG_ROUNDS).any(|_| {
            thread::sleep(Duration::from_secs(1));
            is_home(&client);
            stopped.is_finished()
        });
        assert!(is_refused, "as long as there are others it may take its time");
        let response = stopped.join().expect("no panic").expect("an answer");
        assert_eq!(response.status, 408, "{response}");
    });
}

/// Keep-alive packets of the client do not extend the deadline.
fn shut_windows(server: &Server) {
    let client = kept_alive(server);
    let unread = client.try_begin(&Request::get("/large.bin")).expect("the first bytes");
    assert_eq!(end(&client), Ok(EXCESSIVE_LOAD));
    drop(unread);
}

/// The server does not know whether the client still exists.
fn shut_windows_and_silence(server: &Server) {
    let client = connect(server);
    let unread = client.try_begin(&Request::get("/large.bin")).expect("the first bytes");
    assert_eq!(end(&client), Err(ConnectionError::TimedOut));
    drop(unread);
}

/// A client that reads a little now and then does not stall, however long that takes.
fn slow_but_steady(server: &Server) {
    let client = connect(server);
    let mut rest = client.try_begin(&Request::get("/large.bin")).expect("the first bytes");
    let mut piece = vec![0; 16 << 10];
    for _ in 0..LONG_ROUNDS {
        thread::sleep(Duration::from_secs(1));
        let read = wait(rest.read_exact(&mut piece)).expect("in time");
        read.expect("more of the answer");
    }
    // An incomplete response has no end, but a reset.
    wait(rest.read_to_end(LARGE_BYTES)).expect("in time").expect("the rest");
    is_home(&client);
}
