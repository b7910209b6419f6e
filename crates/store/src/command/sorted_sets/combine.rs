//! Commands that make a sorted set from the members of several values: unions, intersections,
//! differences.

use std::collections::HashMap;
use std::ops::Range;

use super::bounds::parse_score;
use super::range::put;
use super::write_members;
use crate::command::call::Call;
use crate::command::member_source::MemberSource;
use crate::command::options::OptionArguments;
use crate::command::ranges::parse_integer;
use crate::error::{Error, SYNTAX};
use crate::value::sorted_set::{SortedSet, compare};

const WEIGHT_NOT_A_FLOAT: Error = Error::constant("ERR weight value is not a float");
const LIMIT_NEGATIVE: Error = Error::constant("ERR LIMIT can't be negative");

/// The members of a result with their scores.
type Members = Vec<(Box<[u8]>, f64)>;

/// The set operation that selects the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CombineOperation {
    Union,
    Intersection,
    Difference,
}

/// The function that combines the scores of one member.
#[derive(Clone, Copy, Debug)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    /// Adds a score. The sum of infinities of both signs is 0, as for Redis.
    fn add(self, total: &mut f64, score: f64) {
        match self {
            Self::Sum => {
                *total += score;
                if total.is_nan() {
                    *total = 0.0;
                }
            }
            Self::Min if score < *total => *total = score,
            Self::Max if score > *total => *total = score,
            Self::Min | Self::Max => {}
        }
    }
}

/// Keys and options of one of the commands.
#[derive(Debug)]
struct Combination {
    operation: CombineOperation,
    /// The indices of the arguments that are the keys of the values.
    keys: Range<usize>,
    /// The weights of the keys; empty if all are 1.
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
}

impl Combination {
    /// Parses the number of keys at an argument, the keys, and the options.
    fn parse(
        call: &mut Call<'_, '_>,
        operation: CombineOperation,
        first: usize,
        is_stored: bool,
    ) -> Result<Self, Error> {
        let mut parsed = Self::parse_keys(call, operation, first)?;
        parsed.parse_options(call, is_stored)?;
        Ok(parsed)
    }

    /// Parses the number of keys at an argument, and the keys. Their values have members.
    fn parse_keys(
        call: &mut Call<'_, '_>,
        operation: CombineOperation,
        first: usize,
    ) -> Result<Self, Error> {
        let count = parse_integer(call.argument(first))?;
        let name = call.command.name;
        let none =
            || Error::new(format!("ERR at least 1 input key is needed for '{name}' command"));
        let count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or_else(none)?;
        let end = (first + 1).saturating_add(count);
        if end > call.arguments.len() {
            return Err(SYNTAX);
        }
        let parsed = Self {
            operation,
            keys: first + 1..end,
            weights: Vec::new(),
            aggregate: Aggregate::Sum,
            with_scores: false,
        };
        // The types of the values are checked before the options.
        for index in parsed.keys.clone() {
            source(call, index)?;
        }
        Ok(parsed)
    }

    fn parse_options(&mut self, call: &Call<'_, '_>, is_stored: bool) -> Result<(), Error> {
        let has_weights = self.operation != CombineOperation::Difference;
        let mut options = OptionArguments::from(call.arguments, self.keys.end);
        while let Some(name) = options.next_name() {
            match name?.as_bytes() {
                b"WEIGHTS" if has_weights && options.left() >= self.keys.len() => {
                    self.weights.clear();
                    for _ in self.keys.clone() {
                        let weight = parse_score(options.next_value()?);
                        self.weights.push(weight.ok_or(WEIGHT_NOT_A_FLOAT)?);
                    }
                }
                b"AGGREGATE" if has_weights => {
                    self.aggregate = match options.next_value()?.to_ascii_lowercase().as_slice() {
                        b"sum" => Aggregate::Sum,
                        b"min" => Aggregate::Min,
                        b"max" => Aggregate::Max,
                        _ => return Err(SYNTAX),
                    };
                }
                b"WITHSCORES" if !is_stored => self.with_scores = true,
                _ => return Err(SYNTAX),
            }
        }
        Ok(())
    }

    fn weight(&self, index: usize) -> f64 {
        self.weights.get(index - self.keys.start).copied().unwrap_or(1.0)
    }

    /// Returns the argument indices of the keys, beginning with the value with the fewest members.
    /// This is the order in which scores are added.
    fn keys_by_size(&self, call: &mut Call<'_, '_>) -> Result<Vec<usize>, Error> {
        let mut keys = Vec::with_capacity(self.keys.len());
        for index in self.keys.clone() {
            keys.push((source(call, index)?.len(), index));
        }
        keys.sort_by_key(|&(len, _)| len);
        Ok(keys.into_iter().map(|(_, index)| index).collect())
    }

    /// Returns the members in no order. Takes time for each member of each value.
    fn members(&self, call: &mut Call<'_, '_>) -> Result<Members, Error> {
        match self.operation {
            CombineOperation::Union => self.union(call),
            CombineOperation::Intersection => self.intersection(call),
            CombineOperation::Difference => self.difference(call),
        }
    }

