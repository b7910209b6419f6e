//! The counts of a measurement.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Counts of responses, errors and datagrams.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The time of each response, in microseconds.
    times: Vec<u32>,
    /// Bytes of content.
    bytes: u64,
    /// Streams that broke, connections that broke, and responses of another length.
    pub(crate) errors: u64,
    /// Responses with another status than 200.
    pub(crate) refusals: u64,
    /// Requests that were open at the end and got no response.
    pub(crate) timeouts: u64,
    /// Datagrams received and sent, and packets that were lost.
    pub(crate) datagrams_in: u64,
    pub(crate) datagrams_out: u64,
    pub(crate) lost_packets: u64,
    /// Bytes of the datagrams that were received.
    pub(crate) received_bytes: u64,
}

impl Tally {
    /// Counts a response that is complete.
    pub(crate) fn answered(&mut self, begun: Instant, now: Instant, bytes: u64) {
        let microseconds = now.saturating_duration_since(begun).as_micros();
        self.times.push(u32::try_from(microseconds).unwrap_or(u32::MAX));
        self.bytes += bytes;
    }

    /// Returns the data that is printed.
    pub(crate) fn data(mut self, duration: Duration) -> Value {
        self.times.sort_unstable();
        let within = |per_mille: usize| {
            let at = (self.times.len() * per_mille / 1000).min(self.times.len().saturating_sub(1));
            self.times.get(at).copied().unwrap_or(0)
        };
        json!({
            "requests": self.times.len(), "duration_us": duration.as_micros() as u64,
            "bytes": self.bytes,
            "p50_us": within(500), "p75_us": within(750), "p90_us": within(900),
            "p99_us": within(990), "p99_9_us": within(999), "max_us": within(1000),
            "errors": self.errors, "refusals": self.refusals, "timeouts": self.timeouts,
            "datagrams_in": self.datagrams_in, "datagrams_out": self.datagrams_out,
            "received_bytes": self.received_bytes, "lost_packets": self.lost_packets,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_sorted_and_bytes_added_up() {
        let (mut tally, begun) = (Tally::default(), Instant::now());
        for milliseconds in (1..=100).rev() {
            tally.answered(begun, begun + Duration::from_millis(milliseconds), 10);
        }
        let data = tally.data(Duration::from_secs(1));
        assert_eq!(data["p50_us"], 51_000);
        assert_eq!(data["p99_us"], 100_000);
        assert_eq!(data["requests"], 100);
        assert_eq!(data["bytes"], 1000);
    }
}
