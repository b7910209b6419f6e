//! The requests of one worker that are forwarded.
//!
//! The application begins a request with [`Proxy::begin`], and gives it the events of its exchange
//! ([`Proxy::event`]) and those of connections to upstream servers ([`Proxy::byte_stream_event`]).
//! After each of these it calls [`Proxy::flush`].
//!
//! | Module | Task |
//! |---|---|
//! | `forwarded_request` | one request: content to the server, the response to the client |
//! | `upstream_failover` | which server a request is sent to, and the next one on failure |
//! | `stored_upload` | content that is stored before a server is asked |
//! | `discarded_responses` | responses whose content is discarded |
//! | `health_checks` | requests that find out whether servers work |

mod discarded_responses;
mod forwarded_request;
mod health_checks;
mod open_counts;
mod stored_upload;
mod upstream_failover;

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use pinion_client::connection_pool::PoolSettings;
use pinion_client::http_client::request::OwnedFields;
use pinion_client::http_client::{HttpClient, HttpClientSettings, RequestId};
use pinion_client::resolver::Resolver;
use pinion_engine::Poster;
use pinion_engine::app::{ByteStreamEvent, Event};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::{Address, AddressMap};
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::refusal::Refusal;
use pinion_http::request_head::{Framing, RequestHead};
use rustc_hash::FxHashMap;

use crate::fastcgi_scgi_variables::forward_to_program;
use crate::limits::{REQUEST_PIECE_BYTES, UPSTREAM_TAG};
use crate::proxy_error::ProxyError;
use crate::request_forwarding::{forward, forwarded_trailers};
use crate::tunnels::Tunnels;
use crate::upstream_group::UpstreamGroup;
use crate::websocket_handshake::WebSocketHandshake;
use crate::x_sendfile::FileResponse;
use discarded_responses::DiscardedResponses;
use forwarded_request::ForwardedExchange;
use health_checks::HealthChecks;
pub use open_counts::ProxyHoldings;
pub use stored_upload::UploadQuotas;
use stored_upload::{StoredUpload, stored_upload_max_bytes};
pub use upstream_failover::ServerNews;
use upstream_failover::{Attempts, NextAttempt, Random, failure_of};

/// The requests of one worker that are forwarded.
pub struct Proxy {
    client: HttpClient,
    /// The name of this server in `Via`.
    pseudonym: Arc<str>,
    exchanges: AddressMap<ForwardedExchange>,
    /// The exchange of each request to an upstream server.
    requests: FxHashMap<RequestId, Address>,
    tunnels: Tunnels,
    health_checks: HealthChecks,
    discarded: DiscardedResponses,
    /// Servers whose state has changed.
    news: VecDeque<ServerNews>,
    /// Messages that applications have written to their error streams.
    messages: VecDeque<ApplicationMessage>,
    uploads: UploadQuotas,
    random: Random,
}

/// The settings that the proxies of all workers share.
#[derive(Clone)]
pub struct ProxySettings {
    /// Resolves the names of upstream servers.
    pub resolver: Resolver,
    /// The name of this server in `Via`: no other server has the same.
    pub pseudonym: Arc<str>,
    /// Most connections of a worker; further requests wait for one.
    pub connections_max: usize,
    /// The quotas of uploads that are stored before a server is asked.
    pub uploads: UploadQuotas,
}

/// A message that an application has written to its error stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationMessage {
    /// The server.
    pub server: Box<str>,
    /// Any bytes, perhaps of several lines.
    pub text: Box<[u8]>,
}

/// The way in which a forwarded request has ended.
#[derive(Debug, PartialEq)]
pub enum Ended {
    /// Its response was handed on.
    Answered {
        /// The status code.
        status: u16,
        /// Bytes of content.
        body_bytes: u64,
    },
    /// A file is sent in place of the content of the response. The application does that.
    File(Box<FileResponse>),
    /// There is no response. The application sends one for the error.
    Failed(ProxyError),
    /// The upstream server has failed in the middle of its response. The part that the client has
    /// does not look like a whole response.
    Aborted {
        /// The status code.
        status: u16,
        /// Bytes of content.
        body_bytes: u64,
        /// The failure.
        error: ProxyError,
    },
    /// The client has left, or its request was refused.
    Gone {
        /// The status code, if the head of the response was sent.
        status: Option<u16>,
        /// Bytes of content that were sent.
        body_bytes: u64,
    },
}

