//! The reasons why a request has no response of a Python application.

use pinion_engine::outgoing_connect::NotConnected;
use pinion_http::cgi::error::CgiError;
use pinion_http::cgi::variable_error::VariableError;
use pinion_http::python::error::ChildFrameError;
use thiserror::Error;

/// The reason why a request has no response of a Python application.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PythonFailure {
    /// The application has raised an exception. The log has its traceback.
    #[error("the application has failed: {0}")]
    Application(Box<str>),
    /// Its response is not valid.
    #[error("the response of the application is wrong: {0}")]
    Response(CgiError),
    /// The process has ended, or has closed the connection.
    #[error("the process of the application has ended")]
    ProcessEnded,
    /// The process has sent bytes that are no frame.
    #[error("the process of the application has sent {0}")]
    Frame(ChildFrameError),
    /// The process has sent a frame that it must not send for this request now.
    #[error("the process of the application has sent {0}")]
    Unexpected(&'static str),
    /// There is no connection to the process.
    #[error("cannot connect to the process of the application: {0}")]
    NotConnected(NotConnected),
    /// This server has too many connections, or no memory for one more.
    #[error("no connection to the process of the application: too many (--max-outgoing)")]
    NoConnection,
    /// The application sends nothing.
    #[error("the application has sent nothing for {seconds} s (timeout)")]
    Silent {
        /// The time.
        seconds: u64,
    },
    /// No process has had time for the request.
    #[error("no process of the application has had time for the request within {seconds} s")]
    QueueTimeout {
        /// The time.
        seconds: u64,
    },
    /// Too many requests wait.
    #[error("{max} requests wait for the application already")]
    QueueFull {
        /// The most that may wait.
        max: usize,
    },
    /// The application is not loaded yet, or cannot be loaded; then the log says why.
    #[error("the application is not loaded")]
    NotLoaded,
    /// The request has fields that cannot be variables.
    #[error("the request cannot be given to the application: {0}")]
    Variables(VariableError),
}

impl PythonFailure {
    /// Returns the status of the response.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Application(_) | Self::Response(_) => 500,
            Self::ProcessEnded | Self::Frame(_) | Self::Unexpected(_) => 502,
            Self::Silent { .. } => 504,
            Self::NotConnected(_)
            | Self::NoConnection
            | Self::QueueTimeout { .. }
            | Self::QueueFull { .. }
            | Self::NotLoaded => 503,
            Self::Variables(_) => 431,
        }
    }
}
