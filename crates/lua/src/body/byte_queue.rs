//! Bytes in pieces, added at the end and taken from the front: large content never moves to grow,
//! and taken bytes are freed at once.

use std::collections::VecDeque;

use crate::limits::CONTENT_PIECE_MAX_BYTES;

/// The size of the first piece: most content is no longer.
const LEAST_BYTES: usize = 512;

/// A list of pieces of bytes. No piece is empty.
#[derive(Debug, Default)]
pub(crate) struct ByteQueue {
    pieces: VecDeque<Vec<u8>>,
    /// The bytes of the first piece that were taken.
    taken: usize,
    /// The bytes that were not taken.
    bytes: usize,
    /// The capacity of all pieces, in bytes.
    room: usize,
}

impl ByteQueue {
    /// Returns how many bytes there are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns how much memory they take.
    pub(crate) fn held_bytes(&self) -> usize {
        self.room + self.pieces.capacity() * size_of::<Vec<u8>>()
    }

    /// Adds some bytes.
    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len();
        while !bytes.is_empty() {
            let last = match self.pieces.back_mut() {
                Some(last) if last.len() < CONTENT_PIECE_MAX_BYTES => last,
                _ => self.pieces.push_back_mut(Vec::new()),
            };
            let (now, later) =
                bytes.split_at(bytes.len().min(CONTENT_PIECE_MAX_BYTES - last.len()));
            let wanted = last.len() + now.len();
            if wanted > last.capacity() {
                let room = wanted.next_power_of_two().clamp(LEAST_BYTES, CONTENT_PIECE_MAX_BYTES);
                self.room -= last.capacity();
                last.reserve_exact(room - last.len());
                self.room += last.capacity();
            }
            last.extend_from_slice(now);
            bytes = later;
        }
    }

    /// Returns the first contiguous bytes, at most so many; none when there are none.
    pub(crate) fn first(&self, most: usize) -> &[u8] {
        let first = self.pieces.front().and_then(|piece| piece.get(self.taken..));
        let first = first.unwrap_or_default();
        first.get(..most).unwrap_or(first)
    }

    /// Takes so many of the bytes that [`Self::first`] has returned.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.taken += bytes;
        self.bytes -= bytes;
        if self.pieces.front().is_some_and(|piece| self.taken >= piece.len())
            && let Some(piece) = self.pieces.pop_front()
        {
            self.taken = 0;
            self.room -= piece.capacity();
        }
    }

    /// Returns all bytes, as one text.
    pub(crate) fn joined(&self) -> Vec<u8> {
        let mut joined = Vec::with_capacity(self.bytes);
        let mut skipped = self.taken;
        for piece in &self.pieces {
            joined.extend_from_slice(piece.get(skipped..).unwrap_or_default());
            skipped = 0;
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_in_order_and_their_memory_is_freed() {
        let all: Vec<u8> = (0..1_000_000_u32).map(|number| (number / 7) as u8).collect();
        for added in [1, 100, 70_000, 1_000_000] {
            let mut pieces = ByteQueue::default();
            for some in all[..(9 * added).min(1_000_000)].chunks(added) {
                pieces.add(some);
            }
            let expected = &all[..pieces.bytes()];
            assert_eq!(pieces.joined(), expected);
            let most = 2 * expected.len() + LEAST_BYTES + 1000;
            assert!((expected.len()..most).contains(&pieces.held_bytes()), "{pieces:?}");
            let mut taken = Vec::new();
            while pieces.bytes() > 0 {
                let some = pieces.first(50_000);
                assert!((1..=50_000).contains(&some.len()));
                let count = some.len();
                taken.extend_from_slice(some);
                pieces.take(count);
                assert_eq!(pieces.joined(), expected[taken.len()..]);
            }
            assert_eq!(taken, expected);
            assert_eq!((pieces.first(10), pieces.room), (&b""[..], 0));
        }
    }
}
