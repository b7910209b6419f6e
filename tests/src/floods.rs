//! Clients that make work without end, at full speed: for tests of what comes of it, and for the
//! bench of what others notice (`src/bin/flood.rs`).

mod h2;
mod h3;
mod handshakes;

use crate::PATIENCE;
use crate::client::wire::Peer;
use crate::protocol::Protocol;
use std::io;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Connections that flood at the same time.
pub const ATTACKERS: usize = 4;

/// How often each attacker comes when there is no time.
const ROUNDS: u32 = 2;

/// What an attacker without a time sends on one connection at most: several times what any of the
/// budgets allows, and what stands in sockets beside.
const ENOUGH_BYTES: u64 = 32 << 20;

/// How often such an attacker looks for something to come, when it has nothing more to say.
const ENOUGH_LOOKS: u32 = 200;

/// A flood: what a client does on a connection, turn after turn.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    /// What it is made of.
    pub name: &'static str,
    /// What has to come of it.
    pub outcome: Outcome,
    kind: Kind,
}

/// What it is carried by.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Frames of HTTP/2, until there is nothing more to say.
    Http2(fn(u32) -> Option<Vec<u8>>),
    /// Streams and frames of HTTP/3.
    Http3(h3::Turn),
    /// First datagrams of QUIC.
    Handshakes,
}

/// Floods of HTTP/2.
pub const HTTP2: &[Flood] = h2::FLOODS;
/// Floods of HTTP/3, which know that somebody is there.
pub const HTTP3: &[Flood] = h3::FLOODS;
/// Clients that begin to shake hands over QUIC and are not there, each under another name.
pub const HANDSHAKES: Flood = borne("handshakes", Kind::Handshakes);

/// How an attack on one connection came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server said that it was too much: ENHANCE_YOUR_CALM, or H3_EXCESSIVE_LOAD.
    Calm,
    /// The server gave another reason.
    Other(u64),
    /// The server ended it without a word, or did not let anybody in.
    Cut,
    /// Nothing went on for as long as anybody waits for anything: the fault of the server.
    Hung,
    /// The attacker had enough of it.
    Left,
}

impl End {
    /// What became of a connection that could not be opened, or broke.
    fn of(error: &io::Error) -> End {
        match error.kind() {
            // What a socket says whose time to wait is over.
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => End::Hung,
            _ => End::Cut,
        }
    }
}

/// What has to come of a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server ends every connection, and says why as long as somebody listens.
    Calm,
    /// It may go on until a deadline ends it: that others do not notice is all.
    Borne,
}

const fn calm(name: &'static str, kind: Kind) -> Flood {
    Flood { name, outcome: Outcome::Calm, kind }
}

const fn borne(name: &'static str, kind: Kind) -> Flood {
    Flood { name, outcome: Outcome::Borne, kind }
}

/// When an attacker leaves although it was not sent away.
#[derive(Clone, Copy, Debug)]
pub struct Leave {
    until: Option<Instant>,
}

impl Leave {
    /// When this time is over; when it has sent enough without one.
    pub fn after(time: Option<Duration>) -> Leave {
        Leave { until: time.map(|time| Instant::now() + time) }
    }

    fn is_now(self, sent_bytes: u64, vain_looks: u32) -> bool {
        match self.until {
            Some(until) => Instant::now() >= until,
            None => sent_bytes >= ENOUGH_BYTES || vain_looks >= ENOUGH_LOOKS,
        }
    }

    /// How long an attacker may wait for one thing.
    fn left(self) -> Duration {
        self.until.map_or(PATIENCE, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Whether an attacker that has come so often does not come again.
    fn is_over(self, rounds: u32) -> bool {
        self.until.map_or(rounds >= ROUNDS, |until| Instant::now() >= until)
    }
}

impl Flood {
    /// All floods, each with what it is carried by.
    pub fn all() -> impl Iterator<Item = (Protocol, &'static Flood)> {
        let over = |protocol, floods: &'static [Flood]| {
            floods.iter().map(move |flood: &'static Flood| (protocol, flood))
        };
        let http2 = over(Protocol::Http2, HTTP2).chain(over(Protocol::Http2Clear, HTTP2));
        http2.chain(over(Protocol::Http3, HTTP3)).chain(over(Protocol::Http3, &[HANDSHAKES]))
    }

    /// Floods a server on several connections at once. Whoever is sent away comes again, until it
    /// is time to leave. How each connection came to its end.
    ///
    /// # Panics
    /// When the flood is not one of what the peer speaks.
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