impl Proxy {
    /// Makes one for a worker, whose connections have [`UPSTREAM_TAG`].
    #[must_use]
    pub fn new(settings: &ProxySettings, poster: Poster, worker: u16) -> Self {
        let ProxySettings { resolver, pseudonym, connections_max, uploads } = settings;
        let connections_max = *connections_max;
        let settings = HttpClientSettings {
            // The operator has chosen the servers, so one of them may have all connections.
            pool: PoolSettings {
                connections_per_key_max: connections_max,
                connections_max,
                ..PoolSettings::default()
            },
            brotli_decoders_max: 0,
            first_tag: UPSTREAM_TAG,
            ..HttpClientSettings::default()
        };
        let resolver = resolver.clone();
        Self {
            client: HttpClient::new(resolver, settings, poster, worker),
            pseudonym: Arc::clone(pseudonym),
            exchanges: AddressMap::default(),
            requests: FxHashMap::default(),
            tunnels: Tunnels::default(),
            health_checks: HealthChecks::default(),
            discarded: DiscardedResponses::default(),
            news: VecDeque::new(),
            messages: VecDeque::new(),
            uploads: uploads.clone(),
            random: Random::new(RandomState::new().hash_one(worker)),
        }
    }

    /// Begins to forward a request. `defaults` are whole lines of fields that its response has
    /// unless the upstream server sets them.
    ///
    /// # Errors
    /// It cannot be forwarded. The application responds.
    pub fn begin(
        &mut self,
        group: &Arc<UpstreamGroup>,
        defaults: &Arc<[u8]>,
        client: &ClientIdentity,
        head: &RequestHead<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Result<(), ProxyError> {
        let handshake = WebSocketHandshake::of(head, random)?;
        let get = handshake.as_ref().map(|handshake| handshake.head(head));
        let head = get.as_ref().unwrap_or(head);
        let (now_ms, number) = (exchange.now().monotonic_ms, self.random.next());
        let attempts = Attempts::first(group, head, client, now_ms, number);
        let attempts = attempts.ok_or(ProxyError::NoServer)?;
        let upstream = attempts.server.upstream().ok_or(ProxyError::NoServer)?;
        let mut request = match &group.options.program {
            Some(program) => forward_to_program(upstream, group, program, head, client)?,
            None => forward(upstream, group, head, client, &self.pseudonym)?,
        };
        handshake.iter().for_each(|handshake| handshake.complete(&mut request));
        let offered = request.forwarded.as_ref().and_then(|one| one.upgrade.clone());
        let has_all_content = head.framing == Framing::None;
        let stored_max_bytes = stored_upload_max_bytes(&group.options, head.framing);
        let (id, upload) = match stored_max_bytes {
            Some(_) => {
                let upload = StoredUpload::new(request, &self.uploads);
                (RequestId::of_number(0), Some(upload))
            }
            None => {
                let started = self.client.start(request, now_ms);
                (started.map_err(|error| failure_of(&attempts.server, Arc::new(error)))?, None)
            }
        };
        exchange.wait(None);
        // The upstream server decides how much it takes, unless the content is stored.
        exchange.body_limit(stored_max_bytes.unwrap_or(u64::MAX));
        let address = exchange.address();
        if upload.is_some() {
            exchange.want(REQUEST_PIECE_BYTES);
        } else {
            self.requests.insert(id, address);
        }
        let forwarding = ForwardedExchange {
            id,
            attempts,
            upload,
            defaults: Arc::clone(defaults),
            offered,
            handshake,
            has_length: matches!(head.framing, Framing::Length(_)),
            wanted_bytes: 0,
            has_all_content,
            is_full: false,
            status: None,
            body_bytes: 0,
        };
        self.exchanges.insert(address, forwarding);
        Ok(())
    }

    /// Handles an event of an exchange. Returns how its request has ended, if it has; `None` also
    /// for an exchange that is not forwarded.
    pub fn event(&mut self, event: &Event<'_>, exchange: &mut Exchange<'_>) -> Option<Ended> {
        if self.tunnels.stream_event(event, exchange) {
            return None;
        }
        let address = exchange.address();
        let forwarding = self.exchanges.get_mut(&address)?;
        exchange.wait(None);
        match event {
            Event::Body(bytes) if forwarding.is_collecting() => {
                exchange.want(bytes.len() as u64);
                let upload = forwarding.upload.as_mut();
                let stored = upload.map(|upload| upload.append(bytes, &self.uploads));
                self.stored(address, stored.unwrap_or(Ok(())))
            }
            Event::BodyEnd(_) if forwarding.is_collecting() => {
                forwarding.has_all_content = true;
                self.collected(address, exchange)
            }
            Event::Body(bytes) => {
                forwarding.wanted_bytes =
                    forwarding.wanted_bytes.saturating_sub(bytes.len() as u64);
                self.client.write(forwarding.id, Some(bytes));
                self.go_on(address, exchange)
            }
            Event::BodyEnd(trailers) => {
                forwarding.has_all_content = true;
                let is_kept = !forwarding.has_length && !trailers.is_empty();
                let changes = &forwarding.attempts.server.group().options.request_fields;
                let trailers = if is_kept {
                    forwarded_trailers(*trailers, changes)
                } else {
                    OwnedFields::default()
                };
                self.client.write_end(forwarding.id, trailers);
                None
            }
            Event::Writable => {
                forwarding.is_full = false;
                self.go_on(address, exchange)
            }
            // With a length it would not have to be stored.
            Event::Refused(Refusal::ContentTooLarge) if forwarding.lacks_length() => {
                Some(self.failed(address, ProxyError::LengthRequired))
            }
            Event::Refused(_) | Event::Gone(_) => Some(self.left(address)),
            // A client that ends its side has left, as far as other proxies are concerned, too.
            Event::InputEnd => {
                exchange.abort();
                Some(self.left(address))
            }
            Event::Head(_) | Event::Posted(_) | Event::Deadline | Event::Stopping => None,
        }
    }

    /// Returns whether an exchange is forwarded, or is a tunnel.
    #[must_use]
    pub fn has(&self, address: Address) -> bool {
        self.exchanges.contains_key(&address) || self.tunnels.has_stream(address)
    }

    /// Handles an event on a connection to an upstream server.
    pub fn byte_stream_event(
        &mut self,
        event: &ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
    ) {
        let tag = stream.tag().unwrap_or_default();
        if !self.tunnels.upstream_event(tag, event, stream) {
            self.client.byte_stream_event(event, stream);
        }
    }

    /// Handles an event on the connection of a client. Returns false if no request on it was
    /// switched to another protocol.
    pub fn raw_of_client(
        &mut self,
        event: &ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
    ) -> bool {
        self.tunnels.client_event(event, stream)
    }

    /// Does the due work, and sends requests whose server names were resolved. Call it at the top
    /// of each pass.
    pub fn pass(&mut self, connections: &mut Connections<'_>) {
        let now_ms = connections.now().monotonic_ms;
        self.health_checks.pass(&mut self.client, now_ms);
        while let Some(id) = self.discarded.next_due(now_ms) {
            self.discard(id, now_ms);
        }
        self.client.pass(connections);
    }

    /// Checks the health of the servers of these groups from now on, and of no others. One worker
    /// does so for all.
    pub fn watch(&mut self, groups: impl Iterator<Item = Arc<UpstreamGroup>>) {
        self.health_checks.watch(groups, &mut self.client);
    }

    /// Returns a server whose state has changed, for the log.
    pub fn next_server_news(&mut self) -> Option<ServerNews> {
        self.news.pop_front()
    }

    /// Returns the next message that an application has written to its error stream, for the log.
    pub fn next_message(&mut self) -> Option<ApplicationMessage> {
        self.messages.pop_front()
    }

    /// Returns the time when [`Self::pass`] has something to do, in monotonic milliseconds.
    #[must_use]
    pub fn alarm_ms(&self) -> Option<u64> {
        let alarms =
            [self.client.alarm_ms(), self.health_checks.alarm_ms(), self.discarded.alarm_ms()];
        alarms.into_iter().flatten().min()
    }

    /// Stops with the server: connections are not kept any more for other requests.
    pub fn stop(&mut self) {
        self.health_checks.stop(&mut self.client);
        self.client.stop();
    }

    /// Returns whether [`Self::flush`], [`Self::next_server_news`] or [`Self::next_message`] has
    /// something to do.
    #[inline]
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.client.has_work() || !self.news.is_empty() || !self.messages.is_empty()
    }

