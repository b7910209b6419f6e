//! A read set: the keys that a local client has read, with detection of changes. A result that was
//! made from values of the store, such as a part of a page, can be cached as long as its read set
//! is current.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::command::spec::{Flags, KeyArguments};
use crate::dispatch::{self, Prepared};
use crate::keyspace::key::Key;
use crate::limits::READ_SET_MAX_KEYS;
use crate::resp::arguments::Arguments;
use crate::store::Store;

/// The keys that commands have read.
#[derive(Debug)]
pub struct ReadSet {
    store: Arc<Store>,
    database: usize,
    keys: Vec<Box<[u8]>>,
    /// A mark that the first change of one of the keys sets.
    has_changed: Arc<AtomicBool>,
    /// The time at which the first value, or a part of a value, expires, in milliseconds since
    /// 1970.
    until_ms: u64,
}

impl ReadSet {
    /// Returns whether all keys still have the values that were read. `now_ms` is the time in
    /// milliseconds since 1970.
    #[must_use]
    pub fn is_current(&self, now_ms: u64) -> bool {
        now_ms < self.until_ms && !self.has_changed.load(Ordering::Acquire)
    }

    fn add(&mut self, key: Key<'_>, now_ms: u64) -> bool {
        let Ok(mut shard) = self.store.lock(self.store.shard_index(key), now_ms) else {
            return false;
        };
        let (database, _) = shard.database(self.database);
        if let Some(record) = database.peek(key, now_ms) {
            let expiries = [record.expiry_ms(), record.earliest_part_expiry_ms()];
            let first = expiries.into_iter().flatten().min();
            self.until_ms = self.until_ms.min(first.unwrap_or(u64::MAX));
        }
        if database.watches.add_reader(key, &self.has_changed) {
            self.keys.push(key.bytes.into());
        }
        self.store.report(&mut shard);
        true
    }
}

impl Drop for ReadSet {
    fn drop(&mut self) {
        for key in self.keys.drain(..) {
            self.store.forget_reader(self.database, key, &self.has_changed);
        }
    }
}

/// Builds a [`ReadSet`] from the commands of a client.
#[derive(Debug)]
pub(crate) struct ReadRecorder {
    /// The set so far; `None` once data was read whose changes cannot be detected.
    set: Option<ReadSet>,
}

impl ReadRecorder {
    pub(crate) fn new(store: &Arc<Store>, database: usize) -> Self {
        let set = ReadSet {
            store: Arc::clone(store),
            database,
            keys: Vec::new(),
            has_changed: Arc::default(),
            until_ms: u64::MAX,
        };
        Self { set: Some(set) }
    }

    /// Adds the keys of a command that is about to be executed.
    pub(crate) fn add(&mut self, prepared: Prepared, arguments: Arguments<'_>, now_ms: u64) {
        let Some(set) = &mut self.set else { return };
        if !add_keys(set, prepared, arguments, now_ms) {
            self.give_up();
        }
    }

    /// Marks the recording as failed because data is read that the recorder cannot see.
    pub(crate) fn give_up(&mut self) {
        self.set = None;
    }

    /// Returns the read set, if every change of its data can be detected.
    pub(crate) fn end(self) -> Option<ReadSet> {
        self.set
    }
}

/// Adds the keys of a command. Returns false if the command changes data, or if its reply may
/// change although its keys have not changed.
fn add_keys(set: &mut ReadSet, prepared: Prepared, arguments: Arguments<'_>, now_ms: u64) -> bool {
    // A command that does not exist always replies with an error, so its reply does not depend on
    // keys.
    let Some(command) = prepared.command() else { return true };
    let has_other_keys = match command.keys {
        KeyArguments::None | KeyArguments::All => true,
        KeyArguments::FoundOrAll { needs_all, .. } => needs_all(&arguments),
        _ => false,
    };
    let flags = command.flags;
    if has_other_keys || flags.has(Flags::UNSTABLE) || !flags.has(Flags::READ_ONLY) {
        return false;
    }
    let Ok(positions) = dispatch::key_positions(command, &arguments) else { return true };
    let store = Arc::clone(&set.store);
    positions
        .into_iter()
        .filter_map(|position| arguments.get(position))
        .all(|key| set.keys.len() < READ_SET_MAX_KEYS && set.add(store.key(key), now_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReplyOutput;
    use crate::local_client::{LocalClient, LocalCommand};
    use crate::settings::Settings;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn execute(store: &Store, client: &mut LocalClient, words: &[&str]) {
        let mut command = LocalCommand::default();
        words.iter().for_each(|word| command.push(word.as_bytes()));
        client.execute(store, &mut command, NOW_MS, &mut ReplyOutput::default());
    }

    #[test]
    fn a_dropped_read_set_leaves_nothing_behind() {
        let store = Arc::new(Store::new(Settings::default(), [7; 24], NOW_MS));
        let (mut client, mut writer) =
            (LocalClient::new("reader", NOW_MS), LocalClient::new("writer", NOW_MS));
        let read = |client: &mut LocalClient| {
            assert!(client.record_reads(&store));
            for key in 0..5000 {
                execute(&store, client, &["GET", &format!("key {key}")]);
                execute(&store, client, &["MGET", "key 0", &format!("key {key}")]);
            }
            client.recorded_reads().expect("a set")
        };
        let memory_bytes = || -> usize {
            let shards = 0..crate::limits::SHARDS;
            shards.map(|index| store.lock(index, NOW_MS).expect("no job").memory_bytes()).sum()
        };
        let mut change = || {
            execute(&store, &mut writer, &["SET", "key 7", "x"]);
            execute(&store, &mut writer, &["DEL", "key 7"]);
        };
        // The tables of all shards stay.
        change();
        drop(read(&mut client));
        let before = memory_bytes();
        let (first, second) = (read(&mut client), read(&mut client));
        assert_eq!(store.watched_keys(), 5000);
        assert!(memory_bytes() > before + 5000 * "key 1234".len());
        drop(first);
        assert!(second.is_current(NOW_MS));
        change();
        assert!(!second.is_current(NOW_MS));
        drop(second);
        assert_eq!((store.watched_keys(), memory_bytes()), (0, before));
    }

    #[test]
    fn a_read_set_with_too_many_keys_is_dropped() {
        let store = Arc::new(Store::new(Settings::default(), [7; 24], NOW_MS));
        let mut client = LocalClient::new("reader", NOW_MS);
        assert!(client.record_reads(&store));
        for key in 0..=READ_SET_MAX_KEYS {
            execute(&store, &mut client, &["GET", &key.to_string()]);
        }
        assert!(client.recorded_reads().is_none());
        assert_eq!(store.watched_keys(), 0);
    }
}
