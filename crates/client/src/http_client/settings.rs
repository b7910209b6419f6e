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
}

impl Default for HttpClientSettings {
    fn default() -> Self {
        Self {
            pool: PoolSettings::default(),
            brotli_decoders_max: BROTLI_DECODERS_MAX,
            request_memory_bytes: REQUEST_MEMORY_MAX_BYTES,
        }
    }
}
