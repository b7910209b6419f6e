//! The HTTP/1 wire machine (RFC 9112). The server side: heads in, content and trailers in, heads
//! out. The other side is [`client`].
//!
//! | Module | Contents |
//! |---|---|
//! | [`head`] | request heads; `scan` is their lexer, which also reads the fields of responses |
//! | [`body`], [`trailers`] | the content of a message, and the trailer fields of chunked content |
//! | [`glance`] | hints for the error page from the bytes of a refused request |
//! | [`encode`] | response heads on the wire |
//! | [`client`] | the client side: requests, and the parser of responses |

pub mod body;
pub mod client;
pub mod encode;
pub mod glance;
pub mod head;
pub(crate) mod scan;
pub mod trailers;
