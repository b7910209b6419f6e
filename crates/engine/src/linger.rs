//! The end of a connection behind its last response. What the peer still sends is read and dropped
//! for a while: a plain close would reset the connection under the response (RFC 9112 §9.6).

/// See the module's head.
pub(crate) struct Linger {
    /// The last response has not left in full.
    pub(crate) is_sending: bool,
    /// The peer may still be sending: it is read from once the response has left.
    pub(crate) reads_on: bool,
    /// It spoke HTTP/2, where a client goes on speaking while it reads.
    pub(crate) was_http2: bool,
    /// Bytes that were dropped.
    pub(crate) dropped: u32,
}
