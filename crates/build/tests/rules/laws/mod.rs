//! The laws of any bytes in a rules file, one for each fuzz target.

pub(crate) mod headers;
mod place;
pub(crate) mod redirects;
