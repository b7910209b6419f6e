//! Writes the frames of the server, besides [batches of requests](super::request_batch).

use super::frame_header::{
    CHANNEL, CLOSED, CONTENT, CONTENT_END, FILES, FRAME_HEADER_BYTES, GONE, MESSAGE,
    MESSAGE_CONTINUES, MESSAGE_IS_BINARY, ROOM, STACK, TAKE_BACK, header,
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

/// The token that a connection and its channel for files share, so that the process finds one from
/// the other.
pub type ChannelToken = [u8; 16];

/// Tells the process by which channel the descriptors of files for this connection come; by none
/// if it has to read its files itself.
pub fn write_files(out: &mut Vec<u8>, token: Option<&ChannelToken>) {
    let token = token.map_or(&[][..], <[u8; _]>::as_slice);
    out.extend_from_slice(&header(FILES, 0, token.len() as u32));
    out.extend_from_slice(token);
}

/// Makes a connection a channel for files: the only frame that is sent on it.
#[must_use]
pub fn channel_frame(token: &ChannelToken) -> Vec<u8> {
    [&header(CHANNEL, 0, token.len() as u32)[..], token].concat()
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

/// The kind and position of a piece of a message of a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePiece {
    /// Whether the message is binary, and not text.
    pub is_binary: bool,
    /// Whether the message is complete.
    pub is_end: bool,
}

/// Most bytes of a piece of a message in one frame, which has its flags beside it.
pub const MESSAGE_PIECE_MAX_BYTES: usize = FRAME_CONTENT_MAX_BYTES as usize - 1;

/// Appends a piece of a message, which `append` appends to the vector: at most
/// [`MESSAGE_PIECE_MAX_BYTES`], and less than the application wants. If it returns `None` nothing
/// is appended. Returns the bytes that count as wanted: those of the piece and one for its flags.
pub fn write_message(
    out: &mut Vec<u8>,
    request: u32,
    append: impl FnOnce(&mut Vec<u8>) -> Option<MessagePiece>,
) -> u32 {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_HEADER_BYTES + 1]);
    let Some(MessagePiece { is_binary, is_end }) = append(out) else {
        out.truncate(start);
        return 0;
    };
    let bytes = (out.len() - start - FRAME_HEADER_BYTES) as u32;
    debug_assert!(bytes <= FRAME_CONTENT_MAX_BYTES, "a piece of a message has a limit");
    let mut flags = if is_binary { MESSAGE_IS_BINARY } else { 0 };
    if !is_end {
        flags |= MESSAGE_CONTINUES;
    }
    let frame = out.get_mut(start..).and_then(<[u8]>::split_first_chunk_mut);
    if let Some((its_header, [its_flags, ..])) = frame {
        *its_header = header(MESSAGE, request, bytes);
        *its_flags = flags;
    }
    bytes
}

/// Says that the client of a WebSocket has closed it.
pub fn write_closed(out: &mut Vec<u8>, request: u32, code: u16, reason: &str) {
    out.extend_from_slice(&header(CLOSED, request, (size_of::<u16>() + reason.len()) as u32));
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(reason.as_bytes());
}
