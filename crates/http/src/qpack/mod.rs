//! QPACK (RFC 9204): the field sections of HTTP/3. The peer has no dynamic table to refer to, and
//! this side uses that of the peer.
//!
//! [`decoder`] reads sections. [`static_encoder`] writes them with the static table alone, and
//! [`dynamic_encoder`] with the table of the peer. [`instruction_streams`] reads the encoder and
//! the decoder stream of the peer. `static_table` is the static table (RFC 9204 Appendix A).

pub mod decoder;
pub mod dynamic_encoder;
pub mod instruction_streams;
pub mod static_encoder;
pub(crate) mod static_table;
