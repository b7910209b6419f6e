//! Every limit of responses over HTTP/1, unit last in the name, the reason beside the value.
//! Trailer sections and chunk lines have the limits of requests:
//! [`TRAILER_MAX_BYTES`](crate::limits::TRAILER_MAX_BYTES),
//! [`CHUNK_LINE_MAX_BYTES`](crate::limits::CHUNK_LINE_MAX_BYTES).

/// Most bytes of one head, status line and blank line included. Servers send up to some 8 KiB, the
/// default of nginx as a proxy. This is far above, and the positions of fields still have 16 bits.
pub const RESPONSE_HEAD_MAX_BYTES: usize = 64 * 1024;

// The last four bytes of a head are ends of lines, in which no field begins or ends.
const _: () = assert!(RESPONSE_HEAD_MAX_BYTES - 4 <= u16::MAX as usize);

/// Most field lines of one head. Twice the limit of a request: sites that set many cookies have
/// more than 100. The positions of known fields have 8 bits.
pub const RESPONSE_FIELDS_MAX: usize = 200;

/// Most interim responses before the final one. A server sends 100 and 103 once or twice, and 102
/// about every 20 seconds (RFC 2518 §10.1), so this is enough for ten minutes.
pub const INTERIM_RESPONSES_MAX: usize = 32;

/// Most bytes of chunk extensions of a response, over all of its chunks. No known server sends any,
/// and without a limit few bytes of content could come with any number of them (RFC 9112 §7.1.1).
/// The first 18 bytes of a chunk line do not count; they are the size.
pub const CHUNK_EXTENSIONS_MAX_BYTES: u64 = 16 * 1024;

/// The limits that a client may set for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseLimits {
    /// Most bytes of one head, at most [`RESPONSE_HEAD_MAX_BYTES`]. The head waits in the caller's
    /// buffer until it is whole, so this is the memory that a response needs.
    pub head_bytes: usize,
    /// Most field lines of one head, at most [`RESPONSE_FIELDS_MAX`].
    pub fields: usize,
    /// Most interim responses; see [`INTERIM_RESPONSES_MAX`].
    pub interim_responses: usize,
    /// Most bytes of chunk extensions; see [`CHUNK_EXTENSIONS_MAX_BYTES`].
    pub chunk_extension_bytes: u64,
    /// Most bytes of content, chunk framing not included. There is no limit by default, since the
    /// parser stores no content.
    pub content_bytes: u64,
}

impl Default for ResponseLimits {
    fn default() -> ResponseLimits {
        ResponseLimits {
            head_bytes: RESPONSE_HEAD_MAX_BYTES,
            fields: RESPONSE_FIELDS_MAX,
            interim_responses: INTERIM_RESPONSES_MAX,
            chunk_extension_bytes: CHUNK_EXTENSIONS_MAX_BYTES,
            content_bytes: u64::MAX,
        }
    }
}
