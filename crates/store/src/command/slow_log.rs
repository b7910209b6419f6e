//! `SLOWLOG`: commands that took long.

use super::call::Call;
use super::client_commands::unknown_subcommand;
use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use crate::dispatch::wrong_arity;
use crate::error::Error;
use crate::resp::number::parse_i64;

const SERVER: CommandDefaults =
    CommandDefaults { group: CommandGroup::Server, keys: KeyArguments::None };
const INVALID_COUNT: Error = Error::constant("ERR count should be greater than or equal to -1");

/// Number of entries that `SLOWLOG GET` returns by default, as in Redis.
const USUAL_COUNT: usize = 10;

const HELP: [&str; 9] = [
    "SLOWLOG subcommand [arguments]. The subcommands are:",
    "GET [count]",
    "    Returns the last 10 slow commands, or count of them; -1 is all. Each has its number,",
    "    the time in seconds, its duration in microseconds, its arguments, and the address and",
    "    the name of the client.",
    "LEN",
    "    Returns how many there are.",
    "RESET",
    "    Removes all.",
];

pub(super) const COMMANDS: &[CommandSpec] = &[SERVER.command(
    "slowlog",
    -2,
    Flags::ADMIN,
    ("2.2.12", "Returns commands that took long, and removes them."),
    slow_log,
)];

fn slow_log(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let log = &call.locks.store().slow_log;
    let count = call.arguments.len();
    match call.argument(1).to_ascii_uppercase().as_slice() {
        b"GET" if count <= 3 => get(call)?,
        b"GET" => {
            return Err(Error::new(format!(
                "ERR unknown subcommand or wrong number of arguments for '{}'. Try SLOWLOG HELP.",
                shown(call.argument(1))
            )));
        }
        b"LEN" | b"RESET" | b"HELP" if count > 2 => {
            let name = shown(call.argument(1)).to_lowercase();
            return Err(wrong_arity(&format!("slowlog|{name}")));
        }
        b"LEN" => {
            let len = log.entries().newest.len();
            call.reply.size(len);
        }
        b"RESET" => {
            log.entries().newest.clear();
            call.reply.ok();
        }
        b"HELP" => {
            call.reply.array(HELP.len());
            HELP.iter().for_each(|line| call.reply.simple(line));
        }
        _ => return Err(unknown_subcommand(call)),
    }
    Ok(())
}

/// Returns the name of a known subcommand as messages show it.
fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn get(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let wanted = match call.arguments.get(2).map(parse_i64) {
        None => USUAL_COUNT,
        Some(Some(-1)) => usize::MAX,
        Some(count) => {
            let count = count.and_then(|count| usize::try_from(count).ok());
            count.ok_or(INVALID_COUNT)?
        }
    };
    let entries = call.locks.store().slow_log.entries();
    let reply = &mut call.reply;
    reply.array(wanted.min(entries.newest.len()));
    for entry in entries.newest.iter().take(wanted) {
        reply.array(6);
        reply.integer(entry.id);
        reply.integer(i64::try_from(entry.at_s).unwrap_or(i64::MAX));
        reply.integer(i64::try_from(entry.took_us).unwrap_or(i64::MAX));
        reply.array(entry.arguments.len());
        entry.arguments.iter().for_each(|argument| reply.bulk(argument));
        reply.bulk(entry.address.as_bytes());
        reply.bulk(entry.name.as_bytes());
    }
    Ok(())
}
