//! The head and the content of a request on their way to the connection.

use pinion_engine::exchange::{Room, Slice};
use pinion_engine::raw::RawStream;
use pinion_http::field::Field;
use pinion_http::h1::client::content_writer::ContentWriter;
use pinion_http::h1::client::request_error::RequestError;
use pinion_http::h1::client::request_writer::{
    ConnectionOption, OutgoingRequest, RequestContent, RequestTarget, SentRequest, write_request,
};

use super::request::{ClientRequest, PendingRequest, RequestBody};
use crate::limits::COPIED_CONTENT_MAX_BYTES;

/// A head as it is sent, and what belongs to it.
#[derive(Debug)]
pub(super) struct WrittenHead {
    pub(super) bytes: Vec<u8>,
    pub(super) sent: SentRequest,
    pub(super) writer: ContentWriter,
}

/// The field that lists the codings that are decoded.
pub(super) const ACCEPT_ENCODING: &str = "Accept-Encoding";

/// Bytes of a field line beside its name and its value.
const LINE_BYTES: usize = b": \r\n".len();
/// Bytes of what the client writes itself: the request line, `Host`, the framing and, for a request
/// of its own, the default fields.
const OWN_PARTS_BYTES: usize = 192;

/// Returns the fields that every request has, unless the caller has given others.
fn default_fields(codings: &'static [u8]) -> [Field<'static>; 3] {
    let agent = concat!("Pinion/", env!("CARGO_PKG_VERSION")).as_bytes();
    [
        Field { name: b"Accept", value: b"*/*" },
        Field { name: ACCEPT_ENCODING.as_bytes(), value: codings },
        Field { name: b"User-Agent", value: agent },
    ]
}

/// Writes the head of a request, whose response may be in these codings.
///
/// # Errors
/// A part of it is malformed, or has to be left to the client.
pub(super) fn write_head(
    request: &ClientRequest,
    codings: &'static [u8],
) -> Result<WrittenHead, RequestError> {
    let forwarded = request.forwarded.as_ref();
    let url = &request.url;
    let authority = forwarded.map_or(url.authority().as_bytes(), |one| &one.authority);
    let target = forwarded.map_or(url.path_and_query().as_bytes(), |one| &one.target);
    let content = match &request.content {
        RequestBody::Whole(content) => RequestContent::Length(content.len() as u64),
        RequestBody::Pieces { length: Some(bytes) } => RequestContent::Length(*bytes),
        RequestBody::Pieces { length: None } => RequestContent::Chunked,
    };
    let outgoing = OutgoingRequest {
        method: request.method.as_bytes(),
        content,
        connection: match forwarded.and_then(|one| one.upgrade.as_ref()) {
            Some(protocols) => ConnectionOption::Upgrade(protocols.as_bytes()),
            None => ConnectionOption::KeepAlive,
        },
        accepts_trailers: forwarded.is_some_and(|one| one.accepts_trailers),
        ..OutgoingRequest::get(RequestTarget::Origin { authority, target })
    };
    let fields = &request.fields;
    let is_given = |name: &[u8]| fields.iter().any(|own| own.name.eq_ignore_ascii_case(name));
    let is_added = |field: &Field<'_>| forwarded.is_none() && !is_given(field.name);
    let defaults = default_fields(codings).into_iter().filter(is_added);
    let (lines, text_bytes) = fields.size();
    let parts = request.method.len() + authority.len() + target.len();
    let mut bytes = Vec::with_capacity(parts + text_bytes + lines * LINE_BYTES + OWN_PARTS_BYTES);
    let written = write_request(&mut bytes, &outgoing, fields.iter().chain(defaults))?;
    Ok(WrittenHead { bytes, sent: written.request, writer: written.content })
}

/// Sends the head, and the content that is there. Returns whether there is room for more.
///
/// # Errors
/// The content is longer than was announced.
pub(super) fn send_head(
    mut head: WrittenHead,
    pending: &mut PendingRequest,
    stream: &mut RawStream<'_>,
) -> Result<(ContentWriter, Room), RequestError> {
    let content = match &pending.request.content {
        RequestBody::Whole(content) => &content[..],
        RequestBody::Pieces { .. } => &[],
    };
    if content.len() <= COPIED_CONTENT_MAX_BYTES {
        head.writer.write(&mut head.bytes, content)?;
        return Ok((head.writer, stream.write(Slice::Copied(&head.bytes))));
    }
    let end = head.writer.frame(&mut head.bytes, content.len() as u64)?;
    let mut room = Room::Free;
    for part in [&head.bytes, content, end].into_iter().filter(|part| !part.is_empty()) {
        room = stream.write(Slice::Copied(part));
    }
    Ok((head.writer, room))
}

/// Sends pieces of the content that have come, and its end. Returns whether there is room for more.
///
/// # Errors
/// The content is longer or shorter than was announced.
pub(super) fn send_pieces(
    writer: &mut ContentWriter,
    pending: &mut PendingRequest,
    stream: &mut RawStream<'_>,
) -> Result<Room, RequestError> {
    let mut bytes = Vec::new();
    if !pending.unsent.is_empty() {
        writer.write(&mut bytes, &pending.unsent)?;
        pending.unsent.clear();
        pending.has_sent_pieces = true;
    }
    if pending.has_all_pieces {
        writer.end(&mut bytes, pending.request_trailers.iter())?;
    }
    if bytes.is_empty() {
        return Ok(Room::Free);
    }
    Ok(stream.write(Slice::Copied(&bytes)))
}
