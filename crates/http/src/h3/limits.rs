//! Every limit of HTTP/3 alone, unit last in the name, the reason beside the value.

use crate::limits::HEAD_MAX_BYTES;

/// Bytes of a frame of fields that the reader waits for. It is above the limit of a head with all
/// the bytes that QPACK adds to its fields, so that a head within that limit fits, unless its
/// Huffman codes make it longer. Of a longer frame only so many bytes are read.
pub const BLOCK_MAX_BYTES: usize = HEAD_MAX_BYTES + 8 * 1024;

/// Bytes of a frame on the control stream: the settings and priorities of any client are below 100.
pub const CONTROL_FRAME_MAX_BYTES: usize = 1024;

/// Bytes of skipped frames that count as one more frame that changes nothing: no limit of content
/// holds for them.
pub const SKIP_UNIT_BYTES: u64 = 16 * 1024;
