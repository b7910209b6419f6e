//! Commands on lists.

mod pop;
mod search;

use super::call::Call;
use super::ranges::{index, index_range};
use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use crate::error::{Error, INDEX_OUT_OF_RANGE, NO_SUCH_KEY, SYNTAX};
use crate::keyspace::database::ChangeEffect;
use crate::value::Collection;
use crate::value::list::{ListEnd, ListValue};

const WRITE: Flags = Flags::WRITE.and(Flags::DENY_OOM);
const FAST_WRITE: Flags = WRITE.and(Flags::FAST);
const FAST_REMOVE: Flags = Flags::WRITE.and(Flags::FAST);
const READ: Flags = Flags::READ_ONLY;

const LISTS: CommandDefaults =
    CommandDefaults { group: CommandGroup::List, keys: KeyArguments::FIRST };

pub(super) const COMMANDS: &[CommandSpec] = &[
    LISTS.command(
        "lpush",
        -3,
        FAST_WRITE,
        ("1.0.0", "Adds elements before the first of a list."),
        |call| push(call, ListEnd::Left),
    ),
    LISTS.command(
        "rpush",
        -3,
        FAST_WRITE,
        ("1.0.0", "Adds elements behind the last of a list."),
        |call| push(call, ListEnd::Right),
    ),
    LISTS.command(
        "lpushx",
        -3,
        FAST_WRITE,
        ("2.2.0", "Adds elements before the first of a list that exists."),
        |call| push_to_existing(call, ListEnd::Left),
    ),
    LISTS.command(
        "rpushx",
        -3,
        FAST_WRITE,
        ("2.2.0", "Adds elements behind the last of a list that exists."),
        |call| push_to_existing(call, ListEnd::Right),
    ),
    LISTS.command(
        "lpop",
        -2,
        FAST_REMOVE,
        ("1.0.0", "Removes the first elements of a list."),
        |call| pop::pop(call, ListEnd::Left),
    ),
    LISTS.command(
        "rpop",
        -2,
        FAST_REMOVE,
        ("1.0.0", "Removes the last elements of a list."),
        |call| pop::pop(call, ListEnd::Right),
    ),
    LISTS
        .command(
            "lmpop",
            -4,
            Flags::WRITE,
            ("7.0.0", "Removes elements of the first list that has some."),
            pop::pop_first,
        )
        .with_keys(KeyArguments::Counted { count: 1, also: None }),
    LISTS.command(
        "llen",
        2,
        READ.and(Flags::FAST),
        ("1.0.0", "Returns the length of a list."),
        length,
    ),
    LISTS.command("lrange", 4, READ, ("1.0.0", "Returns a range of elements of a list."), range),
    LISTS.command(
        "lindex",
        3,
        READ,
        ("1.0.0", "Returns the element of a list at an index."),
        at_index,
    ),
    LISTS.command("lset", 4, WRITE, ("1.0.0", "Sets the element of a list at an index."), set),
    LISTS.command(
        "linsert",
        5,
        WRITE,
        ("2.2.0", "Adds an element beside another one of a list."),
        insert,
    ),
    LISTS.command(
        "lrem",
        4,
        Flags::WRITE,
        ("1.0.0", "Removes elements that have a value."),
        search::remove,
    ),
    LISTS.command(
        "ltrim",
        4,
        Flags::WRITE,
        ("1.0.0", "Removes elements at both ends of a list."),
        trim,
    ),
    LISTS.command(
        "lpos",
        -3,
        READ,
        ("6.0.6", "Returns the indices of elements."),
        search::positions,
    ),
    LISTS
        .command("lmove", 5, WRITE, ("6.2.0", "Moves an element to another list."), |call| {
            let from = parse_end(call.argument(3))?;
            let to = parse_end(call.argument(4))?;
            pop::move_element(call, from, to)
        })
        .with_keys(KeyArguments::FIRST_TWO),
    LISTS
        .command(
            "rpoplpush",
            3,
            WRITE,
            ("1.2.0", "Moves the last element before the first of another list."),
            |call| pop::move_element(call, ListEnd::Right, ListEnd::Left),
        )
        .with_keys(KeyArguments::FIRST_TWO),
];

