//! Commands on the expiry of keys.

use super::call::Call;
use super::options::OptionArguments;
use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use crate::error::Error;
use crate::keyspace::record::{EXPIRY_MAX_MS, KeyRecord};

const FAST_WRITE: Flags = Flags::WRITE.and(Flags::FAST);
const FAST_READ: Flags = Flags::READ_ONLY.and(Flags::FAST);

const EXPIRY: CommandDefaults =
    CommandDefaults { group: CommandGroup::Generic, keys: KeyArguments::FIRST };

pub(super) const COMMANDS: &[CommandSpec] = &[
    EXPIRY.command(
        "expire",
        -3,
        FAST_WRITE,
        ("1.0.0", "Sets the expiry of a key in seconds from now."),
        |call| set_expiry(call, 1000, true),
    ),
    EXPIRY.command(
        "pexpire",
        -3,
        FAST_WRITE,
        ("2.6.0", "Sets the expiry of a key in milliseconds from now."),
        |call| set_expiry(call, 1, true),
    ),
    EXPIRY.command(
        "expireat",
        -3,
        FAST_WRITE,
        ("1.2.0", "Sets the expiry of a key in seconds since 1970."),
        |call| set_expiry(call, 1000, false),
    ),
    EXPIRY.command(
        "pexpireat",
        -3,
        FAST_WRITE,
        ("2.6.0", "Sets the expiry of a key in milliseconds since 1970."),
        |call| set_expiry(call, 1, false),
    ),
    EXPIRY.command(
        "ttl",
        2,
        FAST_READ.and(Flags::UNSTABLE),
        ("1.0.0", "Returns the seconds until a key expires."),
        |call| time_left(call, |left_ms, _| (left_ms + 500) / 1000),
    ),
    EXPIRY.command(
        "pttl",
        2,
        FAST_READ.and(Flags::UNSTABLE),
        ("2.6.0", "Returns the milliseconds until a key expires."),
        |call| time_left(call, |left_ms, _| left_ms),
    ),
    EXPIRY.command(
        "expiretime",
        2,
        FAST_READ,
        ("7.0.0", "Returns when a key expires, in seconds since 1970."),
        |call| time_left(call, |_, at_ms| (at_ms + 500) / 1000),
    ),
    EXPIRY.command(
        "pexpiretime",
        2,
        FAST_READ,
        ("7.0.0", "Returns when a key expires, in milliseconds since 1970."),
        |call| time_left(call, |_, at_ms| at_ms),
    ),
    EXPIRY.command("persist", 2, FAST_WRITE, ("2.2.0", "Removes the expiry of a key."), persist),
];

/// The conditions under which an expiry is set.
#[derive(Clone, Copy, Debug, Default)]
struct Conditions {
    /// `NX`: the key has none.
    has_none: bool,
    /// `XX`: the key has one.
    has_one: bool,
    /// `GT`: the new one is later. A key without an expiry never expires, which is later still.
    is_later: bool,
    /// `LT`: the new one is earlier.
    is_earlier: bool,
}

impl Conditions {
    fn parse(call: &Call<'_, '_>) -> Result<Self, Error> {
        let mut parsed = Self::default();
        let mut options = OptionArguments::from(call.arguments, 3);
        while let Some(argument) = options.next_name() {
            let name = argument.map_err(|_| unsupported(call))?;
            match name.as_bytes() {
                b"NX" => parsed.has_none = true,
                b"XX" => parsed.has_one = true,
                b"GT" => parsed.is_later = true,
                b"LT" => parsed.is_earlier = true,
                _ => return Err(unsupported(call)),
            }
        }
        if parsed.has_none && (parsed.has_one || parsed.is_later || parsed.is_earlier) {
            return Err(Error::constant(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if parsed.is_later && parsed.is_earlier {
            return Err(Error::constant(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(parsed)
    }

    fn are_met(self, old_ms: Option<u64>, new_ms: u64) -> bool {
        let is_excluded = self.has_none && old_ms.is_some()
            || self.has_one && old_ms.is_none()
            || self.is_later && old_ms.is_none_or(|old_ms| new_ms <= old_ms)
            || self.is_earlier && old_ms.is_some_and(|old_ms| new_ms >= old_ms);
        !is_excluded
    }
}

/// Returns the error for the first option that is unknown.
fn unsupported(call: &Call<'_, '_>) -> Error {
    let is_known = |option: &[u8]| {
        [b"NX", b"XX", b"GT", b"LT"].iter().any(|known| known.eq_ignore_ascii_case(option))
    };
    let option = call.arguments.from(3).find(|option| !is_known(option)).unwrap_or_default();
    let option = String::from_utf8_lossy(option).replace(['\r', '\n'], " ");
    Error::new(format!("ERR Unsupported option {option}"))
}

fn set_expiry(call: &mut Call<'_, '_>, unit_ms: i64, is_from_now: bool) -> Result<(), Error> {
    let conditions = Conditions::parse(call)?;
    let number = call.integer(2)?;
    let from_ms = if is_from_now { call.now_ms as i64 } else { 0 };
    let at_ms = number.checked_mul(unit_ms).and_then(|ms| ms.checked_add(from_ms));
    let at_ms = at_ms.ok_or_else(|| {
        Error::new(format!("ERR invalid expire time in '{}' command", call.command.name))
    })?;
    // A time before 1970 is in the past like any other, and times beyond the latest possible expiry
    // are limited to it.
    let at_ms = u64::try_from(at_ms).unwrap_or(0).min(EXPIRY_MAX_MS);
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    let old_ms = database.get(key, context).map(KeyRecord::expiry_ms);
    let is_set = old_ms.is_some_and(|old_ms| conditions.are_met(old_ms, at_ms));
    if is_set && at_ms <= context.now_ms {
        database.remove(key, context);
    } else if is_set {
        database.set_expiry(key, Some(at_ms), context);
    }
    call.reply.integer(is_set.into());
    Ok(())
}

/// Replies with the result of `of` for the remaining milliseconds and the time of expiry in
/// milliseconds; with -1 if the key has no expiry, and with -2 if the key does not exist.
fn time_left(call: &mut Call<'_, '_>, of: fn(i64, i64) -> i64) -> Result<(), Error> {
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    let expiry_ms = database.peek(key, context.now_ms).map(KeyRecord::expiry_ms);
    call.reply.integer(match expiry_ms {
        None => -2,
        Some(None) => -1,
        Some(Some(at_ms)) => of(at_ms.saturating_sub(call.now_ms) as i64, at_ms as i64),
    });
    Ok(())
}

fn persist(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    let has_one = database.get(key, context).is_some_and(|record| record.expiry_ms().is_some());
    if has_one {
        database.set_expiry(key, None, context);
    }
    call.reply.integer(has_one.into());
    Ok(())
}
