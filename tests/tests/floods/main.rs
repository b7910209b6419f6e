//! Clients that make work without end, at full speed: whatever they do, others are answered, memory
//! stays under what the server told at start, and who goes too far is told so and counted.
//!
//! A run is short, so that the code is always used; with `long` each flood goes on for half a
//! minute.
#![forbid(unsafe_code)]

mod bystanders;
mod h2;
mod h3;
mod handshakes;

use bystanders::Bystanders;
use pinion_tests::client::wire::Peer;
use pinion_tests::folder::Folder;
use pinion_tests::matrix::Io;
use pinion_tests::protocol::Protocol;
use pinion_tests::server::{Server, Start};
use rustix::process::Signal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Connections that flood at the same time.
const ATTACKERS: usize = 4;

/// How long a flood goes on; without, each attacker comes a few times.
const LONG: Option<Duration> =
    if cfg!(feature = "long") { Some(Duration::from_secs(30)) } else { None };

/// How often each attacker comes when there is no time.
const ROUNDS: u32 = 2;

/// What an attacker without a time sends on one connection at most: several times what any of the
/// budgets allows, and what stands in sockets beside.
const ENOUGH_BYTES: u64 = 16 << 20;

/// How often such an attacker looks for something to come, when it has nothing more to say.
const ENOUGH_LOOKS: u32 = 200;

/// How an attack on one connection came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The server said that it was too much: ENHANCE_YOUR_CALM, or H3_EXCESSIVE_LOAD.
    Calm,
    /// The server gave another reason.
    Other(u64),
    /// The server ended it without a word, or did not let anybody in.
    Cut,
    /// The attacker had enough of it.
    Left,
}

/// What has to come of a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The server ends every connection, and says why as long as somebody listens.
    Calm,
    /// The server ends every connection, for this or for a fault that comes first.
    Ended,
    /// It may go on until a deadline ends it: that others do not notice is all.
    Borne,
}

/// When an attacker leaves although it was not sent away.
#[derive(Clone, Copy)]
struct Leave {
    until: Option<Instant>,
}

impl Leave {
    fn is_now(self, sent_bytes: u64, vain_looks: u32) -> bool {
        match self.until {
            Some(until) => Instant::now() >= until,
            None => sent_bytes >= ENOUGH_BYTES || vain_looks >= ENOUGH_LOOKS,
        }
    }
}

/// A server with every kind of listener and little to spend.
struct Served {
    server: Server,
    certificate: PathBuf,
    _files: Folder,
}

impl Served {
    fn start(io: Io) -> Served {
        let files = Folder::new("floods");
        files.write("site/index.html", "home");
        files.write("site/large.bin", vec![b'x'; 3 << 20]);
        let state = files.join("state");
        let start = Start::site(&files.join("site")).flags(&["--io", io.as_str()]);
        let start = start.flags(&["--max-connections", "200", "--memory-budget", "16"]);
        let start = start.flags(&["--workers", "2", "--stats", "86400", "--state"]);
        let start = start.flags(&[&state]).flags(&["--tls", "127.0.0.1:0"]);
        let server = start.flags(&["--quic", "127.0.0.1:0"]).start();
        let certificate = state.join("tls/self-signed-p256.crt");
        Served { server, certificate, _files: files }
    }

    fn peer(&self, protocol: Protocol) -> Peer {
        let address = match protocol {
            Protocol::Http1 | Protocol::Http2Clear => self.server.address(),
            Protocol::Http1Tls | Protocol::Http2 => self.server.address_of("https"),
            Protocol::Http3 => quic_address(&self.server),
        };
        Peer::new(address, protocol, Some(&self.certificate))
    }

