//! Stalls over HTTP/1, plain and encrypted.

use super::{LARGE_BYTES, SLOW_ROUNDS, Stall, to_half};
use pinion_tests::PATIENCE;
use pinion_tests::client::Connection;
use pinion_tests::request::Request;
use pinion_tests::server::Server;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

pub(crate) const ALL: &[Stall] = &[
    idle_after_an_response,
    half_a_content,
    half_a_content_that_a_handler_waits_for,
    half_a_content_behind_half_a_response,
    half_a_head,
    half_a_head_after_a_response,
    unread_responses,
    slow_but_steady,
];

/// Connects with read timeouts that are longer than any timeout of the server.
fn patient(server: &Server) -> Connection {
    let connection = server.connect();
    connection.stream().set_read_timeout(Some(3 * PATIENCE)).expect("a socket");
    connection
}

/// Over TLS, the connection must end with close_notify (RFC 8446 §6.1): the client treats any other
/// end as an error.
fn idle_after_an_response(server: &Server) {
    let mut connection = patient(server);
    assert_eq!(connection.exchange(&Request::get("/")).text(), "home");
    connection.expect_close();
}

/// The server does not wait for the content of a request to a site: its response is sent at once.
fn half_a_content(server: &Server) {
    let mut connection = patient(server);
    connection.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n0123456789");
    assert_eq!(connection.receive().status, 405);
    connection.expect_close();
}

fn half_a_content_that_a_handler_waits_for(server: &Server) {
    let mut connection = patient(server);
    send_half(&mut connection, &to_half("/echo"));
    is_late(&mut connection);
}

/// The response cannot be completed, and must not look complete (RFC 9112 §8).
fn half_a_content_behind_half_a_response(server: &Server) {
    let mut connection = patient(server);
    send_half(&mut connection, &to_half("/begun"));
    let response = connection.try_receive(false);
    assert!(response.is_err(), "{response:?}");
}

fn send_half(connection: &mut Connection, request: &Request) {
    let half = request.body_bytes().len() / 2;
    connection.send([&request.head_bytes()[..], &request.body_bytes()[..half]].concat());
}

fn half_a_head(server: &Server) {
    let mut connection = patient(server);
    connection.send("GET / HTTP/1.1\r\nHo");
    is_late(&mut connection);
}

fn half_a_head_after_a_response(server: &Server) {
    let mut connection = patient(server);
    assert_eq!(connection.exchange(&Request::get("/")).text(), "home");
    connection.send("GET / HTTP/1.1\r\nHo");
    is_late(&mut connection);
}

/// Asserts that the connection ends with the response 408 (RFC 9110 §15.5.9).
#[track_caller]
fn is_late(connection: &mut Connection) {
    let response = connection.receive();
    assert_eq!(response.status, 408, "{response}");
    assert!(response.says_close(), "{response}");
    connection.expect_close();
}

/// The unread rest never arrives: the connection is reset, so that the kernel keeps no data for it
/// either.
fn unread_responses(server: &Server) {
    let mut connection = server.connect();
    connection.send(Request::get("/large.bin").bytes());
    connection.read_some(1000).expect("the first bytes");
    wait_for_reset(connection.stream());
    assert!(connection.try_receive(false).is_err(), "the rest of the answer");
}

pub(crate) fn unread_answers_on_a_unix_socket(path: &Path) {
    let mut stream = UnixStream::connect(path).expect("it listens");
    stream.write_all(&Request::get("/large.bin").bytes()).expect("sent");
    stream.read_exact(&mut [0; 1000]).expect("the first bytes");
    wait_for_reset(&stream);
    let mut rest = Vec::new();
    // Unlike TCP, a Unix socket keeps the bytes that arrived before its end.
    let _reset_or_ended = stream.read_to_end(&mut rest);
    assert!(rest.len() < LARGE_BYTES - 1000, "the whole answer");
}

/// Waits for the end of a connection without reading from it.
#[track_caller]
pub(crate) fn wait_for_reset(stream: impl AsFd) {
    let patience = Timespec { tv_sec: 3 * PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    // No event is requested, because an end is always reported.
    let mut polled = [PollFd::new(&stream, PollFlags::empty())];
    assert_eq!(poll(&mut polled, Some(&patience)), Ok(1), "it is not cut off");
    let events = polled[0].revents();
    assert!(events.intersects(PollFlags::HUP | PollFlags::ERR), "{events:?}");
}

/// A client that reads a little now and then does not stall, however long that takes.
fn slow_but_steady(server: &Server) {
    let mut connection = patient(server);
    connection.send(Request::get("/large.bin").bytes());
    for _ in 0..SLOW_ROUNDS {
        connection.read_some(128 << 10).expect("more of the answer");
        thread::sleep(Duration::from_secs(1));
    }
    assert_eq!(connection.receive().body.len(), LARGE_BYTES);
}
