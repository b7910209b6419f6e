//! `CONFIG`, which reads and changes settings.

use super::call::Call;
use super::client_commands::unknown_subcommand;
use super::layout_settings::{self, LAYOUT};
use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use crate::error::Error;
use crate::glob;
use crate::resp::number::parse_i64;
use crate::settings::EvictionPolicy;

const SERVER: CommandDefaults =
    CommandDefaults { group: CommandGroup::Server, keys: KeyArguments::None };

pub(super) const COMMANDS: &[CommandSpec] = &[SERVER.command(
    "config",
    -2,
    Flags::ADMIN,
    ("2.0.0", "Returns and changes settings."),
    config,
)];

/// The settings of Redis that have a fixed value here.
const FIXED: [(&str, &str); 6] = [
    ("appendonly", "no"),
    ("bind", ""),
    ("databases", "16"),
    ("proto-max-bulk-len", "536870912"),
    ("save", ""),
    ("timeout", "0"),
];

fn config(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let subcommand = call.argument(1).to_ascii_uppercase();
    match (subcommand.as_slice(), call.arguments.len()) {
        (b"GET", 3..) => {
            let settings = call.locks.store().live();
            let most = settings.memory_max_bytes.to_string();
            let clients = call.locks.store().clients_max_bytes().to_string();
            let slower_than = settings.slow_log.slower_than_us.to_string();
            let entries = settings.slow_log.entries_max.to_string();
            let live = [
                ("maxmemory", most.as_str()),
                ("maxmemory-clients", clients.as_str()),
                ("maxmemory-policy", settings.eviction.name()),
                ("slowlog-log-slower-than", slower_than.as_str()),
                ("slowlog-max-len", entries.as_str()),
            ];
            let all = FIXED.iter().chain(&LAYOUT).copied().chain(live);
            let patterns: Vec<_> = call.arguments.from(2).map(<[u8]>::to_ascii_lowercase).collect();
            let is_wanted =
                |name: &str| patterns.iter().any(|pattern| glob::matches(pattern, name.as_bytes()));
            let found: Vec<_> = all.filter(|(name, _)| is_wanted(name)).collect();
            call.reply.map(found.len());
            for (name, value) in found {
                call.reply.bulk(name.as_bytes());
                call.reply.bulk(value.as_bytes());
            }
        }
        (b"SET", 4..) => set_config(call)?,
        (b"RESETSTAT", 2) => call.reply.ok(),
        (b"REWRITE", 2) => {
            return Err(Error::constant("ERR The server is running without a config file"));
        }
        _ => return Err(unknown_subcommand(call)),
    }
    Ok(())
}

fn set_config(call: &mut Call<'_, '_>) -> Result<(), Error> {
    if !call.arguments.len().is_multiple_of(2) {
        return Err(crate::dispatch::wrong_arity("config|set"));
    }
    let store = call.locks.store();
    let (mut settings, mut clients_max_bytes) = (store.live(), None);
    let mut arguments = call.arguments.from(2);
    while let Some(name) = arguments.next() {
        let (name, value) = (name.to_ascii_lowercase(), arguments.next().unwrap_or_default());
        let shown = String::from_utf8_lossy(&name).replace(['\r', '\n'], " ");
        let invalid = |why: &str| {
            Error::new(format!(
                "ERR CONFIG SET failed (possibly related to argument '{shown}') - {why}"
            ))
        };
        match name.as_slice() {
            b"maxmemory" => {
                let bytes = bytes_of(value);
                let why = "argument must be a memory value";
                settings.memory_max_bytes = bytes.ok_or_else(|| invalid(why))?;
            }
            b"maxmemory-clients" => {
                let bytes = bytes_of(value);
                let why = "argument must be a memory value";
                clients_max_bytes = Some(bytes.ok_or_else(|| invalid(why))?);
            }
            b"maxmemory-policy" => {
                let policy = EvictionPolicy::parse(value);
                let why = "argument(s) must be one of the following: volatile-lru, volatile-lfu, \
                           volatile-random, volatile-ttl, allkeys-lru, allkeys-lfu, \
                           allkeys-random, noeviction";
                settings.eviction = policy.ok_or_else(|| invalid(why))?;
            }
            b"slowlog-log-slower-than" => {
                let least = integer_of(value, -1).map_err(|why| invalid(&why))?;
                settings.slow_log.slower_than_us = least;
            }
            b"slowlog-max-len" => {
                let most = integer_of(value, 0).map_err(|why| invalid(&why))?;
                settings.slow_log.entries_max = usize::try_from(most).unwrap_or(usize::MAX);
            }
            name if layout_settings::is_layout(name) => {
                layout_settings::check(value).map_err(invalid)?;
            }
            name if FIXED.iter().any(|(known, _)| known.as_bytes() == name) => {
                // Test suites and caches set values that are in force anyway, so these are
                // accepted.
                let is_so = FIXED.contains(&(&shown, &String::from_utf8_lossy(value)));
                if !is_so {
                    return Err(invalid("can't set immutable config"));
                }
            }
            _ => {
                return Err(Error::new(format!(
                    "ERR Unknown option or number of arguments for CONFIG SET - '{shown}'"
                )));
            }
        }
    }
    store.set_live(settings);
    if let Some(bytes) = clients_max_bytes {
        store.set_clients_max_bytes(bytes);
    }
    call.reply.ok();
    Ok(())
}

/// Parses a number of bytes with a unit: `100mb`, `1g`, `500k`.
fn bytes_of(text: &[u8]) -> Option<usize> {
    let text = text.to_ascii_lowercase();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unit: usize = match &text[digits..] {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    let number = parse_i64(&text[..digits]).and_then(|number| usize::try_from(number).ok())?;
    number.checked_mul(unit)
}

/// Parses an integer that is not below a limit.
///
/// # Errors
/// The text is not an integer, or is below the limit. The error describes the allowed values.
fn integer_of(text: &[u8], least: i64) -> Result<i64, String> {
    let number = parse_i64(text).ok_or("argument couldn't be parsed into an integer")?;
    if number < least {
        return Err(format!("argument must be between {least} and {} inclusive", i64::MAX));
    }
    Ok(number)
}
