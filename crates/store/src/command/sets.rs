//! Commands on sets.

mod algebra;
mod random;

use super::call::Call;
use super::scan::scan_collection;
use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use crate::error::{Error, WRONG_TYPE};
use crate::keyspace::database::{ChangeEffect, ShardContext};
use crate::keyspace::key::Key;
use crate::keyspace::shard_locks::Locks;
use crate::value::Collection;
use crate::value::set::Set;

const ADD: Flags = Flags::WRITE.and(Flags::DENY_OOM).and(Flags::FAST);
const STORE: Flags = Flags::WRITE.and(Flags::DENY_OOM);
const REMOVE: Flags = Flags::WRITE.and(Flags::FAST);
const READ: Flags = Flags::READ_ONLY;
const FAST_READ: Flags = Flags::READ_ONLY.and(Flags::FAST);

const SETS: CommandDefaults =
    CommandDefaults { group: CommandGroup::Set, keys: KeyArguments::FIRST };

pub(super) const COMMANDS: &[CommandSpec] = &[
    SETS.command("sadd", -3, ADD, ("1.0.0", "Adds members."), sadd),
    SETS.command("srem", -3, REMOVE, ("1.0.0", "Removes members."), srem),
    SETS.command(
        "sismember",
        3,
        FAST_READ,
        ("1.0.0", "Returns whether a member exists."),
        sismember,
    ),
    SETS.command(
        "smismember",
        -3,
        FAST_READ,
        ("6.2.0", "Returns which members exist."),
        smismember,
    ),
    SETS.command("scard", 2, FAST_READ, ("1.0.0", "Returns the number of members."), scard),
    SETS.command("smembers", 2, READ, ("1.0.0", "Returns all members."), smembers),
    SETS.command(
        "spop",
        -2,
        REMOVE,
        ("1.0.0", "Removes and returns random members."),
        random::spop,
    ),
    SETS.command(
        "srandmember",
        -2,
        READ.and(Flags::UNSTABLE),
        ("1.0.0", "Returns random members."),
        random::srandmember,
    ),
    SETS.command(
        "sscan",
        -3,
        READ.and(Flags::UNSTABLE),
        ("2.8.0", "Returns some members, and where to go on."),
        sscan,
    ),
    SETS.command("smove", 4, REMOVE, ("1.0.0", "Moves a member to another set."), smove)
        .with_keys(KeyArguments::FIRST_TWO),
    SETS.command(
        "sinter",
        -2,
        READ,
        ("1.0.0", "Returns the members that all sets have."),
        algebra::sinter,
    )
    .with_keys(KeyArguments::REST),
    SETS.command(
        "sinterstore",
        -3,
        STORE,
        ("1.0.0", "Stores the members of all sets."),
        algebra::sinterstore,
    )
    .with_keys(KeyArguments::REST),
    SETS.command(
        "sintercard",
        -3,
        READ,
        ("7.0.0", "Counts the members that all sets have."),
        algebra::sintercard,
    )
    .with_keys(KeyArguments::Counted { count: 1, also: None }),
    SETS.command(
        "sunion",
        -2,
        READ,
        ("1.0.0", "Returns the members that any set has."),
        algebra::sunion,
    )
    .with_keys(KeyArguments::REST),
    SETS.command(
        "sunionstore",
        -3,
        STORE,
        ("1.0.0", "Stores the members of any set."),
        algebra::sunionstore,
    )
    .with_keys(KeyArguments::REST),
    SETS.command(
        "sdiff",
        -2,
        READ,
        ("1.0.0", "Returns the members that only the first set has."),
        algebra::sdiff,
    )
    .with_keys(KeyArguments::REST),
    SETS.command(
        "sdiffstore",
        -3,
        STORE,
        ("1.0.0", "Stores the members that only the first set has."),
        algebra::sdiffstore,
    )
    .with_keys(KeyArguments::REST),
];

