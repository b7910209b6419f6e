//! The connections of one worker: a slab whose slots carry a generation, so that a late message or
//! completion never reaches the next tenant.

use std::net::SocketAddr;

use pinion_http::h1::body::BodyReader;
use pinion_http::limits::BODY_DISCARD_MAX_BYTES;
use pinion_http::request::Framing;

use crate::backend::{Backend, Slot};
use crate::deadline::{Deadline, Watch};
use crate::exchange::{ExchangeState, Stage};
use crate::http2::Http2;
use crate::http3::Http3;
use crate::limits::{INPUT_TURN_BYTES, RECORD_BYTES};
use crate::many::Many;
use crate::output::NO_OUTPUT;
use crate::settings::Settings;
use crate::stash::Stash;
use crate::tables::has_places;
use crate::tls::TlsSession;

/// Where a connection is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A handshake of TLS, or nothing yet on a listener that speaks it.
    Handshake,
    /// Nothing has been decided: see `preface.rs`.
    Preface,
    /// Waiting for a request head, or in the middle of one.
    Head,
    /// In the middle of a request body.
    Body,
    /// The request is complete; the application has not answered in full yet.
    Answer,
    /// Frames of HTTP/2: requests and answers of many exchanges.
    Http2,
    /// Datagrams of QUIC, with HTTP/3 in them once its handshake is over.
    Http3,
    /// A byte stream.
    Raw,
    /// Our last answer is out or on its way; what the peer still sends is dropped (RFC 9112 §9.6).
    Linger,
    /// Closed; the kernel still holds memory of it.
    Closing,
}

/// One connection.
pub(crate) struct Conn {
    pub(crate) generation: u64,
    pub(crate) phase: Phase,
    pub(crate) live: bool,
    /// Index of the listener it came from.
    pub(crate) listener: u16,
    /// What is queued is the last: close when it has left.
    pub(crate) close_when_sent: bool,
    /// … after reading on for a while, because the peer may still be sending.
    pub(crate) linger: bool,
    /// The client said it would send no further request.
    pub(crate) client_closes: bool,
    /// The peer has sent its end of stream.
    pub(crate) ended: bool,
    /// Receiving is on. A connection of QUIC has no socket of its own to receive from.
    pub(crate) receiving: bool,
    /// The kernel takes no output at the moment.
    pub(crate) blocked: bool,
    /// … because it had no memory: see `shortage`.
    pub(crate) short: bool,
    /// The kernel works on a send.
    pub(crate) sending: bool,
    /// The application has yet to hear that nothing waits any more. Over TCP that is heard when the
    /// last of it leaves, unless that was dropped.
    pub(crate) owes_sent: bool,
    /// What has to happen, and until when.
    pub(crate) deadline: Deadline,
    /// Exchanges and streams begun on it; from 0 again after 2^32.
    pub(crate) begun: u32,
    /// Index of its output queue.
    pub(crate) output: u32,
    /// How much of `stash` was looked through for the end of a head already.
    pub(crate) scanned: u32,
    /// The backend's progress when the send stall deadline was set; 0 when nobody looked, because
    /// that costs a system call. Over QUIC what there had been of what the deadline watches. The
    /// lower half: what matters is whether it is another one.
    pub(crate) progress: u32,
    /// Bytes of output the kernel has taken.
    pub(crate) sent_bytes: u64,
    /// How much more of what came lately was content than was not, in bytes; see
    /// [`Self::weigh_input`].
    pub(crate) content_balance: i16,
    /// Bytes dropped while lingering, or of a body nobody wants.
    pub(crate) dropped: u32,
    /// Input that cannot be used yet.
    pub(crate) stash: Stash,
    pub(crate) body: BodyReader,
    pub(crate) exchange: ExchangeState,
    pub(crate) peer: Option<SocketAddr>,
    /// What stands between the socket and the protocol, if that is encrypted and has begun.
    pub(crate) tls: Option<Box<TlsSession>>,
    /// Its exchanges, if it carries many.
    pub(crate) many: Option<Many>,
}

impl Conn {
    fn empty(generation: u64) -> Self {
        Self {
            generation,
            phase: Phase::Closing,
            live: false,
            listener: 0,
            close_when_sent: false,
            linger: false,
            client_closes: false,
            ended: false,
            receiving: false,
            blocked: false,
            short: false,
            sending: false,
            owes_sent: false,
            deadline: Deadline::NONE,
            begun: 0,
            output: NO_OUTPUT,
            scanned: 0,
            progress: 0,
            sent_bytes: 0,
            content_balance: 0,
            dropped: 0,
            stash: Stash::default(),
            body: BodyReader::new(Framing::None, 0),
            exchange: ExchangeState::default(),
            peer: None,
            tls: None,
            many: None,
        }
    }
}

