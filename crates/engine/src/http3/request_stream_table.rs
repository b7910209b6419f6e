//! The open request streams of an HTTP/3 connection, by their number.

use pinion_http::h3::request_stream::RequestStream;
use quinn_proto::StreamId;

use super::unread_content::Unread;
use crate::limits::{EXTERNAL_READ_BYTES, QUIC_READ_MIN_BYTES, QUIC_SEND_MIN_BYTES};
use crate::multiplexed::MultiplexedStream;
use crate::output_queue::Outputs;

/// One request stream.
pub(crate) struct Open {
    pub(crate) id: StreamId,
    pub(crate) own: MultiplexedStream,
    pub(crate) request: RequestStream,
    /// The priority that QUIC has for it: see [`stream_priority`](crate::quic::stream_priority).
    pub(super) quic_priority: i32,
    /// Whether the client has ended its side, and all of it was read.
    pub(crate) fin: bool,
    /// Whether the end of our side of the tunnel was given to QUIC.
    pub(super) is_finished: bool,
    /// Bytes of a file that are read for it at once: about as many as QUIC will take.
    pub(super) read_bytes: u64,
    /// The count of the request's bytes that QUIC holds.
    pub(crate) unread: Unread,
}

impl Open {
    pub(crate) fn new(id: StreamId, request: RequestStream, now_ms: u64) -> Self {
        let read_bytes = QUIC_SEND_MIN_BYTES;
        let own = MultiplexedStream { waits_since_ms: now_ms, ..MultiplexedStream::default() };
        let unread = Unread::opened();
        Self {
            id,
            own,
            request,
            quic_priority: 0,
            fin: false,
            is_finished: false,
            read_bytes,
            unread,
        }
    }

    /// Returns whether content comes next, after the used part of the request.
    pub(crate) fn is_in_content(&self) -> bool {
        self.request.is_in_content(self.own.held.unused())
    }

    /// Returns whether only the end of our side is left to be sent in a tunnel.
    pub(super) fn is_fin_pending(&self, outputs: &Outputs) -> bool {
        let is_empty = outputs.bytes(self.own.output) == 0;
        self.own.state.has_finished && !self.is_finished && is_empty
    }

    /// Notes that QUIC has taken `taken_bytes` of the bytes that were read: the next time it may
    /// take twice as many, and hardly more.
    pub(super) fn has_taken(&mut self, taken_bytes: usize, read_bytes: usize) {
        if taken_bytes < read_bytes || read_bytes as u64 >= self.read_bytes {
            let twice = 2 * taken_bytes as u64;
            self.read_bytes = twice.clamp(QUIC_READ_MIN_BYTES, EXTERNAL_READ_BYTES as u64);
        }
    }
}

/// The open request streams of a connection. They begin in the order of their numbers.
#[derive(Default)]
pub(crate) struct Streams {
    open: Vec<(u32, Box<Open>)>,
}

impl Streams {
    pub(crate) fn add(&mut self, number: u32, open: Open) {
        self.open.push((number, Box::new(open)));
    }

    fn place(&self, number: u32) -> Option<usize> {
        // Numbers are consecutive, so the position is this far behind the first, or before that.
        let (first, _) = self.open.first()?;
        let guess = number.wrapping_sub(*first) as usize;
        if self.open.get(guess).is_some_and(|(at, _)| *at == number) {
            return Some(guess);
        }
        self.open.binary_search_by_key(&number, |(number, _)| *number).ok()
    }

    pub(crate) fn get(&mut self, number: u32) -> Option<&mut Open> {
        let place = self.place(number)?;
        self.open.get_mut(place).map(|(_, open)| &mut **open)
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<Open> {
        let place = self.place(number)?;
        Some(*self.open.remove(place).1)
    }

    pub(crate) fn pop(&mut self) -> Option<(u32, Open)> {
        self.open.pop().map(|(number, open)| (number, *open))
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns the streams in the order of their numbers.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Open> {
        self.open.iter_mut().map(|(_, open)| &mut **open)
    }

    pub(crate) fn numbered(&mut self) -> impl Iterator<Item = (u32, &mut Open)> {
        self.open.iter_mut().map(|(number, open)| (*number, &mut **open))
    }
}
