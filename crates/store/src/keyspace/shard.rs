//! A part of all databases, behind one lock.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::access_statistics::AccessRecording;
use super::database::{Database, ShardContext};
use super::deferred_free::Garbage;
use super::key::KeyHasher;
use super::shard_locks::Busy;

/// A shard with its lock.
#[derive(Debug)]
pub(crate) struct LockedShard {
    pub(crate) shard: Mutex<Shard>,
    /// The number of jobs that hold the lock or wait for it.
    pub(crate) jobs: AtomicU32,
    /// The number of other threads that wait for the lock. None of them may wait for a job.
    pub(crate) waiting: AtomicU32,
}

impl LockedShard {
    pub(crate) fn new(shard: Shard) -> Self {
        Self { shard: Mutex::new(shard), jobs: AtomicU32::new(0), waiting: AtomicU32::new(0) }
    }

    /// Locks the shard for a moment.
    ///
    /// # Errors
    /// A job holds the lock, or waits for it.
    // As a function of its own, it costs each command some twenty instructions more.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, Shard>, Busy> {
        match self.shard.try_lock() {
            Ok(shard) => Ok(shard),
            Err(TryLockError::Poisoned(shard)) => Ok(shard.into_inner()),
            Err(TryLockError::WouldBlock) => self.wait(),
        }
    }

    /// Waits for a thread that has locked the shard for a moment.
    #[cold]
    fn wait(&self) -> Result<MutexGuard<'_, Shard>, Busy> {
        // Because all these operations are sequentially consistent, either this thread sees the job
        // and does not wait, or the job sees this thread and takes the lock after it.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let has_jobs = self.jobs.load(Ordering::SeqCst) > 0;
        let shard = (!has_jobs).then(|| self.shard.lock().unwrap_or_else(PoisonError::into_inner));
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        shard.ok_or(Busy)
    }

    /// Locks the shard for a job, which waits for other jobs.
    pub(crate) fn lock_for_job(&self) -> MutexGuard<'_, Shard> {
        self.jobs.fetch_add(1, Ordering::SeqCst);
        while self.waiting.load(Ordering::SeqCst) > 0 {
            // The waiting threads get the lock within a moment, and no new ones begin to wait.
            std::thread::yield_now();
        }
        self.shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of all databases, behind one lock.
#[derive(Debug)]
pub(crate) struct Shard {
    /// The databases up to the highest one that was ever used.
    databases: Vec<Database>,
    pub(crate) context: ShardContext,
    hasher: KeyHasher,
    /// The bytes of memory that were last reported to the store.
    pub(crate) reported_bytes: usize,
}

impl Shard {
    pub(crate) fn new(hasher: KeyHasher, random: u64) -> Self {
        let context = ShardContext {
            now_ms: 0,
            recording: AccessRecording::default(),
            hasher,
            random,
            garbage: Vec::new(),
            expired_keys: 0,
        };
        Self { databases: Vec::new(), context, hasher, reported_bytes: 0 }
    }

    /// Returns a database by its number, with the context of the shard.
    pub(crate) fn database(&mut self, number: usize) -> (&mut Database, &mut ShardContext) {
        while self.databases.len() <= number {
            self.databases.push(Database::new(self.hasher));
        }
        (&mut self.databases[number], &mut self.context)
    }

    /// Returns the databases that were ever used, by number.
    pub(crate) fn databases(&self) -> &[Database] {
        &self.databases
    }

    /// Removes all keys of a database. Its memory is freed by another thread.
    pub(crate) fn empty_database(&mut self, number: usize) {
        let now_ms = self.context.now_ms;
        let Some(database) = self.databases.get_mut(number).filter(|it| it.len() > 0) else {
            return;
        };
        let mut emptied = Database::new(self.hasher);
        emptied.watches = std::mem::take(&mut database.watches);
        emptied.watches.all_changed(|key| database.peek(key, now_ms).is_some());
        let old = std::mem::replace(database, emptied);
        self.context.garbage.push(Garbage::Database(Box::new(old)));
    }

    /// Exchanges the keys of two databases. Clients continue to watch the keys of their selected
    /// database, so every watched key that is in either database counts as changed.
    pub(crate) fn swap_databases(&mut self, first: usize, second: usize) {
        if first == second {
            return;
        }
        self.database(first.max(second));
        let now_ms = self.context.now_ms;
        self.databases.swap(first, second);
        let [first, second] = self
            .databases
            .get_disjoint_mut([first, second])
            .expect("two databases that were made above");
        std::mem::swap(&mut first.watches, &mut second.watches);
        mark_swapped(first, second, now_ms);
        mark_swapped(second, first, now_ms);
    }

    /// Returns the bytes of memory that the shard occupies.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.databases.iter().map(Database::memory_bytes).sum()
    }
}

/// Marks those watched keys of a database as changed that exist in it or in the other one.
fn mark_swapped(database: &mut Database, other: &Database, now_ms: u64) {
    let mut watches = std::mem::take(&mut database.watches);
    watches.all_changed(|key| {
        database.peek(key, now_ms).is_some() || other.peek(key, now_ms).is_some()
    });
    database.watches = watches;
}
