//! Eviction: removal of keys when the memory limit is reached.

use super::database::Database;
use super::key::Key;
use super::record::KeyRecord;
use super::shard::Shard;
use crate::settings::EvictionPolicy;

/// Number of keys that are compared for each one that is removed: with ten, approximated LRU is
/// nearly as good as exact LRU (as Redis has measured it).
const SAMPLES: usize = 10;

impl Shard {
    /// Removes a key that the policy chooses. Returns whether a key was removed.
    pub(crate) fn evict(&mut self, policy: EvictionPolicy) -> bool {
        let mut worst: Option<(u64, usize, Box<[u8]>)> = None;
        let now_ms = self.context.now_ms;
        for number in 0..self.databases().len() {
            let (database, context) = self.database(number);
            if policy.is_volatile() && database.expiring() == 0 {
                continue;
            }
            for _ in 0..SAMPLES {
                let Some(record) = database.records().random(|| context.random()) else { break };
                if policy.is_volatile() && record.expiry_ms().is_none() {
                    continue;
                }
                let badness = badness(record, policy, now_ms, context.random());
                if worst.as_ref().is_none_or(|(known, _, _)| badness > *known) {
                    worst = Some((badness, number, record.key().into()));
                }
            }
        }
        let Some((_, number, key)) = worst else { return false };
        let (database, context) = self.database(number);
        let key = Key { bytes: &key, hash: database.hasher().hash(&key) };
        database.remove(key, context)
    }
}

/// Returns the priority of a key for eviction. The key with the highest one is removed.
fn badness(record: &KeyRecord, policy: EvictionPolicy, now_ms: u64, random: u64) -> u64 {
    use EvictionPolicy::{
        AllFrequency, AllLastUse, AllRandom, None, VolatileExpiry, VolatileFrequency,
        VolatileLastUse, VolatileRandom,
    };
    match policy {
        AllLastUse | VolatileLastUse => record.access().idle_seconds(now_ms),
        AllFrequency | VolatileFrequency => {
            (u8::MAX - record.access().decayed_counter(now_ms)).into()
        }
        VolatileExpiry => u64::MAX - record.expiry_ms().unwrap_or(u64::MAX),
        AllRandom | VolatileRandom | None => random,
    }
}

impl Database {
    /// Examines at most about `count` keys from a position on, and removes the expired ones.
    /// Returns the next position, or `None` at the end.
    pub(crate) fn remove_expired(
        &mut self,
        start: u64,
        count: usize,
        context: &mut super::database::ShardContext,
    ) -> Option<u64> {
        let hash_of = self.hash_of();
        let mut expired: Vec<Box<[u8]>> = Vec::new();
        let next = self.records().visit_from(start, count, hash_of, |record| {
            if super::database::has_expired(record, context.now_ms) {
                expired.push(record.key().into());
            }
        });
        for key in expired {
            let key = Key { bytes: &key, hash: self.hasher().hash(&key) };
            self.remove(key, context);
        }
        next
    }
}
