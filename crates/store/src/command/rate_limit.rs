//! `GCRA`: a rate limit for each key.
//!
//! Redis has had this command in previews of version 8.8. The value of the key is the state of the
//! limit as a string: the time at which the bucket is full again, in nanoseconds since 1970. The
//! key expires at that time.

use super::call::Call;
use super::ranges::NOT_POSITIVE;
use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use crate::dispatch::wrong_arity;
use crate::error::{Error, NOT_A_FLOAT, NOT_AN_INTEGER, SYNTAX};
use crate::gcra::{RateLimit, TakeOutcome};
use crate::resp::number::{IntegerText, parse_f64, parse_i64, parse_u64};

const RATE_LIMIT: CommandDefaults =
    CommandDefaults { group: CommandGroup::RateLimit, keys: KeyArguments::FIRST };

const NOT_FROM_ONE: Error =
    Error::constant("ERR value is out of range, value must between 1 and 9223372036854775807");
const WRONG_PERIOD: Error = Error::constant("ERR period must be > 0 and < 1e12");
const NO_TOKENS: Error = Error::constant("ERR Missing TOKENS value");
const NO_STATE: Error = Error::constant("ERR Invalid GCRA key");
const OVERFLOW: Error = Error::constant(
    "ERR Combination of max-burst, tokens-per-period, period and TOKENS would cause an overflow",
);

const SECOND_NS: u64 = 1_000_000_000;
const MILLISECOND_NS: u64 = 1_000_000;

pub(super) const COMMANDS: &[CommandSpec] = &[RATE_LIMIT.command(
    "gcra",
    -5,
    Flags::WRITE.and(Flags::DENY_OOM).and(Flags::FAST),
    ("8.8.0", "Takes tokens of a rate limit."),
    gcra,
)];

/// `GCRA key max-burst tokens-per-period period [TOKENS count]`
fn gcra(call: &mut Call<'_, '_>) -> Result<(), Error> {
    const ARGUMENTS_MAX: usize = 7;
    if call.arguments.len() > ARGUMENTS_MAX {
        return Err(wrong_arity(call.command.name));
    }
    let burst = parse_i64(call.argument(2)).and_then(|burst| u64::try_from(burst).ok());
    let burst = burst.ok_or(NOT_POSITIVE)?;
    let tokens = from_one(call.argument(3))?;
    let period_ns = period_ns(call.argument(4))?;
    let count = match (call.arguments.get(5), call.arguments.get(6)) {
        (None, _) => 1,
        (Some(option), _) if !option.eq_ignore_ascii_case(b"TOKENS") => return Err(SYNTAX),
        (Some(_), None) => return Err(NO_TOKENS),
        (Some(_), Some(count)) => from_one(count)?,
    };
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    let state = match database.string(key, context)? {
        Some(text) => Some(parse_u64(text).ok_or(NO_STATE)?),
        None => None,
    };
    let limit = RateLimit::new(burst, tokens, period_ns.ok_or(OVERFLOW)?).ok_or(OVERFLOW)?;
    let now_ns = call.now_ms.checked_mul(MILLISECOND_NS).ok_or(OVERFLOW)?;
    let taken = limit.take(state, count, now_ns).ok_or(OVERFLOW)?;
    if taken.outcome == TakeOutcome::Allowed {
        let text = IntegerText::unsigned(taken.full_at_ns);
        // The time is later than now, also when it is rounded up to milliseconds.
        let expiry_ms = taken.full_at_ns.div_ceil(MILLISECOND_NS);
        database.put_string(key, text.as_bytes(), Some(expiry_ms), context);
    }
    let integer = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let seconds = |ns: u64| integer(ns.div_ceil(SECOND_NS));
    let reply = &mut call.reply;
    reply.array(5);
    reply.integer((taken.outcome != TakeOutcome::Allowed).into());
    reply.integer(integer(limit.capacity()));
    reply.integer(integer(taken.available));
    reply.integer(match taken.outcome {
        TakeOutcome::Allowed | TakeOutcome::Never => -1,
        TakeOutcome::RetryAfter(after_ns) => seconds(after_ns),
    });
    reply.integer(seconds(taken.full_after_ns));
    Ok(())
}

/// Parses an integer that is at least 1.
fn from_one(text: &[u8]) -> Result<u64, Error> {
    let number = parse_i64(text).ok_or(NOT_AN_INTEGER)?;
    u64::try_from(number).ok().filter(|&number| number > 0).ok_or(NOT_FROM_ONE)
}

/// Parses a period in seconds. Returns it in nanoseconds, rounded up, or `None` if it exceeds the
/// range.
///
/// # Errors
/// The text is not a number, or the number is out of range.
fn period_ns(text: &[u8]) -> Result<Option<u64>, Error> {
    const PERIOD_END_S: f64 = 1e12;
    let seconds = parse_f64(text).ok_or(NOT_A_FLOAT)?;
    if seconds <= 0.0 || seconds >= PERIOD_END_S {
        return Err(WRONG_PERIOD);
    }
    let ns = (seconds * SECOND_NS as f64).ceil();
    // The largest float below 2^64 is far below it, so the conversion is exact.
    Ok((ns < u64::MAX as f64).then_some(ns as u64))
}
