//! An HTTP/1.1 client for the requests of one worker: it opens connections, keeps them, sends
//! requests and reads responses.
//!
//! The caller begins a request with [`HttpClient::start`] and checks its progress with
//! [`HttpClient::response`] and [`HttpClient::read`], whenever [`HttpClient::next_news`] returns
//! it. None of these touches a connection: all work on connections is done by
//! [`HttpClient::flush`], which the caller calls after them, and at the end of each event of a
//! connection ([`HttpClient::byte_stream_event`]).
//!
//! | Module | Task |
//! |---|---|
//! | `request` | one request and its response |
//! | `owned_fields` | fields that are kept |
//! | `connection_pool_key` | which requests share connections |
//! | `connection_acquisition` | how a request gets its connection: from the pool, or a new one |
//! | `connection_establishment` | the connection that is opened for a request |
//! | `connection` | an open connection, and the response that is read from it |
//! | `response_head_and_redirects` | the head of a response, and redirects |
//! | `request_sending` | the head and the content of a request |
//! | `protocol_codec` | the protocols of servers: HTTP/1.1, FastCGI or SCGI |
//! | `connection_commands` | the queued work on connections |
//! | `connection_input` | the input of connections, and the requests that get it |
//! | `request_timeouts` | requests that wait for too long |
//! | `request_memory` | how much memory requests take that no connection bounds |
//! | `brotli_permit` | how many responses may be in brotli |
//! | `settings` | the bounds of a client |
//! | `open_counts` | the resources of a client, for tests |
//! | `resolution_results` | names that were resolved |
//! | `error` | why a request has failed |

mod brotli_permit;
mod connection;
mod connection_acquisition;
mod connection_commands;
mod connection_establishment;
mod connection_input;
mod connection_pool_key;
pub mod error;
mod open_counts;
mod owned_fields;
mod protocol_codec;
pub mod request;
mod request_memory;
mod request_sending;
mod request_timeouts;
mod resolution_results;
mod response_head_and_redirects;
mod settings;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use pinion_engine::Poster;
use pinion_engine::app::{ByteStreamEvent, Gone};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::outgoing_connect::NotConnected;
use pinion_http::h1::client::response_parser::InputEnd;
use pinion_http::h1::head_parser::HeadStorage;
use rustc_hash::FxHashMap;

use crate::client_tls::handshake_message;
use crate::connection_pool::ConnectionPool;
use crate::content_decoder::ACCEPTED_CODINGS;
use crate::resolver::Resolver;
use crate::retry::RetryBudget;
use brotli_permit::BrotliPermits;
use connection::ClientConnection;
use connection_commands::ConnectionCommand;
use connection_pool_key::{RequestKey, RequestKeys};
use error::{AttemptError, HttpClientError};
use request::{
    ClientRequest, InterimResponse, OwnedFields, PendingRequest, ReadOutcome, RequestBody,
    RequestProgress, ResponseStart, Tunnel,
};
use request_memory::RequestMemory;
use resolution_results::Mailbox;
pub use resolution_results::NamesResolved;
pub use settings::HttpClientSettings;

/// The ID of a request, as long as it lives and afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(u64);

impl RequestId {
    /// Returns the number of the request; no other request of its client has it.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// Returns the request with a number.
    #[must_use]
    pub fn of_number(number: u64) -> Self {
        Self(number)
    }
}

/// The ID of a connection; it is the tag of the engine's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct ConnectionId(u64);

/// An HTTP/1.1 client of one worker.
pub struct HttpClient {
    resolver: Resolver,
    mailbox: Arc<Mailbox>,
    poster: Poster,
    worker: u16,
    pool: ConnectionPool<RequestKey, ConnectionId, RequestId>,
    keys: RequestKeys,
    memory: RequestMemory,
    brotli: BrotliPermits,
    /// The budget for repetitions of forwarded requests.
    retry_budget: RetryBudget,
    requests: FxHashMap<RequestId, PendingRequest>,
    connections: FxHashMap<ConnectionId, ClientConnection>,
    /// Connections that are being opened, and their requests.
    opening: FxHashMap<ConnectionId, RequestId>,
    /// Requests that ended while the pool had an action for them.
    abandoned: FxHashMap<RequestId, RequestKey>,
    /// The times at which requests have to be checked, in monotonic milliseconds: at most one time
    /// for each.
    deadlines: BTreeSet<(u64, RequestId)>,
    /// Connections whose responses are discarded, and the time of the limit, in monotonic
    /// milliseconds.
    draining: BTreeSet<(u64, ConnectionId)>,
    /// The queued work on connections.
    commands: VecDeque<ConnectionCommand>,
    news: VecDeque<RequestId>,
    next_request: u64,
    next_connection: u64,
    next_opening: u64,
    /// The time of the last call that had one, in monotonic milliseconds.
    now_ms: u64,
    is_stopping: bool,
    storage: HeadStorage,
}

