//! A simulated client of HTTP/3: several requests at the same time, content in pieces, small
//! windows, streams that are reset or stopped, another address, and every way to leave. The [strict
//! client](client) checks each frame; the model of `request_model` has the expected response of
//! each stream.

mod client_behaviours;
pub(crate) mod strict_client;

use std::net::SocketAddr;
use std::time::Duration;

use pinion_engine::backend::sim::{Network, Random};
use pinion_engine::limits::{
    BODY_TIMEOUT_MS, HEAD_TIMEOUT_MS, IDLE_TIMEOUT_MS, SEND_STALL_MS, WINDOW_STALL_MS,
};
use pinion_engine::quic::simulated_sockets::SimulatedClient;
use quinn_proto::ConnectionError;

use crate::client::{Ending, Pace};
use crate::expected_responses::Expected;
use crate::http2_client::request;
use crate::request_model::Request;
use crate::scenario::pace;
use strict_client::{Client, End, INTERNAL_ERROR, NO_ERROR, transport};

/// A time for content that is never reached.
const NEVER_MS: u64 = u64::MAX;
/// The interval of PINGs of a client that has nothing else to send and whose address changes.
const KEEP_ALIVE_MS: u64 = 1_000;
/// Milliseconds after which a connection is closed whose client only keeps QUIC alive: the sum of
/// all deadlines that can follow each other.
const SILENCE_MS: u64 =
    HEAD_TIMEOUT_MS + BODY_TIMEOUT_MS + 2 * SEND_STALL_MS + WINDOW_STALL_MS + IDLE_TIMEOUT_MS;
/// Milliseconds after which a connection is closed whose client has vanished: the timeout of QUIC,
/// which begins again with the first PING, and the time for which QUIC keeps a closed connection.
const VANISHED_MS: u64 = 2 * IDLE_TIMEOUT_MS;

/// The behaviour of a client.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) starts_after_ms: u64,
    /// Whether its datagrams are neither lost nor damaged.
    pub(crate) protected: bool,
    /// The seed and the settings of its QUIC.
    pub(crate) quic: SimulatedClient,
    pub(crate) requests: Vec<Request>,
    /// Requests that are open at once.
    pub(crate) at_once: usize,
    /// Sends content byte by byte with this many milliseconds between them, and continues after the
    /// response; with [`NEVER_MS`] none of it.
    pub(crate) content_gap_ms: Option<u64>,
    /// Bytes that the server may send on a stream before they are read.
    pub(crate) window_bytes: u32,
    /// Resets per thousand checks of a stream; likewise for stops.
    pub(crate) resets_per_mille: u32,
    pub(crate) stops_per_mille: u32,
    /// Milliseconds after which its address changes, if ever.
    pub(crate) rebinds_after_ms: Option<u64>,
    pub(crate) pace: Pace,
    pub(crate) ending: Ending,
    /// The connection must be closed this many milliseconds after its begin, whatever the client
    /// does.
    pub(crate) closed_within_ms: Option<u64>,
}

