//! What the parts of a worker share: its connections, buffers, timers and settings. Everything but
//! the backend and the application.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use pinion_http::h1::head::HeadStorage;
use pinion_http::section::FieldSection;

use crate::address::Address;
use crate::backend::Slot;
use crate::buffers::Buffers;
use crate::clock::Now;
use crate::conn::{Conn, Protocol};
use crate::conns::Conns;
use crate::ending::WorkerEnding;
use crate::gone::Gone;
use crate::http1::Http1;
use crate::http2::Http2;
use crate::http3::Http3;
use crate::linger::{Linger, Lingering, Remaining};
use crate::link::TransportLink;
use crate::multiplexed::Multiplexed;
use crate::outgoing_permits::OutgoingPermits;
use crate::quic::table::Quic;
use crate::settings::{ListenerSettings, WorkerSettings};
use crate::side::ConnectionSide;
use crate::tables::has_places;
use crate::tails::Tails;
use crate::wheel::Wheel;

/// See the module's head.
pub(crate) struct Core {
    pub(crate) worker: u16,
    pub(crate) now: Now,
    /// The same time for QUIC, which needs more than milliseconds.
    pub(crate) instant: Instant,
    pub(crate) settings: Arc<WorkerSettings>,
    pub(crate) conns: Conns,
    pub(crate) buffers: Buffers,
    pub(crate) wheel: Wheel,
    /// Where bytes of external files are looked at before they are sent; no memory until then.
    pub(crate) external: Vec<u8>,
    /// Where what comes out of them stands; no memory until the first, taken out meanwhile.
    pub(crate) encoding: Vec<u8>,
    /// Where what arrives over TLS is opened; taken out meanwhile.
    pub(crate) opening: Vec<u8>,
    /// Where content becomes records of TLS, if no connection has it.
    pub(crate) sealing: Vec<u8>,
    /// Bytes of the input in hand that were content, or dropped.
    pub(crate) content_bytes: usize,
    pub(crate) tails: Tails,
    /// Where the fields of a request stand; taken out while one is answered.
    pub(crate) heads: HeadStorage,
    /// Where the fields of a request stand that were compressed; taken out while one is answered.
    pub(crate) section: FieldSection,
    /// Where a connection of HTTP/3 puts its streams in order; taken out while it does.
    pub(crate) turns: Vec<(u64, u32)>,
    /// QUIC, if a listener speaks it; taken out while its datagrams are looked at.
    pub(crate) quic: Option<Box<Quic>>,
    /// How far the end of the worker has come.
    pub(crate) ending: WorkerEnding,
    /// When sends that found no memory are tried again, in milliseconds; none has, or they are.
    pub(crate) enobufs_retry_at_ms: Option<u64>,
    pub(crate) lingering: Lingering,
    /// Connections that are to be opened at the end of this pass.
    pub(crate) to_connect: Vec<Slot>,
    /// Connections with which the application has done something outside of their own events. Has a
    /// place for each.
    pub(crate) dirty: Vec<Slot>,
    /// The numbers of exchanges of HTTP/1 whose ends the application has yet to hear of
    /// ([`Exchange::notify_end`](crate::exchange::Exchange::notify_end)), by their connections.
    /// Few applications ask for that, so connections have no place for it.
    pub(crate) http1_ends: HashMap<Slot, NonZeroU32>,
    /// How many connections the server may open.
    pub(crate) outgoing: OutgoingPermits,
}

impl Core {
    /// `incarnation` tells this worker from those that had its index before and panicked.
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
            conns: Conns::new(incarnation),
            buffers: Buffers::new(settings.buffer_bytes),
            wheel: Wheel::new(now.monotonic_ms),
            external: Vec::new(),
            encoding: Vec::new(),
            opening: Vec::new(),
            sealing: Vec::new(),
            content_bytes: 0,
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

    /// Makes room for one connection more in all tables that have a place for each. False when
    /// there is no memory for it.
    pub(crate) fn make_room(&mut self) -> bool {
        self.conns.make_room().is_some_and(|places| {
            self.buffers.outputs.make_room(places)
                && self.wheel.make_room(places)
                && has_places(&mut self.dirty, places)
        })
    }

    /// What the connections have in common that came by the listener of a connection.
    #[inline]
    pub(crate) fn listener(&mut self, slot: Slot) -> &ListenerSettings {
        &self.settings.listeners[usize::from(self.conns.get(slot).listener())]
    }

