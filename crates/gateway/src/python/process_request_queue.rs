//! Limits the number of requests that each process of an application has, and queues requests. All
//! workers share it, and the request that has waited for the longest time is the next, of any
//! worker.
//!
//! A process has as many requests as it executes at the same time: one for each thread, or many if
//! the application is asynchronous. While all have, one that is quick gets more, so that it has the
//! next one at hand when it has responded.
//!
//! Processes come and go while workers use the application. One that is to end gets no more
//! requests, and is forgotten after its last one.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::limits::{BACKLOG_MAX, QUICK_MS, SERVICE_TIME_WEIGHT};
use super::python_app::{AppFigures, ProcessFigures};

/// The requests of each process of an application, and the requests that wait. A request is `T`.
#[derive(Debug)]
pub(super) struct AppQueue<T> {
    /// Requests that a process executes at the same time.
    requests_max: AtomicUsize,
    waiting_max: usize,
    state: Mutex<AppQueueState<T>>,
}

#[derive(Debug)]
struct AppQueueState<T> {
    processes: Vec<ProcessLoad>,
    waiting: VecDeque<T>,
    /// Requests that may run in a process, and that have not heard of it yet.
    granted: Vec<(T, u64)>,
    /// Whether no process is to come, unless the application is corrected.
    is_refusing: bool,
}

/// The load of a process.
#[derive(Debug)]
struct ProcessLoad {
    /// Its number, which no other process of any application has.
    number: u64,
    /// The socket on which it accepts connections.
    socket: Arc<Path>,
    /// Whether it gets no more requests.
    is_retired: bool,
    /// Whether it has ended unexpectedly and has not said that it is there again.
    is_down: bool,
    /// Requests that it has, and those in `granted`.
    requests: usize,
    /// Requests that it has served.
    served: u64,
    /// The moving average of the time for a request, in 1/256 ms.
    service_time: u64,
    /// Requests that are over their time and have not ended.
    overdue: usize,
    /// Whether it does nothing any more.
    is_stuck: bool,
}

/// One millisecond of [`ProcessLoad::service_time`].
const MILLISECOND: u64 = 256;

/// The decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueEntry {
    /// The process with this number has it. The caller calls [`AppQueue::release`] after its end.
    Run(u64),
    /// It waits.
    Waits,
    /// Too many wait.
    Full,
    /// No process is to come.
    NotLoaded,
}

impl<T: PartialEq + Copy> AppQueue<T> {
    pub(super) fn new(requests_max: usize, waiting_max: usize) -> Self {
        let (processes, waiting, granted) = (Vec::new(), VecDeque::new(), Vec::new());
        let state = AppQueueState { processes, waiting, granted, is_refusing: false };
        let requests_max = AtomicUsize::new(requests_max.max(1));
        Self { requests_max, waiting_max, state: Mutex::new(state) }
    }

    /// Sets how many requests a process executes at the same time.
    pub(super) fn set_requests_max(&self, requests_max: usize) {
        self.requests_max.store(requests_max.max(1), Ordering::Relaxed);
    }

    fn requests_max(&self) -> usize {
        self.requests_max.load(Ordering::Relaxed)
    }

    /// Adds a process. Returns the requests that may run now, which have to be notified.
    #[must_use]
    pub(super) fn add_process(&self, number: u64, socket: PathBuf) -> Vec<T> {
        let mut state = self.lock();
        state.is_refusing = false;
        // A process is quick once it has shown it.
        let service_time = QUICK_MS * MILLISECOND;
        let socket = Arc::from(socket);
        state.processes.push(ProcessLoad {
            number,
            socket,
            is_retired: false,
            is_down: false,
            requests: 0,
            served: 0,
            service_time,
            overdue: 0,
            is_stuck: false,
        });
        std::iter::from_fn(|| state.grant_next(self.requests_max())).collect()
    }

    /// Refuses requests instead of letting them wait for a first process: none is to come before
    /// the application was corrected, or it is not known yet how to call the application.
    pub(super) fn refuse_until_loaded(&self) {
        self.lock().is_refusing = true;
    }

    /// Stops sending requests to a process.
    pub(super) fn retire_process(&self, number: u64) {
        let mut state = self.lock();
        if let Some(load) = state.load(number) {
            load.is_retired = true;
        }
        state.processes.retain(ProcessLoad::is_needed);
    }

    /// Returns whether a process has requests, or may get some.
    pub(super) fn has_process(&self, number: u64) -> bool {
        self.lock().load(number).is_some()
    }

    /// Returns the socket of a process that has requests.
    pub(super) fn socket(&self, number: u64) -> Option<Arc<Path>> {
        self.lock().load(number).map(|load| Arc::clone(&load.socket))
    }

