//! Jobs done on several threads, results taken on one, in the order of the jobs.
//!
//! Every job has a cost, and the jobs that are begun but whose result is not yet taken cost no more
//! than a window together; a job that costs more than the window has it for itself. Jobs are begun
//! in order, so the one whose result is taken next has always been begun: no wait is endless.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Runs job 0, 1, … of `costs` on `workers` threads, each with a state of its own, and calls
/// `take` with their results in order on this thread. The first error of `take` ends it.
///
/// # Panics
/// When a worker panics, after the others have ended.
pub(crate) fn in_order<S, R: Send, E>(
    costs: &[u64],
    window: u64,
    workers: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> R + Sync,
    mut take: impl FnMut(usize, R) -> Result<(), E>,
) -> Result<(), E> {
    let queue = OrderedJobQueue {
        costs,
        window,
        progress: Mutex::new(Progress {
            begun: 0,
            taken: 0,
            in_window: 0,
            done: VecDeque::new(),
            stopped: false,
        }),
        room: Condvar::new(),
        result: Condvar::new(),
    };
    thread::scope(|scope| {
        let worker = || {
            let stop = StopOnDrop(&queue);
            let mut state = state();
            while let Some(job) = queue.begin() {
                queue.finish(job, work(&mut state, job));
            }
            // No more jobs to begin; the other workers may still be at theirs.
            std::mem::forget(stop);
        };
        let spawn = |_: &usize| {
            thread::Builder::new().name("build".to_owned()).spawn_scoped(scope, worker).is_ok()
        };
        // The system may refuse a thread. Any number of them will do, even none.
        if (0..workers.min(costs.len())).filter(spawn).count() == 0 {
            let mut state = state();
            return (0..costs.len()).try_for_each(|job| take(job, work(&mut state, job)));
        }
        let _stop = StopOnDrop(&queue);
        for job in 0..costs.len() {
            // A worker has panicked; the scope passes that on.
            let Some(result) = queue.next() else { break };
            take(job, result)?;
            queue.release(job);
        }
        Ok(())
    })
}

struct OrderedJobQueue<'a, R> {
    costs: &'a [u64],
    window: u64,
    progress: Mutex<Progress<R>>,
    /// The window has become emptier, or there is nothing more to do.
    room: Condvar,
    /// The next result is there, or will never be.
    result: Condvar,
}

struct Progress<R> {
    /// Jobs begun: the number of the next one.
    begun: usize,
    /// Results taken: the number of the job at the front of `done`.
    taken: usize,
    /// Cost of the jobs begun and not yet released.
    in_window: u64,
    /// Results of the jobs from `taken` on, as far as they are there.
    done: VecDeque<Option<R>>,
    stopped: bool,
}

impl<R> OrderedJobQueue<'_, R> {
    /// Returns the next job, once there is room for it; `None` when there is none.
    fn begin(&self) -> Option<usize> {
        let mut progress = self.lock();
        loop {
            let job = progress.begun;
            let cost = *self.costs.get(job).filter(|_| !progress.stopped)?;
            if progress.in_window == 0 || progress.in_window + cost <= self.window {
                progress.begun += 1;
                progress.in_window += cost;
                progress.done.push_back(None);
                return Some(job);
            }
            progress = self.room.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(&self, job: usize, result: R) {
        let mut progress = self.lock();
        let place = job - progress.taken;
        if let Some(slot) = progress.done.get_mut(place) {
            *slot = Some(result);
        }
        if place == 0 {
            self.result.notify_one();
        }
    }

    /// Returns the next result; `None` when it will never come.
    fn next(&self) -> Option<R> {
        let mut progress = self.lock();
        loop {
            if progress.stopped {
                return None;
            }
            if let Some(result) = progress.done.front_mut().and_then(Option::take) {
                progress.done.pop_front();
                progress.taken += 1;
                return Some(result);
            }
            progress = self.result.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Frees the room of a job whose result is used up.
    fn release(&self, job: usize) {
        let mut progress = self.lock();
        progress.in_window -= self.costs.get(job).copied().unwrap_or(0);
        drop(progress);
        self.room.notify_all();
    }

    fn stop(&self) {
        self.lock().stopped = true;
        self.room.notify_all();
        self.result.notify_all();
    }

    /// Locks the state. No code that can panic runs under the lock, but a poisoned one would be no
    /// worse.
    fn lock(&self) -> MutexGuard<'_, Progress<R>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends everything when its holder ends early: by an error, or by a panic.
struct StopOnDrop<'q, 'a, R>(&'q OrderedJobQueue<'a, R>);

impl<R> Drop for StopOnDrop<'_, '_, R> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// For any costs, window and number of workers: each job once, results in order, and the
        /// window is kept unless one job alone is larger.
        #[test]
        fn results_are_in_order_and_within_the_window(
            costs in prop::collection::vec(0u64..100, 0..60),
            window in 0u64..200,
            workers in 0usize..5,
        ) {
            let in_window = AtomicU64::new(0);
            let most = AtomicU64::new(0);
            let mut taken = Vec::new();
            in_order(
                &costs,
                window,
                workers,
                || (),
                |(), job| {
                    let now = in_window.fetch_add(costs[job], Ordering::SeqCst) + costs[job];
                    most.fetch_max(now, Ordering::SeqCst);
                    thread::yield_now();
                    job * 2
                },
                |job, result| {
                    in_window.fetch_sub(costs[job], Ordering::SeqCst);
                    taken.push((job, result));
                    Ok::<(), ()>(())
                },
            ).unwrap();
            let expected: Vec<_> = (0..costs.len()).map(|job| (job, job * 2)).collect();
            prop_assert_eq!(taken, expected);
            let largest = costs.iter().copied().max().unwrap_or(0);
            prop_assert!(most.into_inner() <= window.max(largest));
        }
    }

    #[test]
    fn an_error_stops_the_thread_pool() {
        for failing in 0..20 {
            let mut taken = 0;
            let result = in_order(
                &[1; 20],
                5,
                3,
                || (),
                |(), job| job,
                |job, _| {
                    taken += 1;
                    if job == failing { Err(job) } else { Ok(()) }
                },
            );
            assert_eq!(result, Err(failing));
            assert_eq!(taken, failing + 1);
        }
    }

    #[test]
    fn a_panic_of_a_worker_is_propagated_without_deadlock() {
        let run = || {
            in_order(&[1; 20], 2, 3, || (), |(), job| assert_ne!(job, 7), |_, ()| Ok::<(), ()>(()))
        };
        assert!(std::panic::catch_unwind(run).is_err());
    }

    #[test]
    fn each_worker_keeps_its_state() {
        let (states, mut jobs) = (AtomicU64::new(0), 0);
        let state = || {
            states.fetch_add(1, Ordering::SeqCst);
            0
        };
        in_order(
            &[0; 100],
            0,
            2,
            state,
            |seen, _| {
                *seen += 1;
                *seen
            },
            |_, seen| {
                jobs = jobs.max(seen);
                Ok::<(), ()>(())
            },
        )
        .unwrap();
        assert!(states.into_inner() <= 2);
        assert!(jobs >= 50);
    }
}
