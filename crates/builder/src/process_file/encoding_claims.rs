//! Decides which of several files with the same content encodes it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pinion_archive::Digest;

use crate::coding_rules::CodingListId;

/// Which file encodes a content that several files have: the first of the list. When a later one
/// came first, both do; that is rare, and the result is the same.
///
/// Half of a digest names a content here: two that share it would take 2⁶⁴ tries to make.
#[derive(Default)]
pub(crate) struct EncodingClaims(Mutex<HashMap<([u8; 16], CodingListId), u32>>);

impl EncodingClaims {
    /// Returns whether file number `rank` has to encode this content in the codings of a list. If
    /// not, an earlier file does.
    pub(crate) fn claim(&self, digest: Digest, list: CodingListId, rank: usize) -> bool {
        let half = digest.0.first_chunk().copied().unwrap_or_default();
        let rank = u32::try_from(rank).unwrap_or(u32::MAX);
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let holder = claims.entry((half, list)).or_insert(rank);
        let claimed = rank <= *holder;
        *holder = rank.min(*holder);
        claimed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_is_first_in_the_list_encodes_a_content() {
        let claims = EncodingClaims::default();
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        let list = CodingListId::DEFAULT;
        assert!(claims.claim(a, list, 5));
        assert!(!claims.claim(a, list, 6));
        assert!(claims.claim(a, list, 2));
        assert!(!claims.claim(a, list, 3));
        assert!(claims.claim(b, list, 9));
    }
}
