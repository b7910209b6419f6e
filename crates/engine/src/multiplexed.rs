//! Connections that carry many exchanges at once, over HTTP/2 or HTTP/3: what both do alike. How
//! frames are made is in `http2` and `http3`.

mod stream;

use crate::buffers::Buffers;
use crate::deadline::DeadlineWatch;
use crate::encode::Encoders;
use crate::gone::Gone;
use crate::http2::Http2;
use crate::http3::Http3;
use crate::limits::{OPEN_HEADS_MAX_BYTES, UNREAD_MAX_BYTES};
use crate::link::TransportLink;
use crate::output::Outputs;
use crate::pool::Pool;
use crate::settings::WorkerSettings;
use pinion_http::limits::DECODED_HEAD_MAX_BYTES;
use pinion_http::request::RequestHead;
pub(crate) use stream::MultiplexedStream;

/// What such a connection has beside others.
pub(crate) enum Multiplexed {
    Http2(Box<Http2>),
    Http3(Box<Http3>),
}

impl Multiplexed {
    /// The stream with this number, if it is open.
    #[inline]
    pub(crate) fn stream(&mut self, id: u32) -> Option<&mut MultiplexedStream> {
        match self {
            Self::Http2(http2) => http2.session.own(id),
            Self::Http3(http3) => http3.streams.get(id).map(|open| &mut open.own),
        }
    }

    /// The first open stream of which `find` makes something.
    pub(crate) fn find<R>(
        &mut self,
        mut find: impl FnMut(u32, &mut MultiplexedStream) -> Option<R>,
    ) -> Option<R> {
        match self {
            Self::Http2(http2) => http2.session.each_own().find_map(|(id, own)| find(id, own)),
            Self::Http3(http3) => {
                http3.streams.numbered().find_map(|(id, open)| find(id, &mut open.own))
            }
        }
    }

    /// The numbers of open streams for which something is so.
    pub(crate) fn all(&mut self, is_so: impl Fn(&MultiplexedStream) -> bool) -> Vec<u32> {
        let mut ids = Vec::new();
        self.find(|id, stream| {
            if is_so(stream) {
                ids.push(id);
            }
            None::<()>
        });
        ids
    }

    /// Takes any stream that is open away, with its number; `None` when there is none.
    pub(crate) fn pop(&mut self) -> Option<(u32, MultiplexedStream)> {
        match self {
            Self::Http2(http2) => http2.pop(),
            Self::Http3(http3) => http3.streams.pop().map(|(id, open)| (id, open.own)),
        }
    }

    /// Ends a stream whose response cannot be completed; gives back what was kept with it.
    pub(crate) fn reset(
        &mut self,
        id: u32,
        link: &mut TransportLink,
        buffers: &mut Buffers,
    ) -> Option<MultiplexedStream> {
        match self {
            Self::Http2(http2) => http2.reset(id, link, buffers),
            Self::Http3(http3) => http3.reset(id),
        }
    }

    /// Ends a stream whose response is complete and all on its way; later, when it is not.
    pub(crate) fn finish(&mut self, id: u32, link: &mut TransportLink, buffers: &mut Buffers) {
        // Over HTTP/3 it ends when QUIC has taken the last of it.
        if let Self::Http2(http2) = self {
            http2.finish(id, link, buffers);
        }
    }

    /// The application has consumed content of a stream: the client may send more.
    pub(crate) fn consumed(
        &mut self,
        id: u32,
        bytes: usize,
        link: &mut TransportLink,
        buffers: &mut Buffers,
    ) {
        // Over HTTP/3 nothing is read that is not wanted, and reading gives the window back.
        if let Self::Http2(http2) = self {
            http2.consumed(id, bytes, link, buffers);
        }
    }

    /// Says that no further requests are taken; said again, that those on their way are not either.
    pub(crate) fn go_away(
        &mut self,
        is_stopping: bool,
        link: &mut TransportLink,
        buffers: &mut Buffers,
    ) {
        match self {
            Self::Http2(http2) => http2.go_away(link, buffers),
            Self::Http3(http3) => http3.go_away(is_stopping),
        }
    }

    /// Gives back what a stream that was taken away has held; returns how many bytes of its
    /// response waited.
    pub(crate) fn release(&mut self, stream: MultiplexedStream, buffers: &mut Buffers) -> u64 {
        let bytes = release(stream, buffers);
        *self.queued_bytes_mut() -= bytes;
        bytes
    }

    /// Returns whether there is room for a head beside those that handlers of the connection keep.
    #[inline]
    pub(crate) fn has_room_for_head(&mut self, head: &RequestHead<'_>) -> bool {
        const ALWAYS_BYTES: usize = OPEN_HEADS_MAX_BYTES - DECODED_HEAD_MAX_BYTES;
        *self.open_head_bytes_mut() <= ALWAYS_BYTES || self.is_room_left_for_head(head)
    }

    #[cold]
    fn is_room_left_for_head(&mut self, head: &RequestHead<'_>) -> bool {
        self.count_open_heads();
        *self.open_head_bytes_mut() + head.decoded_bytes() <= OPEN_HEADS_MAX_BYTES
    }

    /// Counts the head of a request if its handler has not finished responding within the first
    /// event, so that it keeps the head.
    pub(crate) fn count_head(&mut self, id: u32, head: &RequestHead<'_>) {
        let Some(stream) = self.stream(id).filter(|it| it.state.stage.is_open()) else { return };
        let bytes = head.decoded_bytes();
        stream.head_bytes = bytes as u32;
        *self.open_head_bytes_mut() += bytes;
    }

