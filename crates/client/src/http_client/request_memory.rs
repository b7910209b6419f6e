//! The memory of requests that no connection bounds: those that wait for one, and those whose
//! responses are complete and have not been read.

use rustc_hash::FxHashMap;

use super::error::RequestMemoryFull;
use crate::limits::REQUEST_MEMORY_SITE_DIVISOR;

/// The memory of the requests of a worker.
#[derive(Debug)]
pub(super) struct RequestMemory {
    max_bytes: usize,
    all_bytes: usize,
    /// The bytes of each site that has requests.
    by_site: FxHashMap<u64, usize>,
}

impl RequestMemory {
    /// Creates the count for at most `max_bytes`, of which one site may have a part
    /// ([`REQUEST_MEMORY_SITE_DIVISOR`]).
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, all_bytes: 0, by_site: FxHashMap::default() }
    }

    /// Counts a new request of a site.
    ///
    /// # Errors
    /// Fails, and does not count it, if there is no room for it.
    pub(super) fn admit(&mut self, site: u64, bytes: usize) -> Result<(), RequestMemoryFull> {
        let of_site = self.by_site.get(&site).copied().unwrap_or(0) + bytes;
        let site_max_bytes = self.max_bytes / REQUEST_MEMORY_SITE_DIVISOR;
        if of_site > site_max_bytes {
            return Err(RequestMemoryFull::Site(site_max_bytes));
        }
        if self.all_bytes + bytes > self.max_bytes {
            return Err(RequestMemoryFull::All(self.max_bytes));
        }
        self.change(site, 0, bytes);
        Ok(())
    }

    /// Changes the number of bytes of a site's request; 0 is one that has ended.
    pub(super) fn change(&mut self, site: u64, before_bytes: usize, bytes: usize) {
        debug_assert!(self.all_bytes >= before_bytes, "it was counted");
        self.all_bytes = self.all_bytes.saturating_sub(before_bytes) + bytes;
        let of_site = self.by_site.entry(site).or_default();
        *of_site = of_site.saturating_sub(before_bytes) + bytes;
        if *of_site == 0 {
            self.by_site.remove(&site);
        }
    }

    /// Returns the bytes of all requests.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        debug_assert_eq!(self.by_site.values().sum::<usize>(), self.all_bytes);
        self.all_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_site_has_a_share_of_the_memory_limit() {
        let mut memory = RequestMemory::new(800);
        let max_bytes = 800 / REQUEST_MEMORY_SITE_DIVISOR;
        for site in 0..REQUEST_MEMORY_SITE_DIVISOR as u64 {
            for _ in 0..max_bytes / 100 {
                assert_eq!(memory.admit(site, 100), Ok(()));
            }
            assert_eq!(memory.admit(site, 1), Err(RequestMemoryFull::Site(max_bytes)));
        }
        assert_eq!(memory.admit(99, 1), Err(RequestMemoryFull::All(800)));
        // A request that takes less, or has ended, makes room for others.
        memory.change(0, 100, 40);
        assert_eq!(memory.admit(99, 61), Err(RequestMemoryFull::All(800)));
        assert_eq!(memory.admit(99, 60), Ok(()));
        memory.change(99, 60, 0);
        assert_eq!((memory.bytes(), memory.by_site.contains_key(&99)), (740, false));
    }
}
