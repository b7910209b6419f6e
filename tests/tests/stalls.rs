//! Clients that stop in the middle and stay: each of the long timeouts, over real sockets. They are
//! constants of 30 and 60 seconds, so this is a step of `cargo xtask test --long` only: feature
//! `long`. The timeout of heads, 10 seconds, is in `limits.rs`.
#![forbid(unsafe_code)]

use pinion_tests::PATIENCE;
use pinion_tests::client::Connection;
use pinion_tests::folder::Folder;
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, build};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// More than the buffers of both ends of a connection take.
const LARGE_BYTES: usize = 16 << 20;
/// Rounds of one second: longer than any answer of a slow client may stall.
const SLOW_ROUNDS: usize = 45;

#[test]
fn who_stops_in_the_middle_is_cut_off_and_nobody_else() {
    let folder = Folder::with("stalls", [("site/index.html", "home")]);
    folder.write("site/large.bin", vec![b'x'; LARGE_BYTES]);
    build(&folder.join("site"), &folder.join("site.pinion"), &[]);
    thread::scope(|scope| {
        for io in Io::BOTH {
            let folder = &folder;
            scope.spawn(move || all_at_once(io, folder));
        }
    });
}

/// On one worker, so that all of them meet.
fn all_at_once(io: Io, folder: &Folder) {
    let socket = folder.join(format!("{}.sock", io.as_str()));
    let listen = format!("unix:{}", socket.display());
    let flags = ["--io", io.as_str(), "--workers", "1", "--listen", &listen];
    let server = Start::serve(&[folder.join("site.pinion")]).flags(&flags).start();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let stalls = [
            scope.spawn(|| idle_after_an_answer(&server)),
            scope.spawn(|| half_a_content(&server)),
            scope.spawn(|| half_a_head_after_an_answer(&server)),
            scope.spawn(|| unread_answers(&server)),
            scope.spawn(|| unread_answers_on_a_unix_socket(&socket)),
            scope.spawn(|| slow_but_steady(&server)),
        ];
        scope.spawn(|| canary(&server, &over));
        let ends = stalls.map(thread::ScopedJoinHandle::join);
        over.store(true, Ordering::Relaxed);
        assert!(ends.iter().all(Result::is_ok), "{io:?}: see above");
    });
    server.stop();
}

/// Whose reads wait longer than any timeout of the server.
fn patient(server: &Server) -> Connection {
    let connection = server.connect();
    connection.stream().set_read_timeout(Some(3 * PATIENCE)).expect("a socket");
    connection
}

fn idle_after_an_answer(server: &Server) {
    let mut connection = patient(server);
    assert_eq!(connection.exchange(&Request::get("/")).text(), "home");
    connection.expect_close();
}

/// Nobody waits for the content of a request to a site: its answer is there at once.
fn half_a_content(server: &Server) {
    let mut connection = patient(server);
    connection.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n0123456789");
    assert_eq!(connection.receive().status, 405);
    connection.expect_close();
}

fn half_a_head_after_an_answer(server: &Server) {
    let mut connection = patient(server);
    assert_eq!(connection.exchange(&Request::get("/")).text(), "home");
    connection.send("GET / HTTP/1.1\r\nHo");
    let response = connection.receive();
    assert_eq!(response.status, 408, "{response}");
    assert!(response.says_close(), "{response}");
    connection.expect_close();
}

/// What it has not read does not come any more: the connection is reset, so that the kernel keeps
/// nothing for it either.
fn unread_answers(server: &Server) {
    let mut connection = server.connect();
    connection.send(Request::get("/large.bin").bytes());
    connection.read_some(1000).expect("the first bytes");
    wait_for_reset(connection.stream());
    assert!(connection.try_receive(false).is_err(), "the rest of the answer");
}

fn unread_answers_on_a_unix_socket(path: &Path) {
    let mut stream = UnixStream::connect(path).expect("it listens");
    stream.write_all(&Request::get("/large.bin").bytes()).expect("sent");
    stream.read_exact(&mut [0; 1000]).expect("the first bytes");
    wait_for_reset(&stream);
    let mut rest = Vec::new();
    // Unlike TCP, it leaves what had come before its end.
    let _reset_or_ended = stream.read_to_end(&mut rest);
    assert!(rest.len() < LARGE_BYTES - 1000, "the whole answer");
}

/// Waits for the end of a connection without reading from it.
#[track_caller]
fn wait_for_reset(stream: impl AsFd) {
    let patience = Timespec { tv_sec: 3 * PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    // Nothing is asked for: an end is told always.
    let mut polled = [PollFd::new(&stream, PollFlags::empty())];
    assert_eq!(poll(&mut polled, Some(&patience)), Ok(1), "it is not cut off");
    let told = polled[0].revents();
    assert!(told.intersects(PollFlags::HUP | PollFlags::ERR), "{told:?}");
}

/// Who takes a little now and then is no stall, however long it takes.
fn slow_but_steady(server: &Server) {
    let mut connection = patient(server);
    connection.send(Request::get("/large.bin").bytes());
    for _ in 0..SLOW_ROUNDS {
        connection.read_some(128 << 10).expect("more of the answer");
        thread::sleep(Duration::from_secs(1));
    }
    assert_eq!(connection.receive().body.len(), LARGE_BYTES);
}

/// Somebody who behaves, all the time.
fn canary(server: &Server, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let mut connection = server.connect();
        assert_eq!(connection.exchange(&Request::get("/")).text(), "home");
        assert_eq!(connection.exchange(&Request::head("/large.bin")).status, 200);
        thread::sleep(Duration::from_millis(20));
    }
}
