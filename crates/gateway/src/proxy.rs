//! The requests of one worker that are forwarded.
//!
//! The application begins a request with [`Proxy::begin`], and gives it the events of its exchange
//! ([`Proxy::event`]) and those of connections to upstream servers ([`Proxy::byte_stream_event`]).
//! After each of these it calls [`Proxy::flush`].
//!
//! | Module | Task |
//! |---|---|
//! | `upstream_failover` | which server a request is sent to, and the next one on failure |
//! | `stored_upload` | content that is stored before a server is asked |
//! | `discarded_responses` | responses whose content is discarded |
//! | `health_checks` | requests that find out whether servers work |

mod discarded_responses;
mod health_checks;
mod open_counts;
mod stored_upload;
mod upstream_failover;

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use pinion_client::connection_pool::PoolSettings;
use pinion_client::http_client::error::HttpClientError;
use pinion_client::http_client::request::{OwnedFields, ReadOutcome, ResponseStart};
use pinion_client::http_client::{HttpClient, HttpClientSettings, RequestId};
use pinion_client::resolver::Resolver;
use pinion_engine::Poster;
use pinion_engine::app::{ByteStreamEvent, Event};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::{ContentRoom, Exchange, Slice};
use pinion_engine::exchange_address::{Address, AddressMap};
use pinion_http::field::Field;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::h1::client::response_error::ResponseError;
use pinion_http::refusal::Refusal;
use pinion_http::request_head::{Framing, RequestHead};
use pinion_jobs::upload_spool::StoreError;
use rustc_hash::FxHashMap;

use crate::fastcgi_scgi_variables::forward_to_program;
use crate::field_changes::FieldChanges;
use crate::limits::{REQUEST_PIECE_BYTES, RESPONSE_PIECE_BYTES, UPSTREAM_TAG};
use crate::proxy_error::ProxyError;
use crate::request_forwarding::{forward, forwarded_trailers};
use crate::response_forwarding::{
    ResponseChanges, forwarded, forwarded_interim, location_for_client,
};
use crate::tunnels::Tunnels;
use crate::upstream_group::{UpstreamGroup, UpstreamOptions};
use crate::websocket_handshake::WebSocketHandshake;
use crate::x_sendfile::FileResponse;
use discarded_responses::DiscardedResponses;
use health_checks::HealthChecks;
pub use open_counts::ProxyHoldings;
use stored_upload::StoredUpload;
pub use stored_upload::UploadQuotas;
pub use upstream_failover::ServerNews;
use upstream_failover::{Attempts, NextAttempt, Random, failure_of};

