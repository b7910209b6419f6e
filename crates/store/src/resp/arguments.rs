//! The arguments of one command; the first one is its name.

/// Where an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArgumentRange {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// See the head of the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) ranges: &'a [ArgumentRange],
}

impl<'a> Arguments<'a> {
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns how many bytes they have together, or some more.
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

/// A command that is kept, with its bytes.
#[derive(Debug)]
pub(crate) struct OwnedArguments {
    bytes: Vec<u8>,
    /// Where the command begins in the bytes.
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

    /// Keeps the bytes in which a command begins at `start`, from where its ranges count.
    pub(crate) fn of_buffer(bytes: Vec<u8>, start: usize, ranges: &[ArgumentRange]) -> Self {
        Self { bytes, start, ranges: ranges.into() }
    }

    pub(crate) fn get(&self) -> Arguments<'_> {
        Arguments { bytes: &self.bytes[self.start..], ranges: &self.ranges }
    }

    /// Returns how many bytes of memory it occupies.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ranges.len() * size_of::<ArgumentRange>()
    }
}
