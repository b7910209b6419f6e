//! The protocol between a command and a server: one JSON object in each line, each with the version
//! of the protocol. The server responds to every request with one line (docs/control.md,
//! "Protocol").

use super::status::Status;
use crate::explain::explanation::Explanation;
use crate::explain::request::ExplainRequest;
use crate::warnings_and_notes;
use pinion_engine::stderr;
use serde::{Deserialize, Serialize};

/// The version of the protocol. A server refuses others; members that it does not know it ignores.
pub(crate) const VERSION: u32 = 1;

/// A command to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ServerCommand {
    /// Tell about itself.
    Status,
    /// Load the configuration, the sites and the certificates again, as on SIGHUP. The response
    /// comes when all of that is done.
    Reload,
    /// Take no new connections, finish the requests of the others, however long that takes, and
    /// end.
    Drain,
    /// Drain within the time of `--grace`, as on SIGTERM.
    Stop,
    /// Open the log files again, as on SIGUSR1.
    ReopenLogs,
    /// Explain the response to [`CommandRequest::request`].
    Why,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommandRequest {
    pub(crate) version: u32,
    pub(crate) command: ServerCommand,
    /// The request that [`ServerCommand::Why`] is about; other commands ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<ExplainRequest>,
}

/// One response.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Response {
    pub(crate) version: u32,
    /// Why the request was refused; null when it was carried out.
    pub(crate) error: Option<String>,
    /// The messages of the server about it, in order.
    #[serde(default)]
    pub(crate) messages: Vec<Message>,
    /// The status, for [`ServerCommand::Status`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<Box<Status>>,
    /// The explanation, for [`ServerCommand::Why`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) explanation: Option<Box<Explanation>>,
}

/// One line for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Message {
    pub(crate) level: MessageLevel,
    pub(crate) text: String,
}

/// How much a message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MessageLevel {
    /// A result.
    Info,
    /// A condition that an operator should look at.
    Warning,
    /// A failure: the server did not do it.
    Error,
}

impl CommandRequest {
    /// Returns the request for a command.
    pub(crate) fn new(command: ServerCommand) -> Self {
        Self { version: VERSION, command, request: None }
    }

    /// Returns the request to explain a response.
    pub(crate) fn explain(request: ExplainRequest) -> Self {
        Self { request: Some(request), ..Self::new(ServerCommand::Why) }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// The line is no request of this version; the text names the mistake and the advice.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let versioned: Versioned = serde_json::from_slice(line).map_err(|error| {
            format!("this is not a request, a JSON object with version and command: {error}")
        })?;
        if versioned.version != VERSION {
            return Err(format!(
                "version {} of the control protocol was asked for, and this server has version \
                 {VERSION}; use a pinion of the same version as the server",
                versioned.version
            ));
        }
        let request: Self = serde_json::from_slice(line)
            .map_err(|error| format!("this is not a known request: {error}"))?;
        if request.command == ServerCommand::Why && request.request.is_none() {
            return Err("the command why needs a member `request`, an object with url".to_owned());
        }
        Ok(request)
    }
}

impl Response {
    /// Returns that a request was refused.
    pub(crate) fn refused(error: impl Into<String>) -> Self {
        Self { version: VERSION, error: Some(error.into()), ..Self::default() }
    }

    /// Returns that a request was carried out.
    pub(crate) fn done(messages: Vec<Message>) -> Self {
        Self { version: VERSION, messages, ..Self::default() }
    }

    /// Returns whether everything that was asked for was done.
    pub(crate) fn is_success(&self) -> bool {
        self.error.is_none()
            && self.messages.iter().all(|message| message.level != MessageLevel::Error)
    }
}

impl Message {
    /// Returns a message about a result.
    pub(crate) fn info(text: impl Into<String>) -> Self {
        Self { level: MessageLevel::Info, text: text.into() }
    }

    /// Returns a message about a condition that an operator should look at.
    pub(crate) fn warning(text: impl Into<String>) -> Self {
        Self { level: MessageLevel::Warning, text: text.into() }
    }

    /// Returns a message about a failure.
    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self { level: MessageLevel::Error, text: text.into() }
    }

    /// Writes it to stderr, as a server logs it.
    pub(crate) fn log(&self) {
        match self.level {
            MessageLevel::Info => stderr::line(format_args!("{}", self.text)),
            MessageLevel::Warning => warnings_and_notes::warning(&self.text),
            MessageLevel::Error => stderr::line(format_args!("pinion: {}", self.text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_requests_have_a_reason() {
        let good = br#"{"version":1,"command":"reopen-logs","later":[1]}"#;
        assert_eq!(CommandRequest::parse(good), Ok(CommandRequest::new(ServerCommand::ReopenLogs)));
        let why = br#"{"version":1,"command":"why","request":{"url":"/a","later":1}}"#;
        let request = CommandRequest::parse(why).expect("a request").request.expect("its request");
        assert_eq!((request.method.as_str(), request.headers.len()), ("GET", 0));
        for (line, expected) in [
            ("", "this is not a request"),
            ("status", "this is not a request"),
            ("[]", "this is not a request"),
            (r#"{"command":"status"}"#, "missing field `version`"),
            (r#"{"version":2,"command":"fly"}"#, "version 2 of the control protocol"),
            (r#"{"version":-1,"command":"status"}"#, "this is not a request"),
            (r#"{"version":1}"#, "missing field `command`"),
            (r#"{"version":1,"command":"fly"}"#, "expected one of `status`, `reload`, `drain`"),
            (r#"{"version":1,"command":"why"}"#, "needs a member `request`"),
            (r#"{"version":1,"command":"why","request":{}}"#, "missing field `url`"),
            (r#"{"version":1,"command":"why","request":{"url":7}}"#, "not a known request"),
        ] {
            let error = CommandRequest::parse(line.as_bytes()).expect_err(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
