//! What a worker does with one connection: input to the protocol, output to the kernel, and what
//! the application hears of it.

mod intake;
mod late;

use rustix::io::Errno;

use crate::address::Address;
use crate::app::{App, Event, Gone, Message, RawEvent};
use crate::backend::{Backend, Lent, Sending, Slot};
use crate::conn::Phase;
use crate::core::Core;
use crate::deadline::Watch;
use crate::exchange::{Exchange, Stage};
use crate::handover::{hand_over, why_failed};
use crate::http1;
use crate::http2;
use crate::limits::{OUTPUT_LOW_WATER_BYTES, STASH_MAX_BYTES, TURN_BYTES};
use crate::many::{self, Many};
use crate::output::Next;
use crate::raw::RawStream;
use crate::sealed;
use crate::shortage::is_shortage;
use crate::worker::Worker;

use intake::drive_stash;
pub(crate) use intake::take_in;

/// How far [`Worker::flush`] came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    Empty,
    Waits,
    Broken(Gone),
}

/// Tells the application that what it has open on a connection is over, once.
pub(crate) fn notify_gone<A: App>(app: &mut A, core: &mut Core, slot: Slot, raw: bool, gone: Gone) {
    if core.conns.get(slot).many.is_some() {
        many::abandon(app, core, slot, gone);
    }
    if !std::mem::take(&mut core.conns.get(slot).exchange.open) {
        return;
    }
    if raw {
        app.raw(RawEvent::Gone(gone), &mut RawStream { core, slot });
    } else {
        app.exchange(Event::Gone(gone), &mut Exchange { core, slot, stream: 0 });
    }
}

impl<B: Backend, A: App> Worker<B, A> {
    #[inline]
    pub(crate) fn received(&mut self, slot: Slot, lent: Lent) {
        let Self { backend, app, core, .. } = self;
        let input = backend.input(&lent);
        core.content_bytes = 0;
        let mut has_ended = false;
        if core.conns.get(slot).opens_input() {
            has_ended = sealed::received(app, core, slot, input);
        } else {
            take_in(app, core, slot, input);
        }
        let changed = core.conns.get(slot).weigh_input(input.len(), core.content_bytes);
        if let Some(is_content) = changed {
            backend.expect_content(slot, is_content);
        }
        backend.give_back(lent);
        if has_ended && !self.core.conns.get(slot).ended {
            return self.ended(slot);
        }
        self.settle(slot);
    }

    /// Sends what is queued and moves the connection on until it has to wait for somebody, or until
    /// its turn is over.
    #[inline]
    pub(crate) fn settle(&mut self, slot: Slot) {
        match self.core.conns.get(slot).phase {
            Phase::Http3 => return self.drive_quic(slot, std::time::Instant::now()),
            // It waits for nothing but the kernel, or QUIC.
            Phase::Closing => return,
            _ => {}
        }
        let mut turn_bytes = 0;
        loop {
            let state = &self.core.conns.get(slot).exchange;
            if state.stage == Stage::Aborted {
                let why = state.given_up.unwrap_or(Gone::Peer);
                return self.cut(slot, why);
            }
            let flush = self.flush(slot, &mut turn_bytes);
            if let Flush::Broken(gone) = flush {
                return self.cut(slot, gone);
            }
            if flush == Flush::Empty {
                self.tell_sent(slot);
            }
            let conn = self.core.conns.get(slot);
            if conn.close_when_sent {
                if flush == Flush::Empty {
                    return self.last_sent(slot);
                }
                break;
            }
            if self.tell_writable(slot) || self.pump(slot) {
                continue;
            }
            let Self { app, core, .. } = self;
            if core.conns.get(slot).stash.is_empty() {
                break;
            }
            let stuck = drive_stash(app, core, slot) == 0;
            if stuck && (flush == Flush::Waits || self.core.framed_bytes(slot) == 0) {
                break;
            }
        }
        if self.core.conns.get(slot).ended && self.after_end(slot) {
            return;
        }
        self.steer(slot);
        self.core.watch(slot);
    }

