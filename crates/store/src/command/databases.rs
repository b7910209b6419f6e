//! Commands on whole databases.

use super::call::Call;
use super::keys::database_number;
use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use crate::error::{Error, SYNTAX};
use crate::limits::DATABASES;
use crate::resp::number::parse_i64;

const KEYSPACE: CommandDefaults =
    CommandDefaults { group: CommandGroup::Server, keys: KeyArguments::All };

pub(super) const COMMANDS: &[CommandSpec] = &[
    KEYSPACE.command(
        "dbsize",
        1,
        Flags::READ_ONLY.and(Flags::FAST),
        ("1.0.0", "Returns how many keys the database has."),
        size,
    ),
    KEYSPACE.command(
        "flushdb",
        -1,
        Flags::WRITE,
        ("1.0.0", "Removes all keys of the database."),
        |call| flush(call, call.database..call.database + 1),
    ),
    KEYSPACE.command("flushall", -1, Flags::WRITE, ("1.0.0", "Removes all keys."), |call| {
        flush(call, 0..DATABASES)
    }),
    KEYSPACE.command(
        "swapdb",
        3,
        Flags::WRITE.and(Flags::FAST),
        ("4.0.0", "Exchanges two databases."),
        swap,
    ),
];

fn size(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let mut count = 0;
    for shard in 0..call.locks.store().shard_count() {
        count += call.locks.shard(shard).database(call.database).0.len();
    }
    call.reply.size(count);
    Ok(())
}

/// Empties databases. Their memory is freed by another thread, with `SYNC` and without.
fn flush(call: &mut Call<'_, '_>, numbers: std::ops::Range<usize>) -> Result<(), Error> {
    let option = call.arguments.get(1);
    let is_known = option.is_none_or(|option| {
        option.eq_ignore_ascii_case(b"SYNC") || option.eq_ignore_ascii_case(b"ASYNC")
    });
    if !is_known || call.arguments.len() > 2 {
        return Err(SYNTAX);
    }
    for shard in 0..call.locks.store().shard_count() {
        for number in numbers.clone() {
            call.locks.shard(shard).empty_database(number);
        }
    }
    call.reply.ok();
    Ok(())
}

fn swap(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let numbers = [(1, "first"), (2, "second")].map(|(index, which)| {
        let number = parse_i64(call.argument(index)).and_then(|it| i32::try_from(it).ok());
        number.ok_or_else(|| Error::new(format!("ERR invalid {which} DB index")))
    });
    // Both arguments are parsed as numbers before the databases are looked up, so errors of parsing
    // come first.
    let [first, second] = numbers;
    first.and(second)?;
    let (first, second) = (database_number(call.argument(1))?, database_number(call.argument(2))?);
    for shard in 0..call.locks.store().shard_count() {
        call.locks.shard(shard).swap_databases(first, second);
    }
    call.reply.ok();
    Ok(())
}
