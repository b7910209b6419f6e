//! Every limit of the protocol, unit last in the name, the reason beside the value.

/// Most bytes of a request head, request line and blank line included: twice what browsers with
/// heavy cookies send, and small enough to be the size of one input buffer.
pub const HEAD_MAX_BYTES: usize = 16 * 1024;

/// Most field lines in a head: browsers send about 20, chains of proxies about 50.
pub const FIELDS_MAX: usize = 100;

/// Most bytes of a request target: RFC 9112 §3 asks for at least 8000.
pub const TARGET_MAX_BYTES: usize = 8 * 1024;

/// Most bytes of a method token: the longest registered one has 17 (`UPDATEREDIRECTREF`).
pub const METHOD_MAX_BYTES: usize = 32;

/// Most empty lines before a request line: RFC 9112 §2.2 asks for one; old clients sent a stray
/// one after a POST body, so a second may come from a proxy that adds its own.
pub const LEADING_EMPTY_LINES_MAX: usize = 2;

/// Most bytes of content one request may carry: what a form upload of a page needs; static
/// resources need none.
pub const BODY_MAX_BYTES: u64 = 1024 * 1024;

/// Most bytes of content read only to be dropped, so that the connection stays usable after an
/// answer that did not need them: cheaper than a new connection up to about this size.
pub const BODY_DISCARD_MAX_BYTES: u64 = 1024 * 1024;

/// Most bytes of one chunk-size line, extensions and CRLF included: the size needs 18, nobody
/// uses extensions.
pub const CHUNK_LINE_MAX_BYTES: usize = 256;

/// Most bytes of a trailer section, its blank line included: checksums and signatures, which is
/// what trailers are for, need some hundred. It waits in one piece until it is whole, so this is
/// below the limit of a head.
pub const TRAILER_MAX_BYTES: usize = 8 * 1024;

/// Most ranges of one request: RFC 9110 §14.2 asks to be wary of many; viewers ask for one to
/// four. A request with more gets the whole representation.
pub const RANGES_MAX: usize = 16;

/// Most members of one list-based field that are looked at (entity tags, codings, media types):
/// no client sends more than a handful; the rest is ignored.
pub const LIST_MEMBERS_MAX: usize = 64;

/// Most bytes of a table that the peer of a connection fills (RFC 7541 §4.2): four times what every
/// peer may use unasked (RFC 9113 §6.5.2), and not above a head, so that what decodes a head has
/// room for an entry.
pub const TABLE_MAX_BYTES: usize = 16 * 1024;

/// Most bytes of names that one field block may have copied from entry to entry of the table after
/// its section is over the limits. Two bytes can ask for a copy of a whole entry, so this is what
/// bounds the work for a block: 64 entries of a table of 4096 bytes. Who sends honest requests is
/// not over the limits.
pub const TABLE_COPY_MAX_BYTES: usize = 256 * 1024;

/// The limits a listener may set; none can be raised above the constant that sizes its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of a head; see [`HEAD_MAX_BYTES`].
    pub head_bytes: usize,
    /// Most field lines, at most [`FIELDS_MAX`].
    pub fields: usize,
    /// Most bytes of a request target; see [`TARGET_MAX_BYTES`].
    pub target_bytes: usize,
    /// Most bytes of content, unless who reads it says otherwise; see [`BODY_MAX_BYTES`]. For the
    /// reader of the content: a head that announces more is a whole head.
    pub body_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            head_bytes: HEAD_MAX_BYTES,
            fields: FIELDS_MAX,
            target_bytes: TARGET_MAX_BYTES,
            body_bytes: BODY_MAX_BYTES,
        }
    }
}
