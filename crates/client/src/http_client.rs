//! A client of HTTP/1.1 for the requests of one worker: it opens connections, keeps them, sends
//! requests and reads responses.
//!
//! The caller begins a request with [`HttpClient::start`] and asks how far it is with
//! [`HttpClient::response`] and [`HttpClient::read`], whenever [`HttpClient::next_news`] names it.
//! None of these touches a connection: what is to be done on connections is done by
//! [`HttpClient::flush`], which the caller calls behind them, and at the end of each event of a
//! connection ([`HttpClient::raw`]).
//!
//! | Module | Task |
//! |---|---|
//! | `request` | one request and its response |
//! | `opening` | the connection that is opened for a request |
//! | `connection` | an open connection, and the response that is read from it |
//! | `response_start` | the head of a response, and redirects |
//! | `sending` | the head and the content of a request |
//! | `transfer` | what comes on connections, and which request it is for |
//! | `mailbox` | names that were resolved |
//! | `error` | why a request has failed |

mod connection;
pub mod error;
mod mailbox;
mod opening;
pub mod request;
mod response_start;
mod sending;
mod transfer;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use pinion_engine::Poster;
use pinion_engine::address::Address;
use pinion_engine::app::{Gone, RawEvent};
use pinion_engine::connections::Connections;
use pinion_engine::raw::RawStream;
use pinion_engine::remote::NotConnected;
use pinion_http::h1::client::response_parser::InputEnd;
use pinion_http::h1::head::HeadStorage;

use crate::client_tls::handshake_message;
use crate::connection_pool::{ConnectionPool, PoolAction, PoolKey, PoolSettings};
use crate::happy_eyeballs::AddressFamily;
use crate::resolver::Resolver;
use crate::target::ConnectEndpoint;
use connection::ClientConnection;
use error::{AttemptError, HttpClientError};
pub use mailbox::NamesResolved;
use mailbox::{Mailbox, ResolvedName};
use opening::{Opened, Opening, OpeningContext};
use request::{ClientRequest, PendingRequest, ReadOutcome, ResponseStart, Stage};

/// Names a request, as long as it lives and afterwards.
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

/// Names a connection; it is the tag of the engine's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct ConnectionId(u64);

/// See the head of the module.
pub struct HttpClient {
    resolver: Resolver,
    mailbox: Arc<Mailbox>,
    poster: Poster,
    worker: u16,
    pool: ConnectionPool<Rc<PoolKey>, ConnectionId, RequestId>,
    requests: HashMap<RequestId, PendingRequest>,
    connections: HashMap<ConnectionId, ClientConnection>,
    /// Connections that are being opened, and for which request.
    opening: HashMap<ConnectionId, RequestId>,
    /// Requests that ended while the pool had an action for them.
    abandoned: HashMap<RequestId, Rc<PoolKey>>,
    /// When requests have to be looked at, in monotonic milliseconds.
    deadlines: BTreeSet<(u64, RequestId)>,
    /// Connections whose responses are thrown away, and until when, in monotonic milliseconds.
    draining: BTreeSet<(u64, ConnectionId)>,
    /// What has to be done on connections.
    commands: VecDeque<Command>,
    news: VecDeque<RequestId>,
    next_request: u64,
    next_connection: u64,
    /// The time of the last call that had one, in monotonic milliseconds.
    now_ms: u64,
    is_stopping: bool,
    storage: HeadStorage,
}

/// What has to be done on connections.
#[derive(Debug)]
enum Command {
    /// Goes on with a request: sends more of its content, or reads more of its response.
    Continue(RequestId),
    /// Goes on to open a connection.
    Open(RequestId),
    /// Cuts connections that were being opened.
    Abandon(Opening),
    /// Goes on with a connection that no request uses any more: what is left of its response is
    /// thrown away.
    Drain(ConnectionId),
    /// Cuts a connection that has left the pool.
    Cut(Address),
}

