//! Every limit of the protocol with Python processes, unit last in the name, the reason beside the
//! value. The variables of a request have the limit [`VARIABLES_MAX_BYTES`]; heads and content of
//! responses have those of [`ResponseLimits`](crate::h1::client::limits::ResponseLimits).

use crate::cgi::limits::VARIABLES_MAX_BYTES;
use crate::h1::client::limits::RESPONSE_HEAD_MAX_BYTES;

/// Most requests of one batch. A process reads a batch with one call of the system, and more than
/// this would save less than a hundredth of such a call for each request.
pub const BATCH_REQUESTS_MAX: u32 = 32;

/// Most bytes of one batch, without the header of its frame. A process reads a batch whole before
/// it executes the first request of it, so this is memory of each connection.
pub const BATCH_MAX_BYTES: usize = 1024 * 1024;

/// Most bytes of a value that is written once for several requests of a batch. Longer ones, such as
/// cookies, are seldom the same in two requests.
pub const SHARED_VALUE_MAX_BYTES: usize = 256;

/// Most bytes of memory that an empty batch keeps: a batch of usual requests of browsers, each with
/// one or two KiB.
pub const KEPT_BATCH_MAX_BYTES: usize = 64 * 1024;

/// Most bytes of content that a request has within a batch. Forms of pages are below it; more is
/// sent piece by piece, when the application reads it.
pub const BATCHED_CONTENT_MAX_BYTES: usize = 64 * 1024;

// The variables of a request, each byte in two bytes of UTF-8, and its content fit into a batch.
const _: () =
    assert!(2 * VARIABLES_MAX_BYTES + BATCHED_CONTENT_MAX_BYTES + 64 * 1024 <= BATCH_MAX_BYTES);

/// Most bytes of content of one frame, in both directions. A response that is not longer comes in
/// one frame with its head.
pub const FRAME_CONTENT_MAX_BYTES: u32 = 64 * 1024;

/// The number of bytes of content of a response that a process may send before it is given more
/// room: enough that content flows while the next room is under way.
pub const INITIAL_ROOM_BYTES: u32 = 256 * 1024;

/// Most bytes of a frame `READY`. Its four members need some hundred.
pub const READY_MAX_BYTES: u32 = 4 * 1024;

/// Most bytes of the text in which a process explains why it abandons a request. It is one line of
/// the log.
pub const FAILURE_TEXT_MAX_BYTES: u32 = 8 * 1024;

/// Most bytes of a frame that closes a WebSocket: those that a control frame of one has (RFC 6455
/// §5.5).
pub const CLOSE_MAX_BYTES: u32 = 125;

/// Most requests that are taken back with one frame: more than any process has in its backlog.
pub const TAKEN_BACK_MAX: u32 = 4 * 1024;

/// Most bytes of a head that is over its limit and is skipped, so that the other requests of the
/// connection go on. A process that sends more than this is not one of this protocol.
pub const SKIPPED_HEAD_MAX_BYTES: u32 = 1024 * 1024;

const _: () = assert!(RESPONSE_HEAD_MAX_BYTES <= SKIPPED_HEAD_MAX_BYTES as usize);

/// Most bytes of memory that a reader keeps from frame to frame; usual heads fit. The additional
/// memory of a longer frame is freed after it.
pub const KEPT_BUFFER_MAX_BYTES: usize = 4 * 1024;

/// Most bytes of the text of an IP address: six groups of four digits with colons, and an IPv4
/// address (RFC 4291 §2.2).
pub const SCOPE_ADDRESS_MAX_BYTES: usize = 45;
