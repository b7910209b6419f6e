//! The memory that open requests take at most.

use pinion_brotli::STREAM_DECODER_MAX_BYTES;

use crate::limits::{CONTENT_BUFFER_BYTES, READ_BYTES, REQUEST_BUFFER_BYTES};

/// Bytes of one open request and its response, beside the connection: what waits to be sent, the
/// head and the content that have been received, and a decoder of gzip with its window.
pub const REQUEST_BYTES: usize = {
    const HEAD_BYTES: usize = 64 * 1024;
    const DECODER_BYTES: usize = 96 * 1024;
    REQUEST_BUFFER_BYTES + HEAD_BYTES + CONTENT_BUFFER_BYTES + READ_BYTES as usize + DECODER_BYTES
};

/// Bytes of the decoder of one response in brotli, beside [`REQUEST_BYTES`].
pub const BROTLI_DECODER_BYTES: usize = STREAM_DECODER_MAX_BYTES;
