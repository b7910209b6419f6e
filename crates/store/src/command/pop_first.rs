//! `LMPOP` and `ZMPOP`, which pop elements from the first non-empty collection.

use super::call::Call;
use super::options::OptionArguments;
use super::ranges::{parse_key_count, parse_positive_count};
use super::work_estimate::WorkLimit;
use crate::error::{Error, SYNTAX};
use crate::keyspace::database::{ChangeEffect, ShardContext};
use crate::resp::reply_writer::Reply;
use crate::value::Collection;

/// A function that removes a number of elements at an end of a collection, and writes them.
pub(super) type PopMany<C, E> = fn(
    &mut C,
    (E, usize),
    WorkLimit,
    &mut Reply<'_>,
    &mut ShardContext,
) -> ChangeEffect<Result<(), Error>>;

/// Parses the options, finds the first non-empty collection, and lets `pop_many` take elements from
/// it.
///
/// # Errors
/// An option is invalid, or an earlier key has a value of another type.
pub(super) fn pop_first<C: Collection, E: Copy>(
    call: &mut Call<'_, '_>,
    parse_end: fn(&[u8]) -> Result<E, Error>,
    pop_many: PopMany<C, E>,
) -> Result<(), Error> {
    let keys = parse_key_count(call.argument(1))?;
    let mut options = OptionArguments::from(call.arguments, keys.saturating_add(2));
    let end = parse_end(options.next_value()?)?;
    let mut count = None;
    while let Some(name) = options.next_name() {
        if name?.as_bytes() != b"COUNT" || count.is_some() {
            return Err(SYNTAX);
        }
        count = Some(parse_positive_count(options.next_value()?)?);
    }
    let count = count.unwrap_or(1);
    for index in 2..keys + 2 {
        let key = call.key(index);
        let (database, context) = call.locks.database(call.database, key);
        let (limit, reply) = (call.work_limit, &mut call.reply);
        let popped = database.change_collection(key, context, |collection: &mut C, context| {
            reply.array(2);
            reply.bulk(key.bytes);
            pop_many(collection, (end, count), limit, reply, context)
        })?;
        if popped.transpose()?.is_some() {
            return Ok(());
        }
    }
    call.reply.null_array();
    Ok(())
}
