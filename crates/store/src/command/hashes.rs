//! Commands on hashes.

mod field_expiry;
mod field_increments;
mod random;
mod with_expiry;

use super::call::Call;
use super::scan::scan_collection;
use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use crate::dispatch::wrong_arity;
use crate::error::Error;
use crate::keyspace::database::{ChangeEffect, ShardContext};
use crate::keyspace::key::Key;
use crate::keyspace::shard_locks::Locks;
use crate::value::EncodedField;
use crate::value::hash::Hash;

const WRITE: Flags = Flags::WRITE.and(Flags::DENY_OOM).and(Flags::FAST);
const REMOVE: Flags = Flags::WRITE.and(Flags::FAST);
const READ: Flags = Flags::READ_ONLY;
const FAST_READ: Flags = Flags::READ_ONLY.and(Flags::FAST);

/// Number of fields of a large hash that one change examines in order to remove expired ones.
const EXPIRED_FIELDS_MAX: usize = 20;

const HASHES: CommandDefaults =
    CommandDefaults { group: CommandGroup::Hash, keys: KeyArguments::FIRST };

pub(super) const COMMANDS: &[CommandSpec] = &[
    HASHES.command("hset", -4, WRITE, ("2.0.0", "Sets the values of fields."), hset),
    HASHES.command("hmset", -4, WRITE, ("2.0.0", "Sets the values of fields."), hmset),
    HASHES.command(
        "hsetnx",
        4,
        WRITE,
        ("2.0.0", "Sets the value of a field that does not exist."),
        hsetnx,
    ),
    HASHES.command("hget", 3, FAST_READ, ("2.0.0", "Returns the value of a field."), hget),
    HASHES.command("hmget", -3, FAST_READ, ("2.0.0", "Returns the values of fields."), hmget),
    HASHES.command("hgetall", 2, READ, ("2.0.0", "Returns all fields and values."), hgetall),
    HASHES.command("hkeys", 2, READ, ("2.0.0", "Returns the names of all fields."), hkeys),
    HASHES.command("hvals", 2, READ, ("2.0.0", "Returns the values of all fields."), hvals),
    HASHES.command("hlen", 2, FAST_READ, ("2.0.0", "Returns the number of fields."), hlen),
    HASHES.command("hdel", -3, REMOVE, ("2.0.0", "Deletes fields."), hdel),
    HASHES.command("hexists", 3, FAST_READ, ("2.0.0", "Returns whether a field exists."), hexists),
    HASHES.command("hstrlen", 3, FAST_READ, ("3.2.0", "Returns the length of a value."), hstrlen),
    HASHES.command(
        "hincrby",
        4,
        WRITE,
        ("2.0.0", "Adds to the integer value of a field."),
        field_increments::hincrby,
    ),
    HASHES.command(
        "hincrbyfloat",
        4,
        WRITE,
        ("2.6.0", "Adds to the number in a field."),
        field_increments::hincrbyfloat,
    ),
    HASHES.command(
        "hrandfield",
        -2,
        READ.and(Flags::UNSTABLE),
        ("6.2.0", "Returns random fields."),
        random::hrandfield,
    ),
    HASHES.command(
        "hscan",
        -3,
        READ.and(Flags::UNSTABLE),
        ("2.8.0", "Returns some fields, and where to go on."),
        hscan,
    ),
    HASHES.command(
        "hexpire",
        -6,
        WRITE,
        ("7.4.0", "Sets the expiry of fields in seconds from now."),
        field_expiry::hexpire,
    ),
    HASHES.command(
        "hpexpire",
        -6,
        WRITE,
        ("7.4.0", "Sets the expiry of fields in milliseconds from now."),
        field_expiry::hpexpire,
    ),
    HASHES.command(
        "hexpireat",
        -6,
        WRITE,
        ("7.4.0", "Sets the expiry of fields in seconds since 1970."),
        field_expiry::hexpireat,
    ),
    HASHES.command(
        "hpexpireat",
        -6,
        WRITE,
        ("7.4.0", "Sets the expiry of fields in milliseconds since 1970."),
        field_expiry::hpexpireat,
    ),
    HASHES.command(
        "httl",
        -5,
        FAST_READ.and(Flags::UNSTABLE),
        ("7.4.0", "Returns the seconds until fields expire."),
        field_expiry::httl,
    ),
    HASHES.command(
        "hpttl",
        -5,
        FAST_READ.and(Flags::UNSTABLE),
        ("7.4.0", "Returns the milliseconds until fields expire."),
        field_expiry::hpttl,
    ),
    HASHES.command(
        "hexpiretime",
        -5,
        FAST_READ,
        ("7.4.0", "Returns when fields expire, in seconds since 1970."),
        field_expiry::hexpiretime,
    ),
    HASHES.command(
        "hpexpiretime",
        -5,
        FAST_READ,
        ("7.4.0", "Returns when fields expire, in milliseconds since 1970."),
        field_expiry::hpexpiretime,
    ),
    HASHES.command(
        "hpersist",
        -5,
        REMOVE,
        ("7.4.0", "Removes the expiry of fields."),
        field_expiry::hpersist,
    ),
    HASHES.command(
        "hgetex",
        -5,
        REMOVE,
        ("8.0.0", "Returns the values of fields and sets their expiry."),
        with_expiry::hgetex,
    ),
    HASHES.command(
        "hsetex",
        -6,
        WRITE,
        ("8.0.0", "Sets the values of fields and their expiry."),
        with_expiry::hsetex,
    ),
    HASHES.command(
        "hgetdel",
        -5,
        REMOVE,
        ("8.0.0", "Returns the values of fields and deletes them."),
        with_expiry::hgetdel,
    ),
];