impl HttpClient {
    /// Makes a client for a worker. Names are resolved by `resolver`, which all workers share.
    #[must_use]
    pub fn new(resolver: Resolver, settings: PoolSettings, poster: Poster, worker: u16) -> Self {
        Self {
            resolver,
            mailbox: Arc::default(),
            poster,
            worker,
            pool: ConnectionPool::new(settings),
            requests: HashMap::new(),
            connections: HashMap::new(),
            opening: HashMap::new(),
            abandoned: HashMap::new(),
            deadlines: BTreeSet::new(),
            draining: BTreeSet::new(),
            commands: VecDeque::new(),
            news: VecDeque::new(),
            next_request: 0,
            next_connection: 0,
            now_ms: 0,
            is_stopping: false,
            storage: HeadStorage::new(),
        }
    }

    /// Begins a request. Its first news are the head of the response, or an error.
    ///
    /// # Errors
    /// The request cannot be sent at all.
    pub fn start(
        &mut self,
        request: ClientRequest,
        now_ms: u64,
    ) -> Result<RequestId, HttpClientError> {
        self.now_ms = self.now_ms.max(now_ms);
        let written = sending::write_head(&request)?;
        if request.url.target().is_tls() {
            request.tls.as_ref().ok_or(HttpClientError::NoTls)?;
            request.url.target().tls_server_name().ok_or(HttpClientError::TlsName)?;
        }
        self.next_request += 1;
        let id = RequestId(self.next_request);
        let mut pending = PendingRequest::new(request, self.now_ms);
        pending.written = Some(written);
        self.deadlines.insert((pending.due_ms(), id));
        self.requests.insert(id, pending);
        if let Err(error) = self.acquire(id) {
            self.requests.remove(&id);
            return Err(error);
        }
        Ok(id)
    }

    /// Returns the head of the response once it is there, or why there is none.
    ///
    /// # Errors
    /// The request has failed.
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

    /// Gives the next content of the response, at most `max` bytes.
    pub fn read(&mut self, id: RequestId, max: usize, give: impl FnOnce(&[u8])) -> ReadOutcome {
        let Some(pending) = self.requests.get_mut(&id) else { return ReadOutcome::End };
        let outcome = pending.read(max, give);
        if let ReadOutcome::Bytes(_) = outcome {
            if let Err(error) = pending.decode() {
                self.fail(id, error);
            }
            self.commands.push_back(Command::Continue(id));
        }
        outcome
    }

    /// Whether [`Self::write`] may be called now; if not, there are news when it may.
    pub fn takes_content(&mut self, id: RequestId) -> bool {
        let Some(pending) = self.requests.get_mut(&id) else { return false };
        pending.is_announced = false;
        pending.takes_content()
    }

    /// Adds a piece of the request's content; `None` is its end.
    pub fn write(&mut self, id: RequestId, piece: Option<&[u8]>) {
        let Some(pending) = self.requests.get_mut(&id) else { return };
        match piece {
            Some(bytes) => pending.unsent.extend_from_slice(bytes),
            None => pending.has_all_pieces = true,
        }
        self.commands.push_back(Command::Continue(id));
    }

    /// Ends a request that is not wanted any more, whatever it waits for.
    pub fn close(&mut self, id: RequestId) {
        let Some(pending) = self.requests.remove(&id) else { return };
        self.leave(&pending.request, pending.stage, id);
    }

    /// Returns a request that has news.
    pub fn next_news(&mut self) -> Option<RequestId> {
        self.news.pop_front()
    }