    /// Returns the figures of the load.
    pub(super) fn figures(&self) -> AppFigures {
        let state = self.lock();
        let figures = |load: &ProcessLoad| ProcessFigures {
            number: load.number,
            requests: load.requests,
            served: load.served,
            is_stuck: load.is_stuck,
        };
        AppFigures {
            waiting: state.waiting.len(),
            processes: state.processes.iter().map(figures).collect(),
        }
    }

    /// Adds a request.
    pub(super) fn enter(&self, request: T) -> QueueEntry {
        let mut state = self.lock();
        if state.is_refusing && state.processes.is_empty() {
            return QueueEntry::NotLoaded;
        }
        // Waiting requests come first.
        if state.waiting.is_empty()
            && let Some(process) = state.free_process(self.requests_max())
        {
            return QueueEntry::Run(process);
        }
        if state.waiting.len() >= self.waiting_max {
            return QueueEntry::Full;
        }
        state.waiting.push_back(request);
        QueueEntry::Waits
    }

    /// Records that a process has ended and is started again: others get its requests meanwhile.
    /// Returns whether it may get some later.
    pub(super) fn set_down(&self, process: u64) -> bool {
        let mut state = self.lock();
        let load = state.load(process).filter(|load| !load.is_retired);
        load.map(|load| {
            load.is_down = true;
            (load.overdue, load.is_stuck) = (0, false);
        })
        .is_some()
    }

    /// Records that a process is there, or may be. Returns whether it was not before.
    pub(super) fn set_up(&self, process: u64) -> bool {
        let mut state = self.lock();
        state.load(process).is_some_and(|load| std::mem::take(&mut load.is_down))
    }

    /// Returns whether a process is down while another one is not.
    pub(super) fn is_replaced(&self, process: u64) -> bool {
        let mut state = self.lock();
        state.load(process).is_some_and(|load| load.is_down) && state.has_live()
    }

    /// Puts a request that a process has not started in front of all that wait. The caller calls
    /// [`Self::release`] for the place that it had.
    pub(super) fn enter_first(&self, request: T) {
        self.lock().waiting.push_front(request);
    }

    /// Records that a process has not ended a request for a while: it counts as quick again once it
    /// has shown it.
    pub(super) fn set_slow(&self, process: u64) {
        if let Some(load) = self.lock().load(process) {
            load.service_time = load.service_time.max(QUICK_MS * MILLISECOND);
        }
    }

    /// Records that a request of a process is over its time. Returns whether all threads hang now.
    pub(super) fn add_overdue(&self, process: u64) -> bool {
        let requests_max = self.requests_max();
        let mut state = self.lock();
        let Some(load) = state.load(process) else { return false };
        load.overdue += 1;
        let was_stuck = load.is_stuck;
        load.is_stuck |= load.overdue >= requests_max;
        load.is_stuck && !was_stuck
    }

    /// Records that a request that was over its time has ended, so its thread goes on.
    pub(super) fn end_overdue(&self, process: u64) {
        let requests_max = self.requests_max();
        if let Some(load) = self.lock().load(process) {
            load.overdue = load.overdue.saturating_sub(1);
            load.is_stuck = load.overdue >= requests_max;
        }
    }

    /// Records that the event loop of a process does not answer. Returns whether that is new.
    pub(super) fn set_blocked(&self, process: u64) -> bool {
        let mut state = self.lock();
        state.load(process).is_some_and(|load| !std::mem::replace(&mut load.is_stuck, true))
    }

    /// Records that the event loop of a process answers.
    pub(super) fn set_unblocked(&self, process: u64) {
        if let Some(load) = self.lock().load(process) {
            load.is_stuck = false;
        }
    }

    /// Returns how many requests a process has that it cannot have started all at once; `None` if
    /// it executes all that it has. With it comes how many requests the other processes can start
    /// at once.
    pub(super) fn backlog(&self, process: u64) -> Option<(usize, usize)> {
        let requests_max = self.requests_max();
        let mut state = self.lock();
        let backlog = state.load(process)?.requests.checked_sub(requests_max)?;
        let others = state.processes.iter().filter(|load| load.number != process);
        let free = others
            .filter(|load| !load.is_retired)
            .map(|load| requests_max.saturating_sub(load.requests))
            .sum();
        (backlog > 0).then_some((backlog, free))
    }

    /// Records that a request of a process has ended. It has taken `service_ms`, if it was served.
    /// After this call, the caller notifies the requests of [`Self::grant`].
    pub(super) fn release(&self, process: u64, service_ms: Option<u64>) {
        let mut state = self.lock();
        if let Some(load) = state.load(process) {
            load.requests = load.requests.saturating_sub(1);
            if let Some(ms) = service_ms {
                let sum = load.service_time * (SERVICE_TIME_WEIGHT - 1) + ms * MILLISECOND;
                load.service_time = sum / SERVICE_TIME_WEIGHT;
                load.served += 1;
            }
            if !load.is_needed() {
                state.processes.retain(ProcessLoad::is_needed);
            }
        }
    }

