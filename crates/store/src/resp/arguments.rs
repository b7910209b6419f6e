//! The arguments of one command; the first one is its name.

/// The range of an argument in the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArgumentRange {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The arguments of one command, the first of which is its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) ranges: &'a [ArgumentRange],
}

impl<'a> Arguments<'a> {
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the total number of bytes of the arguments, or slightly more.
    pub(crate) fn byte_len(&self) -> usize {
        self.ranges.last().map_or(0, |last| last.end)
    }

    pub(crate) fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.ranges.get(index).map(|range| &self.bytes[range.start..range.end])
    }

    /// Returns the arguments from `index` on.
    pub(crate) fn from(&self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        let ranges = self.ranges.get(index..).unwrap_or_default();
        ranges.iter().map(move |range| &bytes[range.start..range.end])
    }
}

impl<'a> std::ops::Index<usize> for Arguments<'a> {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        let range = self.ranges[index];
        &self.bytes[range.start..range.end]
    }
}

/// A stored command, with its own bytes.
#[derive(Debug)]
pub(crate) struct OwnedArguments {
    bytes: Vec<u8>,
    /// The offset of the command in the bytes.
    start: usize,
    ranges: Box<[ArgumentRange]>,
}

impl OwnedArguments {
    /// Copies the arguments.
    pub(crate) fn new(arguments: Arguments<'_>) -> Self {
        let mut bytes = Vec::with_capacity(arguments.from(0).map(<[u8]>::len).sum());
        let ranges = arguments.from(0).map(|argument| {
            let start = bytes.len();
            bytes.extend_from_slice(argument);
            ArgumentRange { start, end: bytes.len() }
        });
        let ranges = ranges.collect();
        Self { bytes, start: 0, ranges }
    }

    /// Stores a buffer in which a command begins at `start`. The ranges are relative to `start`.
    pub(crate) fn of_buffer(bytes: Vec<u8>, start: usize, ranges: &[ArgumentRange]) -> Self {
        Self { bytes, start, ranges: ranges.into() }
    }

    pub(crate) fn get(&self) -> Arguments<'_> {
        Arguments { bytes: &self.bytes[self.start..], ranges: &self.ranges }
    }

    /// Returns the bytes of memory that the command occupies.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ranges.len() * size_of::<ArgumentRange>()
    }
}