    pub(crate) fn address(&mut self, slot: Slot) -> Address {
        let conn = self.conns.get(slot);
        let (generation, exchange) = (conn.generation, conn.exchange_number());
        Address { worker: self.worker, slot, generation, exchange }
    }

    /// Returns the protocol of a connection that carries many exchanges, its link and the buffers.
    ///
    /// # Panics
    /// When it speaks another protocol.
    #[inline]
    pub(crate) fn multiplexed(
        &mut self,
        slot: Slot,
    ) -> (&mut Multiplexed, &mut TransportLink, &mut Buffers) {
        let Conn { link, protocol, .. } = self.conns.get(slot);
        let Some(multiplexed) = protocol.multiplexed() else {
            unreachable!("a connection with streams speaks HTTP/2 or HTTP/3")
        };
        (multiplexed, link, &mut self.buffers)
    }

    /// Returns HTTP/2 of a connection, its link and the buffers; `None` when it speaks another
    /// protocol, or has ended.
    #[inline]
    pub(crate) fn http2(
        &mut self,
        slot: Slot,
    ) -> Option<(&mut Http2, &mut TransportLink, &mut Buffers)> {
        let Conn { link, protocol, .. } = self.conns.get(slot);
        Some((protocol.http2()?, link, &mut self.buffers))
    }

    /// Returns HTTP/3 of a connection over QUIC, its link and the buffers. It speaks that until its
    /// slot is given back, also when it has been closed.
    ///
    /// # Panics
    /// When the connection is not one over QUIC.
    #[inline]
    pub(crate) fn http3(&mut self, slot: Slot) -> (&mut Http3, &mut TransportLink, &mut Buffers) {
        let Conn { link, protocol, .. } = self.conns.get(slot);
        let Some(http3) = protocol.http3() else {
            unreachable!("a connection over QUIC speaks HTTP/3")
        };
        (http3, link, &mut self.buffers)
    }

    /// Tells the client of a connection that no further requests are taken; called again, that
    /// those on their way are not taken either.
    pub(crate) fn go_away(&mut self, slot: Slot) {
        let is_stopping = self.ending != WorkerEnding::No;
        let (multiplexed, link, buffers) = self.multiplexed(slot);
        multiplexed.go_away(is_stopping, link, buffers);
    }

    /// Begins HTTP/2 on a connection whose first bytes are still to come.
    pub(crate) fn begin_http2(&mut self, slot: Slot, extended_connect: bool) {
        let Conn { link, protocol, .. } = self.conns.get(slot);
        let http2 = Http2::begin(self.settings.limits, extended_connect, link, &mut self.buffers);
        *protocol = Protocol::Multiplexed(Multiplexed::Http2(Box::new(http2)));
        if self.ending != WorkerEnding::No {
            self.go_away(slot);
        }
    }

    /// Bytes that wait to be sent, of exchanges that share the connection too.
    #[inline]
    pub(crate) fn queued_bytes(&mut self, slot: Slot) -> u64 {
        let waiting_bytes = match &self.conns.get(slot).protocol {
            Protocol::Multiplexed(many) => many.queued_bytes(),
            _ => 0,
        };
        self.framed_bytes(slot) + waiting_bytes
    }

    /// Bytes that wait to be sent on the connection, whatever exchanges have beside.
    #[inline]
    pub(crate) fn framed_bytes(&mut self, slot: Slot) -> u64 {
        self.buffers.waiting_bytes(&self.conns.get(slot).link)
    }

    /// Bytes of the budget for buffers that a connection holds.
    pub(crate) fn held_bytes(&mut self, slot: Slot) -> usize {
        let Self { conns, buffers, .. } = self;
        let Buffers { outputs, encoders, .. } = buffers;
        let conn = conns.get(slot);
        let link = &conn.link;
        let output_bytes = outputs.get(link.output).map_or(0, |output| output.held_bytes());
        let sealed_bytes = link.tls.as_ref().map_or(0, |tls| tls.sealed_bytes());
        let protocol_bytes = match &mut conn.protocol {
            Protocol::Http1(Http1::Exchange(open)) => encoders.bytes(open.state.encoder),
            Protocol::Multiplexed(many) => many.held_bytes(outputs, encoders),
            _ => 0,
        };
        link.input.held_bytes() + output_bytes + sealed_bytes + protocol_bytes
    }

