//! Content that waits in QUIC until it is read, and its share of the memory budget for buffers.
//!
//! **Windows.** QUIC returns the credit of a client as its content is read (RFC 9000 §4.1), and all
//! streams have windows of the same size. The window of the connection is as large as those of all
//! streams together that may be open, and never changes ([`QUIC_CONNECTION_WINDOW_BYTES`]). So a
//! client always has credit for all that its streams may still send within their own windows, in
//! bytes as the streams count them, headers of frames included. Unread content stops its own
//! stream, and takes no credit from heads and from streams that are read. The only window that ever
//! closes is that of a stream whose content is not wanted, and no deadline runs for such a stream.
//!
//! **Memory.** A window only permits. Bytes that have arrived and were not read are counted against
//! the memory budget for buffers, and if that runs low, requests with unread content are ended
//! (`memory_pressure.rs`). QUIC does not report how much it holds, so an upper bound is counted:
//! each frame of a stream takes as much as the longest datagram that has arrived in the meantime.
//!
//! [`QUIC_CONNECTION_WINDOW_BYTES`]: crate::limits::QUIC_CONNECTION_WINDOW_BYTES

use quinn_proto::{ConnectionEvent, Dir, StreamId};

use super::{Http3, Open, number};
use crate::limits::{QUIC_FRAME_OVERHEAD_BYTES, QUIC_STREAM_WINDOW_BYTES};
use crate::worker_buffers::Buffers;

/// The count of the bytes that a stream has received and the engine has not read.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    /// An upper bound of the bytes, at the time of the last count.
    bytes: usize,
    /// Frames that have arrived since then.
    frames: usize,
    /// Bytes that were read since then.
    read_bytes: usize,
    /// Whether no more bytes could be read after them.
    is_drained: bool,
}

/// The datagrams that have arrived since the last count of unread bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Datagrams {
    longest_bytes: usize,
    all_bytes: usize,
}

impl Unread {
    /// Creates the count of a stream, which begins with its first frame.
    pub(crate) fn opened() -> Self {
        Self { frames: 1, ..Self::default() }
    }

    /// Counts a frame that has arrived.
    pub(super) fn frame(&mut self) {
        self.frames += 1;
    }

    /// Counts bytes that were read.
    pub(crate) fn read(&mut self, bytes: usize) {
        self.read_bytes += bytes;
        self.is_drained = false;
    }

    /// Notes that the next bytes of the stream have not arrived yet. Bytes after a gap may have.
    pub(crate) fn drained(&mut self) {
        self.is_drained = true;
    }

    /// Resets the count: all of the stream was read.
    pub(crate) fn ended(&mut self) {
        *self = Self::default();
    }

    /// Returns an upper bound of the unread bytes, as of the last count.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts the bytes that arrived with `datagrams`, and returns an upper bound of the unread
    /// bytes.
    ///
    /// Frames are shorter than their datagrams. The difference would add up on a stream that is
    /// read for long, so it is subtracted when all available bytes have been read: less than half
    /// of the bytes read, and as much as headers usually take. To hide bytes after a gap in this
    /// way, a client must send many times as many that are read.
    fn count(&mut self, datagrams: Datagrams) -> usize {
        let Self { bytes, frames, read_bytes, is_drained } = std::mem::take(self);
        let came_bytes = datagrams.all_bytes.min(frames * datagrams.longest_bytes);
        let mut bytes = (bytes + came_bytes).saturating_sub(read_bytes);
        if is_drained {
            let overhead_bytes = frames * QUIC_FRAME_OVERHEAD_BYTES + read_bytes / 16;
            bytes = bytes.saturating_sub(overhead_bytes.min(read_bytes / 2));
        }
        self.bytes = bytes.min(QUIC_STREAM_WINDOW_BYTES as usize);
        self.bytes
    }
}

impl Open {
    /// Returns an upper bound of the bytes that wait in QUIC and are not wanted, if none were
    /// wanted for so many milliseconds.
    fn unwanted_bytes(&self, now_ms: u64, idle_ms: u64) -> usize {
        let is_unwanted = self.own.state.stage.is_unanswered() && !self.own.waits_for_content();
        let is_idle = self.own.waits_since_ms.saturating_add(idle_ms) <= now_ms;
        if is_unwanted && is_idle { self.unread.bytes() } else { 0 }
    }
}

impl Http3 {
    /// Passes a datagram of `bytes` bytes to the connection.
    pub(crate) fn on_datagram(&mut self, event: ConnectionEvent, bytes: usize) {
        self.quic.handle_event(event);
        let Datagrams { longest_bytes, all_bytes } = self.datagrams;
        self.datagrams = Datagrams {
            longest_bytes: longest_bytes.max(bytes),
            all_bytes: all_bytes.saturating_add(bytes),
        };
    }

