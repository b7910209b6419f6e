//! One worker: a backend, an application, and the loop between them. A pass is: wait, take
//! completions one by one, expire deadlines. Nothing in it blocks but the wait.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::io::Errno;

use crate::address::Address;
use crate::app::{App, Event, Gone, Message, RawEvent};
use crate::backend::{Backend, Completion, Lent, Sending, Slot};
use crate::conn::{Phase, Watch};
use crate::core::Core;
use crate::exchange::{Exchange, Stage};
use crate::http1;
use crate::inbox::Inbox;
use crate::limits::{
    ACCEPT_PAUSE_MS, ACCEPT_SLACK_CONNECTIONS, OUTPUT_LOW_WATER_BYTES, STASH_MAX_BYTES,
};
use crate::output::Next;
use crate::raw::RawStream;
use crate::settings::{Protocol, Settings};

/// What the workers of a server know of each other.
pub(crate) struct Shared {
    /// Connections per worker.
    pub(crate) loads: Vec<AtomicUsize>,
    /// No new connections; end those that fall idle.
    pub(crate) draining: AtomicBool,
    /// The grace is over: end all.
    pub(crate) stopping: AtomicBool,
    pub(crate) inboxes: Arc<[Inbox]>,
}

impl Shared {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            loads: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
            draining: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            inboxes: (0..workers).map(|_| Inbox::default()).collect(),
        }
    }

    fn connections(&self) -> usize {
        self.loads.iter().map(|load| load.load(Ordering::Relaxed)).sum()
    }
}

/// See the module's head.
pub struct Worker<B: Backend, A: App> {
    pub(crate) backend: B,
    pub(crate) app: A,
    pub(crate) core: Core,
    shared: Arc<Shared>,
    accepting: bool,
    /// No accepting before this time: the system ran out of something.
    accept_pause_until_ms: u64,
    due: Vec<Slot>,
    messages: Vec<(Address, Message)>,
}

/// How far [`Worker::flush`] came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flush {
    Empty,
    Waits,
    Broken(Gone),
}

impl<B: Backend, A: App> Worker<B, A> {
    pub(crate) fn new(
        index: u16,
        backend: B,
        app: A,
        settings: Arc<Settings>,
        shared: Arc<Shared>,
    ) -> Self {
        let now = backend.now();
        shared.inboxes[usize::from(index)].attach(backend.waker());
        Self {
            core: Core::new(index, settings, now),
            backend,
            app,
            shared,
            accepting: false,
            accept_pause_until_ms: 0,
            due: Vec::new(),
            messages: Vec::new(),
        }
    }

    /// Runs until the server has drained.
    ///
    /// # Errors
    /// When the backend cannot wait any more.
    pub fn run(&mut self) -> io::Result<()> {
        while self.pass()? {}
        Ok(())
    }

    /// One pass; false when the worker is done.
    pub(crate) fn pass(&mut self) -> io::Result<bool> {
        self.balance();
        self.backend.wait(self.patience_ms())?;
        self.core.now = self.backend.now();
        self.core.tails.refresh(self.core.now.unix_seconds);
        self.app.pass(self.core.now, &mut self.core.mappings);
        while let Some(completion) = self.backend.next() {
            self.complete(completion);
        }
        self.expire();
        Ok(!self.drained())
    }

    /// How long the next wait may take.
    fn patience_ms(&self) -> Option<u64> {
        let deadline = self.core.wheel.wait_ms(self.core.now.monotonic_ms);
        // Somebody else's connections, or time, decide when to accept again: look regularly.
        let accept = (!self.accepting).then_some(ACCEPT_PAUSE_MS);
        deadline.into_iter().chain(accept).min()
    }

    /// Turns accepting on or off (design §4.2).
    fn balance(&mut self) {
        let own = self.core.conns.len();
        let index = usize::from(self.core.worker);
        if self.accepting && self.shared.loads[index].load(Ordering::Relaxed) == own {
            return;
        }
        self.shared.loads[index].store(own, Ordering::Relaxed);
        let all = self.shared.connections();
        let mean = all / self.shared.loads.len();
        let open = !self.core.draining
            && self.core.now.monotonic_ms >= self.accept_pause_until_ms
            && all < self.core.settings.connections
            && own <= mean + mean / 4 + ACCEPT_SLACK_CONNECTIONS;
        if open != self.accepting {
            self.accepting = open;
            self.backend.accept(open);
        }
    }

