//! A simulated client of HTTP/2: several requests at once, windows opened in small steps, streams
//! that are reset, and every way to leave. The [strict](crate::strict) client checks each frame;
//! the model of `request_model` has the expected response of each stream.

mod client_behaviours;

use pinion_engine::backend::sim::{Client as Connection, Connect, Network, Random, Read};
use pinion_engine::limits::{
    BODY_TIMEOUT_MS, HEAD_TIMEOUT_MS, IDLE_TIMEOUT_MS, SEND_STALL_MS, WINDOW_STALL_MS,
};

use crate::client::{Ending, Pace};
use crate::expected_responses::Expected;
use crate::request_model::{Kind, Request, Version};
use crate::scenario::{ALL, HTTP2, pace};
use crate::strict::{Client, End, Manner};

const INTERNAL_ERROR: u32 = 2;
/// A time that is never reached.
const NEVER_MS: u64 = u64::MAX;

/// Milliseconds after which a connection with a silent client is closed: the sum of all deadlines
/// that can follow each other.
const SILENCE_MS: u64 =
    HEAD_TIMEOUT_MS + BODY_TIMEOUT_MS + 2 * SEND_STALL_MS + WINDOW_STALL_MS + IDLE_TIMEOUT_MS;

/// The behaviour of a client.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) starts_after_ms: u64,
    pub(crate) connect: Connect,
    pub(crate) requests: Vec<Request>,
    /// Milliseconds until the content of each request begins to arrive; zero for requests without
    /// an entry.
    pub(crate) content_after_ms: &'static [u64],
    /// Sends content byte by byte with this many milliseconds between them, and continues after the
    /// response.
    pub(crate) content_gap_ms: Option<u64>,
    /// Requests that are open at once.
    pub(crate) at_once: usize,
    pub(crate) manner: Manner,
    /// Bytes by which it opens windows, if it does not return all bytes that it has read.
    pub(crate) drip_bytes: u32,
    /// Resets per thousand checks of a stream.
    pub(crate) resets_per_mille: u32,
    pub(crate) pace: Pace,
    pub(crate) ending: Ending,
    /// The connection must be closed this many milliseconds after it was accepted, whatever the
    /// client does.
    pub(crate) closed_within_ms: Option<u64>,
}

impl Plan {
    /// Returns a random plan.
    pub(crate) fn draw(random: &mut Random, id: u64) -> Plan {
        let pace = pace(random);
        let requests = (0..random.between(1, 12)).map(|n| request(random, id + n)).collect();
        // Smaller windows are an error of the client, which pays for them (RFC 9113 §10.5).
        let window_bytes = *random.pick(&[1100, 3000, 65_535, 1 << 20]);
        let after_bytes = random.below(6000) as usize;
        Plan {
            starts_after_ms: random.part_of(5000, 900) as u64,
            connect: Connect {
                listener: HTTP2,
                window_bytes: *random.pick(&[200, 3000, 64_000, 400_000]),
                local: random.chance(200),
                protected: false,
            },
            requests,
            content_after_ms: &[],
            content_gap_ms: None,
            at_once: random.between(1, 6) as usize,
            manner: Manner { window_bytes, gives_back: random.chance(600) },
            drip_bytes: random.between(700, 20_000) as u32,
            resets_per_mille: *random.pick(&[0, 0, 0, 20]),
            pace,
            ending: match random.below(10) {
                0..=4 => Ending::Leaves,
                5 => Ending::Stays,
                6 => Ending::Resets { after_bytes },
                7 => Ending::Quits { after_bytes },
                8 => Ending::Freezes { after_bytes },
                _ => Ending::StopsReading { after_bytes },
            },
            closed_within_ms: None,
        }
    }
}

/// Returns a request of HTTP/2 or HTTP/3: without the connection options of HTTP/1.
pub(crate) fn request(random: &mut Random, id: u64) -> Request {
    Request { version: Version::Stays, ..Request::draw(random, &ALL, id) }
}

