//! One request of a [`HttpClient`](super::HttpClient) and its response, from the caller's side.

use std::collections::VecDeque;
use std::sync::Arc;

use pinion_engine::exchange_address::Address;
use pinion_http::field::Fields;
use pinion_http::h1::client::response_head::ResponseHead;
use pinion_http::method::Method;
use rustls::pki_types::ServerName;

use super::ConnectionId;
use super::brotli_permit::BrotliPermit;
use super::connection_establishment::OpeningConnection;
use super::connection_pool_key::RequestKey;
use super::error::HttpClientError;
pub use super::owned_fields::OwnedFields;
use super::request_sending::WrittenHead;
use crate::address_policy::AddressPolicy;
use crate::connection_pool::{KeyLimits, Reuse};
use crate::content_decoder::ContentDecoder;
use crate::lazy_client_tls::LazyClientTls;
use crate::limits::{
    CONTENT_BUFFER_BYTES, REQUEST_BUFFER_BYTES, SEND_LOOKS, STDERR_KEPT_MAX_BYTES,
};
use crate::request_url::RequestUrl;

/// A request that is to be sent.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    /// Requests of different sites do not share connections.
    pub site: u64,
    /// The method, a token in its own case.
    pub method: Box<str>,
    /// The URL.
    pub url: RequestUrl,
    /// Fields, in addition to those that the client itself writes.
    pub fields: OwnedFields,
    /// The content.
    pub content: RequestBody,
    /// The policy of the addresses that may be connected to, also after redirects.
    pub policy: Arc<AddressPolicy>,
    /// The TLS settings with the trusted servers; `None` if the connection cannot be encrypted.
    /// Without https, also in redirects, the settings are not created.
    pub tls: Option<Arc<LazyClientTls>>,
    /// The longest time without progress in milliseconds; see
    /// [`REQUEST_TIMEOUT_MS`](crate::limits::REQUEST_TIMEOUT_MS).
    pub timeout_ms: u64,
    /// The number of redirects that are followed; one more is an error. With 0 a redirect is the
    /// response.
    pub redirects_max: u32,
    /// The maximum number of bytes of the response's content, decoded.
    pub content_max_bytes: u64,
    /// The data of the proxy, if this is the request of another client that is forwarded.
    pub forwarded: Option<ForwardedRequest>,
    /// The protocol of the server.
    pub protocol: ServerProtocol,
    /// The limits of the connections to the server.
    pub connections: KeyLimits,
}

/// The protocol of a server. The client sends no fields to an application that uses FastCGI or
/// SCGI, but these variables, with unchanged names (RFC 3875 §4.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ServerProtocol {
    /// HTTP/1.1.
    #[default]
    Http,
    /// FastCGI 1.0.
    FastCgi {
        /// The variables.
        variables: OwnedFields,
        /// Whether the application leaves the connection open for another request.
        keep_connection: bool,
    },
    /// SCGI. The length of the content has to be known.
    Scgi(OwnedFields),
}

/// The data of a proxy for a request that it forwards, in place of the URL. The client adds no
/// fields of its own to it and decodes nothing, keeps interim responses and trailers for the caller
/// ([`HttpClient::next_interim`](super::HttpClient::next_interim),
/// [`HttpClient::trailers`](super::HttpClient::trailers)), and repeats the request only if its
/// method is safe and it has no content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedRequest {
    /// The value of `Host`.
    pub authority: Box<[u8]>,
    /// The path and the query, as they are sent.
    pub target: Box<[u8]>,
    /// Whether the other client uses trailers (`TE: trailers`, RFC 9110 §10.1.4).
    pub accepts_trailers: bool,
    /// The protocols that the other client would switch to: the value of `Upgrade`. If the server
    /// switches, the connection is taken by
    /// [`HttpClient::take_tunnel`](super::HttpClient::take_tunnel).
    pub upgrade: Option<Box<str>>,
    /// The timeout for opening a connection, in milliseconds, if that is less than
    /// [`CONNECT_TIMEOUT_MS`](crate::limits::CONNECT_TIMEOUT_MS).
    pub connect_timeout_ms: u64,
    /// Whether a connection waits for a Unix socket that does not exist, or on which no process
    /// listens: its server is being started. It waits no longer than
    /// [`ABSENT_SOCKET_WAIT_MS`](crate::limits::ABSENT_SOCKET_WAIT_MS).
    pub waits_for_socket: bool,
}

/// A connection whose server has switched to another protocol (RFC 9110 §7.8). Its bytes belong to
/// the caller, and so do all further events with its tag.
#[derive(Debug)]
pub struct Tunnel {
    /// The stream.
    pub address: Address,
    /// The tag of the stream.
    pub tag: u64,
    /// Bytes of the other protocol that have already arrived.
    pub input: Vec<u8>,
    /// Bytes that the connection may still bring before more are requested.
    pub credit: u64,
}

