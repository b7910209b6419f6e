//! wrk: HTTP/1 over connections that stay open or do not, plain or over TLS.
//!
//! wrk asks again as soon as it is answered, so a server that stalls is asked less while it does.
//! It makes up for that: an answer that took several times the mean interval of its connection also
//! counts as the ones that were not asked for meanwhile. With pipelining that interval is too short
//! by the depth, and the percentiles mean nothing.

use super::client::Measured;
use super::server::{self, CLIENT_CORE};
use crate::{process, workspace};
use anyhow::Result;
use std::path::PathBuf;

/// What wrk is to do.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) connections: u32,
    pub(crate) seconds: u32,
    pub(crate) url: String,
    /// Fields that each request carries beside `Host`.
    pub(crate) fields: Vec<String>,
    pub(crate) pattern: Pattern,
}

/// Which requests are sent, and how.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    /// The same one, a connection's next one after the answer.
    Plain,
    /// So many in one write.
    Pipelined(u32),
    /// A random line of a file as the target.
    Paths(PathBuf),
}

/// How long an answer may take before wrk counts it as a timeout.
const TIMEOUT_SECONDS: u32 = 10;

/// Runs one load to its end.
pub(crate) fn run(load: &Load) -> Result<Measured> {
    let scripts = workspace::root().join("bench/load");
    let mut command = server::on_core(CLIENT_CORE, "wrk");
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
