//! The HTTP/1 wire machine (RFC 9112). The server side: heads in, content and trailers in, heads
//! out. The other side is [`client`].

pub mod body;
pub mod client;
pub mod encode;
pub mod glance;
pub mod head;
pub(crate) mod scan;
pub mod trailers;
