//! The open streams of a connection: a table by number, and whose turn it is.
//!
//! Numbers only grow, so the entries stay sorted by being appended; 128 of them are 1 KiB, which is
//! searched in seven steps and moved in one copy when one goes. The data of a stream is elsewhere
//! and is never moved: a free place keeps its data for the next stream.

use super::frame::WINDOW_DEFAULT_BYTES;
use crate::priority::Priority;

/// One open stream, or a free place.
#[derive(Debug, Default)]
pub(super) struct StreamSlot<S> {
    /// [`NO_STREAM`] when the place is free.
    id: u32,
    /// The next free place, if this is one.
    next_free: u16,
    /// Bytes of DATA that may be sent; below 0 after the client has made its windows smaller.
    pub(super) send_window: i32,
    /// Bytes of DATA that the client may send, according to the frames that it has received.
    pub(super) receive_window: i32,
    /// Bytes of content that came, or come with the frame that has begun, and were not consumed.
    pub(super) unread: u32,
    /// The application has consumed some content.
    pub(super) is_read: bool,
    /// Content still to come by `Content-Length`.
    pub(super) content_left: Option<u64>,
    /// The client has ended its side.
    pub(super) peer_ended: bool,
    /// The request was refused for its head: its response is no work worth doing.
    pub(super) refused: bool,
    /// The request is an extended CONNECT (RFC 8441 §4).
    pub(super) is_tunnel: bool,
    /// The last frame of the response was given out.
    pub(super) ended: bool,
    /// The data of the engine.
    pub(super) own: S,
}

/// The number of the connection itself (RFC 9113 §5.1.1).
const NO_STREAM: u32 = 0;

/// No place is free; there are never so many.
const NO_PLACE: u16 = u16::MAX;

/// The part of a stream that is read to find it, and to choose the next stream to send.
#[derive(Clone, Copy, Debug)]
struct StreamEntry {
    id: u32,
    place: u16,
    urgency: u8,
    incremental: bool,
    ready: bool,
}

const _: () = assert!(size_of::<StreamEntry>() <= 12, "the table is searched and moved");

/// The table.
#[derive(Debug)]
pub(super) struct Streams<S> {
    /// The streams, sorted by their number.
    entries: Vec<StreamEntry>,
    places: Vec<StreamSlot<S>>,
    /// The place that became free last.
    free: u16,
    /// Entries that are ready.
    ready: u16,
    /// The stream that had the last turn.
    turn: u32,
}