/// Returns the hash of a key.
///
/// # Errors
/// The key has a value of another type.
fn read<'l>(
    locks: &'l mut Locks<'_>,
    database: usize,
    key: Key<'_>,
) -> Result<(Option<&'l Hash>, &'l mut ShardContext), Error> {
    let (database, context) = locks.database(database, key);
    Ok((database.collection(key, context)?, context))
}

/// Changes the hash of the first argument, and creates it if it does not exist. Some of its expired
/// fields are removed first.
///
/// # Errors
/// The key has a value of another type.
fn upsert<R>(
    call: &mut Call<'_, '_>,
    change: impl FnOnce(&mut Hash, &mut ShardContext) -> ChangeEffect<R>,
) -> Result<R, Error> {
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    database.upsert_collection(key, context, |hash: &mut Hash, context| {
        hash.remove_expired(EXPIRED_FIELDS_MAX, context);
        change(hash, context)
    })
}

/// Changes the hash of the first argument as [`upsert`] does, if it exists.
///
/// # Errors
/// The key has a value of another type.
fn change<R>(
    call: &mut Call<'_, '_>,
    change: impl FnOnce(&mut Hash, &mut ShardContext) -> ChangeEffect<R>,
) -> Result<Option<R>, Error> {
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    database.change_collection(key, context, |hash: &mut Hash, context| {
        hash.remove_expired(EXPIRED_FIELDS_MAX, context);
        change(hash, context)
    })
}

/// Sets the fields of the pairs in the arguments. Returns how many of them are new.
fn set_pairs(call: &mut Call<'_, '_>) -> Result<usize, Error> {
    const FIRST: usize = 2;
    if !call.arguments.len().is_multiple_of(2) {
        return Err(wrong_arity(call.command.name));
    }
    let arguments = call.arguments;
    upsert(call, |hash, context| {
        let mut added = 0;
        for index in (FIRST..arguments.len()).step_by(2) {
            let (name, value) = (&arguments[index], &arguments[index + 1]);
            let field = EncodedField { name, value, expiry_ms: None };
            added += usize::from(hash.put(field, context));
        }
        ChangeEffect::Made(added)
    })
}

fn hset(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let added = set_pairs(call)?;
    call.reply.size(added);
    Ok(())
}

fn hmset(call: &mut Call<'_, '_>) -> Result<(), Error> {
    set_pairs(call)?;
    call.reply.ok();
    Ok(())
}

