//! One worker: a backend, an application, and the loop between them. In one pass it waits, takes
//! completions one by one, and expires deadlines. Only the wait blocks.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;

use crate::app::App;
use crate::backend::{Backend, Completion, Slot};
use crate::client_connection_limit::ClientLimit;
use crate::connection::Protocol;
use crate::connection_actions::Connections;
use crate::connection_direction::ConnectionDirection;
use crate::connection_permits::ConnectionPermits;
use crate::drain_state::WorkerEnding;
use crate::driver::{multiplexed_requests, protocol_detection};
use crate::end_reason::Gone;
use crate::event_backlog::Punctuality;
use crate::exchange_address::Address;
use crate::inbox::Message;
use crate::inbox::{Inbox, Messages, Recipient};
use crate::limits::{ACCEPT_PAUSE_MS, ACCEPTS_PER_PASS, MESSAGES_PER_PASS, TICK_MS};
use crate::linger::Lingering;
use crate::outgoing_permits::OutgoingPermits;
use crate::permit_pressure::Shortage;
use crate::quic::worker_endpoints::EndpointPlan;
use crate::settings::WorkerSettings;
use crate::stream_event::Notice;
use crate::worker_core::WorkerCore;

/// The state that the workers of a server share.
pub(crate) struct SharedByWorkers {
    pub(crate) permits: ConnectionPermits,
    pub(crate) client_limit: ClientLimit,
    /// The number of connections that the server itself has opened.
    pub(crate) outgoing: Arc<AtomicUsize>,
    /// Whether there are no new connections, and those that become idle end.
    pub(crate) draining: AtomicBool,
    /// Whether the grace period is over and all connections end.
    pub(crate) stopping: AtomicBool,
    pub(crate) inboxes: Arc<[Inbox]>,
    /// The listening sockets that a worker starts with; empty once the server drains, so that the
    /// last worker which drops them closes them.
    pub(crate) sockets: Mutex<Vec<Arc<OwnedFd>>>,
    /// The plans for the QUIC endpoints of each worker.
    pub(crate) endpoints: Vec<EndpointPlan>,
}

impl SharedByWorkers {
    /// Creates the shared state of `workers` with these `settings`, from `sockets`.
    pub(crate) fn new(
        workers: usize,
        settings: &WorkerSettings,
        sockets: Vec<Arc<OwnedFd>>,
        endpoints: Vec<EndpointPlan>,
    ) -> Self {
        Self {
            permits: ConnectionPermits::new(settings.connections, workers),
            client_limit: ClientLimit::new(
                settings.connections_per_client,
                settings.trusted_proxies.clone(),
                workers,
            ),
            outgoing: Arc::default(),
            draining: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            inboxes: (0..workers).map(|_| Inbox::default()).collect(),
            sockets: Mutex::new(sockets),
            endpoints,
        }
    }

    /// Makes the other accepting workers check whether a client waits.
    #[cold]
    fn pass_on(&self, worker: u16) {
        self.permits.pass_on(worker, |other| self.inboxes[other].wake());
    }

    /// Returns the listening sockets for a worker.
    pub(crate) fn listening(&self) -> Vec<Arc<OwnedFd>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes every worker drain, soon after it is woken.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A worker: one thread with its own connections.
pub struct Worker<B: Backend, A: App> {
    pub(crate) backend: B,
    pub(crate) app: A,
    pub(crate) core: WorkerCore,
    pub(crate) shared: Arc<SharedByWorkers>,
    accepting: bool,
    /// The time before which nothing is accepted, because the system ran out of a resource.
    accept_pause_until_ms: u64,
    /// The number of consecutive clients that had gone before they were accepted.
    gone_before: u32,
    /// The time until which the other workers are to accept new clients, because this one has
    /// enough.
    enough_until_ms: u64,
    /// The reason why connections are to be closed at the end of this pass, if they are.
    pub(crate) permit_shortage: Option<Shortage>,
    /// The time before which no connection is closed for its permit, because too few could be.
    pub(crate) permit_relief_after_ms: u64,
    /// The time since which permits are short, in milliseconds, if they are.
    pub(crate) permit_shortage_since_ms: Option<u64>,
    pub(crate) punctuality: Punctuality,
    /// Messages that were taken out of the inbox and are not delivered yet.
    messages: Messages,
}

impl<B: Backend, A: App> Worker<B, A> {
    pub(crate) fn new(
        index: u16,
        backend: B,
        app: A,
        settings: Arc<WorkerSettings>,
        shared: Arc<SharedByWorkers>,
    ) -> Self {
        let now = backend.now();
        let incarnation = shared.inboxes[usize::from(index)].attach(backend.waker());
        let lingering = Lingering::new(settings.connections, shared.inboxes.len());
        let outgoing = OutgoingPermits::new(settings.outgoing, Arc::clone(&shared.outgoing));
        let instant = backend.instant();
        let core = WorkerCore::new(index, incarnation, settings, now, instant, lingering, outgoing);
        Self {
            core,
            backend,
            app,
            shared,
            accepting: false,
            accept_pause_until_ms: 0,
            enough_until_ms: 0,
            permit_shortage: None,
            permit_relief_after_ms: 0,
            permit_shortage_since_ms: None,
            gone_before: 0,
            punctuality: Punctuality::default(),
            messages: Messages::new(),
        }
    }

