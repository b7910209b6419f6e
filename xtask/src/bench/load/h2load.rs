//! Loads with h2load: HTTP/2 over TLS with several open requests on each connection, and a number
//! of requests over HTTP/1.1.

use super::cpu_time;
use super::load_generators::Measured;
use super::measured_server::{self, CLIENT_CORE};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The parameters of a load by h2load.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    pub(crate) connections: u32,
    /// Requests that are open on a connection at the same time.
    pub(crate) streams: u32,
    pub(crate) seconds: u32,
    pub(crate) url: String,
    /// A file with URLs that are requested in turn instead.
    pub(crate) urls: Option<PathBuf>,
    /// A file for the time of each response.
    pub(crate) times: PathBuf,
    /// Requests of a connection in a second, if they do not wait for one another.
    pub(crate) rate: Option<f64>,
}

/// A number of requests over HTTP/1.1.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    pub(crate) requests: u32,
    pub(crate) connections: u32,
    pub(crate) url: String,
    /// A file for the time of each response.
    pub(crate) times: PathBuf,
}

/// Runs one load to its end, on all cores.
pub(crate) fn run_requests(load: &Requests) -> Result<Measured> {
    let mut command = Command::new("h2load");
    command.args(["--h1", "-t1", &format!("-c{}", load.connections)]);
    command.arg(format!("-n{}", load.requests));
    let began = Instant::now();
    command.arg(&load.url);
    let measured = measured(command, &load.times)?;
    let duration = began.elapsed().as_micros().try_into().unwrap_or(u64::MAX);
    Ok(Measured { duration, ..measured })
}

/// Runs one load to its end.
pub(crate) fn run(load: &Streams) -> Result<Measured> {
    let mut command = measured_server::on_core(CLIENT_CORE, "h2load");
    command.args(["-t1", &format!("-c{}", load.connections), &format!("-m{}", load.streams)]);
    command.args([&format!("-D{}", load.seconds), "--npn-list=h2"]);
    command.args(load.rate.map(|rate| format!("--rps={rate}")));
    match &load.urls {
        Some(urls) => command.arg("-i").arg(urls),
        None => command.arg(&load.url),
    };
    let measured = measured(command, &load.times)?;
    Ok(Measured { duration: u64::from(load.seconds) * 1_000_000, ..measured })
}

/// Runs the command; returns its report, with the times that it writes to a file.
fn measured(mut command: Command, times: &Path) -> Result<Measured> {
    // h2load appends to an existing file.
    let _ = fs::remove_file(times);
    command.arg(format!("--log-file={}", times.display()));
    let (text, time) = cpu_time::output_with_time(&mut command)?;
    let shown = || times.display().to_string();
    let times = fs::read_to_string(times).with_context(shown)?;
    let counted = counted(&text).with_context(|| format!("h2load did not report:\n{text}"))?;
    let measured = with_times(counted, &times);
    let measured = measured.with_context(|| format!("{}: answers without times", shown()))?;
    Ok(Measured { client: Some(time), ..measured })
}

/// Parses the counts of the summary. Failed requests there include broken and refused ones, and
/// broken ones include timeouts. Bytes are those of the frames inside TLS.
fn counted(text: &str) -> Option<Measured> {
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
    let (requests, codes) = (line("requests: ")?, line("status codes: ")?);
    let traffic = line("traffic: ")?;
    let count = |line: &str, suffix: &str| -> Option<u64> {
        line.split(", ").find_map(|part| part.strip_suffix(suffix))?.trim().parse().ok()
    };
    let (broken, timeouts) = (count(requests, " errored")?, count(requests, " timeout")?);
    Some(Measured {
        requests: count(requests, " done")?.checked_sub(broken)?,
        errors: broken.checked_sub(timeouts)?,
        refusals: count(codes, " 4xx")? + count(codes, " 5xx")?,
        timeouts,
        received_bytes: Some(traffic.split(['(', ')']).nth(1)?.parse().ok()?),
        ..Measured::default()
    })
}

/// Adds the percentiles of a log, whose lines have the start, the status and the microseconds of
/// each response. Returns `None` if it lacks the times of counted responses.
fn with_times(counted: Measured, log: &str) -> Option<Measured> {
    let took = |line: &str| line.rsplit('\t').next()?.parse().ok();
    let mut times: Vec<u64> = log.lines().filter_map(took).collect();
    if times.is_empty() && counted.requests > 0 {
        return None;
    }
    times.sort_unstable();
    let within = |per_mille: usize| {
        let at = (times.len() * per_mille / 1000).min(times.len().saturating_sub(1));
        times.get(at).copied().unwrap_or(0)
    };
    Some(Measured {
        p50: within(500),
        p75: within(750),
        p90: within(900),
        p99: within(990),
        p999: within(999),
        max: within(1000),
        ..counted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: &str = "finished in 2.00s, 45.50 req/s, 2.93MB/s\n\
        requests: 100 total, 100 started, 95 done, 86 succeeded, 9 failed, 5 errored, 2 timeout\n\
        status codes: 86 2xx, 0 3xx, 3 4xx, 1 5xx\n\
        traffic: 5.86MB (6144000) total, 1.1KB (1126) headers (space savings 9.1%), 5.8MB (5990) \
        data\n";

    #[test]
    fn the_summary_of_h2load_is_parsed() {
        let expected = Measured {
            requests: 90,
            errors: 3,
            refusals: 4,
            timeouts: 2,
            received_bytes: Some(6_144_000),
            ..Measured::default()
        };
        assert_eq!(counted(SUMMARY), Some(expected));
        assert_eq!(counted("finished in 2.00s\n"), None);
    }

    #[test]
    fn percentiles_are_computed_from_the_last_column() {
        let log: String = (1..=100).rev().map(|time| format!("170\t200\t{time}\n")).collect();
        let measured = with_times(Measured::default(), &log).unwrap();
        assert_eq!((measured.p50, measured.p99, measured.max), (51, 100, 100));
    }

    #[test]
    fn responses_without_times_give_no_figures() {
        let none = Measured::default();
        assert_eq!(with_times(none, ""), Some(none));
        let answered = Measured { requests: 1, ..none };
        assert_eq!(with_times(answered, ""), None);
        assert_eq!(with_times(answered, "170\t200\tsoon\n"), None);
    }
}
