//! Why answers were 500, told on stderr so rarely that no damage can fill a disk.

use pinion_engine::clock::Now;
use pinion_engine::stderr;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Milliseconds between two lines about one generation.
const BETWEEN_LINES_MS: u64 = 10_000;

/// Bytes of a target that are shown; enough to find the resource.
const TARGET_SHOWN_BYTES: usize = 256;

/// What was told about one generation, by all workers together.
#[derive(Debug, Default)]
pub(crate) struct DamageReport {
    /// When the next line may be written; 0 before the first.
    next_ms: AtomicU64,
    /// Answers that no line has told of.
    untold: AtomicU64,
}

impl DamageReport {
    /// Writes a line, or counts the answer for the next one.
    #[cold]
    pub(crate) fn tell(&self, now: Now, target: &[u8], why: &dyn fmt::Display) {
        if let Some(untold) = self.turn(now.monotonic_ms) {
            let (shown, dots) = match target.get(..TARGET_SHOWN_BYTES) {
                Some(start) if target.len() > start.len() => (start, "..."),
                _ => (target, ""),
            };
            let target = shown.escape_ascii();
            match untold {
                0 => stderr::line(format_args!("pinion: 500 for {target}{dots}: {why}")),
                count => stderr::line(format_args!(
                    "pinion: 500 for {target}{dots}: {why} (and {count} more answers of 500 before)"
                )),
            }
        }
    }

    /// Whether it is time for a line: how many answers went untold before this one.
    fn turn(&self, now_ms: u64) -> Option<u64> {
        let next_ms = self.next_ms.load(Ordering::Relaxed);
        let later_ms = now_ms + BETWEEN_LINES_MS;
        let mine = now_ms >= next_ms
            && self
                .next_ms
                .compare_exchange(next_ms, later_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        match mine {
            true => Some(self.untold.swap(0, Ordering::Relaxed)),
            false => {
                self.untold.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_damage_is_a_line_now_and_then_with_a_count() {
        let report = DamageReport::default();
        assert_eq!(report.turn(5_000), Some(0));
        for _ in 0..1000 {
            assert_eq!(report.turn(5_001), None);
        }
        assert_eq!(report.turn(5_000 + BETWEEN_LINES_MS), Some(1000));
        assert_eq!(report.turn(5_001 + BETWEEN_LINES_MS), None);
        assert_eq!(report.turn(u64::MAX - BETWEEN_LINES_MS), Some(1));
    }
}