    /// Counts the heads that are kept. Until then, those of requests that have ended are counted,
    /// too.
    fn count_open_heads(&mut self) {
        let mut bytes = 0;
        self.find(|_, stream| {
            if stream.state.stage.is_open() {
                bytes += stream.head_bytes as usize;
            }
            None::<()>
        });
        *self.open_head_bytes_mut() = bytes;
    }

    fn open_head_bytes_mut(&mut self) -> &mut usize {
        match self {
            Self::Http2(http2) => &mut http2.open_head_bytes,
            Self::Http3(http3) => &mut http3.open_head_bytes,
        }
    }

    /// Keeps content that the application has not wanted yet. False when there is no memory, or no
    /// such stream.
    pub(crate) fn keep(&mut self, id: u32, bytes: &[u8], pool: &mut Pool) -> bool {
        let keep = |stream: &mut MultiplexedStream| {
            stream.unread.keep_up_to(pool, bytes, UNREAD_MAX_BYTES)
        };
        bytes.is_empty() || self.stream(id).is_some_and(keep)
    }

    /// Returns the earliest deadline that the application has asked for on a stream, in
    /// milliseconds; 0 when there is none.
    pub(crate) fn asked_ms(&mut self) -> u64 {
        let mut earliest_ms = u64::MAX;
        self.find(|_, stream| {
            if stream.asked_ms > 0 {
                earliest_ms = earliest_ms.min(stream.asked_ms);
            }
            None::<()>
        });
        if earliest_ms == u64::MAX { 0 } else { earliest_ms }
    }

    /// How many streams are open.
    pub(crate) fn open_streams(&self) -> usize {
        match self {
            Self::Http2(http2) => http2.session.open_streams(),
            Self::Http3(http3) => http3.streams.len(),
        }
    }

    /// Bytes that wait on all streams.
    #[inline]
    pub(crate) fn queued_bytes(&self) -> u64 {
        match self {
            Self::Http2(http2) => http2.queued_bytes,
            Self::Http3(http3) => http3.queued_bytes,
        }
    }

    fn queued_bytes_mut(&mut self) -> &mut u64 {
        match self {
            Self::Http2(http2) => &mut http2.queued_bytes,
            Self::Http3(http3) => &mut http3.queued_bytes,
        }
    }

    /// Bytes beside the streams that are counted against the budget for buffers.
    pub(crate) fn counted_bytes(&self) -> usize {
        match self {
            Self::Http2(http2) => http2.counted_bytes,
            Self::Http3(http3) => http3.counted_bytes,
        }
    }

    /// Whether nothing more comes of its exchanges without the peer's doing, once what is in frames
    /// has left.
    pub(crate) fn waits_for_peer(&self) -> bool {
        self.queued_bytes() > 0 || self.open_streams() == 0
    }

    /// Bytes of the budget for buffers that it holds.
    pub(crate) fn held_bytes(&mut self, outputs: &mut Outputs, encoders: &Encoders) -> usize {
        let mut bytes = self.counted_bytes();
        self.find(|_, stream| {
            bytes += outputs.get(stream.output).map_or(0, |output| output.held_bytes());
            bytes += stream.unread.held_bytes() + stream.held.held_bytes();
            bytes += encoders.bytes(stream.state.encoder);
            None::<()>
        });
        bytes
    }

    /// Whether the first frames of a head have come, and not the last.
    pub(crate) fn is_within_head(&self) -> bool {
        matches!(self, Self::Http2(http2) if http2.session.is_within_head())
    }

    /// When the first stream is late with what it waits for, in milliseconds.
    pub(crate) fn due_ms(&mut self, settings: &WorkerSettings) -> Option<u64> {
        let mut first_ms = None;
        self.find(|_, stream| {
            let due_ms = stream.due_ms(settings);
            first_ms = first_ms.into_iter().chain(due_ms).min();
            None::<()>
        });
        first_ms
    }

    /// What a deadline has to watch, beside output that does not leave.
    pub(crate) fn wanted_watch(&mut self, nothing_kept: bool) -> DeadlineWatch {
        if !nothing_kept || self.is_within_head() {
            return DeadlineWatch::Head;
        }
        let watch = self.watch();
        match self {
            Self::Http2(http2) => http2.watch(watch),
            Self::Http3(http3) => http3.watch(watch),
        }
    }

    /// What the exchanges by themselves ask a deadline to watch.
    fn watch(&mut self) -> DeadlineWatch {
        if self.open_streams() == 0 {
            return DeadlineWatch::Idle;
        }
        let waits = |_, stream: &mut MultiplexedStream| stream.awaits_body().then_some(());
        if self.find(waits).is_some() {
            return DeadlineWatch::Body;
        }
        // What waits, waits for a window.
        let queues = |_, stream: &mut MultiplexedStream| stream.awaits_window().then_some(());
        let is_watched = self.queued_bytes() > 0 && self.find(queues).is_some();
        if is_watched { DeadlineWatch::Window } else { DeadlineWatch::Nothing }
    }
}

/// Gives back what a stream has held; returns how many bytes of its response waited.
pub(crate) fn release(mut stream: MultiplexedStream, buffers: &mut Buffers) -> u64 {
    let Buffers { outputs, pool, mappings, encoders, ended, .. } = buffers;
    encoders.give_back(&mut stream.state.encoder, pool);
    stream.give_back(outputs, pool, mappings, ended)
}

/// Why nothing can be queued on a stream that is not open. Who writes has just seen that it is.
#[cold]
pub(crate) fn no_stream() -> Gone {
    debug_assert!(false, "an exchange that is open has a stream");
    Gone::Peer
}
