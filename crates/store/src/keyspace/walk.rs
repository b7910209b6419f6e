//! Walks through all keys of a database.

use super::database::has_expired;
use super::record::KeyRecord;
use super::shard_locks::Locks;
use crate::job::ShardSet;

/// Calls `visit` for all records of a database that have not expired. A job that has not locked all
/// shards locks one after the other, so that other commands wait only for a part of the walk. Such
/// a walk sees each key that exists during the whole walk. Keys that change meanwhile may be
/// missing, or may be seen under both their old and their new names.
pub(crate) fn walk(
    locks: &mut Locks<'_>,
    database: usize,
    now_ms: u64,
    mut visit: impl FnMut(&KeyRecord),
) {
    let store = locks.store();
    for index in 0..store.shard_count() {
        let mut own;
        let held = if locks.has(index) {
            &mut *locks
        } else {
            own = Locks::for_job(store, ShardSet::from_iter([index]), now_ms);
            &mut own
        };
        let (database, _) = held.shard(index).database(database);
        let records = database.records().iter();
        records.filter(|record| !has_expired(record, now_ms)).for_each(&mut visit);
    }
}
