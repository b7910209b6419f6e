//! The HTTP/1 wire machine (RFC 9112). The server side: heads in, content and trailers in, heads
//! out. The other side is [`client`].
//!
//! | Module | Contents |
//! |---|---|
//! | [`head_parser`] | request heads; their lexer `head_lexer` also reads the fields of responses |
//! | [`body`], [`trailers`] | the content of a message, and the trailer fields of chunked content |
//! | [`refused_request_hints`] | hints for the error page from the bytes of a refused request |
//! | [`response_encoder`] | response heads on the wire |
//! | [`client`] | the client side: requests, and the parser of responses |

pub mod body;
pub mod client;
pub(crate) mod head_lexer;
pub mod head_parser;
pub mod refused_request_hints;
pub mod response_encoder;
pub mod trailers;
