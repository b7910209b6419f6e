//! The reasons why a request has no response of an upstream server, and the status for each.

use std::path::PathBuf;
use std::sync::Arc;

use pinion_client::http_client::error::HttpClientError;
use pinion_http::version::Version;
use pinion_http::websocket::handshake::HandshakeRefusal;
use thiserror::Error;

use crate::limits::{CONNECTION_OPTIONS_MAX, LOCAL_REDIRECTS_MAX, OVERLOAD_RETRY_SECONDS};
use crate::python::python_failure::PythonFailure;

/// The reason why a request has no response of an upstream server.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ProxyError {
    /// CONNECT and TRACE are for the connection to this server.
    #[error("the method is not forwarded")]
    Method,
    /// The request for a WebSocket is malformed, or of another version of the protocol.
    #[error("{refusal}")]
    WebSocket {
        /// The reason.
        refusal: HandshakeRefusal,
        /// The version of the request.
        version: Version,
    },
    /// The path has a segment `.` or `..`.
    #[error("the path has a segment `.` or `..`")]
    DotSegment,
    /// The path cannot be decoded, or has a NUL byte.
    #[error("the path cannot be decoded")]
    Path,
    /// The path is found below that of the mount in another spelling only.
    #[error("the path is not below that of the mount")]
    OtherPath,
    /// There is no script for the path.
    #[error("there is no script for the path")]
    NoScript,
    /// The path is that of a folder with a script, without the slash at its end.
    #[error("the path is that of a folder, without the slash at its end")]
    MissingSlash {
        /// The path with the slash.
        path: Box<[u8]>,
        /// The query of the request.
        query: Option<Box<[u8]>>,
    },
    /// The folder of the scripts cannot be opened.
    #[error("cannot open the folder of the scripts, {}: {error}", .path.display())]
    ScriptFolder {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        error: Box<str>,
    },
    /// Applications redirect a request to each other again and again.
    #[error("more than {LOCAL_REDIRECTS_MAX} local redirects (Location without a host)")]
    LocalRedirects,
    /// The content has no length, and is too long to be stored to find it out.
    #[error("the content has no Content-Length, and is longer than buffer-limit")]
    LengthRequired,
    /// `Connection` lists too many names.
    #[error("Connection lists more than {CONNECTION_OPTIONS_MAX} names")]
    ConnectionOptions,
    /// The request was forwarded by this server before.
    #[error("the request comes back to this server; the upstream server forwards it here")]
    Loop,
    /// There is no upstream server.
    #[error("there is no upstream server")]
    NoServer,
    /// All uploads together take as much as they may.
    #[error("the content of the request cannot be stored: {0}")]
    StorageFull(Box<str>),
    /// The content of the request cannot be stored, or not be read again.
    #[error("the content of the request cannot be stored: {0}")]
    Stored(Box<str>),
    /// An extended CONNECT asks for another protocol than WebSocket (RFC 8441 §4).
    #[error("the protocol of the tunnel is not websocket")]
    Protocol,
    /// The upstream server has not switched to WebSocket, and says that all is well.
    #[error("{upstream}: status {status} in place of a WebSocket")]
    NotSwitched {
        /// The upstream server.
        upstream: Box<str>,
        /// The status of its response.
        status: u16,
    },
    /// The upstream server has not understood that it is to speak WebSocket (RFC 6455 §4.1).
    #[error("{upstream}: Sec-WebSocket-Accept does not fit the key")]
    WebSocketAccept {
        /// The upstream server.
        upstream: Box<str>,
    },
    /// The client has as many tunnels as it may.
    #[error("the client has {max} WebSockets or other tunnels open (--max-tunnels-per-client)")]
    TooManyTunnels {
        /// The most that it may have.
        max: u32,
    },
    /// It has taken too long to find one of several servers that can be reached.
    #[error(
        "no server could be reached within {seconds} s (retry-timeout), {attempts} tried; {last}"
    )]
    AttemptsTimeout {
        /// The number of servers the request was sent to.
        attempts: u32,
        /// The time for that.
        seconds: u64,
        /// The error of the last one.
        last: Box<str>,
    },
    /// A Python application does not respond.
    #[error("{app}: {failure}")]
    Python {
        /// The name in the log.
        app: Box<str>,
        /// The failure.
        failure: Box<PythonFailure>,
    },
    /// The upstream server cannot be used.
    #[error("{upstream}: {error}")]
    Upstream {
        /// The upstream server.
        upstream: Box<str>,
        /// The failure.
        error: Arc<HttpClientError>,
    },
}

impl ProxyError {
    /// Returns the status of the response.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Method => 405,
            Self::WebSocket { refusal, version } => refusal.status(*version),
            Self::DotSegment | Self::ConnectionOptions | Self::Path => 400,
            Self::NoScript | Self::OtherPath => 404,
            Self::MissingSlash { .. } => 308,
            Self::ScriptFolder { .. } => 500,
            Self::LengthRequired => 411,
            Self::LocalRedirects => 502,
            Self::Loop => 508,
            Self::NoServer => 502,
            Self::StorageFull(_) => 503,
            Self::Stored(_) => 500,
            Self::Protocol => 501,
            Self::NotSwitched { .. } | Self::WebSocketAccept { .. } => 502,
            Self::AttemptsTimeout { .. } => 504,
            Self::TooManyTunnels { .. } => 429,
            Self::Python { failure, .. } => failure.status(),
            Self::Upstream { error, .. } => match &**error {
                HttpClientError::ConnectTimeout(_)
                | HttpClientError::HeadTimeout(_)
                | HttpClientError::SendTimeout(_)
                | HttpClientError::ContentTimeout(_) => 504,
                HttpClientError::Request(_) => 400,
                error if error.is_overload() => 503,
                _ => 502,
            },
        }
    }

    /// Returns the server that the error is about, or "" if it is about none.
    #[must_use]
    pub fn upstream(&self) -> &str {
        match self {
            Self::NotSwitched { upstream, .. }
            | Self::WebSocketAccept { upstream }
            | Self::Upstream { upstream, .. } => upstream,
            Self::Python { app, .. } => app,
            _ => "",
        }
    }

    /// Returns after how many seconds a client may try it again, for requests that have found too
    /// much to do.
    #[must_use]
    pub fn retry_seconds(&self) -> Option<u64> {
        let is_overload = match self {
            Self::StorageFull(_) => true,
            Self::Python { failure, .. } => matches!(
                **failure,
                PythonFailure::QueueFull { .. } | PythonFailure::QueueTimeout { .. }
            ),
            _ => false,
        };
        is_overload.then_some(OVERLOAD_RETRY_SECONDS)
    }

    /// Returns whether the error says something about the upstream server or this one, and not only
    /// about the request.
    #[must_use]
    pub fn is_logged(&self) -> bool {
        match self {
            Self::Method | Self::DotSegment | Self::ConnectionOptions | Self::Protocol => false,
            Self::WebSocket { .. } | Self::Path | Self::OtherPath => false,
            Self::NoScript | Self::MissingSlash { .. } => false,
            Self::ScriptFolder { .. } | Self::LocalRedirects | Self::LengthRequired => true,
            Self::Loop | Self::NotSwitched { .. } | Self::WebSocketAccept { .. } => true,
            Self::NoServer | Self::StorageFull(_) | Self::Stored(_) => true,
            Self::AttemptsTimeout { .. } | Self::TooManyTunnels { .. } => true,
            Self::Python { failure, .. } => !matches!(**failure, PythonFailure::Variables(_)),
            Self::Upstream { error, .. } => !matches!(**error, HttpClientError::Request(_)),
        }
    }
}
