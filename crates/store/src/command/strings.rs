//! The commands of Redis on string values. This file has those that read, set, append to or
//! increment whole strings. Other commands are in submodules:
//!
//! | Module | Commands |
//! |---|---|
//! | `substrings` | `GETRANGE`, `SETRANGE` and `SUBSTR` |
//! | `common_subsequence` | `LCS` |
//! | `msetex_and_delifeq` | `MSETEX` and `DELIFEQ` |
//! | `set_options` | none: it parses the options of `SET`, `GETEX` and `MSETEX` |

pub(super) mod common_subsequence;
pub(super) mod msetex_and_delifeq;
mod set_options;
pub(super) mod substrings;

use set_options::SetOptions;

use super::call::Call;
use super::expiry_option::TimeUnit;
use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use crate::error::{Error, NOT_A_FLOAT, OVERFLOW, TOO_LONG, WRONG_TYPE};
use crate::keyspace::database::{Database, ShardContext};
use crate::keyspace::key::Key;
use crate::keyspace::record::KeyRecord;
use crate::limits::STRING_MAX_BYTES;
use crate::resp::long_double::LongDouble;
use crate::resp::number::{IntegerText, parse_i64};
use crate::resp::reply_writer::Reply;
use crate::value::StoreValue;

const WRITE: Flags = Flags::WRITE.and(Flags::DENY_OOM);
/// Commands that are not fast in `COMMAND INFO`, but take microseconds with small arguments.
const QUICK_WRITE: Flags = WRITE.and(Flags::QUICK_IF_SMALL);
const FAST_WRITE: Flags = WRITE.and(Flags::FAST);
const FAST_READ: Flags = Flags::READ_ONLY.and(Flags::FAST);

const STRINGS: CommandDefaults =
    CommandDefaults { group: CommandGroup::String, keys: KeyArguments::FIRST };

pub(super) const COMMANDS: &[CommandSpec] = &[
    STRINGS.command("get", 2, FAST_READ, ("1.0.0", "Returns the string value of a key."), get),
    STRINGS.command("set", -3, QUICK_WRITE, ("1.0.0", "Sets the string value of a key."), set),
    STRINGS.command(
        "setnx",
        3,
        FAST_WRITE,
        ("1.0.0", "Sets the string value of a key that does not exist."),
        setnx,
    ),
    STRINGS.command(
        "setex",
        4,
        QUICK_WRITE,
        ("2.0.0", "Sets the string value of a key and its expiry in seconds."),
        |call| set_with_expiry(call, TimeUnit::Seconds),
    ),
    STRINGS.command(
        "psetex",
        4,
        QUICK_WRITE,
        ("2.6.0", "Sets the string value of a key and its expiry in milliseconds."),
        |call| set_with_expiry(call, TimeUnit::Milliseconds),
    ),
    STRINGS.command(
        "getset",
        3,
        FAST_WRITE,
        ("1.0.0", "Sets a string and returns the previous one."),
        getset,
    ),
    STRINGS.command(
        "getdel",
        2,
        Flags::WRITE.and(Flags::FAST),
        ("6.2.0", "Returns the string value of a key and deletes it."),
        getdel,
    ),
    STRINGS.command(
        "getex",
        -2,
        Flags::WRITE.and(Flags::FAST),
        ("6.2.0", "Returns the string value of a key and sets its expiry."),
        getex,
    ),
    STRINGS.command("strlen", 2, FAST_READ, ("2.2.0", "Returns the length of a string."), strlen),
    STRINGS.command(
        "append",
        3,
        FAST_WRITE,
        ("2.0.0", "Appends to the string value of a key."),
        append,
    ),
    STRINGS.command(
        "incr",
        2,
        FAST_WRITE,
        ("1.0.0", "Adds one to the integer value of a key."),
        |call| add_integer(call, 1),
    ),
    STRINGS.command(
        "decr",
        2,
        FAST_WRITE,
        ("1.0.0", "Takes one from the integer value of a key."),
        |call| add_integer(call, -1),
    ),
    STRINGS.command(
        "incrby",
        3,
        FAST_WRITE,
        ("1.0.0", "Adds to the integer value of a key."),
        |call| {
            let by = call.integer(2)?;
            add_integer(call, by)
        },
    ),
    STRINGS.command(
        "decrby",
        3,
        FAST_WRITE,
        ("1.0.0", "Takes from the integer value of a key."),
        |call| {
            let by = call.integer(2)?.checked_neg();
            add_integer(call, by.ok_or(Error::constant("ERR decrement would overflow"))?)
        },
    ),
    STRINGS.command(
        "incrbyfloat",
        3,
        FAST_WRITE,
        ("2.6.0", "Adds to the floating-point number in a key."),
        add_float,
    ),
    STRINGS
        .command("mget", -2, FAST_READ, ("1.0.0", "Returns the string values of keys."), mget)
        .with_keys(KeyArguments::REST),
    STRINGS
        .command("mset", -3, WRITE, ("1.0.1", "Sets the string values of keys."), mset)
        .with_keys(KeyArguments::PAIRS),
    STRINGS
        .command(
            "msetnx",
            -3,
            WRITE,
            ("1.0.1", "Sets the string values of keys if none of them exists."),
            msetnx,
        )
        .with_keys(KeyArguments::PAIRS),
];