    /// Returns the next request that has waited and may run now, which has to be notified. There
    /// may be several: a process that has become quick has room for more than the one that has
    /// ended.
    #[must_use]
    pub(super) fn grant(&self) -> Option<T> {
        self.lock().grant_next(self.requests_max())
    }

    /// Takes a request that has waited out of the queue. Returns the process that it may run in, so
    /// that the caller runs it there or calls [`Self::release`].
    #[must_use]
    pub(super) fn take(&self, request: T) -> Option<u64> {
        let mut state = self.lock();
        if let Some(at) = state.granted.iter().position(|(granted, _)| *granted == request) {
            return Some(state.granted.swap_remove(at).1);
        }
        state.waiting.retain(|waiting| *waiting != request);
        None
    }

    /// Returns whether a process has a request, or one waits.
    pub(super) fn is_used(&self) -> bool {
        let state = self.lock();
        !state.waiting.is_empty() || state.processes.iter().any(|load| load.requests > 0)
    }

    fn lock(&self) -> MutexGuard<'_, AppQueueState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProcessLoad {
    /// Returns whether it has requests, or may get some.
    fn is_needed(&self) -> bool {
        !self.is_retired || self.requests > 0
    }
}

impl<T: Copy> AppQueueState<T> {
    fn load(&mut self, process: u64) -> Option<&mut ProcessLoad> {
        self.processes.iter_mut().find(|load| load.number == process)
    }

    /// Returns whether a process is there and may get requests.
    fn has_live(&self) -> bool {
        self.processes.iter().any(|load| !load.is_down && !load.is_retired && !load.is_stuck)
    }

    /// Assigns another request to the process with the fewest requests, if it may have one, and
    /// returns its number.
    fn free_process(&mut self, requests_max: usize) -> Option<u64> {
        let has_live = self.has_live();
        let with_room = |load: &&mut ProcessLoad| {
            if load.is_stuck || load.is_down && has_live {
                return false;
            }
            let is_quick = load.service_time < QUICK_MS * MILLISECOND;
            let has_room = load.requests < requests_max || is_quick && load.requests < BACKLOG_MAX;
            has_room && !load.is_retired
        };
        let free = self.processes.iter_mut().filter(with_room);
        let load = free.min_by_key(|load| load.requests)?;
        load.requests += 1;
        Some(load.number)
    }