    /// Runs until the server has drained.
    ///
    /// # Errors
    /// Fails if the backend cannot wait any more.
    pub fn run(&mut self) -> io::Result<()> {
        while self.pass()? {}
        Ok(())
    }

    /// Runs one pass; returns false if the worker is done.
    pub(crate) fn pass(&mut self) -> io::Result<bool> {
        if !self.accepting {
            self.balance();
        }
        let patience_ms = self.patience_ms();
        let index = usize::from(self.core.worker);
        let is_idle = patience_ms != Some(0) && self.shared.inboxes[index].fall_asleep();
        self.backend.wait(if is_idle { patience_ms } else { Some(0) })?;
        let has_changes = self.shared.inboxes[index].awake();
        self.core.now = self.backend.now();
        if self.core.quic.is_some() {
            self.core.instant = self.backend.instant();
        }
        self.punctuality.check(self.core.now.monotonic_ms);
        self.core.tails.refresh(self.core.now.unix_seconds);
        self.app.pass(&mut Connections { core: &mut self.core });
        self.core.buffers.pool.arm();
        let (mut brought_any, mut brought) = (false, false);
        while let Some(completion) = self.backend.next() {
            brought_any = true;
            brought |= Self::brings(&completion);
            self.complete(completion);
            if self.core.buffers.pool.is_low() {
                self.relieve();
            }
        }
        if has_changes {
            brought_any = true;
            self.check_shared_state();
        }
        // Messages are delivered after the completions, so that those posted by the latter are
        // delivered in this pass. Messages posted by deadlines are delivered in the next pass,
        // which does not wait.
        if self.shared.inboxes[index].take_message_flag() {
            brought_any = true;
            self.deliver();
            if self.core.buffers.pool.is_low() {
                self.relieve();
            }
        }
        self.punctuality.passed(brought_any);
        if !self.punctuality.is_catching_up() {
            self.expire();
        }
        self.try_short_sends();
        self.quic_timers();
        self.quic_handshakes();
        self.relieve_permits();
        self.app.pass_end(&mut Connections { core: &mut self.core });
        self.settle_dirty();
        Ok(!self.drained(brought))
    }

    /// Returns how long the next wait may take, in milliseconds.
    fn patience_ms(&mut self) -> Option<u64> {
        let now = self.core.now.monotonic_ms;
        let deadline = self.core.wheel.wait_ms(now);
        self.punctuality.expect(deadline.map(|wait_ms| now + wait_ms));
        // Connections of other workers, or time, decide when to accept again: check regularly.
        let accept = (!self.accepting).then_some(ACCEPT_PAUSE_MS);
        let short = self.core.enobufs_retry_at_ms.map(|until| until.saturating_sub(now));
        let is_emptying = matches!(self.core.ending, WorkerEnding::Emptying { .. });
        let has_more = !self.core.to_connect.is_empty() || !self.core.dirty.is_empty();
        if is_emptying && self.accepting || self.punctuality.is_catching_up() || has_more {
            return Some(0);
        }
        // Whether another worker has a permit to spare is found out by a check.
        let place = is_emptying.then_some(TICK_MS);
        let quic = self.core.quic.as_ref().and_then(|quic| quic.wait_ms(self.backend.instant()));
        let alarm = self.app.alarm_ms().map(|at_ms| at_ms.saturating_sub(now));
        [deadline, accept, short, place, quic, alarm].into_iter().flatten().min()
    }

