//! The encoder of one response: content in, coded bytes out, piece by piece.

use flate2::{Compress, Compression, FlushCompress, Status};
use pinion_brotli::{EncoderMemory, EncoderOperation};
use pinion_http::content_coding::Coding;

use crate::limits::{
    BROTLI_ENCODER_BYTES, BROTLI_QUALITY, BROTLI_WINDOW_BITS, CHUNK_BYTES, GZIP_ENCODER_BYTES,
    GZIP_LEVEL, GZIP_WINDOW_BITS,
};

/// The result of [`ResponseEncoder::step`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct EncodeStep {
    /// Bytes of the input that were taken.
    pub(crate) used: usize,
    /// Whether the operation is complete; else there is more output.
    pub(crate) is_done: bool,
}

/// The encoder of one response.
pub(crate) enum ResponseEncoder {
    Gzip(Compress),
    Brotli(pinion_brotli::BrotliEncoder),
}

impl ResponseEncoder {
    /// Creates an encoder of a coding, if it can be made on demand.
    pub(super) fn new(coding: Coding) -> Option<Self> {
        match coding {
            Coding::Gzip => {
                let level = Compression::new(GZIP_LEVEL);
                Some(Self::Gzip(Compress::new_gzip(level, GZIP_WINDOW_BITS)))
            }
            Coding::Brotli => {
                let memory = EncoderMemory::new(BROTLI_QUALITY);
                let (quality, window) = (BROTLI_QUALITY, BROTLI_WINDOW_BITS);
                let encoder = pinion_brotli::BrotliEncoder::new(&memory, quality, window, 0);
                Some(Self::Brotli(encoder))
            }
            Coding::Identity | Coding::Zstd => None,
        }
    }

    /// Returns the maximum number of bytes that an encoder of a coding takes.
    pub(super) const fn bytes_of(coding: Coding) -> usize {
        match coding {
            Coding::Gzip => GZIP_ENCODER_BYTES,
            Coding::Brotli => BROTLI_ENCODER_BYTES,
            Coding::Identity | Coding::Zstd => 0,
        }
    }

    /// Returns the maximum number of bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Gzip(_) => GZIP_ENCODER_BYTES,
            Self::Brotli(_) => BROTLI_ENCODER_BYTES,
        }
    }

    /// Takes content and puts the output into `out`, which is emptied before and holds
    /// [`CHUNK_BYTES`] at most. It must be called again, with the rest of the input, until it is
    /// done; `None` if the encoder is broken.
    pub(crate) fn step(
        &mut self,
        input: &[u8],
        operation: EncoderOperation,
        out: &mut Vec<u8>,
    ) -> Option<EncodeStep> {
        out.clear();
        out.reserve_exact(CHUNK_BYTES);
        let step = match self {
            Self::Gzip(compress) => gzip(compress, input, operation, out)?,
            Self::Brotli(encoder) => brotli(encoder, input, operation, out)?,
        };
        let moves = step.is_done || step.used > 0 || !out.is_empty();
        moves.then_some(step)
    }
}

fn gzip(
    compress: &mut Compress,
    input: &[u8],
    operation: EncoderOperation,
    out: &mut Vec<u8>,
) -> Option<EncodeStep> {
    let before = compress.total_in();
    let flush = match operation {
        EncoderOperation::Process => FlushCompress::None,
        EncoderOperation::Flush => FlushCompress::Sync,
        EncoderOperation::Finish => FlushCompress::Finish,
    };
    let status = compress.compress_vec(input, out, flush).ok()?;
    let used = (compress.total_in() - before) as usize;
    let is_done = match operation {
        EncoderOperation::Process => used == input.len(),
        // Output that fills the room may be incomplete.
        EncoderOperation::Flush => used == input.len() && out.len() < out.capacity(),
        EncoderOperation::Finish => status == Status::StreamEnd,
    };
    Some(EncodeStep { used, is_done })
}

fn brotli(
    encoder: &mut pinion_brotli::BrotliEncoder,
    input: &[u8],
    operation: EncoderOperation,
    out: &mut Vec<u8>,
) -> Option<EncodeStep> {
    out.resize(CHUNK_BYTES, 0);
    let step = encoder.step(operation, input, out)?;
    out.truncate(step.written);
    Some(EncodeStep { used: step.read, is_done: step.is_done })
}
