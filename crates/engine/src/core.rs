//! What the parts of a worker share: its connections, buffers, timers and settings. Everything but
//! the backend and the application.

use std::sync::Arc;
use std::time::Instant;

use pinion_http::date;
use pinion_http::h1::head::HeadStorage;
use pinion_http::hpack;
use pinion_http::prepared::{Piece, PreparedBody};
use pinion_http::qpack;
use pinion_http::section::FieldSection;

use crate::address::Address;
use crate::backend::Slot;
use crate::clock::Now;
use crate::conn::{Conns, Protocol};
use crate::encode::Encoders;
use crate::ending::Ending;
use crate::exchange::slice::Slice;
use crate::exchange::state::{ExchangeState, Stage};
use crate::gone::Gone;
use crate::http1::Http1;
use crate::limits::COPY_BODY_MAX_BYTES;
use crate::linger::{Linger, Lingering, Remaining};
use crate::mapping::{MappingId, Mappings};
use crate::output::{Output, Outputs};
use crate::pool::Pool;
use crate::quic::table::Quic;
use crate::settings::{ListenerSettings, Settings};
use crate::wheel::Wheel;

/// What the head of every answer of a listener ends with: `Date`, then the listener's own fields,
/// then the blank line. Rendered once a second.
pub(crate) struct Tails {
    listeners: Vec<Tail>,
    /// Without fields of a listener.
    bare: Tail,
    second: i64,
}

/// The tail of one listener, in each form.
struct Tail {
    h1: Vec<u8>,
    hpack: Vec<u8>,
    qpack: Vec<u8>,
}

impl Tail {
    fn new(fields: &[u8], unix_seconds: i64) -> Self {
        let mut h1 = DATE_NAME.to_vec();
        h1.extend_from_slice(&date::format(unix_seconds));
        h1.extend_from_slice(b"\r\n");
        h1.extend_from_slice(fields);
        h1.extend_from_slice(b"\r\n");
        let mut tail = Self { h1, hpack: Vec::new(), qpack: Vec::new() };
        tail.compress();
        tail
    }

    fn refresh(&mut self, date: &[u8]) {
        if let Some(place) = self.h1.get_mut(DATE_NAME.len()..DATE_NAME.len() + date.len()) {
            place.copy_from_slice(date);
        }
        self.compress();
    }

    /// Renders the binary forms, of what HTTP/1 has before its blank line.
    fn compress(&mut self) {
        let lines = self.h1.strip_suffix(b"\r\n").unwrap_or_default();
        self.hpack.clear();
        hpack::encode::lines(&mut self.hpack, lines);
        self.qpack.clear();
        qpack::encode::lines(&mut self.qpack, lines);
    }
}

const DATE_NAME: &[u8] = b"Date: ";

impl Tails {
    pub(crate) fn new(listeners: &[ListenerSettings], unix_seconds: i64) -> Self {
        let tail = |listener: &ListenerSettings| Tail::new(&listener.fields, unix_seconds);
        let bare = Tail::new(b"", unix_seconds);
        Self { listeners: listeners.iter().map(tail).collect(), bare, second: unix_seconds }
    }

    #[inline]
    pub(crate) fn refresh(&mut self, unix_seconds: i64) {
        if unix_seconds == self.second {
            return;
        }
        self.second = unix_seconds;
        let date = date::format(unix_seconds);
        self.listeners.iter_mut().chain([&mut self.bare]).for_each(|tail| tail.refresh(&date));
    }

    /// For HTTP/1.
    #[inline]
    pub(crate) fn line(&self, listener: u16) -> &[u8] {
        &self.listeners[usize::from(listener)].h1
    }

    /// For HTTP/1, with the date alone.
    pub(crate) fn bare_line(&self) -> &[u8] {
        &self.bare.h1
    }

    /// For HTTP/3.
    #[inline]
    pub(crate) fn qpack(&self, listener: u16) -> &[u8] {
        &self.listeners[usize::from(listener)].qpack
    }

