//! `COMMAND`: the table of commands for clients.

use super::call::Call;
use super::client_commands::unknown_subcommand;
use super::connection::CONNECTION;
use super::spec::{CommandGroup, CommandSpec, Flags, KeyArguments};
use super::table;
use crate::dispatch;
use crate::error::Error;
use crate::resp::arguments::Arguments;
use crate::resp::reply_writer::Reply;

pub(super) const COMMANDS: &[CommandSpec] = &[CommandSpec {
    group: CommandGroup::Server,
    ..CONNECTION.command(
        "command",
        -1,
        Flags::NONE,
        ("2.8.13", "Returns what commands there are."),
        command,
    )
}];

fn command(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let Some(subcommand) = call.arguments.get(1) else {
        call.reply.array(table::all().count());
        table::all().for_each(|command| write_info(command, &mut call.reply));
        return Ok(());
    };
    match subcommand.to_ascii_uppercase().as_slice() {
        b"COUNT" => call.reply.size(table::all().count()),
        b"LIST" => {
            call.reply.array(table::all().count());
            table::all().for_each(|command| call.reply.bulk(command.name.as_bytes()));
        }
        b"INFO" => {
            let names = call.arguments.from(2);
            if names.len() == 0 {
                call.reply.array(table::all().count());
                table::all().for_each(|command| write_info(command, &mut call.reply));
                return Ok(());
            }
            call.reply.array(names.len());
            for name in names {
                match table::find(name) {
                    Some(command) => write_info(command, &mut call.reply),
                    None => call.reply.null_array(),
                }
            }
        }
        b"DOCS" => write_docs(call),
        b"GETKEYS" => get_keys(call)?,
        _ => return Err(unknown_subcommand(call)),
    }
    Ok(())
}

/// The flags that clients can read, with their names.
const FLAG_NAMES: [(Flags, &str); 6] = [
    (Flags::WRITE, "write"),
    (Flags::READ_ONLY, "readonly"),
    (Flags::DENY_OOM, "denyoom"),
    (Flags::ADMIN, "admin"),
    (Flags::FAST, "fast"),
    (Flags::NO_AUTH, "no_auth"),
];

fn write_info(command: &CommandSpec, reply: &mut Reply<'_>) {
    let (first, last, step) = match command.keys {
        KeyArguments::Range { first, last, step } => (first as i64, last.into(), step as i64),
        _ => (0, 0, 0),
    };
    let flags: Vec<_> = FLAG_NAMES.iter().filter(|(flag, _)| command.flags.has(*flag)).collect();
    let categories = categories(command);
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(command.arity.into());
    reply.set(flags.len());
    flags.iter().for_each(|(_, name)| reply.simple(name));
    [first, last, step].into_iter().for_each(|number| reply.integer(number));
    reply.set(categories.len());
    categories.iter().for_each(|name| reply.simple(name));
    // The lists of tips, key specifications and subcommands are empty.
    (0..3).for_each(|_| reply.array(0));
}

/// Returns the categories of access control that a command is in.
fn categories(command: &CommandSpec) -> Vec<&'static str> {
    let has = |flag| command.flags.has(flag);
    let of_group = match command.group {
        CommandGroup::Bitmap => "@bitmap",
        CommandGroup::Connection => "@connection",
        CommandGroup::Generic => "@keyspace",
        CommandGroup::Hash => "@hash",
        CommandGroup::List => "@list",
        CommandGroup::RateLimit => "@rate_limit",
        CommandGroup::Server => "@admin",
        CommandGroup::Set => "@set",
        CommandGroup::SortedSet => "@sortedset",
        CommandGroup::String => "@string",
        CommandGroup::Transactions => "@transaction",
    };
    let speed = if has(Flags::FAST) { "@fast" } else { "@slow" };
    let mut categories = vec![of_group, speed];
    if has(Flags::WRITE) {
        categories.push("@write");
    }
    if has(Flags::READ_ONLY) {
        categories.push("@read");
    }
    categories
}

fn write_docs(call: &mut Call<'_, '_>) {
    let names: Vec<_> = call.arguments.from(2).collect();
    let found: Vec<_> = if names.is_empty() {
        table::all().collect()
    } else {
        names.into_iter().filter_map(table::find).collect()
    };
    call.reply.map(found.len());
    for command in found {
        call.reply.bulk(command.name.as_bytes());
        call.reply.map(3);
        let facts = [
            ("summary", command.summary),
            ("since", command.since),
            ("group", group_name(command.group)),
        ];
        for (name, value) in facts {
            call.reply.bulk(name.as_bytes());
            call.reply.bulk(value.as_bytes());
        }
    }
}

fn group_name(group: CommandGroup) -> &'static str {
    match group {
        CommandGroup::Bitmap => "bitmap",
        CommandGroup::Connection => "connection",
        CommandGroup::Generic => "generic",
        CommandGroup::Hash => "hash",
        CommandGroup::List => "list",
        CommandGroup::RateLimit => "rate_limit",
        CommandGroup::Server => "server",
        CommandGroup::Set => "set",
        CommandGroup::SortedSet => "sorted-set",
        CommandGroup::String => "string",
        CommandGroup::Transactions => "transactions",
    }
}

fn get_keys(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let ranges = call.arguments.ranges.get(2..).unwrap_or_default();
    let arguments = Arguments { bytes: call.arguments.bytes, ranges };
    let name = arguments.get(0).unwrap_or_default();
    let command = table::find(name).ok_or(Error::constant("ERR Invalid command specified"))?;
    if !command.takes(arguments.len()) {
        return Err(Error::constant("ERR Invalid number of arguments specified for command"));
    }
    let positions = dispatch::key_positions(command, &arguments)?;
    if positions.is_empty() {
        return Err(Error::constant("ERR The command has no key arguments"));
    }
    call.reply.array(positions.len());
    for position in positions {
        call.reply.bulk(arguments.get(position).unwrap_or_default());
    }
    Ok(())
}
