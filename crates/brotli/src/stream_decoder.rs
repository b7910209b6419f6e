//! Decodes brotli in pieces, as it arrives over a connection.

use std::fmt;

use brotli::enc::StandardAlloc;
use brotli::{Allocator, BrotliDecompressStream, BrotliResult, BrotliState, HuffmanCode};

/// Largest window of a stream that is decoded, in bits: 4 MiB, which is the largest that encoders
/// use by default. A window of 24 bits is allowed (RFC 7932 §9.1), but takes 16 MiB per stream.
pub const STREAM_WINDOW_MAX_BITS: u8 = 22;

/// Most bytes that a [`StreamDecoder`] takes, for any stream: the window, which has half of its
/// length beside it for a moment when it grows to its full length, and the prefix codes of a
/// metablock. Pages take far less: the window is as long as the content, and an encoder needs few
/// prefix codes.
pub const STREAM_DECODER_MAX_BYTES: usize = {
    const WINDOW_BYTES: usize = 1 << STREAM_WINDOW_MAX_BITS;
    // RFC 7932 §9.2: up to 256 prefix codes of literals, of commands and of distances. The decoder
    // has room for the longest table in each.
    const TABLE_PLACES: usize = 1080;
    const CODES_BYTES: usize = 3 * 256 * TABLE_PLACES * size_of::<HuffmanCode>();
    // Context maps, codes of block types and counts, and the state itself.
    const STATE_BYTES: usize = 64 * 1024;
    WINDOW_BYTES + WINDOW_BYTES / 2 + CODES_BYTES + STATE_BYTES
};

/// The error of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The stream is not brotli (RFC 7932).
    Malformed,
    /// The window of the stream is larger than [`STREAM_WINDOW_MAX_BITS`].
    Window,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamStep {
    /// Bytes of the input that were consumed.
    pub used: usize,
    /// Bytes of content that were written to the front of the output.
    pub written: usize,
    /// Whether the stream is at its end.
    pub is_at_end: bool,
}

/// Decodes one stream of brotli, in at most [`STREAM_DECODER_MAX_BYTES`] of memory.
pub struct StreamDecoder<M = StandardAlloc>
where
    M: Allocator<u8> + Allocator<u32> + Allocator<HuffmanCode>,
{
    state: BrotliState<M, M, M>,
    /// Whether the first byte has arrived, which contains the size of the window.
    has_begun: bool,
}

impl Default for StreamDecoder {
    fn default() -> Self {
        Self::with_memory(StandardAlloc::default)
    }
}

impl<M: Allocator<u8> + Allocator<u32> + Allocator<HuffmanCode>> StreamDecoder<M> {
    /// Creates a decoder with this source of memory.
    pub(crate) fn with_memory(memory: impl Fn() -> M) -> Self {
        Self { state: BrotliState::new(memory(), memory(), memory()), has_begun: false }
    }

    /// Decodes bytes at the front of `input` to the front of `output`. Without progress it needs
    /// more input, or more room.
    ///
    /// # Errors
    /// The stream cannot be decoded.
    pub fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<StreamStep, StreamError> {
        if let (false, Some(first)) = (self.has_begun, input.first()) {
            // A 1 and three bits that are not 0 mean 17 bits and that number more.
            let more = first >> 1 & 7;
            if first & 1 == 1 && 17 + more > STREAM_WINDOW_MAX_BITS {
                return Err(StreamError::Window);
            }
            self.has_begun = true;
        }
        let (mut available_in, mut used) = (input.len(), 0);
        let (mut available_out, mut written, mut total) = (output.len(), 0, 0);
        let result = BrotliDecompressStream(
            &mut available_in,
            &mut used,
            input,
            &mut available_out,
            &mut written,
            output,
            &mut total,
            &mut self.state,
        );
        match result {
            BrotliResult::ResultFailure => Err(StreamError::Malformed),
            BrotliResult::ResultSuccess => Ok(StreamStep { used, written, is_at_end: true }),
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {
                Ok(StreamStep { used, written, is_at_end: false })
            }
        }
    }
}

impl<M: Allocator<u8> + Allocator<u32> + Allocator<HuffmanCode>> fmt::Debug for StreamDecoder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamDecoder").finish_non_exhaustive()
    }
}