impl Plan {
    /// Returns a random plan.
    pub(crate) fn draw(random: &mut Random, id: u64) -> Plan {
        let pace = pace(random);
        let requests = (0..random.between(1, 12)).map(|n| request(random, id + n)).collect();
        let after_bytes = *random.pick(&[0, 1, 3000]) * random.between(1, 2) as usize;
        Plan {
            starts_after_ms: random.part_of(5000, 900) as u64,
            protected: false,
            quic: SimulatedClient {
                seed: random.number(),
                hello_bytes: *random.pick(&[0, 200, 1500, 3000]),
                alpn: b"h3".to_vec(),
            },
            requests,
            at_once: random.between(1, 6) as usize,
            content_gap_ms: None,
            window_bytes: *random.pick(&[1100, 3000, 65_535, 1 << 20]),
            resets_per_mille: *random.pick(&[0, 0, 0, 20]),
            stops_per_mille: *random.pick(&[0, 0, 0, 20]),
            rebinds_after_ms: random.chance(100).then(|| random.below(3000)),
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

    /// Returns a client that behaves well, and whose datagrams all arrive.
    pub(crate) fn canary(random: &mut Random, id: u64) -> Plan {
        Plan {
            protected: true,
            resets_per_mille: 0,
            stops_per_mille: 0,
            rebinds_after_ms: None,
            ending: Ending::Leaves,
            ..Plan::draw(random, id)
        }
    }
}

/// A request that was begun.
struct Asked {
    stream: u64,
    request: usize,
    asked_at_ms: u64,
    /// The time of its next content.
    content_at_ms: u64,
    /// Bytes of its content that were sent.
    sent: usize,
    expected: Expected,
    /// Bytes of the response's content that were compared already.
    checked: usize,
    /// Whether the date of the response was checked.
    is_dated: bool,
}

/// Parameters of a run for the laws of a client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expectations {
    /// Whether a response can be missing only because of the client.
    pub(crate) calm: bool,
    /// Whether datagrams may be lost so often that a deadline passes.
    pub(crate) lossy: bool,
}

/// A client in a run.
pub(crate) struct Actor {
    pub(crate) plan: Plan,
    /// The end of the pause between its actions.
    next_ms: Option<u64>,
    /// The time of the next action of QUIC, in milliseconds.
    quic_at_ms: Option<u64>,
    rebinds_at_ms: Option<u64>,
    /// The time at which delayed content arrives.
    content_at_ms: Option<u64>,
    /// The times of the begin and the end of its connection.
    began_at_ms: u64,
    lost_at_ms: Option<u64>,
    client: Option<Client>,
    /// The address from which it has connected.
    pub(crate) address: Option<SocketAddr>,
    asked: Vec<Asked>,
    sent_bytes: usize,
    read_bytes: usize,
    acted_at_ms: u64,
    /// Whether there was nothing left to read at its last read.
    has_read: bool,
    /// Whether it has closed its connection, and continues with QUIC for a while.
    is_closing: bool,
    is_gone: bool,
    is_frozen: bool,
}

impl Actor {
    pub(crate) fn new(plan: Plan, start_ms: u64) -> Actor {
        Actor {
            next_ms: Some(start_ms + plan.starts_after_ms),
            quic_at_ms: None,
            rebinds_at_ms: plan.rebinds_after_ms.map(|ms| start_ms + plan.starts_after_ms + ms),
            plan,
            content_at_ms: None,
            began_at_ms: 0,
            lost_at_ms: None,
            client: None,
            address: None,
            asked: Vec::new(),
            sent_bytes: 0,
            read_bytes: 0,
            acted_at_ms: 0,
            has_read: false,
            is_closing: false,
            is_gone: false,
            is_frozen: false,
        }
    }

    /// Returns the time of its next action without an event.
    pub(crate) fn wakes_at_ms(&self, network: &Network) -> Option<u64> {
        if self.is_gone || self.is_frozen {
            return None;
        }
        let arrival = self.client.as_ref().and_then(|client| network.next_arrival_ms(client.peer));
        let all = [self.next_ms, self.quic_at_ms, self.rebinds_at_ms, self.content_at_ms, arrival];
        all.into_iter().flatten().min()
    }

    /// Performs the actions that are possible now. QUIC acts at once, and the client at its pace.
    ///
    /// # Errors
    /// Returns the law that the server broke.
    pub(crate) fn act(&mut self, network: &Network, random: &mut Random) -> Result<(), String> {
        let now_ms = network.now().monotonic_ms;
        if self.is_gone || self.is_frozen {
            return Ok(());
        }
        let is_paced = self.next_ms.is_some_and(|at| at > now_ms);
        let Some(mut client) = self.client.take() else {
            if !is_paced {
                self.begin(network, now_ms);
            }
            return Ok(());
        };
        let acted = self.act_on(&mut client, network, random, is_paced);
        self.quic_at_ms = client.wakes_at_ms(network);
        self.client = Some(client);
        acted
    }