/// A request of which at least the head was sent.
struct Asked {
    stream: u32,
    request: usize,
    asked_at_ms: u64,
    /// The time at which its content begins to arrive.
    content_from_ms: u64,
    ended_at_ms: Option<u64>,
    /// Bytes of its content that were sent.
    sent: usize,
    expected: Expected,
    /// Bytes of the response's content that were compared already.
    checked: usize,
}

/// A client in a run.
pub(crate) struct Actor {
    pub(crate) plan: Plan,
    /// The end of the pause between its actions.
    next_ms: Option<u64>,
    /// The time at which delayed content begins to arrive.
    content_at_ms: Option<u64>,
    client: Client,
    connection: Option<Connection>,
    asked: Vec<Asked>,
    sent_bytes: usize,
    read_bytes: usize,
    acted_at_ms: u64,
    /// How the connection ended for the client.
    saw: Option<Read>,
    is_gone: bool,
    is_frozen: bool,
}

impl Actor {
    pub(crate) fn new(plan: Plan, start_ms: u64) -> Actor {
        Actor {
            next_ms: Some(start_ms + plan.starts_after_ms),
            content_at_ms: None,
            client: Client::new(plan.manner),
            plan,
            connection: None,
            asked: Vec::new(),
            sent_bytes: 0,
            read_bytes: 0,
            acted_at_ms: 0,
            saw: None,
            is_gone: false,
            is_frozen: false,
        }
    }

    /// Returns the time of its next action without an event.
    pub(crate) fn wakes_at_ms(&self) -> Option<u64> {
        self.next_ms.or(self.content_at_ms)
    }

    /// Performs the actions that are possible now, then pauses.
    ///
    /// # Errors
    /// Returns the law that the server broke.
    pub(crate) fn act(&mut self, network: &Network, random: &mut Random) -> Result<(), String> {
        let now_ms = network.now().monotonic_ms;
        if self.is_gone || self.is_frozen || self.next_ms.is_some_and(|at| at > now_ms) {
            return Ok(());
        }
        let Some(connection) = self.connection else {
            let connection = network.connect(self.plan.connect);
            let Plan { ending, manner, pace, .. } = &self.plan;
            network.note(format_args!("{connection:?}: HTTP/2, {ending:?}, {manner:?}, {pace:?}"));
            self.connection = Some(connection);
            (self.next_ms, self.acted_at_ms) = (Some(now_ms), now_ms);
            return Ok(());
        };
        let mut moved = self.read(network, connection)?;
        if self.saw.is_none() {
            self.ask(network, random);
            self.reset_some(random);
            self.send_content(now_ms, random);
            self.open_windows(random);
            moved |= self.send(network, connection);
        }
        self.leave_if_done(network, connection);
        self.next_ms = None;
        let content_from_ms = self.asked.iter().map(|asked| asked.content_from_ms);
        let is_over = self.is_gone || self.is_frozen;
        let later = |at: &u64| !is_over && *at > now_ms && *at < NEVER_MS;
        self.content_at_ms = content_from_ms.filter(later).min();
        if moved {
            self.acted_at_ms = now_ms;
            let gap_ms = random.between(0, self.plan.pace.gap_ms);
            self.next_ms = (!is_over).then_some(now_ms + gap_ms);
        }
        Ok(())
    }

    fn read(&mut self, network: &Network, connection: Connection) -> Result<bool, String> {
        let max = match self.plan.ending {
            Ending::StopsReading { after_bytes } => after_bytes.saturating_sub(self.read_bytes),
            _ => usize::MAX,
        };
        let mut bytes = Vec::new();
        let read = network.read(connection, max.min(self.plan.pace.read_bytes), &mut bytes);
        match read {
            Read::Bytes(count) => {
                self.read_bytes += count;
                self.client.take(&bytes)?;
                self.look(network.now().monotonic_ms)?;
            }
            Read::Ended | Read::Reset => {
                self.saw.get_or_insert(read);
            }
            Read::Nothing => {}
        }
        Ok(matches!(read, Read::Bytes(_)))
    }

