//! A simulated client of HTTP/2: several requests at once, windows opened in drips, streams that
//! are reset, and every manner of leaving. The [strict](crate::strict) client checks each frame;
//! the model of `ask` says what each stream must get.

mod stories;

use pinion_engine::backend::sim::{Client as Connection, Connect, Network, Random, Read};
use pinion_engine::limits::{
    BODY_TIMEOUT_MS, HEAD_TIMEOUT_MS, IDLE_TIMEOUT_MS, SEND_STALL_MS, WINDOW_STALL_MS,
};

use crate::ask::{Kind, Request, Version};
use crate::client::{Ending, Pace};
use crate::expected::Expected;
use crate::scenario::{ALL, HTTP2, pace};
use crate::strict::{Client, End, Manner};

const INTERNAL_ERROR: u32 = 2;
/// When what never comes does.
const NEVER_MS: u64 = u64::MAX;

/// Milliseconds after which a connection is closed whose client has gone silent: what it may be
/// waited for, one after the other.
const SILENCE_MS: u64 =
    HEAD_TIMEOUT_MS + BODY_TIMEOUT_MS + 2 * SEND_STALL_MS + WINDOW_STALL_MS + IDLE_TIMEOUT_MS;

/// What a client does.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) starts_after_ms: u64,
    pub(crate) connect: Connect,
    pub(crate) requests: Vec<Request>,
    /// Milliseconds after which their content begins to come, at once unless it is said here.
    pub(crate) content_after_ms: &'static [u64],
    /// Sends content a byte at a time, each so many milliseconds after the last, and goes on behind
    /// the response.
    pub(crate) content_gap_ms: Option<u64>,
    /// Requests that are open at once.
    pub(crate) at_once: usize,
    pub(crate) manner: Manner,
    /// Bytes by which it opens windows, when it does not give back what it has read.
    pub(crate) drip_bytes: u32,
    /// Resets one in so many thousand of the streams it looks at.
    pub(crate) resets_per_mille: u32,
    pub(crate) pace: Pace,
    pub(crate) ending: Ending,
    /// Whatever it does, its connection is closed so many milliseconds after it was taken.
    pub(crate) closed_within_ms: Option<u64>,
}

impl Plan {
    /// A plan of chance.
    pub(crate) fn draw(random: &mut Random, id: u64) -> Plan {
        let pace = pace(random);
        let requests = (0..random.between(1, 12)).map(|n| request(random, id + n)).collect();
        // Smaller ones are a fault of the client, who pays for them (RFC 9113 §10.5).
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

/// A request as HTTP/2 and HTTP/3 have it: without what HTTP/1 says of the connection.
pub(crate) fn request(random: &mut Random, id: u64) -> Request {
    Request { version: Version::Stays, ..Request::draw(random, &ALL, id) }
}

/// A request that was sent, at least its head.
struct Asked {
    stream: u32,
    request: usize,
    asked_at_ms: u64,
    /// When its content begins to come.
    content_from_ms: u64,
    ended_at_ms: Option<u64>,
    /// Bytes of its content that were sent.
    sent: usize,
    expected: Expected,
    /// Bytes of the answer's content that were held against it.
    checked: usize,
}

/// A client in a run.
pub(crate) struct Actor {
    pub(crate) plan: Plan,
    /// Until when its pace makes it wait.
    next_ms: Option<u64>,
    /// When content begins to come that does not yet.
    content_at_ms: Option<u64>,
    client: Client,
    connection: Option<Connection>,
    asked: Vec<Asked>,
    sent_bytes: usize,
    read_bytes: usize,
    acted_at_ms: u64,
    /// How the connection ended for it.
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

    /// When it does something by itself.
    pub(crate) fn wakes_at_ms(&self) -> Option<u64> {
        self.next_ms.or(self.content_at_ms)
    }

    /// Does what it can do now, then its pace makes it wait.
    ///
    /// # Errors
    /// The law that the server broke.
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

    /// Holds what has come against the model.
    fn look(&mut self, now_ms: u64) -> Result<(), String> {
        for asked in &mut self.asked {
            let request = &self.plan.requests[asked.request];
            let (stream, expected) = (&self.client.streams[&asked.stream], &asked.expected);
            let what = format!("stream {}, {:?}", asked.stream, request.kind);
            if stream.end.is_some() {
                asked.ended_at_ms.get_or_insert(now_ms);
            }
            if stream.status.is_some_and(|status| status != expected.status) {
                // A page of the engine; whether it may say that is looked at in the end.
                continue;
            }
            let new = &stream.content[asked.checked..];
            let rest = expected.content.get(asked.checked..);
            if !rest.is_some_and(|rest| rest.starts_with(new)) {
                return Err(format!("{what}: wrong content"));
            }
            asked.checked = stream.content.len();
            if stream.end != Some(End::Whole) {
                continue;
            }
            let trailers = [("checked".to_owned(), "yes".to_owned())];
            let trailers = if expected.has_trailers { &trailers[..] } else { &[] };
            if expected.is_broken || stream.content.len() < expected.content.len() {
                return Err(format!("{what}: what is not whole looks complete"));
            }
            if stream.trailers != trailers {
                return Err(format!("{what}: trailers {:?}", stream.trailers));
            }
        }
        Ok(())
    }

    /// Begins requests while fewer are open than the plan says.
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

    /// A piece of content on each stream that has some left.
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

    /// Opens the windows of one stream that waits, if what was read is not given back anyway.
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

    /// All requests have been asked, or can be no more, and are answered.
    fn is_done(&self) -> bool {
        let is_leaving = !self.client.leaves.is_empty();
        let has_asked = self.asked.len() == self.plan.requests.len() || is_leaving;
        has_asked && self.is_answered() && self.client.out.is_empty()
    }

    /// All are answered that the server looks at.
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

    /// Whether it will do nothing more by itself that the run should wait for.
    pub(crate) fn is_over(&self) -> bool {
        self.is_gone || self.connection.is_some() && !self.plan.ending.is_fair()
    }

    /// Answers that came whole.
    pub(crate) fn whole(&self) -> u64 {
        let whole = |asked: &&Asked| self.client.streams[&asked.stream].end == Some(End::Whole);
        self.asked.iter().filter(whole).count() as u64
    }

    /// Reads what is still there when the run is over.
    ///
    /// # Errors
    /// When it is wrong.
    pub(crate) fn read_rest(&mut self, network: &Network) -> Result<(), String> {
        if let (Some(connection), false, false) = (self.connection, self.is_gone, self.is_frozen) {
            while self.read(network, connection)? {}
        }
        Ok(())
    }

    /// The laws over a whole run. `calm`: nothing but the client keeps an answer from it. What the
    /// clock may be late by, unless it leaps.
    ///
    /// # Errors
    /// The law that was broken.
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

    /// Where it is, for a message.
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
