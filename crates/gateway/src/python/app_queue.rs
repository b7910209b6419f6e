//! How many requests each process of an application has, and which requests wait. All workers share
//! it, and the request that has waited for the longest time is the next, of whichever worker.
//!
//! A process has as many requests as it has threads. While all have, one that is quick gets more,
//! so that it has the next one at hand when it has responded.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::limits::{BACKLOG_MAX, QUICK_MS, SERVICE_TIME_WEIGHT};

/// See the head of the module. A request is `T`.
#[derive(Debug)]
pub(super) struct AppQueue<T> {
    threads: usize,
    waiting_max: usize,
    state: Mutex<QueueState<T>>,
}

#[derive(Debug)]
struct QueueState<T> {
    processes: Vec<ProcessLoad>,
    waiting: VecDeque<T>,
    /// Requests that may run in a process, and that have not heard of it yet.
    granted: Vec<(T, usize)>,
}

/// What a process has to do.
#[derive(Clone, Copy, Debug)]
struct ProcessLoad {
    /// Requests that it has, and those in `granted`.
    requests: usize,
    /// The moving average of the time for a request, in 1/256 ms.
    service_time: u64,
}

/// One millisecond of [`ProcessLoad::service_time`].
const MILLISECOND: u64 = 256;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueEntry {
    /// The process with this number has it. The caller calls [`AppQueue::release`] behind its end.
    Run(usize),
    /// It waits.
    Waits,
    /// Too many wait.
    Full,
}

impl<T: PartialEq + Copy> AppQueue<T> {
    pub(super) fn new(processes: usize, threads: usize, waiting_max: usize) -> Self {
        // A process is quick once it has shown it.
        let load = ProcessLoad { requests: 0, service_time: QUICK_MS * MILLISECOND };
        let processes = vec![load; processes.max(1)];
        let state = QueueState { processes, waiting: VecDeque::new(), granted: Vec::new() };
        Self { threads: threads.max(1), waiting_max, state: Mutex::new(state) }
    }

    /// Adds a request.
    pub(super) fn enter(&self, request: T) -> QueueEntry {
        let mut state = self.lock();
        // What has waited comes first.
        if state.waiting.is_empty()
            && let Some(process) = state.free_process(self.threads)
        {
            return QueueEntry::Run(process);
        }
        if state.waiting.len() >= self.waiting_max {
            return QueueEntry::Full;
        }
        state.waiting.push_back(request);
        QueueEntry::Waits
    }

    /// A request has ended that a process had. It has taken `service_ms`, if it was served. Returns
    /// the request that may run now, which has to be told.
    #[must_use]
    pub(super) fn release(&self, process: usize, service_ms: Option<u64>) -> Option<T> {
        let mut state = self.lock();
        if let Some(load) = state.processes.get_mut(process) {
            load.requests = load.requests.saturating_sub(1);
            if let Some(ms) = service_ms {
                let sum = load.service_time * (SERVICE_TIME_WEIGHT - 1) + ms * MILLISECOND;
                load.service_time = sum / SERVICE_TIME_WEIGHT;
            }
        }
        if state.waiting.is_empty() {
            return None;
        }
        let process = state.free_process(self.threads)?;
        let next = state.waiting.pop_front()?;
        state.granted.push((next, process));
        Some(next)
    }

    /// Takes a request that has waited out of the queue. Returns the process that it may run in, so
    /// that the caller runs it there or calls [`Self::release`].
    #[must_use]
    pub(super) fn take(&self, request: T) -> Option<usize> {
        let mut state = self.lock();
        if let Some(at) = state.granted.iter().position(|(granted, _)| *granted == request) {
            return Some(state.granted.swap_remove(at).1);
        }
        state.waiting.retain(|waiting| *waiting != request);
        None
    }

    /// Whether a process has a request, or one waits.
    pub(super) fn is_used(&self) -> bool {
        let state = self.lock();
        !state.waiting.is_empty() || state.processes.iter().any(|load| load.requests > 0)
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> QueueState<T> {
    /// Gives the process with the fewest requests another one, if it may have one.
    fn free_process(&mut self, threads: usize) -> Option<usize> {
        let with_room = |load: &&mut ProcessLoad| {
            let is_quick = load.service_time < QUICK_MS * MILLISECOND;
            load.requests < threads || is_quick && load.requests < BACKLOG_MAX
        };
        let loads = self.processes.iter_mut().enumerate();
        let free = loads.filter(|(_, load)| with_room(load));
        let (process, load) = free.min_by_key(|(_, load)| load.requests)?;
        load.requests += 1;
        Some(process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: fn(usize) -> QueueEntry = QueueEntry::Run;

    #[test]
    fn requests_go_to_the_process_with_the_fewest() {
        let queue = AppQueue::new(2, 2, 1);
        let entered: Vec<QueueEntry> = (0..6).map(|request| queue.enter(request)).collect();
        let waits = [QueueEntry::Waits, QueueEntry::Full];
        assert_eq!(entered, [[RUN(0), RUN(1)], [RUN(0), RUN(1)], waits].concat());
        assert_eq!(queue.release(1, Some(5)), Some(4));
        assert_eq!((queue.take(4), queue.take(4)), (Some(1), None));
        assert_eq!((queue.release(0, Some(5)), queue.enter(6)), (None, RUN(0)));
    }

    #[test]
    fn a_quick_process_has_a_backlog_until_it_is_slow() {
        let queue = AppQueue::new(1, 1, 100);
        assert_eq!((queue.enter(0), queue.enter(1)), (RUN(0), QueueEntry::Waits));
        assert_eq!(queue.release(0, Some(0)), Some(1));
        assert_eq!(queue.take(1), Some(0));
        let backlog = (2..).take_while(|request| queue.enter(*request) == RUN(0)).count();
        assert_eq!(backlog, BACKLOG_MAX - 1);
        let mut running = BACKLOG_MAX;
        while running > 1 {
            // The first one that did not fit waits, and gets no place as long as the process is
            // slow.
            running -= 1;
            assert_eq!(queue.release(0, Some(20)), None);
        }
        assert!(queue.release(0, Some(20)).is_some(), "it is as with one thread now");
        assert_eq!(queue.enter(1000), QueueEntry::Waits);
    }

    /// A request that leaves right after its turn has come passes it on.
    #[test]
    fn a_turn_is_passed_on() {
        let queue = AppQueue::new(1, 1, 9);
        let entered = [1, 2, 3].map(|request| queue.enter(request));
        assert_eq!(entered, [RUN(0), QueueEntry::Waits, QueueEntry::Waits]);
        assert_eq!(queue.take(2), None, "it has left before its turn");
        assert_eq!(queue.release(0, None), Some(3));
        assert_eq!(queue.take(3), Some(0));
        assert_eq!((queue.release(0, None), queue.enter(4)), (None, RUN(0)));
    }
}
