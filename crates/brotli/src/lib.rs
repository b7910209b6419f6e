//! Brotli (RFC 7932), compiled once. The crate `brotli` is generic over memory and readers, so that
//! every crate that uses it compiles the whole of it, as often as it has programs; here it has one
//! kind of memory and one kind of reader.
//!
//! | Module | Holds |
//! |---|---|
//! | `encoder` | content → brotli, piece by piece |
//! | `decoder` | brotli → content |
//! | `stream_decoder` | brotli → content, piece by piece |
//! | `encoder_memory_reuse` | the memory of an encoder, kept for the next content |

#![forbid(unsafe_code)]

mod decoder;
mod encoder;
mod encoder_memory_reuse;
mod stream_decoder;
#[cfg(test)]
mod tests;

pub use decoder::Decoder;
pub use encoder::{BrotliEncoder, EncoderOperation, EncoderProgress};
pub use encoder_memory_reuse::EncoderMemory;
pub use stream_decoder::{
    STREAM_DECODER_MAX_BYTES, STREAM_WINDOW_MAX_BITS, StreamDecoder, StreamError, StreamStep,
};
