//! Decodes brotli that is stored in memory.

use std::io::{self, Read};

/// A reader of the content of stored bytes.
pub struct Decoder<'a>(brotli::Decompressor<&'a [u8]>);

impl<'a> Decoder<'a> {
    /// Creates a decoder that reads `stored` in pieces of 16 KiB.
    pub fn new(stored: &'a [u8]) -> Decoder<'a> {
        const PIECE_BYTES: usize = 16 << 10;
        Decoder(brotli::Decompressor::new(stored, PIECE_BYTES))
    }
}

impl Read for Decoder<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl std::fmt::Debug for Decoder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}
