//! What holds for any bytes in a rules file, one law for each fuzz target.

pub(crate) mod headers;
mod place;
pub(crate) mod redirects;
