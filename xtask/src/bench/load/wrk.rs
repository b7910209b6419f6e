//! The load: wrk on a core of its own, and what it measured.
//!
//! wrk asks again as soon as it is answered, so a server that stalls is asked less while it does.
//! It makes up for that: an answer that took several times the mean interval of its connection also
//! counts as the ones that were not asked for meanwhile. With pipelining that interval is too short
//! by the depth, and the percentiles mean nothing.

use super::server::{self, CLIENT_CORE};
use crate::{process, workspace};
use anyhow::{Context, Result};
use serde_json::{Value, json};
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

/// What wrk counted. Times are microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Measured {
    pub(crate) requests: u64,
    /// From the first connection to the end.
    pub(crate) duration: u64,
    pub(crate) p50: u64,
    pub(crate) p75: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) max: u64,
    /// Connections refused or broken while opening, reading and writing.
    pub(crate) errors: u64,
    /// Answers with a status of 400 or more.
    pub(crate) refusals: u64,
    pub(crate) timeouts: u64,
}

impl Measured {
    pub(crate) fn requests_per_second(&self) -> f64 {
        self.requests as f64 * 1e6 / self.duration.max(1) as f64
    }

    pub(crate) fn data(&self) -> Value {
        json!({
            "requests": self.requests, "duration_us": self.duration,
            "p50_us": self.p50, "p75_us": self.p75, "p90_us": self.p90, "p99_us": self.p99,
            "p99_9_us": self.p999, "max_us": self.max, "errors": self.errors,
            "refusals": self.refusals, "timeouts": self.timeouts,
        })
    }
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
    let text = process::output(&mut command)?;
    measured(&text).with_context(|| format!("wrk did not report:\n{text}"))
}

/// Reads the line that `report.lua` prints.
fn measured(text: &str) -> Option<Measured> {
    let line = text.lines().find_map(|line| line.strip_prefix("measured "))?;
    let figure = |name: &str| -> Option<u64> {
        line.split_whitespace()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?
            .parse()
            .ok()
    };
    Some(Measured {
        requests: figure("requests")?,
        duration: figure("duration")?,
        p50: figure("p50")?,
        p75: figure("p75")?,
        p90: figure("p90")?,
        p99: figure("p99")?,
        p999: figure("p999")?,
        max: figure("max")?,
        errors: figure("connect")? + figure("read")? + figure("write")?,
        refusals: figure("status")?,
        timeouts: figure("timeout")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_script_is_read_among_the_others() {
        let text = "Running 2s test\nmeasured requests=90 duration=2000000 bytes=9 p50=1 p75=2 \
            p90=3 p99=4 p999=5 max=6 connect=1 read=2 write=4 status=8 timeout=16\nDone\n";
        let read = measured(text).unwrap();
        let expected = Measured {
            requests: 90,
            duration: 2_000_000,
            p50: 1,
            p75: 2,
            p90: 3,
            p99: 4,
            p999: 5,
            max: 6,
            errors: 7,
            refusals: 8,
            timeouts: 16,
        };
        assert_eq!(read, expected);
        assert_eq!(read.requests_per_second(), 45.0);
    }

    #[test]
    fn a_missing_figure_is_no_report() {
        assert_eq!(measured("measured requests=90 duration=1\n"), None);
        assert_eq!(measured("unable to connect\n"), None);
    }
}
