//! Writes the head of a request (RFC 9112 §3), so that it can be read in one way only.
//!
//! A caller's fields are checked: none can end its line, and none can frame the message, name
//! another host or control the connection. Parameters replace such fields.

use super::content_writer::ContentWriter;
use super::request_error::RequestError;
use crate::field::Field;
use crate::grammar::{is_token, is_value_byte, trim};
use crate::h1::response_encoder::decimal;
use crate::host;
use crate::limits::METHOD_MAX_BYTES;
use crate::method::Method;
use crate::request_target::{Form, Target};
use crate::reserved_fields::{FieldUses, reserved_name};

/// A request to be written.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingRequest<'a> {
    /// The method, a token in its own case.
    pub method: &'a [u8],
    /// The target, and with it the value of `Host`.
    pub target: RequestTarget<'a>,
    /// The length of the content.
    pub content: RequestContent,
    /// The option of the request for its connection.
    pub connection: ConnectionOption<'a>,
    /// Whether to ask for `100 Continue` before the content is sent (RFC 9110 §10.1.1). It is
    /// ignored if there is no content, see [`SentRequest::expects_continue`].
    pub expect_continue: bool,
    /// Whether to send `TE: trailers`, which says that trailers of the response are of use (RFC
    /// 9110 §10.1.4).
    pub accepts_trailers: bool,
}

impl<'a> OutgoingRequest<'a> {
    /// Makes a GET without content on a connection that stays open.
    #[must_use]
    pub const fn get(target: RequestTarget<'a>) -> OutgoingRequest<'a> {
        OutgoingRequest {
            method: b"GET",
            target,
            content: RequestContent::Length(0),
            connection: ConnectionOption::KeepAlive,
            expect_continue: false,
            accepts_trailers: false,
        }
    }
}

/// The target of a request in its form (RFC 9112 §3.2). The bytes are sent as they are, so all
/// characters that are no part of a URI must be escaped. `Host` is always the authority of the
/// target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestTarget<'a> {
    /// The target of a request to the server itself (RFC 9112 §3.2.1).
    Origin {
        /// The host, and the port if it is not the default one.
        authority: &'a [u8],
        /// The path, which begins with a slash, and perhaps a query.
        target: &'a [u8],
    },
    /// The target of a request to a proxy: the whole URI, with the scheme `http` or `https` (RFC
    /// 9112 §3.2.2).
    Absolute(&'a [u8]),
    /// The target of CONNECT to a proxy: host and port (RFC 9112 §3.2.3).
    Authority(&'a [u8]),
    /// About the server as a whole, with OPTIONS: `*` (RFC 9112 §3.2.4).
    Asterisk {
        /// The host, and the port if it is not the default one.
        authority: &'a [u8],
    },
}

/// The length of the content of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestContent {
    /// Content of so many bytes, perhaps none.
    Length(u64),
    /// A length that is not known yet: the chunked coding (RFC 9112 §7.1). Only for servers that
    /// are known to speak HTTP/1.1.
    Chunked,
}

/// The option of a request for its connection (RFC 9110 §7.6.1, §7.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionOption<'a> {
    /// The connection stays open for another request, which is the default of HTTP/1.1.
    KeepAlive,
    /// The connection closes after the response.
    Close,
    /// The connection switches to one of these protocols if the server agrees: the value of
    /// `Upgrade`, such as `websocket`.
    Upgrade(&'a [u8]),
}

/// The facts about a request that the response parser needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentRequest {
    /// The method: responses to HEAD have no content, and those to CONNECT may be tunnels.
    pub method: Method,
    /// Whether it offered to switch to another protocol.
    pub upgrade: bool,
    /// Whether it asked to close the connection.
    pub close: bool,
    /// Whether it asked for `100 Continue`. A client should not wait for it without end, since some
    /// servers never send it (RFC 9110 §10.1.1).
    pub expects_continue: bool,
}

/// The result of [`write_request`].
#[derive(Debug)]
pub struct WrittenRequest {
    /// The request for the [parser](super::response_parser::ResponseParser::new) of the response.
    pub request: SentRequest,
    /// Frames the content.
    pub content: ContentWriter,
}

/// Appends the head of a request, blank line included. White space around the value of a field is
/// left out.
///
/// There is no limit of a head. Servers should accept 8000 bytes of target (RFC 9112 §3), and many
/// refuse heads above 8 or 16 KiB.
///
/// # Errors
/// Refuses any part that is malformed, and any field that is [reserved](reserved_field). `out` is
/// then as it was.
pub fn write_request<'f>(
    out: &mut Vec<u8>,
    request: &OutgoingRequest<'_>,
    fields: impl IntoIterator<Item = Field<'f>>,
) -> Result<WrittenRequest, RequestError> {
    let before = out.len();
    let written = append(out, request, fields);
    if written.is_err() {
        out.truncate(before);
    }
    written
}

/// Returns the usual spelling of a field that a caller cannot set: those of framing, of the
/// connection and of the host, for which [`OutgoingRequest`] has parameters or which a client never
/// sends. `_` counts as `-`, since programs behind a gateway cannot distinguish them (RFC 3875
/// §4.1.18).
///
/// A proxy leaves these out of a request that it forwards.
#[must_use]
pub fn reserved_field(name: &[u8]) -> Option<&'static str> {
    reserved_name(name, FieldUses::OUTGOING_REQUEST)
}

