//! The shards that a command or a transaction has locked.

use std::sync::MutexGuard;

use super::database::{Database, ShardContext};
use super::key::Key;
use super::shard::Shard;
use crate::job::ShardSet;
use crate::limits::SHARDS;
use crate::store::Store;

/// The locked shards of one store. Their changes are reported to the store when the locks are
/// released.
#[derive(Debug)]
pub(crate) struct Locks<'s> {
    store: &'s Store,
    one: Option<(usize, MutexGuard<'s, Shard>)>,
    many: Option<Box<ManyLocks<'s>>>,
}

/// The locks of a command that has several keys, and of a job.
#[derive(Debug)]
struct ManyLocks<'s> {
    guards: Vec<(usize, MutexGuard<'s, Shard>)>,
    /// For each shard the index of its guard, or [`NOT_HELD`].
    places: [u8; SHARDS],
    /// The hashes of the keys of the command, in their order, if they are known.
    hashes: Vec<u64>,
    /// Whether the locks belong to a job.
    is_of_job: bool,
}

const NOT_HELD: u8 = u8::MAX;

const _: () = assert!(SHARDS < NOT_HELD as usize, "a place of a guard is a byte");

/// The error for a shard that a job has locked. The job may hold the lock for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy;

impl<'s> ManyLocks<'s> {
    fn new(hashes: Vec<u64>, is_of_job: bool) -> Self {
        Self { guards: Vec::new(), places: [NOT_HELD; SHARDS], hashes, is_of_job }
    }

    fn add(&mut self, index: usize, guard: MutexGuard<'s, Shard>) {
        self.places[index] = self.guards.len() as u8;
        self.guards.push((index, guard));
    }

    fn get(&self, index: usize) -> Option<&Shard> {
        self.guards.get(usize::from(self.places[index])).map(|(_, shard)| &**shard)
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut Shard> {
        self.guards.get_mut(usize::from(self.places[index])).map(|(_, shard)| &mut **shard)
    }
}

impl<'s> Locks<'s> {
    /// Returns locks that hold no shard.
    pub(crate) fn none(store: &'s Store) -> Self {
        Self { store, one: None, many: None }
    }

    /// Locks the shard of one key.
    ///
    /// # Errors
    /// A job holds the lock.
    #[inline]
    pub(crate) fn one(store: &'s Store, key: Key<'_>, now_ms: u64) -> Result<Self, Busy> {
        let index = store.shard_index(key);
        Ok(Self { store, one: Some((index, store.lock(index, now_ms)?)), many: None })
    }

    /// Locks shards in the order of their numbers. All threads use this order, so two commands
    /// never deadlock.
    ///
    /// # Errors
    /// A job holds the lock of one of the shards. In this case no shard is locked.
    pub(crate) fn some(store: &'s Store, shards: ShardSet, now_ms: u64) -> Result<Self, Busy> {
        Self::many(store, shards, Vec::new(), now_ms)
    }

    fn many(
        store: &'s Store,
        shards: ShardSet,
        hashes: Vec<u64>,
        now_ms: u64,
    ) -> Result<Self, Busy> {
        let mut many = Box::new(ManyLocks::new(hashes, false));
        many.guards.reserve_exact(shards.len());
        for index in shards.indices() {
            many.add(index, store.lock(index, now_ms)?);
        }
        Ok(Self { store, one: None, many: Some(many) })
    }

    /// Locks the shards of keys by their hashes, as [`Self::some`] does. Their records in a
    /// database are prefetched into the cache, all at once.
    ///
    /// # Errors
    /// A job holds the lock of one of the shards. In this case no shard is locked.
    pub(crate) fn of_keys(
        store: &'s Store,
        hashes: Vec<u64>,
        database: usize,
        now_ms: u64,
    ) -> Result<Self, Busy> {
        let shards = hashes.iter().map(|&hash| store.shard_of_hash(hash)).collect();
        let locks = Self::many(store, shards, hashes, now_ms)?;
        let Some(many) = &locks.many else { return Ok(locks) };
        let databases = many.hashes.iter().filter_map(|&hash| {
            let shard = many.get(store.shard_of_hash(hash))?;
            Some((shard.databases().get(database)?, hash))
        });
        databases.clone().for_each(|(database, hash)| database.prefetch_entry(hash));
        for (database, hash) in databases {
            database.prefetch_record(hash);
        }
        Ok(locks)
    }

