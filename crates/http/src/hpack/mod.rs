//! HPACK (RFC 7541): the field blocks of HTTP/2.
//!
//! [`decoder`] keeps the table that a peer fills, and reads blocks with it. [`static_encoder`]
//! writes with the static table alone, so that a block can be rendered once and sent on any
//! connection. [`dynamic_encoder`] fills the table of the peer with the repeated fields of a
//! connection: `peer_dynamic_table` knows which entries the peer has, `repeated_fields` their
//! meaning. Both serve QPACK, too. `huffman`, `integer`, `string` and `compressed_response_head`
//! serve QPACK too ([`crate::qpack`]).
//!
//! `dynamic_table` is the dynamic table, and `static_table` has the tables that never change.
//! `hpack_qpack_form` has the differences between HPACK and QPACK in a field line with a static
//! table alone.

pub(crate) mod compressed_response_head;
pub mod decoder;
pub mod dynamic_encoder;
pub(crate) mod dynamic_table;
pub(crate) mod hpack_qpack_form;
pub(crate) mod huffman;
pub(crate) mod integer;
pub(crate) mod peer_dynamic_table;
pub(crate) mod repeated_fields;
pub mod static_encoder;
pub(crate) mod static_table;
pub(crate) mod string;

/// The error of a compressed section. None of them can be mended: the content of the peer's table
/// is no longer known, so the connection must close (RFC 9113 §4.3, RFC 9204 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompressionError {
    /// A bad code, the end-of-string symbol, or padding that is none (RFC 7541 §5.2).
    Huffman,
    /// An index that no table has (RFC 7541 §2.3.3).
    Index,
    /// An integer over the limit, or in more bytes than it could need (RFC 7541 §5.1).
    Integer,
    /// A reference to a dynamic table where there is none (RFC 9204 §4.5.1).
    NoTable,
    /// A table size is over the allowed one, or comes after the first field (RFC 7541 §4.2).
    TableSize,
    /// The block ends within a field.
    Truncated,
    /// A section over the limits continues to copy names within the table: far more work than its
    /// bytes are worth. See [`TABLE_COPY_MAX_BYTES`](crate::limits::TABLE_COPY_MAX_BYTES).
    Work,
}

impl CompressionError {
    /// Returns the error in a few words, for the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            CompressionError::Huffman => "malformed Huffman code",
            CompressionError::Index => "index beyond the tables",
            CompressionError::Integer => "integer over the limit",
            CompressionError::NoTable => "reference to a table of no size",
            CompressionError::TableSize => "table size not allowed",
            CompressionError::Truncated => "block ends within a field",
            CompressionError::Work => "block is far more work than it is long",
        }
    }
}

impl core::fmt::Display for CompressionError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl core::error::Error for CompressionError {}

#[cfg(test)]
mod tests;
