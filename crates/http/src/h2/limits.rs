//! Every limit of HTTP/2, unit last in the name, the reason beside the value. What a client can
//! cause with few bytes has a [`Budget`], which work worth doing fills again.

use super::budget::Row;

/// Streams a client may have open at once: browsers use up to 100, and a stream costs little.
pub const STREAMS_MAX: u16 = 128;

/// Bytes of content a client may send on a stream before the application has asked for any: a form
/// fits, and an upload nobody wants stops there.
pub const STREAM_WINDOW_BYTES: u32 = 32 * 1024;

/// Bytes of content on its way on one stream at most, however much the application wants: what
/// keeps 100 Mbit/s busy over 20 ms.
pub const STREAM_WINDOW_MAX_BYTES: u32 = 256 * 1024;

/// Bytes of content on its way, or not yet taken, on a whole connection: two streams at full speed
/// or sixteen whose content nobody has asked for.
pub const CONNECTION_WINDOW_BYTES: u32 = 512 * 1024;

/// Bytes of a field block that is gathered from several frames. Above the limit of a head, so that
/// one which is too large gets its 431; a longer one ends the connection, since the table of HPACK
/// cannot be kept without reading all of it (CVE-2024-27316, the flood of CONTINUATION).
pub const BLOCK_MAX_BYTES: usize = 48 * 1024;

/// Bytes below which a frame that continues a field block without ending it is a trifle: who cuts
/// a block in several frames has filled the ones before.
pub const CONTINUATION_MIN_BYTES: usize = 1024;

/// Streams that this side has ended while the client may still send: as many as can be open, so
/// that ending all at once makes nobody wrong.
pub const IGNORED_STREAMS_MAX: usize = STREAMS_MAX as usize;

/// Bytes of a DATA frame below which it counts as no work when it took the last of a window: a
/// client that opens its windows byte by byte pays for that (CVE-2019-9511, the data dribble).
pub const DRIBBLE_BYTES: usize = 512;

/// Streams that ended without an answer: by RST_STREAM (CVE-2023-44487, the rapid reset), or by a
/// fault of the client that made this side end them (CVE-2025-8671, made you reset), or refused
/// because too many were open. A browser that leaves a page ends all its streams at once, and may
/// do so twice.
pub(super) const RESETS: Row = Row {
    burst: 2 * STREAMS_MAX,
    data_max: 0,
    per_second: 8,
    per_answer: 1,
    per_data: 0,
    per_kib: 0,
};

/// SETTINGS and PING, which must be answered (CVE-2019-9512, CVE-2019-9515). Some clients measure
/// round trips by PING while content flows.
pub(super) const REPLIES: Row =
    Row { burst: 128, data_max: 128, per_second: 16, per_answer: 2, per_data: 1, per_kib: 0 };

/// Frames that change nothing: empty DATA and short CONTINUATION (CVE-2019-9518), PRIORITY,
/// PRIORITY_UPDATE (CVE-2019-9513), unknown types, frames for streams that have ended.
pub(super) const TRIFLES: Row =
    Row { burst: 1024, data_max: 0, per_second: 32, per_answer: 8, per_data: 0, per_kib: 0 };

/// WINDOW_UPDATE. Clients send one or two for each DATA frame they get, or for each 4 KiB they have
/// read of it (Go), and some one for each request. Those for DATA come when it was read, perhaps
/// long after all of it was sent, so what is earned by it adds up.
pub(super) const WINDOWS: Row =
    Row { burst: 1024, data_max: u16::MAX, per_second: 32, per_answer: 4, per_data: 3, per_kib: 1 };
