//! Commands that add members, change their scores, and remove them.

use super::bounds::parse_score;
use crate::command::call::Call;
use crate::error::{Error, NOT_A_FLOAT, SYNTAX};
use crate::keyspace::database::ChangeEffect;
use crate::keyspace::key::KeyHasher;
use crate::value::sorted_set::{ScoreChange, SortedSet};

const NX_AND_XX: Error =
    Error::constant("ERR XX and NX options at the same time are not compatible");
const GT_AND_LT: Error =
    Error::constant("ERR GT, LT, and/or NX options at the same time are not compatible");
const ONE_INCREMENT: Error =
    Error::constant("ERR INCR option supports a single increment-element pair");
const NOT_A_NUMBER: Error = Error::constant("ERR resulting score is not a number (NaN)");

/// Options of `ZADD`.
#[derive(Clone, Copy, Debug, Default)]
struct AddOptions {
    only_new: bool,
    only_existing: bool,
    only_greater: bool,
    only_less: bool,
    counts_changed: bool,
    increments: bool,
}

impl AddOptions {
    /// Takes an option. Returns whether it is one.
    fn take(&mut self, text: &[u8]) -> bool {
        let options = [
            (&b"nx"[..], &mut self.only_new),
            (b"xx", &mut self.only_existing),
            (b"gt", &mut self.only_greater),
            (b"lt", &mut self.only_less),
            (b"ch", &mut self.counts_changed),
            (b"incr", &mut self.increments),
        ];
        let found = options.into_iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
        found.map(|(_, option)| *option = true).is_some()
    }

    /// # Errors
    /// Two options contradict each other.
    fn check(self) -> Result<(), Error> {
        if self.only_new && self.only_existing {
            return Err(NX_AND_XX);
        }
        let conditions = [self.only_new, self.only_greater, self.only_less];
        if conditions.into_iter().filter(|&it| it).count() > 1 {
            return Err(GT_AND_LT);
        }
        Ok(())
    }

    /// Returns the new score of a member, or `None` if the score does not change.
    fn new_score(self, old: Option<f64>, score: f64) -> Result<Option<f64>, Error> {
        let Some(old) = old else { return Ok(Some(score).filter(|_| !self.only_existing)) };
        if self.only_new {
            return Ok(None);
        }
        let new = if self.increments { old + score } else { score };
        if new.is_nan() {
            return Err(NOT_A_NUMBER);
        }
        let is_refused = self.only_greater && new <= old || self.only_less && new >= old;
        Ok(Some(new).filter(|_| !is_refused))
    }
}

/// The result of `ZADD`.
#[derive(Debug, Default)]
struct Added {
    added: usize,
    changed: usize,
    /// The score of the last member, or `None` if the options have prevented the change.
    score: Option<f64>,
}

impl Added {
    fn add(
        &mut self,
        set: &mut SortedSet,
        options: AddOptions,
        (score, member): (f64, &[u8]),
        hasher: KeyHasher,
    ) -> Result<(), Error> {
        // The old score is only needed for an increment or a condition.
        let needs_old = options.increments
            || options.only_new
            || options.only_existing
            || options.only_greater
            || options.only_less;
        let old = if needs_old { set.score(member) } else { None };
        self.score = options.new_score(old, score)?;
        if let Some(score) = self.score {
            match set.set_score(member, score, hasher) {
                ScoreChange::Added => self.added += 1,
                ScoreChange::Updated => self.changed += 1,
                ScoreChange::Unchanged => {}
            }
        }
        Ok(())
    }
}

/// `ZADD`
pub(super) fn add(call: &mut Call<'_, '_>) -> Result<(), Error> {
    add_with(call, AddOptions::default())
}

/// Executes `ZINCRBY`. As in Redis, an increment that is an option of `ZADD` is interpreted as one
/// here, too.
pub(super) fn increment(call: &mut Call<'_, '_>) -> Result<(), Error> {
    add_with(call, AddOptions { increments: true, ..AddOptions::default() })
}

/// Parses further options and adds the pairs after them.
fn add_with(call: &mut Call<'_, '_>, mut options: AddOptions) -> Result<(), Error> {
    let mut first = 2;
    while call.arguments.get(first).is_some_and(|text| options.take(text)) {
        first += 1;
    }
    let pairs = call.arguments.len().saturating_sub(first);
    if pairs == 0 || !pairs.is_multiple_of(2) {
        return Err(SYNTAX);
    }
    options.check()?;
    if options.increments && pairs > 2 {
        return Err(ONE_INCREMENT);
    }
    add_pairs(call, options, first)
}

/// Adds pairs of a score and a member, from an argument on.
fn add_pairs(call: &mut Call<'_, '_>, options: AddOptions, first: usize) -> Result<(), Error> {
    let arguments = call.arguments;
    let pairs = move || {
        let scores = arguments.from(first).step_by(2);
        scores.map(parse_score).zip(arguments.from(first + 1).step_by(2))
    };
    if pairs().any(|(score, _)| score.is_none()) {
        return Err(NOT_A_FLOAT);
    }
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    let result = database.upsert_collection(key, context, |set: &mut SortedSet, context| {
        let mut result = Added::default();
        for (score, member) in pairs() {
            let pair = (score.unwrap_or_default(), member);
            if let Err(error) = result.add(set, options, pair, context.hasher) {
                return ChangeEffect::None(Err(error));
            }
        }
        if result.added + result.changed > 0 {
            ChangeEffect::Made(Ok(result))
        } else {
            ChangeEffect::None(Ok(result))
        }
    })??;
    match (options.increments, result.score) {
        (true, Some(score)) => call.reply.double(score),
        (true, None) => call.reply.null(),
        (false, _) if options.counts_changed => call.reply.size(result.added + result.changed),
        (false, _) => call.reply.size(result.added),
    }
    Ok(())
}

/// `ZREM`
pub(super) fn remove(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (key, members) = (call.key(1), call.arguments.from(2));
    let (database, context) = call.locks.database(call.database, key);
    let removed =
        database.change_collection(key, context, |set: &mut SortedSet, _| {
            match members.filter_map(|member| set.remove(member)).count() {
                0 => ChangeEffect::None(0),
                removed => ChangeEffect::Made(removed),
            }
        })?;
    call.reply.size(removed.unwrap_or(0));
    Ok(())
}
