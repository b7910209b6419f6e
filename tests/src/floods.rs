//! Clients that cause work without end, at full speed: for tests of the reaction of the server, and
//! for benchmarks of the effect on other clients (`src/bin/flood.rs`).

mod h2;
mod h3;
mod handshakes;

use crate::PATIENCE;
use crate::client::byte_stream::Peer;
use crate::protocol::Protocol;
use std::io;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Connections that flood at the same time.
pub const ATTACKERS: usize = 4;

/// Number of connections of each attacker if no time is set.
const ROUNDS: u32 = 2;

/// Most bytes that an attacker without a set time sends on one connection: several times the limit
/// of any budget, and the size of the socket buffers in addition.
const ENOUGH_BYTES: u64 = 32 << 20;

/// How often such an attacker checks for input when it has nothing more to send.
const ENOUGH_LOOKS: u32 = 200;

/// A flood: the actions of a client on a connection, turn after turn.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    /// A short name of the repeated input.
    pub name: &'static str,
    /// The required outcome.
    pub outcome: Outcome,
    kind: Kind,
}

/// The transport and the input of a flood.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Frames of HTTP/2, until the function returns `None`.
    Http2(fn(u32) -> Option<Vec<u8>>),
    /// Streams and frames of HTTP/3.
    Http3(h3::Turn),
    /// First datagrams of QUIC.
    Handshakes,
}

/// Floods of HTTP/2.
pub const HTTP2: &[Flood] = h2::FLOODS;
/// Floods of HTTP/3, on completed connections.
pub const HTTP3: &[Flood] = h3::FLOODS;
/// Clients that begin a handshake over QUIC and never continue it, each with another connection ID.
pub const HANDSHAKES: Flood = borne("handshakes", Kind::Handshakes);

/// How an attack on one connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server closed it with ENHANCE_YOUR_CALM or H3_EXCESSIVE_LOAD.
    Calm,
    /// The server gave another reason.
    Other(u64),
    /// The server closed it without a reason, or refused the connection.
    Cut,
    /// Nothing happened within the patience of the tests, which is an error of the server.
    Hung,
    /// The attacker ended it.
    Left,
}

impl End {
    /// Returns the end of a connection that could not be opened, or broke.
    fn of(error: &io::Error) -> End {
        match error.kind() {
            // The error of a socket whose timeout has passed.
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => End::Hung,
            _ => End::Cut,
        }
    }
}

/// The required outcome of a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server ends every connection, and sends the reason while the client still reads.
    Calm,
    /// The flood may continue until a deadline ends it: the only requirement is that others are not
    /// affected.
    Borne,
}

const fn calm(name: &'static str, kind: Kind) -> Flood {
    Flood { name, outcome: Outcome::Calm, kind }
}

const fn borne(name: &'static str, kind: Kind) -> Flood {
    Flood { name, outcome: Outcome::Borne, kind }
}

/// Determines when an attacker leaves although it was not disconnected.
#[derive(Clone, Copy, Debug)]
pub struct Leave {
    until: Option<Instant>,
}

impl Leave {
    /// Leaves after this time; without a time, after a fixed number of bytes.
    pub fn after(time: Option<Duration>) -> Leave {
        Leave { until: time.map(|time| Instant::now() + time) }
    }

    fn is_now(self, sent_bytes: u64, vain_looks: u32) -> bool {
        match self.until {
            Some(until) => Instant::now() >= until,
            None => sent_bytes >= ENOUGH_BYTES || vain_looks >= ENOUGH_LOOKS,
        }
    }

    /// Returns how long an attacker may wait for one event.
    fn left(self) -> Duration {
        self.until.map_or(PATIENCE, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Returns whether an attacker with this many connections opens no further one.
    fn is_over(self, rounds: u32) -> bool {
        self.until.map_or(rounds >= ROUNDS, |until| Instant::now() >= until)
    }
}

impl Flood {
    /// Returns all floods with their protocols.
    pub fn all() -> impl Iterator<Item = (Protocol, &'static Flood)> {
        let over = |protocol, floods: &'static [Flood]| {
            floods.iter().map(move |flood: &'static Flood| (protocol, flood))
        };
        let http2 = over(Protocol::Http2, HTTP2).chain(over(Protocol::Http2Clear, HTTP2));
        http2.chain(over(Protocol::Http3, HTTP3)).chain(over(Protocol::Http3, &[HANDSHAKES]))
    }

    /// Floods a server on several connections at once. An attacker that is disconnected connects
    /// again, until it is time to leave. Returns how each connection ended.
    ///
    /// # Panics
    /// Panics if the flood does not fit the protocol of the peer.
    pub fn flood(&self, peer: &Peer, leave: Leave) -> Vec<End> {
        let ends = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..ATTACKERS {
                scope.spawn(|| {
                    for rounds in 0.. {
                        if leave.is_over(rounds) {
                            break;
                        }
                        let end = self.attack(peer, leave);
                        ends.lock().expect("no panic under the lock").push(end);
                    }
                });
            }
        });
        ends.into_inner().expect("no panic under the lock")
    }

    /// Floods on one connection until its end.
    fn attack(&self, peer: &Peer, leave: Leave) -> End {
        match self.kind {
            Kind::Http2(next) => h2::attack(next, peer, leave),
            Kind::Http3(turn) => h3::attack(turn, peer, leave),
            Kind::Handshakes => handshakes::attack(peer, leave),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_flood_has_a_name_of_its_own() {
        let mut seen = BTreeSet::new();
        for (protocol, flood) in Flood::all() {
            assert!(seen.insert((protocol.as_str(), flood.name)), "{} twice", flood.name);
        }
    }
}
