//! The buffers into which the simulated kernel receives. Each is free, filled and not processed
//! yet, or with the engine. One that was given back is overwritten, so that a later read of it is
//! noticed.

use super::Lent;

/// The byte that fills a buffer which the engine no longer has.
const GIVEN_BACK: u8 = 0xdd;

/// The receive buffers of the simulated kernel.
pub(super) struct Buffers {
    memory: Vec<Vec<u8>>,
    /// The buffers that the kernel may fill.
    free: Vec<u16>,
    /// Whether the engine has a buffer, by index.
    lent: Vec<bool>,
}

impl Buffers {
    pub(super) fn new(count: u16, bytes: usize) -> Self {
        Self {
            memory: (0..count).map(|_| vec![GIVEN_BACK; bytes]).collect(),
            free: (0..count).collect(),
            lent: vec![false; usize::from(count)],
        }
    }

    /// Returns the number of bytes that fit into one buffer.
    pub(super) fn capacity(&self) -> usize {
        self.memory[0].len()
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.free.is_empty()
    }

    /// Fills a buffer with the bytes of `input`; there is a free one, and they fit. The engine gets
    /// it by [`Self::hand_over`].
    pub(super) fn fill(&mut self, input: impl ExactSizeIterator<Item = u8>) -> Lent {
        let buffer = self.free.pop().expect("looked before");
        let bytes = input.len();
        for (place, byte) in self.memory[usize::from(buffer)].iter_mut().zip(input) {
            *place = byte;
        }
        Lent { buffer, bytes: bytes as u32 }
    }

    /// Hands the buffer over to the engine.
    pub(super) fn hand_over(&mut self, lent: &Lent) {
        let before = std::mem::replace(&mut self.lent[usize::from(lent.buffer)], true);
        assert!(!before, "a buffer is handed over once");
    }

    pub(super) fn filled(&self, lent: &Lent) -> &[u8] {
        assert!(self.lent[usize::from(lent.buffer)], "the engine has the buffer");
        &self.memory[usize::from(lent.buffer)][..lent.bytes as usize]
    }

    /// Takes the buffer back from the engine.
    pub(super) fn give_back(&mut self, lent: Lent) {
        let index = usize::from(lent.buffer);
        assert!(std::mem::take(&mut self.lent[index]), "a buffer is given back once");
        self.discard(lent);
    }

    /// Frees a buffer that will not be read.
    #[expect(clippy::needless_pass_by_value, reason = "taking it is what forbids a second use")]
    pub(super) fn discard(&mut self, lent: Lent) {
        self.memory[usize::from(lent.buffer)][..lent.bytes as usize].fill(GIVEN_BACK);
        self.free.push(lent.buffer);
    }

    /// Checks that the engine has no buffer between two passes: it copies the bytes that it keeps.
    pub(super) fn check_none_lent(&self) {
        assert!(!self.lent.contains(&true), "the engine keeps a lent buffer");
    }
}
