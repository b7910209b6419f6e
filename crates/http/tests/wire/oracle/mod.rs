//! Plain readings to compare with. Each file stands alone, so that a fuzz target can include it.

pub(crate) mod accept_encoding;
pub(crate) mod h1_body;
pub(crate) mod h1_request;
pub(crate) mod h2;
pub(crate) mod h3;
pub(crate) mod hpack;
pub(crate) mod qpack;
pub(crate) mod range;
pub(crate) mod target_decode;