impl HttpClient {
    /// Creates a client for a worker. Names are resolved by `resolver`, which all workers share.
    #[must_use]
    pub fn new(
        resolver: Resolver,
        settings: HttpClientSettings,
        poster: Poster,
        worker: u16,
    ) -> Self {
        Self {
            resolver,
            mailbox: Arc::default(),
            poster,
            worker,
            pool: ConnectionPool::new(settings.pool),
            keys: RequestKeys::default(),
            memory: RequestMemory::new(settings.request_memory_bytes),
            brotli: BrotliPermits::new(settings.brotli_decoders_max),
            retry_budget: RetryBudget::default(),
            requests: FxHashMap::default(),
            connections: FxHashMap::default(),
            opening: FxHashMap::default(),
            abandoned: FxHashMap::default(),
            deadlines: BTreeSet::new(),
            draining: BTreeSet::new(),
            commands: VecDeque::new(),
            news: VecDeque::new(),
            next_request: 0,
            next_connection: settings.first_tag,
            next_opening: 0,
            now_ms: 0,
            is_stopping: false,
            storage: HeadStorage::new(),
        }
    }

    /// Begins a request. Its first news are the head of the response, or an error.
    ///
    /// # Errors
    /// Fails if the request cannot be sent at all, or too many wait.
    pub fn start(
        &mut self,
        request: ClientRequest,
        now_ms: u64,
    ) -> Result<RequestId, HttpClientError> {
        if request.forwarded.is_some() {
            self.retry_budget.note_request();
        }
        self.start_again(request, now_ms)
    }

    /// Begins a failed request again ([`Self::take_failed`]): it does not count as another one in
    /// the budget for repetitions.
    ///
    /// # Errors
    /// Fails as [`Self::start`] does.
    pub fn start_again(
        &mut self,
        request: ClientRequest,
        now_ms: u64,
    ) -> Result<RequestId, HttpClientError> {
        self.now_ms = self.now_ms.max(now_ms);
        let written = request_sending::write_head(&request, ACCEPTED_CODINGS)?;
        request.check_tls()?;
        self.next_request += 1;
        let id = RequestId(self.next_request);
        let key = self.keys.of(&request);
        let mut pending = PendingRequest::new(request, key, self.now_ms);
        pending.written = Some(written);
        let bytes = pending.held_bytes();
        self.memory.admit(pending.request.site, bytes)?;
        pending.counted_bytes = bytes;
        let due_ms = pending.due_ms();
        self.requests.insert(id, pending);
        if let Err(error) = self.acquire(id) {
            self.remove(id);
            return Err(error);
        }
        self.set_alarm(id, due_ms);
        Ok(id)
    }

    /// Returns the head of the response once it has arrived.
    ///
    /// # Errors
    /// Returns the reason if the request has failed.
    pub fn response(
        &mut self,
        id: RequestId,
    ) -> Result<Option<&ResponseStart>, Arc<HttpClientError>> {
        let Some(pending) = self.requests.get_mut(&id) else {
            return Err(Arc::new(HttpClientError::Closed));
        };
        pending.is_announced = false;
        match &pending.error {
            Some(error) if pending.response.is_none() => Err(Arc::clone(error)),
            _ => Ok(pending.response.as_ref()),
        }
    }

    /// Passes the next content of the response to `give`, at most `max` bytes.
    pub fn read(&mut self, id: RequestId, max: usize, give: impl FnOnce(&[u8])) -> ReadOutcome {
        let Some(pending) = self.requests.get_mut(&id) else { return ReadOutcome::End };
        let outcome = pending.read(max, give);
        if let ReadOutcome::Bytes(_) = outcome {
            if let Err(error) = pending.decode() {
                self.fail(id, error);
            }
            self.go_on_soon(id);
        }
        outcome
    }

    /// Returns whether [`Self::write`] may be called now; if not, the request has news when it may.
    pub fn takes_content(&mut self, id: RequestId) -> bool {
        let Some(pending) = self.requests.get_mut(&id) else { return false };
        pending.is_announced = false;
        pending.takes_content()
    }

    /// Adds a piece of the request's content; `None` is its end. Content that is not needed any
    /// more is discarded: the request has ended, or a redirect has removed its content.
    pub fn write(&mut self, id: RequestId, piece: Option<&[u8]>) {
        let Some(pending) = self.requests.get_mut(&id) else { return };
        let is_needed = matches!(pending.request.content, RequestBody::Pieces { .. })
            && !matches!(pending.stage, RequestProgress::Done);
        if !is_needed {
            return;
        }
        match piece {
            Some(bytes) => pending.unsent.extend_from_slice(bytes),
            None => pending.has_all_pieces = true,
        }
        self.go_on_soon(id);
    }

    /// Ends the content of the request with these trailers; they are sent only after content of
    /// unknown length.
    pub fn write_end(&mut self, id: RequestId, trailers: OwnedFields) {
        if let Some(pending) = self.requests.get_mut(&id) {
            pending.request_trailers = trailers;
        }
        self.write(id, None);
    }

    /// Returns the next interim response to a [forwarded](request::ForwardedRequest) request.
    pub fn next_interim(&mut self, id: RequestId) -> Option<InterimResponse> {
        self.requests.get_mut(&id)?.interim.pop_front()
    }