    #[inline]
    fn complete(&mut self, completion: Completion<B::Socket>) {
        match completion {
            Completion::Received { slot, lent } => self.received(slot, lent),
            Completion::Accepted { listener, socket, peer } => {
                let protocol = self.core.settings.listeners[listener].protocol;
                let phase = if protocol == Protocol::Raw { Phase::Raw } else { Phase::Head };
                let Some(slot) = self.core.conns.open(phase, listener as u16, peer) else {
                    return self.accept_failed(Errno::NOMEM);
                };
                self.opened(slot, socket);
            }
            Completion::AcceptFailed { error } => self.accept_failed(error),
            Completion::Ended { slot } => self.ended(slot),
            Completion::Failed { slot, .. } => self.cut(slot, Gone::Peer),
            Completion::Writable { slot } => {
                self.core.conns.get(slot).blocked = false;
                self.settle(slot);
            }
            Completion::Sent { slot, result } => self.sent(slot, result),
            Completion::Released { slot } => self.released(slot),
            Completion::Woken => self.woken(),
        }
    }

    fn opened(&mut self, slot: Slot, socket: B::Socket) {
        if self.backend.attach(slot, socket).is_err() {
            self.core.conns.release(slot);
            self.accept_failed(Errno::NOMEM);
            return;
        }
        if self.core.conns.get(slot).phase == Phase::Raw {
            self.core.conns.get(slot).exchange.stage = Stage::Open;
            let Self { app, core, .. } = self;
            app.raw(RawEvent::Open, &mut RawStream { core, slot });
            http1::after_raw(core, slot);
            return self.settle(slot);
        }
        self.core.watch(slot);
        self.balance();
    }

    /// A client that has gone again is no failure of ours; anything else means that the system
    /// lacks descriptors or memory, and trying at once would only burn CPU.
    #[cold]
    fn accept_failed(&mut self, error: Errno) {
        let harmless = matches!(error, Errno::CONNABORTED | Errno::INTR | Errno::PROTO);
        if !harmless {
            self.accept_pause_until_ms = self.core.now.monotonic_ms + ACCEPT_PAUSE_MS;
            self.accepting = false;
            self.backend.accept(false);
        }
    }

    #[inline]
    fn received(&mut self, slot: Slot, lent: Lent) {
        let Self { backend, app, core, .. } = self;
        let input = backend.input(&lent);
        if core.conns.get(slot).stash.is_empty() {
            let used = http1::drive(app, core, slot, input);
            keep(core, slot, &input[used..]);
        } else if keep(core, slot, input) {
            drive_stash(app, core, slot);
        }
        backend.give_back(lent);
        self.settle(slot);
    }

    /// Sends what is queued and moves the connection on until it has to wait for somebody.
    #[inline]
    fn settle(&mut self, slot: Slot) {
        loop {
            if self.core.conns.get(slot).exchange.stage == Stage::Aborted {
                return self.cut(slot, Gone::Overload);
            }
            let flush = self.flush(slot);
            if let Flush::Broken(gone) = flush {
                return self.cut(slot, gone);
            }
            let conn = self.core.conns.get(slot);
            if conn.close_when_sent {
                if flush == Flush::Empty {
                    return self.last_sent(slot);
                }
                break;
            }
            if self.tell_writable(slot) {
                continue;
            }
            let Self { app, core, .. } = self;
            if core.conns.get(slot).stash.is_empty() {
                break;
            }
            let stuck = drive_stash(app, core, slot) == 0;
            if stuck && (flush == Flush::Waits || self.core.queued_bytes(slot) == 0) {
                break;
            }
        }
        let conn = self.core.conns.get(slot);
        if conn.ended && conn.phase == Phase::Head && self.core.queued_bytes(slot) == 0 {
            return self.cut(slot, Gone::Peer);
        }
        self.steer(slot);
        self.core.watch(slot);
    }

