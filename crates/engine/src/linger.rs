//! The end of a connection after its last response. Further input of the peer is read and dropped
//! for a while: a plain close would reset the connection under the response (RFC 9112 §9.6). Many
//! clients read nothing before they have sent all.

use std::collections::VecDeque;

use crate::backend::Slot;
use crate::limits::{
    LINGER_CONTENT_MS, LINGER_MAX_BYTES, LINGER_MAX_MS, LINGER_MS, LINGER_PERMIT_DIVISOR,
};

/// The input that the peer may still send after the last response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remaining {
    /// No input: the peer has announced that, or has ended its side.
    Nothing,
    /// No useful input: an extra line end, or a request that came too late.
    UselessInput,
    /// The rest of a request, of any length.
    Content,
}

/// The state of a lingering connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LingerState {
    /// The last response has not left in full.
    Sending,
    /// It has left, and input is dropped until this time at the latest, in milliseconds.
    Dropping { until_ms: u64 },
}

/// A connection that has sent, or is sending, its last response.
pub(crate) struct Linger {
    state: LingerState,
    pub(crate) remaining: Remaining,
    /// Whether it had HTTP/2, where a client goes on sending while it reads.
    pub(crate) was_http2: bool,
    /// The number of dropped bytes.
    dropped_bytes: u64,
}

impl Linger {
    pub(crate) fn new(remaining: Remaining, was_http2: bool) -> Self {
        Self { state: LingerState::Sending, remaining, was_http2, dropped_bytes: 0 }
    }

    /// Begins to drop input: the last response has left.
    pub(crate) fn begin(&mut self, now_ms: u64) {
        self.state = LingerState::Dropping { until_ms: now_ms + LINGER_MAX_MS };
    }

    /// Returns when the connection is closed if no input comes, in milliseconds. While the last
    /// response is on its way, that has a deadline of its own.
    pub(crate) fn due_ms(&self, now_ms: u64) -> u64 {
        let patience_ms = match self.remaining {
            Remaining::Content => LINGER_CONTENT_MS,
            Remaining::Nothing | Remaining::UselessInput => LINGER_MS,
        };
        match self.state {
            LingerState::Sending => now_ms + patience_ms,
            LingerState::Dropping { until_ms } => until_ms.min(now_ms + patience_ms),
        }
    }

    /// Returns whether the last response has not left in full.
    pub(crate) fn is_sending(&self) -> bool {
        self.state == LingerState::Sending
    }

    /// Returns whether the last response has left.
    pub(crate) fn has_begun(&self) -> bool {
        !self.is_sending()
    }

    /// Returns how long ago the last response left, in milliseconds; 0 if it has not.
    pub(crate) fn age_ms(&self, now_ms: u64) -> u64 {
        match self.state {
            LingerState::Sending => 0,
            LingerState::Dropping { until_ms } => (now_ms + LINGER_MAX_MS).saturating_sub(until_ms),
        }
    }

    /// Counts dropped bytes. Returns false if they are too many.
    pub(crate) fn drops(&mut self, bytes: usize) -> bool {
        self.dropped_bytes += bytes as u64;
        self.dropped_bytes <= LINGER_MAX_BYTES
    }
}

/// The lingering connections of a worker, limited so that they never hold many permits.
pub(crate) struct Lingering {
    /// The connections in the order in which they began, with their generations; some have ended
    /// since.
    order: VecDeque<(Slot, u64)>,
    /// The number of lingering connections.
    count: usize,
    /// The maximum number of lingering connections.
    max: usize,
}

impl Lingering {
    /// Creates the list with the share of one of `workers` in the permits of a server.
    pub(crate) fn new(permits: usize, workers: usize) -> Self {
        let max = (permits / LINGER_PERMIT_DIVISOR / workers).max(1);
        Self { order: VecDeque::new(), count: 0, max }
    }

    /// Adds a connection that begins to linger. Returns the one that has to end for it, if there
    /// are too many or no memory is left; `is_lingering` returns whether a connection still
    /// lingers.
    pub(crate) fn begin(
        &mut self,
        slot: Slot,
        generation: u64,
        mut is_lingering: impl FnMut(Slot, u64) -> bool,
    ) -> Option<Slot> {
        if self.order.len() >= 2 * self.max {
            self.order.retain(|&(slot, generation)| is_lingering(slot, generation));
        }
        self.count += 1;
        if self.order.try_reserve(1).is_err() {
            return Some(slot);
        }
        self.order.push_back((slot, generation));
        if self.count <= self.max {
            return None;
        }
        while let Some((slot, generation)) = self.order.pop_front() {
            if is_lingering(slot, generation) {
                return Some(slot);
            }
        }
        None
    }

    /// Counts the end of a lingering connection.
    pub(crate) fn end(&mut self) {
        self.count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::CHUNK_BYTES;
    use std::collections::BTreeSet;

    #[test]
    fn lingering_drops_up_to_256_mebibytes() {
        let mut linger = Linger::new(Remaining::Content, false);
        for _ in 0..LINGER_MAX_BYTES / CHUNK_BYTES as u64 {
            assert!(linger.drops(CHUNK_BYTES));
        }
        assert!(!linger.drops(1), "256 MiB are over");
    }

    /// A client that has more to send may be silent for 30 seconds, again and again, but not for
    /// longer than five minutes in all. One that has nothing more to send gets two seconds.
    #[test]
    fn lingering_ends_after_silence_or_five_minutes() {
        const NOW_MS: u64 = 1 << 40;
        let mut linger = Linger::new(Remaining::Content, false);
        assert!(linger.is_sending() && !linger.has_begun());
        assert_eq!(linger.age_ms(NOW_MS), 0);
        linger.begin(NOW_MS);
        assert!(!linger.is_sending() && linger.has_begun());
        for after_ms in [0, 29_000, 269_000, 270_000] {
            assert_eq!(linger.due_ms(NOW_MS + after_ms), NOW_MS + after_ms + LINGER_CONTENT_MS);
        }
        for after_ms in [270_001, 290_000, 300_000, 400_000] {
            assert_eq!(linger.due_ms(NOW_MS + after_ms), NOW_MS + LINGER_MAX_MS);
        }
        assert_eq!(linger.age_ms(NOW_MS + 7), 7);
        for remaining in [Remaining::Nothing, Remaining::UselessInput] {
            linger.remaining = remaining;
            assert_eq!(linger.due_ms(NOW_MS), NOW_MS + LINGER_MS);
        }
        assert_eq!([LINGER_MS, LINGER_CONTENT_MS, LINGER_MAX_MS], [2_000, 30_000, 300_000]);
    }

    /// Whichever connections end meanwhile, there are never more than allowed, the oldest are
    /// closed first, and the list stays short.
    #[test]
    fn the_oldest_lingering_connection_ends_above_the_limit() {
        const MAX: usize = 10;
        let mut lingering = Lingering::new(MAX * LINGER_PERMIT_DIVISOR * 2, 2);
        let mut open = BTreeSet::new();
        for slot in 0..1000 {
            open.insert(slot);
            let ended = lingering.begin(slot, 7, |slot, generation| {
                assert_eq!(generation, 7);
                open.contains(&slot)
            });
            assert_eq!(ended.is_some(), open.len() > MAX);
            if let Some(ended) = ended {
                assert_eq!(open.pop_first(), Some(ended));
                lingering.end();
            }
            if slot % 3 == 0 && open.remove(&(slot - slot % 7)) {
                lingering.end();
            }
            assert!(open.len() <= MAX && lingering.order.len() <= 2 * MAX);
            assert_eq!(lingering.count, open.len());
        }
    }
}