/// Writes the string of a record.
///
/// # Errors
/// The record has another type.
fn write_string(record: Option<&KeyRecord>, reply: &mut Reply<'_>) -> Result<(), Error> {
    let Some(record) = record else {
        reply.null();
        return Ok(());
    };
    match record.value() {
        Some(StoreValue::Bytes(bytes)) => reply.shared_bulk(bytes),
        _ => reply.bulk(record.bytes().ok_or(WRONG_TYPE)?),
    }
    Ok(())
}

fn get(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    write_string(database.get(key, context), &mut call.reply)
}

fn set(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let key = call.key(1);
    let options = SetOptions::parse(call, 3)?;
    let expiry_ms = options.expiry.at_ms(call)?;
    let value = call.argument(2);
    let (database, context) = call.locks.database(call.database, key);
    if options.has_no_options() {
        database.put_string(key, value, None, context);
        call.reply.ok();
        return Ok(());
    }
    let current = database.get(key, context);
    if options.returns_old {
        write_string(current, &mut call.reply)?;
    }
    let is_met = options.condition.is_met(current)?;
    let kept_expiry_ms = current.and_then(KeyRecord::expiry_ms).filter(|_| options.keeps_expiry);
    if is_met {
        put_or_remove(database, key, value, expiry_ms.or(kept_expiry_ms), context);
    }
    if !options.returns_old {
        if is_met { call.reply.ok() } else { call.reply.null() }
    }
    Ok(())
}

/// Stores a string, or removes the key if the string has expired already.
fn put_or_remove(
    database: &mut Database,
    key: Key<'_>,
    value: &[u8],
    expiry_ms: Option<u64>,
    context: &mut ShardContext,
) {
    if expiry_ms.is_some_and(|at| at <= context.now_ms) {
        database.remove(key, context);
    } else {
        database.put_string(key, value, expiry_ms, context);
    }
}

fn setnx(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (key, value) = (call.key(1), call.argument(2));
    let (database, context) = call.locks.database(call.database, key);
    let is_new = database.get(key, context).is_none();
    if is_new {
        database.put_string(key, value, None, context);
    }
    call.reply.integer(is_new.into());
    Ok(())
}

fn set_with_expiry(call: &mut Call<'_, '_>, unit: TimeUnit) -> Result<(), Error> {
    let (key, value) = (call.key(1), call.argument(3));
    let expiry_ms = unit.parse(call, call.argument(2))?;
    let (database, context) = call.locks.database(call.database, key);
    database.put_string(key, value, Some(expiry_ms), context);
    call.reply.ok();
    Ok(())
}

fn getset(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (key, value) = (call.key(1), call.argument(2));
    let (database, context) = call.locks.database(call.database, key);
    write_string(database.get(key, context), &mut call.reply)?;
    database.put_string(key, value, None, context);
    Ok(())
}

fn getdel(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    write_string(database.get(key, context), &mut call.reply)?;
    database.remove(key, context);
    Ok(())
}

fn getex(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let key = call.key(1);
    let options = SetOptions::parse_for_getex(call, 2)?;
    let expiry = options.expiry.at_ms(call);
    let (database, context) = call.locks.database(call.database, key);
    let current = database.get(key, context);
    write_string(current, &mut call.reply)?;
    let Some(old_expiry_ms) = current.map(KeyRecord::expiry_ms) else { return Ok(()) };
    // As in Redis, an invalid time is an error only if the key exists, so `expiry` is unwrapped
    // here.
    match expiry? {
        None if options.is_persistent && old_expiry_ms.is_some() => {
            database.set_expiry(key, None, context);
        }
        None => {}
        Some(at) if at <= context.now_ms => {
            database.remove(key, context);
        }
        Some(at) => {
            database.set_expiry(key, Some(at), context);
        }
    }
    Ok(())
}