    /// Hands the queue to the kernel as far as it goes.
    #[inline]
    fn flush(&mut self, slot: Slot) -> Flush {
        let Self { backend, core, .. } = self;
        let Core { conns, outputs, pool, mappings, .. } = core;
        let conn = conns.get(slot);
        let Some(output) = outputs.get(conn.output) else { return Flush::Empty };
        if conn.blocked || output.in_flight {
            return Flush::Waits;
        }
        loop {
            let sending = match output.next(mappings, B::SENDS_FILES) {
                Next::Nothing => {
                    output.clear(pool, mappings);
                    outputs.free(&mut conn.output);
                    return Flush::Empty;
                }
                Next::Changed => return Flush::Broken(Gone::Overload),
                Next::One(bytes) => {
                    // SAFETY: the chunk's heap memory stays where it is until the queue drops it,
                    // which `in_flight` forbids before `Sent` or `Released`.
                    unsafe { backend.send(slot, &[io::IoSlice::new(bytes)], false) }
                }
                Next::Memory { parts, more } => {
                    // SAFETY: as above; mappings are held by the count of their slices.
                    unsafe { backend.send(slot, parts.as_slice(), more) }
                }
                Next::File { file, offset, bytes } => backend.send_file(slot, file, offset, bytes),
            };
            match sending {
                Sending::Done(bytes) => output.advance(bytes, pool, mappings),
                Sending::Blocked => {
                    conn.blocked = true;
                    conn.acknowledged = backend.acknowledged(slot).unwrap_or(0);
                    return Flush::Waits;
                }
                Sending::Pending => {
                    output.in_flight = true;
                    return Flush::Waits;
                }
                Sending::Failed(_) => return Flush::Broken(Gone::Peer),
            }
        }
    }

    fn sent(&mut self, slot: Slot, result: Result<usize, Errno>) {
        let Core { conns, outputs, pool, mappings, .. } = &mut self.core;
        let conn = conns.get(slot);
        if let Some(output) = outputs.get(conn.output) {
            output.in_flight = false;
            match result {
                Ok(bytes) => output.advance(bytes, pool, mappings),
                Err(_) if conn.phase == Phase::Closing => {}
                Err(_) => return self.cut(slot, Gone::Peer),
            }
        }
        if self.core.conns.get(slot).phase != Phase::Closing {
            self.settle(slot);
        }
    }

    /// The last answer has left: close, or read on for a while (RFC 9112 §9.6).
    fn last_sent(&mut self, slot: Slot) {
        let conn = self.core.conns.get(slot);
        if !conn.linger || conn.ended {
            return self.cut(slot, Gone::Peer);
        }
        conn.close_when_sent = false;
        self.backend.finish(slot);
        self.steer(slot);
        self.core.watch(slot);
    }

    /// Tells the application that there is room again, if it was told that there was none.
    fn tell_writable(&mut self, slot: Slot) -> bool {
        let queued = self.core.queued_bytes(slot);
        let conn = self.core.conns.get(slot);
        if !conn.exchange.owes_writable || queued > OUTPUT_LOW_WATER_BYTES {
            return false;
        }
        conn.exchange.owes_writable = false;
        let raw = conn.phase == Phase::Raw;
        self.notify(
            slot,
            if raw { Notice::Raw(RawEvent::Writable) } else { Notice::Exchange(Event::Writable) },
        );
        true
    }

    /// Reads on while what comes can be used or kept.
    #[inline]
    fn steer(&mut self, slot: Slot) {
        let conn = self.core.conns.get(slot);
        let takes = match conn.phase {
            Phase::Head | Phase::Linger => conn.stash.len() < STASH_MAX_BYTES / 2,
            Phase::Body if conn.exchange.stage != Stage::None => {
                conn.exchange.wanted > 0 || conn.stash.is_empty() && !conn.exchange.waiting
            }
            Phase::Body => true,
            Phase::Raw => conn.exchange.wanted > 0,
            Phase::Answer => conn.stash.is_empty(),
            Phase::Closing => false,
        };
        let stuck = conn.blocked && !conn.stash.is_empty();
        let on = takes && !conn.ended && !stuck;
        if on != conn.receiving {
            conn.receiving = on;
            self.backend.receive(slot, on);
        }
    }

