//! `pinion status`, `reload`, `stop`, `drain` and `reopen-logs`: commands for a running server,
//! over its control socket.

use super::status;
use crate::control::client;
use crate::control::protocol::{CommandRequest, Message, MessageLevel, ServerCommand};
use crate::failure::Failure;
use crate::settings::ControlCommand;
use crate::terminal::shown;
use anyhow::anyhow;
use pinion_engine::stderr;
use serde_json::json;
use std::io::{self, Write as _};

/// Asks, and shows the response.
pub(crate) fn run(control: &ControlCommand) -> Result<(), Failure> {
    match control.command {
        ServerCommand::Status => status::run(control),
        command => {
            let mut server = client::server(control.socket.as_deref())?;
            let response = server.ask(&CommandRequest::new(command))?;
            if let Some(error) = response.error {
                return Err(anyhow!("the server at {}: {error}", server.socket.display()).into());
            }
            if !control.json {
                show(&response.messages)?;
            }
            if matches!(command, ServerCommand::Stop | ServerCommand::Drain) {
                server.wait_for_end()?;
            }
            let is_success = response.is_success();
            if control.json {
                let document = json!({"messages": response.messages});
                writeln!(io::stdout().lock(), "{document}")?;
            }
            if is_success { Ok(()) } else { Err(Failure::AlreadyReported) }
        }
    }
}

/// Writes results to stdout, and other messages to stderr as the server logs them.
fn show(messages: &[Message]) -> io::Result<()> {
    for message in messages {
        // A message may have several lines: the stack of a script.
        let lines: Vec<String> = message.text.lines().map(|line| shown(line.as_bytes())).collect();
        let text = lines.join("\n");
        match message.level {
            MessageLevel::Info => writeln!(io::stdout().lock(), "{text}")?,
            MessageLevel::Warning => stderr::line(format_args!("pinion: warning: {text}")),
            MessageLevel::Error => stderr::line(format_args!("pinion: {text}")),
        }
    }
    Ok(())
}