    /// Passes on data from upstream servers. `ended` is called for each request that this ends,
    /// with its exchange.
    pub fn flush(
        &mut self,
        connections: &mut Connections<'_>,
        mut ended: impl FnMut(Ended, &mut Exchange<'_>),
    ) {
        while self.client.has_work() {
            self.client.flush(connections);
            while let Some(id) = self.client.next_news() {
                let Some(address) = self.requests.get(&id).copied() else {
                    self.news.extend(self.health_checks.news(id, &mut self.client));
                    self.discard(id, connections.now().monotonic_ms);
                    continue;
                };
                // Without an exchange its last event is on the way.
                if let Some(mut exchange) = connections.exchange(address)
                    && let Some(end) = self.go_on(address, &mut exchange)
                {
                    ended(end, &mut exchange);
                }
            }
        }
    }

    /// Continues an exchange in both directions, as far as there is room.
    fn go_on(&mut self, address: Address, exchange: &mut Exchange<'_>) -> Option<Ended> {
        let Self { client, exchanges, tunnels, news, messages, .. } = self;
        let forwarding = exchanges.get_mut(&address).filter(|one| !one.is_collecting())?;
        if let Err(error) = forwarding.take_content(client, exchange) {
            return Some(self.failed(address, ProxyError::Stored(error.to_string().into())));
        }
        let ended = forwarding.respond(client, tunnels, news, exchange);
        if forwarding.is_of_application() {
            messages.extend(forwarding.message(client));
        }
        let ended = ended?;
        let now_ms = exchange.now().monotonic_ms;
        if let Ended::File(_) = &ended {
            self.leave_response(address, now_ms);
            return Some(ended);
        }
        if let Ended::Failed(error) | Ended::Aborted { error, .. } = &ended {
            self.note_failure(address, error, now_ms);
        }
        let ended = match ended {
            Ended::Failed(error) => match self.try_another(address, &error, now_ms) {
                NextAttempt::Begun => return None,
                NextAttempt::None => Ended::Failed(error),
                NextAttempt::TooLate => {
                    let forwarding = self.exchanges.get(&address);
                    Ended::Failed(
                        forwarding.map_or(error.clone(), |one| one.attempts.timeout(&error)),
                    )
                }
            },
            ended => ended,
        };
        self.forget(address);
        Some(ended)
    }

    /// Ends a request of an exchange that has failed for good.
    fn failed(&mut self, address: Address, error: ProxyError) -> Ended {
        self.forget(address);
        Ended::Failed(error)
    }

    /// Ends the request of an exchange whose client has left.
    fn left(&mut self, address: Address) -> Ended {
        let forwarding = self.exchanges.get(&address);
        let (status, body_bytes) =
            forwarding.map_or((None, 0), |forwarding| (forwarding.status, forwarding.body_bytes));
        self.forget(address);
        Ended::Gone { status, body_bytes }
    }

    fn forget(&mut self, address: Address) {
        if let Some(forwarding) = self.exchanges.remove(&address) {
            self.requests.remove(&forwarding.id);
            self.client.close(forwarding.id);
        }
    }
}

/// Fills bytes of a key.
///
/// # Panics
/// When the system has no random bytes.
fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system has random bytes");
}
