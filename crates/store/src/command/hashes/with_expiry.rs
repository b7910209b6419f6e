//! Commands that read or write fields and their expiry at once.

use super::field_expiry::{parse_fields, parse_time, set_field_expiry};
use crate::command::call::Call;
use crate::command::expiry_option::TimeUnit;
use crate::command::hashes::{change, read, upsert};
use crate::command::options::OptionArguments;
use crate::command::work_estimate::WorkLimit;
use crate::dispatch::wrong_arity;
use crate::error::Error;
use crate::keyspace::database::{ChangeEffect, ShardContext};
use crate::resp::arguments::Arguments;
use crate::resp::number::parse_i64;
use crate::resp::reply_writer::Reply;
use crate::value::EncodedField;
use crate::value::hash::Hash;

const NOT_POSITIVE: Error = Error::constant("ERR Number of fields must be a positive integer");

/// The effect of a command on the expiry of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewExpiry {
    /// The expiry stays the same: `KEEPTTL`, or `HGETEX` without an option.
    Unchanged,
    /// The expiry is removed: `PERSIST`, or `HSETEX` without an option.
    Removed,
    /// The expiry is set to this time, in milliseconds since 1970.
    At(u64),
}

/// The condition under which fields are set.
#[derive(Clone, Copy, Debug)]
enum FieldsCondition {
    Always,
    /// `FNX`: none of them exists.
    NoneExists,
    /// `FXX`: all of them exist.
    AllExist,
}

/// # Errors
/// The work of copying the values of the given fields exceeds the limit.
fn check_values(
    (hash, context): (Option<&Hash>, &ShardContext),
    arguments: Arguments<'_>,
    fields: std::ops::Range<usize>,
    limit: WorkLimit,
) -> Result<(), Error> {
    let Some(hash) = hash else { return Ok(()) };
    // Usually even the values of all fields are within the limit.
    if limit.check_bytes(hash.memory_bytes()).is_ok() {
        return Ok(());
    }
    let values = fields.filter_map(|index| hash.get(&arguments[index], context));
    limit.check_bytes(values.map(|field| field.value.len()).sum())
}

/// Writes the values of fields in some arguments.
fn write_values(
    hash: Option<&Hash>,
    call: (&mut Reply<'_>, Arguments<'_>),
    fields: std::ops::Range<usize>,
    context: &ShardContext,
) {
    let (reply, arguments) = call;
    reply.array(fields.len());
    for index in fields {
        let field = hash.and_then(|hash| hash.get(&arguments[index], context));
        reply.bulk_or_null(field.map(|field| field.value));
    }
}

pub(super) fn hgetdel(call: &mut Call<'_, '_>) -> Result<(), Error> {
    read(call.locks, call.database, call.key(1))?;
    let fields = parse_fields(call, 2, NOT_POSITIVE)?;
    let (arguments, limit) = (call.arguments, call.work_limit);
    let (hash, context) = read(call.locks, call.database, call.key(1))?;
    check_values((hash, context), arguments, fields.clone(), limit)?;
    call.reply.array(fields.len());
    // A field that is named twice does not exist any more the second time.
    for index in fields {
        let name = &arguments[index];
        let (hash, context) = read(call.locks, call.database, call.key(1))?;
        let field = hash.and_then(|hash| hash.get(name, context));
        call.reply.bulk_or_null(field.map(|field| field.value));
        if field.is_some() {
            change(call, |hash, context| ChangeEffect::Made(hash.remove(name, context)))?;
        }
    }
    Ok(())
}

pub(super) fn hgetex(call: &mut Call<'_, '_>) -> Result<(), Error> {
    read(call.locks, call.database, call.key(1))?;
    let option = call.argument(2).to_ascii_uppercase();
    let (expiry, at) = match (&option[..], TimeUnit::of_option(&option)) {
        (b"PERSIST", _) => (NewExpiry::Removed, 3),
        (_, Some(unit)) => (NewExpiry::At(parse_time(call, call.argument(3), unit)?), 4),
        _ => (NewExpiry::Unchanged, 2),
    };
    let fields = parse_fields(call, at, NOT_POSITIVE)?;
    let (hash, context) = read(call.locks, call.database, call.key(1))?;
    check_values((hash, context), call.arguments, fields.clone(), call.work_limit)?;
    write_values(hash, (&mut call.reply, call.arguments), fields.clone(), context);
    let new_ms = match expiry {
        NewExpiry::Unchanged => return Ok(()),
        NewExpiry::Removed => None,
        NewExpiry::At(at_ms) => Some(at_ms),
    };
    let arguments = call.arguments;
    change(call, |hash, context| {
        let mut is_changed = false;
        for name in fields.map(|index| &arguments[index]) {
            let old = hash.get(name, context).map(|field| field.expiry_ms);
            if old.is_some_and(|old_ms| old_ms != new_ms) {
                set_field_expiry(hash, name, new_ms, context);
                is_changed = true;
            }
        }
        if is_changed { ChangeEffect::Made(()) } else { ChangeEffect::None(()) }
    })?;
    Ok(())
}

