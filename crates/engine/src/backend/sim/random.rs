//! The simulator's only source of randomness: SplitMix64 (Steele, Lea, Flood 2014), eight bytes of
//! state, the same numbers on every machine.

/// A stream of numbers that its seed determines.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates the stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns random bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        for part in bytes.chunks_mut(size_of::<u64>()) {
            part.copy_from_slice(&self.number().to_le_bytes()[..part.len()]);
        }
        bytes
    }

    /// Returns a number below `bound`, which is not 0. The bias of the remainder is far below the
    /// level that a simulation could show.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// Returns a number from `low` to `high`, both possible.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns true in `per_mille` of a thousand cases.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.below(1000) < u64::from(per_mille)
    }

    /// Returns one of `choices`, of which there is at least one.
    pub fn pick<'c, T>(&mut self, choices: &'c [T]) -> &'c T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// Returns how much of `possible` (at least 1) happens: all of it, or with a chance of
    /// `per_mille` less; then often a single byte, because mistakes are at ends and beginnings.
    pub fn part_of(&mut self, possible: usize, per_mille: u32) -> usize {
        if possible <= 1 || !self.chance(per_mille) {
            return possible;
        }
        match self.below(3) {
            0 => 1,
            1 => self.between(1, possible as u64) as usize,
            _ => self.between(1, possible.min(16) as u64) as usize,
        }
    }

    /// Shuffles a list (Fisher and Yates).
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_numbers() {
        // The first outputs of the reference implementation for the seed 1234567.
        let mut random = Random::new(1_234_567);
        let numbers = [random.number(), random.number(), random.number()];
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn a_random_part_is_between_one_and_the_whole() {
        let mut random = Random::new(7);
        for possible in 1..200 {
            let part = random.part_of(possible, 900);
            assert!((1..=possible).contains(&part), "{part} of {possible}");
        }
    }
}