fn hsetnx(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let field = EncodedField { name: call.argument(2), value: call.argument(3), expiry_ms: None };
    let is_set = upsert(call, |hash, context| {
        if hash.get(field.name, context).is_some() {
            return ChangeEffect::None(false);
        }
        hash.put(field, context);
        ChangeEffect::Made(true)
    })?;
    call.reply.integer(is_set.into());
    Ok(())
}

fn hget(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let name = call.argument(2);
    let (hash, context) = read(call.locks, call.database, call.key(1))?;
    let field = hash.and_then(|hash| hash.get(name, context));
    call.work_limit.check_bytes(field.map_or(0, |field| field.value.len()))?;
    call.reply.bulk_or_null(field.map(|field| field.value));
    Ok(())
}

fn hmget(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (hash, context) = read(call.locks, call.database, call.key(1))?;
    let names = call.arguments.from(2);
    let before = call.reply.output.bytes.len();
    call.reply.array(names.len());
    for name in names {
        let field = hash.and_then(|hash| hash.get(name, context));
        call.reply.bulk_or_null(field.map(|field| field.value));
        call.work_limit.check_bytes(call.reply.output.bytes.len().saturating_sub(before))?;
    }
    Ok(())
}

fn hgetall(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (hash, context) = read(call.locks, call.database, call.key(1))?;
    call.work_limit.check_value(hash.map_or((0, 0), |hash| (hash.work(), hash.memory_bytes())))?;
    let mark = call.reply.begin();
    let mut count = 0;
    for field in hash.into_iter().flat_map(|hash| hash.fields(context.now_ms)) {
        call.reply.bulk(field.name);
        call.reply.bulk(field.value);
        count += 1;
    }
    call.reply.end_map(mark, count);
    Ok(())
}

fn hkeys(call: &mut Call<'_, '_>) -> Result<(), Error> {
    write_all(call, |field| field.name)
}

fn hvals(call: &mut Call<'_, '_>) -> Result<(), Error> {
    write_all(call, |field| field.value)
}

/// Writes one part of every field: the name or the value, as selected by `part_of`.
fn write_all(
    call: &mut Call<'_, '_>,
    part_of: for<'f> fn(EncodedField<'f>) -> &'f [u8],
) -> Result<(), Error> {
    let (hash, context) = read(call.locks, call.database, call.key(1))?;
    call.work_limit.check_value(hash.map_or((0, 0), |hash| (hash.work(), hash.memory_bytes())))?;
    let mark = call.reply.begin();
    let mut count = 0;
    for field in hash.into_iter().flat_map(|hash| hash.fields(context.now_ms)) {
        call.reply.bulk(part_of(field));
        count += 1;
    }
    call.reply.end_array(mark, count);
    Ok(())
}

fn hlen(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (hash, context) = read(call.locks, call.database, call.key(1))?;
    call.reply.size(hash.map_or(0, |hash| hash.len(context)));
    Ok(())
}

fn hdel(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let names = call.arguments.from(2);
    let removed = change(call, |hash, context| {
        match names.filter(|name| hash.remove(name, context)).count() {
            0 => ChangeEffect::None(0),
            removed => ChangeEffect::Made(removed),
        }
    })?;
    call.reply.size(removed.unwrap_or(0));
    Ok(())
}

fn hexists(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let name = call.argument(2);
    let (hash, context) = read(call.locks, call.database, call.key(1))?;
    let exists = hash.is_some_and(|hash| hash.get(name, context).is_some());
    call.reply.integer(exists.into());
    Ok(())
}

fn hstrlen(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let name = call.argument(2);
    let (hash, context) = read(call.locks, call.database, call.key(1))?;
    let field = hash.and_then(|hash| hash.get(name, context));
    call.reply.size(field.map_or(0, |field| field.value.len()));
    Ok(())
}

fn hscan(call: &mut Call<'_, '_>) -> Result<(), Error> {
    scan_collection(call, |hash: &Hash, options, context, reply| {
        let mut count = 0;
        let next = hash.visit_from(options.cursor, options.scanned(), context, |field| {
            if options.matches(field.name) {
                reply.bulk(field.name);
                count += 1;
                if options.has_values {
                    reply.bulk(field.value);
                    count += 1;
                }
            }
        });
        (count, next)
    })
}