/// Returns the set of a key.
///
/// # Errors
/// The key has a value of another type.
fn read<'l>(
    locks: &'l mut Locks<'_>,
    database: usize,
    key: Key<'_>,
) -> Result<(Option<&'l Set>, &'l mut ShardContext), Error> {
    let (database, context) = locks.database(database, key);
    Ok((database.collection(key, context)?, context))
}

/// Returns the set of a key for shared access together with other keys. The caller has counted the
/// access.
///
/// # Errors
/// The key has a value of another type.
fn peek<'l>(
    locks: &'l Locks<'_>,
    database: usize,
    key: Key<'_>,
    now_ms: u64,
) -> Result<Option<&'l Set>, Error> {
    let record = locks.peek(database, key).and_then(|database| database.peek(key, now_ms));
    let Some(record) = record else { return Ok(None) };
    record.value().and_then(Set::of).map(Some).ok_or(WRONG_TYPE)
}

fn sadd(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (key, members) = (call.key(1), call.arguments.from(2));
    let (database, context) = call.locks.database(call.database, key);
    let added = database.upsert_collection(key, context, |set: &mut Set, context| match members
        .filter(|member| set.insert(member, context))
        .count()
    {
        0 => ChangeEffect::None(0),
        added => ChangeEffect::Made(added),
    })?;
    call.reply.size(added);
    Ok(())
}

fn srem(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (key, members) = (call.key(1), call.arguments.from(2));
    let (database, context) = call.locks.database(call.database, key);
    let removed =
        database.change_collection(key, context, |set: &mut Set, context| {
            match members.filter(|member| set.remove(member, context)).count() {
                0 => ChangeEffect::None(0),
                removed => ChangeEffect::Made(removed),
            }
        })?;
    call.reply.size(removed.unwrap_or(0));
    Ok(())
}

fn sismember(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let member = call.argument(2);
    let (set, context) = read(call.locks, call.database, call.key(1))?;
    call.reply.integer(set.is_some_and(|set| set.contains(member, context)).into());
    Ok(())
}

fn smismember(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (set, context) = read(call.locks, call.database, call.key(1))?;
    let members = call.arguments.from(2);
    call.reply.array(members.len());
    for member in members {
        call.reply.integer(set.is_some_and(|set| set.contains(member, context)).into());
    }
    Ok(())
}

fn scard(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (set, _) = read(call.locks, call.database, call.key(1))?;
    call.reply.size(set.map_or(0, Set::len));
    Ok(())
}

fn smembers(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (set, _) = read(call.locks, call.database, call.key(1))?;
    call.work_limit.check_value(set.map_or((0, 0), |set| (set.len(), set.memory_bytes())))?;
    call.reply.set(set.map_or(0, Set::len));
    for member in set.into_iter().flat_map(Set::members) {
        member.write(&mut call.reply);
    }
    Ok(())
}

fn smove(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (from, to, member) = (call.key(1), call.key(2), call.argument(3));
    let (source, context) = read(call.locks, call.database, from)?;
    let Some(source) = source else {
        call.reply.integer(0);
        return Ok(());
    };
    let is_member = source.contains(member, context);
    read(call.locks, call.database, to)?;
    if is_member && from.bytes != to.bytes {
        let (database, context) = call.locks.database(call.database, from);
        database.change_collection(from, context, |set: &mut Set, context| {
            ChangeEffect::Made(set.remove(member, context))
        })?;
        let (database, context) = call.locks.database(call.database, to);
        database.upsert_collection(to, context, |set: &mut Set, context| {
            // If the set has the member already, it does not count as changed for its watchers.
            if set.insert(member, context) {
                ChangeEffect::Made(())
            } else {
                ChangeEffect::None(())
            }
        })?;
    }
    call.reply.integer(is_member.into());
    Ok(())
}

fn sscan(call: &mut Call<'_, '_>) -> Result<(), Error> {
    scan_collection(call, |set: &Set, options, context, reply| {
        let mut count = 0;
        let next = set.visit_from(options.cursor, options.scanned(), context, |member| {
            if member.with_text(|text| options.matches(text)) {
                member.write(reply);
                count += 1;
            }
        });
        (count, next)
    })
}
