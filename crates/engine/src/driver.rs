//! The work of a worker on one connection: input to the protocol, output to the kernel, and the
//! events of the application.

pub(crate) mod byte_streams;
pub(crate) mod exchange_end_events;
pub(crate) mod http1;
pub(crate) mod http2;
pub(crate) mod http3;
mod input;
pub(crate) mod multiplexed_requests;
pub(crate) mod outgoing_connections;
pub(crate) mod protocol_detection;
mod proxy_header;
mod timeouts;

use rustix::io::Errno;

use crate::app::{App, ByteStreamEvent, Event};
use crate::backend::{Backend, Lent, Sending, Slot};
use crate::byte_stream::{ConnectStep, StreamState};
use crate::byte_stream_handle::ByteStreamHandle;
use crate::connection::{Conn, Protocol};
use crate::connection_direction::ConnectionDirection;
use crate::deadline::DeadlineKind;
use crate::end_reason::Gone;
use crate::enobufs_retry::is_shortage;
use crate::exchange::{Carrier, Exchange, ExchangeStage};
use crate::http1::Http1;
use crate::limits::{OUTPUT_LOW_WATER_BYTES, TURN_BYTES};
use crate::linger::Remaining;
use crate::outgoing_connect::NotConnected;
use crate::output_queue::Next;
use crate::send::{send_piece, why_failed};
use crate::stream_event::Notice;
use crate::tls_io;
use crate::transport_link::TransportLink;
use crate::worker::Worker;
use crate::worker_buffers::Buffers;
use crate::worker_core::WorkerCore;

use exchange_end_events::tell_ended;
use input::drive_kept_input;
pub(crate) use input::take_in;

/// The result of [`Worker::flush`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    Empty,
    Waits,
    Broken(Gone),
}

/// Informs the application, once, that its exchanges or its stream on a connection are over.
pub(crate) fn notify_gone<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, gone: Gone) {
    let conn = core.conns.get(slot);
    if conn.protocol.multiplexed().is_some() {
        return multiplexed_requests::abandon(app, core, slot, gone);
    }
    let is_byte_stream = conn.protocol.byte_stream().is_some();
    if !conn.end_single_exchange() {
        return;
    }
    if is_byte_stream {
        app.byte_stream_event(ByteStreamEvent::Gone(gone), &mut ByteStreamHandle { core, slot });
    } else {
        let mut exchange = Exchange { core, slot, carrier: Carrier::Connection };
        app.exchange(Event::Gone(gone), &mut exchange);
    }
}

impl<B: Backend, A: App> Worker<B, A> {
    #[inline]
    pub(crate) fn received(&mut self, slot: Slot, lent: Lent) {
        let Self { backend, app, core, shared, .. } = self;
        let input = backend.input(&lent);
        core.consumed_content_bytes = 0;
        let mut has_ended = false;
        let mut rest = input;
        if let Protocol::ProxyHeader(socket_peer) = core.conns.get(slot).protocol {
            rest = proxy_header::take_in(app, core, shared, slot, socket_peer, input);
        }
        if rest.is_empty() {
            // All of the input was the front of a header.
        } else if core.conns.get(slot).decrypts_input() {
            has_ended = tls_io::received(app, core, slot, rest);
        } else {
            take_in(app, core, slot, rest);
        }
        let changed =
            core.conns.get(slot).link.weigh_input(input.len(), core.consumed_content_bytes);
        if let Some(is_content) = changed {
            backend.expect_content(slot, is_content);
        }
        backend.give_back(lent);
        if has_ended && !self.core.conns.get(slot).link.peer_ended {
            return self.ended(slot);
        }
        self.settle(slot);
    }

    /// Sends the queued output and moves the connection on until it has to wait, or until its turn
    /// is over.
    #[inline]
    pub(crate) fn settle(&mut self, slot: Slot) {
        let conn = self.core.conns.get(slot);
        if conn.is_closing() {
            // It waits only for the kernel, or for QUIC.
            return;
        }
        if conn.http3().is_some() {
            return self.drive_quic(slot);
        }
        if let Protocol::Connecting(connecting) = &conn.protocol
            && connecting.step != ConnectStep::Handshake
        {
            return self.settle_connecting(slot);
        }
        let mut turn_bytes = 0;
        loop {
            if let Some(why) = self.core.conns.get(slot).link.cut {
                return self.cut(slot, why);
            }
            self.tell_ended(slot);
            let mut flush = self.flush(slot, &mut turn_bytes);
            if let Flush::Broken(gone) = flush {
                if !self.reads_on(slot, gone) {
                    return self.cut(slot, gone);
                }
                flush = Flush::Empty;
            }
            if flush == Flush::Empty {
                self.tell_ended(slot);
                self.tell_sent(slot);
                self.finish_stream(slot);
            }
            if self.core.conns.get(slot).is_sending_last_response() {
                if flush == Flush::Empty {
                    return self.last_sent(slot);
                }
                break;
            }
            if self.tell_writable(slot) || self.pump(slot) {
                continue;
            }
            let Self { app, core, .. } = self;
            if core.conns.get(slot).link.input.is_empty() {
                break;
            }
            let stuck = drive_kept_input(app, core, slot) == 0;
            if stuck && (flush == Flush::Waits || self.core.framed_bytes(slot) == 0) {
                break;
            }
        }
        if self.core.conns.get(slot).link.peer_ended && self.after_end(slot) {
            return;
        }
        self.update_receiving(slot);
        self.core.set_deadline(slot);
    }

