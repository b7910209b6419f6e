//! Multiplexed connections, which carry many exchanges at once over HTTP/2 or HTTP/3: the common
//! part of both protocols. Their frames are made in `http2` and `http3`.

mod stream;

use crate::buffer_pool::Pool;
use crate::deadline::DeadlineKind;
use crate::end_reason::Gone;
use crate::http2::Http2;
use crate::http3::Http3;
use crate::limits::{OPEN_HEADS_MAX_BYTES, UNREAD_MAX_BYTES};
use crate::output_queue::Outputs;
use crate::response_compression::Encoders;
use crate::settings::WorkerSettings;
use crate::transport_link::TransportLink;
use crate::worker_buffers::Buffers;
use pinion_http::limits::DECODED_HEAD_MAX_BYTES;
use pinion_http::request_head::RequestHead;
pub(crate) use stream::MultiplexedStream;

/// The state of a multiplexed connection.
pub(crate) enum Multiplexed {
    Http2(Box<Http2>),
    Http3(Box<Http3>),
}

impl Multiplexed {
    /// Returns the stream with this number, if it is open.
    #[inline]
    pub(crate) fn stream(&mut self, id: u32) -> Option<&mut MultiplexedStream> {
        match self {
            Self::Http2(http2) => http2.session.own(id),
            Self::Http3(http3) => http3.streams.get(id).map(|open| &mut open.own),
        }
    }

    /// Returns the first result of `find` for an open stream.
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

    /// Returns the numbers of the open streams for which `is_so` holds.
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

    /// Removes any open stream, and returns it with its number; `None` if there is none.
    pub(crate) fn pop(&mut self) -> Option<(u32, MultiplexedStream)> {
        match self {
            Self::Http2(http2) => http2.pop(),
            Self::Http3(http3) => http3.streams.pop().map(|(id, open)| (id, open.own)),
        }
    }

    /// Resets a stream whose response cannot be completed; returns the state that was kept with it.
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

    /// Ends a stream whose response is complete, as soon as all of it is on its way.
    pub(crate) fn finish(&mut self, id: u32, link: &mut TransportLink, buffers: &mut Buffers) {
        // Over HTTP/3 it ends when QUIC has taken the last of it.
        if let Self::Http2(http2) = self {
            http2.finish(id, link, buffers);
        }
    }

    /// Returns flow-control credit for content that the application has consumed: the client may
    /// send more.
    pub(crate) fn consumed(
        &mut self,
        id: u32,
        bytes: usize,
        link: &mut TransportLink,
        buffers: &mut Buffers,
    ) {
        // Over HTTP/3 only wanted content is read, and reading gives the window back.
        if let Self::Http2(http2) = self {
            http2.consumed(id, bytes, link, buffers);
        }
    }

    /// Announces with GOAWAY that no further requests are accepted; called again, that those on
    /// their way are not accepted either.
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

    /// Gives back the resources of a removed stream; returns how many bytes of its response waited.
    pub(crate) fn release(&mut self, stream: MultiplexedStream, buffers: &mut Buffers) -> u64 {
        let bytes = release(stream, buffers);
        *self.queued_bytes_mut() -= bytes;
        bytes
    }

    /// Returns whether there is room for a head besides those that handlers of the connection keep.
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

    /// Counts the heads that are kept. Until then, those of ended requests are counted too.
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

    /// Keeps content that the application has not wanted yet. Returns false if there is no memory,
    /// or no such stream.
    pub(crate) fn keep(&mut self, id: u32, bytes: &[u8], pool: &mut Pool) -> bool {
        let keep = |stream: &mut MultiplexedStream| {
            stream.unread.keep_up_to(pool, bytes, UNREAD_MAX_BYTES)
        };
        bytes.is_empty() || self.stream(id).is_some_and(keep)
    }

    /// Returns the earliest deadline that the application has set on a stream, in milliseconds; 0
    /// if there is none.
    pub(crate) fn app_deadline_ms(&mut self) -> u64 {
        let mut earliest_ms = u64::MAX;
        self.find(|_, stream| {
            if stream.app_deadline_ms > 0 {
                earliest_ms = earliest_ms.min(stream.app_deadline_ms);
            }
            None::<()>
        });
        if earliest_ms == u64::MAX { 0 } else { earliest_ms }
    }

    /// Returns the number of open streams.
    pub(crate) fn open_streams(&self) -> usize {
        match self {
            Self::Http2(http2) => http2.session.open_streams(),
            Self::Http3(http3) => http3.streams.len(),
        }
    }

    /// Returns the bytes that wait on all streams.
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

    /// Returns the bytes that are counted against the memory budget for buffers, without those of
    /// the streams.
    pub(crate) fn counted_bytes(&self) -> usize {
        match self {
            Self::Http2(http2) => http2.counted_bytes,
            Self::Http3(http3) => http3.counted_bytes,
        }
    }

    /// Returns whether its exchanges make no more output without input of the peer, once the framed
    /// output has left.
    pub(crate) fn waits_for_peer(&self) -> bool {
        self.queued_bytes() > 0 || self.open_streams() == 0
    }

    /// Returns the bytes of the memory budget for buffers that it holds.
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

    /// Returns whether the first frames of a head have arrived, and not the last.
    pub(crate) fn is_within_head(&self) -> bool {
        matches!(self, Self::Http2(http2) if http2.session.is_within_head())
    }

    /// Returns when the first stream is late, in milliseconds.
    pub(crate) fn due_ms(&mut self, settings: &WorkerSettings) -> Option<u64> {
        let mut first_ms = None;
        self.find(|_, stream| {
            let due_ms = stream.due_ms(settings);
            first_ms = first_ms.into_iter().chain(due_ms).min();
            None::<()>
        });
        first_ms
    }

    /// Returns the kind of deadline that the connection needs, besides that of a blocked send.
    pub(crate) fn deadline_kind(&mut self, nothing_kept: bool) -> DeadlineKind {
        if !nothing_kept || self.is_within_head() {
            return DeadlineKind::Head;
        }
        let kind = self.exchange_deadline_kind();
        match self {
            Self::Http2(http2) => http2.deadline_kind(kind),
            Self::Http3(http3) => http3.deadline_kind(kind),
        }
    }

    /// Returns the kind of deadline that the exchanges alone need.
    fn exchange_deadline_kind(&mut self) -> DeadlineKind {
        if self.open_streams() == 0 {
            return DeadlineKind::Idle;
        }
        let waits = |_, stream: &mut MultiplexedStream| stream.awaits_body().then_some(());
        if self.find(waits).is_some() {
            return DeadlineKind::Body;
        }
        // Queued output waits for a window.
        let queues = |_, stream: &mut MultiplexedStream| stream.awaits_window().then_some(());
        let is_watched = self.queued_bytes() > 0 && self.find(queues).is_some();
        if is_watched { DeadlineKind::Window } else { DeadlineKind::Nothing }
    }
}

/// Gives back the resources of a stream; returns how many bytes of its response waited.
pub(crate) fn release(mut stream: MultiplexedStream, buffers: &mut Buffers) -> u64 {
    let Buffers { outputs, pool, mappings, encoders, ended, .. } = buffers;
    encoders.give_back(&mut stream.state.encoder, pool);
    stream.give_back(outputs, pool, mappings, ended)
}

/// Returns the error of queueing on a stream that is not open. The caller has just seen that it is.
#[cold]
pub(crate) fn no_stream() -> Gone {
    debug_assert!(false, "an exchange that is open has a stream");
    Gone::Peer
}