impl<S> Streams<S> {
    pub(super) const fn new() -> Streams<S> {
        Streams { entries: Vec::new(), places: Vec::new(), free: NO_PLACE, ready: 0, turn: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds a stream whose number is above all others, with its window for sending. `None` when
    /// there is no memory for it.
    #[inline]
    pub(super) fn open(
        &mut self,
        id: u32,
        send_window: i32,
        priority: Priority,
    ) -> Option<&mut StreamSlot<S>>
    where
        S: Default,
    {
        debug_assert!(self.entries.last().map_or(NO_STREAM, |last| last.id) < id, "not above");
        self.entries.try_reserve(1).ok()?;
        if self.free == NO_PLACE {
            self.places.try_reserve(1).ok()?;
            self.free = self.places.len() as u16;
            self.places.push(StreamSlot { next_free: NO_PLACE, ..StreamSlot::default() });
        }
        let place = self.free;
        let stream = self.places.get_mut(usize::from(place))?;
        self.free = stream.next_free;
        let Priority { urgency, incremental } = priority;
        self.entries.push(StreamEntry { id, place, urgency, incremental, ready: false });
        stream.id = id;
        stream.send_window = send_window;
        stream.receive_window = WINDOW_DEFAULT_BYTES as i32;
        stream.unread = 0;
        stream.is_read = false;
        stream.content_left = None;
        stream.peer_ended = false;
        stream.refused = false;
        stream.is_tunnel = false;
        stream.ended = false;
        Some(stream)
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&StreamSlot<S>> {
        let entry = self.entries.get(self.find(id)?)?;
        self.places.get(usize::from(entry.place))
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut StreamSlot<S>> {
        let entry = self.entries.get(self.find(id)?)?;
        self.places.get_mut(usize::from(entry.place))
    }

    /// Removes a stream. Its data stays in a free place.
    #[inline]
    pub(super) fn remove(&mut self, id: u32) -> Option<&mut StreamSlot<S>> {
        let at = self.find(id)?;
        // The usual one is the only one.
        let entry = if at + 1 == self.entries.len() {
            self.entries.pop()?
        } else {
            self.entries.remove(at)
        };
        self.ready -= u16::from(entry.ready);
        let stream = self.places.get_mut(usize::from(entry.place))?;
        stream.id = NO_STREAM;
        stream.next_free = std::mem::replace(&mut self.free, entry.place);
        Some(stream)
    }

    /// Returns the stream that was removed last, if none was added since then.
    pub(super) fn left(&mut self) -> Option<&mut StreamSlot<S>> {
        self.places.get_mut(usize::from(self.free))
    }

    /// Returns all streams, with their numbers, in no order.
    pub(super) fn each(&mut self) -> impl Iterator<Item = (u32, &mut StreamSlot<S>)> {
        let open = self.places.iter_mut().filter(|stream| stream.id != NO_STREAM);
        open.map(|stream| (stream.id, stream))
    }

    pub(super) fn set_priority(&mut self, id: u32, priority: Priority) {
        if let Some(entry) = self.find(id).and_then(|at| self.entries.get_mut(at)) {
            entry.urgency = priority.urgency;
            entry.incremental = priority.incremental;
        }
    }

    #[inline]
    pub(super) fn set_ready(&mut self, id: u32, ready: bool) {
        if let Some(entry) = self.find(id).and_then(|at| self.entries.get_mut(at)) {
            self.ready = self.ready - u16::from(entry.ready) + u16::from(ready);
            entry.ready = ready;
        }
    }

    /// Returns whether any stream is ready.
    #[inline]
    pub(super) fn has_ready(&self) -> bool {
        self.ready > 0
    }

    /// Records that this stream has had its turn.
    #[inline]
    pub(super) fn had_turn(&mut self, id: u32) {
        self.turn = id;
    }

    /// Returns the next ready stream to send, among those with an open window. Of the most urgent,
    /// one that is not incremental waits for those opened before it, and then takes turns with
    /// incremental ones (RFC 9218 §10), so that none of these waits for ever.
    pub(super) fn next_ready(&self) -> Option<u32> {
        let mut left = self.ready;
        let mut best = Turn::default();
        for entry in &self.entries {
            if left == 0 {
                break;
            }
            left -= u16::from(entry.ready);
            let stream = self.places.get(usize::from(entry.place));
            if entry.ready && stream.is_some_and(|stream| stream.send_window > 0) {
                best.consider(entry, self.turn);
            }
        }
        best.after.or(best.first)
    }

    /// Returns the bytes of memory of the table.
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<StreamEntry>()
            + self.places.capacity() * size_of::<StreamSlot<S>>()
    }

    #[inline]
    fn find(&self, id: u32) -> Option<usize> {
        // Most frames are about the newest stream.
        match self.entries.last() {
            Some(last) if last.id == id => Some(self.entries.len() - 1),
            _ => self.entries.binary_search_by_key(&id, |entry| entry.id).ok(),
        }
    }
}

/// The choice so far, while entries are visited by their number.
#[derive(Default)]
struct Turn {
    urgency: u8,
    /// The first that may go.
    first: Option<u32>,
    /// The first that may follow the stream that was sent last.
    after: Option<u32>,
    /// Whether there is one among them that is not incremental; others of its kind wait for it.
    whole: bool,
}

impl Turn {
    #[inline]
    fn consider(&mut self, entry: &StreamEntry, turn: u32) {
        if self.first.is_none() || entry.urgency < self.urgency {
            *self = Turn { urgency: entry.urgency, ..Turn::default() };
        }
        if entry.urgency > self.urgency || (self.whole && !entry.incremental) {
            return;
        }
        self.whole |= !entry.incremental;
        self.first = self.first.or(Some(entry.id));
        if entry.id > turn {
            self.after = self.after.or(Some(entry.id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(streams: &[(u32, u8, bool)]) -> Streams<u32> {
        let mut table = Streams::new();
        for &(id, urgency, incremental) in streams {
            table.open(id, 10, Priority { urgency, incremental }).unwrap().own = id * 100;
            table.set_ready(id, true);
        }
        table
    }

    fn turns(table: &mut Streams<u32>, count: usize) -> Vec<u32> {
        let mut turns = Vec::new();
        for _ in 0..count {
            let Some(id) = table.next_ready() else { break };
            table.had_turn(id);
            turns.push(id);
        }
        turns
    }

    /// RFC 9218 §10.
    #[test]
    fn urgent_streams_come_first_and_incremental_ones_alternate() {
        let mut one = table(&[(1, 3, true), (3, 1, false), (5, 1, false), (7, 3, true)]);
        assert_eq!(turns(&mut one, 3), [3, 3, 3]);
        one.remove(3);
        assert_eq!(turns(&mut one, 2), [5, 5]);
        one.set_ready(5, false);
        assert_eq!(turns(&mut one, 5), [7, 1, 7, 1, 7]);
        one.set_priority(1, Priority { urgency: 0, incremental: true });
        assert_eq!(turns(&mut one, 2), [1, 1]);
    }

    #[test]
    fn non_incremental_streams_wait_only_for_each_other() {
        let mut one = table(&[(1, 3, true), (3, 3, false), (5, 3, false), (7, 3, true)]);
        assert_eq!(turns(&mut one, 6), [1, 3, 7, 1, 3, 7]);
    }

    #[test]
    fn streams_with_a_closed_window_are_skipped() {
        let mut one = table(&[(1, 0, false), (3, 5, false)]);
        one.get_mut(1).unwrap().send_window = 0;
        assert_eq!(one.next_ready(), Some(3));
        one.get_mut(3).unwrap().send_window = -5;
        assert_eq!(one.next_ready(), None);
    }

    /// Each number leads to its own stream, in whatever order others were removed.
    #[test]
    fn streams_are_found_after_any_removals() {
        for gone in [[1, 3, 5, 7, 9], [9, 7, 5, 3, 1], [5, 1, 9, 3, 7], [3, 9, 1, 7, 5]] {
            let mut table = table(&[1, 3, 5, 7, 9].map(|id| (id, 3, false)));
            for (count, id) in gone.into_iter().enumerate() {
                assert_eq!(table.remove(id).map(|stream| stream.own), Some(id * 100));
                assert!(table.get(id).is_none() && table.remove(id).is_none());
                for left in &gone[count + 1..] {
                    assert_eq!(table.get(*left).map(|stream| stream.own), Some(left * 100));
                }
                assert_eq!(usize::from(table.ready), 4 - count);
            }
            assert_eq!((table.len(), table.next_ready()), (0, None));
        }
    }
}
