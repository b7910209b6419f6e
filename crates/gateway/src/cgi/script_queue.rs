//! Limits the number of CGI scripts of a mount that run at the same time, and queues requests. All
//! workers share it, and the request that has waited for the longest time is the next, of any
//! worker.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The running scripts of a mount, and the requests that wait. A request is `T`.
#[derive(Debug)]
pub(super) struct ScriptQueue<T> {
    running_max: usize,
    waiting_max: usize,
    state: Mutex<ScriptQueueState<T>>,
}

#[derive(Debug)]
struct ScriptQueueState<T> {
    /// Scripts that run, and requests in `granted`.
    running: usize,
    waiting: VecDeque<T>,
    /// Requests whose scripts may run, but which have not processed the message about it yet.
    granted: Vec<T>,
}

/// The decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueEntry {
    /// Its script may run. The caller calls [`ScriptQueue::release`] after its end.
    Run,
    /// It waits.
    Waits,
    /// Too many wait.
    Full,
}

impl<T: PartialEq + Copy> ScriptQueue<T> {
    pub(super) fn new(running_max: usize, waiting_max: usize) -> Self {
        let state = ScriptQueueState { running: 0, waiting: VecDeque::new(), granted: Vec::new() };
        Self { running_max: running_max.max(1), waiting_max, state: Mutex::new(state) }
    }

    /// Returns how many scripts may run.
    pub(super) fn running_max(&self) -> usize {
        self.running_max
    }

    /// Adds a request.
    pub(super) fn enter(&self, request: T) -> QueueEntry {
        let mut state = self.lock();
        if state.running < self.running_max {
            // Nothing waits: each script that ends takes the next request.
            state.running += 1;
            return QueueEntry::Run;
        }
        if state.waiting.len() >= self.waiting_max {
            return QueueEntry::Full;
        }
        state.waiting.push_back(request);
        QueueEntry::Waits
    }

    /// Releases the permit of a script that has ended. Returns the request that gets it, which has
    /// to be notified.
    #[must_use]
    pub(super) fn release(&self) -> Option<T> {
        let mut state = self.lock();
        let next = state.waiting.pop_front();
        match next {
            Some(next) => state.granted.push(next),
            None => state.running = state.running.saturating_sub(1),
        }
        next
    }

    /// Takes a request that has waited out of the queue. Returns whether its script may run, so
    /// that the caller runs it or calls [`Self::release`].
    #[must_use]
    pub(super) fn take(&self, request: T) -> bool {
        let mut state = self.lock();
        if let Some(at) = state.granted.iter().position(|granted| *granted == request) {
            state.granted.swap_remove(at);
            return true;
        }
        state.waiting.retain(|waiting| *waiting != request);
        false
    }

    fn lock(&self) -> MutexGuard<'_, ScriptQueueState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_run_in_the_order_in_which_they_came() {
        let queue = ScriptQueue::new(2, 3);
        let entered: Vec<QueueEntry> = (0..6).map(|request| queue.enter(request)).collect();
        let waits = QueueEntry::Waits;
        let (run, full) = (QueueEntry::Run, QueueEntry::Full);
        assert_eq!(entered, [run, run, waits, waits, waits, full]);
        assert_eq!(queue.release(), Some(2));
        // A request that came later does not overtake the others.
        assert_eq!(queue.enter(6), QueueEntry::Waits);
        assert!(queue.take(2), "it may run");
        assert!(!queue.take(4), "it has left before its turn");
        assert_eq!([queue.release(), queue.release()], [Some(3), Some(6)]);
        assert!(queue.take(3) && queue.take(6));
        assert_eq!([queue.release(), queue.release()], [None, None]);
        assert_eq!([queue.enter(7), queue.enter(8), queue.enter(9)], [run, run, waits]);
    }

    /// A request that leaves right after its turn has come passes it on.
    #[test]
    fn a_granted_turn_that_is_not_used_is_passed_on() {
        let queue = ScriptQueue::new(1, 9);
        assert_eq!(queue.enter(1), QueueEntry::Run);
        assert_eq!([queue.enter(2), queue.enter(3)], [QueueEntry::Waits; 2]);
        assert_eq!(queue.release(), Some(2));
        assert!(queue.take(2));
        assert_eq!(queue.release(), Some(3));
        assert!(queue.take(3) && !queue.take(3));
        assert_eq!(queue.release(), None);
        assert_eq!(queue.enter(4), QueueEntry::Run);
    }
}
