//! Commands on keys of any type.

use super::call::Call;
use super::options::OptionArguments;
use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use crate::error::{Error, NO_SUCH_KEY, NOT_AN_INTEGER, SYNTAX};
use crate::keyspace::record::KeyRecord;
use crate::limits::DATABASES;
use crate::resp::number::parse_i64;

const GENERIC: CommandDefaults =
    CommandDefaults { group: CommandGroup::Generic, keys: KeyArguments::FIRST };

const FAST_READ: Flags = Flags::READ_ONLY.and(Flags::FAST);
const FAST_WRITE: Flags = Flags::WRITE.and(Flags::FAST);

pub(super) const COMMANDS: &[CommandSpec] = &[
    GENERIC
        .command("del", -2, Flags::WRITE, ("1.0.0", "Deletes keys."), delete)
        .with_keys(KeyArguments::REST),
    GENERIC
        .command(
            "unlink",
            -2,
            FAST_WRITE,
            ("4.0.0", "Deletes keys; large values are freed later."),
            delete,
        )
        .with_keys(KeyArguments::REST),
    GENERIC
        .command("exists", -2, FAST_READ, ("1.0.0", "Counts the keys that exist."), exists)
        .with_keys(KeyArguments::REST),
    GENERIC
        .command(
            "touch",
            -2,
            FAST_READ,
            ("3.2.1", "Counts the keys that exist, and marks them as used."),
            exists,
        )
        .with_keys(KeyArguments::REST),
    GENERIC.command(
        "type",
        2,
        FAST_READ,
        ("1.0.0", "Returns the type of the value of a key."),
        type_of,
    ),
    GENERIC
        .command("rename", 3, Flags::WRITE, ("1.0.0", "Gives a key another name."), |call| {
            rename(call, true)
        })
        .with_keys(KeyArguments::FIRST_TWO),
    GENERIC
        .command(
            "renamenx",
            3,
            FAST_WRITE,
            ("1.0.0", "Gives a key another name that is not in use."),
            |call| rename(call, false),
        )
        .with_keys(KeyArguments::FIRST_TWO),
    GENERIC
        .command(
            "copy",
            -3,
            Flags::WRITE.and(Flags::DENY_OOM),
            ("6.2.0", "Copies the value of a key to another key."),
            copy,
        )
        .with_keys(KeyArguments::FIRST_TWO),
    GENERIC.command("move", 3, FAST_WRITE, ("1.0.0", "Moves a key to another database."), move_key),
];

fn delete(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let mut count = 0;
    for index in 1..call.arguments.len() {
        let key = call.key(index);
        let (database, context) = call.locks.database(call.database, key);
        count += usize::from(database.remove(key, context));
    }
    call.reply.size(count);
    Ok(())
}

fn exists(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let mut count = 0;
    for index in 1..call.arguments.len() {
        let key = call.key(index);
        let (database, context) = call.locks.database(call.database, key);
        count += usize::from(database.get(key, context).is_some());
    }
    call.reply.size(count);
    Ok(())
}

fn type_of(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let key = call.key(1);
    let (database, _) = call.locks.database(call.database, key);
    let record = database.peek(key, call.now_ms);
    call.reply.simple(record.map_or("none", KeyRecord::type_name));
    Ok(())
}

fn rename(call: &mut Call<'_, '_>, replaces: bool) -> Result<(), Error> {
    let (from, to) = (call.key(1), call.key(2));
    let (database, context) = call.locks.database(call.database, from);
    if database.get(from, context).is_none() {
        return Err(NO_SUCH_KEY);
    }
    let is_same = from.bytes == to.bytes;
    let (database, context) = call.locks.database(call.database, to);
    let is_done = replaces || !is_same && database.get(to, context).is_none();
    if is_done && !is_same {
        let (database, _) = call.locks.database(call.database, from);
        let record = database.take(from).ok_or(NO_SUCH_KEY)?;
        let (database, context) = call.locks.database(call.database, to);
        database.put(to, record.with_key(to.bytes), context);
    }
    if replaces {
        call.reply.ok();
    } else {
        call.reply.integer(is_done.into());
    }
    Ok(())
}

/// The error for an integer that does not fit into 32 bits.
const NO_SHORT_INTEGER: Error =
    Error::constant("ERR value is out of range, value must between -2147483648 and 2147483647");

/// Parses the number of a database.
///
/// # Errors
/// There is no such database.
pub(super) fn database_number(argument: &[u8]) -> Result<usize, Error> {
    let number = parse_i64(argument).ok_or(NOT_AN_INTEGER)?;
    let number = i32::try_from(number).map_err(|_| NO_SHORT_INTEGER)?;
    let number = usize::try_from(number).ok().filter(|&number| number < DATABASES);
    number.ok_or(Error::constant("ERR DB index is out of range"))
}

fn copy(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (mut target, mut replaces) = (call.database, false);
    let mut options = OptionArguments::from(call.arguments, 3);
    while let Some(name) = options.next_name() {
        match name?.as_bytes() {
            b"REPLACE" => replaces = true,
            b"DB" => target = database_number(options.next_value()?)?,
            _ => return Err(SYNTAX),
        }
    }
    let (from, to) = (call.key(1), call.key(2));
    if target == call.database && from.bytes == to.bytes {
        return Err(Error::constant("ERR source and destination objects are the same"));
    }
    let (database, context) = call.locks.database(call.database, from);
    let copied = database.get(from, context).map(|record| record.copy(to.bytes));
    let (database, context) = call.locks.database(target, to);
    let is_free = replaces || database.get(to, context).is_none();
    let is_copied = copied.is_some() && is_free;
    if let Some(record) = copied.filter(|_| is_free) {
        database.put(to, record, context);
    }
    call.reply.integer(is_copied.into());
    Ok(())
}

fn move_key(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let target = database_number(call.argument(2))?;
    if target == call.database {
        return Err(Error::constant("ERR source and destination objects are the same"));
    }
    let key = call.key(1);
    let (database, context) = call.locks.database(target, key);
    let is_free = database.get(key, context).is_none();
    let (database, context) = call.locks.database(call.database, key);
    let exists = database.get(key, context).is_some();
    let record = if is_free && exists { database.take(key) } else { None };
    let is_moved = record.is_some();
    if let Some(record) = record {
        let (database, context) = call.locks.database(target, key);
        database.put(key, record, context);
    }
    call.reply.integer(is_moved.into());
    Ok(())
}
