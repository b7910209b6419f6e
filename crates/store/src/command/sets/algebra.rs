//! Intersections, unions and differences of sets.

use std::ops::Range;

use crate::command::call::Call;
use crate::command::options::OptionArguments;
use crate::command::sets::{peek, read};
use crate::error::{Error, SYNTAX};
use crate::keyspace::database::ShardContext;
use crate::keyspace::record::KeyRecord;
use crate::resp::number::parse_i64;
use crate::value::Collection;
use crate::value::set::{Member, Set};

/// An operation on sets.
#[derive(Clone, Copy, Debug)]
enum SetOperation {
    Intersection,
    Union,
    Difference,
}

/// Calls `visit` for the members of the result, until it returns `false`. A union has members
/// twice that are in two sets.
///
/// # Errors
/// A key has a value of another type.
fn for_each_member(
    call: &mut Call<'_, '_>,
    operation: SetOperation,
    keys: Range<usize>,
    mut visit: impl FnMut(Member<'_>, &ShardContext) -> bool,
) -> Result<(), Error> {
    // This loop counts the accesses, and removes keys that have expired.
    for index in keys.clone() {
        read(call.locks, call.database, call.key(index))?;
    }
    let Some(first) = keys.clone().next() else { return Ok(()) };
    let key = call.key(first);
    let Some(context) = call.locks.context(key) else { return Ok(()) };
    let sets = keys.map(|index| peek(call.locks, call.database, call.key(index), call.now_ms));
    let mut sets = sets.collect::<Result<Vec<Option<&Set>>, _>>()?;
    match operation {
        SetOperation::Union => {
            for set in sets.into_iter().flatten() {
                if !set.members().all(|member| visit(member, context)) {
                    break;
                }
            }
        }
        SetOperation::Intersection | SetOperation::Difference => {
            let is_intersection = matches!(operation, SetOperation::Intersection);
            if is_intersection {
                // A key without a value comes first after sorting; then the result is empty.
                sets.sort_by_key(|set| set.map_or(0, Set::len));
            }
            let Some((Some(first), others)) = sets.split_first() else { return Ok(()) };
            for member in first.members() {
                let is_in = |set: &Set| member.with_text(|text| set.contains(text, context));
                let mut others = others.iter().flatten();
                let is_result = if is_intersection {
                    others.all(|set| is_in(set))
                } else {
                    !others.any(|set| is_in(set))
                };
                if is_result && !visit(member, context) {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Returns the result as a set.
fn result(
    call: &mut Call<'_, '_>,
    operation: SetOperation,
    keys: Range<usize>,
) -> Result<Set, Error> {
    let mut result = Set::default();
    for_each_member(call, operation, keys, |member, context| {
        member.with_text(|text| result.insert(text, context));
        true
    })?;
    Ok(result)
}

/// Writes the result.
fn reply_with(call: &mut Call<'_, '_>, operation: SetOperation) -> Result<(), Error> {
    let keys = 1..call.arguments.len();
    let result = result(call, operation, keys)?;
    call.reply.set(result.len());
    for member in result.members() {
        member.write(&mut call.reply);
    }
    Ok(())
}

/// Stores the result at the first key.
fn store(call: &mut Call<'_, '_>, operation: SetOperation) -> Result<(), Error> {
    let keys = 2..call.arguments.len();
    let result = result(call, operation, keys)?;
    let (key, len) = (call.key(1), result.len());
    let (database, context) = call.locks.database(call.database, key);
    if len == 0 {
        database.remove(key, context);
    } else {
        let access = context.new_access();
        database.put(key, KeyRecord::object(key.bytes, None, access, result.into_value()), context);
    }
    call.reply.size(len);
    Ok(())
}

pub(super) fn sinter(call: &mut Call<'_, '_>) -> Result<(), Error> {
    reply_with(call, SetOperation::Intersection)
}

pub(super) fn sunion(call: &mut Call<'_, '_>) -> Result<(), Error> {
    reply_with(call, SetOperation::Union)
}

pub(super) fn sdiff(call: &mut Call<'_, '_>) -> Result<(), Error> {
    reply_with(call, SetOperation::Difference)
}

pub(super) fn sinterstore(call: &mut Call<'_, '_>) -> Result<(), Error> {
    store(call, SetOperation::Intersection)
}

pub(super) fn sunionstore(call: &mut Call<'_, '_>) -> Result<(), Error> {
    store(call, SetOperation::Union)
}

pub(super) fn sdiffstore(call: &mut Call<'_, '_>) -> Result<(), Error> {
    store(call, SetOperation::Difference)
}

pub(super) fn sintercard(call: &mut Call<'_, '_>) -> Result<(), Error> {
    const FIRST: usize = 2;
    let keys = parse_i64(call.argument(1)).and_then(|keys| usize::try_from(keys).ok());
    let none = Error::constant("ERR numkeys should be greater than 0");
    let keys = keys.filter(|&keys| keys > 0).ok_or(none)?;
    if keys > call.arguments.len() - FIRST {
        return Err(Error::constant("ERR Number of keys can't be greater than number of args"));
    }
    let mut limit = 0;
    let mut options = OptionArguments::from(call.arguments, FIRST + keys);
    while let Some(name) = options.next_name() {
        if name?.as_bytes() != b"LIMIT" {
            return Err(SYNTAX);
        }
        let number = parse_i64(options.next_value()?);
        let number = number.and_then(|number| usize::try_from(number).ok());
        limit = number.ok_or(Error::constant("ERR LIMIT can't be negative"))?;
    }
    let mut count = 0;
    for_each_member(call, SetOperation::Intersection, FIRST..FIRST + keys, |_, _| {
        count += 1;
        count != limit
    })?;
    call.reply.size(count);
    Ok(())
}