    fn begin(&mut self, network: &Network, now_ms: u64) {
        let peer = network.bind(self.plan.protected);
        let Plan { ending, pace, window_bytes, quic, .. } = &self.plan;
        network.note(format_args!("{peer:?}: HTTP/3, {ending:?}, {window_bytes}, {pace:?}"));
        let idle = Duration::from_millis(IDLE_TIMEOUT_MS);
        let mut transport = transport(*window_bytes, idle);
        if self.plan.rebinds_after_ms.is_some() {
            // A server learns of a new address by datagrams from it: a client that only waits would
            // send none (RFC 9000 §10.1.2).
            transport.keep_alive_interval(Some(Duration::from_millis(KEEP_ALIVE_MS)));
        }
        let mut client = Client::connect(network, peer, quic, transport);
        client.transmit(network);
        self.quic_at_ms = client.wakes_at_ms(network);
        self.client = Some(client);
        self.address = Some(network.address(peer));
        (self.next_ms, self.acted_at_ms) = (None, now_ms);
        self.began_at_ms = now_ms;
    }

    fn act_on(
        &mut self,
        client: &mut Client,
        network: &Network,
        random: &mut Random,
        is_paced: bool,
    ) -> Result<(), String> {
        let now_ms = network.now().monotonic_ms;
        if self.rebinds_at_ms.is_some_and(|at| at <= now_ms) {
            self.rebinds_at_ms = None;
            network.rebind(client.peer);
        }
        client.receive(network)?;
        if client.lost.is_some() {
            self.lost_at_ms.get_or_insert(now_ms);
        }
        if !is_paced && client.is_connected() && !self.is_closing {
            let mut moved = self.read(client, network)?;
            self.has_read = !moved;
            if client.lost.is_none() {
                self.ask(client, network, random);
                self.end_some(client, random);
                self.send_content(client, now_ms, random);
                let written = client.write(self.sendable_bytes());
                self.sent_bytes += written;
                moved |= written > 0;
            }
            self.next_ms = None;
            if moved {
                self.acted_at_ms = now_ms;
                self.next_ms = Some(now_ms + random.between(0, self.plan.pace.gap_ms));
            }
        }
        if !is_paced && self.is_closing {
            self.next_ms = None;
        }
        let is_open = client.lost.is_none() && !self.is_closing;
        let content_at_ms = self.asked.iter().map(|asked| asked.content_at_ms);
        let later = |at: &u64| is_open && *at > now_ms && *at < NEVER_MS;
        self.content_at_ms = content_at_ms.filter(later).min();
        client.transmit(network);
        self.leave_if_done(client, network);
        Ok(())
    }

    fn read(&mut self, client: &mut Client, network: &Network) -> Result<bool, String> {
        let max = match self.plan.ending {
            Ending::StopsReading { after_bytes } => after_bytes.saturating_sub(self.read_bytes),
            _ => usize::MAX,
        };
        let count = client.read(max.min(self.plan.pace.read_bytes))?;
        self.read_bytes += count;
        self.look(client, network)?;
        Ok(count > 0)
    }

