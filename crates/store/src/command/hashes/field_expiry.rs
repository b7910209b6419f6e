//! Commands on the expiry of fields of hashes.

use std::ops::Range;

use crate::command::call::Call;
use crate::command::expiry_option::TimeUnit;
use crate::command::hashes::{change, read};
use crate::error::{Error, NOT_AN_INTEGER};
use crate::keyspace::database::{ChangeEffect, ShardContext};
use crate::keyspace::record::EXPIRY_MAX_MS;
use crate::resp::number::parse_i64;
use crate::value::EncodedField;
use crate::value::hash::Hash;

/// The reply for a field that does not exist; the constants below are the other replies for one
/// field.
const NO_FIELD: i64 = -2;
const NO_EXPIRY: i64 = -1;
const NOT_MET: i64 = 0;
const CHANGED: i64 = 1;
const DELETED: i64 = 2;

const NOT_POSITIVE: Error = Error::constant("ERR Number of fields must be a positive integer");

/// Returns the indices of the arguments that are the fields after `FIELDS number`, which begins at
/// an argument.
///
/// # Errors
/// `FIELDS` is missing, or the number differs from the number of fields.
pub(super) fn parse_fields(
    call: &Call<'_, '_>,
    at: usize,
    invalid_count: Error,
) -> Result<Range<usize>, Error> {
    let word = call.arguments.get(at).unwrap_or_default();
    if !word.eq_ignore_ascii_case(b"FIELDS") {
        return Err(Error::constant(
            "ERR Mandatory argument FIELDS is missing or not at the right position",
        ));
    }
    let count = parse_i64(call.arguments.get(at + 1).unwrap_or_default());
    let count = count.and_then(|count| usize::try_from(count).ok()).filter(|&count| count > 0);
    let fields = at + 2..call.arguments.len();
    if count.ok_or(invalid_count)? != fields.len() {
        return Err(Error::constant(
            "ERR The `numfields` parameter must match the number of arguments",
        ));
    }
    Ok(fields)
}

/// Parses the time of an expiry, in milliseconds since 1970; 0 is allowed.
///
/// # Errors
/// The text is not an integer, is negative, or is beyond the latest possible expiry.
pub(super) fn parse_time(call: &Call<'_, '_>, text: &[u8], unit: TimeUnit) -> Result<u64, Error> {
    let number = parse_i64(text).ok_or(NOT_AN_INTEGER)?;
    let negative = Error::constant("ERR invalid expire time, must be >= 0");
    let number = u64::try_from(number).map_err(|_| negative)?;
    let (unit_ms, from_ms) = unit.scale(call.now_ms);
    let at_ms = number.checked_mul(unit_ms).and_then(|time| time.checked_add(from_ms));
    let name = call.command.name;
    let too_far = || Error::new(format!("ERR invalid expire time in '{name}' command"));
    at_ms.filter(|&at| at <= EXPIRY_MAX_MS).ok_or_else(too_far)
}

/// The condition under which an expiry is set.
#[derive(Clone, Copy, Debug)]
enum ExpiryCondition {
    Always,
    /// `NX`: the field has none.
    HasNone,
    /// `XX`: the field has one.
    HasOne,
    /// `GT`: the new one is later. A field without one never expires, which is later still.
    IsLater,
    /// `LT`: the new one is earlier.
    IsEarlier,
}

impl ExpiryCondition {
    fn parse(text: &[u8]) -> Option<Self> {
        match text {
            _ if text.eq_ignore_ascii_case(b"NX") => Some(Self::HasNone),
            _ if text.eq_ignore_ascii_case(b"XX") => Some(Self::HasOne),
            _ if text.eq_ignore_ascii_case(b"GT") => Some(Self::IsLater),
            _ if text.eq_ignore_ascii_case(b"LT") => Some(Self::IsEarlier),
            _ => None,
        }
    }

    fn is_met(self, old_ms: Option<u64>, new_ms: u64) -> bool {
        match self {
            Self::Always => true,
            Self::HasNone => old_ms.is_none(),
            Self::HasOne => old_ms.is_some(),
            Self::IsLater => old_ms.is_some_and(|old_ms| new_ms > old_ms),
            Self::IsEarlier => old_ms.is_none_or(|old_ms| new_ms < old_ms),
        }
    }
}

pub(super) fn hexpire(call: &mut Call<'_, '_>) -> Result<(), Error> {
    set_expiry(call, TimeUnit::Seconds)
}

pub(super) fn hpexpire(call: &mut Call<'_, '_>) -> Result<(), Error> {
    set_expiry(call, TimeUnit::Milliseconds)
}

