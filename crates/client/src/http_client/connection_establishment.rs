//! A connection that is being opened for a request: to a Unix socket, or to the first address of a
//! host that responds.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange_address::Address;
use pinion_engine::outgoing_connect::{
    Connect, ConnectError, ConnectTls, NotConnected, RemoteAddress,
};
use rustc_hash::FxHashMap;

use super::error::{AttemptError, HttpClientError};
use super::request::ClientRequest;
use super::{ConnectionId, RequestId};
use crate::connect_target::ConnectEndpoint;
use crate::happy_eyeballs::{AddressFamily, ConnectAction, ConnectTimes, HappyEyeballs};
use crate::limits::{
    ABSENT_SOCKET_WAIT_MS, BUSY_SOCKET_RETRY_MAX_MS, BUSY_SOCKET_RETRY_MS, CONNECT_TIMEOUT_MS,
};

/// A connection that is being opened.
#[derive(Debug)]
pub(super) struct OpeningConnection {
    kind: Kind,
    /// The number of the opening; no other opening of the client has it.
    number: u64,
    /// The connections that are being opened, each with its index in the list of addresses.
    attempts: Vec<Attempt>,
    /// The time of the next due step, in monotonic milliseconds.
    wait_ms: Option<u64>,
}

#[derive(Debug)]
enum Kind {
    Unix(UnixOpening),
    Tcp { eyeballs: Box<HappyEyeballs<AttemptError>>, port: u16, timeout_ms: u64 },
}

/// The opening of a connection to a Unix socket.
#[derive(Debug)]
struct UnixOpening {
    path: PathBuf,
    is_open: bool,
    /// The time by which it must be open, in monotonic milliseconds.
    due_ms: u64,
    /// How long the next attempt waits if this one is too early, in milliseconds.
    retry_after_ms: u64,
    /// The time until which it waits for a socket that does not exist, in monotonic milliseconds.
    awaited_until_ms: u64,
}

