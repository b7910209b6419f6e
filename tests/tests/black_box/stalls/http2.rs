//! Stalls over HTTP/2, plain and encrypted. A stall of one request ends only that request; a stall
//! of the connection ends it, with GOAWAY first (RFC 9113 §5.4.1, §6.8).

use super::http1::wait_for_reset;
use super::{LARGE_BYTES, LONG_ROUNDS, Stall, to_half};
use pinion_tests::PATIENCE;
use pinion_tests::client::Broken;
use pinion_tests::client::http2::Http2;
use pinion_tests::request::Request;
use pinion_tests::server::Server;
use std::thread;
use std::time::Duration;

pub(crate) const ALL: &[Stall] = &[
    idle_after_an_response,
    idle_but_for_pings,
    half_a_frame,
    half_a_frame_behind_each_other,
    half_a_head,
    half_a_head_beside_a_request,
    half_a_content,
    half_a_content_behind_half_a_response,
    shut_windows,
    shut_windows_beside_pings,
    unread_responses,
    slow_but_steady,
];

/// RFC 9113 §7.
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u64 = 2;
const ENHANCE_YOUR_CALM: u32 = 11;
const ENHANCE_YOUR_CALM_CODE: u64 = ENHANCE_YOUR_CALM as u64;

/// The largest window (§6.9.1).
const WINDOW_MAX_BYTES: u32 = 0x7fff_ffff;
/// The window of every connection at the start (§6.9.2).
const WINDOW_DEFAULT_BYTES: u32 = 65_535;

/// Connects with read timeouts that are longer than any timeout of the server.
fn patient(server: &Server) -> Http2 {
    patiently(Http2::try_open(server.peer()).expect("a connection"))
}

fn patiently(client: Http2) -> Http2 {
    client.socket().set_read_timeout(Some(3 * PATIENCE)).expect("a socket");
    client
}

#[track_caller]
fn is_home(client: &mut Http2) {
    assert_eq!(client.try_exchange(&Request::get("/")).expect("an answer").text(), "home");
}

#[track_caller]
fn ends(client: &mut Http2, code: u32) {
    assert_eq!(client.try_end().expect("a word before the end"), code);
}

fn idle_after_an_response(server: &Server) {
    let mut client = patient(server);
    is_home(&mut client);
    ends(&mut client, NO_ERROR);
}

/// A connection without a request is idle, whatever other frames are sent on it.
fn idle_but_for_pings(server: &Server) {
    for_each_way_to_ping(|way| {
        let mut client = patient(server);
        is_home(&mut client);
        assert_eq!(left_beside_pings(&mut client, way), NO_ERROR);
    });
}

/// The number of pings at a time, and the number of their bytes that are sent at once.
type Pings = (usize, usize);

/// Sends pings one by one, several so that one arrives while the response to another is sent, and
/// in pieces.
fn for_each_way_to_ping(test: impl Fn(Pings) + Sync) {
    thread::scope(|scope| {
        for way in [(1, 17), (8, 17), (1, 9)] {
            let test = &test;
            scope.spawn(move || test(way));
        }
    });
}

/// Sends pings once a second until the server closes; returns its error code.
#[track_caller]
fn left_beside_pings(client: &mut Http2, (times, piece_bytes): Pings) -> u32 {
    let mut rounds = 0..LONG_ROUNDS;
    let broken = rounds.find_map(|_| {
        thread::sleep(Duration::from_secs(1));
        client.try_pings(times, piece_bytes).err()
    });
    match broken {
        Some(Broken::GivenUp(code)) => code.try_into().expect("32 bits"),
        other => panic!("with {times} at once in {piece_bytes} bytes it does not leave: {other:?}"),
    }
}

fn half_a_frame(server: &Server) {
    let mut client = patient(server);
    is_home(&mut client);
    client.send_half_frame(&Request::get("/"));
    ends(&mut client, ENHANCE_YOUR_CALM);
}

/// Responses to other frames extend no deadline.
fn half_a_frame_behind_each_other(server: &Server) {
    let mut client = patient(server);
    is_home(&mut client);
    client.begin_ping();
    let broken = (0..LONG_ROUNDS).find_map(|_| {
        thread::sleep(Duration::from_secs(1));
        client.try_ping_and_half().err()
    });
    assert!(matches!(broken, Some(Broken::GivenUp(ENHANCE_YOUR_CALM_CODE))), "{broken:?}");
}

/// All frames are complete, but the head is not: no other frame can come before its end (§6.10).
fn half_a_head(server: &Server) {
    let mut client = patient(server);
    is_home(&mut client);
    client.send_first_frame(&Request::get("/"));
    ends(&mut client, ENHANCE_YOUR_CALM);
}

fn half_a_head_beside_a_request(server: &Server) {
    let mut client = patient(server);
    client.try_send(&Request::get("/never")).expect("sent");
    client.send_first_frame(&Request::get("/"));
    ends(&mut client, ENHANCE_YOUR_CALM);
}

/// Other requests on the connection are not affected.
fn half_a_content(server: &Server) {
    let mut client = patient(server);
    let response = client.try_half_content(&to_half("/echo")).expect("an answer");
    assert_eq!(response.status, 408, "{response}");
    is_home(&mut client);
}

fn half_a_content_behind_half_a_response(server: &Server) {
    let mut client = patient(server);
    let broken = client.try_half_content(&to_half("/begun")).expect_err("half an answer");
    assert!(matches!(broken, Broken::Reset(INTERNAL_ERROR)), "{broken:?}");
    is_home(&mut client);
}

fn shut_windows(server: &Server) {
    let mut client = patient(server);
    client.try_begin(&Request::get("/large.bin")).expect("the first bytes");
    ends(&mut client, ENHANCE_YOUR_CALM);
}

fn shut_windows_beside_pings(server: &Server) {
    for_each_way_to_ping(|way| {
        let mut client = patient(server);
        client.try_begin(&Request::get("/large.bin")).expect("the first bytes");
        assert_eq!(left_beside_pings(&mut client, way), ENHANCE_YOUR_CALM);
    });
}

/// The windows are open, but the client does not read.
fn unread_responses(server: &Server) {
    let client = Http2::with_window(server.peer(), WINDOW_MAX_BYTES).expect("a connection");
    let mut client = patiently(client);
    client.let_through(WINDOW_MAX_BYTES - WINDOW_DEFAULT_BYTES);
    client.try_begin(&Request::get("/large.bin")).expect("the first bytes");
    wait_for_reset(client.socket());
    let broken = client.try_end().expect_err("the rest of the answer");
    assert!(matches!(broken, Broken::Failed(_) | Broken::Short(_)), "{broken:?}");
}

/// A client that opens the window a little now and then does not stall, however long that takes.
fn slow_but_steady(server: &Server) {
    const PIECE_BYTES: u32 = 16 << 10;
    let client = Http2::with_window(server.peer(), WINDOW_MAX_BYTES).expect("a connection");
    let mut client = patiently(client);
    client.try_send(&Request::get("/large.bin")).expect("sent");
    client.try_turns(WINDOW_DEFAULT_BYTES as usize).expect("the first bytes");
    for _ in 0..LONG_ROUNDS {
        thread::sleep(Duration::from_secs(1));
        client.let_through(PIECE_BYTES);
        client.try_turns(PIECE_BYTES as usize).expect("more of the answer");
    }
    client.let_through(WINDOW_MAX_BYTES);
    let had = WINDOW_DEFAULT_BYTES as usize + LONG_ROUNDS * PIECE_BYTES as usize;
    client.try_turns(LARGE_BYTES - had).expect("the rest of the answer");
    is_home(&mut client);
}