    fn ended(&mut self, slot: Slot) {
        let conn = self.core.conns.get(slot);
        conn.ended = true;
        conn.receiving = false;
        match conn.phase {
            Phase::Raw => self.notify(slot, Notice::Raw(RawEvent::End)),
            // The request can never be complete.
            Phase::Body if conn.exchange.stage != Stage::None => {
                return self.cut(slot, Gone::Peer);
            }
            Phase::Body => conn.end(false),
            Phase::Linger if conn.close_when_sent => conn.linger = false,
            Phase::Linger => return self.cut(slot, Gone::Peer),
            Phase::Head | Phase::Answer | Phase::Closing => {}
        }
        self.settle(slot);
    }

    /// Ends a connection now, whatever it is doing.
    fn cut(&mut self, slot: Slot, gone: Gone) {
        let conn = self.core.conns.get(slot);
        if conn.phase == Phase::Closing {
            return;
        }
        let raw = conn.phase == Phase::Raw;
        let open = conn.exchange.stage != Stage::None;
        let abruptly = conn.exchange.stage == Stage::Aborted;
        if open {
            self.notify_gone(slot, raw, gone);
        }
        let conn = self.core.conns.get(slot);
        conn.phase = Phase::Closing;
        let stash = std::mem::take(&mut conn.stash);
        self.core.pool.drop_stash(stash);
        self.core.wheel.cancel(slot);
        if self.backend.close(slot, abruptly) {
            self.released(slot);
        }
    }

    fn notify_gone(&mut self, slot: Slot, raw: bool, gone: Gone) {
        let Self { app, core, .. } = self;
        if raw {
            app.raw(RawEvent::Gone(gone), &mut RawStream { core, slot });
        } else {
            app.exchange(Event::Gone(gone), &mut Exchange { core, slot });
        }
    }

    /// The kernel holds nothing of the slot any more.
    fn released(&mut self, slot: Slot) {
        let Core { conns, outputs, pool, mappings, .. } = &mut self.core;
        let conn = conns.get(slot);
        if let Some(output) = outputs.get(conn.output) {
            output.clear(pool, mappings);
            outputs.free(&mut conn.output);
        }
        conns.release(slot);
    }

    /// Gives the application an event that came from elsewhere than the peer's bytes.
    fn notify(&mut self, slot: Slot, notice: Notice<'_>) {
        let Self { app, core, .. } = self;
        match notice {
            Notice::Exchange(event) => {
                app.exchange(event, &mut Exchange { core, slot });
                http1::after_event(app, core, slot);
            }
            Notice::Raw(event) => {
                app.raw(event, &mut RawStream { core, slot });
                http1::after_raw(core, slot);
            }
        }
    }

    fn woken(&mut self) {
        let index = usize::from(self.core.worker);
        let mut messages = std::mem::take(&mut self.messages);
        self.shared.inboxes[index].take(&mut messages);
        for (to, message) in messages.drain(..) {
            self.posted(to, message);
        }
        self.messages = messages;
        if self.shared.draining.load(Ordering::Acquire) && !self.core.draining {
            self.drain();
        }
    }

    fn posted(&mut self, to: Address, message: Message) {
        let slot = to.slot;
        if !self.core.conns.is(slot, to.generation) {
            return;
        }
        let conn = self.core.conns.get(slot);
        match (conn.phase, conn.exchange.stage) {
            (Phase::Closing, _) | (_, Stage::None) => return,
            (Phase::Raw, _) => self.notify(slot, Notice::Raw(RawEvent::Posted(message))),
            _ => self.notify(slot, Notice::Exchange(Event::Posted(message))),
        }
        self.settle(slot);
    }

    /// Takes no more connections and ends those between two requests.
    fn drain(&mut self) {
        self.core.draining = true;
        self.accepting = false;
        self.backend.accept(false);
        for slot in self.core.conns.slots() {
            let conn = self.core.conns.get(slot);
            conn.exchange.keep_alive = false;
            if conn.phase == Phase::Head && conn.stash.is_empty() && !conn.close_when_sent {
                let queued = self.core.queued_bytes(slot);
                if queued == 0 {
                    self.cut(slot, Gone::Stopping);
                } else {
                    self.core.conns.get(slot).end(true);
                }
            }
        }
    }

