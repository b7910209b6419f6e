//! The output of a client: replies that wait to be sent. It consists of bytes, with shared long
//! strings in between.

use std::ops::Range;
use std::sync::Arc;

/// Least length of a string that is shared with the store instead of being copied, in bytes.
const SHARED_MIN_BYTES: usize = 16 * 1024;

/// Replies that wait to be sent.
#[derive(Debug, Default)]
pub struct ReplyOutput {
    pub(crate) bytes: Vec<u8>,
    shared: Vec<SharedString>,
}

/// A long string within the bytes.
#[derive(Debug)]
struct SharedString {
    /// The number of bytes that come before the string.
    position: usize,
    string: Arc<Vec<u8>>,
}

/// A part of the output.
#[derive(Debug)]
pub enum OutputPart<'a> {
    /// Bytes to be copied.
    Bytes(&'a [u8]),
    /// A shared string.
    Shared(&'a Arc<Vec<u8>>),
}

/// A part of an output, with ownership of its data.
#[derive(Debug)]
pub enum OwnedOutputPart {
    /// A range of the bytes that are not shared.
    Bytes(Range<usize>),
    /// A shared string.
    Shared(Arc<Vec<u8>>),
}

impl ReplyOutput {
    /// Returns whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.shared.is_empty()
    }

    /// Returns the number of bytes to send.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.shared.iter().map(|shared| shared.string.len()).sum::<usize>()
    }

    /// Returns the parts in the order in which they are sent.
    pub fn parts(&self) -> impl Iterator<Item = OutputPart<'_>> {
        let mut from = 0;
        let before = self.shared.iter().flat_map(move |shared| {
            let bytes = &self.bytes[from..shared.position];
            from = shared.position;
            [OutputPart::Bytes(bytes), OutputPart::Shared(&shared.string)]
        });
        let last = self.shared.last().map_or(0, |shared| shared.position);
        let parts = before.chain([OutputPart::Bytes(&self.bytes[last..])]);
        parts.filter(|part| !matches!(part, OutputPart::Bytes([])))
    }

    /// Removes all replies. The memory of a reply of usual size is kept for the next one.
    pub fn clear(&mut self) {
        const KEPT_BYTES: usize = 64 * 1024;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.shared.clear();
    }

    /// Removes and returns the shared strings.
    pub(crate) fn take_shared_strings(&mut self) -> impl Iterator<Item = Arc<Vec<u8>>> {
        std::mem::take(&mut self.shared).into_iter().map(|shared| shared.string)
    }

    /// Adds the parts of another output.
    pub fn append(&mut self, other: Self) {
        let bytes_before = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        let moved = other.shared.into_iter();
        self.shared
            .extend(moved.map(|it| SharedString { position: bytes_before + it.position, ..it }));
    }

    /// Returns all bytes that are not shared, and the parts in the order in which they are sent.
    /// Shared strings are not copied.
    pub fn into_parts(self) -> (Vec<u8>, Vec<OwnedOutputPart>) {
        let mut parts = Vec::new();
        let mut from = 0;
        for SharedString { position, string } in self.shared {
            parts.push(OwnedOutputPart::Bytes(from..position));
            parts.push(OwnedOutputPart::Shared(string));
            from = position;
        }
        parts.push(OwnedOutputPart::Bytes(from..self.bytes.len()));
        parts.retain(|part| !matches!(part, OwnedOutputPart::Bytes(range) if range.is_empty()));
        (self.bytes, parts)
    }

    /// Adds the bytes of a string, which are shared if it is long.
    pub(crate) fn push_string(&mut self, string: &Arc<Vec<u8>>) {
        if string.len() < SHARED_MIN_BYTES {
            self.bytes.extend_from_slice(string);
        } else {
            self.shared
                .push(SharedString { position: self.bytes.len(), string: Arc::clone(string) });
        }
    }

    /// Returns the shared string with a number, if it comes directly after the first `at` bytes.
    pub(crate) fn shared_string_at(&self, index: usize, position: usize) -> Option<&Arc<Vec<u8>>> {
        let shared = self.shared.get(index)?;
        (shared.position == position).then_some(&shared.string)
    }

    /// Returns a mark of the current end of the output.
    pub(crate) fn mark(&self) -> OutputMark {
        OutputMark { bytes: self.bytes.len(), shared: self.shared.len() }
    }

    /// Removes everything that was added since the mark.
    pub(crate) fn truncate(&mut self, mark: OutputMark) {
        self.bytes.truncate(mark.bytes);
        self.shared.truncate(mark.shared);
    }

    /// Moves the bytes from `from` on to the mark, where they are inserted.
    pub(crate) fn move_tail_to_mark(&mut self, mark: OutputMark, from: usize) {
        let count = self.bytes.len() - from;
        self.bytes[mark.bytes..].rotate_right(count);
        for shared in &mut self.shared[mark.shared..] {
            shared.position += count;
        }
    }
}

/// A position in the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputMark {
    bytes: usize,
    shared: usize,
}
