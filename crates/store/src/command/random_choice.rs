//! Random elements of hashes and sets.

use std::collections::HashSet;

use crate::error::{Error, NOT_AN_INTEGER};
use crate::keyspace::database::Effects;
use crate::limits::RANDOM_REPEATED_MAX;
use crate::resp::number::parse_i64;

/// How many elements are chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RandomCount {
    /// So many different ones, or all.
    Different(usize),
    /// So many, of which some may be the same.
    Repeated(usize),
}

const OUT_OF_RANGE: Error = Error::constant("ERR value is out of range");

impl RandomCount {
    pub(crate) const ONE: Self = Self::Repeated(1);

    /// Parses a count, which is negative if elements may be repeated.
    ///
    /// # Errors
    /// It is no number, or there are more to be repeated than one reply may have.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, Error> {
        let number = parse_i64(text).ok_or(NOT_AN_INTEGER)?;
        let count = number.checked_abs().ok_or(Error::constant(
            "ERR value is out of range, value must between -9223372036854775807 and \
             9223372036854775807",
        ))? as usize;
        if number >= 0 {
            return Ok(Self::Different(count));
        }
        if count > RANDOM_REPEATED_MAX {
            return Err(OUT_OF_RANGE);
        }
        Ok(Self::Repeated(count))
    }

    /// Returns the work of choosing so many of `len` elements, in elements.
    pub(crate) fn work(self, len: usize) -> usize {
        match self {
            Self::Different(count) if count < len / 3 => count,
            Self::Different(_) => len,
            Self::Repeated(count) => count,
        }
    }

    /// # Errors
    /// Twice the count is no number.
    pub(crate) fn check_for_pairs(self) -> Result<(), Error> {
        let (Self::Different(count) | Self::Repeated(count)) = self;
        if count > i64::MAX as usize / 2 {
            return Err(OUT_OF_RANGE);
        }
        Ok(())
    }
}

/// A value whose elements can be chosen.
pub(crate) trait RandomElements {
    type Element<'e>: Copy
    where
        Self: 'e;

    /// Returns how many elements there are.
    fn len(&self, effects: &Effects) -> usize;

    /// Returns all elements.
    fn all<'e>(&'e self, effects: &Effects) -> Vec<Self::Element<'e>>;

    /// Returns a random element of a large value; `None` of a small one, or if chance has found
    /// none that exists.
    fn random<'e>(&'e self, effects: &mut Effects) -> Option<Self::Element<'e>>;

    /// Returns something that no two elements share.
    fn identity(element: Self::Element<'_>) -> u64;
}

/// Calls `visit` for random elements. It takes time for all elements of the value if a third of
/// them are to be chosen.
pub(crate) fn choose<'e, V: RandomElements>(
    value: &'e V,
    count: RandomCount,
    effects: &mut Effects,
    mut visit: impl FnMut(V::Element<'e>),
) {
    /// Values up to this size are copied in any case, which is quick.
    const SMALL: usize = 128;
    let len = value.len(effects);
    match count {
        RandomCount::Different(count) if len > SMALL && count < len / 3 => {
            let mut chosen = HashSet::with_capacity(count);
            let mut tries = (count + 1) * 64;
            while chosen.len() < count && tries > 0 {
                tries -= 1;
                let Some(element) = value.random(effects) else { continue };
                if chosen.insert(V::identity(element)) {
                    visit(element);
                }
            }
        }
        RandomCount::Different(count) => {
            let mut all = value.all(effects);
            for index in 0..count.min(all.len()) {
                let other = index + effects.random_below(all.len() - index).unwrap_or(0);
                all.swap(index, other);
                visit(all[index]);
            }
        }
        RandomCount::Repeated(count) => {
            let all = if len > SMALL { Vec::new() } else { value.all(effects) };
            for _ in 0..count {
                let chosen = effects.random_below(all.len()).map(|index| all[index]);
                let chosen = chosen.or_else(|| random_or_any(value, effects));
                let Some(chosen) = chosen else { break };
                visit(chosen);
            }
        }
    }
}

/// Returns a random element of a large value. If nearly all of it has expired, it is the first one
/// that is found.
fn random_or_any<'e, V: RandomElements>(
    value: &'e V,
    effects: &mut Effects,
) -> Option<V::Element<'e>> {
    const TRIES: usize = 100;
    let found = (0..TRIES).find_map(|_| value.random(effects));
    found.or_else(|| value.all(effects).first().copied())
}
