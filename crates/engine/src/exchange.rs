//! What an application can do with one HTTP exchange: the actions of the contract (design §3).

use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use pinion_http::field::Field;
use pinion_http::h1::encode::{self, BodyLength, ConnectionFields};
use pinion_http::h1::glance::PageForm;
use pinion_http::prepared::{ArchiveRange, Piece, Prepared, PreparedBody};
use pinion_http::status::never_has_content;

use crate::address::Address;
use crate::app::Gone;
use crate::backend::Slot;
use crate::clock::Now;
use crate::conn::Phase;
use crate::core::Core;
use crate::drain::Ending;
use crate::limits::{COPY_BODY_MAX_BYTES, OUTPUT_HIGH_WATER_BYTES};
use crate::mapping::{MappingId, Mappings};

/// Bytes a response head may need beside its variable parts: status line, lengths, dates, the
/// connection's own fields. Checked by a test against the longest head.
pub(crate) const HEAD_FIXED_BYTES: usize = 512;

/// How far an exchange has come. One per connection; HTTP/1 has one exchange at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No exchange is open.
    #[default]
    None,
    /// The request is there, no final head went out.
    Open,
    /// The head went out, content follows.
    Streaming,
    /// The answer is complete.
    Done,
    /// The answer cannot be completed; the connection is to be cut.
    Aborted,
    /// The connection became a byte stream.
    Upgraded,
}

/// What the engine remembers of the exchange of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ExchangeState {
    pub(crate) stage: Stage,
    /// The application has heard of it and not ended it: it is owed `Gone` if nothing else ends it.
    pub(crate) open: bool,
    /// The method was HEAD: content is dropped.
    pub(crate) head_only: bool,
    /// An error page of the engine goes out as plain text, because the client prefers it.
    pub(crate) text_page: bool,
    /// The client speaks HTTP/1.0.
    pub(crate) http10: bool,
    /// The connection may live on after this answer.
    pub(crate) keep_alive: bool,
    /// The client waits for 100 Continue.
    pub(crate) expects_continue: bool,
    /// Why the engine gave it up, if it did.
    pub(crate) given_up: Option<Gone>,
    /// The application asked for events (`wait`).
    pub(crate) waiting: bool,
    /// Content goes out in chunks.
    pub(crate) chunked: bool,
    /// The queue went over its high water; `Writable` is owed.
    pub(crate) owes_writable: bool,
    /// The peer has ended; `End` is owed to the stream behind the bytes that came before.
    pub(crate) owes_end: bool,
    /// Content bytes still to come in a response with a length.
    pub(crate) left: Option<u64>,
    /// The application has called `want`: the request's content is read.
    pub(crate) reads: bool,
    /// Content bytes of the request the application will take.
    pub(crate) wanted: u64,
    /// Deadline of the application, in milliseconds; 0 is none.
    pub(crate) deadline_ms: u64,
}

impl ExchangeState {
    /// What a byte stream begins with; the peer may have `ended` already.
    pub(crate) fn of_stream(ended: bool) -> Self {
        Self { stage: Stage::Open, open: true, owes_end: ended, ..Self::default() }
    }

    /// How the client can read an error page.
    pub(crate) fn page_form(&self) -> PageForm {
        PageForm { head_only: self.head_only, text: self.text_page }
    }
}

/// Content given to [`Exchange::write`] without a copy, or with one. What waits in memory counts
/// against the worker's budget for buffers.
pub enum Slice<'a> {
    /// Copied into pooled buffers.
    Copied(&'a [u8]),
    /// Given away, or shared with whoever else has a handle, such as other exchanges that get the
    /// same. Counted in full for each.
    Shared(Bytes),
    /// A range of a file, read as the client takes it: by `sendfile` where the backend has it, else
    /// in pieces. The worker waits for the disk when the range is not in the page cache. A file
    /// that has become shorter, cannot be read, or is no regular file breaks the exchange
    /// ([`Gone::Broken`]): what went out never looks complete. So does a range no file can have, or
    /// more at once than the longest file (`i64::MAX` bytes).
    File {
        /// The file, open for reading. Its own position is neither used nor moved.
        file: Arc<File>,
        /// From its start, in bytes.
        offset: u64,
        /// Length in bytes.
        bytes: u64,
    },
    /// A range of a mapping that the worker holds.
    Mapped {
        /// Which mapping.
        mapping: MappingId,
        /// From its start, in bytes.
        offset: u64,
        /// Length in bytes.
        bytes: u64,
    },
}