    /// Compares the received data with the model.
    fn look(&mut self, now_ms: u64) -> Result<(), String> {
        for asked in &mut self.asked {
            let request = &self.plan.requests[asked.request];
            let (stream, expected) = (&self.client.streams[&asked.stream], &asked.expected);
            let case = format!("stream {}, {:?}", asked.stream, request.kind);
            if stream.end.is_some() {
                asked.ended_at_ms.get_or_insert(now_ms);
            }
            if stream.status.is_some_and(|status| status != expected.status) {
                // The response is a page of the engine; the end of the run checks whether it is
                // allowed.
                continue;
            }
            let new = &stream.content[asked.checked..];
            let rest = expected.content.get(asked.checked..);
            if !rest.is_some_and(|rest| rest.starts_with(new)) {
                return Err(format!("{case}: wrong content"));
            }
            asked.checked = stream.content.len();
            if stream.end != Some(End::Whole) {
                continue;
            }
            let trailers = [("checked".to_owned(), "yes".to_owned())];
            let trailers = if expected.has_trailers { &trailers[..] } else { &[] };
            if expected.is_broken || stream.content.len() < expected.content.len() {
                return Err(format!("{case}: what is not whole looks complete"));
            }
            if stream.trailers != trailers {
                return Err(format!("{case}: trailers {:?}", stream.trailers));
            }
        }
        Ok(())
    }

    /// Begins requests while fewer are open than in the plan.
    fn ask(&mut self, network: &Network, random: &mut Random) {
        let is_leaving = !self.client.leaves.is_empty();
        while !is_leaving && self.asked.len() < self.plan.requests.len() {
            let open = self.client.streams.values().filter(|stream| stream.end.is_none()).count();
            if open >= self.plan.at_once {
                return;
            }
            let request = &self.plan.requests[self.asked.len()];
            let method = match (request.head_only, request.kind.has_content()) {
                (true, _) => "HEAD",
                (_, true) => "POST",
                _ => "GET",
            };
            let path = format!("/{}/{}/{}", request.kind.name(), request.id, request.size);
            let length = request.content.len().to_string();
            let mut fields = Vec::new();
            if request.kind.has_content() && request.chunks.is_none() {
                fields.push(("content-length", length.as_str()));
            }
            if request.expects {
                fields.push(("expect", "100-continue"));
            }
            let has_none = request.content.is_empty() && request.chunks.is_none();
            let end = !request.kind.has_content() || has_none && random.chance(500);
            let stream = self.client.request(method, &path, &fields, end);
            network.note(format_args!("{:?} asks {path} on {stream}", self.connection));
            let asked_at_ms = network.now().monotonic_ms;
            let after_ms = self.plan.content_after_ms.get(self.asked.len()).copied();
            let content_from_ms = asked_at_ms.saturating_add(after_ms.unwrap_or(0));
            self.asked.push(Asked {
                stream,
                request: self.asked.len(),
                asked_at_ms,
                content_from_ms,
                ended_at_ms: None,
                sent: 0,
                expected: Expected::of(request, content_from_ms < NEVER_MS),
                checked: 0,
            });
        }
    }

    fn reset_some(&mut self, random: &mut Random) {
        for asked in &self.asked {
            let is_open = self.client.streams[&asked.stream].end.is_none();
            if is_open && random.chance(self.plan.resets_per_mille) {
                self.client.reset(asked.stream);
            }
        }
    }