    /// What the end of the peer's bytes means once those before it are used. True: the connection
    /// was moved on.
    #[cold]
    fn after_end(&mut self, slot: Slot) -> bool {
        let framed = self.core.framed_bytes(slot);
        let queued = self.core.queued_bytes(slot);
        let conn = self.core.conns.get(slot);
        let unused = !conn.stash.is_empty();
        let waits_for_peer = conn.many.as_ref().is_some_and(Many::waits_for_peer);
        match conn.phase {
            Phase::Handshake => self.cut(slot, Gone::Peer),
            // No window will be opened any more.
            Phase::Http2 if framed == 0 && waits_for_peer => self.cut(slot, Gone::Peer),
            Phase::Http2 => {
                let ends =
                    framed == 0 && many::request::content_ends(&mut self.app, &mut self.core, slot);
                if !ends {
                    return false;
                }
                self.settle(slot);
            }
            Phase::Preface | Phase::Head if queued == 0 => self.cut(slot, Gone::Peer),
            Phase::Raw if conn.exchange.owes_end && !unused => {
                conn.exchange.owes_end = false;
                self.tell_stream(slot, RawEvent::End);
                self.settle(slot);
            }
            // The request can never be complete, unless the application has yet to want the rest.
            Phase::Body if conn.exchange.stage != Stage::None => {
                if unused && !conn.takes_body() {
                    return false;
                }
                self.cut(slot, Gone::Peer);
            }
            _ => return false,
        }
        true
    }

    /// Hands the queue to the kernel as far as it goes. `turn_bytes` counts what has left in this
    /// turn of the connection.
    #[inline]
    fn flush(&mut self, slot: Slot, turn_bytes: &mut usize) -> Flush {
        if self.core.conns.get(slot).tls.is_some() {
            return self.flush_sealed(slot, turn_bytes);
        }
        let Self { backend, app, core, .. } = self;
        let Core { worker, conns, outputs, pool, mappings, external, .. } = core;
        let conn = conns.get(slot);
        let Some(output) = outputs.get(conn.output) else { return Flush::Empty };
        if conn.blocked || output.in_flight {
            return Flush::Waits;
        }
        let mut short = false;
        loop {
            if *turn_bytes >= TURN_BYTES && output.bytes > 0 {
                backend.await_writable(slot);
                break;
            }
            let sending = match output.next(mappings, B::SENDS_FILES) {
                Next::Nothing => {
                    output.clear(pool, mappings);
                    outputs.free(&mut conn.output);
                    let (generation, exchange) = (conn.generation, conn.exchange_number());
                    if conn.all_is_queued() {
                        app.sent(Address { worker: *worker, slot, generation, exchange });
                    }
                    return Flush::Empty;
                }
                next => hand_over(backend, slot, next, external),
            };
            match sending {
                None => return Flush::Broken(Gone::Broken),
                Some(Sending::Done(bytes)) => {
                    conn.sent(bytes);
                    output.advance(bytes, pool, mappings);
                    *turn_bytes += bytes;
                }
                Some(Sending::Blocked) => break,
                Some(Sending::Pending) => {
                    output.lend();
                    conn.sending = true;
                    if conn.deadline.watch() != Watch::Send {
                        conn.progress = 0;
                    }
                    return Flush::Waits;
                }
                Some(Sending::Failed(error)) if is_shortage(error) => {
                    short = true;
                    break;
                }
                Some(Sending::Failed(error)) => return Flush::Broken(why_failed(error)),
            }
        }
        conn.block(backend, slot);
        if short {
            core.await_memory(slot);
        }
        Flush::Waits
    }