    /// Turns accepting on or off, so that connections are spread over the workers. A worker that
    /// has more than its share still accepts one client now and then, so that clients do not wait
    /// for ever when the other workers are held up.
    pub(crate) fn balance(&mut self) {
        self.check_permits();
        let (worker, now_ms) = (self.core.worker, self.core.now.monotonic_ms);
        // At the end every worker accepts any waiting client: the others may be done already.
        let going_on = self.core.ending == WorkerEnding::No;
        let has_enough = going_on && self.shared.permits.has_enough(worker);
        if has_enough && self.accepting {
            self.enough_until_ms = now_ms + ACCEPT_PAUSE_MS;
        }
        let open = !matches!(self.core.ending, WorkerEnding::Finishing { .. })
            && now_ms >= self.accept_pause_until_ms
            && (!has_enough
                || (now_ms >= self.enough_until_ms && !self.shared.permits.has_plenty(worker)))
            && self.shared.permits.reserve(worker);
        self.accept(open);
        self.accept_for_others();
    }

    /// Accepts clients that wait, if another worker has asked for that: the kernel may have
    /// notified only a worker that has no permit.
    fn accept_for_others(&mut self) {
        if self.accepting && self.shared.permits.takes_accept_request(self.core.worker) {
            self.backend.accept(false);
            self.backend.accept(true);
        }
    }

    /// Returns whether it holds a reserved permit and accepts clients.
    pub(crate) fn is_accepting(&self) -> bool {
        self.accepting
    }

    /// Turns accepting `on`, with a reserved permit, or off.
    pub(crate) fn accept(&mut self, on: bool) {
        if !on {
            self.shared.permits.put_back(self.core.worker);
        }
        if on != self.accepting {
            self.accepting = on;
            self.backend.accept(on);
        }
    }

    #[inline]
    fn complete(&mut self, completion: Completion<B::Socket>) {
        match completion {
            Completion::Received { slot, lent } => self.received(slot, lent),
            Completion::Accepted { listener, socket, peer } => {
                self.accepted(listener as u16, socket, peer);
            }
            Completion::AcceptFailed { error } => self.accept_failed(error),
            Completion::ListenerLost { .. } => self.pause_accepting(),
            Completion::ClientMissed => self.shared.pass_on(self.core.worker),
            Completion::Connected { slot, result } => self.connected(slot, result),
            Completion::Ended { slot } => self.receive_input_end(slot),
            Completion::Failed { slot, .. } => self.cut(slot, Gone::Peer),
            Completion::Writable { slot } => {
                self.core.connections.get(slot).link.blocked = None;
                self.settle(slot);
            }
            Completion::Sent { slot, result } => self.sent(slot, result),
            Completion::Released { slot } => self.released(slot),
            Completion::Datagrams { number } => self.datagrams(number),
            // The inbox has the reason, after the other completions.
            Completion::Woken => {}
        }
    }

    #[inline]
    fn accepted(&mut self, listener: u16, socket: B::Socket, socket_peer: Option<SocketAddr>) {
        let settings = &self.core.settings.listeners[usize::from(listener)];
        let has_header =
            settings.proxy_protocol.as_ref().is_some_and(|from| from.contains(socket_peer));
        // The header carries the address of the client, which is counted then.
        let peer = if has_header { None } else { socket_peer };
        if !self.admits(peer) {
            return;
        }
        if !self.core.make_room() {
            self.shared.client_limit.leave(self.core.worker, peer);
            return self.accept_failed(Errno::NOMEM);
        }
        let slot = self.core.connections.open(true, ConnectionDirection::incoming(listener), peer);
        if has_header {
            self.core.connections.get(slot).protocol = Protocol::ProxyHeader(socket_peer);
        }
        self.opened(slot, socket);
    }

    /// Counts a new connection of a client, unless the client holds as many as it may.
    #[inline]
    pub(crate) fn admits(&mut self, peer: Option<SocketAddr>) -> bool {
        let is_admitted = self.shared.client_limit.admit(self.core.worker, peer);
        if !is_admitted && let Some(peer) = peer {
            self.app.connection_refused(peer, self.core.now);
        }
        is_admitted
    }