fn append<'f>(
    out: &mut Vec<u8>,
    request: &OutgoingRequest<'_>,
    fields: impl IntoIterator<Item = Field<'f>>,
) -> Result<WrittenRequest, RequestError> {
    if !is_token(request.method) || request.method.len() > METHOD_MAX_BYTES {
        return Err(RequestError::Method);
    }
    let method = Method::from_token(request.method);
    let (target, authority) = checked_target(method, request.target)?;
    let has_content = request.content != RequestContent::Length(0);
    if has_content && matches!(method, Method::Connect | Method::Trace) {
        return Err(RequestError::ContentNotAllowed);
    }
    out.extend_from_slice(request.method);
    out.push(b' ');
    out.extend_from_slice(target);
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    out.extend_from_slice(authority);
    out.extend_from_slice(b"\r\n");
    connection_fields(out, method, request)?;
    for (position, field) in fields.into_iter().enumerate() {
        if let Some(name) = reserved_field(field.name) {
            return Err(RequestError::ReservedField { name });
        }
        field_line(out, position, field)?;
    }
    content_fields(out, method, request.content);
    let expects_continue = request.expect_continue && has_content;
    if expects_continue {
        out.extend_from_slice(b"Expect: 100-continue\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Ok(WrittenRequest {
        request: SentRequest {
            method,
            upgrade: matches!(request.connection, ConnectionOption::Upgrade(_)),
            close: request.connection == ConnectionOption::Close,
            expects_continue,
        },
        content: ContentWriter::new(request.content),
    })
}

/// Checks a target. Returns it as it is sent, and the authority for `Host` (RFC 9112 §3.2).
fn checked_target<'a>(
    method: Method,
    target: RequestTarget<'a>,
) -> Result<(&'a [u8], &'a [u8]), RequestError> {
    let (raw, given, form) = match target {
        RequestTarget::Origin { authority, target } => (target, Some(authority), Form::Origin),
        RequestTarget::Absolute(uri) => (uri, None, Form::Absolute),
        RequestTarget::Authority(authority) => (authority, None, Form::Authority),
        RequestTarget::Asterisk { authority } => (&b"*"[..], Some(authority), Form::Asterisk),
    };
    let parsed = Target::parse(method, raw).map_err(|_| RequestError::Target)?;
    // OPTIONS with a URI that has no path means the server as a whole (RFC 9112 §3.2.4).
    let is_server = form == Form::Absolute && parsed.form == Form::Asterisk && raw != b"*";
    if parsed.form != form && !is_server {
        return Err(RequestError::Target);
    }
    let authority = given.or(parsed.authority).ok_or(RequestError::Authority)?;
    host::split(authority).map_err(|_| RequestError::Authority)?;
    Ok((raw, authority))
}

/// Appends `Connection`, and the fields that it must name.
fn connection_fields(
    out: &mut Vec<u8>,
    method: Method,
    request: &OutgoingRequest<'_>,
) -> Result<(), RequestError> {
    let option = match request.connection {
        ConnectionOption::KeepAlive => None,
        ConnectionOption::Close => Some(&b"close"[..]),
        ConnectionOption::Upgrade(protocols) => {
            if method == Method::Connect || !is_protocol_list(protocols) {
                return Err(RequestError::Upgrade);
            }
            out.extend_from_slice(b"Upgrade: ");
            out.extend_from_slice(trim(protocols));
            out.extend_from_slice(b"\r\n");
            Some(&b"Upgrade"[..])
        }
    };
    let te = request.accepts_trailers.then_some(&b"TE"[..]);
    if te.is_some() {
        out.extend_from_slice(b"TE: trailers\r\n");
    }
    let options = match (option, te) {
        (None, None) => return Ok(()),
        (Some(option), None) | (None, Some(option)) => [option, b"", b""],
        (Some(option), Some(te)) => [option, b", ", te],
    };
    out.extend_from_slice(b"Connection: ");
    options.iter().for_each(|part| out.extend_from_slice(part));
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Returns whether this is a value of `Upgrade`: `1#( token [ "/" token ] )` (RFC 9110 §7.8).
fn is_protocol_list(value: &[u8]) -> bool {
    let is_protocol =
        |protocol: &[u8]| trim(protocol).splitn(2, |&byte| byte == b'/').all(is_token);
    value.split(|&byte| byte == b',').all(is_protocol)
}

/// Appends the field that frames the content. Without content there is none, except for methods
/// that are expected to have content (RFC 9110 §8.6).
fn content_fields(out: &mut Vec<u8>, method: Method, content: RequestContent) {
    match content {
        RequestContent::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        RequestContent::Length(0) if !method.expects_content() => {}
        RequestContent::Length(bytes) => {
            out.extend_from_slice(b"Content-Length: ");
            decimal(out, bytes);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Appends a field line that cannot be read as anything else.
pub(super) fn field_line(
    out: &mut Vec<u8>,
    position: usize,
    field: Field<'_>,
) -> Result<(), RequestError> {
    if !is_token(field.name) {
        return Err(RequestError::FieldName { position });
    }
    if !field.value.iter().all(|&byte| is_value_byte(byte)) {
        return Err(RequestError::FieldValue { position });
    }
    out.extend_from_slice(field.name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(trim(field.value));
    out.extend_from_slice(b"\r\n");
    Ok(())
}
