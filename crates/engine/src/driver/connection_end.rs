//! The end of a connection: the end of the peer's input, the cut in any state, and the release of
//! the slot.

use super::exchange_end_events::report_exchange_ends;
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

/// Reports to the application, once, that its exchanges or its stream on a connection are over.
pub(crate) fn report_gone<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, gone: Gone) {
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
    /// Records that the peer has ended its input.
    pub(crate) fn receive_input_end(&mut self, slot: Slot) {
        let Connection { link, protocol, .. } = self.core.connections.get(slot);
        link.peer_ended = true;
        link.receiving = false;
        match protocol {
            Protocol::ByteStream(stream) => {
                stream.end_event_pending = true;
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

    /// Processes the end of the peer's input after all bytes before it. Returns whether the
    /// connection has changed its state.
    #[cold]
    pub(super) fn process_input_end(&mut self, slot: Slot) -> bool {
        let framed = self.core.framed_bytes(slot);
        let queued = self.core.queued_bytes(slot);
        let connection = self.core.connections.get(slot);
        let has_unread_input = !connection.link.input.is_empty();
        match &mut connection.protocol {
            Protocol::ProxyHeader(_) | Protocol::Handshake => self.cut(slot, Gone::Peer),
            Protocol::Connecting(_) => {
                self.cut(slot, Gone::NotConnected(NotConnected::Failed));
            }
            // No window will be opened any more.
            Protocol::Multiplexed(multiplexed) if framed == 0 && multiplexed.waits_for_peer() => {
                self.cut(slot, Gone::Peer);
            }
            Protocol::Multiplexed(_) => {
                let Self { app, core, .. } = self;
                let is_reported = request_content::report_input_end(app, core, slot);
                let ends = framed == 0 && request_content::content_ends(app, core, slot);
                if !is_reported && !ends {
                    return false;
                }
                self.settle(slot);
            }
            Protocol::Undetected | Protocol::Http1(Http1::Head { .. }) if queued == 0 => {
                self.cut(slot, Gone::Peer);
            }
            Protocol::ByteStream(stream)
                if stream.end_event_pending && stream.is_reset && !has_unread_input =>
            {
                self.cut(slot, Gone::Peer);
            }
            Protocol::ByteStream(stream) if stream.end_event_pending && !has_unread_input => {
                stream.end_event_pending = false;
                byte_streams::deliver_event(
                    &mut self.app,
                    &mut self.core,
                    slot,
                    ByteStreamEvent::End,
                );
                self.settle(slot);
            }
            Protocol::Http1(Http1::Exchange(open))
                if open.is_input_end_pending() && !has_unread_input =>
            {
                open.state.input_end_reported = true;
                let Self { app, core, .. } = self;
                http1::deliver_event(app, core, slot, Event::InputEnd);
                self.settle(slot);
            }
            // The peer sends nothing more, so the request stays incomplete. Bytes that the
            // application has not requested yet are delivered before that.
            Protocol::Http1(Http1::Exchange(open)) if open.content.is_some() => {
                if has_unread_input && !open.awaits_content() {
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
        // A FIN after an incomplete response could make it look complete, and the kernel would keep
        // unsent bytes for a peer that may never read them. So the connection is reset.
        let is_incomplete = match &connection.protocol {
            Protocol::Http1(Http1::Exchange(open)) => open.state.stage == ExchangeStage::Streaming,
            Protocol::ByteStream(_) => true,
            _ => false,
        };
        let is_broken = connection.link.cut.is_some() || gone == Gone::Broken;
        let reset = is_incomplete || is_broken || self.core.queued_bytes(slot) > 0;
        self.report_gone(slot, gone);
        if !reset {
            self.send_close_notify(slot);
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
        if !is_attached || self.backend.close(slot, reset) {
            self.released(slot);
        }
    }

    fn report_gone(&mut self, slot: Slot, gone: Gone) {
        let Self { app, core, .. } = self;
        report_gone(app, core, slot, gone);
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
        let end_number =
            if connection.link.exchange_end_pending { http1_ends.remove(&slot) } else { None };
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
        report_exchange_ends(app, core);
        end_number.into_iter().for_each(|number| app.ended(number));
        app.closed(address, unsent_bytes);
    }
}