impl ClientRequest {
    /// Sets the length of content that comes in pieces. An application gets it as `CONTENT_LENGTH`.
    pub fn set_content_length(&mut self, bytes: u64) {
        self.content = RequestBody::Pieces { length: Some(bytes) };
        if let ServerProtocol::FastCgi { variables, .. } | ServerProtocol::Scgi(variables) =
            &mut self.protocol
        {
            variables.remove(&["CONTENT_LENGTH"]);
            variables.push(b"CONTENT_LENGTH", bytes.to_string().as_bytes());
        }
    }

    /// Checks that the connection can be encrypted if the URL requires it, and creates the settings
    /// for that if there are none yet.
    pub(super) fn check_tls(&self) -> Result<(), HttpClientError> {
        if self.url.target().is_tls() {
            self.tls.as_ref().ok_or(HttpClientError::NoTls)?.get()?;
            self.tls_server_name().ok_or(HttpClientError::TlsName)?;
        }
        Ok(())
    }

    /// Returns the name for which the certificate of the server has to be valid.
    pub(super) fn tls_server_name(&self) -> Option<ServerName<'static>> {
        let tls = self.tls.as_ref().and_then(|tls| tls.get().ok());
        let named = tls.and_then(|tls| tls.server_name().cloned());
        named.or_else(|| self.url.target().tls_server_name())
    }
}

/// The content of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestBody {
    /// All of the content, perhaps empty. It can be sent again.
    Whole(Arc<[u8]>),
    /// It comes in pieces: [`HttpClient::write`](super::HttpClient::write).
    Pieces {
        /// Its length in bytes, if it is known; else it is sent in chunks.
        length: Option<u64>,
    },
}

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseStart {
    /// The status code.
    pub status: u16,
    /// The fields. Those of a coding that was decoded are left out, since they do not describe the
    /// decoded content.
    pub fields: OwnedFields,
    /// The length of the content in bytes, if it was announced and the content was not decoded.
    /// Responses to HEAD and those of status 304 announce it without content.
    pub content_length: Option<u64>,
    /// The URL that has responded, after all redirects.
    pub url: RequestUrl,
}

/// An interim response (RFC 9110 §15.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterimResponse {
    /// The status code.
    pub status: u16,
    /// The fields.
    pub fields: OwnedFields,
}

/// The result of [`HttpClient::read`](super::HttpClient::read).
#[derive(Clone, Debug, PartialEq)]
pub enum ReadOutcome {
    /// There is no content yet.
    Pending,
    /// So many bytes were passed on.
    Bytes(usize),
    /// All content was read.
    End,
    /// There is an error, and no more content.
    Failed(Arc<HttpClientError>),
}

/// Bytes of a request itself, and of the entries of the client and its caller for it: those of
/// tables and queues, and the addresses of a host while a connection is opened.
const REQUEST_OWN_BYTES: usize = size_of::<PendingRequest>() + 2048;

/// The progress of a request.
#[derive(Debug)]
pub(super) enum RequestProgress {
    /// It waits for a connection of the pool.
    Waiting,
    /// A connection is being opened for it.
    Opening(OpeningConnection),
    /// It is sent, and its response is read.
    Open(ConnectionId),
    /// No more input comes from a connection.
    Done,
}

