//! Every limit of HTTP/2 alone, unit last in the name, the reason beside the value.

use crate::limits::STREAMS_MAX;

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
