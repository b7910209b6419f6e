//! The load generators of `bench/h3load`: HTTP/3, which those of distributions do not support, and
//! HTTP/1.1 and RESP at a fixed rate.

use super::cpu_time;
use super::load_generators::Measured;
use super::measured_server::{self, CLIENT_CORE};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::PathBuf;

/// The settings of the load.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) program: PathBuf,
    pub(crate) connections: u32,
    /// The requests of a connection that are open at the same time.
    pub(crate) streams: u32,
    pub(crate) seconds: u32,
    pub(crate) url: String,
    /// The length of the content where it matters.
    pub(crate) body_bytes: Option<u64>,
    /// Requests of a connection in a second, if they do not wait for one another.
    pub(crate) rate: Option<f64>,
}

/// Runs one load to its end.
pub(crate) fn run(load: &Load) -> Result<Measured> {
    let mut command = measured_server::on_core(CLIENT_CORE, &load.program);
    command.args(["-c", &load.connections.to_string(), "-d", &load.seconds.to_string()]);
    // The generator for a fixed rate does not have this option.
    if load.streams > 1 {
        command.args(["-m", &load.streams.to_string()]);
    }
    if let Some(rate) = load.rate {
        command.args(["--rps", &rate.to_string()]);
    }
    if let Some(bytes) = load.body_bytes {
        command.args(["--bytes", &bytes.to_string()]);
    }
    let (text, time) = cpu_time::output_with_time(command.arg(&load.url))?;
    let measured = measured(&text);
    let measured =
        measured.with_context(|| format!("{} did not report:\n{text}", load.program.display()))?;
    Ok(Measured { client: Some(time), ..measured })
}

fn measured(text: &str) -> Option<Measured> {
    let data: Value = serde_json::from_str(text).ok()?;
    let figure = |name: &str| data[name].as_u64();
    Some(Measured {
        requests: figure("requests")?,
        duration: figure("duration_us")?,
        p50: figure("p50_us")?,
        p75: figure("p75_us")?,
        p90: figure("p90_us")?,
        p99: figure("p99_us")?,
        p999: figure("p99_9_us")?,
        max: figure("max_us")?,
        errors: figure("errors")?,
        refusals: figure("refusals")?,
        timeouts: figure("timeouts")?,
        received_bytes: Some(figure("received_bytes")?),
        ..Measured::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_report_of_h3load_is_parsed() {
        let data = Measured {
            requests: 9,
            p999: 5,
            errors: 3,
            received_bytes: Some(7),
            ..Measured::default()
        };
        let read = measured(&data.data().to_string()).unwrap();
        assert_eq!(read, data);
        assert!(measured(r#"{"requests": 9}"#).is_none());
        assert!(measured("connection lost").is_none());
    }
}
