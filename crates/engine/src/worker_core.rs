//! The state that the parts of a worker share: its connections, buffers, timers and settings. It is
//! everything except the backend and the application.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use pinion_http::field_section::FieldSection;
use pinion_http::h1::head_parser::HeadStorage;

use crate::backend::Slot;
use crate::clock::Now;
use crate::connection::{Connection, Protocol};
use crate::connection_direction::ConnectionDirection;
use crate::connection_table::ConnectionTable;
use crate::drain_state::WorkerEnding;
use crate::end_reason::Gone;
use crate::exchange_address::Address;
use crate::http1::Http1;
use crate::http2::Http2;
use crate::http3::Http3;
use crate::linger::{Linger, Lingering, Remaining};
use crate::multiplexed::Multiplexed;
use crate::outgoing_permits::OutgoingPermits;
use crate::quic::worker_endpoints::Quic;
use crate::response_head_tails::Tails;
use crate::settings::{ListenerSettings, WorkerSettings};
use crate::table_capacity::has_places;
use crate::timer_wheel::Wheel;
use crate::transport_link::TransportLink;
use crate::worker_buffers::Buffers;

/// The shared state of one worker.
pub(crate) struct WorkerCore {
    pub(crate) worker: u16,
    pub(crate) now: Now,
    /// The same time in the form that QUIC needs, which is finer than milliseconds.
    pub(crate) instant: Instant,
    pub(crate) settings: Arc<WorkerSettings>,
    pub(crate) connections: ConnectionTable,
    pub(crate) buffers: Buffers,
    pub(crate) wheel: Wheel,
    /// The buffer in which bytes of external files are checked before they are sent; empty until
    /// the first use.
    pub(crate) external: Vec<u8>,
    /// The buffer for the output of the encoders; empty until the first use, and taken out during
    /// each.
    pub(crate) encoding: Vec<u8>,
    /// The buffer in which TLS input is decrypted; taken out during each use.
    pub(crate) opening: Vec<u8>,
    /// The buffer in which content is encrypted to TLS records, while no connection has it.
    pub(crate) sealing: Vec<u8>,
    /// Bytes of the current input that were content, or dropped.
    pub(crate) consumed_content_bytes: usize,
    pub(crate) tails: Tails,
    /// The storage of a request's fields; taken out while one is handled.
    pub(crate) heads: HeadStorage,
    /// The storage of a request's fields that were compressed; taken out while one is handled.
    pub(crate) section: FieldSection,
    /// The buffer in which an HTTP/3 connection sorts its streams; taken out during each use.
    pub(crate) turns: Vec<(u64, u32)>,
    /// The state of QUIC, if a listener uses it; taken out while its datagrams are processed.
    pub(crate) quic: Option<Box<Quic>>,
    /// The state of the worker's shutdown.
    pub(crate) ending: WorkerEnding,
    /// The time at which sends that found no memory are tried again, in milliseconds; `None` if no
    /// send waits for that.
    pub(crate) enobufs_retry_at_ms: Option<u64>,
    pub(crate) lingering: Lingering,
    /// Connections that are to be opened at the end of this pass.
    pub(crate) to_connect: Vec<Slot>,
    /// Connections on which the application has acted outside of their own events. The table has
    /// room for all connections.
    pub(crate) dirty: Vec<Slot>,
    /// The numbers of HTTP/1 exchanges whose ends have yet to be reported to the application
    /// ([`Exchange::notify_end`](crate::exchange::Exchange::notify_end)), by their connections. Few
    /// applications ask for that, so connections have no field for it.
    pub(crate) http1_ends: HashMap<Slot, NonZeroU32>,
    /// The permits for connections that the server opens.
    pub(crate) outgoing: OutgoingPermits,
}

impl WorkerCore {
    /// Creates the state of a worker. `incarnation` distinguishes this worker from panicked ones
    /// that had its index before.
    pub(crate) fn new(
        worker: u16,
        incarnation: u32,
        settings: Arc<WorkerSettings>,
        now: Now,
        instant: Instant,
        lingering: Lingering,
        outgoing: OutgoingPermits,
    ) -> Self {
        Self {
            worker,
            now,
            instant,
            connections: ConnectionTable::new(incarnation),
            buffers: Buffers::new(settings.buffer_bytes),
            wheel: Wheel::new(now.monotonic_ms),
            external: Vec::new(),
            encoding: Vec::new(),
            opening: Vec::new(),
            sealing: Vec::new(),
            consumed_content_bytes: 0,
            tails: Tails::new(&settings.listeners, now.unix_seconds),
            heads: HeadStorage::reserved(),
            section: FieldSection::new(),
            turns: Vec::new(),
            quic: None,
            ending: WorkerEnding::No,
            enobufs_retry_at_ms: None,
            lingering,
            to_connect: Vec::new(),
            dirty: Vec::new(),
            http1_ends: HashMap::new(),
            outgoing,
            settings,
        }
    }

