//! Every limit of the protocol: each name ends with its unit, and each value has its reason beside
//! it. Work that a client can cause with few bytes has a [`Budget`](crate::flood_budget::Budget),
//! which useful work fills again.

use crate::flood_budget::BudgetRefill;

/// Most bytes of a request head, request line and blank line included, as HTTP/1 has them: twice as
/// many as browsers with heavy cookies send, and small enough to be the size of one input buffer.
pub const HEAD_MAX_BYTES: usize = 16 * 1024;

/// Most field lines in a head: browsers send about 20, chains of proxies about 50. Over HTTP/2 and
/// HTTP/3 those are counted that HTTP/1 would have.
pub const FIELDS_MAX: usize = 100;

/// Most bytes of a request target: RFC 9112 §3 asks for at least 8000.
pub const TARGET_MAX_BYTES: usize = 8 * 1024;

/// Most bytes of a method token: the longest registered one has 17 (`UPDATEREDIRECTREF`).
pub const METHOD_MAX_BYTES: usize = 32;

/// Most empty lines before a request line: RFC 9112 §2.2 asks for one; old clients sent a stray
/// one after a POST body, so a second may come from a proxy that adds its own.
pub const LEADING_EMPTY_LINES_MAX: usize = 2;

/// Most bytes of a header of the PROXY protocol, version 1, CRLF included: the longest that its
/// specification allows (§2.1, for `UNKNOWN` with two IPv6 addresses).
pub const PROXY_LINE_MAX_BYTES: usize = 107;

/// Most addresses in `X-Forwarded-For` or `Forwarded` of a request that comes from a trusted proxy.
/// Each proxy adds one, and a request that has passed so many goes round in circles.
pub const FORWARDED_HOPS_MAX: usize = 100;

/// Most bytes of a header of the PROXY protocol, version 2, records included. Its addresses need at
/// most 232; the records that proxies add (ALPN, host, identity of an endpoint, fields of a
/// certificate) need some hundred. It is also the limit of nginx.
pub const PROXY_HEADER_MAX_BYTES: usize = 4096;

/// Most bytes of content one request may carry: enough for a form upload of a page; static
/// resources need none.
pub const BODY_MAX_BYTES: u64 = 1024 * 1024;

/// Most bytes of content read only to be dropped, so that the connection stays usable after an
/// answer that did not need them: cheaper than a new connection up to about this size.
pub const BODY_DISCARD_MAX_BYTES: u64 = 1024 * 1024;

/// Most bytes of one chunk-size line, extensions and CRLF included: the size needs 18, and
/// extensions are not in use.
pub const CHUNK_LINE_MAX_BYTES: usize = 256;

/// Most bytes of a trailer section, its blank line included: checksums and signatures, the purpose
/// of trailers, need some hundred. It waits in one piece until it is whole, so this is below the
/// limit of a head.
pub const TRAILER_MAX_BYTES: usize = 8 * 1024;

/// Most bytes of the boundary of a form, as RFC 2046 §5.1.1 allows.
pub const BOUNDARY_MAX_BYTES: usize = 70;

/// Most bytes of the head of a part of a form, its empty line included: two names and a type, and
/// the longest name of a file that systems have is 1020 bytes of UTF-8.
pub const PART_HEAD_MAX_BYTES: usize = 8 * 1024;

/// Most bytes of the name of a field of a form: programs that write nested names make some hundred.
pub const PART_NAME_MAX_BYTES: usize = 1024;

/// Most parts of a form: forms that people fill in have tens.
pub const PARTS_MAX: usize = 1000;

/// Most ranges of one request: RFC 9110 §14.2 asks to be wary of many; viewers ask for one to
/// four. A request with more gets the whole representation.
pub const RANGES_MAX: usize = 16;

/// Most members of one list-based field that are read (entity tags, codings, media types): no
/// client sends more than a handful; the rest is ignored.
pub const LIST_MEMBERS_MAX: usize = 64;