    fn union(&self, call: &mut Call<'_, '_>) -> Result<Members, Error> {
        let mut members = HashMap::<Box<[u8]>, f64>::new();
        for index in self.keys_by_size(call)? {
            let weight = self.weight(index);
            source(call, index)?.for_each(|member, score| {
                let score = weighted(score, weight);
                match members.get_mut(member) {
                    Some(total) => self.aggregate.add(total, score),
                    None => {
                        members.insert(member.into(), score);
                    }
                }
            });
        }
        Ok(members.into_iter().collect())
    }

    fn intersection(&self, call: &mut Call<'_, '_>) -> Result<Members, Error> {
        let keys = self.keys_by_size(call)?;
        let Some((&first, others)) = keys.split_first() else { return Ok(Vec::new()) };
        let mut members = collect(source(call, first)?, self.weight(first));
        for &index in others {
            if members.is_empty() {
                break;
            }
            let weight = self.weight(index);
            let other = source(call, index)?;
            members.retain_mut(|(member, total)| match other.score(member) {
                Some(score) => {
                    self.aggregate.add(total, score * weight);
                    true
                }
                None => false,
            });
        }
        Ok(members)
    }

    fn difference(&self, call: &mut Call<'_, '_>) -> Result<Members, Error> {
        let mut members = collect(source(call, self.keys.start)?, 1.0);
        for index in self.keys.clone().skip(1) {
            if members.is_empty() {
                break;
            }
            let other = source(call, index)?;
            members.retain(|(member, _)| other.score(member).is_none());
        }
        Ok(members)
    }
}

/// Returns a score with a weight; infinity times 0 is 0, as for Redis.
fn weighted(score: f64, weight: f64) -> f64 {
    let score = score * weight;
    if score.is_nan() { 0.0 } else { score }
}

/// Returns the members of the value of a key.
fn source<'l>(call: &'l mut Call<'_, '_>, index: usize) -> Result<MemberSource<'l>, Error> {
    let key = call.key(index);
    let (database, context) = call.locks.database(call.database, key);
    let record = database.get(key, context);
    MemberSource::of(record, context)
}

fn collect(source: MemberSource<'_>, weight: f64) -> Members {
    let mut members = Vec::with_capacity(source.len());
    source.for_each(|member, score| members.push((member.into(), weighted(score, weight))));
    members
}

/// Writes the members of a combination in order.
fn write(call: &mut Call<'_, '_>, operation: CombineOperation) -> Result<(), Error> {
    let combination = Combination::parse(call, operation, 1, false)?;
    let mut members = combination.members(call)?;
    members.sort_unstable_by(|left, right| compare((&left.0, left.1), (&right.0, right.1)));
    let count = members.len();
    let members = members.iter().map(|(member, score)| (&**member, *score));
    write_members(&mut call.reply, members, count, combination.with_scores);
    Ok(())
}

/// Stores the members of a combination.
fn store(call: &mut Call<'_, '_>, operation: CombineOperation) -> Result<(), Error> {
    let combination = Combination::parse(call, operation, 2, true)?;
    let mut members = combination.members(call)?;
    members.sort_unstable_by(|left, right| compare((&left.0, left.1), (&right.0, right.1)));
    let target = call.key(1);
    let (_, context) = call.locks.database(call.database, target);
    let mut set = SortedSet::default();
    for (member, score) in members {
        set.set_score(&member, score, context.hasher);
    }
    let count = set.len();
    put(call.locks, call.database, target, set);
    call.reply.size(count);
    Ok(())
}

/// `ZUNION`
pub(super) fn union(call: &mut Call<'_, '_>) -> Result<(), Error> {
    write(call, CombineOperation::Union)
}

/// `ZUNIONSTORE`
pub(super) fn union_store(call: &mut Call<'_, '_>) -> Result<(), Error> {
    store(call, CombineOperation::Union)
}

/// `ZINTER`
pub(super) fn intersection(call: &mut Call<'_, '_>) -> Result<(), Error> {
    write(call, CombineOperation::Intersection)
}

/// `ZINTERSTORE`
pub(super) fn intersection_store(call: &mut Call<'_, '_>) -> Result<(), Error> {
    store(call, CombineOperation::Intersection)
}

/// `ZDIFF`
pub(super) fn difference(call: &mut Call<'_, '_>) -> Result<(), Error> {
    write(call, CombineOperation::Difference)
}

/// `ZDIFFSTORE`
pub(super) fn difference_store(call: &mut Call<'_, '_>) -> Result<(), Error> {
    store(call, CombineOperation::Difference)
}

/// `ZINTERCARD`
pub(super) fn intersection_cardinality(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let combination = Combination::parse_keys(call, CombineOperation::Intersection, 1)?;
    let mut limit = usize::MAX;
    let mut options = OptionArguments::from(call.arguments, combination.keys.end);
    while let Some(name) = options.next_name() {
        if name?.as_bytes() != b"LIMIT" {
            return Err(SYNTAX);
        }
        let number = parse_integer(options.next_value()?).map_err(|_| LIMIT_NEGATIVE)?;
        let number = usize::try_from(number).map_err(|_| LIMIT_NEGATIVE)?;
        limit = if number == 0 { usize::MAX } else { number };
    }
    let members = combination.members(call)?;
    call.reply.size(members.len().min(limit));
    Ok(())
}
