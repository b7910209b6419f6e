//! The actions that an application can take on one HTTP exchange: one half of the contract
//! (docs/ARCHITECTURE.md, "The contract"). They are the same for every version of HTTP. `http1`,
//! `http2` and `http3` carry them out.

mod coded;
mod slice;
mod state;

use std::net::SocketAddr;

use pinion_http::field::Field;
use pinion_http::prepared::Prepared;
use pinion_http::status::never_has_content;

use crate::address::Address;
use crate::app::Gone;
use crate::backend::Slot;
use crate::clock::Now;
use crate::conn::Phase;
use crate::core::Core;
use crate::drain::Ending;
use crate::encode::Operation;
use crate::http1;
use crate::limits::OUTPUT_HIGH_WATER_BYTES;
use crate::many;
use crate::mapping::{MappingId, Mappings};

pub use slice::{Room, Slice};
pub(crate) use state::{ExchangeState, Stage};

/// 205 Reset Content.
const RESET_CONTENT: u16 = 205;

/// One exchange, lent to the application for one event.
pub struct Exchange<'w> {
    pub(crate) core: &'w mut Core,
    pub(crate) slot: Slot,
    /// Which stream of the connection; 0 for the one exchange at a time of HTTP/1.
    pub(crate) stream: u32,
}