    /// How long ago the connection last got on with what its deadline watches, in milliseconds; 0
    /// when nothing is watched.
    pub(crate) fn stalled_ms(&mut self, slot: Slot) -> u64 {
        let now_ms = self.now.monotonic_ms;
        self.conns.get(slot).link.deadline.stalled_ms(now_ms, &self.settings)
    }

    /// The budget for buffers is spent and this connection asked for more: it pays.
    #[cold]
    pub(crate) fn overloaded(&mut self, slot: Slot) {
        self.give_up(slot, Gone::Overload);
    }

    /// Nothing more comes behind what is queued; gives back what the protocol held. `remaining` is
    /// what the peer may still send.
    pub(crate) fn end(&mut self, slot: Slot, remaining: Remaining) {
        let Self { conns, buffers, ending, .. } = self;
        let conn = conns.get(slot);
        let remaining = match remaining {
            // A server that we have connected to is told no more, and needs no time to hear it.
            _ if conn.link.ended || conn.side == ConnectionSide::Opened => Remaining::Nothing,
            Remaining::Content if *ending != WorkerEnding::No => Remaining::Strays,
            remaining => remaining,
        };
        let linger = Linger::new(remaining, conn.protocol.http2().is_some());
        conn.link.asked_ms = 0;
        let before = std::mem::replace(&mut conn.protocol, Protocol::Linger(linger));
        before.give_back(buffers);
    }

    /// The last response of a connection has left, and what the peer still sends is dropped.
    /// Returns the connection that has to end for that, if too many linger.
    pub(crate) fn begin_lingering(&mut self, slot: Slot) -> Option<Slot> {
        let Self { conns, lingering, .. } = self;
        let generation = conns.get(slot).generation;
        lingering.begin(slot, generation, |slot, generation| {
            conns.is(slot, generation) && conns.get(slot).lingers()
        })
    }

    /// Closes what is spoken on a connection, and gives back what it held.
    pub(crate) fn close_protocol(&mut self, slot: Slot) {
        let Self { conns, buffers, lingering, .. } = self;
        let conn = conns.get(slot);
        if conn.lingers() {
            lingering.end();
        }
        std::mem::replace(&mut conn.protocol, Protocol::Closing).give_back(buffers);
    }

    /// Counts what a lingering peer still sends; too much ends the patience. Who asked to close and
    /// sends more nevertheless may not be done with that.
    pub(crate) fn drop_input(&mut self, slot: Slot, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.content_bytes += bytes;
        let conn = self.conns.get(slot);
        let Protocol::Linger(linger) = &mut conn.protocol else {
            unreachable!("input is dropped by a connection that lingers")
        };
        if linger.remaining == Remaining::Nothing && linger.is_sending() && !conn.link.ended {
            linger.remaining = Remaining::Strays;
        }
        if !linger.drops(bytes) {
            conn.link.cut.get_or_insert(Gone::Peer);
        } else if linger.remaining == Remaining::Content {
            conn.link.received();
        }
    }

    /// The connection is to be cut; the application hears why, if it is owed that.
    #[cold]
    pub(crate) fn give_up(&mut self, slot: Slot, why: Gone) {
        let conn = self.conns.get(slot);
        conn.link.cut = Some(why);
        if let Some(open) = conn.protocol.http1().and_then(Http1::exchange) {
            open.state.stage.give_up();
        }
    }

    /// Sets the deadline that the state of a connection calls for. It runs from when that state
    /// began, and nothing moves it but what it waits for: a request that is complete, content that
    /// a handler takes, bytes that leave. Those set `watch` back to nothing. So a peer that drips
    /// gains nothing, and neither does one whose handler is woken for other reasons.
    #[inline]
    pub(crate) fn watch(&mut self, slot: Slot) {
        let conn = self.conns.get(slot);
        let watch = conn.wanted_watch();
        let is_new = conn.begin_watch(watch, self.now.monotonic_ms, &self.settings);
        if !is_new && conn.link.asked_ms == 0 {
            return;
        }
        if is_new && let Some(progress) = conn.http3().map(|http3| http3.progress(watch)) {
            conn.link.progress = progress;
        }
        match conn.link.next_deadline_ms() {
            u64::MAX => self.wheel.cancel(slot),
            deadline_ms => self.wheel.arm(slot, deadline_ms),
        }
    }
}
