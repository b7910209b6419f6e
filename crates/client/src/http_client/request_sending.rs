//! The head and the content of a request on their way to the connection.

use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::exchange::{ContentRoom, Slice};
use pinion_http::cgi::response_reader::CgiReader;
use pinion_http::fastcgi::request_writer::FastCgiRequest;
use pinion_http::fastcgi::response_reader::FastCgiReader;
use pinion_http::field::Field;
use pinion_http::h1::client::limits::ResponseLimits;
use pinion_http::h1::client::request_error::RequestError;
use pinion_http::h1::client::request_writer::{
    ConnectionOption, OutgoingRequest, RequestContent, RequestTarget, write_request,
};
use pinion_http::h1::client::response_parser::ResponseParser;
use pinion_http::method::Method;
use pinion_http::{fastcgi, scgi};

use super::error::HttpClientError;
use super::protocol_codec::{RequestFraming, ResponseReader};
use super::request::{ClientRequest, PendingRequest, RequestBody, ServerProtocol};
use crate::limits::COPIED_CONTENT_MAX_BYTES;

/// A head in the form in which it is sent, with the state for its response and its content.
#[derive(Debug)]
pub(super) struct WrittenHead {
    pub(super) bytes: Vec<u8>,
    pub(super) reader: ResponseReader,
    pub(super) framing: RequestFraming,
}

/// The field that lists the codings that are decoded.
pub(super) const ACCEPT_ENCODING: &str = "Accept-Encoding";

/// Bytes of a field line besides its name and its value.
const LINE_BYTES: usize = b": \r\n".len();
/// Bytes of a variable besides its name and its value: two lengths.
const VARIABLE_BYTES: usize = 8;
/// Bytes of the parts that the client itself writes: the request line, `Host`, the framing and, for
/// a request of its own, the default fields.
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
/// Fails if a part of it is malformed, or must not be set by the caller.
pub(super) fn write_head(
    request: &ClientRequest,
    codings: &'static [u8],
) -> Result<WrittenHead, HttpClientError> {
    let variables = match &request.protocol {
        ServerProtocol::Http => return write_http_head(request, codings),
        ServerProtocol::FastCgi { variables, .. } | ServerProtocol::Scgi(variables) => variables,
    };
    let (method, content) = (Method::from_token(request.method.as_bytes()), content_of(request));
    let (lines, text_bytes) = variables.size();
    let mut bytes = Vec::with_capacity(text_bytes + lines * VARIABLE_BYTES + OWN_PARTS_BYTES);
    let (mut variables, limits) = (variables.iter(), ResponseLimits::default());
    if matches!(request.protocol, ServerProtocol::Scgi(_)) {
        let written = scgi::request_writer::write_request(&mut bytes, method, content, |pairs| {
            variables.try_for_each(|variable| pairs.add(variable.name, variable.value))
        })?;
        let reader = ResponseReader::Scgi(CgiReader::new(written.request, &limits));
        return Ok(WrittenHead { bytes, reader, framing: RequestFraming::Http(written.content) });
    }
    let keep_connection =
        matches!(request.protocol, ServerProtocol::FastCgi { keep_connection: true, .. });
    let outgoing = FastCgiRequest { method, content, keep_connection };
    let written = fastcgi::request_writer::write_request(&mut bytes, &outgoing, |params| {
        variables.try_for_each(|variable| params.add(variable.name, variable.value))
    })?;
    let reader = ResponseReader::FastCgi(FastCgiReader::new(written.request, &limits));
    Ok(WrittenHead { bytes, reader, framing: RequestFraming::FastCgi(written.content) })
}

fn content_of(request: &ClientRequest) -> RequestContent {
    match &request.content {
        RequestBody::Whole(content) => RequestContent::Length(content.len() as u64),
        RequestBody::Pieces { length: Some(bytes) } => RequestContent::Length(*bytes),
        RequestBody::Pieces { length: None } => RequestContent::Chunked,
    }
}

fn write_http_head(
    request: &ClientRequest,
    codings: &'static [u8],
) -> Result<WrittenHead, HttpClientError> {
    let forwarded = request.forwarded.as_ref();
    let url = &request.url;
    let authority = forwarded.map_or(url.authority().as_bytes(), |one| &one.authority);
    let target = forwarded.map_or(url.path_and_query().as_bytes(), |one| &one.target);
    let outgoing = OutgoingRequest {
        method: request.method.as_bytes(),
        content: content_of(request),
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
    let reader = ResponseParser::new(written.request, &ResponseLimits::default());
    let reader = ResponseReader::Http(reader);
    Ok(WrittenHead { bytes, reader, framing: RequestFraming::Http(written.content) })
}

/// Sends the head, and the available content. Returns whether there is room for more.
///
/// # Errors
/// Fails if the content is longer than announced.
pub(super) fn send_head(
    mut bytes: Vec<u8>,
    framing: &mut RequestFraming,
    pending: &mut PendingRequest,
    stream: &mut ByteStreamHandle<'_>,
) -> Result<ContentRoom, RequestError> {
    let content = match &pending.request.content {
        RequestBody::Whole(content) => &content[..],
        RequestBody::Pieces { .. } => &[],
    };
    let writer = match framing {
        RequestFraming::Http(writer) if content.len() > COPIED_CONTENT_MAX_BYTES => writer,
        framing => {
            framing.write(&mut bytes, content)?;
            return Ok(stream.write(Slice::Copied(&bytes)));
        }
    };
    let end = writer.frame(&mut bytes, content.len() as u64)?;
    let mut room = ContentRoom::Free;
    for part in [&bytes, content, end].into_iter().filter(|part| !part.is_empty()) {
        room = stream.write(Slice::Copied(part));
    }
    Ok(room)
}

/// Sends the available pieces of the content, and its end. Returns whether there is room for more.
///
/// # Errors
/// Fails if the content is longer or shorter than announced.
pub(super) fn send_pieces(
    framing: &mut RequestFraming,
    pending: &mut PendingRequest,
    stream: &mut ByteStreamHandle<'_>,
) -> Result<ContentRoom, RequestError> {
    let mut bytes = Vec::new();
    if !pending.unsent.is_empty() {
        framing.write(&mut bytes, &pending.unsent)?;
        pending.unsent.clear();
        pending.has_sent_pieces = true;
    }
    // This code runs again and again while the response arrives, and the end is written once.
    if pending.has_all_pieces && !framing.is_complete() {
        framing.end(&mut bytes, pending.request_trailers.iter())?;
    }
    if bytes.is_empty() {
        return Ok(ContentRoom::Free);
    }
    Ok(stream.write(Slice::Copied(&bytes)))
}
