//! The work of a worker on QUIC: datagrams in, connections driven, datagrams out, deadlines.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use pinion_http::h3::frame::ErrorCode;
use quinn_proto::{ConnectionEvent, Incoming};

use super::endpoint::{Datagram, Received, SendProgress};
use crate::app::App;
use crate::backend::{Backend, Slot};
use crate::connection::Protocol;
use crate::connection_direction::ConnectionDirection;
use crate::drain_state::WorkerEnding;
use crate::driver::{self, multiplexed_requests};
use crate::end_reason::Gone;
use crate::exchange_address::Address;
use crate::http3::Http3;
use crate::inbox::Message;
use crate::inbox::Poster;
use crate::limits::{
    DATAGRAM_BATCHES_PER_PASS, INBOX_DATAGRAMS_MAX, QUIC_DATAGRAM_MAX_BYTES, QUIC_STEPS_MAX,
};
use crate::multiplexed::Multiplexed;
use crate::quic::worker_endpoints::{ConnectionSlot, HandshakeWork, Quic};
use crate::worker::Worker;
use crate::worker_core::WorkerCore;

/// The time after which a send is tried again if the kernel had no room for a datagram.
const SEND_AGAIN: Duration = Duration::from_millis(1);

/// The slot to which datagrams for other workers are posted: one that no connection has, less the
/// number of the endpoint.
const DATAGRAM_SLOT: Slot = Slot::MAX;

/// The reason why the QUIC state of a worker is in place: it is taken out only while datagrams are
/// processed.
const QUIC_IS_BACK: &str = "connections are driven when all datagrams have been looked at";

impl<B: Backend, A: App> Worker<B, A> {
    /// Opens the endpoints of all listeners.
    ///
    /// # Errors
    /// Fails if the system cannot use or watch a socket.
    pub(crate) fn open_endpoints(&mut self) -> io::Result<()> {
        let (plans, worker) = (&self.shared.endpoints, self.core.worker);
        let quic = Quic::new(plans, worker)?;
        let is_read: Vec<bool> = plans.iter().map(|plan| plan.is_read_by(worker)).collect();
        self.watch_endpoints(quic, |number| is_read.get(number) == Some(&true))
    }

    /// Begins to watch the sockets of these endpoints, as far as this worker reads them.
    ///
    /// # Errors
    /// Fails if the system cannot watch one.
    pub(crate) fn watch_endpoints(
        &mut self,
        quic: Option<Box<Quic>>,
        is_read: impl Fn(usize) -> bool,
    ) -> io::Result<()> {
        self.core.quic = quic;
        let Some(quic) = &self.core.quic else { return Ok(()) };
        let endpoints = quic.endpoints.iter().enumerate().filter(|(number, _)| is_read(*number));
        for (number, endpoint) in endpoints {
            self.backend.await_datagrams(endpoint.fd(), number as u32)?;
        }
        Ok(())
    }

    /// Receives the datagrams that wait in the socket of an endpoint.
    pub(crate) fn datagrams(&mut self, number: u32) {
        let Some(mut quic) = self.core.quic.take() else { return };
        let endpoint = number as usize;
        for _ in 0..DATAGRAM_BATCHES_PER_PASS {
            let mut inlet = std::mem::take(&mut quic.inlet);
            let more = quic.endpoints[endpoint].receive(&mut inlet);
            for arrived in inlet.arrived() {
                for bytes in arrived.bytes.chunks(arrived.stride) {
                    let (from, to, ecn) = (arrived.from, arrived.to, arrived.ecn);
                    self.enter(&mut quic, endpoint, &Datagram { from, to, ecn, bytes });
                }
            }
            quic.inlet = inlet;
            if !more {
                break;
            }
        }
        let watched = self.backend.await_datagrams(quic.endpoints[endpoint].fd(), number);
        debug_assert!(watched.is_ok(), "it was watched before");
        self.core.quic = Some(quic);
        self.drive_dirty();
    }

