//! The head of a response in the form that its reader gets, and the redirects that are followed
//! (RFC 9110 §15.4).

use pinion_http::h1::client::response_framing::ResponseFraming;
use pinion_http::h1::client::response_head::ResponseHead;
use pinion_http::method::Method;

use super::error::HttpClientError;
use super::request::{OwnedFields, PendingRequest, RequestBody, ResponseStart};
use crate::content_decoder::{ContentCoding, ContentDecoder};

/// Fields that belong to one origin: they are not sent to another one after a redirect.
const CREDENTIALS: [&str; 3] = ["Authorization", "Cookie", "Proxy-Authorization"];

/// Fields that describe content (RFC 9110 §8.3): a request that has lost its content loses them.
const CONTENT_FIELDS: [&str; 5] =
    ["Content-Encoding", "Content-Language", "Content-Location", "Content-Type", "Digest"];

/// Returns whether a response redirects its request, and the redirect is followed.
pub(super) fn is_followed(head: &ResponseHead<'_>, request: &PendingRequest) -> bool {
    request.request.redirects_max > 0
        && matches!(head.status, 301 | 302 | 303 | 307 | 308)
        && head.fields.get(b"Location").is_some()
}

/// Creates the value for a head, and the decoder of its content if the client has requested
/// codings.
///
/// # Errors
/// Fails if the content is in a coding that was not requested.
pub(super) fn response_start(
    head: &ResponseHead<'_>,
    request: &mut PendingRequest,
    is_read: bool,
) -> Result<ResponseStart, HttpClientError> {
    let mut fields = OwnedFields::from(head.fields);
    let sent = &request.request;
    let asked = sent.forwarded.is_none() && sent.fields.get("Accept-Encoding").is_none();
    let has_content = head.framing != ResponseFraming::None;
    let name = b"Content-Encoding";
    let lines = head.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name)).count();
    // Several lines are several codings, one over the other (RFC 9110 §5.3, §8.4).
    let coding = head.fields.get(name).filter(|_| lines == 1).and_then(ContentCoding::of);
    if let Some(coding) = coding.filter(|_| asked && has_content && is_read) {
        if coding == ContentCoding::Brotli && request.brotli.is_none() {
            return Err(HttpClientError::BrotliNotAccepted);
        }
        request.decoder = Some(ContentDecoder::new(coding));
        fields.remove(&["Content-Encoding", "Content-Length"]);
    }
    if coding != Some(ContentCoding::Brotli) || request.decoder.is_none() {
        request.brotli = None;
    }
    let content_length = head.content_length.filter(|_| request.decoder.is_none());
    let url = request.request.url.clone();
    Ok(ResponseStart { status: head.status, fields, content_length, url })
}

/// Changes a request to the target of its response's redirect.
pub(super) fn redirect(request: &mut PendingRequest) -> Result<(), HttpClientError> {
    let Some(response) = request.response.take() else { return Ok(()) };
    request.redirects += 1;
    if request.redirects > request.request.redirects_max {
        return Err(HttpClientError::TooManyRedirects(request.request.redirects_max));
    }
    let location = response.fields.get("Location").unwrap_or_default();
    let location = String::from_utf8_lossy(location).into_owned();
    let url = match request.request.url.redirected(&location) {
        Ok(url) => url,
        Err(error) => return Err(HttpClientError::Redirect { url: shown(&location), error }),
    };
    let method = request.method();
    let changes_method = match response.status {
        // RFC 9110 §15.4.2 and §15.4.3 allow this behaviour, which all clients have.
        301 | 302 => method == Method::Post,
        303 => method != Method::Head && method != Method::Get,
        _ => false,
    };
    let asked = &mut request.request;
    if changes_method {
        asked.method = "GET".into();
        asked.content = RequestBody::Whole([].into());
        asked.fields.remove(&CONTENT_FIELDS);
        request.unsent.clear();
        request.has_sent_pieces = false;
    } else if request.has_sent_pieces || matches!(asked.content, RequestBody::Pieces { .. }) {
        return Err(HttpClientError::RedirectedPieces);
    }
    if !url.has_origin_of(&asked.url) {
        asked.fields.remove(&CREDENTIALS);
    }
    asked.url = url;
    Ok(())
}

/// Returns the beginning of a text from a server, without characters that control a terminal.
fn shown(text: &str) -> String {
    text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
