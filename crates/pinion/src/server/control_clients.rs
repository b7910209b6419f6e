//! The clients of the control socket. None of them can block the thread: their input and output is
//! handled in pieces as they are ready, and an idle client is disconnected.

use crate::control::connection::Connection;
use crate::control::protocol::{CommandRequest, Response};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SendFlags, SocketFlags, accept_with, send};
use rustix::process::geteuid;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// The most clients at a time: people at terminals, and monitoring. More are refused.
pub(crate) const CLIENTS_MAX: usize = 8;

/// How long a client may take for a request from its first byte on, and for a piece of a response.
/// One whose request is carried out has no limit.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long no client is accepted when the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Clients that are accepted at a time, so that others and signals have their turn.
const ACCEPT_BATCH: usize = 16;

/// Bytes that are read at a time.
const READ_BYTES: usize = 4096;

/// Names a client for as long as the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientId(u64);

/// The socket and its clients.
pub(super) struct ControlClients {
    /// `None` for a server without one.
    socket: Option<OwnedFd>,
    clients: Vec<ControlClient>,
    next: u64,
    /// No client is accepted before this time.
    accepts_from: Option<Instant>,
}

struct ControlClient {
    id: ClientId,
    socket: OwnedFd,
    connection: Connection,
    /// The time at which the connection is closed unless the client sends a request or reads a
    /// response.
    deadline: Instant,
    is_gone: bool,
}

impl ControlClients {
    pub(super) fn new(socket: Option<OwnedFd>) -> Self {
        Self { socket, clients: Vec::new(), next: 0, accepts_from: None }
    }

    /// Returns when [`Self::handle_events`] has to be called if no event comes.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        let idle = self.clients.iter().filter(|client| !client.connection.awaits_response());
        idle.map(|client| client.due(now)).chain(self.accepts_from).min()
    }

    /// Returns the descriptors to poll. [`Self::handle_events`] takes the results in the same
    /// order.
    pub(super) fn polled(&mut self, now: Instant) -> Vec<PollFd<'_>> {
        self.accepts_from.take_if(|from| now >= *from);
        let accepts = self.accepts_from.is_none();
        let listens = if accepts { PollFlags::IN } else { PollFlags::empty() };
        let socket = self.socket.iter().map(|socket| PollFd::new(socket, listens));
        let clients = self.clients.iter().map(|client| {
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::IN, client.connection.wanted_bytes() > 0);
            wanted.set(PollFlags::OUT, !client.connection.output().is_empty());
            PollFd::new(&client.socket, wanted)
        });
        socket.chain(clients).collect()
    }

    /// Sends and receives where that is possible, and closes connections whose time limit is over.
    pub(super) fn handle_events(&mut self, ready: &[PollFlags], now: Instant) {
        let first_client = usize::from(self.socket.is_some());
        for (client, flags) in self.clients.iter_mut().zip(ready.iter().skip(first_client)) {
            client.handle_events(*flags, now);
        }
        self.clients.retain(|client| !client.is_gone);
        let is_ready = ready.first().is_some_and(|flags| flags.contains(PollFlags::IN));
        if self.socket.is_some() && is_ready {
            self.accept(now);
        }
    }

    /// Returns one request of each client that has sent a whole one. The responses are sent with
    /// [`Self::respond`] or [`Self::announce`].
    pub(super) fn requests(&mut self, now: Instant) -> Vec<(ClientId, CommandRequest)> {
        let mut requests = Vec::new();
        for client in &mut self.clients {
            if let Some(request) = client.connection.request() {
                requests.push((client.id, request));
            }
            // The response to a line that is no request leaves at once.
            client.send(now);
        }
        self.clients.retain(|client| !client.is_gone);
        requests
    }

    /// Responds to a request, unless its client has gone.
    pub(super) fn respond(&mut self, id: ClientId, response: &Response) {
        self.send(id, |connection| connection.respond(response));
    }

    /// Responds to a request that is carried out with the end of the process, which its client
    /// waits for.
    pub(super) fn announce(&mut self, id: ClientId, response: &Response) {
        self.send(id, |connection| connection.announce(response));
    }

    fn send(&mut self, id: ClientId, queue: impl FnOnce(&mut Connection)) {
        let now = Instant::now();
        if let Some(client) = self.clients.iter_mut().find(|client| client.id == id) {
            queue(&mut client.connection);
            client.deadline = now + IDLE_TIMEOUT;
            client.send(now);
        }
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..ACCEPT_BATCH {
            let Some(listening) = &self.socket else { return };
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match accept_with(listening, flags) {
                Ok(socket) => socket,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.accepts_from = Some(now + ACCEPT_PAUSE);
                    return;
                }
            };
            let mut client = ControlClient::new(ClientId(self.next), socket, now);
            self.next += 1;
            if let Some(reason) = self.reason_to_refuse(&client) {
                client.connection.end_with(&Response::refused(reason));
                client.send(now);
            } else {
                self.clients.push(client);
            }
        }
    }

    fn reason_to_refuse(&self, client: &ControlClient) -> Option<String> {
        let user = socket_peercred(&client.socket).ok().map(|peer| peer.uid);
        if !user.is_some_and(|user| user.is_root() || user == geteuid()) {
            return Some("only root and the user of the server may use this socket".to_owned());
        }
        (self.clients.len() >= CLIENTS_MAX)
            .then(|| format!("{CLIENTS_MAX} clients use this socket already, the most that may"))
    }
}

impl ControlClient {
    fn new(id: ClientId, socket: OwnedFd, now: Instant) -> Self {
        let deadline = now + IDLE_TIMEOUT;
        Self { id, socket, connection: Connection::default(), deadline, is_gone: false }
    }

    /// Returns when it needs the thread without an event: at once for a request that has been
    /// received, otherwise at its time limit.
    fn due(&self, now: Instant) -> Instant {
        if self.connection.has_line() { now } else { self.deadline }
    }

    fn handle_events(&mut self, ready: PollFlags, now: Instant) {
        if ready.intersects(PollFlags::ERR | PollFlags::HUP) && self.connection.awaits_response() {
            self.is_gone = true;
            return;
        }
        if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            self.receive(now);
        }
        self.send(now);
        self.is_gone |= !self.connection.awaits_response() && now >= self.deadline;
    }

    fn receive(&mut self, now: Instant) {
        let mut buffer = [0; READ_BYTES];
        let wanted = self.connection.wanted_bytes().min(READ_BYTES);
        let Some(buffer) = buffer.get_mut(..wanted).filter(|buffer| !buffer.is_empty()) else {
            return;
        };
        match rustix::io::read(self.socket.as_fd(), &mut *buffer) {
            // It may have closed its side for sending alone, and wait for the response.
            Ok(0) => self.connection.end(),
            Ok(bytes) => {
                if !self.connection.has_begun() {
                    self.deadline = now + IDLE_TIMEOUT;
                }
                self.connection.receive(buffer.get(..bytes).unwrap_or_default());
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.is_gone = true,
        }
    }

    fn send(&mut self, now: Instant) {
        while !self.connection.output().is_empty() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match send(&self.socket, self.connection.output(), flags) {
                Ok(bytes) => {
                    self.connection.sent(bytes);
                    self.deadline = now + IDLE_TIMEOUT;
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => {
                    self.is_gone = true;
                    return;
                }
            }
        }
        self.is_gone |= self.connection.is_over();
    }
}
