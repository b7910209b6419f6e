//! `DUMP` and `RESTORE`, which transfer values from one store to another.

use super::call::Call;
use super::options::OptionArguments;
use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use crate::error::{Error, NOT_AN_INTEGER, SYNTAX};
use crate::keyspace::access_statistics::{Access, AccessRecording};
use crate::keyspace::database::ShardContext;
use crate::keyspace::record::{EXPIRY_MAX_MS, KeyRecord};
use crate::limits::RESTORED_ELEMENTS_PER_BYTE;
use crate::rdb::{self, LoadedValue};
use crate::resp::number::parse_i64;

const GENERIC: CommandDefaults =
    CommandDefaults { group: CommandGroup::Generic, keys: KeyArguments::FIRST };

const INVALID_TTL: Error = Error::constant("ERR Invalid TTL value, must be >= 0");
const INVALID_IDLETIME: Error = Error::constant("ERR Invalid IDLETIME value, must be >= 0");
const INVALID_FREQ: Error = Error::constant("ERR Invalid FREQ value, must be >= 0 and <= 255");
const BUSY_KEY: Error = Error::constant("BUSYKEY Target key name already exists.");
const WRONG_PAYLOAD: Error = Error::constant("ERR DUMP payload version or checksum are wrong");
const BAD_FORMAT: Error = Error::constant("ERR Bad data format");

pub(super) const COMMANDS: &[CommandSpec] = &[
    GENERIC.command(
        "dump",
        2,
        Flags::READ_ONLY,
        ("2.6.0", "Returns a value in a form that can be restored."),
        dump,
    ),
    GENERIC.command(
        "restore",
        -4,
        Flags::WRITE.and(Flags::DENY_OOM),
        ("2.6.0", "Creates a key from a value that was dumped."),
        restore,
    ),
];

fn dump(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    let payload = database.get(key, context).map(|record| rdb::save(record, call.now_ms));
    call.reply.bulk_or_null(payload.as_deref());
    Ok(())
}

/// Options of `RESTORE`.
#[derive(Clone, Copy, Debug, Default)]
struct RestoreOptions {
    replaces: bool,
    is_absolute: bool,
    idle_seconds: Option<u64>,
    counter: Option<u8>,
}

impl RestoreOptions {
    fn parse(call: &Call<'_, '_>) -> Result<Self, Error> {
        let mut parsed = Self::default();
        let mut options = OptionArguments::from(call.arguments, 4);
        while let Some(name) = options.next_name() {
            match name?.as_bytes() {
                b"REPLACE" => parsed.replaces = true,
                b"ABSTTL" => parsed.is_absolute = true,
                b"IDLETIME" if parsed.counter.is_none() => {
                    let seconds = parse_i64(options.next_value()?).ok_or(NOT_AN_INTEGER)?;
                    let seconds = u64::try_from(seconds).map_err(|_| INVALID_IDLETIME)?;
                    parsed.idle_seconds = Some(seconds);
                }
                b"FREQ" if parsed.idle_seconds.is_none() => {
                    let counter = parse_i64(options.next_value()?).ok_or(NOT_AN_INTEGER)?;
                    parsed.counter = Some(u8::try_from(counter).map_err(|_| INVALID_FREQ)?);
                }
                _ => return Err(SYNTAX),
            }
        }
        Ok(parsed)
    }

    /// Returns the access data of the key. As in Redis, data that the eviction policy does not
    /// record is ignored.
    fn access(self, context: &ShardContext) -> Access {
        match (context.recording, self.idle_seconds, self.counter) {
            (AccessRecording::LastUse, Some(seconds), _) => Access::idle(context.now_ms, seconds),
            (AccessRecording::Frequency, _, Some(counter)) => {
                Access::counted(context.now_ms, counter)
            }
            _ => context.new_access(),
        }
    }
}

fn restore(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let options = RestoreOptions::parse(call)?;
    let key = call.key(1);
    let (ttl, payload) = (call.argument(2), call.argument(3));
    let (database, context) = call.locks.database(call.database, key);
    if !options.replaces && database.get(key, context).is_some() {
        return Err(BUSY_KEY);
    }
    let ttl_ms = parse_i64(ttl).ok_or(NOT_AN_INTEGER)?;
    let ttl_ms = u64::try_from(ttl_ms).map_err(|_| INVALID_TTL)?;
    let from_ms = if options.is_absolute { 0 } else { call.now_ms };
    let expiry_ms = (ttl_ms > 0).then(|| ttl_ms.saturating_add(from_ms).min(EXPIRY_MAX_MS));
    call.work_limit.check(payload.len().saturating_mul(RESTORED_ELEMENTS_PER_BYTE))?;
    let value = rdb::open(payload).ok_or(WRONG_PAYLOAD)?;
    let loaded = rdb::load(value, context).ok_or(BAD_FORMAT)?;
    let access = options.access(context);
    let record = match loaded {
        LoadedValue::String(bytes) => KeyRecord::string(key.bytes, expiry_ms, access, &bytes),
        LoadedValue::Collection(value) => KeyRecord::object(key.bytes, expiry_ms, access, value),
    };
    if crate::keyspace::database::has_expired(&record, call.now_ms) {
        // The restored value has expired already, so nothing is stored, but the previous value is
        // removed all the same.
        database.remove(key, context);
        context.discard(record);
    } else {
        database.put(key, record, context);
    }
    call.reply.ok();
    Ok(())
}