/// A request in the client.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) request: ClientRequest,
    /// The key of the connections that may serve it.
    pub(super) key: RequestKey,
    /// Its head, written and not sent yet.
    pub(super) written: Option<WrittenHead>,
    pub(super) stage: RequestProgress,
    /// Whether the next connection may be one that was used before.
    pub(super) reuse: Reuse,
    pub(super) redirects: u32,
    /// Whether its connection has served another request before.
    pub(super) is_connection_reused: bool,
    /// Whether some of a response has arrived.
    pub(super) has_response: bool,
    /// Whether some of it was given to its connection.
    pub(super) is_sent: bool,
    /// Content that has to be sent: of pieces, those that have arrived.
    pub(super) unsent: Vec<u8>,
    /// Whether all pieces have arrived.
    pub(super) has_all_pieces: bool,
    /// Whether some piece was removed to be sent, so that the content is not complete any more.
    pub(super) has_sent_pieces: bool,
    pub(super) response: Option<ResponseStart>,
    /// Interim responses that wait for the caller of a forwarded request.
    pub(super) interim: VecDeque<InterimResponse>,
    /// Its connection, which the server has switched to another protocol.
    pub(super) tunnel: Option<Tunnel>,
    /// The text that the application has written to its error stream.
    pub(super) stderr: Vec<u8>,
    /// The trailers of the response to a forwarded request.
    pub(super) trailers: OwnedFields,
    /// The trailers that end the content of the request.
    pub(super) request_trailers: OwnedFields,
    pub(super) decoder: Option<ContentDecoder>,
    /// The permit for a response in brotli.
    pub(super) brotli: Option<BrotliPermit>,
    /// Content in its coding, which waits to be decoded.
    pub(super) encoded: Vec<u8>,
    /// Content that waits for its reader, after the part that was read.
    pub(super) content: Vec<u8>,
    pub(super) read_bytes: usize,
    /// The total number of bytes of decoded content.
    pub(super) total_bytes: u64,
    /// Whether all content has arrived.
    pub(super) is_complete: bool,
    pub(super) error: Option<Arc<HttpClientError>>,
    /// Whether the latest news were announced to the caller, and it has not checked them.
    pub(super) is_announced: bool,
    /// Whether a command to continue it waits.
    pub(super) is_continued: bool,
    /// The time at which content was last received or sent, or the request began.
    pub(super) progress_ms: u64,
    /// The time at which the client checks it, in monotonic milliseconds.
    pub(super) alarm_ms: Option<u64>,
    /// The server's acknowledgements on the connection at the last check, as
    /// [`ByteStreamHandle::acknowledged`] returns them.
    ///
    /// [`ByteStreamHandle::acknowledged`]:
    ///     pinion_engine::byte_stream_handle::ByteStreamHandle::acknowledged
    pub(super) acknowledged: u32,
    /// Bytes that [`RequestMemory`](super::request_memory::RequestMemory) has counted for it.
    pub(super) counted_bytes: usize,
}

impl PendingRequest {
    pub(super) fn new(request: ClientRequest, key: RequestKey, now_ms: u64) -> Self {
        Self {
            request,
            key,
            written: None,
            stage: RequestProgress::Waiting,
            reuse: Reuse::Allowed,
            redirects: 0,
            is_connection_reused: false,
            has_response: false,
            is_sent: false,
            unsent: Vec::new(),
            has_all_pieces: false,
            has_sent_pieces: false,
            response: None,
            interim: VecDeque::new(),
            tunnel: None,
            stderr: Vec::new(),
            trailers: OwnedFields::default(),
            request_trailers: OwnedFields::default(),
            decoder: None,
            brotli: None,
            encoded: Vec::new(),
            content: Vec::new(),
            read_bytes: 0,
            total_bytes: 0,
            is_complete: false,
            error: None,
            is_announced: false,
            is_continued: false,
            progress_ms: now_ms,
            alarm_ms: None,
            acknowledged: 0,
            counted_bytes: 0,
        }
    }

    pub(super) fn method(&self) -> Method {
        Method::from_token(self.request.method.as_bytes())
    }

    /// Returns when the request has waited for too long, in monotonic milliseconds.
    pub(super) fn due_ms(&self) -> u64 {
        self.progress_ms.saturating_add(self.request.timeout_ms)
    }

    /// Returns the interval between two checks of content on its way, in milliseconds.
    pub(super) fn look_ms(&self) -> u64 {
        (self.request.timeout_ms / SEND_LOOKS).max(1)
    }

    /// Returns how much content may come from the connection now.
    pub(super) fn room(&self) -> usize {
        // A decoder may need more than the bytes that wait for it, such as one byte of a gzip
        // header.
        CONTENT_BUFFER_BYTES.saturating_sub(self.unread() + self.encoded.len())
    }

    /// Returns whether more may come from the connection: half of the buffer is free, so that a
    /// reader that takes little at a time does not cause the rest to be moved each time.
    pub(super) fn has_room(&self) -> bool {
        self.room() > CONTENT_BUFFER_BYTES / 2
    }

    pub(super) fn unread(&self) -> usize {
        self.content.len() - self.read_bytes
    }

    /// Returns whether more of the request's content may be written.
    pub(super) fn takes_content(&self) -> bool {
        matches!(self.request.content, RequestBody::Pieces { .. })
            && !self.has_all_pieces
            && self.error.is_none()
            && self.unsent.len() < REQUEST_BUFFER_BYTES
            && matches!(self.stage, RequestProgress::Open(_))
    }

    /// Takes content from the connection.
    pub(super) fn take_content(&mut self, bytes: &[u8]) -> Result<(), HttpClientError> {
        if self.decoder.is_none() {
            self.content.extend_from_slice(bytes);
            return self.count(bytes.len());
        }
        self.encoded.extend_from_slice(bytes);
        self.decode()
    }

    /// Ends the content, which is complete in its coding.
    pub(super) fn end_content(&mut self) -> Result<(), HttpClientError> {
        self.is_complete = true;
        self.decode()
    }

