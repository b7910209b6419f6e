//! The harness of the black-box tests in `tests/tests/black_box/`: it starts the real program and
//! communicates with it over its public interfaces only.
//!
//! | Module | Gives |
//! |---|---|
//! | [`binary`] | the executable under test |
//! | [`empty_root_filesystem`] | a file system with the program in it and nothing else |
//! | [`temporary_folder`] | folders that vanish after the test |
//! | [`server`] | a running server: started, listened to, stopped |
//! | [`store_client`] | a client of a store |
//! | [`fastcgi_application`] | an application behind FastCGI, which does what a test wants |
//! | [`floods`] | clients that make work without end |
//! | [`h3_errors`] | what a client of HTTP/3 must not do, and what has to come of it |
//! | [`reserved_port`] | ports that stay with a test while nothing listens on them |
//! | [`continuous_requests`] | requests without pause, none of which may fail |
//! | [`matrix`] | one case in every way a site can be served |
//! | [`memory_cgroup`] | programs with little memory |
//! | [`lua_script_site`] | sites that are one script |
//! | [`request`] | requests, as bytes |
//! | [`protocol`] | versions of HTTP, and what carries them |
//! | [`client`] | clients: requests in, answers out |
//! | [`response`] | answers, read with no mercy |
//! | [`response_invariants`] | the rules that every response of every test must obey |
//! | [`body`] | bodies that take work: noise, content codings, `multipart/byteranges` |
//! | [`notify_socket`] | what a server reports to its service manager |
//! | [`passed_sockets`] | sockets that a service manager passes |
//! | [`external_programs`] | programs of other people, run to their end |
//! | [`processes`] | processes as the kernel shows them |
//! | [`seccomp`] | programs to which the kernel refuses system calls |
//! | [`upstream`] | a server behind the server, which does what a test wants |
//! | [`datagram_relay`] | a way to a server that can be closed |
//! | [`delayed_network`] | a path to a server on which round trips are counted |
//! | [`tls_certificates`] | certificates made by openssl, and its client |
//! | [`why_comparison`] | `pinion why` beside a running server |
//! | [`systemd_units`] | what a unit of systemd says |
//! | [`browser`] | Chromium, and what it complains about |
//! | [`document_blocks`] | what documents have their readers do |
//!
//! Everything here panics when the server does something wrong; only [`client`] can return an error
//! instead, for tests in which connections may break. No wait is endless: every wait has the limit
//! [`PATIENCE`], which is so long that only a server that hangs reaches it.
#![forbid(unsafe_code)]

pub mod binary;
pub mod body;
pub mod browser;
pub mod client;
pub mod continuous_requests;
pub mod datagram_relay;
pub mod delayed_network;
pub mod document_blocks;
pub mod empty_root_filesystem;
pub mod external_programs;
pub mod fastcgi_application;
pub mod floods;
pub mod h3_errors;
pub mod lua_script_site;
pub mod matrix;
pub mod memory_cgroup;
pub mod notify_socket;
pub mod passed_sockets;
pub mod processes;
pub mod protocol;
pub mod request;
pub mod reserved_port;
pub mod response;
pub mod response_invariants;
pub mod seccomp;
pub mod server;
pub mod store_client;
pub mod systemd_units;
pub mod temporary_folder;
pub mod tls_certificates;
pub mod upstream;
pub mod why_comparison;

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
/// Panics if it has not by the end of [`PATIENCE`]; `condition` names the value.
#[track_caller]
pub fn wait_for<T>(condition: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    let reached = is_reached(|| {
        found = look();
        found.is_some()
    });
    assert!(reached, "waited in vain: {condition}");
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
