//! Reports the reasons of responses with server errors on stderr, so rarely that no damage can fill
//! a disk.

use super::log_throttle::LogThrottle;
use pinion_engine::clock::Now;
use pinion_engine::stderr;
use std::fmt;

/// Bytes of a target that are shown; enough to find the resource.
const TARGET_SHOWN_BYTES: usize = 256;

/// The throttle of reports about the damage of one generation, for all workers together.
#[derive(Debug, Default)]
pub(crate) struct DamageReport(LogThrottle);

impl DamageReport {
    /// Writes a line, or counts the response for the next one.
    #[cold]
    pub(crate) fn report_error(
        &self,
        now: Now,
        status: u16,
        target: &[u8],
        why: &dyn fmt::Display,
    ) {
        if let Some(suppressed) = self.0.admit(now.monotonic_ms) {
            let (shown, dots) = match target.get(..TARGET_SHOWN_BYTES) {
                Some(start) if target.len() > start.len() => (start, "..."),
                _ => (target, ""),
            };
            let target = shown.escape_ascii();
            match suppressed {
                0 => stderr::line(format_args!("pinion: {status} for {target}{dots}: {why}")),
                count => stderr::line(format_args!(
                    "pinion: {status} for {target}{dots}: {why} (and {count} more errors before)"
                )),
            }
        }
    }
}