    /// Processes a datagram of any origin. Those of handshakes wait, except for ones of unusual
    /// length.
    fn enter(&mut self, quic: &mut Quic, endpoint: usize, datagram: &Datagram<&[u8]>) {
        let bytes = datagram.bytes.len();
        let is_usual = bytes <= usize::from(QUIC_DATAGRAM_MAX_BYTES);
        match quic.endpoints[endpoint].enter(datagram, self.core.instant) {
            Received::Nothing => {}
            Received::For(slot, event) if is_usual && quic.is_handshaking(slot) => {
                let generation = self.core.connections.get(slot).generation;
                quic.steps.push_back(HandshakeWork::GoOn(slot, generation, event, bytes));
            }
            Received::For(slot, event) => self.deliver_event(quic, slot, event, bytes),
            Received::Elsewhere(worker) => self.pass_on(endpoint, worker, datagram),
            Received::Newcomer(incoming) => {
                quic.steps.push_back(HandshakeWork::Begin(endpoint, incoming));
            }
        }
        if quic.steps.len() > QUIC_STEPS_MAX {
            self.step(quic);
        }
    }

    /// Passes an event to its connection; the datagram had `bytes` bytes.
    fn deliver_event(&mut self, quic: &mut Quic, slot: Slot, event: ConnectionEvent, bytes: usize) {
        self.core.http3(slot).0.on_datagram(event, bytes);
        quic.mark_dirty(slot);
    }

    /// Takes the oldest step of a handshake.
    fn step(&mut self, quic: &mut Quic) {
        match quic.steps.pop_front() {
            Some(HandshakeWork::Begin(endpoint, incoming)) => {
                self.newcomer(quic, endpoint, incoming);
            }
            Some(HandshakeWork::GoOn(slot, generation, event, bytes))
                if self.core.connections.is(slot, generation) =>
            {
                self.deliver_event(quic, slot, event, bytes);
            }
            // Its connection no longer exists.
            Some(HandshakeWork::GoOn(..)) | None => {}
        }
    }

    /// Advances handshakes by one step in a pass, so that existing connections wait for no more
    /// than one step. A server that stops takes all steps at once, because it has no time for that.
    pub(crate) fn quic_handshakes(&mut self) {
        if self.core.quic.as_ref().is_none_or(|quic| quic.steps.is_empty()) {
            return;
        }
        let Some(mut quic) = self.core.quic.take() else { return };
        self.step(&mut quic);
        while self.core.ending != WorkerEnding::No && !quic.steps.is_empty() {
            self.step(&mut quic);
        }
        self.core.quic = Some(quic);
        self.drive_dirty();
    }

    /// Hands a datagram to the worker that has its connection. One that finds no room there is
    /// lost, like others on their way.
    fn pass_on(&self, endpoint: usize, worker: u16, datagram: &Datagram<&[u8]>) {
        let Datagram { from, to, ecn, bytes } = *datagram;
        let owned = Datagram { from, to, ecn, bytes: bytes.to_vec() };
        let slot = DATAGRAM_SLOT - endpoint as Slot;
        let address = Address { worker, slot, generation: 0, exchange: 0 };
        let poster = Poster { inboxes: Arc::clone(&self.shared.inboxes) };
        let _lost_if_full = poster.post_up_to(INBOX_DATAGRAMS_MAX, address, Box::new(owned));
    }

    /// Takes a message that is a datagram of another worker; returns any other message.
    pub(crate) fn take_datagram(&mut self, to: Address, message: Message) -> Option<Message> {
        let endpoint = (DATAGRAM_SLOT - to.slot) as usize;
        let endpoints = self.core.quic.as_ref().map_or(0, |quic| quic.endpoints.len());
        if endpoint >= endpoints {
            return Some(message);
        }
        let datagram = match message.downcast::<Datagram<Vec<u8>>>() {
            Ok(datagram) => datagram,
            Err(message) => return Some(message),
        };
        let mut quic = self.core.quic.take()?;
        let Datagram { from, to, ecn, bytes } = &*datagram;
        let datagram = Datagram { from: *from, to: *to, ecn: *ecn, bytes: &bytes[..] };
        self.enter(&mut quic, endpoint, &datagram);
        self.core.quic = Some(quic);
        self.drive_dirty();
        None
    }

