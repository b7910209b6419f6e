//! Commands that take elements from the ends of lists.

use super::parse_end;
use crate::command::call::Call;
use crate::command::pop_first;
use crate::command::ranges::parse_count;
use crate::command::work_estimate::WorkLimit;
use crate::dispatch::wrong_arity;
use crate::error::{Error, WRONG_TYPE};
use crate::keyspace::database::{ChangeEffect, ShardContext};
use crate::keyspace::record::KeyRecord;
use crate::resp::reply_writer::Reply;
use crate::value::Collection;
use crate::value::list::{ListEnd, ListValue};

/// Removes elements at an end and writes them as an array.
fn pop_many(
    list: &mut ListValue,
    (end, count): (ListEnd, usize),
    limit: WorkLimit,
    reply: &mut Reply<'_>,
    context: &mut ShardContext,
) -> ChangeEffect<Result<(), Error>> {
    let len = list.len();
    let count = count.min(len);
    if let Err(error) = limit.check_part(count, (len, list.memory_bytes())) {
        return ChangeEffect::None(Err(error));
    }
    reply.array(count);
    if count == 0 {
        return ChangeEffect::None(Ok(()));
    }
    let removed = match end {
        ListEnd::Left => {
            list.iter_from(0).take(count).for_each(|element| reply.bulk(element));
            list.remove_range(0..count)
        }
        ListEnd::Right => {
            list.iter_back_from(len - 1).take(count).for_each(|element| reply.bulk(element));
            list.remove_range(len - count..len)
        }
    };
    context.discard_value(removed.into_value());
    ChangeEffect::Made(Ok(()))
}

/// `LPOP` and `RPOP`.
pub(super) fn pop(call: &mut Call<'_, '_>, end: ListEnd) -> Result<(), Error> {
    if call.arguments.len() > 3 {
        return Err(wrong_arity(call.command.name));
    }
    let key = call.key(1);
    let count = call.arguments.get(2).map(parse_count).transpose()?;
    let (database, context) = call.locks.database(call.database, key);
    let (limit, reply) = (call.work_limit, &mut call.reply);
    let popped = database.change_collection(key, context, |list: &mut ListValue, context| {
        if let Some(count) = count {
            return pop_many(list, (end, count), limit, reply, context);
        }
        reply.bulk_or_null(list.peek(end));
        list.drop_end(end);
        ChangeEffect::Made(Ok(()))
    })?;
    match (popped.transpose()?, count) {
        (Some(()), _) => {}
        (None, Some(_)) => call.reply.null_array(),
        (None, None) => call.reply.null(),
    }
    Ok(())
}

/// `LMPOP`
pub(super) fn pop_first(call: &mut Call<'_, '_>) -> Result<(), Error> {
    pop_first::pop_first(call, parse_end, pop_many)
}

/// `LMOVE` and `RPOPLPUSH`
pub(super) fn move_element(
    call: &mut Call<'_, '_>,
    from: ListEnd,
    to: ListEnd,
) -> Result<(), Error> {
    let (source, target) = (call.key(1), call.key(2));
    let (database, context) = call.locks.database(call.database, source);
    let Some(list) = database.collection::<ListValue>(source, context)? else {
        call.reply.null();
        return Ok(());
    };
    let element = list.peek(from).map(<[u8]>::to_vec).unwrap_or_default();
    let (database, context) = call.locks.database(call.database, target);
    let is_list = |record: &KeyRecord| record.value().and_then(ListValue::of).is_some();
    if !database.get(target, context).is_none_or(is_list) {
        return Err(WRONG_TYPE);
    }
    let push = |list: &mut ListValue| list.push(to, &element);
    let is_same = source.bytes == target.bytes;
    let (database, context) = call.locks.database(call.database, source);
    database.change_collection(source, context, |list: &mut ListValue, _| {
        list.drop_end(from);
        if is_same {
            push(list);
        }
        ChangeEffect::Made(())
    })?;
    if !is_same {
        let (database, context) = call.locks.database(call.database, target);
        database.upsert_collection(target, context, |list: &mut ListValue, _| {
            push(list);
            ChangeEffect::Made(())
        })?;
    }
    call.reply.bulk(&element);
    Ok(())
}