    /// For HTTP/2.
    #[inline]
    pub(crate) fn hpack(&self, listener: u16) -> &[u8] {
        &self.listeners[usize::from(listener)].hpack
    }
}

/// See the module's head.
pub(crate) struct Core {
    pub(crate) worker: u16,
    pub(crate) now: Now,
    /// The same time for QUIC, which needs more than milliseconds.
    pub(crate) instant: Instant,
    pub(crate) settings: Arc<Settings>,
    pub(crate) conns: Conns,
    pub(crate) outputs: Outputs,
    pub(crate) pool: Pool,
    pub(crate) wheel: Wheel,
    pub(crate) mappings: Mappings,
    /// Where bytes of external files are looked at before they are sent; no memory until then.
    pub(crate) external: Vec<u8>,
    /// What compresses answers.
    pub(crate) encoders: Encoders,
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
    /// Where a connection writes frames of its own; taken out while it does.
    pub(crate) control: Vec<u8>,
    /// Where a connection of HTTP/3 puts its streams in order; taken out while it does.
    pub(crate) turns: Vec<(u64, u32)>,
    /// QUIC, if a listener speaks it; taken out while its datagrams are looked at.
    pub(crate) quic: Option<Box<Quic>>,
    /// In place of an exchange that is no more, for whoever still asks.
    pub(crate) nobody: ExchangeState,
    /// How far the end of the worker has come.
    pub(crate) ending: Ending,
    /// When sends that found no memory are tried again, in milliseconds; none has, or they are.
    pub(crate) shortage_until_ms: Option<u64>,
    pub(crate) lingering: Lingering,
}

impl Core {
    /// `incarnation` tells this worker from those that had its index before and panicked.
    pub(crate) fn new(
        worker: u16,
        incarnation: u32,
        settings: Arc<Settings>,
        now: Now,
        instant: Instant,
        lingering: Lingering,
    ) -> Self {
        Self {
            worker,
            now,
            instant,
            conns: Conns::new(incarnation),
            outputs: Outputs::default(),
            pool: Pool::new(settings.buffer_bytes),
            wheel: Wheel::new(now.monotonic_ms),
            mappings: Mappings::default(),
            external: Vec::new(),
            encoders: Encoders::default(),
            encoding: Vec::new(),
            opening: Vec::new(),
            sealing: Vec::new(),
            content_bytes: 0,
            tails: Tails::new(&settings.listeners, now.unix_seconds),
            heads: HeadStorage::reserved(),
            section: FieldSection::new(),
            turns: Vec::new(),
            control: Vec::new(),
            quic: None,
            nobody: ExchangeState::default(),
            ending: Ending::No,
            shortage_until_ms: None,
            lingering,
            settings,
        }
    }

    /// Makes room for one connection more in all tables that have a place for each. False when
    /// there is no memory for it.
    pub(crate) fn make_room(&mut self) -> bool {
        self.conns
            .make_room()
            .is_some_and(|places| self.outputs.make_room(places) && self.wheel.make_room(places))
    }

    pub(crate) fn address(&mut self, slot: Slot) -> Address {
        let conn = self.conns.get(slot);
        let (generation, exchange) = (conn.generation, conn.exchange_number());
        Address { worker: self.worker, slot, generation, exchange }
    }

    /// The connection's output queue and the pool its chunks come from.
    #[inline]
    pub(crate) fn output(&mut self, slot: Slot) -> (&mut Output, &mut Pool) {
        let conn = self.conns.get(slot);
        (self.outputs.of(&mut conn.link.output), &mut self.pool)
    }

    #[inline]
    pub(crate) fn output_and_tail(&mut self, slot: Slot) -> (&mut Output, &mut Pool, &[u8]) {
        let conn = self.conns.get(slot);
        let tail = self.tails.line(conn.listener);
        (self.outputs.of(&mut conn.link.output), &mut self.pool, tail)
    }

