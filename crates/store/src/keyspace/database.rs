//! The keys of one database in one shard: lookup, changes, expiry.

use std::sync::Arc;

use super::access_statistics::{Access, AccessRecording};
use super::deferred_free::Garbage;
use super::key::{Key, KeyHasher};
use super::record::KeyRecord;
use super::segment_table::{EntryLocation, SegmentTable};
use super::watches::Watches;
use crate::error::{Error, WRONG_TYPE};
use crate::prefetch::prefetch_one;
use crate::value::hash::Hash;
use crate::value::{Collection, StoreValue};

/// Most parts of a value that a worker frees itself, in some microseconds. Larger values are freed
/// by another thread.
const FREED_HERE_MAX_PARTS: usize = 64;

/// The keys of one database in one shard.
#[derive(Debug)]
pub(crate) struct Database {
    records: SegmentTable<KeyRecord>,
    /// The number of keys that have an expiry.
    expiring: usize,
    /// The number of keys with a value of which parts have an expiry.
    partly_expiring: usize,
    /// The bytes of memory that all records occupy, without the table.
    record_bytes: usize,
    hasher: KeyHasher,
    /// The watched keys.
    pub(crate) watches: Watches,
}

/// The data that all operations of one shard share: the time, the generator of random numbers, the
/// objects to be freed and a counter.
#[derive(Debug)]
pub(crate) struct ShardContext {
    /// The time of the command, in milliseconds since 1970.
    pub(crate) now_ms: u64,
    pub(crate) recording: AccessRecording,
    /// The hash function of the store, for the tables of collections.
    pub(crate) hasher: KeyHasher,
    /// The state of the generator of random numbers.
    pub(crate) random: u64,
    /// The objects that another thread must free.
    pub(crate) garbage: Vec<Garbage>,
    /// The number of keys that have expired since the last report.
    pub(crate) expired_keys: u64,
}

/// The result of a function that may have changed a value.
pub(crate) enum ChangeEffect<R> {
    /// The value is another one now.
    Made(R),
    /// The value is the same as before.
    None(R),
}

impl ShardContext {
    /// Returns random bits (SplitMix64), which must not be used as secrets.
    pub(crate) fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a random number below a bound; `None` if the bound is 0.
    pub(crate) fn random_below(&mut self, bound: usize) -> Option<usize> {
        let product = u128::from(self.random()) * bound as u128;
        (bound > 0).then_some((product >> 64) as usize)
    }

    /// Frees a record, or leaves that to another thread if it would take long.
    pub(crate) fn discard(&mut self, record: KeyRecord) {
        if let KeyRecord::Object(object) = record {
            self.discard_value(object.value);
        }
    }

    /// Frees a value, or leaves that to another thread if it would take long.
    pub(crate) fn discard_value(&mut self, value: StoreValue) {
        if value.parts() > FREED_HERE_MAX_PARTS {
            self.garbage.push(Garbage::Value(value));
        }
    }

    fn touched(&mut self, access: Access) -> Access {
        let random = if self.recording == AccessRecording::Frequency { self.random() } else { 0 };
        access.touched(self.recording, self.now_ms, random)
    }

    pub(crate) fn new_access(&self) -> Access {
        Access::new(self.recording, self.now_ms)
    }
}

impl Database {
    pub(crate) fn new(hasher: KeyHasher) -> Self {
        Self {
            records: SegmentTable::default(),
            expiring: 0,
            partly_expiring: 0,
            record_bytes: 0,
            hasher,
            watches: Watches::default(),
        }
    }

    /// Returns the number of keys, including expired ones that were not removed yet.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Prefetches the entry of a key with this hash into the cache, if there is one.
    pub(crate) fn prefetch_entry(&self, hash: u64) {
        // The first entry with a matching part of the hash is nearly always the right one.
        if let Some(record) = self.records.find(hash, |_| true) {
            prefetch_one(record);
        }
    }

    /// Prefetches the record of a key with this hash into the cache, if there is one. Returns
    /// whether the record has parts that are to be prefetched next.
    pub(crate) fn prefetch_record(&self, hash: u64) -> bool {
        self.records.find(hash, |_| true).is_some_and(KeyRecord::prefetch)
    }

