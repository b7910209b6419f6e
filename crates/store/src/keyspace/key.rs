//! Keys, the names of values, with their hashes.

use siphasher::sip::SipHasher13;

/// The hash function of one store. Its key is secret, so an attacker cannot choose names that
/// collide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHasher(SipHasher13);

impl KeyHasher {
    /// Returns the function with a key of random bytes.
    pub(crate) fn new(random: [u8; 16]) -> Self {
        Self(SipHasher13::new_with_key(&random))
    }

    pub(crate) fn hash(self, bytes: &[u8]) -> u64 {
        self.0.hash(bytes)
    }

    pub(crate) fn key(self, bytes: &[u8]) -> Key<'_> {
        Key { bytes, hash: self.hash(bytes) }
    }
}

/// The name of a value and its hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) hash: u64,
}