/// Parses `LEFT` or `RIGHT`.
///
/// # Errors
/// The text is neither of them.
fn parse_end(text: &[u8]) -> Result<ListEnd, Error> {
    if text.eq_ignore_ascii_case(b"left") {
        Ok(ListEnd::Left)
    } else if text.eq_ignore_ascii_case(b"right") {
        Ok(ListEnd::Right)
    } else {
        Err(SYNTAX)
    }
}

fn push(call: &mut Call<'_, '_>, end: ListEnd) -> Result<(), Error> {
    let (key, elements) = (call.key(1), call.arguments.from(2));
    let (database, context) = call.locks.database(call.database, key);
    let length = database.upsert_collection(key, context, |list: &mut ListValue, _| {
        elements.for_each(|element| list.push(end, element));
        ChangeEffect::Made(list.len())
    })?;
    call.reply.size(length);
    Ok(())
}

fn push_to_existing(call: &mut Call<'_, '_>, end: ListEnd) -> Result<(), Error> {
    let (key, elements) = (call.key(1), call.arguments.from(2));
    let (database, context) = call.locks.database(call.database, key);
    let length = database.change_collection(key, context, |list: &mut ListValue, _| {
        elements.for_each(|element| list.push(end, element));
        ChangeEffect::Made(list.len())
    })?;
    call.reply.size(length.unwrap_or(0));
    Ok(())
}

fn length(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    let list = database.collection::<ListValue>(key, context)?;
    call.reply.size(list.map_or(0, ListValue::len));
    Ok(())
}

fn range(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (key, start, stop) = (call.key(1), call.integer(2)?, call.integer(3)?);
    let (database, context) = call.locks.database(call.database, key);
    let Some(list) = database.collection::<ListValue>(key, context)? else {
        call.reply.array(0);
        return Ok(());
    };
    let indices = index_range(start, stop, list.len());
    call.work_limit.check_part(indices.len(), (list.len(), list.memory_bytes()))?;
    call.reply.array(indices.len());
    for element in list.iter_from(indices.start).take(indices.len()) {
        call.reply.bulk(element);
    }
    Ok(())
}

fn at_index(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    let Some(list) = database.collection::<ListValue>(key, context)? else {
        call.reply.null();
        return Ok(());
    };
    let number = super::ranges::parse_integer(&call.arguments[2])?;
    let element = index(number, list.len()).and_then(|index| list.get(index));
    call.reply.bulk_or_null(element);
    Ok(())
}

fn set(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (key, element) = (call.key(1), call.argument(3));
    let number = call.integer(2);
    let (database, context) = call.locks.database(call.database, key);
    let changed = database.change_collection(key, context, |list: &mut ListValue, _| {
        let number = match number {
            Ok(number) => number,
            Err(error) => return ChangeEffect::None(Err(error)),
        };
        let Some(index) = index(number, list.len()) else {
            return ChangeEffect::None(Err(INDEX_OUT_OF_RANGE));
        };
        list.set(index, element);
        ChangeEffect::Made(Ok(()))
    })?;
    changed.ok_or(NO_SUCH_KEY)??;
    call.reply.ok();
    Ok(())
}

fn insert(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (key, side) = (call.key(1), call.argument(2));
    let (pivot, element) = (call.argument(3), call.argument(4));
    let behind = if side.eq_ignore_ascii_case(b"after") {
        1
    } else if side.eq_ignore_ascii_case(b"before") {
        0
    } else {
        return Err(SYNTAX);
    };
    let (database, context) = call.locks.database(call.database, key);
    let length = database.change_collection(key, context, |list: &mut ListValue, _| {
        let Some(index) = list.iter_from(0).position(|it| it == pivot) else {
            return ChangeEffect::None(-1);
        };
        list.insert(index + behind, element);
        ChangeEffect::Made(i64::try_from(list.len()).unwrap_or(i64::MAX))
    })?;
    call.reply.integer(length.unwrap_or(0));
    Ok(())
}

fn trim(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (key, start, stop) = (call.key(1), call.integer(2)?, call.integer(3)?);
    let (database, context) = call.locks.database(call.database, key);
    database.change_collection(key, context, |list: &mut ListValue, context| {
        let kept = index_range(start, stop, list.len());
        for removed in [list.remove_range(kept.end..usize::MAX), list.remove_range(0..kept.start)] {
            context.discard_value(removed.into_value());
        }
        ChangeEffect::Made(())
    })?;
    call.reply.ok();
    Ok(())
}
