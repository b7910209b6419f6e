//! Commands about the server: `INFO`, `CONFIG`, `MEMORY`, `OBJECT` and others.

use super::call::Call;
use super::client_commands::unknown_subcommand;
use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use crate::error::{Error, NOT_AN_INTEGER, SYNTAX};
use crate::keyspace::record::KeyRecord;
use crate::limits::{DATABASES, REDIS_VERSION};
use crate::resp::number::{IntegerText, parse_i64};
use crate::settings::Clock;

const SERVER: CommandDefaults =
    CommandDefaults { group: CommandGroup::Server, keys: KeyArguments::None };

const SECOND: KeyArguments = KeyArguments::Range { first: 2, last: 2, step: 1 };

pub(super) const COMMANDS: &[CommandSpec] = &[
    SERVER
        .command("info", -1, Flags::NONE, ("1.0.0", "Returns figures about the server."), info)
        .with_keys(KeyArguments::All),
    SERVER.command("time", 1, Flags::FAST, ("2.6.0", "Returns the time."), time),
    SERVER.command(
        "role",
        1,
        Flags::FAST,
        ("2.8.12", "Returns the role in replication, of which there is none."),
        role,
    ),
    SERVER
        .command(
            "memory",
            -2,
            Flags::READ_ONLY.and(Flags::UNSTABLE),
            ("4.0.0", "Returns how much memory a key occupies."),
            memory,
        )
        .with_keys(KeyArguments::Found(memory_keys)),
    CommandSpec {
        group: CommandGroup::Generic,
        ..SERVER
            .command(
                "object",
                -2,
                Flags::READ_ONLY.and(Flags::UNSTABLE),
                ("2.2.3", "Returns how a value is stored, and when it was used."),
                object,
            )
            .with_keys(SECOND)
    },
    SERVER.command(
        "latency",
        -2,
        Flags::ADMIN,
        ("2.8.13", "Returns latencies; none is recorded."),
        |call| match call.argument(1).to_ascii_uppercase().as_slice() {
            b"LATEST" | b"HISTORY" => {
                call.reply.array(0);
                Ok(())
            }
            b"RESET" => {
                call.reply.integer(0);
                Ok(())
            }
            _ => Err(unknown_subcommand(call)),
        },
    ),
    SERVER.command(
        "wait",
        3,
        Flags::NONE,
        ("3.0.0", "Waits for replicas, of which there are none."),
        |call| {
            call.integer(1)?;
            call.integer(2)?;
            call.reply.integer(0);
            Ok(())
        },
    ),
    SERVER.command(
        "module",
        -2,
        Flags::ADMIN,
        ("4.0.0", "Lists modules, of which there are none."),
        |call| {
            if !call.argument(1).eq_ignore_ascii_case(b"LIST") {
                return Err(unknown_subcommand(call));
            }
            call.reply.array(0);
            Ok(())
        },
    ),
    SERVER.command(
        "acl",
        -2,
        Flags::ADMIN,
        ("6.0.0", "Returns the user, which is always `default`."),
        |call| match call.argument(1).to_ascii_uppercase().as_slice() {
            b"WHOAMI" => {
                call.reply.bulk(b"default");
                Ok(())
            }
            b"USERS" => {
                call.reply.array(1);
                call.reply.bulk(b"default");
                Ok(())
            }
            _ => Err(unknown_subcommand(call)),
        },
    ),
    SERVER.command(
        "cluster",
        -2,
        Flags::ADMIN,
        ("3.0.0", "Refuses: the server is no part of a cluster."),
        |_| Err(Error::constant("ERR This instance has cluster support disabled")),
    ),
];

fn info(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let wanted: Vec<_> = call.arguments.from(1).map(<[u8]>::to_ascii_lowercase).collect();
    let is_wanted = |section: &str| {
        let all: [&[u8]; 3] = [b"all", b"default", b"everything"];
        wanted.is_empty()
            || wanted.iter().any(|it| it == section.as_bytes() || all.contains(&it.as_slice()))
    };
    let store = call.locks.store();
    let uptime = call.now_ms.saturating_sub(store.started_ms()) / 1000;
    let settings = store.live();
    let (used, most) = (store.used_bytes(), settings.memory_max_bytes);
    let (policy, clients) = (settings.eviction.name(), store.clients.len());
    let mut sections = vec![
        (
            "server",
            format!(
                "redis_version:{REDIS_VERSION}\r\nserver_name:pinion\r\nredis_mode:standalone\r\n\
                 arch_bits:64\r\nprocess_id:{}\r\nuptime_in_seconds:{uptime}\r\n\
                 uptime_in_days:{}\r\n",
                std::process::id(),
                uptime / 86_400
            ),
        ),
        ("clients", format!("connected_clients:{clients}\r\nblocked_clients:0\r\n")),
        (
            "memory",
            format!(
                "used_memory:{used}\r\nused_memory_human:{}\r\nmaxmemory:{most}\r\n\
                 maxmemory_human:{}\r\nmaxmemory_policy:{policy}\r\n",
                human(used),
                human(most)
            ),
        ),
        (
            "persistence",
            "loading:0\r\nrdb_changes_since_last_save:0\r\nrdb_bgsave_in_progress:0\r\n\
             aof_enabled:0\r\n"
                .to_owned(),
        ),
        (
            "stats",
            format!(
                "total_connections_received:{}\r\nexpired_keys:{}\r\nevicted_keys:{}\r\n\
                 evicted_clients:{}\r\n",
                store.clients.total(),
                store.expired_keys(),
                store.evicted_keys(),
                store.clients.evicted()
            ),
        ),
        ("replication", "role:master\r\nconnected_slaves:0\r\n".to_owned()),
        ("cluster", "cluster_enabled:0\r\n".to_owned()),
    ];
    sections.push(("keyspace", keyspace(call)));
    let mut text = String::new();
    for (name, lines) in sections.iter().filter(|(name, _)| is_wanted(name)) {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        let (first, rest) = name.split_at(1);
        text.push_str(&format!("# {}{rest}\r\n{lines}", first.to_ascii_uppercase()));
    }
    call.reply.verbatim(&text);
    Ok(())
}