/// The requests of one worker that are forwarded.
pub struct Proxy {
    client: HttpClient,
    /// The name of this server in `Via`.
    pseudonym: Arc<str>,
    exchanges: AddressMap<Forwarding>,
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

/// A request that is forwarded.
struct Forwarding {
    /// Not valid as long as [`Self::upload`] is collected.
    id: RequestId,
    attempts: Attempts,
    /// Content that is stored before a server is asked.
    upload: Option<StoredUpload>,
    /// Lines of fields that the response has unless the upstream server sets them.
    defaults: Arc<[u8]>,
    /// The protocols that the client would switch to.
    offered: Option<Box<str>>,
    /// The handshake with the upstream server for the extended CONNECT of the client.
    handshake: Option<WebSocketHandshake>,
    /// The content has a length that the client has announced.
    has_length: bool,
    /// Bytes of content that were asked for and have not come.
    wanted_bytes: u64,
    /// All content of the request has come, or it has none.
    has_all_content: bool,
    /// Enough of the response waits for the client: nothing is read of it until there is room.
    is_full: bool,
    /// The status of the response whose head was sent.
    status: Option<u16>,
    /// Bytes of content that were sent.
    body_bytes: u64,
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
        let forwarding = Forwarding {
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

    /// Continues after a piece of content was stored, or could not be.
    fn stored(&mut self, address: Address, stored: Result<(), StoreError>) -> Option<Ended> {
        let error = match stored.err()? {
            StoreError::Full(why) => ProxyError::StorageFull(why.into()),
            StoreError::Io(error) => ProxyError::Stored(error.to_string().into()),
        };
        Some(self.failed(address, error))
    }

    /// Continues after all content of an exchange is stored: its server is asked.
    fn collected(&mut self, address: Address, exchange: &mut Exchange<'_>) -> Option<Ended> {
        let forwarding = self.exchanges.get_mut(&address)?;
        let finished = forwarding.upload.as_mut().map(StoredUpload::finish)?;
        let request = match finished {
            Ok(request) => request?,
            Err(error) => return self.stored(address, Err(error)),
        };
        let now_ms = exchange.now().monotonic_ms;
        forwarding.attempts.begin(now_ms);
        match self.client.start(request, now_ms) {
            Ok(id) => {
                forwarding.id = id;
                self.requests.insert(id, address);
                None
            }
            Err(error) => {
                let error = failure_of(&forwarding.attempts.server, Arc::new(error));
                Some(self.failed(address, error))
            }
        }
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

    /// Discards the content of the response to an exchange. An application that has all of the
    /// request may finish.
    fn leave_response(&mut self, address: Address, now_ms: u64) {
        let is_sent = |one: &Forwarding| {
            one.has_all_content && one.upload.as_ref().is_none_or(StoredUpload::is_sent)
        };
        if !self.exchanges.get(&address).is_some_and(is_sent) {
            return self.forget(address);
        }
        if let Some(forwarding) = self.exchanges.remove(&address) {
            self.requests.remove(&forwarding.id);
            self.discarded.add(forwarding.id, forwarding.attempts.server, now_ms);
            self.discard(forwarding.id, now_ms);
        }
    }

    fn discard(&mut self, id: RequestId, now_ms: u64) {
        self.messages.extend(self.discarded.news(id, &mut self.client, now_ms));
    }

    fn forget(&mut self, address: Address) {
        if let Some(forwarding) = self.exchanges.remove(&address) {
            self.requests.remove(&forwarding.id);
            self.client.close(forwarding.id);
        }
    }
}

impl Forwarding {
    /// Returns whether content is stored, and no server was asked yet.
    fn is_collecting(&self) -> bool {
        self.upload.as_ref().is_some_and(StoredUpload::is_collecting)
    }

    /// Asks the client for more content if the upstream server takes it, or sends more of the
    /// stored content.
    fn take_content(
        &mut self,
        client: &mut HttpClient,
        exchange: &mut Exchange<'_>,
    ) -> std::io::Result<()> {
        if let Some(upload) = &mut self.upload {
            upload.send(client, self.id)?;
            if self.status.is_some() && upload.is_sent() {
                // It is not sent once more.
                self.upload = None;
            }
            return Ok(());
        }
        let is_over = self.has_all_content || self.wanted_bytes > 0;
        if !is_over && client.takes_content(self.id) {
            exchange.want(REQUEST_PIECE_BYTES);
            self.wanted_bytes = REQUEST_PIECE_BYTES;
        }
        Ok(())
    }

    /// Returns whether the server is an application that speaks FastCGI or SCGI.
    fn is_of_application(&self) -> bool {
        self.attempts.server.group().options.program.is_some()
    }

    /// Returns whether content is stored only to find out its length.
    fn lacks_length(&self) -> bool {
        let options = &self.attempts.server.group().options;
        self.is_collecting() && !self.has_length && options.stored_upload_max_bytes.is_none()
    }

    /// Returns the text that the application has written to its error stream since the last call.
    fn message(&self, client: &mut HttpClient) -> Option<ApplicationMessage> {
        let text = client.take_stderr(self.id);
        let server = || self.attempts.server.to_string().into();
        (!text.is_empty()).then(|| ApplicationMessage { server: server(), text: text.into() })
    }

    /// Passes on the available part of the response.
    fn respond(
        &mut self,
        client: &mut HttpClient,
        tunnels: &mut Tunnels,
        news: &mut VecDeque<ServerNews>,
        exchange: &mut Exchange<'_>,
    ) -> Option<Ended> {
        let status = match self.status {
            Some(status) => status,
            None => {
                self.interim(client, exchange);
                match client.response(self.id) {
                    Ok(None) => return None,
                    Ok(Some(start)) if start.status == 101 => {
                        let start = start.clone();
                        news.extend(self.succeeded());
                        return Some(self.switch(start, client, tunnels, exchange));
                    }
                    // It would open a tunnel that leads nowhere.
                    Ok(Some(start))
                        if self.handshake.is_some() && (200..300).contains(&start.status) =>
                    {
                        let upstream = self.attempts.server.to_string().into();
                        let error = ProxyError::NotSwitched { upstream, status: start.status };
                        return Some(Ended::Failed(error));
                    }
                    Ok(Some(start)) => {
                        if let Some(file) = self.file_response(start) {
                            news.extend(self.succeeded());
                            return Some(Ended::File(Box::new(file)));
                        }
                        let status = self.send_head(start, exchange);
                        news.extend(self.succeeded());
                        status
                    }
                    Err(error) => return Some(Ended::Failed(self.failure(error))),
                }
            }
        };
        while !self.is_full {
            let mut room = ContentRoom::Free;
            let give = |bytes: &[u8]| room = exchange.write(Slice::Copied(bytes));
            match client.read(self.id, RESPONSE_PIECE_BYTES, give) {
                ReadOutcome::Pending => return None,
                ReadOutcome::Bytes(bytes) => self.body_bytes += bytes as u64,
                ReadOutcome::End => {
                    let trailers = client.trailers(self.id);
                    exchange.end(forwarded_interim(trailers.iter(), self.response_changes()));
                    return Some(Ended::Answered { status, body_bytes: self.body_bytes });
                }
                ReadOutcome::Failed(error) => {
                    exchange.cut_short();
                    let (body_bytes, error) = (self.body_bytes, self.failure(error));
                    return Some(Ended::Aborted { status, body_bytes, error });
                }
            }
            self.is_full = room != ContentRoom::Free;
        }
        None
    }

    /// Sends the head of the response. Returns its status.
    fn send_head(&mut self, start: &ResponseStart, exchange: &mut Exchange<'_>) -> u16 {
        let location = self.location(start);
        let changes = ResponseChanges::new(self.options(), location.as_deref());
        let fields = forwarded(start.fields.iter(), changes, &self.defaults);
        exchange.head(start.status, fields.iter().copied(), start.content_length);
        *self.status.insert(start.status)
    }

    /// Returns the response if a file is sent in place of its content.
    fn file_response(&self, start: &ResponseStart) -> Option<FileResponse> {
        if !self.options().sends_files {
            return None;
        }
        let location = self.location(start);
        let changes = ResponseChanges::new(self.options(), location.as_deref());
        FileResponse::of(start.status, start.fields.iter(), changes, &self.defaults)
    }

    /// Returns the value of `Location` as the client gets it, if that is another one.
    fn location(&self, start: &ResponseStart) -> Option<Vec<u8>> {
        let (attempts, options) = (&self.attempts, self.options());
        // Applications know the paths of the site, and have no host of their own.
        let value = start.fields.get("Location").filter(|_| options.program.is_none())?;
        let (upstream, asked) = (attempts.server.upstream()?, attempts.asked.as_deref());
        location_for_client(value, upstream, options.path.as_ref(), asked)
    }

    /// Returns how the messages of the mount are changed.
    fn options(&self) -> &UpstreamOptions {
        &self.attempts.server.group().options
    }

    /// Records that the server has responded.
    fn succeeded(&mut self) -> Option<ServerNews> {
        let change = self.attempts.server.succeeded()?;
        let server = self.attempts.server.to_string().into();
        Some(ServerNews { server, change, reason: None })
    }

    /// Makes a tunnel of both connections.
    fn switch(
        &self,
        mut start: ResponseStart,
        client: &mut HttpClient,
        tunnels: &mut Tunnels,
        exchange: &mut Exchange<'_>,
    ) -> Ended {
        if let Some(handshake) = &self.handshake
            && !handshake.take_accept(&mut start)
        {
            let upstream = self.attempts.server.to_string().into();
            return Ended::Failed(ProxyError::WebSocketAccept { upstream });
        }
        let protocol = start.fields.get("Upgrade").unwrap_or_default();
        // One that is not taken ends with the request.
        let is_offered = self.has_offered(protocol);
        let tunnel = is_offered.then(|| client.take_tunnel(self.id)).flatten();
        let Some(tunnel) = tunnel else {
            let error = HttpClientError::Response(ResponseError::UnexpectedUpgrade);
            return Ended::Failed(self.failure(Arc::new(error)));
        };
        let own = [
            Field { name: b"Connection", value: b"Upgrade" },
            Field { name: b"Upgrade", value: protocol },
        ];
        let fields = forwarded_interim(start.fields.iter(), self.response_changes());
        let address = exchange.address();
        let server = self.attempts.server.for_tunnel();
        if let Some(handshake) = &self.handshake {
            exchange.open_tunnel(fields);
            let connections = &mut exchange.connections();
            tunnels.open_on_stream(address, handshake.has_ended, tunnel, server, connections);
            return Ended::Answered { status: 200, body_bytes: 0 };
        }
        let fields = fields.chain(own);
        exchange.upgrade(fields);
        tunnels.open(address, tunnel, server, &mut exchange.connections());
        Ended::Answered { status: 101, body_bytes: 0 }
    }

    /// Returns whether the client would switch to a protocol.
    fn has_offered(&self, protocol: &[u8]) -> bool {
        let offered = self.offered.iter().flat_map(|offered| offered.split(", "));
        offered.into_iter().any(|one| one.as_bytes().eq_ignore_ascii_case(protocol))
    }

    /// Passes on interim responses, except 100: this server has sent its own.
    fn interim(&mut self, client: &mut HttpClient, exchange: &mut Exchange<'_>) {
        while let Some(interim) = client.next_interim(self.id) {
            if interim.status != 100 {
                let fields = forwarded_interim(interim.fields.iter(), self.response_changes());
                let fields: Vec<Field<'_>> = fields.collect();
                exchange.interim(interim.status, fields.into_iter());
            }
        }
    }

    /// Returns the fields that the operator sets or removes in responses.
    fn response_changes(&self) -> &FieldChanges {
        &self.attempts.server.group().options.response_fields
    }

    fn failure(&self, error: Arc<HttpClientError>) -> ProxyError {
        failure_of(&self.attempts.server, error)
    }
}

/// Returns how much content of a request is stored before its server is asked; `None` if it is
/// passed on as it comes.
fn stored_upload_max_bytes(options: &UpstreamOptions, framing: Framing) -> Option<u64> {
    let has_no_length = matches!(framing, Framing::Chunked | Framing::Frames);
    match options.stored_upload_max_bytes {
        _ if framing == Framing::None => None,
        Some(max_bytes) => Some(max_bytes),
        None if options.program.is_some() && has_no_length => {
            Some(options.unknown_length_max_bytes)
        }
        None => None,
    }
}

/// Fills bytes of a key.
///
/// # Panics
/// When the system has no random bytes.
fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system has random bytes");
}