    /// Bytes that wait to be sent, of exchanges that share the connection too.
    #[inline]
    pub(crate) fn queued_bytes(&mut self, slot: Slot) -> u64 {
        let waiting_bytes = match &self.conns.get(slot).protocol {
            Protocol::Many(many) => many.queued_bytes(),
            _ => 0,
        };
        self.framed_bytes(slot) + waiting_bytes
    }

    /// Bytes that wait to be sent on the connection, whatever exchanges have beside.
    #[inline]
    pub(crate) fn framed_bytes(&mut self, slot: Slot) -> u64 {
        let link = &self.conns.get(slot).link;
        let sealed_bytes = link.tls.as_ref().map_or(0, |tls| tls.sealed_bytes());
        self.outputs.bytes(link.output) + sealed_bytes as u64
    }

    /// Bytes of the budget for buffers that a connection holds.
    pub(crate) fn held_bytes(&mut self, slot: Slot) -> usize {
        let Self { conns, outputs, encoders, .. } = self;
        let conn = conns.get(slot);
        let link = &conn.link;
        let output_bytes = outputs.get(link.output).map_or(0, |output| output.held_bytes());
        let sealed_bytes = link.tls.as_ref().map_or(0, |tls| tls.sealed_bytes());
        let protocol_bytes = match &mut conn.protocol {
            Protocol::Http1(Http1::Exchange(open)) => encoders.bytes(open.state.encoder),
            Protocol::Many(many) => many.held_bytes(outputs, encoders),
            _ => 0,
        };
        link.stash.held_bytes() + output_bytes + sealed_bytes + protocol_bytes
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
        let Self { conns, pool, encoders, ending, .. } = self;
        let conn = conns.get(slot);
        let remaining = match remaining {
            _ if conn.link.ended => Remaining::Nothing,
            Remaining::Content if *ending != Ending::No => Remaining::Strays,
            remaining => remaining,
        };
        let linger = Linger::new(remaining, conn.protocol.http2().is_some());
        conn.link.asked_ms = 0;
        let before = std::mem::replace(&mut conn.protocol, Protocol::Linger(linger));
        before.give_back(encoders, pool);
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
        let Self { conns, pool, encoders, lingering, .. } = self;
        let conn = conns.get(slot);
        if conn.lingers() {
            lingering.end();
        }
        std::mem::replace(&mut conn.protocol, Protocol::Closing).give_back(encoders, pool);
    }

    /// Counts what a lingering peer still sends; too much ends the patience. Who asked to close and
    /// sends more nevertheless may not be done with that.
    pub(crate) fn drop_input(&mut self, slot: Slot, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.content_bytes += bytes;
        let conn = self.conns.get(slot);
        let Protocol::Linger(linger) = &mut conn.protocol else { return };
        if linger.remaining == Remaining::Nothing && linger.is_sending && !conn.link.ended {
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
            open.state.stage = Stage::Aborted;
        }
    }

    /// Queues what an application writes on the queue with this index, which is taken up when there
    /// is none yet.
    ///
    /// # Errors
    /// Why that is not possible.
    pub(crate) fn queue(&mut self, index: &mut u32, slice: Slice<'_>) -> Result<(), Gone> {
        let (output, pool) = (self.outputs.of(index), &mut self.pool);
        let queued = match slice {
            Slice::Copied(bytes) => output.append_bytes(pool, bytes),
            Slice::Shared(bytes) => output.push_shared(pool, bytes),
            Slice::File { offset, bytes, .. } if !output.can_count(offset, bytes) => {
                return Err(Gone::Broken);
            }
            Slice::File { file, offset, bytes } => output.push_file(pool, file, offset, bytes),
            Slice::Mapped { mapping, offset, bytes } => {
                return self.queue_mapped(index, mapping, offset, bytes);
            }
        };
        or_overload(queued)
    }

    /// Queues what an application writes on a connection.
    ///
    /// # Errors
    /// Why that is not possible.
    pub(crate) fn queue_on(&mut self, slot: Slot, slice: Slice<'_>) -> Result<(), Gone> {
        let mut index = self.conns.get(slot).link.output;
        let queued = self.queue(&mut index, slice);
        self.conns.get(slot).link.output = index;
        queued
    }