impl Conn {
    /// Whether nothing waits on an exchange, for its turn in the connection's queue.
    #[inline]
    pub(crate) fn all_is_queued(&self) -> bool {
        self.many.as_ref().is_none_or(|many| many.queued_bytes() == 0)
    }

    /// What it has beside others, if it speaks HTTP/2.
    #[inline]
    pub(crate) fn http2(&mut self) -> Option<&mut Http2> {
        self.many.as_mut()?.http2()
    }

    /// … or HTTP/3.
    #[inline]
    pub(crate) fn http3(&mut self) -> Option<&mut Http3> {
        self.many.as_mut()?.http3()
    }

    /// Whether what arrives is to be opened as records of TLS. Behind the last answer nobody reads
    /// it: to open it would cost more than to send it did.
    #[inline]
    pub(crate) fn opens_input(&self) -> bool {
        match self.phase {
            Phase::Handshake => true,
            Phase::Linger => false,
            _ => self.tls.is_some(),
        }
    }

    /// What a deadline has to watch now.
    #[inline]
    pub(crate) fn wanted_watch(&mut self) -> Watch {
        match self.phase {
            Phase::Handshake => Watch::Handshake,
            _ if self.blocked || self.sending => Watch::Send,
            Phase::Preface => Watch::Head,
            Phase::Head if !self.stash.is_empty() => Watch::Head,
            Phase::Head => Watch::Idle,
            Phase::Body if self.exchange.stage == Stage::None => Watch::Discard,
            Phase::Body if self.takes_body() => Watch::Body,
            Phase::Http2 => self.many.as_mut().map_or(Watch::Nothing, |many| {
                let is_part = !self.stash.is_empty() || many.is_within_head();
                let watch = if is_part { Watch::Head } else { many.watch() };
                many.http2().map_or(watch, |http2| http2.watch(watch))
            }),
            Phase::Http3 => self.many.as_mut().map_or(Watch::Nothing, |many| {
                let watch = many.watch();
                many.http3().map_or(watch, |http3| http3.watch(watch))
            }),
            Phase::Linger if self.close_when_sent => Watch::Send,
            Phase::Linger => Watch::Linger,
            Phase::Body | Phase::Answer | Phase::Raw | Phase::Closing => Watch::Nothing,
        }
    }

    /// Whether the first frames of a head have come, and not the last.
    #[inline]
    fn is_within_head(&self) -> bool {
        self.many.as_ref().is_some_and(Many::is_within_head)
    }

    /// Whether the body of an open exchange is waited for: its content is wanted, or what comes
    /// next is no content but frames it.
    #[inline]
    pub(crate) fn takes_body(&self) -> bool {
        let ExchangeState { reads, wanted, .. } = self.exchange;
        wanted > 0 || reads && !self.body.is_in_content()
    }

    /// Whether the application wants content that is announced to be over its limit.
    #[inline]
    pub(crate) fn wants_too_much(&self) -> bool {
        self.phase == Phase::Body && self.exchange.reads && !self.body.fits()
    }

    /// Whether the answer that is being given must be the last one, because of request content that
    /// is still to come. Whether an unanswered expectation is followed by its content is the
    /// client's choice, so the bytes that come next could be read two ways (RFC 9110 §10.1.1); and
    /// content over the limit costs more to read than a new connection.
    #[inline]
    pub(crate) fn must_end_behind_content(&self) -> bool {
        self.phase == Phase::Body
            && !self.body.is_at_end()
            && (self.exchange.expects_continue
                || self.body.known_remaining() > BODY_DISCARD_MAX_BYTES)
    }

    /// The number in its address of what was begun last.
    #[inline]
    pub(crate) fn exchange_number(&self) -> u32 {
        self.begun
    }

    /// The kernel takes no output at the moment.
    pub(crate) fn block<B: Backend>(&mut self, backend: &B, slot: Slot) {
        self.blocked = true;
        if self.deadline.watch() != Watch::Send {
            self.progress = backend.progress(slot).unwrap_or(0) as u32;
        }
    }

