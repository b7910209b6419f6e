//! The reasons why a request has no response, or an incomplete one.

use pinion_engine::outgoing_connect::NotConnected;
use pinion_http::cgi::error::CgiError;
use pinion_http::cgi::variable_error::VariableError;
use pinion_http::fastcgi::error::FastCgiError;
use pinion_http::h1::client::request_error::RequestError;
use pinion_http::h1::client::response_error::ResponseError;
use thiserror::Error;

use crate::address_policy::{AddressRefused, SocketRefused};
use crate::client_tls::ClientTlsError;
use crate::connection_pool::PoolQueueFull;
use crate::content_decoder::DecodeError;
use crate::happy_eyeballs::ConnectFailure;
use crate::request_url::RequestUrlError;
use crate::resolver::ResolveError;

/// The reason why a request has no response, or an incomplete one.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum HttpClientError {
    /// The request cannot be written.
    #[error("the request is refused: {0}")]
    Request(#[from] RequestError),
    /// There is no connection.
    #[error("cannot connect: {0}")]
    Connect(ConnectFailure<AttemptError>),
    /// There is no connection to a Unix socket.
    #[error("cannot connect: {0}")]
    ConnectUnix(AttemptError),
    /// The path of the socket is not allowed.
    #[error(transparent)]
    Socket(#[from] SocketRefused),
    /// The URL requires TLS where there is none.
    #[error("https is not available here")]
    NoTls,
    /// There are no TLS settings.
    #[error(transparent)]
    Tls(#[from] ClientTlsError),
    /// The name of the host cannot be in a certificate.
    #[error("the host name cannot be that of a certificate")]
    TlsName,
    /// Too many requests wait for a connection.
    #[error(transparent)]
    Queue(#[from] PoolQueueFull),
    /// Too many requests have not ended.
    #[error(transparent)]
    Memory(#[from] RequestMemoryFull),
    /// All connections to the host were in use for too long.
    #[error("no connection became free within {0} ms; all connections to the host are in use")]
    QueueTimeout(u64),
    /// No address of the host has responded in time.
    #[error("cannot connect: no connection within {0} ms")]
    ConnectTimeout(u64),
    /// The server was silent for too long.
    #[error("no response within {0} ms")]
    HeadTimeout(u64),
    /// The server has stopped taking the content of the request.
    #[error("the server took nothing of the request's body for {0} ms")]
    SendTimeout(u64),
    /// The server has stopped sending the content of its response.
    #[error("the server sent nothing for {0} ms in the middle of its response")]
    ContentTimeout(u64),
    /// The response is malformed, or the connection ended before the response.
    #[error(transparent)]
    Response(#[from] ResponseError),
    /// The response of a FastCGI application is malformed, or the connection ended before it.
    #[error(transparent)]
    FastCgi(#[from] FastCgiError),
    /// The response of an SCGI application is malformed.
    #[error(transparent)]
    Cgi(#[from] CgiError),
    /// The variables of a request to a FastCGI or SCGI application cannot be written.
    #[error("the request is refused: {0}")]
    Variables(#[from] VariableError),
    /// The application wants the response to another path of this server (RFC 3875 §6.2.2).
    #[error("the response is that of {}", .0.escape_ascii())]
    LocalRedirect(Box<[u8]>),
    /// The content cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The content is in brotli although the request did not ask for that.
    #[error(
        "the response's content is in brotli, which was not asked for: this server decodes as many \
         responses in brotli as it may; try again later, or send Accept-Encoding: identity"
    )]
    BrotliNotAccepted,
    /// The content is longer than the caller allows.
    #[error("the response's content is longer than {0} bytes; raise max_bytes to allow more")]
    ContentTooLarge(u64),
    /// The target of a redirect is invalid.
    #[error("the response redirects to {url}: {error}")]
    Redirect {
        /// The value of `Location`.
        url: String,
        /// The error in the URL.
        error: RequestUrlError,
    },
    /// There were too many redirects.
    #[error("more than {0} redirects")]
    TooManyRedirects(u32),
    /// A redirect requires content that was sent in pieces to be sent again.
    #[error("the response redirects a request whose body came in pieces; send it as one string")]
    RedirectedPieces,
    /// The caller has closed the request.
    #[error("the request was closed")]
    Closed,
}

impl HttpClientError {
    /// Returns whether the connection was closed without a byte of a response.
    #[must_use]
    pub fn is_no_response(&self) -> bool {
        matches!(
            self,
            Self::Response(ResponseError::NoResponse) | Self::FastCgi(FastCgiError::NoResponse)
        )
    }

    /// Returns whether there are too many requests or connections, independent of the server.
    #[must_use]
    pub fn is_overload(&self) -> bool {
        let is_full =
            |error: &AttemptError| matches!(error, AttemptError::TooMany | AttemptError::NoMemory);
        match self {
            Self::Queue(_) | Self::QueueTimeout(_) | Self::Memory(_) => true,
            Self::Connect(failure) => failure.attempts.iter().any(|(_, error)| is_full(error)),
            Self::ConnectUnix(error) => is_full(error),
            _ => false,
        }
    }
}

/// The reason why an attempt to connect to one address has failed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum AttemptError {
    /// The address is not allowed.
    #[error("{}", .0.reason())]
    Refused(#[from] AddressRefused),
    /// The name has no addresses.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The system, or the peer, has refused the connection.
    #[error("{0}")]
    NotConnected(NotConnected),
    /// The TLS handshake has failed.
    #[error("{0}")]
    Tls(String),
    /// This server has opened as many connections as it may.
    #[error("this server has opened as many connections as it may; raise --max-outgoing")]
    TooMany,
    /// There is no memory for one more.
    #[error("no memory for another connection")]
    NoMemory,
}

/// The error of a request for which there is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RequestMemoryFull {
    /// The requests of one site take as much as they may.
    #[error(
        "too many requests of this site wait for other servers, or have responses that are not \
         read (at most {0} bytes); read or close them, or try again later"
    )]
    Site(usize),
    /// The requests of all sites take as much as they may.
    #[error(
        "too many requests of all sites wait for other servers, or have responses that are not \
         read (at most {0} bytes); try again later"
    )]
    All(usize),
}