    /// Handles the end of the peer's input once the bytes in front of it are used. Returns true if
    /// the connection was moved on.
    #[cold]
    fn after_end(&mut self, slot: Slot) -> bool {
        let framed = self.core.framed_bytes(slot);
        let queued = self.core.queued_bytes(slot);
        let conn = self.core.conns.get(slot);
        let unused = !conn.link.input.is_empty();
        match &mut conn.protocol {
            Protocol::ProxyHeader(_) | Protocol::Handshake => self.cut(slot, Gone::Peer),
            Protocol::Connecting(_) => {
                self.cut(slot, Gone::NotConnected(NotConnected::Failed));
            }
            // No window will be opened any more.
            Protocol::Multiplexed(many) if framed == 0 && many.waits_for_peer() => {
                self.cut(slot, Gone::Peer);
            }
            Protocol::Multiplexed(_) => {
                let Self { app, core, .. } = self;
                let is_told = multiplexed_requests::tell_input_end(app, core, slot);
                let ends = framed == 0 && multiplexed_requests::content_ends(app, core, slot);
                if !is_told && !ends {
                    return false;
                }
                self.settle(slot);
            }
            Protocol::Undetected | Protocol::Http1(Http1::Head { .. }) if queued == 0 => {
                self.cut(slot, Gone::Peer);
            }
            Protocol::ByteStream(stream) if stream.owes_end && stream.is_reset && !unused => {
                self.cut(slot, Gone::Peer);
            }
            Protocol::ByteStream(stream) if stream.owes_end && !unused => {
                stream.owes_end = false;
                byte_streams::deliver_event(
                    &mut self.app,
                    &mut self.core,
                    slot,
                    ByteStreamEvent::End,
                );
                self.settle(slot);
            }
            Protocol::Http1(Http1::Exchange(open)) if open.owes_input_end() && !unused => {
                open.state.told_input_end = true;
                let Self { app, core, .. } = self;
                http1::tell(app, core, slot, Event::InputEnd);
                self.settle(slot);
            }
            // The request can never be complete, unless the application has yet to want the rest.
            Protocol::Http1(Http1::Exchange(open)) if open.content.is_some() => {
                if unused && !open.awaits_content() {
                    return false;
                }
                self.cut(slot, Gone::Peer);
            }
            _ => return false,
        }
        true
    }

