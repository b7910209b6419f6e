//! Random elements of hashes and sets.

use std::collections::HashSet;

use crate::error::{Error, NOT_AN_INTEGER};
use crate::keyspace::database::ShardContext;
use crate::limits::RANDOM_REPEATED_MAX;
use crate::resp::number::parse_i64;

/// The number of elements to choose, and whether one may be chosen repeatedly.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RandomCount {
    /// So many different elements, or all if there are fewer.
    Different(usize),
    /// So many elements, some of which may be the same.
    Repeated(usize),
}

const OUT_OF_RANGE: Error = Error::constant("ERR value is out of range");

impl RandomCount {
    pub(crate) const ONE: Self = Self::Repeated(1);

    /// Parses a count, which is negative if elements may be repeated.
    ///
    /// # Errors
    /// The text is not an integer, or the number of repeated elements exceeds the limit for one
    /// reply.
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
    /// Twice the count exceeds the range of integers.
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

    /// Returns the number of elements.
    fn len(&self, context: &ShardContext) -> usize;

    /// Returns all elements.
    fn all<'e>(&'e self, context: &ShardContext) -> Vec<Self::Element<'e>>;

    /// Returns a random element of a large value. Returns `None` for a small value, or if the
    /// random choice has found only an expired element.
    fn random<'e>(&'e self, context: &mut ShardContext) -> Option<Self::Element<'e>>;

    /// Returns a unique identifier of an element.
    fn identity(element: Self::Element<'_>) -> u64;
}

/// Calls `visit` for random elements. If a third of the elements or more are to be chosen, the time
/// grows with all elements of the value.
pub(crate) fn choose<'e, V: RandomElements>(
    value: &'e V,
    count: RandomCount,
    context: &mut ShardContext,
    mut visit: impl FnMut(V::Element<'e>),
) {
    /// Values of up to so many elements are always copied, which is quick.
    const SMALL: usize = 128;
    let len = value.len(context);
    match count {
        RandomCount::Different(count) if len > SMALL && count < len / 3 => {
            let mut chosen = HashSet::with_capacity(count);
            let mut tries = (count + 1) * 64;
            while chosen.len() < count && tries > 0 {
                tries -= 1;
                let Some(element) = value.random(context) else { continue };
                if chosen.insert(V::identity(element)) {
                    visit(element);
                }
            }
        }
        RandomCount::Different(count) => {
            let mut all = value.all(context);
            for index in 0..count.min(all.len()) {
                let other = index + context.random_below(all.len() - index).unwrap_or(0);
                all.swap(index, other);
                visit(all[index]);
            }
        }
        RandomCount::Repeated(count) => {
            let all = if len > SMALL { Vec::new() } else { value.all(context) };
            for _ in 0..count {
                let chosen = context.random_below(all.len()).map(|index| all[index]);
                let chosen = chosen.or_else(|| random_or_any(value, context));
                let Some(chosen) = chosen else { break };
                visit(chosen);
            }
        }
    }
}

/// Returns a random element of a large value. If nearly all elements have expired, the first one
/// that is found is returned.
fn random_or_any<'e, V: RandomElements>(
    value: &'e V,
    context: &mut ShardContext,
) -> Option<V::Element<'e>> {
    const TRIES: usize = 100;
    let found = (0..TRIES).find_map(|_| value.random(context));
    found.or_else(|| value.all(context).first().copied())
}
