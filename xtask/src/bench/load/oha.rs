//! Loads with oha: a thousand clients at once, with persistent connections or one connection for
//! each request. No distribution has it, so a variable or the search path must name it.

use super::load_generators::Measured;
use super::measured_server::{self, CLIENT_CORE};
use crate::process;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::PathBuf;

/// The parameters of a load by oha.
#[derive(Debug, Clone)]
pub(crate) struct Crowd {
    pub(crate) program: PathBuf,
    pub(crate) connections: u32,
    pub(crate) seconds: u32,
    pub(crate) url: String,
    /// Whether each request has a connection of its own.
    pub(crate) closes: bool,
}

/// Returns the path of oha, if it is installed.
pub(crate) fn find() -> Option<PathBuf> {
    std::env::var_os("OHA").map(PathBuf::from).or_else(|| process::find("oha"))
}

/// Runs one load to its end.
pub(crate) fn run(load: &Crowd) -> Result<Measured> {
    let mut command = measured_server::on_core(CLIENT_CORE, &load.program);
    command.args(["--no-tui", "--insecure", "--output-format", "json"]);
    command.args(["-c", &load.connections.to_string(), "-z", &format!("{}s", load.seconds)]);
    command.args(load.closes.then_some("--disable-keepalive")).arg(&load.url);
    let text = process::output(&mut command)?;
    measured(&text).with_context(|| format!("oha did not report:\n{text}"))
}

fn measured(text: &str) -> Option<Measured> {
    let data: Value = serde_json::from_str(text).ok()?;
    let counts = |name: &str| -> Option<Vec<(&String, u64)>> {
        let object = data[name].as_object()?;
        Some(object.iter().map(|(kind, count)| (kind, count.as_u64().unwrap_or(0))).collect())
    };
    let sum = |counts: &[(&String, u64)]| counts.iter().map(|(_, count)| count).sum();
    let mut responses = counts("statusCodeDistribution")?;
    let mut errors = counts("errorDistribution")?;
    // Requests that were open at the end of the load are no errors.
    errors.retain(|(kind, _)| !kind.contains("deadline"));
    let requests = sum(&responses);
    responses.retain(|(status, _)| status.as_str() >= "400");
    let percentiles = &data["latencyPercentiles"];
    let microseconds = |value: &Value| value.as_f64().map_or(0, |seconds| (seconds * 1e6) as u64);
    Some(Measured {
        requests,
        duration: microseconds(&data["summary"]["total"]),
        p50: microseconds(&percentiles["p50"]),
        p75: microseconds(&percentiles["p75"]),
        p90: microseconds(&percentiles["p90"]),
        p99: microseconds(&percentiles["p99"]),
        p999: microseconds(&percentiles["p99.9"]),
        max: microseconds(&data["summary"]["slowest"]),
        errors: sum(&errors),
        refusals: sum(&responses),
        timeouts: 0,
        ..Measured::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_open_at_the_end_are_not_counted_as_errors() {
        let text = r#"{
            "summary": { "total": 2.0, "slowest": 0.5 },
            "latencyPercentiles": { "p50": 0.001, "p99": 0.02, "p99.9": null },
            "statusCodeDistribution": { "200": 90, "404": 3, "503": 2 },
            "errorDistribution": { "aborted due to deadline": 64, "connection closed": 5 }
        }"#;
        let read = measured(text).unwrap();
        assert_eq!((read.requests, read.errors, read.refusals), (95, 5, 5));
        assert_eq!(
            (read.duration, read.p50, read.p99, read.max),
            (2_000_000, 1000, 20_000, 500_000)
        );
        assert!(measured("no such host").is_none());
    }
}