    fn drained(&mut self) -> bool {
        if self.core.draining && self.shared.stopping.load(Ordering::Acquire) {
            for slot in self.core.conns.slots() {
                self.cut(slot, Gone::Stopping);
            }
        }
        let index = usize::from(self.core.worker);
        self.core.draining && self.core.conns.len() == 0 && {
            self.shared.loads[index].store(0, Ordering::Relaxed);
            true
        }
    }

    fn expire(&mut self) {
        let mut due = std::mem::take(&mut self.due);
        self.core.wheel.expire(self.core.now.monotonic_ms, &mut due);
        for slot in due.drain(..) {
            self.deadline(slot);
        }
        self.due = due;
    }

    #[cold]
    fn deadline(&mut self, slot: Slot) {
        let now = self.core.now.monotonic_ms;
        let conn = self.core.conns.get(slot);
        if conn.exchange.deadline_ms > 0 && conn.exchange.deadline_ms <= now {
            conn.exchange.deadline_ms = 0;
            let raw = conn.phase == Phase::Raw;
            self.notify(
                slot,
                if raw {
                    Notice::Raw(RawEvent::Deadline)
                } else {
                    Notice::Exchange(Event::Deadline)
                },
            );
            return self.settle(slot);
        }
        let watch = std::mem::replace(&mut conn.watch, Watch::Nothing);
        match watch {
            Watch::Nothing => {}
            Watch::Idle | Watch::Linger => return self.cut(slot, Gone::Stalled),
            Watch::Head if conn.stash.is_empty() => return self.cut(slot, Gone::Stalled),
            Watch::Head => http1::refuse(&mut self.core, slot, 408),
            Watch::Discard => return self.cut(slot, Gone::Stalled),
            Watch::Body => {
                let answered = conn.exchange.stage != Stage::Open;
                self.notify_gone(slot, false, Gone::Stalled);
                if answered {
                    self.core.conns.get(slot).exchange.stage = Stage::Aborted;
                } else {
                    http1::refuse(&mut self.core, slot, 408);
                }
            }
            Watch::Send => {
                let acknowledged = self.backend.acknowledged(slot);
                let conn = self.core.conns.get(slot);
                if acknowledged.is_none_or(|bytes| bytes <= conn.acknowledged) {
                    return self.cut(slot, Gone::Stalled);
                }
                conn.acknowledged = acknowledged.unwrap_or(0);
            }
        }
        self.settle(slot);
    }
}

/// An event for one of the two entrances of the application.
enum Notice<'a> {
    Exchange(Event<'a>),
    Raw(RawEvent<'a>),
}

/// Keeps input that cannot be used yet. False when there is no room: the connection pays.
#[inline]
fn keep(core: &mut Core, slot: Slot, input: &[u8]) -> bool {
    if input.is_empty() {
        return true;
    }
    let Core { conns, pool, .. } = core;
    let conn = conns.get(slot);
    if conn.exchange.stage == Stage::Aborted || pool.stash(&mut conn.stash, input) {
        return true;
    }
    overflow(core, slot);
    false
}

/// No memory for a half request: tell the client, if nothing else is under way.
#[cold]
fn overflow(core: &mut Core, slot: Slot) {
    if core.conns.get(slot).phase == Phase::Head {
        http1::refuse(core, slot, 503);
    } else {
        core.overloaded(slot);
    }
}

/// Goes on with input that was kept; returns how many bytes were used.
fn drive_stash<A: App>(app: &mut A, core: &mut Core, slot: Slot) -> usize {
    let mut stash = std::mem::take(&mut core.conns.get(slot).stash);
    let used = http1::drive(app, core, slot, &stash);
    if used == stash.len() {
        core.pool.drop_stash(stash);
    } else {
        stash.drain(..used);
        core.conns.get(slot).stash = stash;
    }
    used
}