    /// Begins a connection of a client, refuses it, or makes it prove its address.
    fn newcomer(&mut self, quic: &mut Quic, endpoint: usize, incoming: Incoming) {
        let worker = self.core.worker;
        let unproven = !incoming.remote_address_validated();
        if unproven && quic.handshakes >= self.shared.permits.unproven_max() {
            return quic.endpoints[endpoint].retry(incoming);
        }
        let goes_on = !matches!(self.core.ending, WorkerEnding::Finishing { .. });
        if !goes_on || !self.core.make_room() || !self.shared.permits.reserve(worker) {
            return quic.endpoints[endpoint].refuse(incoming);
        }
        let (peer, listener) = (incoming.remote_address(), quic.endpoints[endpoint].listener);
        if !self.admits(Some(peer)) {
            self.put_unused_permit_back();
            return quic.endpoints[endpoint].refuse(incoming);
        }
        let slot =
            self.core.connections.open(false, ConnectionDirection::incoming(listener), Some(peer));
        let Some((handle, connection)) =
            quic.endpoints[endpoint].accept(incoming, slot, self.core.instant)
        else {
            self.core.connections.release(slot);
            self.shared.client_limit.leave(worker, Some(peer));
            return self.put_unused_permit_back();
        };
        self.shared.permits.fill(worker);
        self.balance();
        let extended_connect = self.app.takes_extended_connect();
        let (limits, now_ms) = (self.core.settings.limits, self.core.now.monotonic_ms);
        let http3 = Http3::new(connection, limits, extended_connect, now_ms);
        self.core.connections.get(slot).protocol =
            Protocol::Multiplexed(Multiplexed::Http3(Box::new(http3)));
        let index = slot as usize;
        if index >= quic.places.len() {
            quic.places.resize(index + 1, None);
        }
        quic.handshakes += 1;
        quic.places[index] = Some(ConnectionSlot {
            endpoint,
            handle,
            timer: None,
            is_dirty: false,
            is_handshaking: true,
            brought: 0,
        });
        quic.mark_dirty(slot);
    }

    /// Gives back the permit of a newcomer that was not accepted, unless the worker keeps one in
    /// reserve for others.
    fn put_unused_permit_back(&self) {
        if !self.is_accepting() {
            self.shared.permits.put_back(self.core.worker);
        }
    }

    /// Drives the connections that have new events.
    fn drive_dirty(&mut self) {
        if let Some(quic) = &mut self.core.quic {
            quic.order_dirty();
        }
        while let Some(quic) = &mut self.core.quic
            && let Some(slot) = quic.dirty.pop()
        {
            if quic.places[slot as usize].is_some_and(|place| place.is_dirty) {
                self.drive_quic(slot);
                // Input for one connection must not take the memory of the next.
                if self.core.buffers.pool.is_low() {
                    self.relieve();
                }
            }
        }
    }

    /// Handles the connections whose timers have expired.
    pub(crate) fn quic_timers(&mut self) {
        let Some(quic) = &mut self.core.quic else { return };
        let now = self.core.instant;
        // All of them are collected before any is driven: a connection whose turn is over comes
        // again in the next pass.
        let due = quic.timers.iter().take_while(|(next, _)| *next <= now);
        quic.due.extend(due.map(|(_, slot)| *slot));
        quic.due.reverse();
        while let Some(quic) = &mut self.core.quic
            && let Some(slot) = quic.due.pop()
        {
            let timer = quic.places[slot as usize].and_then(|place| place.timer);
            if timer.is_none_or(|timer| timer > now) {
                continue;
            }
            quic.set_timer(slot, None);
            self.core.http3(slot).0.quic.handle_timeout(now);
            self.drive_quic(slot);
        }
    }

    /// Moves a connection on: its events go to the application, the output of the application to
    /// QUIC, and datagrams to the kernel.
    pub(crate) fn drive_quic(&mut self, slot: Slot) {
        let Self { app, core, .. } = self;
        driver::http3::events(app, core, slot);
        if !core.connections.get(slot).is_closing() {
            driver::http3::read_wanted(app, core, slot);
        }
        // The input may have ended it.
        if !core.connections.get(slot).is_closing() {
            loop {
                driver::http3::pump(app, core, slot);
                if !multiplexed_requests::report_writable(app, core, slot) {
                    break;
                }
            }
            self.report_exchange_ends(slot);
            self.report_sent(slot);
            if let Some(why) = self.end_of(slot) {
                return self.cut(slot, why);
            }
        }
        let now_ms = self.core.now.monotonic_ms;
        let (http3, _, buffers) = self.core.http3(slot);
        http3.stop_late_discards(now_ms);
        http3.count(buffers);
        if self.transmit(slot) {
            self.quic_over(slot);
        } else if !self.core.connections.get(slot).is_closing() {
            let (http3, link, _) = self.core.http3(slot);
            http3.restart_deadline_after_progress(link);
            self.core.set_deadline(slot);
        }
    }

