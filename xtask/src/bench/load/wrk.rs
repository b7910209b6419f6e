//! Loads with wrk: HTTP/1 over persistent or other connections, plain or over TLS.
//!
//! wrk sends the next request as soon as it has a response, so a stalled server gets fewer requests
//! meanwhile. wrk compensates for that: a response that took several times the mean interval of its
//! connection also counts for the requests that were not sent meanwhile. With pipelining that
//! interval is too short by the depth, and the percentiles are meaningless.

use super::load_generators::Measured;
use super::measured_server::{self, CLIENT_CORE};
use crate::{process, workspace_paths};
use anyhow::Result;
use std::path::PathBuf;

/// The parameters of a load by wrk.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) connections: u32,
    pub(crate) seconds: u32,
    pub(crate) url: String,
    /// Fields of each request besides `Host`.
    pub(crate) fields: Vec<String>,
    pub(crate) pattern: Pattern,
}

/// The sequence of requests.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    /// The same request, one after the response to the other.
    Plain,
    /// This many requests in one write.
    Pipelined(u32),
    /// A random line of a file as the target.
    Paths(PathBuf),
}

/// The response time after which wrk counts a timeout.
const TIMEOUT_SECONDS: u32 = 10;

/// Runs one load to its end.
pub(crate) fn run(load: &Load) -> Result<Measured> {
    let scripts = workspace_paths::root().join("bench/load");
    let mut command = measured_server::on_core(CLIENT_CORE, "wrk");
    command.args(["-t1", &format!("-c{}", load.connections), &format!("-d{}s", load.seconds)]);
    command.args(["--timeout", &format!("{TIMEOUT_SECONDS}s")]);
    for field in &load.fields {
        command.args(["-H", field]);
    }
    let (script, argument) = match &load.pattern {
        Pattern::Plain => ("plain.lua", None),
        Pattern::Pipelined(depth) => ("pipeline.lua", Some(depth.to_string())),
        Pattern::Paths(file) => ("paths.lua", Some(file.display().to_string())),
    };
    command.arg("-s").arg(scripts.join(script)).arg(&load.url);
    if let Some(argument) = argument {
        command.args(["--", &argument]);
    }
    Measured::from_line(&process::output(&mut command)?)
}
