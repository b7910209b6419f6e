//! Every limit of HTTP/2 alone, unit last in the name, the reason beside the value.

use crate::limits::STREAMS_MAX;

/// Bytes of content under way or not consumed on one stream, at most: as many as 160 Mbit/s carry
/// in a round trip of 100 ms. Every stream begins with the default of the protocol (65 535 bytes,
/// RFC 9113 §6.5.2), below which clients that check nothing fail.
pub const STREAM_WINDOW_MAX_BYTES: u32 = 2 * 1024 * 1024;

/// The factor by which a stream window grows when it holds the client back. A measured round trip
/// and the one until the client uses the larger window are two, in which slow start of TCP doubles
/// twice.
pub const WINDOW_GROWTH: u32 = 4;

/// Round trips that are measured one after the other: the first may begin in the middle of a burst
/// of the client, the others begin with one, and slow start of TCP doubles in each.
pub const MEASURE_ATTEMPTS: u8 = 4;

/// The number of stream windows of content that are consumed after those before another round trip
/// is measured, if the window did not grow: over a short path a PING for each would cost more than
/// it brings.
pub const MEASURE_PAUSE_WINDOWS: u32 = 8;

/// Bytes of content on its way on a whole connection. It takes no memory, and is never closed: so
/// much that streams which are read never wait for it.
pub const CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// Bytes of a field block that is gathered from several frames. Above the limit of a head, so that
/// one which is too large gets its 431; a longer one ends the connection, since the table of HPACK
/// cannot be kept without reading all of it (CVE-2024-27316, the flood of CONTINUATION).
pub const BLOCK_MAX_BYTES: usize = 48 * 1024;

/// Bytes below which a frame that continues a field block without ending it is a trifle: who cuts
/// a block in several frames has filled the ones before.
pub const CONTINUATION_MIN_BYTES: usize = 1024;

/// Streams that this side has ended while the client may still send: as many as can be open, so
/// that even if all end at once, no client is treated as faulty.
pub const IGNORED_STREAMS_MAX: usize = STREAMS_MAX as usize;

/// Bytes of a DATA frame below which it counts as no work when it took the last of a window: a
/// client that opens its windows byte by byte pays for that (CVE-2019-9511, the data dribble).
pub const DRIBBLE_BYTES: usize = 512;