pub(super) fn hexpireat(call: &mut Call<'_, '_>) -> Result<(), Error> {
    set_expiry(call, TimeUnit::UnixSeconds)
}

pub(super) fn hpexpireat(call: &mut Call<'_, '_>) -> Result<(), Error> {
    set_expiry(call, TimeUnit::UnixMilliseconds)
}

fn set_expiry(call: &mut Call<'_, '_>, unit: TimeUnit) -> Result<(), Error> {
    // The error for a value of another type comes before all others.
    read(call.locks, call.database, call.key(1))?;
    let at_ms = parse_time(call, call.argument(2), unit)?;
    let condition = ExpiryCondition::parse(call.argument(3));
    let invalid_count = Error::constant("ERR Parameter `numFields` should be greater than 0");
    let fields = parse_fields(call, 3 + usize::from(condition.is_some()), invalid_count)?;
    let condition = condition.unwrap_or(ExpiryCondition::Always);
    change_fields(call, fields, |hash, name, context| {
        let Some(field) = hash.get(name, context) else { return NO_FIELD };
        if !condition.is_met(field.expiry_ms, at_ms) {
            return NOT_MET;
        }
        set_field_expiry(hash, name, Some(at_ms), context)
    })
}

/// Changes the expiry of a field, or removes the field if the time has passed already. Returns the
/// reply for the field.
pub(super) fn set_field_expiry(
    hash: &mut Hash,
    name: &[u8],
    expiry_ms: Option<u64>,
    context: &ShardContext,
) -> i64 {
    let Some(field) = hash.get(name, context) else { return NO_FIELD };
    if expiry_ms.is_some_and(|at| at <= context.now_ms) {
        hash.remove(name, context);
        return DELETED;
    }
    let value = field.value.to_vec();
    hash.put(EncodedField { name, value: &value, expiry_ms }, context);
    CHANGED
}

pub(super) fn hpersist(call: &mut Call<'_, '_>) -> Result<(), Error> {
    read(call.locks, call.database, call.key(1))?;
    let fields = parse_fields(call, 2, NOT_POSITIVE)?;
    change_fields(call, fields, |hash, name, context| match hash.get(name, context) {
        None => NO_FIELD,
        Some(field) if field.expiry_ms.is_none() => NO_EXPIRY,
        Some(_) => set_field_expiry(hash, name, None, context),
    })
}

/// Changes fields. The reply has an integer for each.
fn change_fields(
    call: &mut Call<'_, '_>,
    fields: Range<usize>,
    mut change_one: impl FnMut(&mut Hash, &[u8], &ShardContext) -> i64,
) -> Result<(), Error> {
    let arguments = call.arguments;
    let count = fields.len();
    let replies = change(call, |hash, context| {
        let replies: Vec<_> =
            fields.map(|index| change_one(hash, &arguments[index], context)).collect();
        let is_changed = replies.iter().any(|&reply| reply > NOT_MET);
        if is_changed { ChangeEffect::Made(replies) } else { ChangeEffect::None(replies) }
    })?;
    call.reply.array(count);
    for reply in replies.unwrap_or_else(|| vec![NO_FIELD; count]) {
        call.reply.integer(reply);
    }
    Ok(())
}

pub(super) fn httl(call: &mut Call<'_, '_>) -> Result<(), Error> {
    time_left(call, |at_ms, now_ms| at_ms.saturating_sub(now_ms).div_ceil(1000))
}

pub(super) fn hpttl(call: &mut Call<'_, '_>) -> Result<(), Error> {
    time_left(call, u64::saturating_sub)
}

pub(super) fn hexpiretime(call: &mut Call<'_, '_>) -> Result<(), Error> {
    time_left(call, |at_ms, _| at_ms.div_ceil(1000))
}

pub(super) fn hpexpiretime(call: &mut Call<'_, '_>) -> Result<(), Error> {
    time_left(call, |at_ms, _| at_ms)
}

/// Writes for each field the result of `reply_of` for its expiry and the current time.
fn time_left(call: &mut Call<'_, '_>, reply_of: fn(u64, u64) -> u64) -> Result<(), Error> {
    read(call.locks, call.database, call.key(1))?;
    let fields = parse_fields(call, 2, NOT_POSITIVE)?;
    let (hash, context) = read(call.locks, call.database, call.key(1))?;
    call.reply.array(fields.len());
    for index in fields {
        let field = hash.and_then(|hash| hash.get(&call.arguments[index], context));
        call.reply.integer(match field.map(|field| field.expiry_ms) {
            None => NO_FIELD,
            Some(None) => NO_EXPIRY,
            Some(Some(at_ms)) => reply_of(at_ms, context.now_ms) as i64,
        });
    }
    Ok(())
}
