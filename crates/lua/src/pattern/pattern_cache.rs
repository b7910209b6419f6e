//! The compiled patterns of a VM: Lua holds their numbers.

use super::compiled_pattern::PatternProgram;
use super::limits::{KEPT_MAX_BYTES, KEPT_MAX_PATTERNS};

/// Compiled patterns, by numbers. When there is no room for another, all are dropped, and their
/// numbers become stale.
#[derive(Default)]
pub(super) struct PatternCache {
    programs: Vec<PatternProgram>,
    bytes: usize,
    generation: u32,
}

/// The number of bits of a number that are the index in the list.
const INDEX_BITS: u32 = 16;
const _: () = assert!(KEPT_MAX_PATTERNS <= 1 << INDEX_BITS);

impl PatternCache {
    /// Keeps a pattern whose text has so many bytes. Returns its number, and whether it is the
    /// first one, because all earlier ones have been dropped.
    pub(super) fn keep(&mut self, program: PatternProgram, bytes: usize) -> (i64, bool) {
        self.bytes += bytes;
        if self.programs.len() == KEPT_MAX_PATTERNS || self.bytes > KEPT_MAX_BYTES {
            self.programs.clear();
            self.bytes = bytes;
            self.generation = self.generation.wrapping_add(1);
        }
        let index = self.programs.len();
        self.programs.push(program);
        (i64::from(self.generation) << INDEX_BITS | index as i64, index == 0)
    }

    /// Returns the pattern of a number, unless it has been dropped.
    pub(super) fn get(&self, number: i64) -> Option<&PatternProgram> {
        let index = number & ((1 << INDEX_BITS) - 1);
        let live = number >> INDEX_BITS == i64::from(self.generation);
        self.programs.get(usize::try_from(index).ok()?).filter(|_| live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lua forgets them too, but a hook may end a script just before it does.
    #[test]
    fn the_number_of_an_evicted_pattern_is_not_reused() {
        let mut patterns = PatternCache::default();
        let mut keep = || patterns.keep(PatternProgram::new(b"(a)").expect("short"), 3);
        let old: Vec<_> = (0..KEPT_MAX_PATTERNS).map(|_| keep().0).collect();
        let (number, first) = keep();
        assert!(first && patterns.get(number).is_some());
        assert!(old.iter().all(|old| patterns.get(*old).is_none()));
    }
}