/// Parses the options of `HSETEX`. Also returns the indices of the arguments that are fields and
/// values.
fn parse_hsetex(
    call: &Call<'_, '_>,
) -> Result<(FieldsCondition, NewExpiry, std::ops::Range<usize>), Error> {
    let (mut condition, mut expiry) = (FieldsCondition::Always, NewExpiry::Removed);
    let (mut has_expiry, mut options) = (false, OptionArguments::from(call.arguments, 2));
    while let Ok(argument) = options.next_value() {
        let name = argument.to_ascii_uppercase();
        let unit = TimeUnit::of_option(&name);
        match &name[..] {
            b"FIELDS" => {
                let count = options.next_value().ok().and_then(parse_i64);
                let count = count.and_then(|count| usize::try_from(count).ok());
                let invalid = Error::constant("ERR invalid number of fields");
                let count = count.filter(|&count| count > 0).ok_or(invalid)?;
                if count.checked_mul(2) != Some(options.left()) {
                    return Err(wrong_arity(call.command.name));
                }
                let end = call.arguments.len();
                return Ok((condition, expiry, end - options.left()..end));
            }
            b"FNX" | b"FXX" => {
                if !matches!(condition, FieldsCondition::Always) {
                    return Err(Error::constant(
                        "ERR Only one of FXX or FNX arguments can be specified",
                    ));
                }
                let is_fnx = name == b"FNX";
                condition =
                    if is_fnx { FieldsCondition::NoneExists } else { FieldsCondition::AllExist };
            }
            b"KEEPTTL" | b"EX" | b"PX" | b"EXAT" | b"PXAT" => {
                if std::mem::replace(&mut has_expiry, true) {
                    return Err(Error::constant(
                        "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
                    ));
                }
                expiry = NewExpiry::Unchanged;
                if let Some(unit) = unit {
                    let missing = Error::constant("ERR missing expire time");
                    let time = options.next_value().map_err(|_| missing)?;
                    expiry = NewExpiry::At(parse_time(call, time, unit)?);
                }
            }
            _ => {
                let shown = String::from_utf8_lossy(argument).replace(['\r', '\n'], " ");
                return Err(Error::new(format!("ERR unknown argument: {shown}")));
            }
        }
    }
    Err(wrong_arity(call.command.name))
}

pub(super) fn hsetex(call: &mut Call<'_, '_>) -> Result<(), Error> {
    read(call.locks, call.database, call.key(1))?;
    let (condition, expiry, pairs) = parse_hsetex(call)?;
    let arguments = call.arguments;
    let pairs = pairs.step_by(2).map(|index| (&arguments[index], &arguments[index + 1]));
    let is_set = upsert(call, |hash, context| {
        let is_met = |hash: &Hash| {
            let mut exist = pairs.clone().map(|(name, _)| hash.get(name, context).is_some());
            match condition {
                FieldsCondition::Always => true,
                FieldsCondition::NoneExists => !exist.any(|exists| exists),
                FieldsCondition::AllExist => exist.all(|exists| exists),
            }
        };
        if !is_met(hash) {
            return ChangeEffect::None(false);
        }
        for (name, value) in pairs {
            let expiry_ms = match expiry {
                NewExpiry::Unchanged => hash.get(name, context).and_then(|it| it.expiry_ms),
                NewExpiry::Removed => None,
                NewExpiry::At(at_ms) if at_ms <= context.now_ms => {
                    hash.remove(name, context);
                    continue;
                }
                NewExpiry::At(at_ms) => Some(at_ms),
            };
            hash.put(EncodedField { name, value, expiry_ms }, context);
        }
        ChangeEffect::Made(true)
    })?;
    call.reply.integer(is_set.into());
    Ok(())
}