    /// Compares the received data with the model.
    fn look(&mut self, client: &Client, network: &Network) -> Result<(), String> {
        for asked in &mut self.asked {
            let request = &self.plan.requests[asked.request];
            let (stream, expected) = (&client.streams[&asked.stream], &asked.expected);
            let case = format!("stream {}, {:?}", asked.stream, request.kind);
            if stream.status.is_some() && !asked.is_dated {
                asked.is_dated = true;
                let date = stream.field("date").ok_or_else(|| format!("{case}: no date"))?;
                let second = pinion_http::date::parse(date.as_bytes(), 1_790_000_000);
                let showed = |second| network.showed(second, asked.asked_at_ms);
                if !second.is_some_and(showed) {
                    return Err(format!("{case}: a date that was never right: {date}"));
                }
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
            let trailers = expected.has_trailers.then_some(&trailers[..]);
            if expected.is_broken || stream.content.len() < expected.content.len() {
                return Err(format!("{case}: what is not whole looks complete"));
            }
            if stream.trailers.as_deref() != trailers {
                return Err(format!("{case}: trailers {:?}", stream.trailers));
            }
        }
        Ok(())
    }

    /// Begins requests while fewer are open than in the plan.
    fn ask(&mut self, client: &mut Client, network: &Network, random: &mut Random) {
        let is_leaving = !client.goaways.is_empty();
        let now_ms = network.now().monotonic_ms;
        while !is_leaving && self.asked.len() < self.plan.requests.len() {
            let open = client.streams.values().filter(|stream| stream.end.is_none()).count();
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
            let ends = !request.kind.has_content() || has_none && random.chance(500);
            let Some(stream) = client.request(method, &path, &fields, ends) else { return };
            network.note(format_args!("{:?} asks {path} on {stream}", client.peer));
            self.asked.push(Asked {
                stream,
                request: self.asked.len(),
                asked_at_ms: now_ms,
                content_at_ms: now_ms.saturating_add(self.plan.content_gap_ms.unwrap_or(0)),
                sent: 0,
                expected: Expected::of(request, true),
                checked: 0,
                is_dated: false,
            });
        }
    }

    /// Resets some streams, and stops some responses.
    fn end_some(&self, client: &mut Client, random: &mut Random) {
        for asked in &self.asked {
            if client.streams[&asked.stream].end.is_some() {
                continue;
            }
            if random.chance(self.plan.resets_per_mille) {
                client.leave_stream(asked.stream);
            } else if random.chance(self.plan.stops_per_mille) {
                client.stop_response(asked.stream);
            }
        }
    }

    /// Sends a piece of content on each stream that has some left.
    fn send_content(&mut self, client: &mut Client, now_ms: u64, random: &mut Random) {
        for asked in &mut self.asked {
            let request = &self.plan.requests[asked.request];
            if let Some(gap_ms) = self.plan.content_gap_ms {
                let is_due = asked.content_at_ms <= now_ms;
                if is_due && request.kind.has_content() && !client.is_asked_to_stop(asked.stream) {
                    client.data(asked.stream, &request.content[asked.sent..=asked.sent], false);
                    asked.sent += 1;
                    asked.content_at_ms = now_ms + gap_ms;
                }
                continue;
            }
            if !request.kind.has_content() || !client.takes_content(asked.stream) {
                continue;
            }
            let rest = &request.content[asked.sent..];
            let is_last = random.chance(300);
            let piece = if is_last { rest } else { &rest[..random.part_of(rest.len(), 500)] };
            let has_trailers = request.chunks.is_some();
            let ends = piece.len() == rest.len() && !has_trailers && (is_last || rest.is_empty());
            client.data(asked.stream, piece, ends);
            asked.sent += piece.len();
            if has_trailers && asked.sent == request.content.len() {
                let fields = [("checked", "in"), ("host", "other")];
                client.trailers(asked.stream, &fields);
            }
        }
    }

    /// Returns how many bytes may be sent on each stream now.
    fn sendable_bytes(&self) -> usize {
        let most = match self.plan.ending {
            Ending::Resets { after_bytes }
            | Ending::Quits { after_bytes }
            | Ending::Freezes { after_bytes } => after_bytes.saturating_sub(self.sent_bytes),
            _ => usize::MAX,
        };
        most.min(self.plan.pace.send_bytes)
    }

    /// Returns whether all possible requests were sent and have their responses.
    fn is_done(&self, client: &Client) -> bool {
        let is_leaving = !client.goaways.is_empty();
        let has_asked = self.asked.len() == self.plan.requests.len() || is_leaving;
        has_asked && is_answered(client) && client.has_written_all()
    }

    fn leave_if_done(&mut self, client: &mut Client, network: &Network) {
        if self.is_closing || client.lost.is_some() {
            // QUIC continues until it may forget the connection (RFC 9000 §10.2), and all received
            // data is read.
            let has_read = self.is_closing || self.has_read || !client.is_connected();
            if client.is_over() && has_read {
                self.is_gone = true;
                network.unbind(client.peer);
            }
            return;
        }
        let is_done = client.is_connected() && self.is_done(client);
        let has_sent = |after_bytes| self.sent_bytes >= after_bytes || is_done;
        match self.plan.ending {
            Ending::Leaves | Ending::HalfCloses if is_done => {}
            Ending::Resets { after_bytes } if has_sent(after_bytes) => {}
            Ending::Quits { after_bytes } if has_sent(after_bytes) => {
                network.unbind(client.peer);
                self.is_gone = true;
                return;
            }
            Ending::Freezes { after_bytes } if has_sent(after_bytes) => {
                self.is_frozen = true;
                return;
            }
            _ => return,
        }
        client.close(network);
        client.transmit(network);
        self.is_closing = true;
    }

    /// Returns whether it has no further actions that the run should wait for.
    pub(crate) fn is_over(&self) -> bool {
        self.is_gone || self.client.is_some() && !self.plan.ending.is_fair()
    }

    /// Returns the number of complete responses.
    pub(crate) fn whole(&self) -> u64 {
        let Some(client) = &self.client else { return 0 };
        let whole = |asked: &&Asked| client.streams[&asked.stream].end == Some(End::Whole);
        self.asked.iter().filter(whole).count() as u64
    }

    /// Checks whether the server has kept its connection for too long.
    ///
    /// # Errors
    /// Returns for how long.
    pub(crate) fn check_silence(&self, network: &Network, slack_ms: u64) -> Result<(), String> {
        let has_vanished = self.is_gone || self.is_frozen || self.is_closing;
        let most_ms = if has_vanished { VANISHED_MS } else { SILENCE_MS };
        let silent_ms = network.now().monotonic_ms - self.acted_at_ms;
        if silent_ms > most_ms + slack_ms {
            return Err(format!("not closed after {silent_ms} ms: {}", self.state()));
        }
        Ok(())
    }

    /// Checks the laws over a whole run.
    ///
    /// # Errors
    /// Returns the law that was broken.
    pub(crate) fn check(&self, expectations: Expectations) -> Result<(), String> {
        let Some(client) = &self.client else { return Ok(()) };
        let open_ms = self.lost_at_ms.map(|at| at - self.began_at_ms);
        let delay_at_random = |limit| open_ms.is_none_or(|open_ms| open_ms > limit);
        if self.plan.closed_within_ms.is_some_and(delay_at_random) {
            return Err(format!("closed after {open_ms:?} ms: {}", self.state()));
        }
        let is_hurt = expectations.lossy && !self.plan.protected;
        if !expectations.calm || is_hurt || !self.plan.ending.is_fair() {
            return Ok(());
        }
        let is_orderly = match &client.lost {
            None | Some(ConnectionError::LocallyClosed) => true,
            Some(ConnectionError::ApplicationClosed(close)) => {
                close.error_code.into_inner() == NO_ERROR
            }
            // The server is about to close a connection without requests.
            Some(ConnectionError::TimedOut) => self.is_done(client),
            Some(_) => false,
        };
        if !is_orderly || !client.is_connected() {
            return Err(format!("the connection ended: {}", self.state()));
        }
        if !is_answered(client) {
            return Err(format!("something was never answered: {}", self.state()));
        }
        for asked in &self.asked {
            let request = &self.plan.requests[asked.request];
            let (stream, expected) = (&client.streams[&asked.stream], &asked.expected);
            let is_right = match stream.end {
                Some(End::Whole) => stream.status == Some(expected.status),
                Some(End::Reset(code)) => {
                    let is_rejected = !client.is_accepted(asked.stream);
                    is_rejected || expected.is_broken && code == INTERNAL_ERROR
                }
                Some(End::Left) | None => true,
            };
            if !is_right {
                return Err(format!("{request:?}: {stream:?}"));
            }
        }
        Ok(())
    }

    /// Describes the state, for a message.
    pub(crate) fn state(&self) -> String {
        let Some(client) = &self.client else { return "\n  HTTP/3, not begun".to_owned() };
        let open = self.asked.iter().filter(|asked| {
            client.streams[&asked.stream].end.is_none() && client.is_accepted(asked.stream)
        });
        let open: Vec<_> = open
            .map(|asked| (asked.stream, self.plan.requests[asked.request].kind, asked.sent))
            .collect();
        let (asked, all) = (self.asked.len(), self.plan.requests.len());
        let Plan { ending, window_bytes, pace, protected, .. } = &self.plan;
        format!(
            "\n  HTTP/3 {:?} {ending:?}, asked {asked} of {all}, open {open:?}, window \
             {window_bytes}, {pace:?}, protected {protected}, connected {}, lost {:?}, acted at {}",
            client.peer,
            client.is_connected(),
            client.lost,
            self.acted_at_ms
        )
    }
}

/// Returns whether all requests that the server accepts have their responses.
fn is_answered(client: &Client) -> bool {
    let is_over = |(id, stream): (&u64, &strict_client::Stream)| {
        stream.end.is_some() || !client.is_accepted(*id)
    };
    client.streams.iter().all(is_over)
}
