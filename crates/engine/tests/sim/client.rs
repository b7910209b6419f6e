//! A simulated client: its input for the server, its pace, its way to leave, and the received
//! bytes.

use pinion_engine::backend::sim::{Client, Connect, Network, Random, Read};

use crate::response_comparison::Reader;

/// The behaviour of a client after it has sent, or received, this much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Reads all responses, then closes.
    Leaves,
    /// Ends its side after the last byte and reads all responses.
    HalfCloses,
    /// Reads until the server closes, and sends nothing more.
    Stays,
    /// Resets when it has sent this many bytes.
    Resets { after_bytes: usize },
    /// Closes its socket when it has sent this many bytes, even if bytes are on their way.
    Quits { after_bytes: usize },
    /// Neither sends nor reads any more when it has sent this many bytes.
    Freezes { after_bytes: usize },
    /// Stops reading when it has read this many bytes, and continues to send.
    StopsReading { after_bytes: usize },
}

impl Ending {
    /// Returns whether a client gives the server the chance to send all responses.
    pub(crate) fn is_fair(self) -> bool {
        matches!(self, Self::Leaves | Self::HalfCloses | Self::Stays)
    }
}

/// How fast a client sends and reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) send_bytes: usize,
    pub(crate) read_bytes: usize,
    /// Milliseconds between two actions.
    pub(crate) gap_ms: u64,
}

/// The slowest way to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drip {
    /// The bytes before this offset are sent at the usual pace.
    pub(crate) from: usize,
    /// Milliseconds from each further byte to the next.
    pub(crate) gap_ms: u64,
}

/// The behaviour of a client.
pub(crate) struct Plan {
    pub(crate) connect: Connect,
    /// Milliseconds from the beginning of the run.
    pub(crate) starts_after_ms: u64,
    pub(crate) wire: Vec<u8>,
    /// The ends of its requests in `wire`.
    pub(crate) ends: Vec<usize>,
    /// Whether it sends a request only after the response to the previous one.
    pub(crate) in_turn: bool,
    pub(crate) pace: Pace,
    pub(crate) drip: Option<Drip>,
    pub(crate) ending: Ending,
    /// The connection must be closed this many milliseconds after it was accepted, whatever the
    /// client does.
    pub(crate) closed_within_ms: Option<u64>,
    pub(crate) reader: Reader,
}

impl Plan {
    /// Returns the first line of each request, for messages.
    fn first_lines(&self) -> impl Iterator<Item = String> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| {
            let line = self.wire[begin..*end].split(|&byte| byte == b'\r').next();
            String::from_utf8_lossy(line.unwrap_or_default()).chars().take(60).collect()
        })
    }

    /// Returns whether a client that has sent this many bytes is in the middle of a head.
    pub(crate) fn in_head(&self, sent: usize) -> bool {
        let request = self.begun(sent);
        !request.is_empty() && !request.windows(4).any(|four| four == b"\r\n\r\n")
    }

    /// Returns whether it is in the middle of content.
    pub(crate) fn in_content(&self, sent: usize) -> bool {
        !self.begun(sent).is_empty() && !self.in_head(sent)
    }

    /// Returns the sent part of an incomplete request.
    fn begun(&self, sent: usize) -> &[u8] {
        let from = self.ends.iter().rev().find(|end| **end <= sent).copied().unwrap_or(0);
        &self.wire[from..sent]
    }
}

/// The state of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    NotYet,
    Active,
    /// It has stopped, and its connection is still open.
    Frozen,
    /// It has closed, or its connection was closed.
    Gone,
}

/// A client in a run.
pub(crate) struct Actor {
    pub(crate) plan: Plan,
    pub(crate) state: State,
    /// Its connection, once it has one.
    pub(crate) client: Option<Client>,
    /// The time of its next action in milliseconds; `None` if it waits for an event.
    pub(crate) next_ms: Option<u64>,
    /// The time of its last action, in milliseconds.
    pub(crate) acted_at_ms: u64,
    pub(crate) sent: usize,
    connected_at_ms: u64,
    /// The time of the first byte of each request, in milliseconds.
    begun_at_ms: Vec<u64>,
    pub(crate) received: Vec<u8>,
    ended: bool,
    /// How the connection ended for the client.
    pub(crate) saw: Option<Read>,
}

impl Actor {
    pub(crate) fn new(plan: Plan, start_ms: u64) -> Self {
        Self {
            next_ms: Some(start_ms + plan.starts_after_ms),
            plan,
            state: State::NotYet,
            client: None,
            acted_at_ms: 0,
            connected_at_ms: 0,
            sent: 0,
            begun_at_ms: Vec::new(),
            received: Vec::new(),
            ended: false,
            saw: None,
        }
    }