    /// Grows all tables with an entry for each connection by one connection. Returns false if there
    /// is no memory for it.
    pub(crate) fn make_room(&mut self) -> bool {
        self.connections.make_room().is_some_and(|places| {
            self.buffers.outputs.make_room(places)
                && self.wheel.make_room(places)
                && has_places(&mut self.dirty, places)
        })
    }

    /// Returns the settings of the listener that accepted a connection.
    #[inline]
    pub(crate) fn listener(&mut self, slot: Slot) -> &ListenerSettings {
        &self.settings.listeners[usize::from(self.connections.get(slot).listener())]
    }

    pub(crate) fn address(&mut self, slot: Slot) -> Address {
        let connection = self.connections.get(slot);
        let (generation, exchange) = (connection.generation, connection.last_exchange_number());
        Address { worker: self.worker, slot, generation, exchange }
    }

    /// Returns the multiplexed protocol of a connection, its link and the buffers.
    ///
    /// # Panics
    /// Panics if the connection has another protocol.
    #[inline]
    pub(crate) fn multiplexed(
        &mut self,
        slot: Slot,
    ) -> (&mut Multiplexed, &mut TransportLink, &mut Buffers) {
        let Connection { link, protocol, .. } = self.connections.get(slot);
        let Some(multiplexed) = protocol.multiplexed() else {
            unreachable!("a connection with streams speaks HTTP/2 or HTTP/3")
        };
        (multiplexed, link, &mut self.buffers)
    }

    /// Returns HTTP/2 of a connection, its link and the buffers; `None` if it has another protocol,
    /// or has ended.
    #[inline]
    pub(crate) fn http2(
        &mut self,
        slot: Slot,
    ) -> Option<(&mut Http2, &mut TransportLink, &mut Buffers)> {
        let Connection { link, protocol, .. } = self.connections.get(slot);
        Some((protocol.http2()?, link, &mut self.buffers))
    }

    /// Returns HTTP/3 of a QUIC connection, its link and the buffers. The connection keeps that
    /// protocol until its slot is given back, also if it has been closed.
    ///
    /// # Panics
    /// Panics if the connection does not use QUIC.
    #[inline]
    pub(crate) fn http3(&mut self, slot: Slot) -> (&mut Http3, &mut TransportLink, &mut Buffers) {
        let Connection { link, protocol, .. } = self.connections.get(slot);
        let Some(http3) = protocol.http3() else {
            unreachable!("a connection over QUIC speaks HTTP/3")
        };
        (http3, link, &mut self.buffers)
    }

    /// Announces to the client of a connection, with GOAWAY, that no further requests are accepted;
    /// called again, that those on their way are not accepted either.
    pub(crate) fn go_away(&mut self, slot: Slot) {
        let is_stopping = self.ending != WorkerEnding::No;
        let (multiplexed, link, buffers) = self.multiplexed(slot);
        multiplexed.go_away(is_stopping, link, buffers);
    }

    /// Begins HTTP/2 on a connection whose first bytes are still to arrive.
    pub(crate) fn begin_http2(&mut self, slot: Slot, extended_connect: bool) {
        let Connection { link, protocol, .. } = self.connections.get(slot);
        let http2 = Http2::begin(self.settings.limits, extended_connect, link, &mut self.buffers);
        *protocol = Protocol::Multiplexed(Multiplexed::Http2(Box::new(http2)));
        if self.ending != WorkerEnding::No {
            self.go_away(slot);
        }
    }

    /// Returns the bytes that wait to be sent, including those of exchanges that share the
    /// connection.
    #[inline]
    pub(crate) fn queued_bytes(&mut self, slot: Slot) -> u64 {
        let waiting_bytes = match &self.connections.get(slot).protocol {
            Protocol::Multiplexed(many) => many.queued_bytes(),
            _ => 0,
        };
        self.framed_bytes(slot) + waiting_bytes
    }

    /// Returns the bytes that wait to be sent on the connection itself, without those in the queues
    /// of its exchanges.
    #[inline]
    pub(crate) fn framed_bytes(&mut self, slot: Slot) -> u64 {
        self.buffers.waiting_bytes(&self.connections.get(slot).link)
    }

    /// Returns the bytes of the memory budget for buffers that a connection holds.
    pub(crate) fn held_bytes(&mut self, slot: Slot) -> usize {
        let Self { connections, buffers, .. } = self;
        let Buffers { outputs, encoders, .. } = buffers;
        let connection = connections.get(slot);
        let link = &connection.link;
        let output_bytes = outputs.get(link.output).map_or(0, |output| output.held_bytes());
        let sealed_bytes = link.tls.as_ref().map_or(0, |tls| tls.sealed_bytes());
        let protocol_bytes = match &mut connection.protocol {
            Protocol::Http1(Http1::Exchange(open)) => encoders.bytes(open.state.encoder),
            Protocol::Multiplexed(many) => many.held_bytes(outputs, encoders),
            _ => 0,
        };
        link.input.held_bytes() + output_bytes + sealed_bytes + protocol_bytes
    }

