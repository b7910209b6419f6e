//! The laws of any bytes in a rules file, one for each fuzz target.

mod error_position;
pub(crate) mod headers;
pub(crate) mod redirects;