    /// Performs at most one action that is possible now, then pauses.
    ///
    /// # Errors
    /// Returns an error in the received bytes.
    pub(crate) fn act(&mut self, network: &Network, random: &mut Random) -> Result<(), String> {
        let now_ms = network.now().monotonic_ms;
        let waits = self.next_ms.is_some_and(|at| at > now_ms);
        if waits || matches!(self.state, State::Frozen | State::Gone) {
            return Ok(());
        }
        let Some(client) = self.client else {
            let client = network.connect(self.plan.connect);
            network.note(format_args!("{client:?} will {:?}", self.plan.ending));
            for line in self.plan.first_lines() {
                network.note(format_args!("{client:?} will send {line}"));
            }
            self.client = Some(client);
            self.state = State::Active;
            self.next_ms = Some(now_ms);
            self.acted_at_ms = now_ms;
            self.connected_at_ms = now_ms;
            return Ok(());
        };
        let moved = self.read(network, client)? | self.send(network, client);
        self.leave_if_done(network, client);
        if moved {
            self.acted_at_ms = now_ms;
            let drips = self.plan.drip.filter(|drip| drip.from <= self.sent);
            let gap_ms = match drips {
                Some(drip) => drip.gap_ms,
                None => random.between(0, self.plan.pace.gap_ms),
            };
            self.next_ms = Some(now_ms + gap_ms);
        } else {
            self.next_ms = None;
        }
        if matches!(self.state, State::Frozen | State::Gone) {
            self.next_ms = None;
        }
        Ok(())
    }

    /// Returns the number of bytes that it sends before its ending begins.
    fn sends(&self) -> usize {
        match self.plan.ending {
            Ending::Resets { after_bytes }
            | Ending::Quits { after_bytes }
            | Ending::Freezes { after_bytes } => after_bytes.min(self.plan.wire.len()),
            _ => self.plan.wire.len(),
        }
    }

    fn read(&mut self, network: &Network, client: Client) -> Result<bool, String> {
        let max = match self.plan.ending {
            Ending::StopsReading { after_bytes } => after_bytes.saturating_sub(self.received.len()),
            _ => usize::MAX,
        };
        let max = max.min(self.plan.pace.read_bytes);
        let read = network.read(client, max, &mut self.received);
        match read {
            Read::Bytes(_) => {
                // A response without a request, such as the page for a silent client, was made at
                // some time of the connection.
                let since_ms =
                    |nth: usize| *self.begun_at_ms.get(nth).unwrap_or(&self.connected_at_ms);
                let was_right = |nth, second| network.showed(second, since_ms(nth));
                self.plan.reader.look(&self.received, &was_right)?;
                Ok(true)
            }
            Read::Nothing => Ok(false),
            Read::Ended if self.plan.reader.is_within(&self.received) => {
                Err("an orderly end in the middle of an answer".to_owned())
            }
            Read::Ended | Read::Reset => {
                self.saw.get_or_insert(read);
                Ok(false)
            }
        }
    }

    /// Reads the remaining bytes at the end of the run.
    ///
    /// # Errors
    /// Returns an error in them.
    pub(crate) fn read_rest(&mut self, network: &Network) -> Result<(), String> {
        if let (Some(client), State::Active) = (self.client, self.state) {
            while self.read(network, client)? {}
        }
        Ok(())
    }

    fn send(&mut self, network: &Network, client: Client) -> bool {
        if self.ended || self.saw.is_some() {
            return false;
        }
        let mut until = self.sends();
        if self.plan.in_turn {
            let turn = self.plan.reader.complete.min(self.plan.ends.len() - 1);
            until = until.min(self.plan.ends[turn]);
        }
        let send_bytes = match self.plan.drip {
            Some(drip) if drip.from <= self.sent => 1,
            Some(drip) => self.plan.pace.send_bytes.min(drip.from - self.sent),
            None => self.plan.pace.send_bytes,
        };
        let until = until.min(self.sent.saturating_add(send_bytes));
        if until <= self.sent {
            return false;
        }
        let taken = network.send(client, &self.plan.wire[self.sent..until]);
        self.sent += taken;
        let begun = match self.sent {
            0 => 0,
            sent => 1 + self.plan.ends.partition_point(|end| *end < sent),
        };
        self.begun_at_ms.resize(begun.max(self.begun_at_ms.len()), network.now().monotonic_ms);
        taken > 0
    }

    fn leave_if_done(&mut self, network: &Network, client: Client) {
        let all_sent = self.sent >= self.sends();
        match self.plan.ending {
            _ if self.saw.is_some() => {
                network.leave(client);
                self.state = State::Gone;
            }
            Ending::Leaves => {
                let reader = &self.plan.reader;
                if all_sent && reader.complete == reader.expected() && !reader.over {
                    network.leave(client);
                    self.state = State::Gone;
                }
            }
            Ending::HalfCloses => {
                if all_sent && !self.ended {
                    self.ended = true;
                    network.end(client);
                }
            }
            Ending::Stays | Ending::StopsReading { .. } => {}
            Ending::Resets { .. } if all_sent => {
                network.reset(client);
                self.state = State::Gone;
            }
            Ending::Quits { .. } if all_sent => {
                network.leave(client);
                self.state = State::Gone;
            }
            Ending::Freezes { .. } if all_sent => self.state = State::Frozen,
            Ending::Resets { .. } | Ending::Quits { .. } | Ending::Freezes { .. } => {}
        }
    }
}
