//! The programs that create the load on a core of their own, and their measurements.

use super::background_flood::Attack;
use super::cpu_time::ClientTime;
use super::h2load::{self, Streams};
use super::h3load;
use super::oha::{self, Crowd};
use super::tls_handshakes::{self, Handshakes};
use super::wrk;
use anyhow::{Context, Result};
use serde_json::{Value, json};

/// A program and its parameters.
#[derive(Debug, Clone)]
pub(crate) enum Job {
    /// Another job, while attackers flood the server.
    Flooded(Box<Job>, Attack),
    Handshakes(Handshakes),
    H2load(Streams),
    H3load(h3load::Load),
    Oha(Crowd),
    Wrk(wrk::Load),
}

impl Job {
    /// Runs one load to its end.
    pub(crate) fn run(&self) -> Result<Measured> {
        match self {
            Self::Flooded(job, attack) => {
                let attackers = attack.start()?;
                let measured = job.run()?;
                Ok(Measured { flood: Some(attackers.end()?), ..measured })
            }
            Self::Handshakes(load) => tls_handshakes::run(load),
            Self::H2load(load) => h2load::run(load),
            Self::H3load(load) => h3load::run(load),
            Self::Oha(load) => oha::run(load),
            Self::Wrk(load) => wrk::run(load),
        }
    }
}

/// The counts of a load. Times are microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Measured {
    /// Responses, or handshakes if no requests are sent.
    pub(crate) requests: u64,
    /// The time from the first connection to the end.
    pub(crate) duration: u64,
    pub(crate) p50: u64,
    pub(crate) p75: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) max: u64,
    /// Connections refused or broken while opening, reading and writing.
    pub(crate) errors: u64,
    /// Responses with a status of 400 or more.
    pub(crate) refusals: u64,
    pub(crate) timeouts: u64,
    /// Bytes that the client received, if it counts them. Over HTTP/2 they are those of the frames
    /// inside TLS, over HTTP/3 those of the datagrams.
    pub(crate) received_bytes: Option<u64>,
    /// The CPU time of the client, if it is measured.
    pub(crate) client: Option<ClientTime>,
    /// The ends of the connections that flooded the server meanwhile.
    pub(crate) flood: Option<Ends>,
}

/// Connections of attackers, by their ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ends {
    pub(crate) connections: u64,
    /// The server closed it for excessive load.
    pub(crate) calm: u64,
    /// The server gave another reason.
    pub(crate) other: u64,
    /// The server gave no reason.
    pub(crate) cut: u64,
    /// Nothing happened any more.
    pub(crate) hung: u64,
    /// The attacker left at the end of its time.
    pub(crate) left: u64,
}

impl Ends {
    fn data(&self) -> Value {
        json!({
            "connections": self.connections, "calm": self.calm, "other": self.other,
            "cut": self.cut, "hung": self.hung, "left": self.left,
        })
    }
}

impl Measured {
    pub(crate) fn requests_per_second(&self) -> f64 {
        self.requests as f64 * 1e6 / self.duration.max(1) as f64
    }

    pub(crate) fn data(&self) -> Value {
        let mut data = json!({
            "requests": self.requests, "duration_us": self.duration,
            "p50_us": self.p50, "p75_us": self.p75, "p90_us": self.p90, "p99_us": self.p99,
            "p99_9_us": self.p999, "max_us": self.max, "errors": self.errors,
            "refusals": self.refusals, "timeouts": self.timeouts,
        });
        if let Some(bytes) = self.received_bytes {
            data["received_bytes"] = json!(bytes);
        }
        if let Some(client) = self.client {
            data["client_cpu_us"] = json!(client.cpu_us);
            data["client_wall_us"] = json!(client.wall_us);
        }
        if let Some(flood) = &self.flood {
            data["flood"] = flood.data();
        }
        data
    }

    /// Parses the line that the scripts in `bench/load` print.
    pub(crate) fn from_line(text: &str) -> Result<Self> {
        Self::read(text).with_context(|| format!("no report:\n{text}"))
    }

    fn read(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("measured "))?;
        let figure = |name: &str| -> Option<u64> {
            line.split_whitespace()
                .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?
                .parse()
                .ok()
        };
        Some(Self {
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
            ..Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_wrk_script_is_found_in_the_output() {
        let text = "Running 2s test\nmeasured requests=90 duration=2000000 bytes=9 p50=1 p75=2 \
            p90=3 p99=4 p999=5 max=6 connect=1 read=2 write=4 status=8 timeout=16\nDone\n";
        let read = Measured::read(text).unwrap();
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
            ..Measured::default()
        };
        assert_eq!(read, expected);
        assert_eq!(read.requests_per_second(), 45.0);
    }

    #[test]
    fn a_report_with_a_missing_figure_is_refused() {
        assert_eq!(Measured::read("measured requests=90 duration=1\n"), None);
        assert_eq!(Measured::read("unable to connect\n"), None);
    }
}
