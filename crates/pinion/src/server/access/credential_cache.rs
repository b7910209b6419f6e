//! Credentials that were verified lately, so that not every request costs the hash of a password.
//!
//! Nothing that could be read from memory is a password, nor can it be found from outside by how
//! long a look-up takes: credentials are known by a keyed hash, and the key is another one in each
//! process.

use super::limits::{CREDENTIAL_CACHE_MS, CREDENTIALS_MAX};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The keyed hash of credentials and of the file that they were verified with. Two of them are
/// compared in constant time.
pub(crate) type CredentialDigest = blake3::Hash;

/// The cache of verified credentials. It is shared by all workers.
pub(crate) struct CredentialCache {
    key: [u8; blake3::KEY_LEN],
    /// The credentials by the front of the digest.
    verified: Mutex<HashMap<u64, Verified>>,
}

struct Verified {
    digest: CredentialDigest,
    until_ms: u64,
}

impl CredentialCache {
    /// Makes an empty one with a key of 32 random bytes.
    pub(crate) fn new(key: [u8; blake3::KEY_LEN]) -> Self {
        Self { key, verified: Mutex::default() }
    }

    /// Returns the digest of credentials. `file` is the digest of the password file: a reload keeps
    /// the credentials that were verified with an unchanged file, and no others.
    pub(crate) fn digest(
        &self,
        file: &blake3::Hash,
        user: &str,
        password: &str,
    ) -> CredentialDigest {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(file.as_bytes());
        hasher.update(&(user.len() as u64).to_ne_bytes());
        hasher.update(user.as_bytes());
        hasher.update(password.as_bytes());
        hasher.finalize()
    }

    /// Returns a number for the name of a user that no outsider can compute.
    pub(crate) fn user_number(&self, user: &str) -> u64 {
        front(&blake3::keyed_hash(&self.key, user.as_bytes()))
    }

    /// Returns whether credentials were verified lately.
    pub(crate) fn is_verified(&self, digest: &CredentialDigest, now_ms: u64) -> bool {
        let verified = self.lock();
        let found = verified.get(&front(digest));
        found.is_some_and(|found| found.digest == *digest && now_ms < found.until_ms)
    }

    /// Keeps credentials that have just been verified.
    pub(crate) fn insert(&self, digest: CredentialDigest, now_ms: u64) {
        let mut verified = self.lock();
        if verified.len() >= CREDENTIALS_MAX {
            verified.retain(|_, found| now_ms < found.until_ms);
        }
        if verified.len() >= CREDENTIALS_MAX {
            let oldest = verified.iter().min_by_key(|(_, found)| found.until_ms);
            let oldest = oldest.map(|(front, _)| *front);
            oldest.map(|front| verified.remove(&front));
        }
        let until_ms = now_ms.saturating_add(CREDENTIAL_CACHE_MS);
        verified.insert(front(&digest), Verified { digest, until_ms });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Verified>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the first bytes of a digest as a number.
fn front(digest: &CredentialDigest) -> u64 {
    let front = digest.as_bytes().first_chunk();
    front.map_or(0, |front| u64::from_ne_bytes(*front))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_cached_for_a_minute() {
        let cache = CredentialCache::new([7; 32]);
        let [file, other_file] = [b"ann:1", b"ann:2"].map(|content| blake3::hash(content));
        let digest = cache.digest(&file, "ann", "open");
        assert!(!cache.is_verified(&digest, 0));
        cache.insert(digest, 1000);
        assert!(cache.is_verified(&cache.digest(&file, "ann", "open"), 60_999));
        assert!(!cache.is_verified(&digest, 61_000));
        for other in [
            cache.digest(&file, "ann", "opel"),
            cache.digest(&file, "anno", "pen"),
            cache.digest(&file, "", "annopen"),
            cache.digest(&other_file, "ann", "open"),
            CredentialCache::new([8; 32]).digest(&file, "ann", "open"),
        ] {
            assert!(!cache.is_verified(&other, 1001), "{other}");
        }
    }

    #[test]
    fn the_cache_never_exceeds_its_limit() {
        let cache = CredentialCache::new([7; 32]);
        let digest = |number: u64| cache.digest(&blake3::hash(&number.to_ne_bytes()), "", "");
        let many = CREDENTIALS_MAX as u64;
        for number in 0..many + 5 {
            cache.insert(digest(number), number);
        }
        assert_eq!(cache.lock().len(), CREDENTIALS_MAX);
        // The oldest entries have been removed.
        assert!(!cache.is_verified(&digest(4), many));
        assert!(cache.is_verified(&digest(5), many) && cache.is_verified(&digest(many), many));
        // Expired entries are removed first.
        cache.insert(digest(many + 5), many + 5 + CREDENTIAL_CACHE_MS);
        assert_eq!(cache.lock().len(), 1);
    }
}
