//! The shards that a command or a transaction has locked.

use std::sync::MutexGuard;

use super::database::{Database, Effects};
use super::key::Key;
use super::shard::Shard;
use crate::store::Store;

/// Locked shards of one store. What has changed in them is reported to the store in the end.
#[derive(Debug)]
pub(crate) struct Locks<'s> {
    store: &'s Store,
    first: Option<(usize, MutexGuard<'s, Shard>)>,
    others: Vec<(usize, MutexGuard<'s, Shard>)>,
    /// Hashes of the keys of a command that has several, in their order, if they are known.
    hashes: Vec<u64>,
    /// They are those of a job.
    is_of_job: bool,
}

/// A job has the lock of a shard, and may keep it for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy;

impl<'s> Locks<'s> {
    /// Locks nothing.
    pub(crate) fn none(store: &'s Store) -> Self {
        Self { store, first: None, others: Vec::new(), hashes: Vec::new(), is_of_job: false }
    }

    /// Locks the shard of one key.
    ///
    /// # Errors
    /// A job has it.
    #[inline]
    pub(crate) fn one(store: &'s Store, key: Key<'_>, now_ms: u64) -> Result<Self, Busy> {
        let index = store.shard_index(key);
        let first = Some((index, store.lock(index, now_ms)?));
        Ok(Self { store, first, others: Vec::new(), hashes: Vec::new(), is_of_job: false })
    }

    /// Locks shards by their numbers, in the one order that everyone locks them in, so that two
    /// commands never wait for each other.
    ///
    /// # Errors
    /// A job has one of them; none is locked then.
    pub(crate) fn some(store: &'s Store, indices: Vec<usize>, now_ms: u64) -> Result<Self, Busy> {
        let mut guards = Vec::new();
        for index in in_order(indices) {
            guards.push((index, store.lock(index, now_ms)?));
        }
        Ok(Self { store, first: None, others: guards, hashes: Vec::new(), is_of_job: false })
    }

    /// Locks the shards of keys by their hashes, as [`Self::some`] does. Their records in a
    /// database are fetched into the cache, all at once.
    ///
    /// # Errors
    /// A job has one of them; none is locked then.
    pub(crate) fn of_keys(
        store: &'s Store,
        hashes: Vec<u64>,
        database: usize,
        now_ms: u64,
    ) -> Result<Self, Busy> {
        let indices = hashes.iter().map(|&hash| store.shard_of_hash(hash)).collect();
        let mut locks = Self::some(store, indices, now_ms)?;
        for prefetch in [Database::prefetch_entry, Database::prefetch_record] {
            for &hash in &hashes {
                let held =
                    locks.others.iter().find(|(index, _)| *index == store.shard_of_hash(hash));
                if let Some(database) = held.and_then(|(_, it)| it.databases().get(database)) {
                    prefetch(database, hash);
                }
            }
        }
        locks.hashes = hashes;
        Ok(locks)
    }

    /// Returns the hash of a key by its place among those of the command, if it is known.
    pub(crate) fn hash(&self, place: usize) -> Option<u64> {
        self.hashes.get(place).copied()
    }

    /// Locks shards for a job, by their numbers. The thread waits for other jobs.
    pub(crate) fn for_job(store: &'s Store, indices: Vec<usize>, now_ms: u64) -> Self {
        let mut locks = Self::none(store);
        locks.is_of_job = true;
        for index in in_order(indices) {
            locks.others.push((index, store.lock_for_job(index, now_ms)));
        }
        locks
    }

    pub(crate) fn store(&self) -> &'s Store {
        self.store
    }

    /// Returns whether a shard is locked.
    pub(crate) fn has(&self, index: usize) -> bool {
        self.first.iter().chain(&self.others).any(|(held, _)| *held == index)
    }

    /// Returns the work that the values of a key are in all databases, in elements.
    pub(crate) fn work(&self, key: Key<'_>) -> usize {
        let Some(shard) = self.held(key) else { return 0 };
        let records = shard.databases().iter().filter_map(|database| database.peek(key, 0));
        records.filter_map(|record| Some(record.value()?.work())).sum()
    }

    /// Returns how many keys the shards have in all databases.
    pub(crate) fn keys(&self) -> usize {
        let shards = self.first.iter().chain(&self.others);
        let databases = shards.flat_map(|(_, shard)| shard.databases());
        databases.map(Database::len).sum()
    }

    /// Returns the database of a key, whose shard is locked.
    ///
    /// # Panics
    /// The shard is not locked: the command has no such key in the table of commands.
    pub(crate) fn database(
        &mut self,
        number: usize,
        key: Key<'_>,
    ) -> (&mut Database, &mut Effects) {
        let index = self.store.shard_index(key);
        self.shard(index).database(number)
    }

    /// Returns the database of a key, whose shard is locked, beside those of other keys; `None` if
    /// it was never used.
    pub(crate) fn peek(&self, number: usize, key: Key<'_>) -> Option<&Database> {
        self.held(key)?.databases().get(number)
    }

    /// Returns what operations on a key need that change nothing.
    pub(crate) fn effects(&self, key: Key<'_>) -> Option<&Effects> {
        self.held(key).map(|shard| &shard.effects)
    }

    fn held(&self, key: Key<'_>) -> Option<&Shard> {
        let index = self.store.shard_index(key);
        let mut held = self.first.iter().chain(&self.others);
        held.find(|(held, _)| *held == index).map(|(_, shard)| &**shard)
    }

    /// Returns a shard that is locked.
    ///
    /// # Panics
    /// It is not.
    pub(crate) fn shard(&mut self, index: usize) -> &mut Shard {
        let held = self.first.iter_mut().chain(&mut self.others);
        let mut found = held.filter(|(held, _)| *held == index);
        let (_, shard) = found.next().expect("a command locks the shards of its keys");
        shard
    }
}

impl Drop for Locks<'_> {
    fn drop(&mut self) {
        for (index, shard) in self.first.iter_mut().chain(&mut self.others) {
            self.store.report(shard);
            if self.is_of_job {
                // The lock itself is released in a moment.
                self.store.job_leaves(*index);
            }
        }
    }
}

fn in_order(mut indices: Vec<usize>) -> impl Iterator<Item = usize> {
    indices.sort_unstable();
    indices.dedup();
    indices.into_iter()
}
