//! The application: starts the requested requests, and records their outcomes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pinion_client::address_policy::{AddressPolicy, PrivateAddresses};
use pinion_client::connection_pool::{KeyLimits, PoolSettings};
use pinion_client::http_client::request::{
    ClientRequest, OwnedFields, ReadOutcome, RequestBody, ServerProtocol,
};
use pinion_client::http_client::{HttpClient, HttpClientSettings, RequestId};
use pinion_client::limits::{REDIRECTS_MAX, RESPONSE_MAX_BYTES};
use pinion_client::request_url::RequestUrl;
use pinion_client::resolver::{Resolver, ResolverSettings};
use pinion_engine::Poster;
use pinion_engine::app::{App, ByteStreamEvent, Event, Message};
use pinion_engine::backend::sim::Random;
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;

use crate::server::Behaviour;

/// Responses that are decoded from brotli at the same time: fewer than there are.
const BROTLI_DECODERS_MAX: usize = 2;

/// Milliseconds without progress after which a request ends.
pub(crate) const TIMEOUT_MS: u64 = 5_000;

/// A request that is to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) number: u64,
    pub(crate) behaviour: Behaviour,
    pub(crate) host: u8,
    pub(crate) method: &'static str,
    pub(crate) body: Vec<u8>,
    /// Whether the body is given in pieces.
    pub(crate) is_in_pieces: bool,
    /// Bytes that are read at once.
    pub(crate) piece: usize,
    /// Whether the application closes the request after some reads.
    pub(crate) is_closed_early: bool,
}

impl Asked {
    pub(crate) fn get(number: u64, behaviour: Behaviour) -> Self {
        let (method, body, piece) = ("GET", Vec::new(), 5000);
        let (is_in_pieces, is_closed_early) = (false, false);
        Self { number, behaviour, host: 1, method, body, is_in_pieces, piece, is_closed_early }
    }

    pub(crate) fn draw(number: u64, random: &mut Random) -> Self {
        let method = *random.pick(&["GET", "GET", "HEAD", "POST", "PUT"]);
        let body = match method {
            "POST" | "PUT" => vec![b'b'; random.below(20_000) as usize],
            _ => Vec::new(),
        };
        let behaviour = match *random.pick(&Behaviour::ALL) {
            // A response to HEAD has no content that could grow.
            Behaviour::Bomb if method == "HEAD" => Behaviour::Gzip,
            other => other,
        };
        Self {
            behaviour,
            method,
            body,
            // A body in pieces cannot be sent again.
            is_in_pieces: method == "POST" && random.chance(500),
            piece: random.between(1, 40_000) as usize,
            is_closed_early: random.chance(100),
            ..Self::get(number, Behaviour::Length)
        }
    }

    fn request(&self) -> ClientRequest {
        let port = self.behaviour.port();
        let url = format!("http://192.0.2.{}:{port}/{}", self.host, self.number);
        let networks = ["192.0.2.0/24".parse().expect("a network")];
        let policy = AddressPolicy::new(PrivateAddresses::Refused, networks, []);
        let mut fields = OwnedFields::default();
        fields.push(b"Authorization", b"secret");
        fields.push(b"Body-Bytes", self.body.len().to_string().as_bytes());
        let length = self.number.is_multiple_of(2).then_some(self.body.len() as u64);
        let content = if self.is_in_pieces {
            RequestBody::Pieces { length }
        } else {
            RequestBody::Whole(self.body.clone().into())
        };
        ClientRequest {
            site: 1,
            method: self.method.into(),
            url: RequestUrl::parse(&url).expect("a URL"),
            fields,
            content,
            policy: Arc::new(policy),
            tls: None,
            timeout_ms: TIMEOUT_MS,
            redirects_max: REDIRECTS_MAX,
            content_max_bytes: RESPONSE_MAX_BYTES,
            forwarded: None,
            protocol: ServerProtocol::Http,
            connections: KeyLimits::NONE,
        }
    }
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Complete { status: u16, content: Vec<u8> },
    Failed(String),
    Closed,
}

struct Reading {
    asked: Asked,
    /// The bytes of the body that were given; `None` when all of it was.
    given_bytes: Option<usize>,
    content: Vec<u8>,
    looks: u32,
}

/// The application, which owns the HTTP client.
pub(crate) struct Asker {
    pub(crate) client: HttpClient,
    pub(crate) outcomes: BTreeMap<u64, Outcome>,
    reading: HashMap<RequestId, Reading>,
    /// The times at which requests ended, in milliseconds.
    pub(crate) ended_ms: Vec<u64>,
    now_ms: u64,
    connections_max: usize,
}

