//! Keys of a database that clients watch (`WATCH`), with a number that changes when the key does.

use std::collections::HashMap;

use super::key::Key;

/// See the head of the module.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    keys: HashMap<Box<[u8]>, Watch>,
}

#[derive(Debug, Default)]
struct Watch {
    clients: usize,
    version: u64,
}

impl Watches {
    /// Adds a client that watches a key. Returns the version of the key.
    pub(crate) fn add(&mut self, key: &[u8]) -> u64 {
        let watch = self.keys.entry(key.into()).or_default();
        watch.clients += 1;
        watch.version
    }

    /// Takes away a client that watches a key.
    pub(crate) fn remove(&mut self, key: &[u8]) {
        if let Some(watch) = self.keys.get_mut(key) {
            watch.clients -= 1;
            if watch.clients == 0 {
                self.keys.remove(key);
            }
        }
    }

    /// Returns how many keys are watched.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the version of a watched key.
    pub(crate) fn version(&self, key: &[u8]) -> Option<u64> {
        self.keys.get(key).map(|watch| watch.version)
    }

    /// A key has another value now.
    #[inline]
    pub(crate) fn changed(&mut self, key: Key<'_>) {
        if !self.keys.is_empty()
            && let Some(watch) = self.keys.get_mut(key.bytes)
        {
            watch.version += 1;
        }
    }

    /// All keys for which `is_changed` holds have other values now.
    pub(crate) fn all_changed(&mut self, is_changed: impl Fn(&[u8]) -> bool) {
        for (key, watch) in &mut self.keys {
            watch.version += u64::from(is_changed(key));
        }
    }
}
