//! Newer commands that set or delete strings under conditions.

use super::set_options::{SetCondition, SetOptions};
use super::{STRINGS, WRITE, put_or_remove};
use crate::command::call::Call;
use crate::command::spec::{CommandSpec, Flags, KeyArguments};
use crate::error::{Error, SYNTAX};
use crate::keyspace::record::KeyRecord;
use crate::resp::arguments::Arguments;
use crate::resp::number::parse_i64;

const NO_KEY_COUNT: Error = Error::constant("ERR invalid numkeys value");

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    STRINGS
        .command(
            "msetex",
            -4,
            WRITE,
            ("8.4.0", "Sets the string values of keys and their common expiry."),
            msetex,
        )
        .with_keys(KeyArguments::Found(|arguments| Ok(pairs(arguments)?.collect()))),
    STRINGS.command(
        "delifeq",
        3,
        Flags::WRITE.and(Flags::FAST),
        ("9.0.0", "Deletes a key if it has this string value."),
        delifeq,
    ),
];

/// Returns the indices of the arguments of `MSETEX` that are keys. Each is followed by its value.
fn pairs(arguments: &Arguments<'_>) -> Result<std::iter::StepBy<std::ops::Range<usize>>, Error> {
    let count = arguments.get(1).and_then(parse_i64);
    let count = count.and_then(|count| usize::try_from(count).ok()).filter(|&count| count > 0);
    let end = count.ok_or(NO_KEY_COUNT)?.saturating_mul(2).saturating_add(2);
    if end > arguments.len() {
        return Err(crate::dispatch::wrong_arity("msetex"));
    }
    Ok((2..end).step_by(2))
}

fn msetex(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let pairs = pairs(&call.arguments)?;
    let options = SetOptions::parse(call, 2 + pairs.len() * 2)?;
    if options.returns_old || matches!(options.condition, SetCondition::Equals(_)) {
        return Err(SYNTAX);
    }
    let expiry_ms = options.expiry.at_ms(call)?;
    for index in pairs.clone() {
        let key = call.key(index);
        let (database, _) = call.locks.database(call.database, key);
        if !options.condition.is_met(database.peek(key, call.now_ms))? {
            call.reply.integer(0);
            return Ok(());
        }
    }
    for index in pairs {
        let (key, value) = (call.key(index), call.argument(index + 1));
        let (database, context) = call.locks.database(call.database, key);
        let current = database.peek(key, call.now_ms);
        let kept_ms = current.and_then(KeyRecord::expiry_ms).filter(|_| options.keeps_expiry);
        put_or_remove(database, key, value, expiry_ms.or(kept_ms), context);
    }
    call.reply.integer(1);
    Ok(())
}

fn delifeq(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (key, value) = (call.key(1), call.argument(2));
    let (database, context) = call.locks.database(call.database, key);
    let is_equal = database.string(key, context)?.is_some_and(|bytes| bytes == value);
    if is_equal {
        database.remove(key, context);
    }
    call.reply.integer(is_equal.into());
    Ok(())
}
