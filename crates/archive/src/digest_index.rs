//! Bodies found by their digests.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use crate::digest::Digest;
use crate::layout::DigestRow;

/// The numbers of rows, found by the digests in them: 5 to 10 bytes for each. The rows themselves
/// are elsewhere, always the same ones.
#[derive(Debug, Default)]
pub struct DigestIndex {
    numbers: HashTable<u32>,
    /// Contents come from outside; their digests must not fill one corner of the table.
    hasher: RandomState,
}

impl DigestIndex {
    /// Makes room for that many more rows of `rows`.
    pub fn reserve(&mut self, more: usize, rows: &[DigestRow]) {
        let Self { numbers, hasher } = self;
        numbers.reserve(more, |&number| hash_of_row(hasher, rows, number));
    }

    /// Adds row `number` of `rows`, unless another one has its digest.
    pub fn insert(&mut self, number: u32, rows: &[DigestRow]) {
        let Self { numbers, hasher } = self;
        let hash = |&number: &u32| hash_of_row(hasher, rows, number);
        let is_match = |&other: &u32| digest_of(rows, other) == digest_of(rows, number);
        numbers.entry(hash(&number), is_match, hash).or_insert(number);
    }

    /// Returns the row of `rows` with that digest.
    pub fn find(&self, digest: &Digest, rows: &[DigestRow]) -> Option<u32> {
        let is_match = |&number: &u32| digest_of(rows, number) == Some(&digest.0);
        self.numbers.find(self.hasher.hash_one(digest.0), is_match).copied()
    }
}

fn digest_of(rows: &[DigestRow], number: u32) -> Option<&[u8; 32]> {
    rows.get(usize::try_from(number).ok()?).map(|row| &row.digest)
}

/// Returns the hash of all bytes of a digest: an archive of another origin may claim digests that
/// no content has.
fn hash_of_row(hasher: &RandomState, rows: &[DigestRow], number: u32) -> u64 {
    digest_of(rows, number).map_or(0, |digest| hasher.hash_one(digest))
}