    /// Sends a piece of content on each stream that has some left.
    fn send_content(&mut self, now_ms: u64, random: &mut Random) {
        for asked in &mut self.asked {
            let request = &self.plan.requests[asked.request];
            let stream = &self.client.streams[&asked.stream];
            let comes = request.kind.has_content() && asked.content_from_ms <= now_ms;
            if let Some(gap_ms) = self.plan.content_gap_ms
                && comes
            {
                let byte = &request.content[asked.sent..=asked.sent];
                let before_response = self.client.data(asked.stream, byte, false);
                let behind_response = self.client.data_behind_response(asked.stream, 1);
                asked.sent += before_response + behind_response;
                asked.content_from_ms = now_ms + gap_ms;
                continue;
            }
            if stream.sent_end || stream.end.is_some() || !comes {
                continue;
            }
            let rest = &request.content[asked.sent..];
            let is_last = random.chance(300);
            let piece = if is_last { rest } else { &rest[..random.part_of(rest.len(), 500)] };
            let has_trailers = request.chunks.is_some();
            let end = piece.len() == rest.len() && !has_trailers && (is_last || rest.is_empty());
            asked.sent += self.client.data(asked.stream, piece, end);
            if has_trailers && asked.sent == request.content.len() {
                let fields = [("checked", "in"), ("host", "other")];
                self.client.trailers(asked.stream, &fields);
            }
        }
    }

    /// Opens the windows of one waiting stream, if read bytes are not returned anyway.
    fn open_windows(&mut self, random: &mut Random) {
        let waits = |asked: &&Asked| self.client.is_shut(asked.stream);
        let shut: Vec<u32> = self.asked.iter().filter(waits).map(|asked| asked.stream).collect();
        if !shut.is_empty() && !self.plan.manner.gives_back {
            self.client.open_window(*random.pick(&shut), self.plan.drip_bytes);
        }
    }

    fn send(&mut self, network: &Network, connection: Connection) -> bool {
        let most = match self.plan.ending {
            Ending::Resets { after_bytes }
            | Ending::Quits { after_bytes }
            | Ending::Freezes { after_bytes } => after_bytes.saturating_sub(self.sent_bytes),
            _ => usize::MAX,
        };
        let bytes = self.client.out.len().min(self.plan.pace.send_bytes).min(most);
        if bytes == 0 {
            return false;
        }
        let taken = network.send(connection, &self.client.out[..bytes]);
        self.client.out.drain(..taken);
        self.sent_bytes += taken;
        taken > 0
    }

    /// Returns whether all possible requests were sent and have their responses.
    fn is_done(&self) -> bool {
        let is_leaving = !self.client.leaves.is_empty();
        let has_asked = self.asked.len() == self.plan.requests.len() || is_leaving;
        has_asked && self.is_answered() && self.client.out.is_empty()
    }

    /// Returns whether all requests that the server accepts have their responses.
    fn is_answered(&self) -> bool {
        let last = self.client.leaves.last().map_or(u32::MAX, |(last, _)| *last);
        self.client.streams.iter().all(|(id, stream)| stream.end.is_some() || *id > last)
    }

    fn leave_if_done(&mut self, network: &Network, connection: Connection) {
        let has_sent = |after_bytes| self.sent_bytes >= after_bytes || self.is_done();
        match self.plan.ending {
            _ if self.saw.is_some() => network.leave(connection),
            Ending::Leaves | Ending::HalfCloses if self.is_done() => network.leave(connection),
            Ending::Resets { after_bytes } if has_sent(after_bytes) => network.reset(connection),
            Ending::Quits { after_bytes } if has_sent(after_bytes) => network.leave(connection),
            Ending::Freezes { after_bytes } if has_sent(after_bytes) => {
                self.is_frozen = true;
                return;
            }
            _ => return,
        }
        self.is_gone = true;
    }

    /// Returns whether it has no further actions that the run should wait for.
    pub(crate) fn is_over(&self) -> bool {
        self.is_gone || self.connection.is_some() && !self.plan.ending.is_fair()
    }

    /// Returns the number of complete responses.
    pub(crate) fn whole(&self) -> u64 {
        let whole = |asked: &&Asked| self.client.streams[&asked.stream].end == Some(End::Whole);
        self.asked.iter().filter(whole).count() as u64
    }