fn strlen(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    let length = database.string(key, context)?.map_or(0, <[u8]>::len);
    call.reply.size(length);
    Ok(())
}

fn append(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (key, addition) = (call.key(1), call.argument(2));
    let (database, context) = call.locks.database(call.database, key);
    let old_bytes = database.string(key, context)?.map_or(0, <[u8]>::len);
    if old_bytes + addition.len() > STRING_MAX_BYTES {
        return Err(TOO_LONG);
    }
    // If this is too much work, the command ends here and runs again as a job.
    call.work_limit.check_bytes(database.change_work_bytes(key, old_bytes + addition.len()))?;
    let length = database.change_string(key, context, |bytes| {
        bytes.extend_from_slice(addition);
        bytes.len()
    })?;
    call.reply.size(length);
    Ok(())
}

fn add_integer(call: &mut Call<'_, '_>, by: i64) -> Result<(), Error> {
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    let (old, expiry_ms) = match database.get(key, context) {
        Some(record) => {
            let text = record.bytes().ok_or(WRONG_TYPE)?;
            (parse_i64(text).ok_or(crate::error::NOT_AN_INTEGER)?, record.expiry_ms())
        }
        None => (0, None),
    };
    let new = old.checked_add(by).ok_or(OVERFLOW)?;
    database.put_string(key, IntegerText::new(new).as_bytes(), expiry_ms, context);
    call.reply.integer(new);
    Ok(())
}

fn add_float(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let key = call.key(1);
    // As in Redis, errors of the stored value come before that of the argument.
    let by = LongDouble::parse(call.argument(2)).ok_or(NOT_A_FLOAT);
    let (database, context) = call.locks.database(call.database, key);
    let (old, expiry_ms) = match database.get(key, context) {
        Some(record) => {
            let text = record.bytes().ok_or(WRONG_TYPE)?;
            (LongDouble::parse(text).ok_or(NOT_A_FLOAT)?, record.expiry_ms())
        }
        None => (LongDouble::ZERO, None),
    };
    let text = old.sum_text(by?)?;
    database.put_string(key, text.as_bytes(), expiry_ms, context);
    call.reply.bulk(text.as_bytes());
    Ok(())
}

fn mget(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let bytes_before = call.reply.output.bytes.len();
    call.reply.array(call.arguments.len() - 1);
    for (key_index, bytes) in call.arguments.from(1).enumerate() {
        // The hashes are known if the command has locked several shards.
        let hash = call.locks.key_hash(key_index);
        let hash = hash.unwrap_or_else(|| call.locks.store().key(bytes).hash);
        let key = Key { bytes, hash };
        let (database, context) = call.locks.database(call.database, key);
        let record = database.get(key, context).filter(|record| record.bytes().is_some());
        write_string(record, &mut call.reply)?;
        // Only copied bytes are work: long strings are shared.
        call.work_limit.check_bytes(call.reply.output.bytes.len().saturating_sub(bytes_before))?;
    }
    Ok(())
}

/// Sets the keys of all pairs of key and value in the arguments.
fn set_pairs(call: &mut Call<'_, '_>) {
    for index in (1..call.arguments.len()).step_by(2) {
        let (key, value) = (call.key(index), call.argument(index + 1));
        let (database, context) = call.locks.database(call.database, key);
        database.put_string(key, value, None, context);
    }
}

/// Checks that the arguments are the name of the command and pairs, so their number is odd.
fn check_pairs(call: &Call<'_, '_>) -> Result<(), Error> {
    if call.arguments.len().is_multiple_of(2) {
        return Err(crate::dispatch::wrong_arity(call.command.name));
    }
    Ok(())
}

fn mset(call: &mut Call<'_, '_>) -> Result<(), Error> {
    check_pairs(call)?;
    set_pairs(call);
    call.reply.ok();
    Ok(())
}

fn msetnx(call: &mut Call<'_, '_>) -> Result<(), Error> {
    check_pairs(call)?;
    let exists = (1..call.arguments.len()).step_by(2).any(|index| {
        let key = call.key(index);
        let (database, _) = call.locks.database(call.database, key);
        database.peek(key, call.now_ms).is_some()
    });
    if !exists {
        set_pairs(call);
    }
    call.reply.integer((!exists).into());
    Ok(())
}