    /// Returns the time since the deadline of the connection was started, in milliseconds; 0 if
    /// none runs.
    pub(crate) fn stalled_ms(&mut self, slot: Slot) -> u64 {
        let now_ms = self.now.monotonic_ms;
        self.connections.get(slot).link.deadline.stalled_ms(now_ms, &self.settings)
    }

    /// Ends a connection that asked for more memory when the budget for buffers was spent.
    #[cold]
    pub(crate) fn overloaded(&mut self, slot: Slot) {
        self.give_up(slot, Gone::Overload);
    }

    /// Ends the protocol of a connection after its queued output, and gives its resources back.
    /// `remaining` is the input that the peer may still send.
    pub(crate) fn end(&mut self, slot: Slot, remaining: Remaining) {
        let Self { connections, buffers, ending, .. } = self;
        let connection = connections.get(slot);
        let remaining = match remaining {
            // A server that we have connected to gets no further message, and needs no time to read
            // it.
            _ if connection.link.peer_ended
                || connection.direction == ConnectionDirection::Outgoing =>
            {
                Remaining::Nothing
            }
            Remaining::Content if *ending != WorkerEnding::No => Remaining::UselessInput,
            remaining => remaining,
        };
        let linger = Linger::new(remaining, connection.protocol.http2().is_some());
        connection.link.app_deadline_ms = 0;
        let before = std::mem::replace(&mut connection.protocol, Protocol::Linger(linger));
        before.give_back(buffers);
    }

    /// Begins to linger after the last response of a connection has left: further input of the peer
    /// is dropped. Returns the connection that has to end for it, if too many linger.
    pub(crate) fn begin_lingering(&mut self, slot: Slot) -> Option<Slot> {
        let Self { connections, lingering, .. } = self;
        let generation = connections.get(slot).generation;
        lingering.begin(slot, generation, |slot, generation| {
            connections.is(slot, generation) && connections.get(slot).is_dropping_input()
        })
    }

    /// Closes the protocol of a connection, and gives its resources back.
    pub(crate) fn close_protocol(&mut self, slot: Slot) {
        let Self { connections, buffers, lingering, .. } = self;
        let connection = connections.get(slot);
        if connection.is_dropping_input() {
            lingering.end();
        }
        std::mem::replace(&mut connection.protocol, Protocol::Closing).give_back(buffers);
    }

    /// Counts further input of a lingering peer; too much of it ends the connection. A client that
    /// asked to close and sends more nevertheless may have more to send.
    pub(crate) fn drop_input(&mut self, slot: Slot, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.consumed_content_bytes += bytes;
        let connection = self.connections.get(slot);
        let Protocol::Linger(linger) = &mut connection.protocol else {
            unreachable!("input is dropped by a connection that lingers")
        };
        if linger.remaining == Remaining::Nothing
            && linger.is_sending()
            && !connection.link.peer_ended
        {
            linger.remaining = Remaining::UselessInput;
        }
        if !linger.drops(bytes) {
            connection.link.cut.get_or_insert(Gone::Peer);
        } else if linger.remaining == Remaining::Content {
            connection.link.received();
        }
    }

    /// Cuts the connection; the application gets the reason, if it has something open there.
    #[cold]
    pub(crate) fn give_up(&mut self, slot: Slot, why: Gone) {
        let connection = self.connections.get(slot);
        connection.link.cut = Some(why);
        if let Some(open) = connection.protocol.http1().and_then(Http1::exchange) {
            open.state.stage.give_up();
        }
    }

    /// Sets the deadline that the state of a connection needs. It runs from the beginning of that
    /// state, and only the awaited progress moves it: a complete request, content that a handler
    /// takes, bytes that leave. Each of these ends the deadline. So a peer that sends byte by byte
    /// gains no time, and neither does one whose handler is woken for other reasons.
    #[inline]
    pub(crate) fn set_deadline(&mut self, slot: Slot) {
        let connection = self.connections.get(slot);
        let kind = connection.deadline_kind();
        let is_new = connection.start_deadline(kind, self.now.monotonic_ms, &self.settings);
        if !is_new && connection.link.app_deadline_ms == 0 {
            return;
        }
        if is_new && let Some(progress) = connection.http3().map(|http3| http3.progress(kind)) {
            connection.link.progress = progress;
        }
        match connection.link.next_deadline_ms() {
            u64::MAX => self.wheel.cancel(slot),
            deadline_ms => self.wheel.arm(slot, deadline_ms),
        }
    }
}