    /// Hands the queue to the kernel as far as the kernel takes it. `turn_bytes` counts the bytes
    /// that have left in this turn of the connection.
    #[inline]
    fn flush(&mut self, slot: Slot, turn_bytes: &mut usize) -> Flush {
        if self.core.conns.get(slot).link.tls.is_some() {
            return self.flush_sealed(slot, turn_bytes);
        }
        let Self { backend, core, .. } = self;
        let WorkerCore { conns, external, buffers, .. } = core;
        let Buffers { outputs, pool, mappings, .. } = buffers;
        let conn = conns.get(slot);
        let Some(output) = outputs.get(conn.link.output) else { return Flush::Empty };
        if conn.link.blocked.is_some() || output.in_flight {
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
                    outputs.free(&mut conn.link.output);
                    conn.link.owes_sent = true;
                    return Flush::Empty;
                }
                next => send_piece(backend, slot, next, external),
            };
            match sending {
                None => return Flush::Broken(Gone::Broken),
                Some(Sending::Done(bytes)) => {
                    conn.link.sent(bytes);
                    output.advance(bytes, pool, mappings);
                    *turn_bytes += bytes;
                }
                Some(Sending::Blocked) => break,
                Some(Sending::Pending) => {
                    output.lend();
                    conn.link.sending = true;
                    if conn.link.deadline.kind() != DeadlineKind::Send {
                        conn.link.progress = 0;
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
        conn.link.block(backend, slot);
        if short {
            core.await_memory(slot);
        }
        Flush::Waits
    }

    pub(crate) fn sent(&mut self, slot: Slot, result: Result<usize, Errno>) {
        let WorkerCore { conns, buffers, .. } = &mut self.core;
        let Buffers { outputs, pool, mappings, .. } = buffers;
        let conn = conns.get(slot);
        conn.link.sending = false;
        if let Some(output) = outputs.get(conn.link.output) {
            output.in_flight = false;
            match result {
                Ok(bytes) => {
                    conn.link.sent(bytes);
                    output.advance(bytes, pool, mappings);
                }
                Err(_) if conn.is_closing() => {}
                Err(error) if is_shortage(error) => self.core.await_memory(slot),
                Err(error) => {
                    let why = why_failed(error);
                    if !self.reads_on(slot, why) {
                        return self.cut(slot, why);
                    }
                }
            }
        }
        self.settle(slot);
    }

    /// Handles a failed send. On a connection that the server has opened, the peer may have
    /// responded and closed the connection before it had read everything; its system resets the
    /// connection then, and the response still waits to be read (RFC 9112 §9.6). Returns true, and
    /// drops the queued output, if the application may still read.
    #[cold]
    fn reads_on(&mut self, slot: Slot, why: Gone) -> bool {
        let WorkerCore { conns, buffers, .. } = &mut self.core;
        let Buffers { outputs, pool, mappings, .. } = buffers;
        let conn = conns.get(slot);
        let has_input = !conn.link.peer_ended || !conn.link.input.is_empty();
        let is_peer = why == Gone::Peer && conn.direction == ConnectionDirection::Outgoing;
        let Protocol::ByteStream(stream) = &mut conn.protocol else { return false };
        if !is_peer || stream.state != StreamState::Open || !has_input && !stream.owes_end {
            return false;
        }
        (stream.finished, stream.is_reset) = (true, true);
        stream.owes_finish = false;
        stream.owes_writable = false;
        if let Some(output) = outputs.get(conn.link.output) {
            output.clear(pool, mappings);
            outputs.free(&mut conn.link.output);
        }
        true
    }

    /// Handles the departure of the last response: closes the connection, or reads on for a while
    /// (RFC 9112 §9.6).
    fn last_sent(&mut self, slot: Slot) {
        let Conn { link, protocol, .. } = self.core.conns.get(slot);
        let Protocol::Linger(linger) = protocol else {
            unreachable!("only what lingers sends its last")
        };
        if linger.remaining == Remaining::Nothing || link.peer_ended {
            return self.cut(slot, Gone::Peer);
        }
        linger.begin(self.core.now.monotonic_ms);
        if linger.was_http2 {
            link.progress = self.backend.progress(slot).unwrap_or(0) as u32;
        }
        self.backend.finish(slot);
        let Self { app, core, .. } = self;
        // Content that was kept for the application would hold back the input after it.
        if !core.conns.get(slot).link.input.is_empty() {
            drive_kept_input(app, core, slot);
        }
        self.update_receiving(slot);
        self.core.set_deadline(slot);
        if let Some(oldest) = self.core.begin_lingering(slot) {
            self.cut(oldest, Gone::Peer);
        }
    }

    /// Informs the application that no output waits any more, if it has yet to be informed.
    #[inline]
    pub(crate) fn tell_sent(&mut self, slot: Slot) {
        let conn = self.core.conns.get(slot);
        if conn.link.owes_sent && conn.streams_have_no_output() {
            conn.link.owes_sent = false;
            self.app.sent(self.core.address(slot));
        }
    }

    /// Moves content of exchanges that share the connection into its queue.
    #[inline]
    fn pump(&mut self, slot: Slot) -> bool {
        let Some((http2, link, buffers)) = self.core.http2(slot) else { return false };
        if http2.pump(link, buffers) {
            return true;
        }
        let is_finished = http2.session.is_finished();
        if is_finished {
            self.core.end(slot, Remaining::UselessInput);
        }
        is_finished
    }

    /// Informs the application that there is room again, if it was informed that there was none.
    fn tell_writable(&mut self, slot: Slot) -> bool {
        if let Protocol::Multiplexed(_) = self.core.conns.get(slot).protocol {
            let Self { app, core, .. } = self;
            return multiplexed_requests::tell_writable(app, core, slot);
        }
        let has_room = self.core.queued_bytes(slot) <= OUTPUT_LOW_WATER_BYTES;
        let owes_writable = match &mut self.core.conns.get(slot).protocol {
            Protocol::Http1(Http1::Exchange(open)) => &mut open.state.owes_writable,
            Protocol::ByteStream(stream) => &mut stream.owes_writable,
            _ => return false,
        };
        if !*owes_writable || !has_room {
            return false;
        }
        *owes_writable = false;
        self.notify(slot, Notice::Writable);
        true
    }

    /// Turns receiving on or off: it is on while input can be used or kept.
    #[inline]
    fn update_receiving(&mut self, slot: Slot) {
        let conn = self.core.conns.get(slot);
        let TransportLink { peer_ended, blocked, .. } = conn.link;
        let stuck = blocked.is_some() && !conn.link.input.is_empty();
        let on = conn.takes_input() && !peer_ended && !stuck;
        if on != conn.link.receiving {
            conn.link.receiving = on;
            self.backend.receive(slot, on);
        }
    }

    pub(crate) fn ended(&mut self, slot: Slot) {
        let Conn { link, protocol, .. } = self.core.conns.get(slot);
        link.peer_ended = true;
        link.receiving = false;
        match protocol {
            Protocol::ByteStream(stream) => {
                stream.owes_end = true;
                stream.awaits_first_byte = false;
            }
            Protocol::Http1(Http1::Discard { .. }) => self.core.end(slot, Remaining::Nothing),
            Protocol::Linger(linger) if linger.is_sending() => {
                linger.remaining = Remaining::Nothing;
            }
            Protocol::Linger(_) => return self.cut(slot, Gone::Peer),
            Protocol::Http1(Http1::Head { .. } | Http1::Exchange(_) | Http1::Upgraded) => {}
            Protocol::ProxyHeader(_)
            | Protocol::Handshake
            | Protocol::Undetected
            | Protocol::Multiplexed(_)
            | Protocol::Connecting(_)
            | Protocol::Closing => {}
        }
        self.settle(slot);
    }

    /// Ends a connection now, in any state.
    pub(crate) fn cut(&mut self, slot: Slot, gone: Gone) {
        let conn = self.core.conns.get(slot);
        if conn.is_closing() {
            return;
        }
        if conn.http3().is_some() {
            return self.cut_quic(slot, gone);
        }
        // An orderly end of an incomplete response could look like a complete one, and the kernel
        // would keep its part of it for a peer that may never read it.
        let unfinished = match &conn.protocol {
            Protocol::Http1(Http1::Exchange(open)) => open.state.stage == ExchangeStage::Streaming,
            Protocol::ByteStream(_) => true,
            _ => false,
        };
        let is_broken = conn.link.cut.is_some() || gone == Gone::Broken;
        let abruptly = unfinished || is_broken || self.core.queued_bytes(slot) > 0;
        self.notify_gone(slot, gone);
        if !abruptly {
            self.say_goodbye(slot);
        }
        let conn = self.core.conns.get(slot);
        let is_attached =
            !matches!(&conn.protocol, Protocol::Connecting(it) if it.step == ConnectStep::Wanted);
        self.core.close_protocol(slot);
        let WorkerCore { conns, wheel, buffers, .. } = &mut self.core;
        let Buffers { pool, .. } = buffers;
        std::mem::take(&mut conns.get(slot).link.input).give_back(pool);
        wheel.cancel(slot);
        if !is_attached || self.backend.close(slot, abruptly) {
            self.released(slot);
        }
    }

    fn notify_gone(&mut self, slot: Slot, gone: Gone) {
        let Self { app, core, .. } = self;
        notify_gone(app, core, slot, gone);
    }

    /// Releases a slot of which the kernel holds nothing any more.
    pub(crate) fn released(&mut self, slot: Slot) {
        let address = self.core.address(slot);
        self.core.close_protocol(slot);
        let WorkerCore { conns, sealing, buffers, http1_ends, .. } = &mut self.core;
        let Buffers { outputs, pool, mappings, .. } = buffers;
        let conn = conns.get(slot);
        let mut unsent_bytes = 0;
        if let Some(output) = outputs.get(conn.link.output) {
            unsent_bytes = output.bytes;
            output.clear(pool, mappings);
            outputs.free(&mut conn.link.output);
        }
        if let Some(mut session) = conn.link.tls.take() {
            let sealed_bytes = session.emptied(sealing);
            unsent_bytes += sealed_bytes as u64;
            pool.release(sealed_bytes);
        }
        let (direction, peer) = (conn.direction, conn.peer);
        let end_number = if conn.link.owes_end { http1_ends.remove(&slot) } else { None };
        conns.release(slot);
        match direction {
            ConnectionDirection::Incoming(_) => {
                self.shared.client_limit.leave(self.core.worker, peer);
                self.shared.permits.leave(self.core.worker);
            }
            ConnectionDirection::Outgoing => self.core.outgoing.leave(),
        }
        let Self { app, core, .. } = self;
        // A connection that was cut for lack of memory has streams whose end was not reported yet.
        tell_ended(app, core);
        end_number.into_iter().for_each(|number| app.ended(number));
        app.closed(address, unsent_bytes);
    }

    /// Sends an event to the exchange or the stream that is open on a connection.
    pub(crate) fn notify(&mut self, slot: Slot, notice: Notice) {
        let Self { app, core, .. } = self;
        match core.conns.get(slot).protocol {
            Protocol::ByteStream(_) | Protocol::Connecting(_) => {
                byte_streams::deliver_event(app, core, slot, notice.for_stream());
            }
            _ => http1::tell(app, core, slot, notice.for_exchange()),
        }
    }
}
