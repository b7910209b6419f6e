//! Commands that remove the members at the ends of sorted sets.

use super::bounds::Order;
use super::write_members;
use crate::command::call::Call;
use crate::command::pop_first;
use crate::command::ranges::parse_count;
use crate::command::work_estimate::WorkLimit;
use crate::error::{Error, SYNTAX};
use crate::keyspace::database::ChangeEffect;
use crate::resp::reply_writer::Reply;
use crate::value::sorted_set::SortedSet;

/// A function that writes a number of members with their scores.
type WriteMembers = fn(&mut Reply<'_>, &mut dyn Iterator<Item = (&[u8], f64)>, usize);

/// Removes members at an end, after `write` has written them.
fn pop_many(
    set: &mut SortedSet,
    (order, count): (Order, usize),
    limit: WorkLimit,
    reply: &mut Reply<'_>,
    write: WriteMembers,
) -> ChangeEffect<Result<(), Error>> {
    let len = set.len();
    let count = count.min(len);
    if let Err(error) = limit.check_part(count, (len, set.memory_bytes())) {
        return ChangeEffect::None(Err(error));
    }
    match order {
        Order::Ascending => {
            write(reply, &mut set.range(0..count), count);
            set.remove_range(0..count);
        }
        Order::Descending => {
            write(reply, &mut set.range_reversed(len - count..len), count);
            set.remove_range(len - count..len);
        }
    }
    if count > 0 { ChangeEffect::Made(Ok(())) } else { ChangeEffect::None(Ok(())) }
}

/// Writes members with scores as pairs, in both versions of the protocol.
fn write_pairs(
    reply: &mut Reply<'_>,
    members: &mut dyn Iterator<Item = (&[u8], f64)>,
    count: usize,
) {
    reply.array(count);
    for (member, score) in members {
        reply.array(2);
        reply.bulk(member);
        reply.double(score);
    }
}

/// Writes members and scores as one flat sequence.
fn write_flat(
    reply: &mut Reply<'_>,
    members: &mut dyn Iterator<Item = (&[u8], f64)>,
    count: usize,
) {
    reply.array(count * 2);
    for (member, score) in members {
        reply.bulk(member);
        reply.double(score);
    }
}

/// `ZPOPMIN` and `ZPOPMAX`
pub(super) fn pop(call: &mut Call<'_, '_>, order: Order) -> Result<(), Error> {
    if call.arguments.len() > 3 {
        return Err(SYNTAX);
    }
    let key = call.key(1);
    let count = call.arguments.get(2).map(parse_count).transpose()?;
    let (database, context) = call.locks.database(call.database, key);
    let (limit, reply) = (call.work_limit, &mut call.reply);
    let popped =
        database.change_collection(key, context, |set: &mut SortedSet, _| match count {
            None => pop_many(set, (order, 1), limit, reply, write_flat),
            Some(count) => pop_many(set, (order, count), limit, reply, |reply, members, count| {
                write_members(reply, members, count, true);
            }),
        })?;
    if popped.transpose()?.is_none() {
        call.reply.array(0);
    }
    Ok(())
}

/// Parses `MIN` or `MAX`.
fn parse_order(text: &[u8]) -> Result<Order, Error> {
    if text.eq_ignore_ascii_case(b"min") {
        Ok(Order::Ascending)
    } else if text.eq_ignore_ascii_case(b"max") {
        Ok(Order::Descending)
    } else {
        Err(SYNTAX)
    }
}

/// `ZMPOP`
pub(super) fn pop_first(call: &mut Call<'_, '_>) -> Result<(), Error> {
    pop_first::pop_first(call, parse_order, |set: &mut SortedSet, ends, limit, reply, _| {
        pop_many(set, ends, limit, reply, write_pairs)
    })
}
