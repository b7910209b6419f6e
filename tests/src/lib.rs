//! The harness of the black-box tests in `tests/tests/black_box/`: it starts the real program and
//! communicates with it over its public interfaces only.
//!
//! | Module | Gives |
//! |---|---|
//! | [`binary`] | the executable under test |
//! | [`empty_root`] | a file system with the program in it and nothing else |
//! | [`folder`] | folders that vanish after the test |
//! | [`server`] | a running server: started, listened to, stopped |
//! | [`store_client`] | a client of a store |
//! | [`fastcgi`] | an application behind FastCGI, which does what a test wants |
//! | [`floods`] | clients that make work without end |
//! | [`h3_errors`] | what a client of HTTP/3 must not do, and what has to come of it |
//! | [`held_port`] | ports that stay with a test while nothing listens on them |
//! | [`load`] | requests without pause, none of which may fail |
//! | [`matrix`] | one case in every way a site can be served |
//! | [`memory_group`] | programs with little memory |
//! | [`script`] | sites that are one script |
//! | [`request`] | requests, as bytes |
//! | [`protocol`] | versions of HTTP, and what carries them |
//! | [`client`] | clients: requests in, answers out |
//! | [`response`] | answers, read with no mercy |
//! | [`law`] | what every response must obey, checked on every response of every test |
//! | [`body`] | bodies that take work: noise, content codings, `multipart/byteranges` |
//! | [`notify_socket`] | what a server reports to its service manager |
//! | [`passed_sockets`] | sockets that a service manager passes |
//! | [`peers`] | programs of other people, run to their end |
//! | [`processes`] | processes as the kernel shows them |
//! | [`seccomp`] | programs to which the kernel refuses system calls |
//! | [`upstream`] | a server behind the server, which does what a test wants |
//! | [`datagram_relay`] | a way to a server that can be closed |
//! | [`long_path`] | a path to a server on which round trips are counted |
//! | [`tls`] | certificates made by openssl, and its client |
//! | [`why`] | `pinion why` beside a running server |
//! | [`units`] | what a unit of systemd says |
//! | [`browser`] | Chromium, and what it complains about |
//! | [`blocks`] | what documents have their readers do |
//!
//! Everything here panics when the server does something wrong; only [`client`] can return an error
//! instead, for tests in which connections may break. No wait is endless: every wait has the limit
//! [`PATIENCE`], which is so long that only a server that hangs reaches it.
#![forbid(unsafe_code)]

pub mod binary;
pub mod blocks;
pub mod body;
pub mod browser;
pub mod client;
pub mod datagram_relay;
pub mod empty_root;
pub mod fastcgi;
pub mod floods;
pub mod folder;
pub mod h3_errors;
pub mod held_port;
pub mod law;
pub mod load;
pub mod long_path;
pub mod matrix;
pub mod memory_group;
pub mod notify_socket;
pub mod passed_sockets;
pub mod peers;
pub mod processes;
pub mod protocol;
pub mod request;
pub mod response;
pub mod script;
pub mod seccomp;
pub mod server;
pub mod store_client;
pub mod tls;
pub mod units;
pub mod upstream;
pub mod why;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The limit of all waits. It is no statement about speed: it only ends a wait for an event that
/// will never come. The tests of the feature `long` run together with floods that use all cores for
/// many minutes.
pub const PATIENCE: Duration = Duration::from_secs(if cfg!(feature = "long") { 600 } else { 60 });

/// Sets its flag when it is dropped, also by a panic, so that threads that wait for the flag end
/// with the test.
#[derive(Debug)]
pub struct SetAtEnd<'a>(pub &'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls `look` repeatedly until it returns a value.
///
/// # Panics
/// Panics if it has not by the end of [`PATIENCE`]; `what` names the value.
#[track_caller]
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    let reached = is_reached(|| {
        found = look();
        found.is_some()
    });
    assert!(reached, "waited in vain: {what}");
    found.expect("it was reached")
}

/// Checks a condition repeatedly until it holds; returns false if it does not by the end of
/// [`PATIENCE`].
pub fn is_reached(mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