    fn opened(&mut self, slot: Slot, socket: B::Socket) {
        if self.backend.attach(slot, socket).is_err() {
            let peer = self.core.connections.get(slot).peer;
            self.shared.client_limit.leave(self.core.worker, peer);
            self.core.connections.release(slot);
            self.accept_failed(Errno::NOMEM);
            return;
        }
        self.gone_before = 0;
        self.shared.permits.fill(self.core.worker);
        self.balance();
        if let Protocol::ProxyHeader(_) = self.core.connections.get(slot).protocol {
            return self.core.set_deadline(slot);
        }
        let Self { app, core, .. } = self;
        if core.listener(slot).tls.is_none() {
            protocol_detection::begin(app, core, slot, None);
        }
        if !matches!(
            core.connections.get(slot).protocol,
            Protocol::Handshake | Protocol::Undetected
        ) {
            return self.settle(slot);
        }
        self.core.set_deadline(slot);
    }

    /// Handles a failed accept. A client that has gone again is no failure of ours, unless no other
    /// client comes. Any other error means that the system lacks descriptors or memory, and trying
    /// at once would only burn CPU.
    #[cold]
    fn accept_failed(&mut self, error: Errno) {
        self.gone_before += 1;
        let is_harmless = concerns_one_client(error) && self.gone_before <= ACCEPTS_PER_PASS;
        if !is_harmless {
            if matches!(error, Errno::MFILE | Errno::NFILE) {
                self.permit_shortage = Some(Shortage::Descriptors);
            }
            self.pause_accepting();
        }
    }

    #[cold]
    fn pause_accepting(&mut self) {
        self.gone_before = 0;
        self.accept_pause_until_ms = self.core.now.monotonic_ms + ACCEPT_PAUSE_MS;
        self.accept(false);
    }

    /// Acts on state that other threads or workers have changed.
    fn check_shared_state(&mut self) {
        if self.shared.permits.is_asked_for_relief(self.core.worker) {
            self.permit_shortage.get_or_insert(Shortage::Elsewhere);
        }
        self.accept_for_others();
        if self.shared.draining.load(Ordering::Acquire) {
            self.drain();
        }
    }

    /// Delivers at most [`MESSAGES_PER_PASS`] messages, so that connections are not starved.
    fn deliver(&mut self) {
        let index = usize::from(self.core.worker);
        for _ in 0..MESSAGES_PER_PASS {
            if self.messages.is_empty() {
                let empty = std::mem::take(&mut self.messages);
                self.shared.inboxes[index].take_message_flag();
                self.messages = self.shared.inboxes[index].take(empty);
            }
            match self.messages.pop_front() {
                None => return,
                Some((Recipient::Tenant(to), message)) => self.posted(to, message),
                Some((Recipient::App, message)) => {
                    self.app.posted(message, &mut Connections { core: &mut self.core });
                }
            }
        }
        self.shared.inboxes[index].mark_messages_pending();
    }

    /// Returns whether posted messages are not delivered yet.
    pub(crate) fn has_messages(&self) -> bool {
        let inbox = &self.shared.inboxes[usize::from(self.core.worker)];
        !self.messages.is_empty() || !inbox.is_empty()
    }

    fn posted(&mut self, to: Address, message: Message) {
        let slot = to.slot;
        if !self.core.connections.is(slot, to.generation) {
            let _nobody_waits_for_it = self.take_datagram(to, message);
            return;
        }
        let connection = self.core.connections.get(slot);
        if connection.is_closing() {
            return;
        }
        if connection.protocol.multiplexed().is_some() {
            let Self { app, core, .. } = self;
            multiplexed_requests::notify(app, core, slot, to.exchange, Notice::Posted(message));
            return self.settle(slot);
        }
        if !connection.has_single_open_exchange()
            || connection.last_exchange_number() != to.exchange
        {
            return;
        }
        self.notify(slot, Notice::Posted(message));
        self.settle(slot);
    }

    fn expire(&mut self) {
        self.core.wheel.expire(self.core.now.monotonic_ms);
        while let Some(slot) = self.core.wheel.next_due() {
            self.deadline(slot);
        }
    }
}

/// Returns whether accepting failed for the one client whose turn it was. Linux hands pending
/// errors of a new socket, and those of a firewall, to accept (accept(2)).
fn concerns_one_client(error: Errno) -> bool {
    matches!(
        error,
        Errno::CONNABORTED
            | Errno::INTR
            | Errno::PERM
            | Errno::PROTO
            | Errno::NOPROTOOPT
            | Errno::OPNOTSUPP
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::NONET
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::TIMEDOUT
    )
}
