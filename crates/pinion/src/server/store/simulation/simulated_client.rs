//! One client: the bytes it sends, when it reads, and how it leaves.

use pinion_engine::backend::sim::{Client, Connect, Network, Random, Read};
use pinion_store::store::Store;
use pinion_store::{OutputPart, ReplyOutput};

/// How long a client stops reading, in milliseconds: less than the server waits for it.
const FROZEN_MS: u64 = 10_000;

/// When a client leaves that never reads, in milliseconds: the server waits half as long for it.
const NEVER_READ_MS: u64 = 60_000;

/// How a client ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientEnding {
    /// It leaves when it has all replies.
    Waits,
    /// It ends its side after its commands, and reads the rest.
    HalfCloses,
    /// It leaves when it has sent so many bytes.
    Leaves(usize),
    /// It resets the connection then.
    Resets(usize),
    /// It reads nothing, and leaves when the server has given it up, or has not for a minute.
    NeverReads,
}

/// One client of the simulation.
pub(super) struct Actor {
    script: Vec<u8>,
    ending: ClientEnding,
    /// It stops reading for a while when it has received so many bytes.
    freezes: Option<usize>,
    /// The server has so little memory for buffers that it may cut the client.
    pub(super) may_be_cut: bool,
    window_bytes: usize,
    is_protected: bool,
    client: Option<Client>,
    sent: usize,
    received: Vec<u8>,
    /// The replies that a plain client would receive.
    expected: Vec<u8>,
    /// Whether the server closes the connection after these replies.
    is_closed_then: bool,
    thaws_ms: Option<u64>,
    is_over: bool,
}

impl Actor {
    pub(super) fn new(
        script: Vec<u8>,
        ending: ClientEnding,
        freezes: Option<usize>,
        window_bytes: usize,
        is_protected: bool,
    ) -> Self {
        Self {
            script,
            ending,
            freezes,
            may_be_cut: false,
            window_bytes,
            is_protected,
            client: None,
            sent: 0,
            received: Vec::new(),
            expected: Vec::new(),
            is_closed_then: false,
            thaws_ms: None,
            is_over: false,
        }
    }

