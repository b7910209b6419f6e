//! The connections of one worker: a slab whose slots carry a generation, so that a late message or
//! completion never reaches the next tenant.

use std::net::SocketAddr;

use pinion_http::h1::body::BodyReader;
use pinion_http::limits::BODY_DISCARD_MAX_BYTES;
use pinion_http::request::Framing;

use crate::backend::{Backend, Slot};
use crate::exchange::{ExchangeState, Stage};
use crate::http2::Http2;
use crate::http3::Http3;
use crate::limits::{
    BODY_STALL_MS, HANDSHAKE_TIMEOUT_MS, INPUT_TURN_BYTES, LINGER_MS, QUIC_LAST_MS, QUIC_PING_MS,
    RECORD_BYTES, SEND_STALL_MS, WINDOW_STALL_MS,
};
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

/// What the deadline of a connection watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Nothing; the application's own deadline may be set all the same.
    Nothing,
    /// A handshake of TLS that must come to its end.
    Handshake,
    /// A connection between requests.
    Idle,
    /// A head that must arrive whole.
    Head,
    /// A body somebody waits for: each part of it.
    Body,
    /// A body nobody wants: all of it.
    Discard,
    /// A send the peer does not take.
    Send,
    /// Content that the peer has no window for (RFC 9113 §6.9).
    Window,
    /// The last answer of a connection of QUIC, whose client has to acknowledge it.
    Last,
    /// An exchange on which nothing comes or goes: QUIC has to be kept alive (RFC 9000 §10.1.2).
    Quiet,
    /// What the peer still sends after our last answer.
    Linger,
}

impl Watch {
    /// How long what is watched may take, in milliseconds; `u64::MAX` is for ever.
    #[inline]
    pub(crate) fn patience_ms(self, settings: &Settings) -> u64 {
        match self {
            Watch::Nothing => u64::MAX,
            Watch::Handshake => HANDSHAKE_TIMEOUT_MS,
            Watch::Idle => settings.idle_ms,
            Watch::Head => settings.head_ms,
            Watch::Body | Watch::Discard => BODY_STALL_MS,
            Watch::Send => SEND_STALL_MS,
            Watch::Window => WINDOW_STALL_MS,
            Watch::Last => QUIC_LAST_MS,
            Watch::Quiet => QUIC_PING_MS,
            Watch::Linger => LINGER_MS,
        }
    }

