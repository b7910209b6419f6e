//! Replies that wait to be sent: bytes, with long strings in between that are shared.

use std::ops::Range;
use std::sync::Arc;

/// Strings from this length on are shared with the store instead of being copied.
const SHARED_MIN_BYTES: usize = 16 * 1024;

/// See the head of the module.
#[derive(Debug, Default)]
pub struct ReplyOutput {
    pub(crate) bytes: Vec<u8>,
    shared: Vec<SharedString>,
}

/// A long string within the bytes.
#[derive(Debug)]
struct SharedString {
    /// How many of the bytes are before it.
    at: usize,
    string: Arc<Vec<u8>>,
}

/// A part of the output.
#[derive(Debug)]
pub enum OutputPart<'a> {
    /// Bytes to be copied.
    Bytes(&'a [u8]),
    /// A string that is shared.
    Shared(&'a Arc<Vec<u8>>),
}

/// A part of an output that was taken apart.
#[derive(Debug)]
pub enum OwnedOutputPart {
    /// A range of the bytes that are not shared.
    Bytes(Range<usize>),
    /// A string that is shared.
    Shared(Arc<Vec<u8>>),
}

impl ReplyOutput {
    /// Returns whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.shared.is_empty()
    }

    /// Returns how many bytes there are to send.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.shared.iter().map(|shared| shared.string.len()).sum::<usize>()
    }

    /// Returns the parts in the order in which they are sent.
    pub fn parts(&self) -> impl Iterator<Item = OutputPart<'_>> {
        let mut from = 0;
        let before = self.shared.iter().flat_map(move |shared| {
            let bytes = &self.bytes[from..shared.at];
            from = shared.at;
            [OutputPart::Bytes(bytes), OutputPart::Shared(&shared.string)]
        });
        let last = self.shared.last().map_or(0, |shared| shared.at);
        let parts = before.chain([OutputPart::Bytes(&self.bytes[last..])]);
        parts.filter(|part| !matches!(part, OutputPart::Bytes([])))
    }

    /// Removes everything; the memory of a usual reply is kept for the next one.
    pub fn clear(&mut self) {
        const KEPT_BYTES: usize = 64 * 1024;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.shared.clear();
    }

    /// Takes the strings that are shared.
    pub(crate) fn take_shared(&mut self) -> impl Iterator<Item = Arc<Vec<u8>>> {
        std::mem::take(&mut self.shared).into_iter().map(|shared| shared.string)
    }

    /// Adds the parts of another output.
    pub fn append(&mut self, other: Self) {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        let moved = other.shared.into_iter();
        self.shared.extend(moved.map(|it| SharedString { at: before + it.at, ..it }));
    }

    /// Returns all bytes that are not shared, and the parts in the order in which they are sent,
    /// so that long ones are not copied.
    pub fn into_parts(self) -> (Vec<u8>, Vec<OwnedOutputPart>) {
        let mut parts = Vec::new();
        let mut from = 0;
        for SharedString { at, string } in self.shared {
            parts.push(OwnedOutputPart::Bytes(from..at));
            parts.push(OwnedOutputPart::Shared(string));
            from = at;
        }
        parts.push(OwnedOutputPart::Bytes(from..self.bytes.len()));
        parts.retain(|part| !matches!(part, OwnedOutputPart::Bytes(range) if range.is_empty()));
        (self.bytes, parts)
    }

    /// Adds the bytes of a string, which are shared if it is long.
    pub(crate) fn string(&mut self, string: &Arc<Vec<u8>>) {
        if string.len() < SHARED_MIN_BYTES {
            self.bytes.extend_from_slice(string);
        } else {
            self.shared.push(SharedString { at: self.bytes.len(), string: Arc::clone(string) });
        }
    }

    /// Returns the string of a number among the shared ones, if it is behind so many of the bytes.
    pub(crate) fn shared_at(&self, number: usize, at: usize) -> Option<&Arc<Vec<u8>>> {
        let shared = self.shared.get(number)?;
        (shared.at == at).then_some(&shared.string)
    }

    /// Returns where the output ends.
    pub(crate) fn mark(&self) -> OutputMark {
        OutputMark { bytes: self.bytes.len(), shared: self.shared.len() }
    }

    /// Removes what was added since the mark.
    pub(crate) fn truncate(&mut self, mark: OutputMark) {
        self.bytes.truncate(mark.bytes);
        self.shared.truncate(mark.shared);
    }

    /// Moves the bytes from `from` on to the mark, where they are inserted.
    pub(crate) fn move_to_mark(&mut self, mark: OutputMark, from: usize) {
        let count = self.bytes.len() - from;
        self.bytes[mark.bytes..].rotate_right(count);
        for shared in &mut self.shared[mark.shared..] {
            shared.at += count;
        }
    }
}

/// A place in the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputMark {
    bytes: usize,
    shared: usize,
}
