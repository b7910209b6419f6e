//! The events of a response from a program.

use crate::h1::client::response_parser::ResponseEvent;

/// The number of bytes of the input that were used, and their event.
#[derive(Debug)]
pub struct GatewayStep<'a> {
    /// Bytes at the front of the input that need not be given again.
    pub used: usize,
    /// The event of these bytes.
    pub event: GatewayEvent<'a>,
}

/// A part of a response. Events come in this order: one head or one local redirect, any number of
/// pieces of content, and the end; `NeedMore` and `Stderr` come anywhere before the end.
#[derive(Debug)]
pub enum GatewayEvent<'a> {
    /// An event that a response over HTTP/1 has as well. There are no interim responses and no
    /// trailers.
    Response(ResponseEvent<'a>),
    /// The response to the request is that to a GET for this path and query (RFC 3875 §6.2.2). It
    /// comes instead of a head, no content follows, and the end does.
    LocalRedirect(&'a [u8]),
    /// Bytes that the application wrote to its error stream, for the log. Only FastCGI has them.
    Stderr(&'a [u8]),
}