    /// Whether [`Self::flush`] or [`Self::next_news`] has something to do.
    #[inline]
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.commands.is_empty() || !self.news.is_empty() || self.pool.has_actions()
    }

    /// When [`Self::pass`] has something to do, in monotonic milliseconds.
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

    /// The server stops: connections are not kept any more for other requests.
    pub fn stop(&mut self) {
        self.is_stopping = true;
        self.pool.close_idle();
    }

    /// Returns the number of requests that have not ended, and of connections.
    #[must_use]
    pub fn holdings(&self) -> (usize, usize) {
        (self.requests.len(), self.connections.len() + self.opening.len())
    }

    /// Does what is due, and what names that were resolved make possible.
    pub fn pass(&mut self, connections: &mut Connections<'_>) {
        self.now_ms = connections.now().monotonic_ms;
        for ResolvedName { request, family, result } in self.mailbox.take() {
            self.resolved(request, family, result);
        }
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

    /// Something has happened on a connection that this client has opened.
    pub fn raw(&mut self, event: &RawEvent<'_>, stream: &mut RawStream<'_>) {
        let Some(id) = stream.tag().map(ConnectionId) else { return };
        self.now_ms = stream.now().monotonic_ms;
        match event {
            RawEvent::Open => self.connected(id),
            RawEvent::Gone(why) if self.opening.contains_key(&id) => {
                let error = match (stream.tls_error(), why) {
                    (Some(error), _) => AttemptError::Tls(handshake_message(error)),
                    (None, Gone::NotConnected(why)) => AttemptError::NotConnected(*why),
                    (None, _) => AttemptError::NotConnected(NotConnected::Failed),
                };
                self.not_connected(id, error);
            }
            RawEvent::Bytes(bytes) => self.received(id, bytes, InputEnd::Open),
            RawEvent::End => self.received(id, b"", InputEnd::Closed),
            RawEvent::Gone(_) => self.received(id, b"", InputEnd::Broken),
            RawEvent::Writable => {
                let Some(connection) = self.connections.get_mut(&id) else { return };
                connection.is_blocked = false;
                self.commands.extend(connection.user.map(Command::Continue));
            }
            RawEvent::Posted(_) | RawEvent::Deadline | RawEvent::Stopping => {}
        }
        self.flush(&mut stream.connections());
    }

    /// Does on connections what is to be done.
    pub fn flush(&mut self, connections: &mut Connections<'_>) {
        loop {
            while let Some(action) = self.pool.next_action() {
                self.perform(action, connections);
            }
            match self.commands.pop_front() {
                None => return,
                Some(Command::Continue(id)) => self.go_on(id, connections),
                Some(Command::Open(id)) => self.go_on_opening(id, connections),
                Some(Command::Drain(id)) => self.drain(id, connections),
                Some(Command::Cut(address)) => {
                    if let Some(mut stream) = connections.stream(address) {
                        stream.abort();
                    }
                }
                Some(Command::Abandon(opening)) => {
                    for id in opening.end(None, connections) {
                        self.opening.remove(&id);
                    }
                }
            }
        }
    }

    fn acquire(&mut self, id: RequestId) -> Result<(), HttpClientError> {
        let Some(pending) = self.requests.get_mut(&id) else { return Ok(()) };
        pending.stage = Stage::Waiting;
        let (key, due_ms) = (key_of(&pending.request), pending.due_ms());
        Ok(self.pool.acquire(&key, id, pending.reuse, due_ms, self.now_ms)?)
    }

    fn perform(
        &mut self,
        action: PoolAction<ConnectionId, RequestId>,
        connections: &mut Connections<'_>,
    ) {
        match action {
            PoolAction::Close(connection) => self.close_connection(connection, connections),
            PoolAction::TimedOut(id) => {
                self.abandoned.remove(&id);
                let timeout_ms = self.requests.get(&id).map(|pending| pending.request.timeout_ms);
                self.fail(id, HttpClientError::QueueTimeout(timeout_ms.unwrap_or_default()));
            }
            PoolAction::Open(id) => {
                if let Some(key) = self.abandoned.remove(&id) {
                    return self.pool.not_opened(&key, self.now_ms);
                }
                let Some(pending) = self.requests.get_mut(&id) else { return };
                pending.stage = Stage::Opening(Opening::new(&pending.request, self.now_ms));
                self.resolve(id);
                self.go_on_opening(id, connections);
            }
            PoolAction::Assign { waiter, connection } => {
                if let Some(key) = self.abandoned.remove(&waiter) {
                    return self.pool.release(&key, connection, self.now_ms);
                }
                if let Some(pending) = self.requests.get_mut(&waiter) {
                    pending.is_connection_reused = true;
                }
                self.assign(waiter, connection, connections);
            }
        }
    }

    /// Has the name of a request's host resolved, if it has one.
    fn resolve(&mut self, id: RequestId) {
        let Some(pending) = self.requests.get(&id) else { return };
        let ConnectEndpoint::Name { name, .. } = pending.request.url.target().endpoint() else {
            return;
        };
        let callback = self.mailbox.callback(id, self.poster.clone(), self.worker);
        self.resolver.resolve(name, callback);
        // What was known already is here.
        for ResolvedName { request, family, result } in self.mailbox.take() {
            self.resolved(request, family, result);
        }
    }

    fn resolved(
        &mut self,
        id: RequestId,
        family: AddressFamily,
        result: Result<Vec<IpAddr>, AttemptError>,
    ) {
        let Some(pending) = self.requests.get_mut(&id) else { return };
        if let Stage::Opening(opening) = &mut pending.stage {
            opening.resolved(family, result, self.now_ms);
            self.commands.push_back(Command::Open(id));
        }
    }

    fn go_on_opening(&mut self, id: RequestId, connections: &mut Connections<'_>) {
        let Some(pending) = self.requests.get_mut(&id) else { return };
        let Stage::Opening(opening) = &mut pending.stage else { return };
        let mut begun = Vec::new();
        let opened = opening.advance(&mut OpeningContext {
            connections,
            request: &pending.request,
            next_connection: &mut self.next_connection,
            begun: &mut begun,
        });
        let wait_ms = opening.wait_ms();
        self.opening.extend(begun.into_iter().map(|connection| (connection, id)));
        if let Some(wait_ms) = wait_ms {
            self.deadlines.insert((wait_ms, id));
        }
        self.settle_opening(id, opened, connections);
    }

    fn settle_opening(&mut self, id: RequestId, opened: Opened, connections: &mut Connections<'_>) {
        let (connection, address) = match opened {
            Opened::Pending => return,
            Opened::Connection(connection, address) => (connection, address),
            Opened::Failed(error) => return self.fail(id, error),
        };
        let Some(pending) = self.requests.get_mut(&id) else { return };
        if let Stage::Opening(opening) = std::mem::replace(&mut pending.stage, Stage::Waiting) {
            for other in opening.end(Some(connection), connections) {
                self.opening.remove(&other);
            }
        }
        self.opening.remove(&connection);
        let key = key_of(&pending.request);
        pending.is_connection_reused = false;
        self.pool.opened(&key, connection);
        self.connections.insert(connection, ClientConnection::new(address, key));
        self.assign(id, connection, connections);
    }

    fn connected(&mut self, connection: ConnectionId) {
        let Some(id) = self.opening.get(&connection).copied() else { return };
        let Some(pending) = self.requests.get_mut(&id) else { return };
        let Stage::Opening(opening) = &mut pending.stage else { return };
        opening.connected(connection, self.now_ms);
        self.commands.push_back(Command::Open(id));
    }

    fn not_connected(&mut self, connection: ConnectionId, error: AttemptError) {
        let Some(id) = self.opening.remove(&connection) else { return };
        let Some(pending) = self.requests.get_mut(&id) else { return };
        let Stage::Opening(opening) = &mut pending.stage else { return };
        match opening.failed(connection, error, self.now_ms) {
            Opened::Failed(error) => self.fail(id, error),
            _ => self.commands.push_back(Command::Open(id)),
        }
    }
}

/// Requests with equal keys share connections.
fn key_of(request: &ClientRequest) -> Rc<PoolKey> {
    let target = request.url.target().clone();
    let tls = request.tls.as_ref().filter(|_| target.is_tls()).map(|tls| tls.identity());
    Rc::new(PoolKey { site: request.site, target, tls, policy: Arc::clone(&request.policy) })
}