    /// The kernel has taken `bytes` of output: a send that stalls from now on has its full time.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
        if bytes > 0 {
            self.deadline.is_over(Watch::Send);
        }
    }

    /// What the deadline watched has come from the peer, and what comes next has its full time. A
    /// send that the peer does not take is not excused by what it sends.
    #[inline]
    pub(crate) fn received(&mut self) {
        self.deadline.forget();
        if self.deadline.watch() != Watch::Send {
            self.deadline.pause();
        }
    }

    /// An exchange or a stream begins.
    #[inline]
    pub(crate) fn begins_one(&mut self) {
        self.begun = self.begun.wrapping_add(1);
    }

    /// Has the deadline watch what is to be watched now. Says whether it watched something else.
    #[inline]
    pub(crate) fn begin_watch(&mut self, watch: Watch, now_ms: u64, settings: &Settings) -> bool {
        if self.phase == Phase::Http3 {
            // Streams do not stand in each other's way: half a head puts nothing off.
            self.deadline.forget();
        }
        let is_whole = self.stash.is_empty() && !self.is_within_head();
        if watch == Watch::Send && (is_whole || !self.receiving) {
            // What has become whole meanwhile takes no time from the next; what is not read while
            // this is sent cannot become so.
            self.deadline.is_over(Watch::Head);
        }
        let is_new = self.deadline.begin(watch, now_ms, settings);
        if is_new && let Some(due_ms) = self.stream_due_ms(watch, settings) {
            self.deadline.comes_at(due_ms);
        }
        is_new
    }

    /// When the first stream is late with what `watch` is for, in milliseconds. What comes on
    /// others gives it no more time.
    fn stream_due_ms(&mut self, watch: Watch, settings: &Settings) -> Option<u64> {
        let many = self.many.as_mut()?;
        match (watch, &many) {
            (Watch::Body, _) | (Watch::Head, Many::Http3(_)) => many.due_ms(settings),
            _ => None,
        }
    }

    /// When something has to be done, in milliseconds: its own deadline or that of the application
    /// is over; `u64::MAX` is never.
    #[inline]
    pub(crate) fn next_deadline_ms(&self) -> u64 {
        match self.exchange.deadline_ms {
            0 => self.deadline.at_ms(),
            asked_ms => self.deadline.at_ms().min(asked_ms),
        }
    }

    /// Takes into account that of `bytes` of input so many were content. Says whether what follows
    /// is expected to be content, when that has changed.
    #[inline]
    pub(crate) fn weigh_input(&mut self, bytes: usize, content_bytes: usize) -> Option<bool> {
        // A record of TLS comes in several parts, of which the last brings all of its content.
        const MIN: i64 = -(INPUT_TURN_BYTES as i64);
        const MAX: i64 = 2 * RECORD_BYTES as i64 - 1;
        let before = self.content_balance > 0;
        let more = 2 * content_bytes as i64 - bytes as i64;
        self.content_balance = (i64::from(self.content_balance) + more).clamp(MIN, MAX) as i16;
        let after = self.content_balance > 0;
        (before != after).then_some(after)
    }

    /// Nothing more comes after what is queued. `linger`: the peer may still be sending, so its
    /// bytes are read and dropped for a while; a plain close would reset the connection under the
    /// answer (RFC 9112 §9.6).
    pub(crate) fn end(&mut self, linger: bool) {
        self.phase = Phase::Linger;
        self.close_when_sent = true;
        self.linger = linger && !self.ended;
        // What was dropped of a body has nothing to do with the patience that begins now.
        self.dropped = 0;
        self.exchange = ExchangeState::default();
    }
}

/// All connections of a worker.
pub(crate) struct Conns {
    /// The generation before the first of every slot.
    origin: u64,
    slots: Vec<Conn>,
    free: Vec<Slot>,
    live: usize,
}

impl Conns {
    /// No connections. Those to come have other generations than those of another `incarnation` of
    /// the worker, whose addresses may still be known somewhere.
    pub(crate) fn new(incarnation: u32) -> Self {
        Self { origin: u64::from(incarnation) << 32, slots: Vec::new(), free: Vec::new(), live: 0 }
    }

    /// Makes room for one connection more and says how many places a table needs that has one for
    /// each; `None` when there is no memory for it.
    pub(crate) fn make_room(&mut self) -> Option<usize> {
        let places = if self.free.is_empty() { self.slots.len() + 1 } else { self.slots.len() };
        // A slot must always find its way back.
        (has_places(&mut self.slots, places) && has_places(&mut self.free, places))
            .then_some(places)
    }

