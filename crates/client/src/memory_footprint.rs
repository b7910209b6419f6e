//! The maximum memory of open requests.

use pinion_brotli::STREAM_DECODER_MAX_BYTES;

use crate::limits::{CONTENT_BUFFER_BYTES, READ_BYTES, REQUEST_BUFFER_BYTES};

/// Bytes of one open request and its response, besides the connection: the content that waits to be
/// sent, the received head and content, and a gzip decoder with its window.
pub const REQUEST_BYTES: usize = {
    const HEAD_BYTES: usize = 64 * 1024;
    const DECODER_BYTES: usize = 96 * 1024;
    REQUEST_BUFFER_BYTES + HEAD_BYTES + CONTENT_BUFFER_BYTES + READ_BYTES as usize + DECODER_BYTES
};

/// Bytes of the decoder of one response in brotli, besides [`REQUEST_BYTES`].
pub const BROTLI_DECODER_BYTES: usize = STREAM_DECODER_MAX_BYTES;
