//! The watched keys of a database. Clients (`WATCH`) watch a key by a version number that changes
//! when the key does. Sets of keys that were read ([`ReadSet`](crate::read_set::ReadSet)) watch it
//! by a mark that the first change sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashTable;

use super::key::Key;

/// The watched keys of a database, with their watchers.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    keys: HashTable<KeyWatch>,
    /// The bytes of memory that the keys and their watchers occupy, without the table.
    watch_bytes: usize,
}

#[derive(Debug)]
struct KeyWatch {
    key: Box<[u8]>,
    hash: u64,
    clients: usize,
    version: u64,
    /// The marks that the next change sets.
    readers: Vec<Arc<AtomicBool>>,
}

impl KeyWatch {
    fn is(&self, key: Key<'_>) -> bool {
        *self.key == *key.bytes
    }

    fn is_idle(&self) -> bool {
        self.clients == 0 && self.readers.is_empty()
    }

    fn memory_bytes(&self) -> usize {
        self.key.len() + self.readers.capacity() * size_of::<Arc<AtomicBool>>()
    }

    fn change(&mut self) {
        self.version += 1;
        for has_changed in std::mem::take(&mut self.readers) {
            has_changed.store(true, Ordering::Release);
        }
    }
}

impl Watches {
    /// Adds a client that watches a key. Returns the version of the key.
    pub(crate) fn add(&mut self, key: Key<'_>) -> u64 {
        self.with_watch(key, |watch| {
            watch.clients += 1;
            watch.version
        })
    }

    /// Removes a client that watches a key.
    pub(crate) fn remove(&mut self, key: Key<'_>) {
        self.with_existing(key, |watch| watch.clients -= 1);
    }

    /// Adds a mark that is set when a key changes. Returns false if the key has this mark already.
    pub(crate) fn add_reader(&mut self, key: Key<'_>, has_changed: &Arc<AtomicBool>) -> bool {
        self.with_watch(key, |watch| {
            let is_new = !watch.readers.iter().any(|reader| Arc::ptr_eq(reader, has_changed));
            if is_new {
                watch.readers.push(Arc::clone(has_changed));
            }
            is_new
        })
    }

    /// Removes a mark, unless a change has removed it.
    pub(crate) fn remove_reader(&mut self, key: Key<'_>, has_changed: &Arc<AtomicBool>) {
        self.with_existing(key, |watch| {
            watch.readers.retain(|reader| !Arc::ptr_eq(reader, has_changed));
        });
    }

    /// Returns the number of watched keys.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the bytes of memory that the watches occupy.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.keys.allocation_size() + self.watch_bytes
    }

    /// Returns the version of a watched key.
    pub(crate) fn version(&self, key: Key<'_>) -> Option<u64> {
        self.keys.find(key.hash, |watch| watch.is(key)).map(|watch| watch.version)
    }

    /// Records that a key has changed.
    #[inline]
    pub(crate) fn changed(&mut self, key: Key<'_>) {
        if !self.keys.is_empty() {
            self.with_existing(key, KeyWatch::change);
        }
    }

    /// Records that all keys for which `is_changed` holds have changed.
    pub(crate) fn all_changed(&mut self, is_changed: impl Fn(Key<'_>) -> bool) {
        let watch_bytes = &mut self.watch_bytes;
        self.keys.retain(|watch| {
            *watch_bytes -= watch.memory_bytes();
            if is_changed(Key { bytes: &watch.key, hash: watch.hash }) {
                watch.change();
            }
            let is_kept = !watch.is_idle();
            *watch_bytes += if is_kept { watch.memory_bytes() } else { 0 };
            is_kept
        });
        self.shrink();
    }

    /// Frees the table if no key is watched.
    fn shrink(&mut self) {
        if self.keys.is_empty() {
            self.keys = HashTable::new();
        }
    }

    /// Calls a function with the watch of a key. The watch is created if it does not exist.
    fn with_watch<R>(&mut self, key: Key<'_>, call: impl FnOnce(&mut KeyWatch) -> R) -> R {
        let entry = self.keys.entry(key.hash, |watch| watch.is(key), |watch| watch.hash);
        let mut entry = entry.or_insert_with(|| {
            let watch = KeyWatch {
                key: key.bytes.into(),
                hash: key.hash,
                clients: 0,
                version: 0,
                readers: Vec::new(),
            };
            self.watch_bytes += watch.memory_bytes();
            watch
        });
        let watch = entry.get_mut();
        let before = watch.memory_bytes();
        let result = call(watch);
        self.watch_bytes = self.watch_bytes - before + watch.memory_bytes();
        result
    }

    /// Calls a function with the watch of a key, if there is one. Removes the watch if it has no
    /// watchers any more.
    fn with_existing(&mut self, key: Key<'_>, call: impl FnOnce(&mut KeyWatch)) {
        let Ok(mut entry) = self.keys.find_entry(key.hash, |watch| watch.is(key)) else { return };
        let watch = entry.get_mut();
        self.watch_bytes -= watch.memory_bytes();
        call(watch);
        if watch.is_idle() {
            entry.remove();
            self.shrink();
        } else {
            self.watch_bytes += watch.memory_bytes();
        }
    }
}