    /// A fresh connection in phase `phase`; [`Self::make_room`] has made room for it.
    pub(crate) fn open(&mut self, phase: Phase, listener: u16, peer: Option<SocketAddr>) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Conn::empty(self.origin));
            (self.slots.len() - 1) as Slot
        });
        let conn = &mut self.slots[slot as usize];
        *conn = Conn {
            phase,
            listener,
            peer,
            live: true,
            receiving: phase != Phase::Http3,
            ..Conn::empty(conn.generation + 1)
        };
        self.live += 1;
        slot
    }

    /// Gives a slot back for reuse. Its buffers must have been taken out before.
    pub(crate) fn release(&mut self, slot: Slot) {
        let conn = &mut self.slots[slot as usize];
        assert!(conn.live, "a slot is released once");
        debug_assert!(conn.stash.held_bytes() == 0 && conn.output == NO_OUTPUT);
        conn.live = false;
        self.live -= 1;
        self.free.push(slot);
    }

    /// The connection in a live slot.
    #[inline]
    pub(crate) fn get(&mut self, slot: Slot) -> &mut Conn {
        &mut self.slots[slot as usize]
    }

    /// True while `slot` holds a connection with this generation.
    pub(crate) fn is(&self, slot: Slot, generation: u64) -> bool {
        self.slots.get(slot as usize).is_some_and(|conn| conn.live && conn.generation == generation)
    }

    /// How many connections there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// The first slot in use from `from` on.
    pub(crate) fn next_live(&self, from: Slot) -> Option<Slot> {
        let rest = self.slots.get(from as usize..)?;
        rest.iter().position(|conn| conn.live).map(|at| from + at as Slot)
    }
}

/// Bytes of one slot, used or free, with its place in the list of free ones.
pub(crate) const SLOT_BYTES: usize = size_of::<Conn>() + size_of::<Slot>();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::CHUNK_BYTES;
    use crate::pool::Pool;

    #[test]
    fn content_is_expected_while_most_of_what_comes_is_content() {
        const PIECE: usize = INPUT_TURN_BYTES;
        let mut conn = Conn::empty(0);
        assert_eq!(conn.weigh_input(PIECE, 100), None, "requests");
        // Records in pieces, the last of which brings the content of all.
        let record = [0, 0, 0, 4 * PIECE];
        let expected = record.map(|content| conn.weigh_input(PIECE, content));
        assert_eq!(expected, [None, None, None, Some(true)]);
        for content in record.repeat(3) {
            assert_eq!(conn.weigh_input(PIECE, content), None);
        }
        assert_eq!(conn.weigh_input(CHUNK_BYTES, CHUNK_BYTES / 10), None);
        let small = [(); 2].map(|()| conn.weigh_input(CHUNK_BYTES, CHUNK_BYTES / 10));
        assert!(small.contains(&Some(false)), "{small:?}");
    }

    /// Whenever the peer has sent the rest: it waits with the kernel while what is to be sent does.
    #[test]
    fn half_a_head_takes_no_time_while_nothing_is_read() {
        let (settings, mut pool) = (Settings::default(), Pool::new(1 << 20));
        let patience_ms = settings.head_ms;
        for (receiving, left_ms) in [(true, patience_ms - 30), (false, patience_ms)] {
            let mut conn = Conn { receiving: true, ..Conn::empty(0) };
            assert!(conn.stash.keep(&mut pool, b"half"));
            let begin = |conn: &mut Conn, watch, after_ms| {
                conn.begin_watch(watch, (1 << 40) + after_ms, &settings);
                conn.next_deadline_ms() - (1 << 40) - after_ms
            };
            assert_eq!(begin(&mut conn, Watch::Head, 0), patience_ms);
            conn.receiving = receiving;
            begin(&mut conn, Watch::Send, 10);
            conn.sent(1);
            conn.receiving = true;
            assert_eq!(begin(&mut conn, Watch::Head, 30), left_ms, "receiving: {receiving}");
            std::mem::take(&mut conn.stash).give_back(&mut pool);
        }
    }

    /// Else the application would be asked over and over, each tick of the wheel.
    #[test]
    fn while_nothing_is_watched_only_the_deadline_of_the_application_comes() {
        const ASKED_MS: u64 = 1 << 50;
        let mut conn = Conn::empty(0);
        let begin = |conn: &mut Conn, watch| conn.begin_watch(watch, 1 << 40, &Settings::default());
        conn.exchange.deadline_ms = ASKED_MS;
        begin(&mut conn, Watch::Nothing);
        assert_eq!(conn.next_deadline_ms(), ASKED_MS);
        begin(&mut conn, Watch::Body);
        assert!(conn.next_deadline_ms() < ASKED_MS);
        conn.received();
        assert_eq!(conn.next_deadline_ms(), ASKED_MS, "behind the content");
        begin(&mut conn, Watch::Send);
        conn.sent(1);
        assert_eq!(conn.next_deadline_ms(), ASKED_MS, "behind the answer");
    }
}
