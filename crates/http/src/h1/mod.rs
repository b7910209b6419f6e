//! The HTTP/1 wire machine, server side (RFC 9112): heads in, content and trailers in,
//! heads out.

pub mod body;
pub mod encode;
pub mod glance;
pub mod head;
pub(crate) mod scan;
pub mod trailers;
