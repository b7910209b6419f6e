//! Connections that carry many exchanges at once, over HTTP/2 or HTTP/3: what both do alike. How
//! frames are made is in `http2` and `http3`.

mod stream;
pub(crate) mod streams;

use crate::deadline::Watch;
use crate::encode::Encoders;
use crate::exchange::state::Carrier;
use crate::http2::Http2;
use crate::http3::Http3;
use crate::output::Outputs;
use crate::settings::Settings;
pub(crate) use stream::Stream;

/// What such a connection has beside others.
pub(crate) enum Many {
    Http2(Box<Http2>),
    Http3(Box<Http3>),
}

impl Many {
    /// The stream with this number, if it is open.
    #[inline]
    pub(crate) fn own(&mut self, id: u32) -> Option<&mut Stream> {
        match self {
            Self::Http2(http2) => http2.session.own(id),
            Self::Http3(http3) => http3.streams.get(id).map(|open| &mut open.own),
        }
    }

    /// The stream that carries an exchange, if it is open.
    #[inline]
    pub(crate) fn carried(&mut self, carrier: Carrier) -> Option<&mut Stream> {
        match carrier {
            Carrier::Stream(id) => self.own(id),
            Carrier::Connection => None,
        }
    }

    /// The first open stream of which `find` makes something.
    pub(crate) fn find<R>(
        &mut self,
        mut find: impl FnMut(u32, &mut Stream) -> Option<R>,
    ) -> Option<R> {
        match self {
            Self::Http2(http2) => http2.session.each_own().find_map(|(id, own)| find(id, own)),
            Self::Http3(http3) => {
                http3.streams.numbered().find_map(|(id, open)| find(id, &mut open.own))
            }
        }
    }

    /// The numbers of open streams for which something is so.
    pub(crate) fn all(&mut self, is_so: impl Fn(&Stream) -> bool) -> Vec<u32> {
        let mut ids = Vec::new();
        self.find(|id, own| {
            if is_so(own) {
                ids.push(id);
            }
            None::<()>
        });
        ids
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
            Self::Http3(http3) => http3.held_bytes(),
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
        self.find(|_, own| {
            bytes += outputs.get(own.output).map_or(0, |output| output.held_bytes());
            bytes += own.unread.held_bytes() + own.held.held_bytes();
            bytes += encoders.bytes(own.state.encoder);
            None::<()>
        });
        bytes
    }

    /// Whether the first frames of a head have come, and not the last.
    pub(crate) fn is_within_head(&self) -> bool {
        matches!(self, Self::Http2(http2) if http2.session.is_within_head())
    }

    /// When the first stream is late with what it waits for, in milliseconds.
    pub(crate) fn due_ms(&mut self, settings: &Settings) -> Option<u64> {
        let mut first_ms = None;
        self.find(|_, own| {
            let due_ms = own.due_ms(settings);
            first_ms = first_ms.into_iter().chain(due_ms).min();
            None::<()>
        });
        first_ms
    }

    /// What a deadline has to watch, beside output that does not leave.
    pub(crate) fn wanted_watch(&mut self, nothing_kept: bool) -> Watch {
        if !nothing_kept || self.is_within_head() {
            return Watch::Head;
        }
        let watch = self.watch();
        match self {
            Self::Http2(http2) => http2.watch(watch),
            Self::Http3(http3) => http3.watch(watch),
        }
    }

    /// What the exchanges by themselves ask a deadline to watch.
    fn watch(&mut self) -> Watch {
        if self.open_streams() == 0 {
            return Watch::Idle;
        }
        let waits = |_, own: &mut Stream| own.waits_for_content().then_some(());
        if self.find(waits).is_some() {
            return Watch::Body;
        }
        // What waits, waits for a window.
        if self.queued_bytes() > 0 { Watch::Window } else { Watch::Nothing }
    }
}