    /// Connects, and computes the replies that a plain client of another store receives.
    pub(super) fn begin(&mut self, network: &Network, other: &Store) {
        let now_ms = network.now().unix_ms;
        let mut plain = pinion_store::client::Client::new(other, "plain", now_ms);
        let mut output = ReplyOutput::default();
        plain.receive(other, &self.script, now_ms, &mut output);
        plain.run_jobs(other, now_ms, &mut output);
        self.expected = bytes(&output);
        self.is_closed_then = plain.is_closing();
        plain.disconnect(other);
        if self.ending == ClientEnding::NeverReads {
            self.thaws_ms = Some(network.now().monotonic_ms + NEVER_READ_MS);
        }
        self.client = Some(network.connect(Connect {
            listener: 0,
            window_bytes: self.window_bytes,
            local: false,
            protected: self.is_protected,
        }));
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the time when it continues to read, in milliseconds.
    pub(super) fn thaws_ms(&self) -> Option<u64> {
        self.thaws_ms.filter(|_| !self.is_over)
    }

    /// Does the next steps that are possible now. Returns whether it has done any.
    ///
    /// # Errors
    /// The law that was broken.
    pub(super) fn act(
        &mut self,
        network: &Network,
        random: &mut Random,
        pieces: u32,
    ) -> Result<bool, String> {
        let Some(client) = self.client.filter(|_| !self.is_over) else { return Ok(false) };
        let has_sent = self.send(client, network, random, pieces);
        let has_read = self.read(client, network, random, pieces)?;
        Ok(has_sent || has_read || self.is_over)
    }

    fn send(
        &mut self,
        client: Client,
        network: &Network,
        random: &mut Random,
        pieces: u32,
    ) -> bool {
        let all = match self.ending {
            ClientEnding::Leaves(bytes) | ClientEnding::Resets(bytes) => {
                bytes.min(self.script.len())
            }
            _ => self.script.len(),
        };
        let before = self.sent;
        while self.sent < all {
            let part = random.part_of(all - self.sent, pieces);
            let taken = network.send(client, &self.script[self.sent..self.sent + part]);
            self.sent += taken;
            if taken == 0 || random.chance(pieces) {
                break;
            }
        }
        if self.sent == all {
            match self.ending {
                ClientEnding::Leaves(_) => network.leave(client),
                ClientEnding::Resets(_) => network.reset(client),
                ClientEnding::HalfCloses if before < all || all == 0 => network.end(client),
                _ => {}
            }
            self.is_over = matches!(self.ending, ClientEnding::Leaves(_) | ClientEnding::Resets(_));
        }
        self.sent > before
    }

    fn read(
        &mut self,
        client: Client,
        network: &Network,
        random: &mut Random,
        pieces: u32,
    ) -> Result<bool, String> {
        let now_ms = network.now().monotonic_ms;
        if self.is_over {
            return Ok(false);
        }
        if self.ending == ClientEnding::NeverReads {
            self.is_over = network.is_closed(client);
            if !self.is_over && self.thaws_ms.is_some_and(|leaves_ms| now_ms >= leaves_ms) {
                network.leave(client);
                self.is_over = true;
            }
            return Ok(false);
        }
        if self.thaws_ms.is_some_and(|thaws_ms| now_ms < thaws_ms) {
            return Ok(false);
        }
        self.thaws_ms = None;
        let mut has_read = false;
        loop {
            let most = random.part_of(64 * 1024, pieces);
            match network.read(client, most, &mut self.received) {
                Read::Bytes(_) => has_read = true,
                Read::Nothing => break,
                end @ (Read::Ended | Read::Reset) => {
                    self.is_over = true;
                    self.check(network.facts(client).hurt, end)?;
                    return Ok(true);
                }
            }
            if !self.expected.starts_with(&self.received) {
                return Err(self.shown());
            }
            if self.freezes.is_some_and(|bytes| self.received.len() > bytes) {
                self.freezes = None;
                self.thaws_ms = Some(now_ms + FROZEN_MS);
                break;
            }
            if random.chance(pieces) {
                break;
            }
        }
        let has_all = self.sent == self.script.len() && self.received.len() == self.expected.len();
        if has_all && self.ending == ClientEnding::Waits && !self.is_closed_then {
            network.leave(client);
            self.is_over = true;
        }
        Ok(has_read)
    }

    /// Checks the received replies after the connection has ended.
    fn check(&self, is_hurt: bool, end: Read) -> Result<(), String> {
        let may_end = self.is_closed_then || self.ending == ClientEnding::HalfCloses;
        let has_all = self.received.len() == self.expected.len();
        let is_cut = self.may_be_cut && end == Read::Reset;
        if is_hurt || is_cut || may_end && has_all && end == Read::Ended {
            return Ok(());
        }
        Err(format!("{end:?}; {}", self.shown()))
    }

    /// Returns how far it has come.
    pub(super) fn shown(&self) -> String {
        let same = self.received.iter().zip(&self.expected).take_while(|(one, other)| one == other);
        let same = same.count();
        let part = |bytes: &[u8]| {
            let from = same.saturating_sub(30).min(bytes.len());
            String::from_utf8_lossy(&bytes[from..bytes.len().min(same + 60)]).into_owned()
        };
        format!(
            "{:?}, {} of {} bytes sent, {} of {} received: {:?} for {:?}",
            self.ending,
            self.sent,
            self.script.len(),
            self.received.len(),
            self.expected.len(),
            part(&self.received),
            part(&self.expected),
        )
    }
}

/// Returns the bytes of replies.
pub(super) fn bytes(output: &ReplyOutput) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in output.parts() {
        match part {
            OutputPart::Bytes(part) => bytes.extend_from_slice(part),
            OutputPart::Shared(part) => bytes.extend_from_slice(part),
        }
    }
    bytes
}