    /// Counts a frame of a stream that has arrived.
    pub(crate) fn on_frame(&mut self, id: StreamId) {
        let unread = match id.dir() {
            Dir::Bi => match self.streams.get(number(id)) {
                Some(open) => Some(&mut open.unread),
                None => self.discarded_unread(id),
            },
            Dir::Uni => self.unis.iter_mut().find(|uni| uni.id == id).map(|uni| &mut uni.unread),
        };
        if let Some(unread) = unread {
            unread.frame();
        }
    }

    /// Counts the new arrivals, and returns an upper bound of the unread bytes that QUIC holds.
    pub(super) fn count_unread(&mut self) -> usize {
        let datagrams = std::mem::take(&mut self.datagrams);
        let streams = self.streams.iter_mut().map(|open| &mut open.unread);
        let unis = self.unis.iter_mut().map(|uni| &mut uni.unread);
        let discarded = self.discarded.iter_mut().map(|discarded| &mut discarded.unread);
        streams.chain(unis).chain(discarded).map(|unread| unread.count(datagrams)).sum()
    }

    /// Releases the counted bytes of a request whose content is about to be dropped.
    pub(crate) fn release_unread(&mut self, id: StreamId, buffers: &mut Buffers) {
        let Some(open) = self.streams.get(number(id)) else { return };
        let bytes = std::mem::take(&mut open.unread).bytes();
        debug_assert!(bytes <= self.counted_bytes, "what is unread was counted");
        self.counted_bytes -= bytes;
        buffers.pool.release(bytes);
    }

    /// Returns the request streams with at least `least_bytes` of content that was not wanted for
    /// `idle_ms`, each with the number of its bytes.
    pub(crate) fn unwanted(
        &mut self,
        least_bytes: usize,
        now_ms: u64,
        idle_ms: u64,
    ) -> impl Iterator<Item = (StreamId, usize)> {
        let bytes_of = move |open: &mut Open| (open.id, open.unwanted_bytes(now_ms, idle_ms));
        self.streams.iter_mut().map(bytes_of).filter(move |(_, bytes)| *bytes >= least_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a datagram of usual size, and of a frame's content in it.
    const DATAGRAM_BYTES: usize = 1252;
    const CONTENT_BYTES: usize = 1210;

    fn datagrams(count: usize) -> Datagrams {
        Datagrams { longest_bytes: DATAGRAM_BYTES, all_bytes: count * DATAGRAM_BYTES }
    }

    /// Frames arrive and all of their content is read, so the count does not grow.
    #[test]
    fn an_upload_that_is_read_counts_nothing() {
        let mut unread = Unread::opened();
        for nth in 0..10_000 {
            let frames = nth % 30 + 1;
            (0..frames).for_each(|_| unread.frame());
            unread.read(frames * CONTENT_BYTES);
            unread.drained();
            let bytes = unread.count(datagrams(frames));
            assert!(bytes <= 2 * DATAGRAM_BYTES, "{bytes} after {nth}");
        }
    }

    #[test]
    fn unread_content_is_counted_up_to_its_window() {
        let window_bytes = QUIC_STREAM_WINDOW_BYTES as usize;
        let mut unread = Unread::default();
        for came in 1..5000 {
            unread.frame();
            let bytes = unread.count(datagrams(1));
            assert!(bytes >= (came * CONTENT_BYTES).min(window_bytes) && bytes <= window_bytes);
        }
        // Later all of it is read, in pieces.
        while unread.bytes() > window_bytes / 16 {
            unread.read(64 * 1024);
            unread.drained();
            unread.count(Datagrams::default());
        }
        unread.frame();
        unread.ended();
        assert_eq!(unread.count(datagrams(1)), 0);
    }

    /// The first byte is missing, so nothing can be read.
    #[test]
    fn content_after_a_gap_is_counted() {
        let mut unread = Unread::opened();
        for came in 1..1000 {
            unread.frame();
            unread.drained();
            assert!(unread.count(datagrams(1)) >= came * CONTENT_BYTES);
        }
    }

    /// Small frames beside large ones do not hide the memory of the large ones.
    #[test]
    fn small_frames_of_other_streams_do_not_lower_the_count() {
        let (mut large, mut small) = (Unread::default(), Unread::default());
        for came in 1..1000 {
            large.frame();
            (0..20).for_each(|_| small.frame());
            small.read(20);
            small.drained();
            small.count(datagrams(1));
            assert!(large.count(datagrams(1)) >= came * CONTENT_BYTES);
        }
    }
}
