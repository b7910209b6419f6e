//! The output of a client: replies that wait to be sent. Short replies are copied into one buffer.
//! Long strings are not copied: the output holds a reference ([`Arc`]) to the value in the store.

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

/// A long string that is sent between bytes of the buffer.
#[derive(Debug)]
struct SharedString {
    /// The position in [`ReplyOutput::bytes`] before which the string is sent.
    position: usize,
    string: Arc<Vec<u8>>,
}

/// A part of the output.
#[derive(Debug)]
pub enum OutputPart<'a> {
    /// Bytes of the buffer.
    Bytes(&'a [u8]),
    /// A shared string.
    Shared(&'a Arc<Vec<u8>>),
}

/// A part of an output, with ownership of its data.
#[derive(Debug)]
pub enum OwnedOutputPart {
    /// A range of the buffer.
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

    /// Takes the shared strings out, so that the caller can free them elsewhere. The output must be
    /// cleared afterwards.
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

    /// Returns the buffer, and the parts in the order in which they are sent. Shared strings are
    /// not copied.
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

    /// Appends a string, which is shared with the store if it is long.
    pub(crate) fn push_string(&mut self, string: &Arc<Vec<u8>>) {
        if string.len() < SHARED_MIN_BYTES {
            self.bytes.extend_from_slice(string);
        } else {
            self.shared
                .push(SharedString { position: self.bytes.len(), string: Arc::clone(string) });
        }
    }

    /// Returns the shared string with this index, if it is sent at this position of the buffer.
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

    /// Moves the bytes after position `from` to the mark, before all that was added since the mark.
    /// With it, the head of an array is written after its elements, when their number is known.
    pub(crate) fn move_tail_to_mark(&mut self, mark: OutputMark, from: usize) {
        let count = self.bytes.len() - from;
        self.bytes[mark.bytes..].rotate_right(count);
        for shared in &mut self.shared[mark.shared..] {
            shared.position += count;
        }
    }
}

/// A position in the output: a number of bytes and a number of shared strings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputMark {
    bytes: usize,
    shared: usize,
}