    /// Returns the hash of a key by its index among those of the command, if it is known.
    #[inline]
    pub(crate) fn key_hash(&self, key_index: usize) -> Option<u64> {
        self.many.as_ref()?.hashes.get(key_index).copied()
    }

    /// Locks shards for a job. The thread waits for other jobs.
    pub(crate) fn for_job(store: &'s Store, shards: ShardSet, now_ms: u64) -> Self {
        let mut many = Box::new(ManyLocks::new(Vec::new(), true));
        for index in shards.indices() {
            many.add(index, store.lock_for_job(index, now_ms));
        }
        Self { store, one: None, many: Some(many) }
    }

    pub(crate) fn store(&self) -> &'s Store {
        self.store
    }

    /// Returns whether a shard is locked.
    pub(crate) fn has(&self, index: usize) -> bool {
        self.shard_at(index).is_some()
    }

    /// Returns the work of the values that a key has in all databases, in elements.
    pub(crate) fn work(&self, key: Key<'_>) -> usize {
        let Some(shard) = self.held(key) else { return 0 };
        let records = shard.databases().iter().filter_map(|database| database.peek(key, 0));
        records.filter_map(|record| Some(record.value()?.work())).sum()
    }

    /// Returns the number of keys of the shards in all databases.
    pub(crate) fn keys(&self) -> usize {
        let many = self.many.iter().flat_map(|many| &many.guards);
        let shards = self.one.iter().chain(many);
        let databases = shards.flat_map(|(_, shard)| shard.databases());
        databases.map(Database::len).sum()
    }

    /// Returns the database of a key, whose shard is locked.
    ///
    /// # Panics
    /// Panics if the shard is not locked, because the table of commands does not declare this key
    /// of the command.
    pub(crate) fn database(
        &mut self,
        number: usize,
        key: Key<'_>,
    ) -> (&mut Database, &mut ShardContext) {
        let index = self.store.shard_index(key);
        self.shard(index).database(number)
    }

    /// Returns the database of a key, whose shard is locked, for shared access together with other
    /// keys. Returns `None` if the database was never used.
    pub(crate) fn peek(&self, number: usize, key: Key<'_>) -> Option<&Database> {
        self.held(key)?.databases().get(number)
    }

    /// Returns the context of a key's shard, for operations that change nothing.
    pub(crate) fn context(&self, key: Key<'_>) -> Option<&ShardContext> {
        self.held(key).map(|shard| &shard.context)
    }

    fn held(&self, key: Key<'_>) -> Option<&Shard> {
        self.shard_at(self.store.shard_index(key))
    }

    fn shard_at(&self, index: usize) -> Option<&Shard> {
        match (&self.one, &self.many) {
            (Some((held, shard)), _) if *held == index => Some(shard),
            (_, Some(many)) => many.get(index),
            _ => None,
        }
    }

    /// Returns a locked shard.
    ///
    /// # Panics
    /// Panics if the shard is not locked.
    pub(crate) fn shard(&mut self, index: usize) -> &mut Shard {
        let found = match (&mut self.one, &mut self.many) {
            (Some((held, shard)), _) if *held == index => Some(&mut **shard),
            (_, Some(many)) => many.get_mut(index),
            _ => None,
        };
        found.expect("a command locks the shards of its keys")
    }
}

impl Drop for Locks<'_> {
    fn drop(&mut self) {
        if let Some((_, shard)) = &mut self.one {
            self.store.report(shard);
        }
        let Some(many) = &mut self.many else { return };
        for (index, shard) in &mut many.guards {
            self.store.report(shard);
            if many.is_of_job {
                // The lock itself is released directly after this.
                self.store.job_leaves(*index);
            }
        }
    }
}
