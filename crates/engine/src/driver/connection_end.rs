//! The end of a connection: the end of the peer's input, the cut in any state, and the release of
//! the slot.

use super::exchange_end_events::tell_ended;
use super::multiplexed_requests::request_content;
use super::{byte_streams, http1, multiplexed_requests};
use crate::app::{App, ByteStreamEvent, Event};
use crate::backend::{Backend, Slot};
use crate::byte_stream::ConnectStep;
use crate::byte_stream_handle::ByteStreamHandle;
use crate::connection::{Connection, Protocol};
use crate::connection_direction::ConnectionDirection;
use crate::end_reason::Gone;
use crate::exchange::{Carrier, Exchange, ExchangeStage};
use crate::http1::Http1;
use crate::linger::Remaining;
use crate::outgoing_connect::NotConnected;
use crate::worker::Worker;
use crate::worker_buffers::Buffers;
use crate::worker_core::WorkerCore;

/// Informs the application, once, that its exchanges or its stream on a connection are over.
pub(crate) fn notify_gone<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, gone: Gone) {
    let connection = core.connections.get(slot);
    if connection.protocol.multiplexed().is_some() {
        return multiplexed_requests::abandon(app, core, slot, gone);
    }
    let is_byte_stream = connection.protocol.byte_stream().is_some();
    if !connection.end_single_exchange() {
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
    pub(crate) fn ended(&mut self, slot: Slot) {
        let Connection { link, protocol, .. } = self.core.connections.get(slot);
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

    /// Handles the end of the peer's input once the bytes in front of it are used. Returns true if
    /// the connection was moved on.
    #[cold]
    pub(super) fn after_end(&mut self, slot: Slot) -> bool {
        let framed = self.core.framed_bytes(slot);
        let queued = self.core.queued_bytes(slot);
        let connection = self.core.connections.get(slot);
        let unused = !connection.link.input.is_empty();
        match &mut connection.protocol {
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
                let is_told = request_content::tell_input_end(app, core, slot);
                let ends = framed == 0 && request_content::content_ends(app, core, slot);
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

    /// Ends a connection now, in any state.
    pub(crate) fn cut(&mut self, slot: Slot, gone: Gone) {
        let connection = self.core.connections.get(slot);
        if connection.is_closing() {
            return;
        }
        if connection.http3().is_some() {
            return self.cut_quic(slot, gone);
        }
        // An orderly end of an incomplete response could look like a complete one, and the kernel
        // would keep its part of it for a peer that may never read it.
        let unfinished = match &connection.protocol {
            Protocol::Http1(Http1::Exchange(open)) => open.state.stage == ExchangeStage::Streaming,
            Protocol::ByteStream(_) => true,
            _ => false,
        };
        let is_broken = connection.link.cut.is_some() || gone == Gone::Broken;
        let abruptly = unfinished || is_broken || self.core.queued_bytes(slot) > 0;
        self.notify_gone(slot, gone);
        if !abruptly {
            self.say_goodbye(slot);
        }
        let connection = self.core.connections.get(slot);
        let is_attached = match &connection.protocol {
            Protocol::Connecting(connecting) => connecting.step != ConnectStep::Wanted,
            _ => true,
        };
        self.core.close_protocol(slot);
        let WorkerCore { connections, wheel, buffers, .. } = &mut self.core;
        let Buffers { pool, .. } = buffers;
        std::mem::take(&mut connections.get(slot).link.input).give_back(pool);
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
        let WorkerCore { connections, sealing, buffers, http1_ends, .. } = &mut self.core;
        let Buffers { outputs, pool, mappings, .. } = buffers;
        let connection = connections.get(slot);
        let mut unsent_bytes = 0;
        if let Some(output) = outputs.get(connection.link.output) {
            unsent_bytes = output.bytes;
            output.clear(pool, mappings);
            outputs.free(&mut connection.link.output);
        }
        if let Some(mut session) = connection.link.tls.take() {
            let sealed_bytes = session.emptied(sealing);
            unsent_bytes += sealed_bytes as u64;
            pool.release(sealed_bytes);
        }
        let (direction, peer) = (connection.direction, connection.peer);
        let end_number = if connection.link.owes_end { http1_ends.remove(&slot) } else { None };
        connections.release(slot);
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
}
