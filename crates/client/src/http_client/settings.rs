//! The bounds of a client.

use crate::connection_pool::PoolSettings;
use crate::limits::{BROTLI_DECODERS_MAX, REQUEST_MEMORY_MAX_BYTES};

/// The bounds of an [`HttpClient`](super::HttpClient).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpClientSettings {
    /// Those of its connections.
    pub pool: PoolSettings,
    /// See [`BROTLI_DECODERS_MAX`]; with 0, brotli is not asked for.
    pub brotli_decoders_max: usize,
    /// See [`REQUEST_MEMORY_MAX_BYTES`].
    pub request_memory_bytes: usize,
    /// The [tags](pinion_engine::raw::RawStream::tag) of its connections are greater than this, so
    /// that several clients of a worker can tell theirs apart.
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
