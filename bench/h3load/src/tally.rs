//! Counts and latencies of a measurement, and their summary as JSON.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Counts of responses, errors and datagrams, and the latency of each response.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The time from the start of each request to the end of its response, in microseconds.
    latencies_us: Vec<u32>,
    /// Bytes of content of all complete responses.
    content_bytes: u64,
    /// Streams and connections that broke, and responses whose content does not have the expected
    /// length, the one that was asked for.
    pub(crate) errors: u64,
    /// Responses with a status other than 200.
    pub(crate) non_200_responses: u64,
    /// Requests that were open at the end and got no response.
    pub(crate) timeouts: u64,
    /// Datagrams that were received.
    pub(crate) datagrams_in: u64,
    /// Datagrams that were sent.
    pub(crate) datagrams_out: u64,
    /// QUIC packets that this side has declared lost.
    pub(crate) lost_packets: u64,
    /// Bytes of the datagrams that were received.
    pub(crate) received_bytes: u64,
}

impl Tally {
    /// Counts a complete response.
    pub(crate) fn count_response(
        &mut self,
        request_start: Instant,
        now: Instant,
        content_bytes: u64,
    ) {
        let microseconds = now.saturating_duration_since(request_start).as_micros();
        self.latencies_us.push(u32::try_from(microseconds).unwrap_or(u32::MAX));
        self.content_bytes += content_bytes;
    }

    /// Returns the counts and the percentiles of the latencies as JSON.
    pub(crate) fn into_json(mut self, duration: Duration) -> Value {
        self.latencies_us.sort_unstable();
        let percentile_us = |per_mille: usize| {
            let at = (self.latencies_us.len() * per_mille / 1000)
                .min(self.latencies_us.len().saturating_sub(1));
            self.latencies_us.get(at).copied().unwrap_or(0)
        };
        json!({
            "requests": self.latencies_us.len(), "duration_us": duration.as_micros() as u64,
            "bytes": self.content_bytes,
            "p50_us": percentile_us(500), "p75_us": percentile_us(750),
            "p90_us": percentile_us(900), "p99_us": percentile_us(990),
            "p99_9_us": percentile_us(999), "max_us": percentile_us(1000),
            "errors": self.errors, "refusals": self.non_200_responses, "timeouts": self.timeouts,
            "datagrams_in": self.datagrams_in, "datagrams_out": self.datagrams_out,
            "received_bytes": self.received_bytes, "lost_packets": self.lost_packets,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_come_from_sorted_latencies_and_bytes_are_summed() {
        let (mut tally, start) = (Tally::default(), Instant::now());
        for milliseconds in (1..=100).rev() {
            tally.count_response(start, start + Duration::from_millis(milliseconds), 10);
        }
        let data = tally.into_json(Duration::from_secs(1));
        assert_eq!(data["p50_us"], 51_000);
        assert_eq!(data["p99_us"], 100_000);
        assert_eq!(data["requests"], 100);
        assert_eq!(data["bytes"], 1000);
    }
}
