//! The cache of addresses for their time to live (RFC 1034 §5.3.3), of absent names (RFC 2308) and
//! of failures (RFC 9520), with at most [`CACHED_NAMES_MAX`] names. The time is a parameter.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use super::ResolveError;
use crate::connect_target::HostName;
use crate::limits::CACHED_NAMES_MAX;

/// The resolved addresses of one family of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FamilyAnswer {
    /// At least one address, or the reason why there is none.
    pub(super) result: Result<Vec<IpAddr>, ResolveError>,
    /// The time for which the result may be kept.
    pub(super) ttl_seconds: u32,
}

/// The resolved addresses of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NameAnswers {
    pub(super) ipv4: FamilyAnswer,
    pub(super) ipv6: FamilyAnswer,
}

/// The cache of names.
#[derive(Default)]
pub(super) struct NameCache {
    entries: HashMap<HostName, CachedName>,
    /// All entries by the time at which they end.
    by_end: BTreeSet<(u64, HostName)>,
}

struct CachedName {
    answers: NameAnswers,
    added_ms: u64,
    end_ms: u64,
    /// The number of its uses, by which its addresses rotate.
    uses: usize,
}

impl NameCache {
    /// Returns the answers for a name, if their time to live has not passed: with the time that
    /// remains, and with addresses that begin with another one each time.
    pub(super) fn get(&mut self, name: &HostName, now_ms: u64) -> Option<NameAnswers> {
        let entry = self.entries.get_mut(name).filter(|entry| now_ms < entry.end_ms)?;
        entry.uses = entry.uses.wrapping_add(1);
        let age_seconds = now_ms.saturating_sub(entry.added_ms) / 1000;
        let age_seconds = u32::try_from(age_seconds).unwrap_or(u32::MAX);
        let mut answers = entry.answers.clone();
        for family in [&mut answers.ipv4, &mut answers.ipv6] {
            family.ttl_seconds = family.ttl_seconds.saturating_sub(age_seconds);
            if let Ok(addresses) = &mut family.result {
                let first = entry.uses % addresses.len().max(1);
                addresses.rotate_left(first);
            }
        }
        Some(answers)
    }

    /// Keeps the answers for a name until the first of both has expired. If the cache is full, the
    /// entry that expires first makes room.
    pub(super) fn insert(&mut self, name: &HostName, answers: NameAnswers, now_ms: u64) {
        self.remove(name);
        let ttl_seconds = answers.ipv4.ttl_seconds.min(answers.ipv6.ttl_seconds);
        if ttl_seconds == 0 {
            return;
        }
        if self.entries.len() >= CACHED_NAMES_MAX
            && let Some((_, first)) = self.by_end.pop_first()
        {
            self.entries.remove(&first);
        }
        let end_ms = now_ms.saturating_add(u64::from(ttl_seconds) * 1000);
        self.by_end.insert((end_ms, name.clone()));
        let entry = CachedName { answers, added_ms: now_ms, end_ms, uses: 0 };
        self.entries.insert(name.clone(), entry);
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.by_end.clear();
    }

    fn remove(&mut self, name: &HostName) {
        if let Some(entry) = self.entries.remove(name) {
            self.by_end.remove(&(entry.end_ms, name.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn name(text: &str) -> HostName {
        HostName::parse(text).expect(text)
    }

    fn answer(ttl_seconds: u32, last_bytes: &[u8]) -> FamilyAnswer {
        let addresses = last_bytes.iter().map(|last| IpAddr::from([192, 0, 2, *last])).collect();
        FamilyAnswer { result: Ok(addresses), ttl_seconds }
    }

    fn answers(ttl_seconds: u32) -> NameAnswers {
        NameAnswers { ipv4: answer(ttl_seconds, &[1, 2, 3]), ipv6: answer(ttl_seconds + 9, &[]) }
    }

    #[test]
    fn responses_are_cached_for_the_shorter_ttl() {
        let mut cache = NameCache::default();
        cache.insert(&name("a.example"), answers(10), 5_000);
        let found = cache.get(&name("a.example"), 7_999).expect("a fresh entry");
        assert_eq!((found.ipv4.ttl_seconds, found.ipv6.ttl_seconds), (8, 17));
        assert!(cache.get(&name("a.example"), 14_999).is_some());
        assert_eq!(cache.get(&name("a.example"), 15_000), None);
        cache.insert(&name("b.example"), answers(0), 0);
        assert_eq!(cache.get(&name("b.example"), 0), None, "a TTL of 0 is not kept");
    }

    #[test]
    fn addresses_rotate() {
        let mut cache = NameCache::default();
        cache.insert(&name("a.example"), answers(10), 0);
        let mut first = || {
            let found = cache.get(&name("a.example"), 1).expect("an entry");
            found.ipv4.result.expect("addresses")[0].to_string()
        };
        let firsts: Vec<String> = (0..4).map(|_| first()).collect();
        assert_eq!(firsts, ["192.0.2.2", "192.0.2.3", "192.0.2.1", "192.0.2.2"]);
    }

    #[test]
    fn a_full_cache_drops_the_entry_that_ends_first() {
        let mut cache = NameCache::default();
        let number = |n: usize| name(&format!("n{n}.example"));
        for n in 0..=CACHED_NAMES_MAX {
            cache.insert(&number(n), answers(if n == 7 { 1 } else { 100 }), 0);
        }
        assert_eq!(cache.entries.len(), CACHED_NAMES_MAX);
        assert_eq!(cache.get(&number(7), 0), None);
        assert!(cache.get(&number(CACHED_NAMES_MAX), 0).is_some());
    }

    proptest! {
        /// The cache has the entries of a map with times, and so have both of its tables.
        #[test]
        fn the_cache_behaves_like_a_map_with_expiry(
            steps in vec((0_usize..4, 0_u32..5, 0_u64..3000, any::<bool>()), 0..50)
        ) {
            let mut cache = NameCache::default();
            let mut model: HashMap<usize, u64> = HashMap::new();
            let mut now_ms = 0;
            for (n, ttl_seconds, pause_ms, is_insert) in steps {
                now_ms += pause_ms;
                let key = name(&format!("n{n}.example"));
                if is_insert {
                    cache.insert(&key, answers(ttl_seconds), now_ms);
                    model.insert(n, now_ms + u64::from(ttl_seconds) * 1000);
                }
                let is_kept = model.get(&n).is_some_and(|end_ms| now_ms < *end_ms);
                prop_assert_eq!(cache.get(&key, now_ms).is_some(), is_kept);
                prop_assert_eq!(cache.by_end.len(), cache.entries.len());
            }
        }
    }
}
