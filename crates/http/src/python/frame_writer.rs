//! Writes the frames of the server, besides [batches of requests](super::request_batch).

use super::frame::{
    CONTENT, CONTENT_END, FRAME_HEADER_BYTES, GONE, ROOM, STACK, TAKE_BACK, header,
};
use super::limits::{FRAME_CONTENT_MAX_BYTES, TAKEN_BACK_MAX};

/// Makes the header of a frame with so many bytes of content, at most
/// [`FRAME_CONTENT_MAX_BYTES`]; the content must follow. For content that is sent from where it is,
/// without a copy.
#[must_use]
pub const fn content_header(request: u32, bytes: u32) -> [u8; FRAME_HEADER_BYTES] {
    debug_assert!(bytes <= FRAME_CONTENT_MAX_BYTES, "content of a frame has a limit");
    header(CONTENT, request, bytes)
}

/// Appends content of a request, in as many frames as it needs. There must not be more than the
/// application wants.
pub fn write_content(out: &mut Vec<u8>, request: u32, content: &[u8]) {
    for piece in content.chunks(FRAME_CONTENT_MAX_BYTES as usize) {
        out.reserve(FRAME_HEADER_BYTES + piece.len());
        out.extend_from_slice(&content_header(request, piece.len() as u32));
        out.extend_from_slice(piece);
    }
}

/// Appends the end of the content of a request.
pub fn write_content_end(out: &mut Vec<u8>, request: u32) {
    out.extend_from_slice(&header(CONTENT_END, request, 0));
}

/// Allows a process to send so many more bytes of the content of a response.
pub fn write_room(out: &mut Vec<u8>, request: u32, bytes: u32) {
    out.extend_from_slice(&header(ROOM, request, size_of::<u32>() as u32));
    out.extend_from_slice(&bytes.to_le_bytes());
}

/// Says that the client of a request has left, or that its response is not needed any more.
pub fn write_gone(out: &mut Vec<u8>, request: u32) {
    out.extend_from_slice(&header(GONE, request, 0));
}

/// Has the process write to its standard error where in the application the request is.
pub fn write_stack(out: &mut Vec<u8>, request: u32) {
    out.extend_from_slice(&header(STACK, request, 0));
}

/// Asks for the requests with these numbers, as far as they were not started. It writes as many
/// frames as [`TAKEN_BACK_MAX`] needs.
pub fn write_take_back(out: &mut Vec<u8>, requests: &[u32]) {
    for some in requests.chunks(TAKEN_BACK_MAX as usize) {
        out.extend_from_slice(&header(TAKE_BACK, 0, size_of_val(some) as u32));
        for request in some {
            out.extend_from_slice(&request.to_le_bytes());
        }
    }
}