    /// Prefetches the parts of the record of a key with this hash into the cache.
    pub(crate) fn prefetch_parts(&self, hash: u64) {
        if let Some(record) = self.records.find(hash, |_| true) {
            record.prefetch_parts();
        }
    }

    /// Returns the number of keys that have an expiry.
    pub(crate) fn expiring(&self) -> usize {
        self.expiring
    }

    /// Returns the number of keys with a hash of which fields have an expiry.
    pub(crate) fn partly_expiring(&self) -> usize {
        self.partly_expiring
    }

    /// Returns the bytes of memory that the database occupies.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.record_bytes + self.records.allocated_bytes() + self.watches.memory_bytes()
    }

    pub(crate) fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    pub(crate) fn records(&self) -> &SegmentTable<KeyRecord> {
        &self.records
    }

    /// Returns a function that computes the hash of a record.
    pub(crate) fn hash_of(&self) -> impl Fn(&KeyRecord) -> u64 + use<> {
        let hasher = self.hasher;
        move |record| hasher.hash(record.key())
    }

    /// Returns the record of a key without counting an access. Returns `None` if the key has
    /// expired.
    pub(crate) fn peek(&self, key: Key<'_>, now_ms: u64) -> Option<&KeyRecord> {
        let record = self.records.find(key.hash, |record| record.key() == key.bytes)?;
        (!has_expired(record, now_ms)).then_some(record)
    }

    /// Returns whether a key is still in the table although it has expired.
    pub(crate) fn has_expired(&self, key: Key<'_>, now_ms: u64) -> bool {
        let record = self.records.find(key.hash, |record| record.key() == key.bytes);
        record.is_some_and(|record| has_expired(record, now_ms))
    }

    /// Returns the record of a key, and counts an access.
    pub(crate) fn get(&mut self, key: Key<'_>, context: &mut ShardContext) -> Option<&KeyRecord> {
        let location = self.access(key, context)?;
        self.records.at_mut(location).map(|record| &*record)
    }

    /// Returns the location of the record of a key, and counts an access. Removes the record if it
    /// has expired.
    fn access(&mut self, key: Key<'_>, context: &mut ShardContext) -> Option<EntryLocation> {
        let location = self.locate(key)?;
        let record = self.records.at_mut(location)?;
        if has_expired(record, context.now_ms) {
            self.remove(key, context);
            return None;
        }
        record.set_access(context.touched(record.access()));
        Some(location)
    }

    fn locate(&self, key: Key<'_>) -> Option<EntryLocation> {
        self.records.locate(key.hash, |record| record.key() == key.bytes)
    }

    /// Returns the bytes of the string of a key.
    ///
    /// # Errors
    /// The key has a value of another type.
    pub(crate) fn string(
        &mut self,
        key: Key<'_>,
        context: &mut ShardContext,
    ) -> Result<Option<&[u8]>, Error> {
        match self.get(key, context) {
            Some(record) => record.bytes().map(Some).ok_or(WRONG_TYPE),
            None => Ok(None),
        }
    }

    /// Stores a record, and replaces the previous record of the key, if there is one.
    pub(crate) fn put(&mut self, key: Key<'_>, record: KeyRecord, context: &mut ShardContext) {
        self.watches.changed(key);
        self.record_bytes += record.memory_bytes();
        self.expiring += usize::from(record.expiry_ms().is_some());
        self.partly_expiring += usize::from(record.earliest_part_expiry_ms().is_some());
        let existing = self.locate(key).and_then(|location| self.records.at_mut(location));
        if let Some(existing) = existing {
            let old = std::mem::replace(existing, record);
            self.forget(&old);
            context.discard(old);
        } else {
            let hash_of = self.hash_of();
            self.records.insert(key.hash, record, hash_of);
        }
    }

    /// Stores a string with the given expiry. A previous expiry of the key is dropped.
    pub(crate) fn put_string(
        &mut self,
        key: Key<'_>,
        value: &[u8],
        expiry_ms: Option<u64>,
        context: &mut ShardContext,
    ) {
        let access = context.new_access();
        let existing = self.locate(key).and_then(|location| self.records.at_mut(location));
        if let Some(record) = existing
            && record.expiry_ms().is_some() == expiry_ms.is_some()
            && let Some(bytes) = record.inline_bytes_mut(value.len())
        {
            bytes.copy_from_slice(value);
            record.set_access(access);
            if let Some(expiry_ms) = expiry_ms {
                record.set_expiry_in_place(expiry_ms);
            }
            self.watches.changed(key);
            return;
        }
        self.put(key, KeyRecord::string(key.bytes, expiry_ms, access, value), context);
    }

    /// Returns the number of bytes that a change of the string of a key copies because a pending
    /// reply shares them, and the number of bytes of the string.
    pub(crate) fn copied_bytes(&self, key: Key<'_>) -> (usize, usize) {
        let record = self.records.find(key.hash, |record| record.key() == key.bytes);
        match record.and_then(KeyRecord::value) {
            Some(StoreValue::Bytes(bytes)) if Arc::strong_count(bytes) > 1 => {
                (bytes.len(), bytes.len())
            }
            Some(StoreValue::Bytes(bytes)) => (0, bytes.len()),
            _ => (0, 0),
        }
    }

    /// Returns the work of changing the string of a key, in bytes. The string has at least
    /// `bytes_min` bytes afterwards.
    pub(crate) fn change_work_bytes(&self, key: Key<'_>, bytes_min: usize) -> usize {
        let (copied, existing) = self.copied_bytes(key);
        copied + bytes_min.saturating_sub(existing)
    }

    /// Changes the string of a key, which is empty if it does not exist. The expiry stays.
    ///
    /// # Errors
    /// The key has a value of another type.
    pub(crate) fn change_string<R>(
        &mut self,
        key: Key<'_>,
        context: &mut ShardContext,
        change: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> Result<R, Error> {
        let location = self.access(key, context);
        let record = location.and_then(|at| self.records.at_mut(at));
        let (mut bytes, expiry_ms) = match record {
            None => (Vec::new(), None),
            Some(record) => {
                let before = record.memory_bytes();
                if let Some(StoreValue::Bytes(bytes)) = record.value_mut() {
                    // A pending reply may share the string; in that case the string is copied.
                    let result = change(Arc::make_mut(bytes));
                    self.record_bytes = self.record_bytes - before + record.memory_bytes();
                    self.watches.changed(key);
                    return Ok(result);
                }
                (record.bytes().ok_or(WRONG_TYPE)?.to_vec(), record.expiry_ms())
            }
        };
        let result = change(&mut bytes);
        self.put_string(key, &bytes, expiry_ms, context);
        Ok(result)
    }

    /// Removes a key. Returns its record, which may have expired.
    pub(crate) fn take(&mut self, key: Key<'_>) -> Option<KeyRecord> {
        let hash_of = self.hash_of();
        let record = self.records.remove(key.hash, |it| it.key() == key.bytes, hash_of)?;
        self.watches.changed(key);
        self.forget(&record);
        Some(record)
    }

    /// Removes a key and frees its value. Returns whether it existed.
    pub(crate) fn remove(&mut self, key: Key<'_>, context: &mut ShardContext) -> bool {
        let Some(record) = self.take(key) else { return false };
        let existed = !has_expired(&record, context.now_ms);
        context.expired_keys += u64::from(!existed);
        context.discard(record);
        existed
    }

    /// Subtracts a record from the counts.
    fn forget(&mut self, record: &KeyRecord) {
        self.record_bytes -= record.memory_bytes();
        self.expiring -= usize::from(record.expiry_ms().is_some());
        self.partly_expiring -= usize::from(record.earliest_part_expiry_ms().is_some());
    }

    /// Changes the expiry of a key; `None` removes it. Returns whether the key exists.
    pub(crate) fn set_expiry(
        &mut self,
        key: Key<'_>,
        expiry_ms: Option<u64>,
        context: &mut ShardContext,
    ) -> bool {
        let Some(record) = self.take(key) else { return false };
        if has_expired(&record, context.now_ms) {
            context.expired_keys += 1;
            context.discard(record);
            return false;
        }
        self.put(key, record.with_expiry(expiry_ms), context);
        true
    }

    /// Returns the collection of a key, and counts an access.
    ///
    /// # Errors
    /// The key has a value of another type.
    pub(crate) fn collection<C: Collection>(
        &mut self,
        key: Key<'_>,
        context: &mut ShardContext,
    ) -> Result<Option<&C>, Error> {
        match self.get(key, context) {
            Some(record) => record.value().and_then(C::of).map(Some).ok_or(WRONG_TYPE),
            None => Ok(None),
        }
    }

    /// Changes the collection of a key. If the collection is empty afterwards, the key is removed.
    /// Returns `None` if there is no such key.
    ///
    /// # Errors
    /// The key has a value of another type.
    pub(crate) fn change_collection<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        context: &mut ShardContext,
        change: impl FnOnce(&mut C, &mut ShardContext) -> ChangeEffect<R>,
    ) -> Result<Option<R>, Error> {
        let Some(location) = self.access(key, context) else { return Ok(None) };
        self.change_at(key, location, context, change)
    }

    /// Performs [`Self::change_collection`] at the location of the key.
    fn change_at<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        location: EntryLocation,
        context: &mut ShardContext,
        change: impl FnOnce(&mut C, &mut ShardContext) -> ChangeEffect<R>,
    ) -> Result<Option<R>, Error> {
        let Some(record) = self.records.at_mut(location) else { return Ok(None) };
        let before = record.memory_bytes();
        self.partly_expiring -= usize::from(record.earliest_part_expiry_ms().is_some());
        let collection = record.value_mut().and_then(C::of_mut);
        let change = collection.ok_or(WRONG_TYPE).map(|collection| {
            let change = change(collection, context);
            (change, collection.is_empty())
        });
        self.partly_expiring += usize::from(record.earliest_part_expiry_ms().is_some());
        let (change, is_empty) = change?;
        self.record_bytes = self.record_bytes - before + record.memory_bytes();
        let result = match change {
            ChangeEffect::Made(result) => {
                self.watches.changed(key);
                result
            }
            ChangeEffect::None(result) => result,
        };
        if is_empty && let Some(record) = self.take(key) {
            context.discard(record);
        }
        Ok(Some(result))
    }

    /// Removes expired fields of hashes. It examines about `count` keys from a position on, and
    /// about as many fields of each large hash. Returns the next position, or `None` at the end. No
    /// access is counted.
    pub(crate) fn remove_expired_fields(
        &mut self,
        start: u64,
        count: usize,
        context: &mut ShardContext,
    ) -> Option<u64> {
        let mut due: Vec<Box<[u8]>> = Vec::new();
        let next = self.records.visit_from(start, count, self.hash_of(), |record| {
            if record.earliest_part_expiry_ms().is_some_and(|at| at <= context.now_ms) {
                due.push(record.key().into());
            }
        });
        for key in due {
            let key = self.hasher.key(&key);
            let Some(location) = self.locate(key) else { continue };
            let changed = self.change_at(key, location, context, |hash: &mut Hash, context| {
                match hash.remove_expired(count, context) {
                    0 => ChangeEffect::None(()),
                    _ => ChangeEffect::Made(()),
                }
            });
            debug_assert!(changed.is_ok(), "only fields of hashes expire");
        }
        next
    }

    /// Changes the collection of a key. The collection is created if it does not exist, and removed
    /// if it is empty afterwards.
    ///
    /// # Errors
    /// The key has a value of another type.
    pub(crate) fn upsert_collection<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        context: &mut ShardContext,
        change: impl FnOnce(&mut C, &mut ShardContext) -> ChangeEffect<R>,
    ) -> Result<R, Error> {
        if self.access(key, context).is_some() {
            let result = self.change_collection(key, context, change)?;
            return Ok(result.expect("the key exists, and its shard is locked"));
        }
        let mut collection = C::default();
        let (ChangeEffect::Made(result) | ChangeEffect::None(result)) =
            change(&mut collection, context);
        if !collection.is_empty() {
            let access = context.new_access();
            let record = KeyRecord::object(key.bytes, None, access, collection.into_value());
            self.put(key, record, context);
        }
        Ok(result)
    }
}

/// Returns whether a record has expired by `now_ms`, as a whole or in all its parts.
pub(crate) fn has_expired(record: &KeyRecord, now_ms: u64) -> bool {
    record.expiry_ms().is_some_and(|at| at <= now_ms)
        || record.value().is_some_and(|value| value.has_expired(now_ms))
}
