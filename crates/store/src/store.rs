//! One store: its shards and its settings, shared by all workers.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::client_registry::Clients;
use crate::error::{Error, OUT_OF_MEMORY};
use crate::job::ShardSet;
use crate::keyspace::access_statistics::AccessRecording;
use crate::keyspace::database::Database;
use crate::keyspace::deferred_free::Garbage;
use crate::keyspace::key::{Key, KeyHasher};
use crate::keyspace::record::KeyRecord;
use crate::keyspace::segment_table::POSITION_BITS;
use crate::keyspace::shard::{LockedShard, Shard};
use crate::keyspace::shard_locks::{Busy, Locks};
use crate::limits::{
    CLIENTS_MAX_BYTES, CLIENTS_MIN_BYTES, DATABASES, EVICTIONS_MAX, LONG_STRING_MIN_BYTES,
    REPORTED_STEP_BYTES, SHARDS, WORK_MAX,
};
use crate::resp::output::ReplyOutput;
use crate::settings::{EvictionPolicy, LiveSettings, Settings};
use crate::slow_log::SlowLog;
use crate::value::StoreValue;

/// The end of a watch of a key, which is still to be applied to the shard.
#[derive(Debug)]
struct EndedWatch {
    database: usize,
    key: Box<[u8]>,
    /// The mark of a read set; `None` for a client.
    reader: Option<Arc<AtomicBool>>,
}

/// One store, shared by all workers.
#[derive(Debug)]
pub struct Store {
    shards: Box<[LockedShard]>,
    hasher: KeyHasher,
    pub(crate) settings: Settings,
    /// The bytes of memory of all shards, as last reported by them.
    used_bytes: AtomicUsize,
    /// The objects that another thread must free.
    garbage: Mutex<Vec<Garbage>>,
    /// Watches that have ended while a job held their shards.
    ended_watches: Mutex<Vec<EndedWatch>>,
    /// The most work of a command that a worker executes, in elements.
    work_max: usize,
    expired_keys: AtomicU64,
    evicted_keys: AtomicU64,
    pub(crate) clients: Clients,
    pub(crate) slow_log: SlowLog,
    /// The time at which the store was created, in milliseconds since 1970.
    started_ms: u64,
    memory_max_bytes: AtomicUsize,
    clients_max_bytes: AtomicUsize,
    /// The index of the eviction policy in [`EvictionPolicy::NAMES`].
    eviction: AtomicU8,
    /// The shard from which the next key is evicted.
    evicted_shard: AtomicUsize,
}