    /// Whether it watches what the connection does beside all else. When that is over, what was
    /// watched before goes on, unless what it waited for has come.
    #[inline]
    fn puts_off(self) -> bool {
        matches!(self, Watch::Send | Watch::Head)
    }
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
    /// What the deadline watches.
    pub(crate) watch: Watch,
    /// When what `watch` names is over, in milliseconds; `u64::MAX` is never.
    pub(crate) deadline_ms: u64,
    /// What it watched before something that has nothing to do with what the peer should do, such
    /// as half a PING or the answer to one: that gives no more time for it.
    put_off: Watch,
    /// … and the lower half of its deadline, which is less than 24 days away.
    put_off_until: u32,
    /// Exchanges and streams begun on it; from 0 again after 2^32.
    pub(crate) begun: u32,
    /// Index of its output queue.
    pub(crate) output: u32,
    /// How much of `stash` was looked through for the end of a head already.
    pub(crate) scanned: u32,
    /// The backend's progress when the send stall deadline was set; 0 when nobody looked, because
    /// that costs a system call. Over QUIC what there had been of what the deadline watches.
    pub(crate) progress: u64,
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
            watch: Watch::Nothing,
            deadline_ms: u64::MAX,
            put_off: Watch::Nothing,
            put_off_until: 0,
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
                if is_part { Watch::Head } else { many.watch() }
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
        if self.watch != Watch::Send {
            self.progress = backend.progress(slot).unwrap_or(0);
        }
    }

    /// The kernel has taken `bytes` of output: a send that stalls from now on has its full time.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
        if bytes > 0 && self.watch == Watch::Send {
            self.watch_nothing();
        }
    }

    /// What the deadline watched has come from the peer, and what comes next has its full time. A
    /// send that the peer does not take is not excused by what it sends.
    #[inline]
    pub(crate) fn received(&mut self) {
        self.put_off = Watch::Nothing;
        if self.watch != Watch::Send {
            self.watch_nothing();
        }
    }

    /// An exchange or a stream begins.
    #[inline]
    pub(crate) fn begins_one(&mut self) {
        self.begun = self.begun.wrapping_add(1);
    }

    /// Content has had room in a window of the peer's.
    #[inline]
    pub(crate) fn found_window(&mut self) {
        if self.watch == Watch::Window {
            self.watch_nothing();
        }
        if self.put_off == Watch::Window {
            self.put_off = Watch::Nothing;
        }
    }

    /// Has the deadline watch this, from now on; what was put off for a while goes on. Says whether
    /// it watched something else.
    #[inline]
    pub(crate) fn begin_watch(&mut self, watch: Watch, now_ms: u64, settings: &Settings) -> bool {
        if watch == Watch::Nothing {
            self.put_off = Watch::Nothing;
        }
        if watch == self.watch {
            return false;
        }
        let before = std::mem::replace(&mut self.watch, watch);
        let deadline_ms = now_ms.saturating_add(watch.patience_ms(settings));
        let before_ms = std::mem::replace(&mut self.deadline_ms, deadline_ms);
        if !watch.puts_off() {
            let put_off = std::mem::replace(&mut self.put_off, Watch::Nothing);
            if watch == put_off {
                let left_ms = self.put_off_until.wrapping_sub(now_ms as u32) as i32;
                self.deadline_ms = now_ms.saturating_add_signed(left_ms.into());
            }
        } else if !before.puts_off() && before_ms.saturating_sub(now_ms) <= i32::MAX as u64 {
            self.put_off = before;
            self.put_off_until = before_ms as u32;
        }
        true
    }

    /// Has the deadline watch nothing, until it is known what is next; returns what it watched.
    #[inline]
    pub(crate) fn watch_nothing(&mut self) -> Watch {
        self.deadline_ms = u64::MAX;
        std::mem::replace(&mut self.watch, Watch::Nothing)
    }

    /// When something has to be done, in milliseconds: its own deadline or that of the application
    /// is over; `u64::MAX` is never.
    #[inline]
    pub(crate) fn next_deadline_ms(&self) -> u64 {
        match self.exchange.deadline_ms {
            0 => self.deadline_ms,
            asked_ms => self.deadline_ms.min(asked_ms),
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

    /// A connection whose deadlines begin at any time, even when 32 bits of milliseconds are over.
    fn at_any_time(test: impl Fn(&mut Conn, &dyn Fn(&mut Conn, Watch, u64) -> u64)) {
        let settings = Settings::default();
        for now_ms in [0, u64::from(u32::MAX) - 10, 1 << 40] {
            let begin = |conn: &mut Conn, watch, after_ms| {
                conn.begin_watch(watch, now_ms + after_ms, &settings);
                conn.deadline_ms.saturating_sub(now_ms)
            };
            test(&mut Conn::empty(0), &begin);
        }
    }

    /// Else a PING now and then, whose answer is sent, would put off each end; so would half of
    /// one.
    #[test]
    fn what_the_connection_is_busy_with_gives_no_more_time_for_what_the_peer_should_do() {
        let Settings { idle_ms, head_ms, .. } = Settings::default();
        at_any_time(|conn, begin| {
            assert_eq!(begin(conn, Watch::Idle, 0), idle_ms);
            assert_eq!(begin(conn, Watch::Send, 5), 5 + SEND_STALL_MS);
            assert_eq!(begin(conn, Watch::Idle, 20), idle_ms);
            assert_eq!(begin(conn, Watch::Head, 30), 30 + head_ms);
            assert_eq!(begin(conn, Watch::Idle, 40), idle_ms);
            // One behind the other, and some of it has left.
            begin(conn, Watch::Send, 50);
            begin(conn, Watch::Head, 60);
            begin(conn, Watch::Send, 70);
            conn.sent(1);
            begin(conn, Watch::Send, 80);
            conn.sent(1);
            assert_eq!(begin(conn, Watch::Idle, 90), idle_ms);
            begin(conn, Watch::Send, 100);
            assert_eq!(begin(conn, Watch::Body, 110), 110 + BODY_STALL_MS, "another");
        });
    }

    #[test]
    fn what_has_come_gives_new_time_for_the_next() {
        let Settings { idle_ms, head_ms, .. } = Settings::default();
        at_any_time(|conn, begin| {
            for between in [Watch::Send, Watch::Head] {
                begin(conn, Watch::Idle, 0);
                begin(conn, between, 10);
                conn.received();
                assert_eq!(begin(conn, Watch::Idle, 20), 20 + idle_ms);
                begin(conn, Watch::Window, 30);
                begin(conn, between, 40);
                conn.found_window();
                assert_eq!(begin(conn, Watch::Window, 50), 50 + WINDOW_STALL_MS);
                begin(conn, Watch::Idle, 60);
                begin(conn, between, 70);
                begin(conn, Watch::Nothing, 80);
                assert_eq!(begin(conn, Watch::Idle, 90), 90 + idle_ms, "there was a request");
            }
            begin(conn, Watch::Send, 100);
            conn.received();
            assert_eq!(begin(conn, Watch::Head, 110), 110 + head_ms);
        });
    }

    /// Else the application would be asked over and over, each tick of the wheel.
    #[test]
    fn while_nothing_is_watched_only_the_deadline_of_the_application_comes() {
        const ASKED_MS: u64 = 1 << 50;
        at_any_time(|conn, begin| {
            conn.exchange.deadline_ms = ASKED_MS;
            begin(conn, Watch::Nothing, 0);
            assert_eq!(conn.next_deadline_ms(), ASKED_MS);
            begin(conn, Watch::Body, 0);
            assert!(conn.next_deadline_ms() < ASKED_MS);
            conn.received();
            assert_eq!(conn.next_deadline_ms(), ASKED_MS, "behind the content");
            begin(conn, Watch::Send, 10);
            conn.sent(1);
            assert_eq!(conn.next_deadline_ms(), ASKED_MS, "behind the answer");
        });
    }
}
