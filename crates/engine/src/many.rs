//! Connections that carry many exchanges at once, over HTTP/2 or HTTP/3: what both do alike. How
//! frames are made is in `http2` and `http3`.

pub(crate) mod request;
mod stream;

use crate::address::Address;
use crate::app::{App, Event};
use crate::backend::Slot;
use crate::conn::Conn;
use crate::core::Core;
use crate::deadline::Watch;
use crate::encode::Encoders;
use crate::exchange::{Carrier, Exchange};
use crate::gone::Gone;
use crate::http2::{self, Http2};
use crate::http3::{self, Http3};
use crate::limits::{STREAM_HIGH_WATER_BYTES, STREAM_LOW_WATER_BYTES};
use crate::notice::Notice;
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
    fn find<R>(&mut self, mut find: impl FnMut(u32, &mut Stream) -> Option<R>) -> Option<R> {
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

/// The stream with this number, if it is open.
#[inline]
pub(crate) fn own(core: &mut Core, slot: Slot, id: u32) -> Option<&mut Stream> {
    core.conns.get(slot).protocol.many()?.own(id)
}

/// Ends a stream whose answer cannot be completed; gives back what was kept with it.
fn reset(core: &mut Core, slot: Slot, id: u32) -> Option<Stream> {
    match core.conns.get(slot).protocol.many()? {
        Many::Http2(_) => http2::reset(core, slot, id),
        Many::Http3(http3) => http3.reset(id),
    }
}

/// Ends a stream whose answer is complete and all on its way; later, when it is not.
fn finish(core: &mut Core, slot: Slot, id: u32) {
    if core.conns.get(slot).http2().is_some() {
        http2::pump::finish(core, slot, id);
    }
}

/// Says that no further requests are taken; said again, that those on their way are not either.
pub(crate) fn leave(core: &mut Core, slot: Slot) {
    match core.conns.get(slot).protocol.many() {
        Some(Many::Http2(_)) => http2::leave(core, slot),
        Some(Many::Http3(_)) => http3::leave(core, slot),
        None => {}
    }
}

/// Gives back what a stream that is no more has held, and says how many bytes of its answer waited.
pub(crate) fn release(core: &mut Core, slot: Slot, mut stream: Stream) -> u64 {
    let unread_bytes = stream.unread.len();
    let Core { conns, outputs, pool, mappings, encoders, .. } = core;
    encoders.give_back(&mut stream.state.encoder, pool);
    let bytes = stream.give_back(outputs, pool, mappings);
    if let Some(many) = conns.get(slot).protocol.many() {
        *many.queued_bytes_mut() -= bytes;
    }
    request::consumed(core, slot, unread_bytes);
    bytes
}

/// A stream has gone under its exchange.
pub(crate) fn lose<A: App>(
    app: &mut A,
    core: &mut Core,
    slot: Slot,
    (id, stream): (u32, Stream),
    why: Gone,
) {
    let is_open = stream.state.open;
    let dropped_bytes = release(core, slot, stream);
    if dropped_bytes > 0 {
        core.conns.get(slot).link.owes_sent = true;
        app.dropped(Address { exchange: id, ..core.address(slot) }, dropped_bytes);
    }
    if is_open {
        app.exchange(Event::Gone(why), &mut Exchange { core, slot, carrier: Carrier::Stream(id) });
    }
}

/// Ends all exchanges, because the connection does.
pub(crate) fn abandon<A: App>(app: &mut A, core: &mut Core, slot: Slot, why: Gone) {
    loop {
        let gone = match core.conns.get(slot).protocol.many() {
            Some(Many::Http2(http2)) => http2.pop(),
            Some(Many::Http3(http3)) => http3.streams.pop().map(|(id, open)| (id, open.own)),
            None => None,
        };
        let Some(gone) = gone else { return };
        lose(app, core, slot, gone, why);
    }
}

/// Tells the application of one exchange.
pub(crate) fn notify<A: App>(app: &mut A, core: &mut Core, slot: Slot, id: u32, notice: Notice) {
    if !own(core, slot, id).is_some_and(|stream| stream.state.open) {
        return;
    }
    app.exchange(notice.for_exchange(), &mut Exchange { core, slot, carrier: Carrier::Stream(id) });
    request::after_event(app, core, slot, id);
}

/// Tells the application of exchanges that have something coming. `take` finds out what that is,
/// with the bytes that wait on the stream, and takes it away. True when there was any.
pub(crate) fn notify_each<A: App>(
    app: &mut A,
    core: &mut Core,
    slot: Slot,
    take: impl Fn(&mut Stream, u64) -> Option<Notice>,
) -> bool {
    let mut told = false;
    loop {
        let Core { conns, outputs, .. } = &mut *core;
        let Some(many) = conns.get(slot).protocol.many() else { return told };
        let next = many.find(|id, stream| {
            let queued_bytes = outputs.bytes(stream.output);
            take(stream, queued_bytes).map(|notice| (id, notice))
        });
        let Some((id, notice)) = next else { return told };
        told = true;
        notify(app, core, slot, id, notice);
    }
}

/// Tells the application that there is room again on streams that had none.
pub(crate) fn tell_writable<A: App>(app: &mut A, core: &mut Core, slot: Slot) -> bool {
    notify_each(app, core, slot, |stream, queued_bytes| {
        let is_due = stream.state.owes_writable && queued_bytes <= STREAM_LOW_WATER_BYTES;
        stream.state.owes_writable &= !is_due;
        is_due.then_some(Notice::Writable)
    })
}

/// Tells the application of exchanges whose deadline has passed. False when it has
/// but one at a time.
pub(crate) fn deadline<A: App>(app: &mut A, core: &mut Core, slot: Slot) -> bool {
    if core.conns.get(slot).protocol.many().is_none() {
        return false;
    }
    let now_ms = core.now.monotonic_ms;
    notify_each(app, core, slot, |stream, _| {
        let is_due = stream.asked_ms > 0 && stream.asked_ms <= now_ms;
        if is_due {
            stream.asked_ms = 0;
        }
        is_due.then_some(Notice::Deadline)
    });
    wake_at_earliest(core, slot);
    true
}

/// Tells the application of every open exchange that the server stops.
pub(crate) fn tell_stopping<A: App>(app: &mut A, core: &mut Core, slot: Slot) {
    let Some(many) = core.conns.get(slot).protocol.many() else { return };
    for id in many.all(|_| true) {
        notify(app, core, slot, id, Notice::Stopping);
    }
}

/// Sets the deadline that the application has asked for on a stream, in milliseconds; 0 is none.
pub(crate) fn set_deadline(core: &mut Core, slot: Slot, id: u32, at_ms: u64) {
    if let Some(stream) = own(core, slot, id) {
        stream.asked_ms = at_ms;
    }
    wake_at_earliest(core, slot);
}

/// Has the connection wake up at the earliest deadline that an exchange has asked for.
fn wake_at_earliest(core: &mut Core, slot: Slot) {
    let Conn { link, protocol, .. } = core.conns.get(slot);
    let Some(many) = protocol.many() else { return };
    let mut earliest_ms = u64::MAX;
    many.find(|_, stream| {
        if stream.asked_ms > 0 {
            earliest_ms = earliest_ms.min(stream.asked_ms);
        }
        None::<()>
    });
    link.asked_ms = if earliest_ms == u64::MAX { 0 } else { earliest_ms };
}

/// Whether more content is welcome on a stream.
pub(crate) fn has_room(core: &mut Core, slot: Slot, id: u32) -> bool {
    let Core { conns, outputs, .. } = core;
    let stream = conns.get(slot).protocol.many().and_then(|many| many.own(id));
    stream.is_some_and(|stream| outputs.bytes(stream.output) < STREAM_HIGH_WATER_BYTES)
}