/// Most bytes of a table that the peer of a connection fills (RFC 7541 §4.2): four times as many as
/// every peer may use unasked (RFC 9113 §6.5.2), and not above a head, so that the buffer in which
/// a head is decoded has room for an entry.
pub const TABLE_MAX_BYTES: usize = 16 * 1024;

/// Most bytes of names that one field block may have copied from entry to entry of the table after
/// its section is over the limits. Two bytes can request a copy of a whole entry, so this bounds
/// the work for a block: 64 entries of a table of 4096 bytes. Clients that send honest requests are
/// not over the limits.
pub const TABLE_COPY_MAX_BYTES: usize = 256 * 1024;

/// Bytes that a field of a head counts for beside its name and its value (RFC 9113 §10.5.1, RFC
/// 9114 §4.2.2): the size of an entry in a table of fields.
pub const FIELD_OVERHEAD_BYTES: usize = 32;

/// Most bytes of a head after decompression, as
/// [`decoded_bytes`](crate::request_head::RequestHead::decoded_bytes) counts them: more than it can
/// be, since the target and a `Host` that was made of it are within the limit of a head together.
pub const DECODED_HEAD_MAX_BYTES: usize =
    2 * HEAD_MAX_BYTES + (FIELDS_MAX + 1) * FIELD_OVERHEAD_BYTES;

/// Streams a client of HTTP/2 or HTTP/3 may have open at once: browsers use up to 100, and a stream
/// costs little.
pub const STREAMS_MAX: u16 = 128;

/// Streams that ended without a response: by a reset (CVE-2023-44487, the rapid reset), or by a
/// fault of the client that made this side end them (CVE-2025-8671, made you reset), or refused
/// because too many were open. A browser that leaves a page ends all its streams at once, and may
/// do so twice.
pub(crate) const RESETS: BudgetRefill = BudgetRefill {
    burst: 2 * STREAMS_MAX,
    data_max: 0,
    per_second: 8,
    per_response: 1,
    per_data: 0,
    per_kib: 0,
};

/// SETTINGS and PING, which must be answered (CVE-2019-9512, CVE-2019-9515). Some clients measure
/// round trips by PING while content flows.
pub(crate) const REPLIES: BudgetRefill = BudgetRefill {
    burst: 128,
    data_max: 128,
    per_second: 16,
    per_response: 2,
    per_data: 1,
    per_kib: 0,
};

/// Frames that change nothing: empty DATA and short CONTINUATION (CVE-2019-9518), PRIORITY,
/// PRIORITY_UPDATE (CVE-2019-9513), unknown types, frames for streams that have ended; with HTTP/3
/// all frames of the control stream, and streams without a reader.
pub(crate) const TRIFLES: BudgetRefill = BudgetRefill {
    burst: 1024,
    data_max: 0,
    per_second: 32,
    per_response: 8,
    per_data: 0,
    per_kib: 0,
};

/// WINDOW_UPDATE. Clients send one or two for each DATA frame they get, or for each 4 KiB they have
/// read of it (Go), and some one for each request. Those for DATA come when it was read, perhaps
/// long after all of it was sent, so the credit for it adds up.
pub(crate) const WINDOWS: BudgetRefill = BudgetRefill {
    burst: 1024,
    data_max: u16::MAX,
    per_second: 32,
    per_response: 4,
    per_data: 3,
    per_kib: 1,
};

/// Requests that are refused for their heads: over a limit, or with a field that cannot be. Each
/// may be far more work than bytes (CVE-2016-6581, the bomb of HPACK), and its response is worth
/// nothing, so only time fills this. A browser whose cookies have grown too large has every
/// resource of a page refused, may load it again at once, and then as often as people do.
pub(crate) const HEADS: BudgetRefill = BudgetRefill {
    burst: 2 * STREAMS_MAX,
    data_max: 0,
    per_second: 16,
    per_response: 0,
    per_data: 0,
    per_kib: 0,
};

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