/// Whether more content is welcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// Go on.
    Free,
    /// Enough is queued; stop until `Writable`.
    Full,
    /// The exchange is over; nothing is sent any more.
    Gone,
}

/// One exchange, lent to the application for one event.
pub struct Exchange<'w> {
    pub(crate) core: &'w mut Core,
    pub(crate) slot: Slot,
}

impl Exchange<'_> {
    /// Where other threads may post to.
    pub fn address(&mut self) -> Address {
        self.core.address(self.slot)
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
    pub fn prepared(&mut self, answer: &Prepared<'_>, mapping: Option<MappingId>) {
        let conn = self.core.conns.get(self.slot);
        conn.exchange.open &= !matches!(conn.exchange.stage, Stage::Open | Stage::Aborted);
        if conn.exchange.stage != Stage::Open {
            return;
        }
        conn.exchange.stage = Stage::Done;
        let head_only = conn.exchange.head_only;
        let connection = self.connection_fields();
        let queued = match (answer.body, mapping) {
            (_, _) if head_only => self.prepared_head(answer, connection, None),
            (PreparedBody::Archive([Piece::Archive(range)]), Some(mapping))
                if range.bytes <= COPY_BODY_MAX_BYTES =>
            {
                self.prepared_head(answer, connection, Some((mapping, *range)))
            }
            _ => {
                self.prepared_head(answer, connection, None) && self.prepared_body(answer, mapping)
            }
        };
        if !queued {
            self.core.overloaded(self.slot);
        }
    }

    /// Sends an interim response (1xx), such as 103 Early Hints. Not sent to HTTP/1.0 clients
    /// (RFC 9110 §15.2).
    pub fn interim<'f>(&mut self, status: u16, fields: impl Iterator<Item = Field<'f>> + Clone) {
        debug_assert!((100..200).contains(&status) && status != 101);
        let state = self.core.conns.get(self.slot).exchange;
        if state.stage != Stage::Open || state.http10 {
            return;
        }
        let room = HEAD_FIXED_BYTES + fields_bytes(fields.clone());
        if !self.append(room, |out| encode::interim(out, status, fields)) {
            self.core.overloaded(self.slot);
        }
    }

    /// Begins a final answer whose content follows by [`Self::write`]. Without a length it goes out
    /// in chunks, or until close to HTTP/1.0 clients.
    pub fn head<'f>(
        &mut self,
        status: u16,
        fields: impl Iterator<Item = Field<'f>> + Clone,
        length: Option<u64>,
    ) {
        let state = &mut self.core.conns.get(self.slot).exchange;
        if state.stage != Stage::Open {
            return;
        }
        state.stage = Stage::Streaming;
        state.left = length;
        let bodiless = never_has_content(status);
        state.chunked = length.is_none() && !state.http10 && !bodiless;
        state.head_only |= bodiless;
        if length.is_none() && state.http10 {
            state.keep_alive = false;
        }
        let body = match length {
            _ if bodiless => BodyLength::None,
            Some(bytes) => BodyLength::Length(bytes),
            None if state.chunked => BodyLength::Chunked,
            None => BodyLength::UntilClose,
        };
        let connection = self.connection_fields();
        let (output, pool, tail) = self.core.output_and_tail(self.slot);
        let room = HEAD_FIXED_BYTES + fields_bytes(fields.clone()) + tail.len();
        let wrote = output.append(pool, room, |out| {
            encode::head(out, status, fields, body, connection, tail);
        });
        if !wrote {
            self.core.overloaded(self.slot);
        }
    }

    /// Sends content. Content beyond the announced length aborts the exchange: a client must never
    /// take a wrong answer for a whole one.
    pub fn write(&mut self, slice: Slice<'_>) -> Room {
        let state = &mut self.core.conns.get(self.slot).exchange;
        if state.stage != Stage::Streaming {
            return Room::Gone;
        }
        let bytes = slice_bytes(&slice);
        if let Some(left) = &mut state.left {
            if bytes > *left {
                self.core.give_up(self.slot, Gone::Broken);
                return Room::Gone;
            }
            *left -= bytes;
        }
        if bytes > 0
            && !state.head_only
            && let Err(why) = self.write_framed(slice, bytes)
        {
            self.core.give_up(self.slot, why);
            return Room::Gone;
        }
        self.room()
    }

    /// Completes the answer. One that is shorter than announced is aborted instead. The exchange is
    /// over for the application.
    pub fn end<'f>(&mut self, trailers: impl Iterator<Item = Field<'f>> + Clone) {
        let state = &mut self.core.conns.get(self.slot).exchange;
        state.open &= !matches!(state.stage, Stage::Streaming | Stage::Aborted);
        if state.stage != Stage::Streaming {
            return;
        }
        if state.left.is_some_and(|left| left > 0) && !state.head_only {
            return self.abort();
        }
        state.stage = Stage::Done;
        if state.chunked && !state.head_only {
            let room = HEAD_FIXED_BYTES + fields_bytes(trailers.clone());
            if !self.append(room, |out| encode::last_chunk(out, trailers)) {
                self.core.overloaded(self.slot);
            }
        }
    }

    /// Gives the exchange up. What went out never looks like a complete answer: the connection is
    /// cut. The exchange is over for the application.
    pub fn abort(&mut self) {
        let state = &mut self.core.conns.get(self.slot).exchange;
        state.stage = Stage::Aborted;
        state.open = false;
    }

    /// Whether the content that the request announces is within its limit. Chunked content
    /// announces nothing; it is refused when it comes to more.
    pub fn content_fits(&mut self) -> bool {
        self.core.conns.get(self.slot).body.fits()
    }

    /// Allows the request `bytes` of content, whatever `Settings::limits` say: more for an upload,
    /// less for a form. It does nothing after the first [`Self::want`].
    pub fn body_limit(&mut self, bytes: u64) {
        let conn = self.core.conns.get(self.slot);
        if !conn.exchange.reads {
            conn.body.set_content_max(bytes);
        }
    }

    /// Takes `bytes` more of the request's content. Nothing of it is read before the first call,
    /// which sends 100 Continue to a client that waits for it; `want(0)` opens it and takes none.
    /// Content that does not fit its limit is refused with 413 now, or when it comes to more.
    pub fn want(&mut self, bytes: u64) {
        let conn = self.core.conns.get(self.slot);
        let fits = conn.body.fits();
        let state = &mut conn.exchange;
        state.reads = true;
        state.wanted = state.wanted.saturating_add(bytes);
        if fits && std::mem::take(&mut state.expects_continue) && state.stage == Stage::Open {
            self.interim(100, std::iter::empty());
        }
    }

    /// Keeps the exchange open after this event, until `deadline_ms` from now if that is given.
    pub fn wait(&mut self, deadline_ms: Option<u64>) {
        let now = self.core.now.monotonic_ms;
        let state = &mut self.core.conns.get(self.slot).exchange;
        state.waiting = true;
        state.deadline_ms = deadline_ms.map_or(0, |after| now.saturating_add(after.max(1)));
    }

    /// Answers 101 with these fields and turns the connection into a byte stream; the application
    /// hears of it by `raw`. Only HTTP/1.1 clients without content can be upgraded.
    pub fn upgrade<'f>(&mut self, fields: impl Iterator<Item = Field<'f>> + Clone) {
        let conn = self.core.conns.get(self.slot);
        let able = conn.exchange.stage == Stage::Open
            && !conn.exchange.http10
            && conn.phase == Phase::Answer;
        if !able {
            return self.abort();
        }
        conn.exchange.stage = Stage::Upgraded;
        conn.exchange.open = false;
        let room = HEAD_FIXED_BYTES + fields_bytes(fields.clone());
        if !self.append(room, |out| encode::interim(out, 101, fields)) {
            self.core.overloaded(self.slot);
        }
    }

    #[inline]
    fn append(&mut self, room: usize, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let (output, pool) = self.core.output(self.slot);
        output.append(pool, room, write)
    }

    /// What the head says about the connection (RFC 9112 §9.3).
    #[inline]
    fn connection_fields(&mut self) -> ConnectionFields {
        let conn = self.core.conns.get(self.slot);
        let state = conn.exchange;
        if !state.keep_alive || conn.must_end_behind_content() {
            return ConnectionFields::Close;
        }
        if !state.http10 {
            return ConnectionFields::Stay;
        }
        let settings = &self.core.settings;
        let left = |max: u32| u64::from(max).saturating_sub(conn.begun) as u32;
        let max_requests = settings.requests_per_connection.map(left);
        ConnectionFields::KeepAlive {
            timeout_seconds: (settings.idle_ms / 1000) as u32,
            max_requests,
        }
    }

    /// Queues the head and, in the same go, the `content` that is copied behind it.
    #[inline]
    fn prepared_head(
        &mut self,
        answer: &Prepared<'_>,
        connection: ConnectionFields,
        content: Option<(MappingId, ArchiveRange)>,
    ) -> bool {
        let Core { conns, outputs, pool, mappings, tails, .. } = &mut *self.core;
        let conn = conns.get(self.slot);
        let tail = tails.line(conn.listener);
        let content = match content {
            None => Some(&b""[..]),
            Some((mapping, range)) => {
                mappings.get(mapping).and_then(|held| held.range(range.offset, range.bytes))
            }
        };
        let Some(content) = content else { return false };
        let room = HEAD_FIXED_BYTES + encode::prepared_bytes(answer) + tail.len() + content.len();
        outputs.of(&mut conn.output).append(pool, room, |out| {
            encode::prepared(out, answer, connection, tail);
            out.extend_from_slice(content);
        })
    }

    fn prepared_body(&mut self, answer: &Prepared<'_>, mapping: Option<MappingId>) -> bool {
        let pieces = match answer.body {
            PreparedBody::None => return true,
            PreparedBody::Bytes(bytes) => {
                let (output, pool) = self.core.output(self.slot);
                return output.append_bytes(pool, bytes);
            }
            PreparedBody::Archive(pieces) => pieces,
        };
        pieces.iter().all(|piece| match (*piece, mapping) {
            (Piece::Bytes(bytes), _) => {
                let (output, pool) = self.core.output(self.slot);
                output.append_bytes(pool, bytes)
            }
            (Piece::Archive(range), Some(mapping)) => {
                self.core.queue_mapped(self.slot, mapping, range.offset, range.bytes).is_ok()
            }
            (Piece::External(range), Some(mapping)) => {
                let (output, pool, mappings) = self.core.output_and_mappings(self.slot);
                output.push_external(pool, mappings, mapping, range)
            }
            (Piece::Archive(_) | Piece::External(_), None) => {
                debug_assert!(false, "archive ranges need their mapping");
                false
            }
        })
    }

    fn write_framed(&mut self, slice: Slice<'_>, bytes: u64) -> Result<(), Gone> {
        if !self.core.conns.get(self.slot).exchange.chunked {
            return self.core.queue(self.slot, slice);
        }
        if !self.append(32, |out| encode::chunk_prefix(out, bytes)) {
            return Err(Gone::Overload);
        }
        self.core.queue(self.slot, slice)?;
        let ended = self.append(2, |out| out.extend_from_slice(encode::CHUNK_END));
        if ended { Ok(()) } else { Err(Gone::Overload) }
    }

    fn room(&mut self) -> Room {
        if self.core.queued_bytes(self.slot) < OUTPUT_HIGH_WATER_BYTES {
            return Room::Free;
        }
        self.core.conns.get(self.slot).exchange.owes_writable = true;
        Room::Full
    }
}

fn fields_bytes<'f>(fields: impl Iterator<Item = Field<'f>>) -> usize {
    fields.map(|field| field.name.len() + field.value.len() + 4).sum()
}

fn slice_bytes(slice: &Slice<'_>) -> u64 {
    match slice {
        Slice::Copied(bytes) => bytes.len() as u64,
        Slice::Shared(bytes) => bytes.len() as u64,
        Slice::Mapped { bytes, .. } | Slice::File { bytes, .. } => *bytes,
    }
}
