//! QPACK (RFC 9204): the field sections of HTTP/3, with a dynamic table of no size on either side.
//!
//! [`decoder`] reads sections, [`encode`] writes them, [`streams`] reads what little may come on
//! the two streams that would keep a table.

pub mod decoder;
pub mod encode;
pub(crate) mod static_table;
pub mod streams;