impl UnixOpening {
    /// Returns until when another attempt makes sense after this error: the accept queue of the
    /// socket is full, so its server takes the connection when it has taken others; or the server
    /// is being started.
    fn retry_until_ms(&self, error: &AttemptError) -> u64 {
        match error {
            AttemptError::NotConnected(NotConnected::Busy) => self.due_ms,
            AttemptError::NotConnected(NotConnected::NoSuchSocket | NotConnected::Refused) => {
                self.awaited_until_ms.min(self.due_ms)
            }
            _ => 0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    connection: ConnectionId,
    address: Address,
    index: usize,
}

/// The outcome of an opening.
#[derive(Debug)]
pub(super) enum OpeningOutcome {
    /// The opening goes on.
    Pending,
    /// This connection is open.
    Connection(ConnectionId, Address),
    /// No connection can be opened.
    Failed(HttpClientError),
}

/// The context that an opening needs to continue.
pub(super) struct OpeningContext<'c, 'w> {
    pub(super) connections: &'c mut Connections<'w>,
    pub(super) request: &'c ClientRequest,
    /// The counter that numbers connections.
    pub(super) next_connection: &'c mut u64,
    /// The request for which the connection is opened.
    pub(super) id: RequestId,
    /// All connections that are being opened, with their requests. Those that this opening begins
    /// are added, and those that it cuts are removed: they have no event any more.
    pub(super) opening: &'c mut FxHashMap<ConnectionId, RequestId>,
}

impl OpeningConnection {
    /// Begins to open a connection for a request.
    pub(super) fn new(request: &ClientRequest, number: u64, now_ms: u64) -> Self {
        let forwarded = request.forwarded.as_ref();
        let connect_ms = forwarded.map_or(CONNECT_TIMEOUT_MS, |one| one.connect_timeout_ms);
        let timeout_ms = request.timeout_ms.min(CONNECT_TIMEOUT_MS).min(connect_ms);
        let times = ConnectTimes { timeout_ms, ..ConnectTimes::default() };
        let tcp = |eyeballs, port| Kind::Tcp { eyeballs: Box::new(eyeballs), port, timeout_ms };
        let kind = match request.url.target().endpoint() {
            ConnectEndpoint::Unix(path) => Kind::Unix(UnixOpening {
                path: path.clone(),
                is_open: false,
                due_ms: now_ms.saturating_add(timeout_ms),
                retry_after_ms: BUSY_SOCKET_RETRY_MS,
                awaited_until_ms: if forwarded.is_some_and(|one| one.waits_for_socket) {
                    now_ms.saturating_add(ABSENT_SOCKET_WAIT_MS)
                } else {
                    now_ms
                },
            }),
            ConnectEndpoint::Name { port, .. } => tcp(HappyEyeballs::new(times, now_ms), *port),
            ConnectEndpoint::Address { address, port } => {
                tcp(HappyEyeballs::with_addresses(times, &[*address], now_ms), *port)
            }
        };
        Self { kind, number, attempts: Vec::new(), wait_ms: None }
    }

    /// Returns the number that resolved names must carry to belong to this opening.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns when [`Self::advance`] has work, in monotonic milliseconds.
    pub(super) fn wait_ms(&self) -> Option<u64> {
        self.wait_ms
    }

    /// Takes the addresses of one family, or the error of their resolution.
    pub(super) fn resolved(
        &mut self,
        family: AddressFamily,
        result: Result<&[IpAddr], AttemptError>,
        now_ms: u64,
    ) {
        if let Kind::Tcp { eyeballs, .. } = &mut self.kind {
            eyeballs.resolved(family, result, now_ms);
        }
    }

    /// Notes that a connection of this opening is open.
    pub(super) fn connected(&mut self, connection: ConnectionId, now_ms: u64) {
        let Some(attempt) = self.attempt(connection) else { return };
        match &mut self.kind {
            Kind::Unix(unix) => unix.is_open = true,
            Kind::Tcp { eyeballs, .. } => eyeballs.connected(attempt.index, now_ms),
        }
    }

    /// Handles the failure of a connection of this opening.
    pub(super) fn failed(
        &mut self,
        connection: ConnectionId,
        error: AttemptError,
        now_ms: u64,
    ) -> OpeningOutcome {
        let Some(attempt) = self.attempt(connection) else { return OpeningOutcome::Pending };
        self.attempts.retain(|one| one.connection != connection);
        match &mut self.kind {
            Kind::Unix(unix) if now_ms < unix.retry_until_ms(&error) => {
                self.wait_ms = Some((now_ms + unix.retry_after_ms).min(unix.due_ms));
                unix.retry_after_ms = (unix.retry_after_ms * 2).min(BUSY_SOCKET_RETRY_MAX_MS);
                OpeningOutcome::Pending
            }
            Kind::Unix(_) => OpeningOutcome::Failed(HttpClientError::ConnectUnix(error)),
            Kind::Tcp { eyeballs, .. } => {
                eyeballs.failed(attempt.index, error, now_ms);
                OpeningOutcome::Pending
            }
        }
    }

    /// Does the due steps.
    pub(super) fn advance(&mut self, context: &mut OpeningContext<'_, '_>) -> OpeningOutcome {
        let now_ms = context.connections.now().monotonic_ms;
        if self.wait_ms.is_some_and(|wait_ms| wait_ms <= now_ms) {
            self.wait_ms = None;
            if let Kind::Tcp { eyeballs, .. } = &mut self.kind {
                eyeballs.tick(now_ms);
            }
        }
        if let Kind::Unix(unix) = &self.kind {
            return match self.attempts.first() {
                Some(attempt) if unix.is_open => {
                    OpeningOutcome::Connection(attempt.connection, attempt.address)
                }
                None if self.wait_ms.is_none() => self.connect_unix(now_ms, context),
                _ => OpeningOutcome::Pending,
            };
        }
        self.advance_tcp(now_ms, context)
    }

    /// Connects to the Unix socket.
    fn connect_unix(
        &mut self,
        now_ms: u64,
        context: &mut OpeningContext<'_, '_>,
    ) -> OpeningOutcome {
        let Kind::Unix(UnixOpening { path, due_ms, .. }) = &self.kind else {
            return OpeningOutcome::Pending;
        };
        if let Err(refused) = context.request.policy.check_socket(path) {
            return OpeningOutcome::Failed(refused.into());
        }
        let timeout_ms = due_ms.saturating_sub(now_ms).max(1);
        match self.connect(RemoteAddress::Unix(path.clone()), timeout_ms, 0, context) {
            Ok(()) => OpeningOutcome::Pending,
            Err(error) => OpeningOutcome::Failed(HttpClientError::ConnectUnix(error)),
        }
    }

    fn advance_tcp(&mut self, now_ms: u64, context: &mut OpeningContext<'_, '_>) -> OpeningOutcome {
        loop {
            let Kind::Tcp { eyeballs, port, timeout_ms } = &mut self.kind else {
                return OpeningOutcome::Pending;
            };
            let (port, timeout_ms) = (*port, *timeout_ms);
            match eyeballs.next_action() {
                None => return OpeningOutcome::Pending,
                Some(ConnectAction::WaitUntil(time_ms)) => self.wait_ms = Some(time_ms),
                Some(ConnectAction::Failed(failure)) => {
                    return OpeningOutcome::Failed(HttpClientError::Connect(failure));
                }
                Some(ConnectAction::Won(index)) => {
                    let won = self.attempts.iter().find(|attempt| attempt.index == index).copied();
                    if let Some(Attempt { connection, address, .. }) = won {
                        return OpeningOutcome::Connection(connection, address);
                    }
                }
                Some(ConnectAction::Cancel(index)) => {
                    let cancelled = self.attempts.extract_if(.., |one| one.index == index);
                    cancelled.for_each(|attempt| {
                        context.opening.remove(&attempt.connection);
                        cut(attempt, context.connections);
                    });
                }
                Some(ConnectAction::Connect(index)) => {
                    let Some(ip) = eyeballs.address(index) else { continue };
                    // The address of the connection is checked, directly before it is used.
                    let remote = match context.request.policy.check(ip) {
                        Ok(()) => RemoteAddress::Tcp(SocketAddr::new(ip, port)),
                        Err(refused) => {
                            eyeballs.failed(index, refused.into(), now_ms);
                            continue;
                        }
                    };
                    if let Err(error) = self.connect(remote, timeout_ms, index, context)
                        && let Kind::Tcp { eyeballs, .. } = &mut self.kind
                    {
                        eyeballs.failed(index, error, now_ms);
                    }
                }
            }
        }
    }

    fn connect(
        &mut self,
        remote: RemoteAddress,
        timeout_ms: u64,
        index: usize,
        context: &mut OpeningContext<'_, '_>,
    ) -> Result<(), AttemptError> {
        let request = context.request;
        let tls = if request.url.target().is_tls() {
            let tls = request.tls.as_ref().and_then(|tls| tls.get().ok());
            let (Some(name), Some(tls)) = (request.tls_server_name(), tls) else {
                return Err(AttemptError::Tls(HttpClientError::NoTls.to_string()));
            };
            Some(ConnectTls { config: tls.config().clone(), name })
        } else {
            None
        };
        *context.next_connection += 1;
        let connection = ConnectionId(*context.next_connection);
        let connect = Connect { remote, tls, timeout_ms, tag: connection.0 };
        let address = context.connections.connect(connect).map_err(|error| match error {
            ConnectError::TooMany => AttemptError::TooMany,
            ConnectError::NoMemory => AttemptError::NoMemory,
        })?;
        self.attempts.push(Attempt { connection, address, index });
        context.opening.insert(connection, context.id);
        Ok(())
    }

    /// Ends it, except for one connection that goes on. Returns the others.
    pub(super) fn end(
        self,
        without: Option<ConnectionId>,
        connections: &mut Connections<'_>,
    ) -> Vec<ConnectionId> {
        let others = self.attempts.into_iter().filter(|one| Some(one.connection) != without);
        others
            .map(|attempt| {
                cut(attempt, connections);
                attempt.connection
            })
            .collect()
    }

    fn attempt(&self, connection: ConnectionId) -> Option<Attempt> {
        self.attempts.iter().find(|attempt| attempt.connection == connection).copied()
    }
}

fn cut(attempt: Attempt, connections: &mut Connections<'_>) {
    if let Some(mut stream) = connections.stream(attempt.address) {
        stream.abort();
    }
}