    /// Has attackers attack while others ask. `attack` is one connection; it is told when to leave
    /// at the latest.
    #[track_caller]
    fn endure(&self, what: &str, outcome: Outcome, attack: impl Fn(Leave) -> End + Sync) {
        let ends = Bystanders::beside(self, || attackers(attack));
        let count = |is_it: fn(&End) -> bool| ends.iter().filter(|end| is_it(end)).count();
        let calm = count(|end| *end == End::Calm);
        let cut = count(|end| *end == End::Cut);
        let left = count(|end| *end == End::Left);
        let told = format!(
            "{what}: {} connections; {calm} calmed, {cut} cut, {left} left, others {:?}",
            ends.len(),
            ends.iter().find(|end| matches!(end, End::Other(_))),
        );
        eprintln!("{told}");
        match outcome {
            // What the server says is lost when more comes behind than it waits for.
            Outcome::Calm => assert!(calm > 0 && calm + cut + left == ends.len(), "{told}"),
            Outcome::Ended => {}
            Outcome::Borne => return,
        }
        // The last ones leave when the time is over.
        let leave_in_the_end = if LONG.is_some() { ATTACKERS } else { 0 };
        assert!(left <= leave_in_the_end, "{told}");
    }

    /// Stops it, and gives how many connections it says it has ended for a flood.
    #[track_caller]
    fn stop(self) -> u64 {
        let Served { mut server, .. } = self;
        server.signal(Signal::TERM);
        let status = server.wait();
        let stats = server.wait_for_line(0, |line| line.starts_with("stats after"));
        let said = server.lines().join("\n");
        assert!(status.success() && !said.contains("panicked"), "{status}: {said}");
        let (before, _) = stats.split_once(" floods ended").expect("the count of floods");
        let number = before.rsplit("; ").next().expect("a number");
        number.replace(' ', "").parse().unwrap_or_else(|_| panic!("{number:?} in {stats}"))
    }
}

fn quic_address(server: &Server) -> SocketAddr {
    const END: &str = "/ (HTTP/3)";
    let line = server.wait_for_line(0, |line| line.ends_with(END));
    let address = line.strip_suffix(END).and_then(|line| line.strip_prefix("listening https://"));
    address.expect("a URL").parse().expect("an address")
}

/// Attackers that come again and again, and how their connections ended.
fn attackers(attack: impl Fn(Leave) -> End + Sync) -> Vec<End> {
    let ends = Mutex::new(Vec::new());
    let leave = Leave { until: LONG.map(|long| Instant::now() + long) };
    thread::scope(|scope| {
        for _ in 0..ATTACKERS {
            scope.spawn(|| {
                for round in 0.. {
                    let is_over = match leave.until {
                        Some(until) => Instant::now() >= until,
                        None => round >= ROUNDS,
                    };
                    if is_over {
                        break;
                    }
                    let end = attack(leave);
                    ends.lock().expect("no panic under the lock").push(end);
                }
            });
        }
    });
    ends.into_inner().expect("no panic under the lock")
}

/// Without TLS over one backend and with TLS over the other one.
#[test]
fn floods_of_http2() {
    for (io, protocol) in Io::BOTH.into_iter().zip([Protocol::Http2Clear, Protocol::Http2]) {
        let served = Served::start(io);
        let peer = served.peer(protocol);
        for flood in h2::FLOODS {
            let what = format!("{} over {protocol:?}, {io:?}", flood.name);
            served.endure(&what, flood.outcome, |leave| flood.attack(&peer, leave));
        }
        let ended = served.stop();
        let least = h2::FLOODS.iter().filter(|flood| flood.outcome == Outcome::Calm).count();
        assert!(ended >= least as u64, "{ended} floods ended");
    }
}

#[test]
fn floods_of_http3() {
    for io in Io::BOTH {
        let served = Served::start(io);
        let peer = served.peer(Protocol::Http3);
        for flood in h3::FLOODS {
            let what = format!("{flood:?} over HTTP/3, {io:?}");
            served.endure(&what, flood.outcome(), |leave| flood.attack(&peer, leave));
        }
        let ended = served.stop();
        let least = h3::FLOODS.iter().filter(|flood| flood.outcome() == Outcome::Calm).count();
        assert!(ended >= least as u64, "{ended} floods ended");
    }
}

/// Clients that begin to shake hands over QUIC and are not there, each under another name.
#[test]
fn floods_of_handshakes() {
    for io in Io::BOTH {
        let served = Served::start(io);
        let peer = served.peer(Protocol::Http3);
        let what = format!("handshakes over QUIC, {io:?}");
        served.endure(&what, Outcome::Borne, |leave| handshakes::attack(&peer, leave));
        served.stop();
    }
}