    /// Returns the connection of a request whose response is 101. It does not belong to the client
    /// any more.
    pub fn take_tunnel(&mut self, id: RequestId) -> Option<Tunnel> {
        self.requests.get_mut(&id)?.tunnel.take()
    }

    /// Returns the trailers of the response to a [forwarded](request::ForwardedRequest) request;
    /// they are complete when all content was read.
    pub fn trailers(&mut self, id: RequestId) -> OwnedFields {
        let pending = self.requests.get_mut(&id);
        pending.map(|one| std::mem::take(&mut one.trailers)).unwrap_or_default()
    }

    /// Ends a request that is not wanted any more, in any state.
    pub fn close(&mut self, id: RequestId) {
        let Some(pending) = self.remove(id) else { return };
        if let Some(tunnel) = &pending.tunnel {
            self.commands.push_back(ConnectionCommand::Cut(tunnel.address));
        }
        self.leave(&pending.key, pending.stage, id);
    }

    /// Returns a request that has failed without a response, to be sent to another server, and ends
    /// it here. It does not include content that came in pieces.
    pub fn take_failed(&mut self, id: RequestId) -> Option<ClientRequest> {
        let has_failed = |one: &PendingRequest| one.error.is_some() && one.response.is_none();
        self.requests.get(&id).filter(|one| has_failed(one))?;
        let pending = self.remove(id)?;
        self.leave(&pending.key, pending.stage, id);
        Some(pending.request)
    }

    /// Returns the text that the application of a request has written to its error stream since the
    /// last call, for the log.
    pub fn take_stderr(&mut self, id: RequestId) -> Vec<u8> {
        let pending = self.requests.get_mut(&id);
        pending.map(|one| std::mem::take(&mut one.stderr)).unwrap_or_default()
    }

    /// Takes one repetition of the budget that all forwarded requests share, if there is one.
    pub fn take_retry(&mut self) -> bool {
        self.retry_budget.take()
    }

    /// Returns a request that has news.
    pub fn next_news(&mut self) -> Option<RequestId> {
        self.news.pop_front()
    }

    /// Returns whether [`Self::flush`] or [`Self::next_news`] has work.
    #[inline]
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.commands.is_empty() || !self.news.is_empty() || self.pool.has_actions()
    }

    /// Returns when [`Self::pass`] has work, in monotonic milliseconds.
    #[must_use]
    pub fn alarm_ms(&self) -> Option<u64> {
        if self.has_work() {
            return Some(0);
        }
        let first = self.deadlines.first().map(|(due_ms, _)| *due_ms);
        let pool = self.pool.next_deadline_ms();
        let draining = self.draining.first().map(|(due_ms, _)| *due_ms);
        first.into_iter().chain(pool).chain(draining).min()
    }

    /// Prepares for the stop of the server: connections are not kept any more for other requests.
    pub fn stop(&mut self) {
        self.is_stopping = true;
        self.pool.close_idle();
    }

    /// Does the due work, and continues the requests whose names were resolved.
    pub fn pass(&mut self, connections: &mut Connections<'_>) {
        self.now_ms = connections.now().monotonic_ms;
        self.take_names();
        self.pool.tick(self.now_ms);
        self.end_drains();
        while let Some((due_ms, id)) = self.deadlines.first().copied()
            && due_ms <= self.now_ms
        {
            self.deadlines.pop_first();
            self.due(id);
        }
        self.flush(connections);
    }

    /// Handles an event of a connection that this client has opened.
    pub fn byte_stream_event(
        &mut self,
        event: &ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
    ) {
        let Some(id) = stream.tag().map(ConnectionId) else { return };
        self.now_ms = stream.now().monotonic_ms;
        match event {
            ByteStreamEvent::Open => self.connected(id),
            ByteStreamEvent::Gone(why) if self.opening.contains_key(&id) => {
                let error = match (stream.tls_error(), why) {
                    (Some(error), _) => AttemptError::Tls(handshake_message(error)),
                    (None, Gone::NotConnected(why)) => AttemptError::NotConnected(*why),
                    (None, _) => AttemptError::NotConnected(NotConnected::Failed),
                };
                self.not_connected(id, error);
            }
            ByteStreamEvent::Bytes(bytes) => self.received(id, bytes, InputEnd::Open),
            ByteStreamEvent::End => self.received(id, b"", InputEnd::Closed),
            ByteStreamEvent::Gone(_) => self.received(id, b"", InputEnd::Broken),
            ByteStreamEvent::Writable => {
                let Some(connection) = self.connections.get_mut(&id) else { return };
                connection.is_blocked = false;
                if let Some(id) = connection.user {
                    self.go_on_soon(id);
                }
            }
            ByteStreamEvent::Deadline => self.look_at_upload(id, stream),
            ByteStreamEvent::Posted(_) | ByteStreamEvent::Stopping => {}
        }
        self.flush(&mut stream.connections());
    }
}

#[cfg(test)]
mod tests;
