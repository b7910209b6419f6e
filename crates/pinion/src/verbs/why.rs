//! `pinion why [SOURCE] URL`: which site, rule, file or route gives the response to a request,
//! which steps came before it, and where each header comes from. [`crate::explain`] or a running
//! server makes the explanation; this module writes it, for people ([`text`]) or as JSON.

mod text;

use crate::control::client;
use crate::control::protocol::CommandRequest;
use crate::explain::explain_plan;
use crate::explain::explanation::Explanation;
use crate::explain::request::{ExplainRequest, WhyRequest};
use crate::failure::Failure;
use crate::plan::ServerPlan;
use crate::settings::{ExplainedServer, Why};
use crate::terminal::TerminalStyle;
use anyhow::anyhow;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Writes the explanation, for people or as JSON.
pub(crate) fn run(why: Why) -> Result<(), Failure> {
    let Why { server, url, method, headers, json } = why;
    let request = WhyRequest::new(url.as_bytes(), &method, &headers)?;
    let explanation = match server {
        ExplainedServer::Planned(serve) => explain_plan(ServerPlan::make(*serve)?, &request)?,
        ExplainedServer::Running(socket) => {
            let request = ExplainRequest::new(&request, &method, &headers);
            ask(socket.as_deref(), request)?
        }
    };
    let mut out = BufWriter::new(io::stdout().lock());
    if json {
        serde_json::to_writer_pretty(&mut out, &explanation).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        text::write(&explanation, &mut out, TerminalStyle::of_stdout())?;
    }
    Ok(out.flush()?)
}

/// Asks a running server.
fn ask(socket: Option<&Path>, request: ExplainRequest) -> Result<Explanation, Failure> {
    let mut server = client::server(socket).map_err(|failure| match failure {
        Failure::Failed(error) if socket.is_none() => {
            let advice = "to explain what is not served, give it: pinion why SOURCE URL";
            anyhow!("{error:#}; {advice}").into()
        }
        failure => failure,
    })?;
    let response = server.ask(&CommandRequest::explain(request))?;
    let shown = server.socket.display();
    match (response.explanation, response.error) {
        (Some(explanation), None) => Ok(*explanation),
        (_, Some(error)) if is_unknown_command(&error) => Err(anyhow!(
            "the server at {shown} has an older version of pinion, which cannot explain responses; \
             restart it, or give what it serves: pinion why SOURCE URL"
        )
        .into()),
        (_, error) => {
            let error = error.unwrap_or_else(|| "gave no explanation".to_owned());
            Err(anyhow!("the server at {shown}: {error}").into())
        }
    }
}

/// Returns whether a server has refused a request because it does not know the command. The text is
/// that of all versions before this command.
fn is_unknown_command(error: &str) -> bool {
    error.starts_with("this is not a known request: unknown variant `why`")
}
