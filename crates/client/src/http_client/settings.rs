//! The bounds of a client.

use crate::connection_pool::PoolSettings;
use crate::limits::{BROTLI_DECODERS_MAX, REQUEST_MEMORY_MAX_BYTES};

/// The bounds of an [`HttpClient`](super::HttpClient).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpClientSettings {
    /// The bounds of its connections.
    pub pool: PoolSettings,
    /// The maximum number of responses in brotli; see [`BROTLI_DECODERS_MAX`]. With 0, brotli is
    /// not requested.
    pub brotli_decoders_max: usize,
    /// The maximum memory of requests, in bytes; see [`REQUEST_MEMORY_MAX_BYTES`].
    pub request_memory_bytes: usize,
    /// A lower bound of the [tags](pinion_engine::byte_stream_handle::ByteStreamHandle::tag) of its
    /// connections, which are greater, so that several clients of a worker can distinguish theirs.
    pub first_tag: u64,
}

impl Default for HttpClientSettings {
    fn default() -> Self {
        Self {
            pool: PoolSettings::default(),
            brotli_decoders_max: BROTLI_DECODERS_MAX,
            request_memory_bytes: REQUEST_MEMORY_MAX_BYTES,
            first_tag: 0,
        }
    }
}
