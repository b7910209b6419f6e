//! The congestion control of QUIC: how much a connection may have on its way. It is a controller of
//! quinn-proto, chosen by the operator (docs/decisions/0037).

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{
    BbrConfig, Controller, ControllerFactory, ControllerMetrics, CubicConfig,
};

use crate::limits::{QUIC_BBR_WINDOW_BYTES, QUIC_CUBIC_WINDOW_BYTES};

/// The algorithm that decides how much a QUIC connection may have on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionControl {
    /// CUBIC (RFC 9438): treats every lost packet as a sign that the path is full, as TCP does.
    #[default]
    Cubic,
    /// BBR, version 1: measures the rate and the round trip of the path, and ignores lost packets.
    Bbr,
}

impl CongestionControl {
    /// Creates the factory of a controller for each connection.
    pub(super) fn factory(self) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self {
            Self::Cubic => {
                let mut config = CubicConfig::default();
                config.initial_window(QUIC_CUBIC_WINDOW_BYTES);
                Arc::new(config)
            }
            Self::Bbr => Arc::new(ValidatedBbrConfig),
        }
    }
}

/// The factory of [`ValidatedBbr`].
struct ValidatedBbrConfig;

impl ControllerFactory for ValidatedBbrConfig {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let mut config = BbrConfig::default();
        config.initial_window(QUIC_BBR_WINDOW_BYTES);
        let inner = Arc::new(config).build(now, current_mtu);
        Box::new(ValidatedBbr { inner, used_bytes: 0, acknowledged_bytes: 0 })
    }
}

/// BBR with a window that is at most twice the bytes that the connection has ever had on its way.
///
/// The window of BBR grows by every byte that is acknowledged before the path was full once. A
/// connection with only small responses would reach a window of all the bytes that it ever sent,
/// and send the first large response in one burst. An unused window gives no information on the
/// path (RFC 7661, section 1).
struct ValidatedBbr {
    inner: Box<dyn Controller>,
    /// The most bytes that were on their way at once.
    used_bytes: u64,
    /// Bytes of the acknowledgements that are being read.
    acknowledged_bytes: u64,
}

impl Controller for ValidatedBbr {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.acknowledged_bytes += bytes;
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        let before_bytes = in_flight + std::mem::take(&mut self.acknowledged_bytes);
        self.used_bytes = self.used_bytes.max(before_bytes);
        self.inner.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.inner.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window().min((2 * self.used_bytes).max(QUIC_BBR_WINDOW_BYTES))
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = self.inner.metrics();
        metrics.congestion_window = self.window();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { inner: self.inner.clone_box(), ..*self })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::client_server_pair::Path;
    use super::*;

    /// A connection that sent small responses only has used little of its window, however many
    /// they were; a large one makes it grow.
    #[test]
    fn a_window_of_bbr_that_was_not_used_does_not_grow() {
        const RESPONSES: usize = 200;
        const BYTES: usize = 5000;
        let mut validated = Path::new(CongestionControl::Bbr);
        validated.settle(|_| {});
        for _ in 0..RESPONSES {
            validated.respond(BYTES);
        }
        let small = validated.window();
        assert!(small <= 2 * QUIC_BBR_WINDOW_BYTES, "{small}");
        validated.respond(16 << 20);
        let large = validated.window();
        assert!(large > 8 * QUIC_BBR_WINDOW_BYTES, "{large}");
    }
}