/// Returns a line for each database that has keys.
fn keyspace(call: &mut Call<'_, '_>) -> String {
    let mut lines = String::new();
    for number in 0..DATABASES {
        let (mut keys, mut expiring) = (0, 0);
        for shard in 0..call.locks.store().shard_count() {
            if let Some(database) = call.locks.shard(shard).databases().get(number) {
                keys += database.len();
                expiring += database.expiring();
            }
        }
        if keys > 0 {
            lines.push_str(&format!("db{number}:keys={keys},expires={expiring},avg_ttl=0\r\n"));
        }
    }
    lines
}

/// Formats a number of bytes with a unit, as Redis shows it to people.
fn human(bytes: usize) -> String {
    let (mut value, mut units) = (bytes as f64, ["B", "K", "M", "G", "T"].into_iter());
    let mut unit = units.next().unwrap_or_default();
    while value >= 1024.0
        && let Some(next) = units.next()
    {
        value /= 1024.0;
        unit = next;
    }
    if unit == "B" { format!("{bytes}B") } else { format!("{value:.2}{unit}") }
}

fn time(call: &mut Call<'_, '_>) -> Result<(), Error> {
    const SECOND_US: u64 = 1_000_000;
    let clock = call.locks.store().settings.unix_clock;
    let now_us = clock.map_or(call.now_ms * 1000, |Clock(now_us)| now_us());
    call.reply.array(2);
    call.reply.bulk(IntegerText::unsigned(now_us / SECOND_US).as_bytes());
    call.reply.bulk(IntegerText::unsigned(now_us % SECOND_US).as_bytes());
    Ok(())
}

fn role(call: &mut Call<'_, '_>) -> Result<(), Error> {
    call.reply.array(3);
    call.reply.bulk(b"master");
    call.reply.integer(0);
    call.reply.array(0);
    Ok(())
}

/// `MEMORY USAGE key`
fn memory_keys(arguments: &crate::resp::arguments::Arguments<'_>) -> Result<Vec<usize>, Error> {
    let has_key = arguments.get(1).is_some_and(|it| it.eq_ignore_ascii_case(b"USAGE"));
    Ok(if has_key && arguments.len() > 2 { vec![2] } else { Vec::new() })
}

fn memory(call: &mut Call<'_, '_>) -> Result<(), Error> {
    match call.argument(1).to_ascii_uppercase().as_slice() {
        b"USAGE" if call.arguments.len() > 2 => {
            if call.arguments.len() > 3 {
                let is_samples = call.argument(3).eq_ignore_ascii_case(b"SAMPLES");
                if !is_samples || call.arguments.len() != 5 {
                    return Err(SYNTAX);
                }
                parse_i64(call.argument(4)).ok_or(NOT_AN_INTEGER)?;
            }
            let key = call.key(2);
            let (database, _) = call.locks.database(call.database, key);
            match database.peek(key, call.now_ms) {
                Some(record) => call.reply.size(record.memory_bytes() + size_of::<KeyRecord>()),
                None => call.reply.null(),
            }
        }
        b"DOCTOR" => call.reply.verbatim("Sam, I have no complaints."),
        b"PURGE" => call.reply.ok(),
        _ => return Err(unknown_subcommand(call)),
    }
    Ok(())
}

fn object(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let subcommand = call.argument(1).to_ascii_uppercase();
    if call.arguments.len() != 3 {
        return Err(unknown_subcommand(call));
    }
    let is_frequency = call.locks.store().live().eviction.counts_accesses();
    let key = call.key(2);
    let (database, _) = call.locks.database(call.database, key);
    let Some(record) = database.peek(key, call.now_ms) else {
        let is_known = [&b"ENCODING"[..], b"FREQ", b"IDLETIME", b"REFCOUNT"];
        if !is_known.contains(&subcommand.as_slice()) {
            return Err(unknown_subcommand(call));
        }
        call.reply.null();
        return Ok(());
    };
    match subcommand.as_slice() {
        b"ENCODING" => call.reply.bulk(record.encoding().as_bytes()),
        b"REFCOUNT" => call.reply.integer(1),
        b"IDLETIME" if is_frequency => {
            return Err(Error::constant(
                "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that \
                 when switching between policies at runtime LRU and LFU data will take some time \
                 to adjust.",
            ));
        }
        b"IDLETIME" => call.reply.integer(record.access().idle_seconds(call.now_ms) as i64),
        b"FREQ" if is_frequency => {
            call.reply.integer(record.access().decayed_counter(call.now_ms).into());
        }
        b"FREQ" => {
            return Err(Error::constant(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. \
                 Please note that when switching between policies at runtime LRU and LFU data \
                 will take some time to adjust.",
            ));
        }
        _ => return Err(unknown_subcommand(call)),
    }
    Ok(())
}