    /// Assigns the request that has waited for the longest time to a process, if one has room, and
    /// returns it.
    fn grant_next(&mut self, requests_max: usize) -> Option<T> {
        if self.waiting.is_empty() {
            return None;
        }
        let process = self.free_process(requests_max)?;
        let next = self.waiting.pop_front()?;
        self.granted.push((next, process));
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: fn(u64) -> QueueEntry = QueueEntry::Run;

    /// Ends a request, and returns those whose turn has come.
    fn end(queue: &AppQueue<u64>, process: u64, service_ms: Option<u64>) -> Vec<u64> {
        queue.release(process, service_ms);
        std::iter::from_fn(|| queue.grant()).collect()
    }

    fn queue(processes: u64, threads: usize, waiting_max: usize) -> AppQueue<u64> {
        let queue = AppQueue::new(threads, waiting_max);
        for number in 0..processes {
            assert_eq!(queue.add_process(number, PathBuf::new()), []);
        }
        queue
    }

    #[test]
    fn requests_go_to_the_process_with_the_fewest_requests() {
        let queue = queue(2, 2, 1);
        let entered: Vec<QueueEntry> = (0..6).map(|request| queue.enter(request)).collect();
        let waits = [QueueEntry::Waits, QueueEntry::Full];
        assert_eq!(entered, [[RUN(0), RUN(1)], [RUN(0), RUN(1)], waits].concat());
        assert_eq!(end(&queue, 1, Some(5)), [4]);
        assert_eq!((queue.take(4), queue.take(4)), (Some(1), None));
        assert_eq!((end(&queue, 0, Some(5)), queue.enter(6)), (vec![], RUN(0)));
    }

    #[test]
    fn a_quick_process_has_a_backlog_until_it_is_slow() {
        let queue = queue(1, 1, 100);
        assert_eq!((queue.enter(0), queue.enter(1)), (RUN(0), QueueEntry::Waits));
        assert_eq!(end(&queue, 0, Some(0)), [1]);
        assert_eq!(queue.take(1), Some(0));
        let backlog = (2..).take_while(|request| queue.enter(*request) == RUN(0)).count();
        assert_eq!(backlog, BACKLOG_MAX - 1);
        let mut running = BACKLOG_MAX;
        while running > 1 {
            // The first request that did not fit waits, and is not started as long as the process
            // is slow.
            running -= 1;
            assert_eq!(end(&queue, 0, Some(20)), []);
        }
        assert_eq!(end(&queue, 0, Some(20)).len(), 1, "it is as with one thread now");
        assert_eq!(queue.enter(1000), QueueEntry::Waits);
    }

    /// All waiting requests enter the backlog of a process that has turned out to be quick, instead
    /// of one for each response.
    #[test]
    fn requests_that_wait_fill_the_backlog() {
        let queue = queue(1, 1, 100);
        assert_eq!(queue.enter(0), RUN(0));
        for request in 1..=40 {
            assert_eq!(queue.enter(request), QueueEntry::Waits);
        }
        let backlog: Vec<u64> = (1..=BACKLOG_MAX as u64).collect();
        assert_eq!(end(&queue, 0, Some(0)), backlog);
        assert_eq!(end(&queue, 0, Some(0)), [BACKLOG_MAX as u64 + 1]);
    }

    /// A request that leaves right after its turn has come passes it on.
    #[test]
    fn a_granted_turn_that_is_not_used_is_passed_on() {
        let queue = queue(1, 1, 9);
        let entered = [1, 2, 3].map(|request| queue.enter(request));
        assert_eq!(entered, [RUN(0), QueueEntry::Waits, QueueEntry::Waits]);
        assert_eq!(queue.take(2), None, "it has left before its turn");
        assert_eq!(end(&queue, 0, None), [3]);
        assert_eq!(queue.take(3), Some(0));
        assert_eq!((end(&queue, 0, None), queue.enter(4)), (vec![], RUN(0)));
    }

    /// A request that was taken back is the next, in another process if one is free.
    #[test]
    fn a_request_that_was_not_started_is_the_first_of_all() {
        let queue = queue(1, 1, 9);
        assert_eq!((queue.enter(0), end(&queue, 0, Some(0))), (RUN(0), vec![]));
        assert_eq!([1, 2, 3].map(|request| queue.enter(request)), [RUN(0); 3]);
        assert_eq!(queue.backlog(0), Some((2, 0)));
        queue.set_slow(0);
        assert_eq!(queue.enter(4), QueueEntry::Waits);
        for request in [3, 2] {
            queue.enter_first(request);
            assert_eq!(end(&queue, 0, None), []);
        }
        assert_eq!(queue.backlog(0), None);
        assert_eq!(queue.add_process(7, PathBuf::new()), [2]);
        assert_eq!((queue.take(2), end(&queue, 0, Some(50))), (Some(7), vec![3]));
        assert_eq!((queue.take(3), end(&queue, 7, Some(0))), (Some(0), vec![4]));
    }

    /// A process that is started again gets no requests as long as another one is there.
    #[test]
    fn a_process_that_is_down_gets_no_requests() {
        let queue = queue(2, 1, 9);
        assert!(queue.set_down(0));
        assert_eq!([1, 2].map(|request| queue.enter(request)), [RUN(1), QueueEntry::Waits]);
        assert_eq!((queue.is_replaced(0), queue.is_replaced(1)), (true, false));
        assert!(queue.set_down(1) && !queue.set_down(2));
        assert_eq!((queue.is_replaced(0), queue.grant()), (false, Some(2)));
        assert_eq!(queue.take(2), Some(0), "all are down, and one of them is the first to be back");
        assert!(queue.set_up(1) && !queue.set_up(1));
        assert!(queue.is_replaced(0));
    }

    /// Requests move to the processes that have come in the place of others.
    #[test]
    fn processes_are_replaced() {
        let queue = queue(1, 1, 9);
        assert_eq!(
            [1, 2, 3].map(|it| queue.enter(it)),
            [RUN(0), QueueEntry::Waits, QueueEntry::Waits]
        );
        assert_eq!(queue.add_process(7, "/7".into()), [2]);
        queue.retire_process(0);
        assert_eq!((queue.take(2), queue.has_process(0)), (Some(7), true));
        assert_eq!((end(&queue, 0, None), queue.has_process(0)), (vec![], false));
        assert_eq!(queue.socket(7).as_deref(), Some(Path::new("/7")));
        assert_eq!((end(&queue, 7, None), queue.take(3)), (vec![3], Some(7)));
        queue.retire_process(7);
        assert_eq!((end(&queue, 7, None), queue.enter(4)), (vec![], QueueEntry::Waits));
        assert_eq!(queue.add_process(8, PathBuf::new()), [4]);
    }
}
