//! The framing of the content of a response, and whether its connection can be reused (RFC 9112
//! §6.3, §9.3).

use super::response_error::ResponseError;
use crate::field::{Fields, KnownField, KnownFieldPlaces};
use crate::grammar::{decimal, trim};
use crate::h1::client::request_writer::SentRequest;
use crate::h1::head_parser;
use crate::method::Method;
use crate::status::never_has_content;
use crate::version::Version;

/// The framing of the content of a response (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFraming {
    /// No content: the request was HEAD, the status has none, or the length is 0.
    None,
    /// Content of so many bytes; never 0, which is [`ResponseFraming::None`].
    Length(u64),
    /// The chunked coding.
    Chunked,
    /// Content until the server closes its direction of the connection.
    UntilClose,
    /// The bytes that follow are no content of HTTP: they belong to the protocol that a 101 names,
    /// or to the tunnel that CONNECT has requested.
    Tunnel,
}

/// The framing that the status and the fields of a head determine for the bytes after it.
pub(super) struct MessageEnd {
    pub(super) framing: ResponseFraming,
    pub(super) content_length: Option<u64>,
    pub(super) keep_alive: bool,
}

/// Applies RFC 9112 §6.3 and §9.3 to a head whose status is not 101. Its rules are tried in their
/// order.
pub(super) fn message_end(
    request: SentRequest,
    version: Version,
    status: u16,
    fields: &Fields<'_>,
    known: &KnownFieldPlaces,
) -> Result<MessageEnd, ResponseError> {
    let length = content_length(fields, known);
    let has_coding = known.has(KnownField::TransferEncoding);
    let keep_alive = !request.close && head_parser::stays_open(version, fields, known);
    if request.method == Method::Connect && (200..300).contains(&status) {
        // Rule 2: "A client MUST ignore any Content-Length or Transfer-Encoding".
        let framing = ResponseFraming::Tunnel;
        return Ok(MessageEnd { framing, content_length: None, keep_alive: false });
    }
    if request.method == Method::Head || never_has_content(status) {
        // Rule 1: "regardless of the header fields present in the message". A server that announces
        // content where none can be may send it all the same (§6.1, RFC 9110 §8.6), so its
        // connection is not used again.
        let says_nothing_wrong = match length {
            Err(_) => false,
            Ok(_) if status == 304 || !never_has_content(status) => {
                !has_coding || (version != Version::Http10 && length == Ok(None))
            }
            Ok(length) => !has_coding && length.unwrap_or(0) == 0,
        };
        return Ok(MessageEnd {
            framing: ResponseFraming::None,
            content_length: length.unwrap_or(None),
            keep_alive: keep_alive && says_nothing_wrong,
        });
    }
    if has_coding {
        // Rules 3 and 4, in the strict reading: one `chunked` alone, or an error.
        head_parser::transfer_encoding(version, fields, known)
            .map_err(ResponseError::from_refusal)?;
        let framing = ResponseFraming::Chunked;
        return Ok(MessageEnd { framing, content_length: None, keep_alive });
    }
    let content_length = length?;
    // Rules 5, 6 and 8.
    let framing = match content_length {
        Some(0) => ResponseFraming::None,
        Some(bytes) => ResponseFraming::Length(bytes),
        None => ResponseFraming::UntilClose,
    };
    let keep_alive = keep_alive && framing != ResponseFraming::UntilClose;
    Ok(MessageEnd { framing, content_length, keep_alive })
}

/// Returns the value of `Content-Length`. Several are one if they are equal, in lines or in a list
/// (RFC 9112 §6.3, rule 5); requests have no such lenience.
fn content_length(
    fields: &Fields<'_>,
    known: &KnownFieldPlaces,
) -> Result<Option<u64>, ResponseError> {
    let mut length = None;
    for value in known.values(fields, KnownField::ContentLength) {
        for member in value.split(|&byte| byte == b',') {
            let bytes = decimal(trim(member)).ok_or(ResponseError::InvalidContentLength)?;
            if length.is_some_and(|known| known != bytes) {
                return Err(ResponseError::InvalidContentLength);
            }
            length = Some(bytes);
        }
    }
    Ok(length)
}