    pub(crate) fn sent(&mut self, slot: Slot, result: Result<usize, Errno>) {
        let Core { conns, outputs, pool, mappings, .. } = &mut self.core;
        let conn = conns.get(slot);
        conn.sending = false;
        if let Some(output) = outputs.get(conn.output) {
            output.in_flight = false;
            match result {
                Ok(bytes) => {
                    conn.sent(bytes);
                    output.advance(bytes, pool, mappings);
                }
                Err(_) if conn.phase == Phase::Closing => {}
                Err(error) if is_shortage(error) => self.core.await_memory(slot),
                Err(error) => return self.cut(slot, why_failed(error)),
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
        if conn.http2().is_some() {
            conn.progress = self.backend.progress(slot).unwrap_or(0) as u32;
        }
        self.backend.finish(slot);
        self.steer(slot);
        self.core.watch(slot);
    }

    /// Tells the application that nothing waits any more, if it has yet to hear that.
    #[inline]
    pub(crate) fn tell_sent(&mut self, slot: Slot) {
        let conn = self.core.conns.get(slot);
        if conn.owes_sent && conn.all_is_queued() {
            conn.owes_sent = false;
            self.app.sent(self.core.address(slot));
        }
    }

    /// Puts content of exchanges that share the connection into its queue.
    #[inline]
    fn pump(&mut self, slot: Slot) -> bool {
        let is_shared = self.core.conns.get(slot).http2().is_some();
        is_shared
            && (http2::pump::pump(&mut self.core, slot) || http2::is_over(&mut self.core, slot))
    }

    /// Tells the application that there is room again, if it was told that there was none.
    fn tell_writable(&mut self, slot: Slot) -> bool {
        if self.core.conns.get(slot).many.is_some() {
            let Self { app, core, .. } = self;
            return many::tell_writable(app, core, slot);
        }
        let queued = self.core.queued_bytes(slot);
        let conn = self.core.conns.get(slot);
        if !conn.exchange.owes_writable || queued > OUTPUT_LOW_WATER_BYTES {
            return false;
        }
        conn.exchange.owes_writable = false;
        self.notify(slot, Notice::Writable);
        true
    }

    /// Reads on while what comes can be used or kept.
    #[inline]
    fn steer(&mut self, slot: Slot) {
        let conn = self.core.conns.get(slot);
        let takes = match conn.phase {
            // Nothing is read after the last answer of a connection that does not linger.
            Phase::Linger if conn.close_when_sent && !conn.linger => false,
            Phase::Handshake => true,
            Phase::Preface | Phase::Head | Phase::Http2 | Phase::Linger => {
                conn.stash.len() < STASH_MAX_BYTES / 2
            }
            Phase::Body if conn.exchange.stage != Stage::None => {
                conn.takes_body() || conn.stash.is_empty() && !conn.exchange.waiting
            }
            Phase::Body => true,
            Phase::Raw => conn.exchange.wanted > 0,
            Phase::Answer => conn.stash.is_empty(),
            Phase::Http3 | Phase::Closing => false,
        };
        let stuck = conn.blocked && !conn.stash.is_empty();
        let on = takes && !conn.ended && !stuck;
        if on != conn.receiving {
            conn.receiving = on;
            self.backend.receive(slot, on);
        }
    }

    pub(crate) fn ended(&mut self, slot: Slot) {
        let conn = self.core.conns.get(slot);
        conn.ended = true;
        conn.receiving = false;
        match conn.phase {
            Phase::Raw => conn.exchange.owes_end = true,
            Phase::Body if conn.exchange.stage == Stage::None => conn.end(false),
            Phase::Linger if conn.close_when_sent => conn.linger = false,
            Phase::Linger => return self.cut(slot, Gone::Peer),
            Phase::Handshake | Phase::Preface | Phase::Head | Phase::Http2 => {}
            Phase::Body | Phase::Answer | Phase::Http3 | Phase::Closing => {}
        }
        self.settle(slot);
    }

    /// Ends a connection now, whatever it is doing.
    pub(crate) fn cut(&mut self, slot: Slot, gone: Gone) {
        let conn = self.core.conns.get(slot);
        if conn.phase == Phase::Closing {
            return;
        }
        if conn.phase == Phase::Http3 {
            return self.cut_quic(slot, gone);
        }
        let raw = conn.phase == Phase::Raw;
        // An orderly end of what is not complete could look like a complete answer, and the kernel
        // would keep what it has of it for a peer that may never read it.
        let stage = conn.exchange.stage;
        let unfinished = matches!(stage, Stage::Streaming | Stage::Aborted) || raw;
        let abruptly = unfinished || gone == Gone::Broken || self.core.queued_bytes(slot) > 0;
        self.notify_gone(slot, raw, gone);
        if !abruptly {
            self.say_goodbye(slot);
        }
        let conn = self.core.conns.get(slot);
        conn.phase = Phase::Closing;
        let stash = std::mem::take(&mut conn.stash);
        stash.give_back(&mut self.core.pool);
        self.core.wheel.cancel(slot);
        if self.backend.close(slot, abruptly) {
            self.released(slot);
        }
    }

    fn notify_gone(&mut self, slot: Slot, raw: bool, gone: Gone) {
        let Self { app, core, .. } = self;
        notify_gone(app, core, slot, raw, gone);
    }

    /// The kernel holds nothing of the slot any more.
    pub(crate) fn released(&mut self, slot: Slot) {
        let address = self.core.address(slot);
        let Core { conns, outputs, pool, mappings, sealing, encoders, .. } = &mut self.core;
        let conn = conns.get(slot);
        encoders.give_back(&mut conn.exchange.encoder, pool);
        let mut unsent_bytes = 0;
        if let Some(output) = outputs.get(conn.output) {
            unsent_bytes = output.bytes;
            output.clear(pool, mappings);
            outputs.free(&mut conn.output);
        }
        if let Some(many) = conn.many.take() {
            pool.release(many.counted_bytes());
        }
        if let Some(mut session) = conn.tls.take() {
            let sealed_bytes = session.emptied(sealing);
            unsent_bytes += sealed_bytes as u64;
            pool.release(sealed_bytes);
        }
        let peer = conn.peer;
        conns.release(slot);
        self.shared.client_limit.leave(self.core.worker, peer);
        self.shared.permits.leave(self.core.worker);
        self.app.closed(address, unsent_bytes);
    }

    /// Tells the application of the exchange or the stream that is open on a connection.
    pub(crate) fn notify(&mut self, slot: Slot, notice: Notice) {
        if self.core.conns.get(slot).phase == Phase::Raw {
            return self.tell_stream(slot, notice.for_stream());
        }
        let Self { app, core, .. } = self;
        app.exchange(notice.for_exchange(), &mut Exchange { core, slot, stream: 0 });
        http1::after_event(app, core, slot);
    }

    fn tell_stream(&mut self, slot: Slot, event: RawEvent<'_>) {
        let Self { app, core, .. } = self;
        app.raw(event, &mut RawStream { core, slot });
        http1::after_raw(core, slot);
    }
}

/// What an exchange hears as well as a stream, and what does not come from the peer's bytes.
pub(crate) enum Notice {
    Writable,
    Posted(Message),
    Deadline,
    Stopping,
}

impl Notice {
    pub(crate) fn for_exchange(self) -> Event<'static> {
        match self {
            Self::Writable => Event::Writable,
            Self::Posted(message) => Event::Posted(message),
            Self::Deadline => Event::Deadline,
            Self::Stopping => Event::Stopping,
        }
    }

    fn for_stream(self) -> RawEvent<'static> {
        match self {
            Self::Writable => RawEvent::Writable,
            Self::Posted(message) => RawEvent::Posted(message),
            Self::Deadline => RawEvent::Deadline,
            Self::Stopping => RawEvent::Stopping,
        }
    }
}