impl Asker {
    pub(crate) fn new(poster: Poster, pool: PoolSettings) -> Self {
        let resolver = Resolver::new(ResolverSettings::default());
        let connections_max = pool.connections_per_key_max;
        let settings = HttpClientSettings {
            pool,
            brotli_decoders_max: BROTLI_DECODERS_MAX,
            ..HttpClientSettings::default()
        };
        let client = HttpClient::new(resolver, settings, poster, 0);
        let (outcomes, reading) = (BTreeMap::new(), HashMap::new());
        let ended_ms = Vec::new();
        Self { client, outcomes, reading, ended_ms, now_ms: 0, connections_max }
    }

    pub(crate) fn left(&self) -> Vec<u64> {
        self.reading.values().map(|reading| reading.asked.number).collect()
    }

    /// Ends all requests, and keeps no connection for others.
    pub(crate) fn end(&mut self) {
        let mut ids: Vec<_> = self.reading.keys().copied().collect();
        ids.sort();
        ids.into_iter().for_each(|id| self.over(id, Outcome::Closed));
        self.client.stop();
    }

    /// Processes all requests with news, and the pending actions on connections.
    fn look(&mut self, connections: &mut Connections<'_>) {
        self.now_ms = connections.now().monotonic_ms;
        loop {
            self.client.flush(connections);
            let Some(id) = self.client.next_news() else { break };
            self.look_at(id);
        }
        assert!(!self.client.has_work());
        let most = self.client.most_connections();
        assert!(most <= self.connections_max, "{most} connections to one server");
    }

    fn look_at(&mut self, id: RequestId) {
        let Some(reading) = self.reading.get_mut(&id) else { return };
        reading.looks += 1;
        if reading.asked.is_closed_early && reading.looks > 1 {
            return self.over(id, Outcome::Closed);
        }
        while let Some(given_bytes) = reading.given_bytes
            && self.client.takes_content(id)
        {
            let rest = &reading.asked.body[given_bytes..];
            let piece = &rest[..rest.len().min(reading.asked.piece)];
            reading.given_bytes = Some(given_bytes + piece.len()).filter(|_| !piece.is_empty());
            self.client.write(id, Some(piece).filter(|piece| !piece.is_empty()));
        }
        let status = match self.client.response(id) {
            Ok(None) => return,
            Ok(Some(response)) => response.status,
            Err(error) => return self.over(id, Outcome::Failed(error.to_string())),
        };
        loop {
            let content = &mut reading.content;
            let give = |bytes: &[u8]| content.extend_from_slice(bytes);
            match self.client.read(id, reading.asked.piece, give) {
                ReadOutcome::Pending => return,
                ReadOutcome::Bytes(bytes) => assert!(bytes <= reading.asked.piece),
                ReadOutcome::End => {
                    let content = std::mem::take(content);
                    return self.over(id, Outcome::Complete { status, content });
                }
                ReadOutcome::Failed(error) => {
                    return self.over(id, Outcome::Failed(error.to_string()));
                }
            }
        }
    }

    fn over(&mut self, id: RequestId, outcome: Outcome) {
        let reading = self.reading.remove(&id).expect("it is open");
        let number = reading.asked.number;
        self.client.close(id);
        self.ended_ms.push(self.now_ms);
        assert!(self.outcomes.insert(number, outcome).is_none(), "{number} has ended twice");
    }
}

impl App for Asker {
    fn exchange(&mut self, _: Event<'_>, exchange: &mut Exchange<'_>) {
        exchange.abort();
    }

    fn byte_stream_event(&mut self, event: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>) {
        self.client.byte_stream_event(&event, stream);
        self.look(&mut stream.connections());
    }

    fn pass(&mut self, connections: &mut Connections<'_>) {
        self.client.pass(connections);
        self.look(connections);
    }

    fn alarm_ms(&self) -> Option<u64> {
        self.client.alarm_ms()
    }

    fn posted(&mut self, message: Message, connections: &mut Connections<'_>) {
        let asked = *message.downcast::<Asked>().expect("a request");
        let now_ms = connections.now().monotonic_ms;
        match self.client.start(asked.request(), now_ms) {
            Ok(id) => {
                let given_bytes = asked.is_in_pieces.then_some(0);
                let reading = Reading { asked, given_bytes, content: Vec::new(), looks: 0 };
                self.reading.insert(id, reading);
            }
            Err(error) => {
                self.outcomes.insert(asked.number, Outcome::Failed(error.to_string()));
            }
        }
        self.look(connections);
    }
}