    /// Returns the reason why a connection is to be ended now, if there is one.
    fn end_of(&mut self, slot: Slot) -> Option<Gone> {
        let is_finishing = matches!(self.core.ending, WorkerEnding::Finishing { .. });
        let connection = self.core.connections.get(slot);
        if connection.link.cut.is_some() {
            return connection.link.cut;
        }
        // Clients that have sent no request yet have a moment to do so.
        let may_rest = is_finishing && connection.exchanges_begun > 0;
        let (http3, ..) = self.core.http3(slot);
        let rests = if may_rest { http3.is_idle() } else { http3.is_done() };
        rests.then_some(Gone::Stopping)
    }

    /// Sends the output of a connection. Returns true if nothing more will be sent on it.
    fn transmit(&mut self, slot: Slot) -> bool {
        let now = self.core.instant;
        let WorkerCore { connections, quic: Some(quic), ending, .. } = &mut self.core else {
            unreachable!("{QUIC_IS_BACK}")
        };
        let Quic { endpoints, places, handshakes, .. } = &mut **quic;
        let connection = connections.get(slot);
        // A client that misses the end notices it on its own; the server does not wait for that.
        let is_last = connection.is_closing() && *ending != WorkerEnding::No;
        let (Some(Http3 { quic: transport, .. }), Some(place)) =
            (connection.http3(), &mut places[slot as usize])
        else {
            unreachable!("a connection over QUIC has its place until it is over")
        };
        place.is_dirty = false;
        place.brought = 0;
        let endpoint = &mut endpoints[place.endpoint];
        while let Some(event) = transport.poll_endpoint_events() {
            if let Some(response) = endpoint.handle_event(place.handle, event) {
                transport.handle_event(response);
            }
        }
        let sent = endpoint.transmit(place.handle, transport, now);
        if place.is_handshaking && !transport.is_handshaking() {
            place.is_handshaking = false;
            *handshakes -= 1;
        }
        let again = match sent {
            SendProgress::All => None,
            SendProgress::Turn => Some(now),
            SendProgress::Blocked => Some(now + SEND_AGAIN),
        };
        let timer = transport.poll_timeout().into_iter().chain(again).min();
        let over = transport.is_drained() || is_last && sent == SendProgress::All;
        quic.set_timer(slot, timer);
        over
    }

    /// Releases a connection that has ended and has no further output.
    fn quic_over(&mut self, slot: Slot) {
        let Self { app, core, .. } = self;
        multiplexed_requests::abandon(app, core, slot, Gone::Peer);
        let is_drained = core.http3(slot).0.quic.is_drained();
        let Some(quic) = &mut core.quic else { unreachable!("{QUIC_IS_BACK}") };
        quic.set_timer(slot, None);
        if let Some(place) = quic.places[slot as usize].take() {
            quic.handshakes -= usize::from(place.is_handshaking);
            quic.endpoints[place.endpoint].forget(place.handle, is_drained);
        }
        core.wheel.cancel(slot);
        self.released(slot);
    }

    /// Ends a connection in any state.
    pub(crate) fn cut_quic(&mut self, slot: Slot, gone: Gone) {
        let code = match gone {
            Gone::Overload => ErrorCode::ExcessiveLoad,
            Gone::Broken => ErrorCode::InternalError,
            _ => ErrorCode::NoError,
        };
        self.close_quic(slot, gone, code);
    }

    /// Ends a connection with this code.
    pub(crate) fn close_quic(&mut self, slot: Slot, gone: Gone, code: ErrorCode) {
        let Self { app, core, .. } = self;
        multiplexed_requests::abandon(app, core, slot, gone);
        driver::http3::close(core, slot, code);
        self.drive_quic(slot);
    }
}
