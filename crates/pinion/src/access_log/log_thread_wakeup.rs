//! Wakes the log thread: only when it sleeps, or when a ring fills up while it lets records gather.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

/// Busy; it looks into every ring again before it sleeps.
const AWAKE: u8 = 0;
/// Lets records gather for a while.
const GATHERS: u8 = 1;
/// Waits for the next record, however long that takes.
const SLEEPS: u8 = 2;

/// One sleeper, any number of ringers.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    state: AtomicU8,
    sleeper: OnceLock<Thread>,
}

impl Bell {
    /// Names the calling thread as the sleeper; must come before its first wait.
    pub(crate) fn attach(&self) {
        // A second thread would be a mistake; the first one stays.
        let _already_attached = self.sleeper.set(thread::current());
    }

    /// Reports that a record was pushed. Costs one load unless the sleeper has to be woken.
    pub(crate) fn pushed(&self, more_than_half_full: bool) {
        // SeqCst here, at the ring's tail and in `sleep` put the two threads' stores and loads in
        // one order: either the sleeper sees the record, or this load sees that it sleeps.
        match self.state.load(Ordering::SeqCst) {
            SLEEPS => self.ring(),
            GATHERS if more_than_half_full => self.ring(),
            _ => {}
        }
    }

    /// Wakes the sleeper.
    pub(crate) fn ring(&self) {
        self.state.store(AWAKE, Ordering::SeqCst);
        if let Some(sleeper) = self.sleeper.get() {
            sleeper.unpark();
        }
    }

    /// Lets records gather for at most this long. May return early.
    pub(crate) fn gather(&self, time: Duration) {
        self.state.store(GATHERS, Ordering::SeqCst);
        thread::park_timeout(time);
        self.state.store(AWAKE, Ordering::SeqCst);
    }

    /// Sleeps until the bell rings, unless `something_to_do` says no. May return early.
    pub(crate) fn sleep(&self, something_to_do: impl FnOnce() -> bool) {
        self.state.store(SLEEPS, Ordering::SeqCst);
        if !something_to_do() {
            thread::park();
        }
        self.state.store(AWAKE, Ordering::SeqCst);
    }
}
