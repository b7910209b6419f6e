//! Other processes with the same keys, each with its own epoch, and whether they live.

use super::config::HasEnded;
use std::time::{Duration, Instant};

/// The time for which a living process is believed to live: a check costs some system calls, which
/// clients cause, and a lost connection is reset at most so much later.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Processes that one worker remembers: several restarts within the time that clients keep a
/// connection. With more, the one that was checked longest ago is checked again.
const REMEMBERED_MAX: usize = 16;

/// The knowledge of one worker about other processes.
pub(super) struct Predecessors {
    has_ended: HasEnded,
    /// At most [`REMEMBERED_MAX`] processes, in the order in which they were checked.
    asked: Vec<AskedEpoch>,
}

#[derive(Clone, Copy)]
struct AskedEpoch {
    epoch: u16,
    at: Instant,
    has_ended: bool,
}

impl Predecessors {
    pub(super) fn new(has_ended: HasEnded) -> Self {
        Self { has_ended, asked: Vec::new() }
    }

    /// Returns whether the process with this epoch has ended.
    pub(super) fn have_ended(&mut self, epoch: u16, now: Instant) -> bool {
        let known = self.asked.iter().position(|asked| asked.epoch == epoch);
        if let Some(asked) = known.and_then(|place| self.asked.get(place)) {
            let is_recent = now.saturating_duration_since(asked.at) < ASKED_AGAIN_AFTER;
            if asked.has_ended || is_recent {
                return asked.has_ended;
            }
        }
        let is_full = self.asked.len() == REMEMBERED_MAX;
        if let Some(place) = known.or(is_full.then_some(0)) {
            self.asked.remove(place);
        }
        let has_ended = (self.has_ended)(epoch);
        self.asked.push(AskedEpoch { epoch, at: now, has_ended });
        has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    #[test]
    fn liveness_is_checked_once_a_second_and_never_after_the_end() {
        let (ended, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (ends, counts) = (Arc::clone(&ended), Arc::clone(&asked));
        let mut predecessors = Predecessors::new(Arc::new(move |_| {
            counts.fetch_add(1, Ordering::Relaxed);
            ends.load(Ordering::Relaxed)
        }));
        let start = Instant::now();
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        for (at, says, questions) in [(0, false, 1), (999, false, 1), (1000, false, 2)] {
            assert_eq!(predecessors.have_ended(7, after(at)), says, "{at}");
            assert_eq!(asked.load(Ordering::Relaxed), questions, "{at}");
        }
        ended.store(true, Ordering::Relaxed);
        for (at, says, questions) in [(1999, false, 2), (2000, true, 3), (9000, true, 3)] {
            assert_eq!(predecessors.have_ended(7, after(at)), says, "{at}");
            assert_eq!(asked.load(Ordering::Relaxed), questions, "{at}");
        }
    }
    /// A client with connections of several processes cannot cause a check for each datagram.
    #[test]
    fn a_bounded_number_of_processes_is_remembered() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&asked);
        let mut predecessors = Predecessors::new(Arc::new(move |epoch| {
            counts.fetch_add(1, Ordering::Relaxed);
            epoch % 2 == 0
        }));
        let now = Instant::now();
        for _ in 0..3 {
            for epoch in 0..REMEMBERED_MAX as u16 {
                assert_eq!(predecessors.have_ended(epoch, now), epoch % 2 == 0);
            }
        }
        assert_eq!(asked.load(Ordering::Relaxed), REMEMBERED_MAX);
        for epoch in 0..1000 {
            assert_eq!(predecessors.have_ended(epoch, now), epoch % 2 == 0);
            assert!(predecessors.asked.len() <= REMEMBERED_MAX);
        }
    }
}