/// The value of a key, as [`Store::look`] passes it.
#[derive(Clone, Copy, Debug)]
pub enum StoredValue<'v> {
    /// A short string.
    Short(&'v [u8]),
    /// A long string. Its content never changes: a command that changes the value of the key
    /// creates a new string.
    Long(&'v Arc<Vec<u8>>),
    /// A value of another type, with its name for `TYPE`.
    Other(&'static str),
}

impl<'v> StoredValue<'v> {
    fn of(record: &'v KeyRecord) -> Self {
        match (record.value(), record.bytes()) {
            (Some(StoreValue::Bytes(bytes)), _) => Self::Long(bytes),
            (_, Some(bytes)) => Self::Short(bytes),
            _ => Self::Other(record.type_name()),
        }
    }
}

/// The position at which the removal of expired keys continues.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpiryCursor {
    shard: usize,
    database: usize,
    position: u64,
}

impl Store {
    /// Creates an empty store. `random` has secret random bytes, and `now_ms` is the time in
    /// milliseconds since 1970.
    pub fn new(settings: Settings, random: [u8; 24], now_ms: u64) -> Self {
        let [secret @ .., _, _, _, _, _, _, _, _] = random;
        let [.., a, b, c, d, e, f, g, h] = random;
        let seed = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let hasher = KeyHasher::new(secret);
        let shard = |index| LockedShard::new(Shard::new(hasher, seed ^ index as u64));
        let (live, slow_log) = (settings.live, SlowLog::new(settings.clock));
        let store = Self {
            shards: (0..SHARDS).map(shard).collect(),
            hasher,
            settings,
            used_bytes: AtomicUsize::new(0),
            garbage: Mutex::default(),
            ended_watches: Mutex::default(),
            work_max: WORK_MAX,
            expired_keys: AtomicU64::new(0),
            evicted_keys: AtomicU64::new(0),
            clients: Clients::default(),
            slow_log,
            started_ms: now_ms,
            memory_max_bytes: AtomicUsize::new(0),
            clients_max_bytes: AtomicUsize::new(match live.memory_max_bytes {
                0 => CLIENTS_MAX_BYTES,
                bytes => bytes.clamp(CLIENTS_MIN_BYTES, CLIENTS_MAX_BYTES),
            }),
            eviction: AtomicU8::new(0),
            evicted_shard: AtomicUsize::new(0),
        };
        store.set_live(live);
        store
    }

    /// Sets the most work of a command that a worker executes, in elements, instead of
    /// [`WORK_MAX`]. With 0, each command is a job.
    #[must_use]
    pub fn with_work_max(mut self, elements: usize) -> Self {
        self.work_max = elements;
        self
    }

    /// Returns the limit in bytes for the memory of incomplete and waiting commands of all clients;
    /// 0 means no limit.
    pub(crate) fn clients_max_bytes(&self) -> usize {
        self.clients_max_bytes.load(Ordering::Relaxed)
    }

    /// Changes the limit for the memory of incomplete and waiting commands of all clients.
    pub(crate) fn set_clients_max_bytes(&self, bytes: usize) {
        self.clients_max_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn work_max(&self) -> usize {
        self.work_max
    }

    pub(crate) fn started_ms(&self) -> u64 {
        self.started_ms
    }

    pub(crate) fn expired_keys(&self) -> u64 {
        self.expired_keys.load(Ordering::Relaxed)
    }

    pub(crate) fn evicted_keys(&self) -> u64 {
        self.evicted_keys.load(Ordering::Relaxed)
    }

    /// Returns the settings that can change.
    pub fn live(&self) -> LiveSettings {
        let number = usize::from(self.eviction.load(Ordering::Relaxed));
        let (eviction, _) = EvictionPolicy::NAMES[number];
        let memory_max_bytes = self.memory_max_bytes.load(Ordering::Relaxed);
        LiveSettings { memory_max_bytes, eviction, slow_log: self.slow_log.settings() }
    }

    /// Changes the settings that can change.
    pub fn set_live(&self, settings: LiveSettings) {
        let mut policies = EvictionPolicy::NAMES.iter();
        let number = policies.position(|(policy, _)| *policy == settings.eviction);
        self.eviction.store(number.unwrap_or_default() as u8, Ordering::Relaxed);
        self.memory_max_bytes.store(settings.memory_max_bytes, Ordering::Relaxed);
        self.slow_log.set(settings.slow_log);
    }

    /// Removes keys by the eviction policy until the memory is below its limit.
    ///
    /// # Errors
    /// The memory limit is reached, and no key may be removed.
    pub(crate) fn make_space(&self, now_ms: u64) -> Result<(), Error> {
        let max_bytes = self.memory_max_bytes.load(Ordering::Relaxed);
        if max_bytes == 0 || self.used_bytes() <= max_bytes {
            return Ok(());
        }
        let policy = self.live().eviction;
        if policy == EvictionPolicy::None {
            return Err(OUT_OF_MEMORY);
        }
        let (mut evicted, mut is_busy) = (0, false);
        // Keys are spread evenly, so each shard is representative of all.
        for _ in 0..EVICTIONS_MAX.max(self.shards.len()) {
            if self.used_bytes() <= max_bytes || evicted == EVICTIONS_MAX {
                break;
            }
            let index = self.evicted_shard.fetch_add(1, Ordering::Relaxed) % self.shards.len();
            let Ok(mut shard) = self.lock(index, now_ms) else {
                is_busy = true;
                continue;
            };
            evicted += usize::from(shard.evict(policy));
            self.report_all(&mut shard);
        }
        self.evicted_keys.fetch_add(evicted as u64, Ordering::Relaxed);
        // If jobs hold all shards, this command may run, and the next one evicts more.
        let has_space = evicted > 0 || is_busy || self.used_bytes() <= max_bytes;
        if has_space { Ok(()) } else { Err(OUT_OF_MEMORY) }
    }

    /// Examines about `count` keys of one shard, unless a job holds it, and removes the expired
    /// ones. Returns whether the end of all keys was reached; the next call begins at the first key
    /// again.
    pub fn remove_expired(&self, cursor: &mut ExpiryCursor, count: usize, now_ms: u64) -> bool {
        if let Ok(mut shard) = self.lock(cursor.shard % self.shards.len(), now_ms)
            && cursor.database < shard.databases().len()
        {
            let (database, context) = shard.database(cursor.database);
            if database.expiring() > 0
                && let Some(next) = database.remove_expired(cursor.position, count, context)
            {
                cursor.position = next;
                self.report(&mut shard);
                return false;
            }
            cursor.position = 0;
            cursor.database += 1;
            self.report(&mut shard);
            return false;
        }
        *cursor = ExpiryCursor { shard: cursor.shard + 1, database: 0, position: 0 };
        let is_at_end = cursor.shard == self.shards.len();
        if is_at_end {
            cursor.shard = 0;
        }
        is_at_end
    }

    pub(crate) fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.hasher.key(bytes)
    }

    pub(crate) fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Returns the number of the shard of a key. The number is computed from bits of the hash that
    /// the tables in the shard do not use first.
    pub(crate) fn shard_index(&self, key: Key<'_>) -> usize {
        self.shard_of_hash(key.hash)
    }

    #[inline]
    pub(crate) fn shard_of_hash(&self, hash: u64) -> usize {
        const UNUSED_BITS: u32 = 16;
        (hash >> UNUSED_BITS) as usize % SHARDS
    }

    /// Calls `look` with the value of a key, or with `None` if the key does not exist. The shard is
    /// locked during the call, so `look` must be short. `now_ms` is the time in milliseconds since
    /// 1970. Returns `None` while a job holds the shard.
    pub fn look<R>(
        &self,
        database: usize,
        key: &[u8],
        now_ms: u64,
        look: impl FnOnce(Option<StoredValue<'_>>) -> R,
    ) -> Option<R> {
        let key = self.key(key);
        let mut shard = self.lock(self.shard_index(key), now_ms).ok()?;
        let (database, context) = shard.database(database);
        let result = look(database.get(key, context).map(StoredValue::of));
        self.report(&mut shard);
        Some(result)
    }

    /// Returns the shard of a key, for a job that calls [`Self::look_as_job`].
    pub fn shard_of(&self, key: &[u8]) -> ShardSet {
        ShardSet::from_iter([self.shard_index(self.key(key))])
    }

    /// Calls a function with the value of a key as [`Self::look`] does, but on a thread for jobs:
    /// if another job holds the shard, this function waits.
    pub fn look_as_job<R>(
        &self,
        database: usize,
        key: &[u8],
        now_ms: u64,
        look: impl FnOnce(Option<StoredValue<'_>>) -> R,
    ) -> R {
        let key = self.key(key);
        let mut locks = Locks::for_job(self, ShardSet::from_iter([self.shard_index(key)]), now_ms);
        let (database, context) = locks.database(database, key);
        look(database.get(key, context).map(StoredValue::of))
    }

    /// Locks a shard. A poisoned lock is used all the same: a thread that has panicked while it
    /// held the lock ends with its worker, and leaves at worst a count that is not exact.
    ///
    /// # Errors
    /// A job holds the lock.
    // As a function of its own, it costs each command some twenty instructions more.
    #[inline(always)]
    pub(crate) fn lock(&self, index: usize, now_ms: u64) -> Result<MutexGuard<'_, Shard>, Busy> {
        let mut shard = self.shards[index].lock()?;
        shard.context.now_ms = now_ms;
        shard.context.recording = self.recording();
        Ok(shard)
    }

    /// Locks a shard for a job, until [`Self::job_leaves`].
    pub(crate) fn lock_for_job(&self, index: usize, now_ms: u64) -> MutexGuard<'_, Shard> {
        let mut shard = self.shards[index].lock_for_job();
        shard.context.now_ms = now_ms;
        shard.context.recording = self.recording();
        shard
    }

    /// Returns whether a job holds a shard, or waits for it.
    pub(crate) fn has_job(&self, index: usize) -> bool {
        self.shards[index].jobs.load(Ordering::SeqCst) > 0
    }

    /// Records that a job is about to release a shard.
    pub(crate) fn job_leaves(&self, index: usize) {
        self.shards[index].jobs.fetch_sub(1, Ordering::SeqCst);
    }

    /// Ends the watch of a key by a client.
    pub(crate) fn unwatch(&self, database: usize, key: Box<[u8]>) {
        self.end_watch(EndedWatch { database, key, reader: None });
    }

    /// Ends the watches of a read set that is not needed any more.
    pub(crate) fn forget_reader(
        &self,
        database: usize,
        key: Box<[u8]>,
        has_changed: &Arc<AtomicBool>,
    ) {
        self.end_watch(EndedWatch { database, key, reader: Some(Arc::clone(has_changed)) });
    }

    fn end_watch(&self, watch: EndedWatch) {
        let key = self.key(&watch.key);
        let Ok(mut shard) = self.lock(self.shard_index(key), 0) else {
            let ended = self.ended_watches.lock();
            return ended.unwrap_or_else(PoisonError::into_inner).push(watch);
        };
        let watches = &mut shard.database(watch.database).0.watches;
        match &watch.reader {
            None => watches.remove(key),
            Some(has_changed) => watches.remove_reader(key, has_changed),
        }
        self.report(&mut shard);
    }

    /// Returns the number of watched keys in shards that no job holds.
    #[cfg(test)]
    pub(crate) fn watched_keys(&self) -> usize {
        let shards = (0..self.shards.len()).filter_map(|index| self.lock(index, 0).ok());
        let watched = |shard: MutexGuard<'_, Shard>| -> usize {
            shard.databases().iter().map(|database| database.watches.len()).sum()
        };
        shards.map(watched).sum()
    }

    /// Returns the bytes of memory that incomplete and waiting commands of all clients occupy,
    /// without clients that occupy only little.
    pub fn clients_memory_bytes(&self) -> usize {
        self.clients.memory_bytes()
    }

    /// Calls a function with the database of a key with a known hash, if the shard is not locked.
    #[inline]
    pub(crate) fn look_ahead<R>(
        &self,
        database: usize,
        hash: u64,
        look: impl FnOnce(&Database, u64) -> R,
    ) -> Option<R> {
        let shard = self.shards[self.shard_of_hash(hash)].shard.try_lock().ok()?;
        Some(look(shard.databases().get(database)?, hash))
    }

    /// Records the changes of a shard in the totals of the store.
    pub(crate) fn report(&self, shard: &mut Shard) {
        if shard.memory_bytes().abs_diff(shard.reported_bytes) >= REPORTED_STEP_BYTES {
            self.report_all(shard);
        }
        if !shard.context.garbage.is_empty() {
            let mut garbage = self.garbage.lock().unwrap_or_else(PoisonError::into_inner);
            garbage.append(&mut shard.context.garbage);
        }
        if shard.context.expired_keys > 0 {
            let expired = std::mem::take(&mut shard.context.expired_keys);
            self.expired_keys.fetch_add(expired, Ordering::Relaxed);
        }
    }

    /// Records the whole memory of a shard in the totals of the store.
    fn report_all(&self, shard: &mut Shard) {
        let bytes = shard.memory_bytes();
        let change = bytes.wrapping_sub(shard.reported_bytes);
        self.used_bytes.fetch_add(change, Ordering::Relaxed);
        shard.reported_bytes = bytes;
    }

    fn recording(&self) -> AccessRecording {
        let number = usize::from(self.eviction.load(Ordering::Relaxed));
        let (policy, _) = EvictionPolicy::NAMES[number];
        if policy.counts_accesses() { AccessRecording::Frequency } else { AccessRecording::LastUse }
    }

    /// Returns the bytes of memory that all keys and values occupy, exact to
    /// [`REPORTED_STEP_BYTES`] for each shard.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Removes fields of hashes that have expired, in about 100 keys from a cursor on: some
    /// microseconds of work. A shard that a job holds is skipped. Returns the next cursor; 0 is
    /// both the beginning and the end.
    pub fn remove_expired_fields(&self, cursor: u64, now_ms: u64) -> u64 {
        const COUNT: usize = 100;
        const POSITION_MASK: u64 = (1 << POSITION_BITS) - 1;
        let part = (cursor >> POSITION_BITS) as usize;
        let (index, first) = (part / DATABASES, part % DATABASES);
        if index >= self.shards.len() {
            return 0;
        }
        let mut next_part = (index + 1) * DATABASES;
        let mut position = cursor & POSITION_MASK;
        let Ok(mut shard) = self.lock(index, now_ms) else {
            let is_end = next_part == self.shards.len() * DATABASES;
            return if is_end { 0 } else { (next_part as u64) << POSITION_BITS };
        };
        for number in first..shard.databases().len() {
            let (database, context) = shard.database(number);
            if database.partly_expiring() > 0 {
                let next = database.remove_expired_fields(position, COUNT, context);
                next_part = index * DATABASES + number + usize::from(next.is_none());
                position = next.unwrap_or(0);
                break;
            }
            position = 0;
        }
        if next_part == (index + 1) * DATABASES {
            position = 0;
        }
        self.report(&mut shard);
        let is_end = next_part == self.shards.len() * DATABASES;
        if is_end { 0 } else { (next_part as u64) << POSITION_BITS | position }
    }

    /// Drops a string of a reply. A very long one is freed by [`Self::free_garbage`].
    pub fn discard_string(&self, string: &mut Arc<Vec<u8>>) {
        if string.capacity() >= LONG_STRING_MIN_BYTES {
            self.discard(Garbage::Value(StoreValue::Bytes(std::mem::take(string))));
        }
    }

    /// Drops replies. Large strings are freed by [`Self::free_garbage`]. The memory of a reply of
    /// usual size is kept.
    pub fn discard_output(&self, output: &mut ReplyOutput) {
        for string in output.take_shared_strings() {
            self.discard_string(&mut { string });
        }
        if output.bytes.capacity() >= LONG_STRING_MIN_BYTES {
            self.discard(Garbage::Bytes(std::mem::take(&mut output.bytes)));
        }
        output.clear();
    }

    /// Queues an object to be freed by [`Self::free_garbage`].
    pub(crate) fn discard(&self, garbage: Garbage) {
        self.garbage.lock().unwrap_or_else(PoisonError::into_inner).push(garbage);
    }

    /// Frees objects that are too large to be freed by a worker, and ends watches that could not be
    /// ended because of jobs. Returns whether there were any objects.
    pub fn free_garbage(&self) -> bool {
        let ended = {
            let mut ended = self.ended_watches.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *ended)
        };
        ended.into_iter().for_each(|watch| self.end_watch(watch));
        let garbage = {
            let mut garbage = self.garbage.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *garbage)
        };
        !garbage.is_empty()
    }
}