impl Exchange<'_> {
    /// Where to post to, from any thread or any event.
    pub fn address(&mut self) -> Address {
        let address = self.core.address(self.slot);
        match self.stream {
            0 => address,
            exchange => Address { exchange, ..address },
        }
    }

    /// The time of this pass.
    pub fn now(&self) -> Now {
        self.core.now
    }

    /// Whether the server has begun to stop. What never ends by itself should not begin then.
    pub fn is_stopping(&self) -> bool {
        self.core.ending != Ending::No
    }

    /// The number of the listener that the client came by, in the order of the kit.
    pub fn listener(&mut self) -> usize {
        self.core.conns.get(self.slot).listener.into()
    }

    /// The client's address; `None` on a Unix socket.
    pub fn peer(&mut self) -> Option<SocketAddr> {
        self.core.conns.get(self.slot).peer
    }

    /// Whether the connection is encrypted.
    pub fn is_secured(&mut self) -> bool {
        let listener = self.core.conns.get(self.slot).listener;
        self.core.settings.listeners[usize::from(listener)].tls.is_some()
    }

    /// Bytes that wait to be sent on the connection, of this answer and those before it.
    pub fn queued_bytes(&mut self) -> u64 {
        self.core.queued_bytes(self.slot)
    }

    /// The mappings this worker holds.
    pub fn mappings(&self) -> &Mappings {
        &self.core.mappings
    }

    /// Answers in full with what is in memory or in an archive. `mapping` is what its archive
    /// ranges and external files refer to. Ignored when a final head went out already. The exchange
    /// is over for the application, whether or not the answer reaches the client.
    #[inline]
    pub fn prepared(&mut self, answer: &Prepared<'_>, mapping: Option<MappingId>) {
        let state = self.state();
        state.open &= !matches!(state.stage, Stage::Open | Stage::Aborted);
        if state.stage != Stage::Open {
            return;
        }
        state.stage = Stage::Done;
        let queued = match self.stream {
            0 => http1::answer::prepared(self.core, self.slot, answer, mapping),
            id => many::prepared(self.core, self.slot, id, answer, mapping),
        };
        if !queued {
            self.give_up(Gone::Overload);
        }
    }

    /// Sends an interim response (1xx), such as 103 Early Hints. Not sent to HTTP/1.0 clients
    /// (RFC 9110 §15.2).
    pub fn interim<'f>(&mut self, status: u16, fields: impl Iterator<Item = Field<'f>> + Clone) {
        debug_assert!((100..200).contains(&status) && status != 101);
        let state = *self.state();
        if state.stage != Stage::Open || state.http10 {
            return;
        }
        let queued = match self.stream {
            0 => http1::answer::interim(self.core, self.slot, status, fields),
            id => many::interim(self.core, self.slot, id, status, fields),
        };
        if !queued {
            self.give_up(Gone::Overload);
        }
    }

    /// Begins a final answer whose content follows by [`Self::write`]. Over HTTP/1 it goes out in
    /// chunks when it has no length, or until close to HTTP/1.0 clients. Content of a status that
    /// has none is dropped.
    pub fn head<'f>(
        &mut self,
        status: u16,
        fields: impl Iterator<Item = Field<'f>> + Clone,
        length: Option<u64>,
    ) {
        let state = self.state();
        if state.stage != Stage::Open {
            return;
        }
        state.stage = Stage::Streaming;
        // RFC 9110 §15.3.6: "the server MUST NOT generate content", and by Content-Length: 0 the
        // client knows.
        let is_reset = status == RESET_CONTENT;
        let length = if is_reset { Some(0) } else { length };
        state.left = length.filter(|_| !is_reset);
        state.head_only |= never_has_content(status) || is_reset;
        let queued = match state.coding {
            None => self.begin(status, fields, length),
            Some(coding) => self.head_in(coding, status, fields, length),
        };
        if !queued {
            self.give_up(Gone::Overload);
        }
    }

    /// Queues a final head as it is.
    fn begin<'f>(
        &mut self,
        status: u16,
        fields: impl Iterator<Item = Field<'f>> + Clone,
        length: Option<u64>,
    ) -> bool {
        match self.stream {
            0 => http1::answer::head(self.core, self.slot, status, fields, length),
            id => many::head(self.core, self.slot, id, status, fields, length),
        }
    }

    /// Sends content. Content beyond the announced length aborts the exchange: a client must never
    /// take a wrong answer for a whole one.
    pub fn write(&mut self, slice: Slice<'_>) -> Room {
        let state = self.state();
        if state.stage != Stage::Streaming {
            return Room::Gone;
        }
        let bytes = slice.bytes();
        let is_sent = bytes > 0 && !state.head_only;
        if let Some(left) = &mut state.left {
            if bytes > *left {
                self.give_up(Gone::Broken);
                return Room::Gone;
            }
            *left -= bytes;
        }
        if !is_sent {
            return self.room();
        }
        let queued = match state.encoder {
            None => self.send(slice),
            Some(_) => self.encode_slice(slice),
        };
        if let Err(why) = queued {
            self.give_up(why);
            return Room::Gone;
        }
        self.room()
    }

    /// Queues content as it is; at least one byte.
    fn send(&mut self, slice: Slice<'_>) -> Result<(), Gone> {
        match self.stream {
            0 => http1::answer::content(self.core, self.slot, slice),
            id => many::content(self.core, self.slot, id, slice),
        }
    }

    /// Completes the answer. One that is shorter than announced is aborted instead. The exchange is
    /// over for the application.
    pub fn end<'f>(&mut self, trailers: impl Iterator<Item = Field<'f>> + Clone) {
        let state = self.state();
        state.open &= !matches!(state.stage, Stage::Streaming | Stage::Aborted);
        if state.stage != Stage::Streaming {
            return;
        }
        if state.left.is_some_and(|left| left > 0) && !state.head_only {
            return self.abort();
        }
        if state.encoder.is_some() {
            let encoded = self.encode(b"", Operation::Finish);
            self.drop_encoder();
            if let Err(why) = encoded {
                return self.give_up(why);
            }
        }
        self.state().stage = Stage::Done;
        let queued = match self.stream {
            0 => http1::answer::end(self.core, self.slot, trailers),
            id => many::end(self.core, self.slot, id, trailers),
        };
        if !queued {
            self.give_up(Gone::Overload);
        }
    }

    /// Gives the exchange up. What went out never looks like a complete answer: the connection is
    /// cut, or the stream reset. The exchange is over for the application.
    pub fn abort(&mut self) {
        let state = self.state();
        state.stage = Stage::Aborted;
        state.open = false;
    }

    /// Whether the request is HEAD, so that its answer goes out without content.
    pub fn is_head_only(&mut self) -> bool {
        self.state().head_only
    }

    /// Whether the content that the request announces is within its limit. Chunked content
    /// announces nothing; it is refused when it comes to more.
    pub fn content_fits(&mut self) -> bool {
        let conn = self.core.conns.get(self.slot);
        match &mut conn.many {
            None => conn.body.fits(),
            Some(many) => many.own(self.stream).is_none_or(|stream| stream.fits()),
        }
    }

    /// Allows the request `bytes` of content, whatever `Settings::limits` say: more for an upload,
    /// less for a form. It does nothing after the first [`Self::want`].
    pub fn body_limit(&mut self, bytes: u64) {
        if self.state().reads {
            return;
        }
        let conn = self.core.conns.get(self.slot);
        match &mut conn.many {
            None => conn.body.set_content_max(bytes),
            Some(many) => {
                if let Some(stream) = many.own(self.stream) {
                    stream.content_max_bytes = bytes;
                }
            }
        }
    }

    /// Takes `bytes` more of the request's content. Nothing of it is read before the first call,
    /// which sends 100 Continue to a client that waits for it; `want(0)` opens it and takes none.
    /// Content that does not fit its limit is refused with 413 now, or when it comes to more.
    pub fn want(&mut self, bytes: u64) {
        let fits = self.content_fits();
        let state = self.state();
        state.reads = true;
        state.wanted = state.wanted.saturating_add(bytes);
        if fits && std::mem::take(&mut state.expects_continue) && state.stage == Stage::Open {
            self.interim(100, std::iter::empty());
        }
        if fits && self.stream > 0 {
            many::request::want(self.core, self.slot, self.stream);
        }
    }

    /// Keeps the exchange open after this event, until `deadline_ms` from now if that is given.
    pub fn wait(&mut self, deadline_ms: Option<u64>) {
        let now = self.core.now.monotonic_ms;
        let state = self.state();
        state.waiting = true;
        state.deadline_ms = deadline_ms.map_or(0, |after| now.saturating_add(after.max(1)));
        if self.stream > 0 {
            many::set_deadline(self.core, self.slot);
        }
    }

    /// Answers 101 with these fields and turns the connection into a byte stream; the application
    /// hears of it by `raw`. Only HTTP/1.1 clients without content can be upgraded.
    pub fn upgrade<'f>(&mut self, fields: impl Iterator<Item = Field<'f>> + Clone) {
        let conn = self.core.conns.get(self.slot);
        let able = conn.exchange.stage == Stage::Open
            && !conn.exchange.http10
            && conn.phase == Phase::Answer
            && self.stream == 0;
        if !able {
            return self.abort();
        }
        conn.exchange.stage = Stage::Upgraded;
        conn.exchange.open = false;
        if !http1::answer::switch(self.core, self.slot, fields) {
            self.give_up(Gone::Overload);
        }
    }

    #[inline]
    fn state(&mut self) -> &mut ExchangeState {
        let Core { conns, nobody, .. } = &mut *self.core;
        let conn = conns.get(self.slot);
        if self.stream == 0 {
            return &mut conn.exchange;
        }
        let own = conn.many.as_mut().and_then(|many| many.own(self.stream));
        match own {
            Some(stream) => &mut stream.state,
            None => {
                *nobody = ExchangeState::default();
                nobody
            }
        }
    }

    fn give_up(&mut self, why: Gone) {
        if self.stream == 0 {
            return self.core.give_up(self.slot, why);
        }
        let state = self.state();
        state.stage = Stage::Aborted;
        state.given_up = Some(why);
    }

    fn room(&mut self) -> Room {
        let is_free = match self.stream {
            0 => self.queued_bytes() < OUTPUT_HIGH_WATER_BYTES,
            id => many::has_room(self.core, self.slot, id),
        };
        if is_free {
            return Room::Free;
        }
        self.state().owes_writable = true;
        Room::Full
    }
}