    /// Reads the remaining bytes at the end of the run.
    ///
    /// # Errors
    /// Returns the law that they break.
    pub(crate) fn read_rest(&mut self, network: &Network) -> Result<(), String> {
        if let (Some(connection), false, false) = (self.connection, self.is_gone, self.is_frozen) {
            while self.read(network, connection)? {}
        }
        Ok(())
    }

    /// Checks the laws over a whole run. `calm`: a response can be missing only because of the
    /// client. `slack_ms`: how late deadlines may be, unless the clock leaps.
    ///
    /// # Errors
    /// Returns the law that was broken.
    pub(crate) fn check(
        &self,
        network: &Network,
        calm: bool,
        slack_ms: Option<u64>,
    ) -> Result<(), String> {
        let Some(connection) = self.connection else { return Ok(()) };
        let facts = network.facts(connection);
        if let (Some(slack_ms), Some(attached_ms), Some(closed_ms)) =
            (slack_ms, facts.attached_at_ms, facts.closed_at_ms)
        {
            let quiet = [attached_ms, facts.taken_at_ms, facts.given_at_ms, self.acted_at_ms];
            let took = closed_ms.saturating_sub(quiet.into_iter().max().unwrap_or(0));
            if took > SILENCE_MS + slack_ms {
                return Err(format!("closed after {took} ms of silence"));
            }
            let open_ms = closed_ms - attached_ms;
            if self.plan.closed_within_ms.is_some_and(|limit| open_ms > limit + slack_ms) {
                return Err(format!("closed {open_ms} ms after it was taken"));
            }
        }
        if !calm || facts.hurt || !self.plan.ending.is_fair() {
            return Ok(());
        }
        if self.client.leaves.iter().any(|(_, code)| *code != 0) {
            return Err(format!("told {:?}: {}", self.client.leaves, self.state(network)));
        }
        if !self.is_answered() {
            return Err(format!("something was never answered: {}", self.state(network)));
        }
        for asked in &self.asked {
            let request = &self.plan.requests[asked.request];
            let (stream, expected) = (&self.client.streams[&asked.stream], &asked.expected);
            let is_right = match stream.end {
                Some(End::Whole) => stream.status == Some(expected.status),
                Some(End::Reset(code)) => {
                    let is_whole = stream.content.len() == expected.content.len();
                    let is_expected = expected.is_broken && code == INTERNAL_ERROR;
                    is_expected && (request.kind != Kind::Cut || is_whole)
                }
                Some(End::Left) | None => true,
            };
            if !is_right {
                return Err(format!("{request:?}: {stream:?}"));
            }
            let took_ms = asked.ended_at_ms.unwrap_or(u64::MAX) - asked.asked_at_ms;
            let most_ms = BODY_TIMEOUT_MS + 3 * self.plan.pace.gap_ms;
            let is_in_time = slack_ms.is_none_or(|slack_ms| took_ms <= most_ms + slack_ms);
            if asked.expected.status == 408 && !is_in_time {
                let kind = request.kind;
                return Err(format!("{kind:?}: content was waited for during {took_ms} ms"));
            }
        }
        Ok(())
    }

    /// Describes the state, for a message.
    pub(crate) fn state(&self, network: &Network) -> String {
        let facts = self.connection.map(|connection| network.facts(connection));
        let open = self.asked.iter().filter(|asked| {
            let last = self.client.leaves.last().map_or(u32::MAX, |(last, _)| *last);
            self.client.streams[&asked.stream].end.is_none() && asked.stream <= last
        });
        let open: Vec<_> = open
            .map(|asked| (asked.stream, self.plan.requests[asked.request].kind, asked.sent))
            .collect();
        let (asked, all) = (self.asked.len(), self.plan.requests.len());
        let Plan { ending, manner, pace, drip_bytes, .. } = &self.plan;
        format!(
            "\n  HTTP/2 {:?} {ending:?}, asked {asked} of {all}, open {open:?}, {manner:?}, \
             drips {drip_bytes}, {pace:?}, saw {:?}, {facts:?}",
            self.connection, self.saw
        )
    }
}
