//! Clients that cause work without end, at full speed: others get their responses, the memory stays
//! below the limit that the server printed at start, and connections that exceed a budget are
//! closed with the reason and counted.
//!
//! A run is short, so that the code is always used; with the feature `long` each flood takes half a
//! minute.

mod bystanders;

use bystanders::Bystanders;
use pinion_tests::client::byte_stream::Peer;
use pinion_tests::floods::{ATTACKERS, End, Flood, HANDSHAKES, HTTP2, HTTP3, Leave, Outcome};
use pinion_tests::matrix::Io;
use pinion_tests::protocol::Protocol;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use rustix::process::Signal;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The duration of a flood; without one, each attacker makes a few connections.
const LONG: Option<Duration> =
    if cfg!(feature = "long") { Some(Duration::from_secs(30)) } else { None };

/// The number of attempts until a client receives the reason for its end: with much data on its
/// way, all clients of a few connections may miss it.
const TRIES: usize = 3;

/// A server with every kind of listener and small budgets.
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

    /// Runs floods one after the other, each while others send requests. At the end the server has
    /// counted the closed connections, and most clients have received the reason: the others had so
    /// much data on its way that the server did not wait for its end.
    #[track_caller]
    fn endure(self, floods: &[Flood], protocol: Protocol, io: Io) {
        let peer = self.peer(protocol);
        let (mut calm, mut cut, mut connections) = (0, 0, 0);
        for (at, flood) in floods.iter().enumerate() {
            let case = format!("{} over {protocol:?}, {io:?}", flood.name);
            progress(&format!("{}/{} {case}", at + 1, floods.len()));
            let mut calmed = 0;
            for _ in 0..TRIES {
                let ends = self.endure_one(&case, flood, &peer);
                connections += ends.len();
                if flood.outcome != Outcome::Calm {
                    break;
                }
                calmed += ends.iter().filter(|end| **end == End::Calm).count();
                cut += ends.iter().filter(|end| **end == End::Cut).count();
                if calmed > 0 {
                    break;
                }
            }
            assert!(calmed > 0 || flood.outcome != Outcome::Calm, "{case}: nobody was told");
            calm += calmed;
        }
        let ended = self.stop();
        let may_be = (calm + cut) as u64..=connections as u64;
        assert!(may_be.contains(&ended), "{ended} floods ended; {may_be:?} were told or cut");
        assert!(calm >= cut, "{calm} were told, {cut} were not");
    }

    /// Returns how the connections of one flood ended.
    #[track_caller]
    fn endure_one(&self, case: &str, flood: &Flood, peer: &Peer) -> Vec<End> {
        let ends = Bystanders::beside(self, || flood.flood(peer, Leave::after(LONG)));
        let count = |is_match: fn(&End) -> bool| ends.iter().filter(|end| is_match(end)).count();
        let calm = count(|end| *end == End::Calm);
        let cut = count(|end| *end == End::Cut);
        let left = count(|end| *end == End::Left);
        let hung = count(|end| *end == End::Hung);
        let summary = format!(
            "{case}: {} connections; {calm} calmed, {cut} cut, {left} left, {hung} hung, \
             others {:?}",
            ends.len(),
            ends.iter().find(|end| matches!(end, End::Other(_))),
        );
        eprintln!("{summary}");
        assert_eq!(hung, 0, "{summary}");
        match flood.outcome {
            Outcome::Calm => assert_eq!(calm + cut + left, ends.len(), "{summary}"),
            Outcome::Borne => return ends,
        }
        // The last connections are closed by the attackers at the end of the time.
        let leave_in_the_end = if LONG.is_some() { ATTACKERS } else { 0 };
        assert!(left <= leave_in_the_end, "{summary}");
        ends
    }

    /// Stops the server, and returns the number of connections that it reports as closed for a
    /// flood.
    #[track_caller]
    fn stop(self) -> u64 {
        let Served { mut server, .. } = self;
        server.signal(Signal::TERM);
        let status = server.wait();
        let stats = server.wait_for_line(0, |line| line.starts_with("stats after"));
        let said = server.lines().join("\n");
        assert!(status.success() && !said.contains("panicked"), "{status}: {said}");
        let (before, _) = stats.split_once(" flood").expect("the count of floods");
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

/// Reports the progress of long floods, whose output cargo would capture.
fn progress(case: &str) {
    if LONG.is_some() {
        let _nobody_looks = writeln!(io::stderr(), "flood {case}");
    }
}

/// Without TLS over one backend and with TLS over the other one; the feature `long` swaps them.
#[test]
fn floods_of_http2() {
    let protocols = [Protocol::Http2Clear, Protocol::Http2];
    for (nth_io, io) in Io::BOTH.into_iter().enumerate() {
        for (nth_protocol, protocol) in protocols.into_iter().enumerate() {
            if (nth_io == nth_protocol) == LONG.is_none() {
                Served::start(io).endure(HTTP2, protocol, io);
            }
        }
    }
}

#[test]
fn floods_of_http3() {
    for io in Io::BOTH {
        Served::start(io).endure(HTTP3, Protocol::Http3, io);
    }
}

#[test]
fn floods_of_handshakes() {
    for io in Io::BOTH {
        Served::start(io).endure(&[HANDSHAKES], Protocol::Http3, io);
    }
}
