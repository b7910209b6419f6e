//! The work of a worker on one connection: input to the protocol, output to the kernel, and the
//! events of the application.

pub(crate) mod byte_streams;
pub(crate) mod connection_end;
pub(crate) mod connection_output;
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

use crate::app::App;
use crate::backend::{Backend, Lent, Slot};
use crate::byte_stream::ConnectStep;
use crate::connection::Protocol;
use crate::stream_event::Notice;
use crate::tls_io;
use crate::transport_link::TransportLink;
use crate::worker::Worker;

use connection_output::Flush;
use input::drive_kept_input;
pub(crate) use input::take_in;

impl<B: Backend, A: App> Worker<B, A> {
    #[inline]
    pub(crate) fn received(&mut self, slot: Slot, lent: Lent) {
        let Self { backend, app, core, shared, .. } = self;
        let input = backend.input(&lent);
        core.consumed_content_bytes = 0;
        let mut has_ended = false;
        let mut rest = input;
        if let Protocol::ProxyHeader(socket_peer) = core.connections.get(slot).protocol {
            rest = proxy_header::take_in(app, core, shared, slot, socket_peer, input);
        }
        if rest.is_empty() {
            // All of the input was the front of a header.
        } else if core.connections.get(slot).decrypts_input() {
            has_ended = tls_io::received(app, core, slot, rest);
        } else {
            take_in(app, core, slot, rest);
        }
        let changed =
            core.connections.get(slot).link.weigh_input(input.len(), core.consumed_content_bytes);
        if let Some(is_content) = changed {
            backend.expect_content(slot, is_content);
        }
        backend.give_back(lent);
        if has_ended && !self.core.connections.get(slot).link.peer_ended {
            return self.receive_input_end(slot);
        }
        self.settle(slot);
    }

    /// Sends the queued output and moves the connection on until it has to wait, or until its turn
    /// is over.
    #[inline]
    pub(crate) fn settle(&mut self, slot: Slot) {
        let connection = self.core.connections.get(slot);
        if connection.is_closing() {
            // It waits only for the kernel, or for QUIC.
            return;
        }
        if connection.http3().is_some() {
            return self.drive_quic(slot);
        }
        if let Protocol::Connecting(connecting) = &connection.protocol
            && connecting.step != ConnectStep::Handshake
        {
            return self.settle_connecting(slot);
        }
        let mut turn_bytes = 0;
        loop {
            if let Some(why) = self.core.connections.get(slot).link.cut {
                return self.cut(slot, why);
            }
            self.report_exchange_ends(slot);
            let mut flush = self.flush(slot, &mut turn_bytes);
            if let Flush::Broken(gone) = flush {
                if !self.reads_on(slot, gone) {
                    return self.cut(slot, gone);
                }
                flush = Flush::Empty;
            }
            if flush == Flush::Empty {
                self.report_exchange_ends(slot);
                self.report_sent(slot);
                self.finish_stream(slot);
            }
            if self.core.connections.get(slot).is_sending_last_response() {
                if flush == Flush::Empty {
                    return self.last_sent(slot);
                }
                break;
            }
            if self.report_writable(slot) || self.pump(slot) {
                continue;
            }
            let Self { app, core, .. } = self;
            if core.connections.get(slot).link.input.is_empty() {
                break;
            }
            let stuck = drive_kept_input(app, core, slot) == 0;
            if stuck && (flush == Flush::Waits || self.core.framed_bytes(slot) == 0) {
                break;
            }
        }
        if self.core.connections.get(slot).link.peer_ended && self.process_input_end(slot) {
            return;
        }
        self.update_receiving(slot);
        self.core.set_deadline(slot);
    }

    /// Turns receiving on or off: it is on while input can be used or kept.
    #[inline]
    fn update_receiving(&mut self, slot: Slot) {
        let connection = self.core.connections.get(slot);
        let TransportLink { peer_ended, blocked, .. } = connection.link;
        let stuck = blocked.is_some() && !connection.link.input.is_empty();
        let on = connection.takes_input() && !peer_ended && !stuck;
        if on != connection.link.receiving {
            connection.link.receiving = on;
            self.backend.receive(slot, on);
        }
    }

    /// Sends an event to the exchange or the stream that is open on a connection.
    pub(crate) fn notify(&mut self, slot: Slot, notice: Notice) {
        let Self { app, core, .. } = self;
        match core.connections.get(slot).protocol {
            Protocol::ByteStream(_) | Protocol::Connecting(_) => {
                byte_streams::deliver_event(app, core, slot, notice.for_stream());
            }
            _ => http1::deliver_event(app, core, slot, notice.for_exchange()),
        }
    }
}