    /// Queues the content of a prepared answer.
    ///
    /// # Errors
    /// Why that is not possible.
    pub(crate) fn queue_body(
        &mut self,
        index: &mut u32,
        body: PreparedBody<'_>,
        mapping: Option<MappingId>,
    ) -> Result<(), Gone> {
        let pieces = match body {
            PreparedBody::None => return Ok(()),
            PreparedBody::Bytes(bytes) => {
                return or_overload(self.outputs.of(index).append_bytes(&mut self.pool, bytes));
            }
            PreparedBody::Archive(pieces) => pieces,
        };
        pieces.iter().try_for_each(|piece| match (*piece, mapping) {
            (Piece::Bytes(bytes), _) => {
                or_overload(self.outputs.of(index).append_bytes(&mut self.pool, bytes))
            }
            (Piece::Archive(range), Some(mapping)) => {
                self.queue_mapped(index, mapping, range.offset, range.bytes)
            }
            (Piece::External(range), Some(mapping)) => {
                let Self { outputs, pool, mappings, .. } = self;
                or_overload(outputs.of(index).push_external(pool, mappings, mapping, range))
            }
            (Piece::Archive(_) | Piece::External(_), None) => {
                debug_assert!(false, "archive ranges need their mapping");
                Err(Gone::Broken)
            }
        })
    }

    /// Queues a range of a mapping: copied while that is cheaper than a slice of its own.
    ///
    /// # Errors
    /// Why that is not possible.
    #[inline]
    fn queue_mapped(
        &mut self,
        index: &mut u32,
        mapping: MappingId,
        offset: u64,
        bytes: u64,
    ) -> Result<(), Gone> {
        let Self { outputs, pool, mappings, .. } = self;
        let output = outputs.of(index);
        let range = mappings.get(mapping).and_then(|held| held.range(offset, bytes));
        let Some(range) = range else { return Err(Gone::Broken) };
        let queued = if bytes > COPY_BODY_MAX_BYTES {
            output.push_mapped(pool, mappings, mapping, offset, bytes)
        } else {
            output.append(pool, range.len(), |out| out.extend_from_slice(range))
        };
        or_overload(queued)
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

/// What has no place in the budget for buffers overloads it.
///
/// # Errors
/// [`Gone::Overload`] when it was not `queued`.
#[inline]
pub(crate) fn or_overload(queued: bool) -> Result<(), Gone> {
    if queued { Ok(()) } else { Err(Gone::Overload) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Protocol, Protocols};
    use pinion_http::limits::Limits;

    #[test]
    fn every_form_of_a_tail_has_the_date_of_its_second() {
        let listener = ListenerSettings {
            fields: b"Server: Pinion\r\n".to_vec(),
            ..ListenerSettings::plain(Protocol::Http(Protocols::ALL))
        };
        let mut tails = Tails::new(&[listener], 784_111_777);
        for (unix_seconds, date) in [
            (784_111_777, b"Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_778, b"Sun, 06 Nov 1994 08:49:38 GMT"),
        ] {
            tails.refresh(unix_seconds);
            let lines = [&b"Date: "[..], date, b"\r\nServer: Pinion\r\n\r\n"].concat();
            assert_eq!(tails.line(0), lines);
            assert_eq!(tails.bare_line(), [&b"Date: "[..], date, b"\r\n\r\n"].concat());
            let (mut section, limits) = (FieldSection::new(), Limits::default());
            let mut hpack = hpack::decoder::Decoder::new(4096);
            hpack.decode(tails.hpack(0), &mut section, &limits).expect("a block");
            assert_eq!(section.fields().get(b"date"), Some(&date[..]));
            // What goes before all fields (RFC 9204 §4.5.1).
            let block = [&[0, 0], tails.qpack(0)].concat();
            qpack::decoder::decode(&block, &mut section, &limits).expect("a section");
            assert_eq!(section.fields().get(b"date"), Some(&date[..]));
        }
    }
}