    /// Decodes as much as there is room for.
    pub(super) fn decode(&mut self) -> Result<(), HttpClientError> {
        let Some(decoder) = self.decoder.as_mut().filter(|_| self.error.is_none()) else {
            return Ok(());
        };
        let unread = self.content.len() - self.read_bytes;
        let room = CONTENT_BUFFER_BYTES.saturating_sub(unread);
        let before = self.content.len();
        let used = decoder.decode(&self.encoded, &mut self.content, room);
        let used = used.inspect_err(|_| self.content.truncate(before))?;
        self.encoded.drain(..used);
        let has_room = self.content.len() - before < room;
        if self.is_complete && has_room {
            decoder.end()?;
            self.end_decoding();
        }
        self.count(self.content.len() - before)
    }

    /// Frees the memory of the decoder: the content is decoded, or will not be.
    pub(super) fn end_decoding(&mut self) {
        (self.decoder, self.brotli) = (None, None);
    }

    /// Keeps an interim response for the caller of a forwarded request.
    pub(super) fn take_interim(&mut self, head: &ResponseHead<'_>) {
        self.has_response = true;
        if self.request.forwarded.is_some() {
            let fields = OwnedFields::from(head.fields);
            self.interim.push_back(InterimResponse { status: head.status, fields });
        }
    }

    /// Keeps the trailers of the response for the caller of a forwarded request.
    pub(super) fn take_trailers(&mut self, trailers: Fields<'_>) {
        if self.request.forwarded.is_some() && !trailers.is_empty() {
            self.trailers = OwnedFields::from(trailers);
        }
    }

    /// Returns whether its content has to be sent, or is being sent.
    pub(super) fn has_content(&self) -> bool {
        match &self.request.content {
            RequestBody::Whole(content) => !content.is_empty(),
            RequestBody::Pieces { .. } => true,
        }
    }

    /// Returns the bytes of memory that it takes besides its connection and its own content: its
    /// head, and the unread part of a complete response.
    pub(super) fn held_bytes(&self) -> usize {
        let request = &self.request;
        let forwarded = request.forwarded.as_ref();
        let forwarded = forwarded.map_or(0, |one| one.target.len() + one.authority.len());
        let head = request.url.as_str().len() + request.fields.bytes() + request.method.len();
        let head = head + forwarded;
        let program = match &request.protocol {
            ServerProtocol::Http => 0,
            ServerProtocol::FastCgi { variables, .. } => variables.bytes() + STDERR_KEPT_MAX_BYTES,
            ServerProtocol::Scgi(variables) => variables.bytes(),
        };
        let written = self.written.as_ref().map_or(0, |written| written.bytes.capacity());
        let response = match (&self.stage, &self.response) {
            (RequestProgress::Done, Some(response)) => {
                response.fields.bytes() + response.url.as_str().len()
            }
            _ => 0,
        };
        let content = match self.stage {
            RequestProgress::Done => self.content.capacity() + self.encoded.capacity(),
            _ => 0,
        };
        REQUEST_OWN_BYTES + head + program + written + response + content
    }

    /// Keeps text of the application's error stream for the log, as far as there is room.
    pub(super) fn take_stderr(&mut self, text: &[u8]) {
        let room = STDERR_KEPT_MAX_BYTES.saturating_sub(self.stderr.len());
        self.stderr.extend_from_slice(text.get(..room).unwrap_or(text));
    }

    fn count(&mut self, bytes: usize) -> Result<(), HttpClientError> {
        self.total_bytes += bytes as u64;
        let excess = self.total_bytes.saturating_sub(self.request.content_max_bytes);
        if excess > 0 {
            let kept = self.content.len().saturating_sub(excess as usize);
            self.content.truncate(kept.max(self.read_bytes));
            return Err(HttpClientError::ContentTooLarge(self.request.content_max_bytes));
        }
        Ok(())
    }

    /// Passes content to its reader, at most `max` bytes.
    pub(super) fn read(&mut self, max: usize, give: impl FnOnce(&[u8])) -> ReadOutcome {
        self.is_announced = false;
        let unread = self.content.get(self.read_bytes..).unwrap_or_default();
        let piece = unread.get(..max).unwrap_or(unread);
        if !piece.is_empty() {
            let bytes = piece.len();
            give(piece);
            self.read_bytes += bytes;
            if self.unread() == 0 {
                self.content.clear();
                self.read_bytes = 0;
            } else if self.read_bytes >= CONTENT_BUFFER_BYTES {
                self.content.drain(..self.read_bytes);
                self.read_bytes = 0;
            }
            return ReadOutcome::Bytes(bytes);
        }
        match &self.error {
            Some(error) => ReadOutcome::Failed(Arc::clone(error)),
            None if self.is_complete && self.decoder.is_none() => ReadOutcome::End,
            None => ReadOutcome::Pending,
        }
    }
}
