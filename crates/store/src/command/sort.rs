//! `SORT` and `SORT_RO`, which return the elements of a collection, or values of other keys that
//! belong to them, in sorted order.

mod options;
mod pattern;

use std::borrow::Cow;
use std::cmp::Ordering;

use options::SortOptions;
use pattern::{Lookup, Pattern};

use super::call::Call;
use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use super::work_estimate::WorkLimit;
use crate::error::{Error, WRONG_TYPE};
use crate::keyspace::record::KeyRecord;
use crate::limits::STRING_MAX_BYTES;
use crate::resp::number::{IntegerText, parse_f64};
use crate::value::list::{ListEnd, ListValue};
use crate::value::set::Member;
use crate::value::{Collection, StoreValue};

const KEYS: KeyArguments =
    KeyArguments::FoundOrAll { find: options::keys, needs_all: options::needs_all };
const GENERIC: CommandDefaults = CommandDefaults { group: CommandGroup::Generic, keys: KEYS };

const TOO_LONG: Error = Error::constant("ERR the result of SORT is longer than 512 MiB");
const NO_SCORE: Error = Error::constant("ERR One or more scores can't be converted into double");

pub(super) const COMMANDS: &[CommandSpec] = &[
    GENERIC.command(
        "sort",
        -2,
        Flags::WRITE.and(Flags::DENY_OOM),
        ("1.0.0", "Sorts the elements of a collection, and returns or stores them."),
        |call| sort(call, false),
    ),
    GENERIC.command(
        "sort_ro",
        -2,
        Flags::READ_ONLY,
        ("7.0.0", "Returns the sorted elements of a collection."),
        |call| sort(call, true),
    ),
];

/// An element with its sort key.
#[derive(Debug)]
struct SortedElement<'v> {
    element: Cow<'v, [u8]>,
    weight: Weight<'v>,
}

/// The sort key of an element.
#[derive(Debug)]
enum Weight<'v> {
    Score(f64),
    /// The text of another key, if that key exists.
    Text(Option<Cow<'v, [u8]>>),
    /// The element itself, as text.
    Itself,
}

impl SortedElement<'_> {
    fn compare(&self, other: &Self) -> Ordering {
        let by_element = || self.element.cmp(&other.element);
        match (&self.weight, &other.weight) {
            (Weight::Score(own), Weight::Score(other)) => {
                // Neither number is NaN.
                own.partial_cmp(other).unwrap_or(Ordering::Equal).then_with(by_element)
            }
            (Weight::Text(own), Weight::Text(other)) => own.cmp(other),
            _ => by_element(),
        }
    }
}

fn sort(call: &mut Call<'_, '_>, is_read_only: bool) -> Result<(), Error> {
    let options = SortOptions::parse(&call.arguments, is_read_only)?;
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    // This call counts the access, and removes the key if it has expired.
    database.get(key, context);
    let lookup = Lookup { locks: call.locks, database: call.database, now_ms: call.now_ms };
    let mut copied = CopiedBytes { bytes: 0, limit: call.work_limit };
    let sorted = sorted_elements(&lookup, lookup.record(key), &options, &mut copied)?;
    let Some(target) = options.target else {
        call.reply.array(sorted.len() * options.gets.len().max(1));
        for element in sorted {
            if options.gets.is_empty() {
                copied.add(&element)?;
                call.reply.bulk(&element);
            }
            for get in &options.gets {
                let found = lookup.get(*get, &element);
                copied.add(found.as_deref().unwrap_or_default())?;
                call.reply.bulk_or_null(found.as_deref());
            }
        }
        return Ok(());
    };
    let mut list = ListValue::default();
    for element in sorted {
        if options.gets.is_empty() {
            copied.add(&element)?;
            list.push(ListEnd::Right, &element);
        }
        for get in &options.gets {
            let found = lookup.get(*get, &element).unwrap_or_default();
            copied.add(&found)?;
            list.push(ListEnd::Right, &found);
        }
    }
    let key = call.locks.store().key(target);
    let (database, context) = call.locks.database(call.database, key);
    let len = list.len();
    if len == 0 {
        database.remove(key, context);
    } else {
        let access = context.new_access();
        database.put(key, KeyRecord::object(key.bytes, None, access, list.into_value()), context);
    }
    call.reply.size(len);
    Ok(())
}

/// The number of bytes of elements and of values that one command has copied so far.
#[derive(Debug)]
struct CopiedBytes {
    bytes: usize,
    limit: WorkLimit,
}

impl CopiedBytes {
    /// # Errors
    /// The bytes exceed the limit of this call, or that of any call.
    fn add(&mut self, text: &[u8]) -> Result<(), Error> {
        self.bytes += text.len();
        if self.bytes > STRING_MAX_BYTES {
            return Err(TOO_LONG);
        }
        self.limit.check_bytes(self.bytes)
    }
}

/// Returns the selected elements of a collection, in sorted order.
///
/// # Errors
/// The value is not a collection that can be sorted, the sort key of an element is not a number, or
/// the work exceeds the limit of the call.
fn sorted_elements<'v>(
    lookup: &Lookup<'v, '_>,
    record: Option<&'v KeyRecord>,
    options: &SortOptions<'_>,
    copied: &mut CopiedBytes,
) -> Result<Vec<Cow<'v, [u8]>>, Error> {
    let Some(record) = record else { return Ok(Vec::new()) };
    let value = record.value().ok_or(WRONG_TYPE)?;
    copied.limit.check(value.work())?;
    let elements = elements(value)?;
    let looked_up = options.gets.len() + usize::from(options.by.is_some());
    copied.limit.check(elements.len().saturating_mul(1 + looked_up))?;
    let range = options.range(elements.len());
    let mut is_sorted = options.is_sorted;
    let (mut by, mut is_text) = (options.by, options.is_text);
    if !is_sorted && matches!(value, StoreValue::Set(_)) && options.target.is_some() {
        // As in Redis, the elements of a set are sorted even so, so that the stored result depends
        // only on the set.
        (is_sorted, by, is_text) = (true, None, true);
    }
    let elements = elements.into_iter();
    if !is_sorted {
        let wanted = |elements: &mut dyn Iterator<Item = _>| {
            elements.skip(range.start).take(range.len()).collect()
        };
        return Ok(match value {
            StoreValue::List(_) | StoreValue::SortedSet(_) if options.is_reversed => {
                wanted(&mut elements.rev())
            }
            _ => wanted(&mut { elements }),
        });
    }
    let weighed = elements.map(|element| weigh(lookup, element, (by, is_text), copied));
    let mut sorted = weighed.collect::<Result<Vec<_>, _>>()?;
    sorted.sort_by(|left, right| {
        let order = left.compare(right);
        if options.is_reversed { order.reverse() } else { order }
    });
    Ok(sorted.into_iter().skip(range.start).take(range.len()).map(|it| it.element).collect())
}

/// Returns all elements of a collection.
///
/// # Errors
/// The value is not a collection with such elements.
fn elements(value: &StoreValue) -> Result<Vec<Cow<'_, [u8]>>, Error> {
    Ok(match value {
        StoreValue::List(list) => list.iter_from(0).map(Cow::Borrowed).collect(),
        StoreValue::Set(set) => {
            let text = |member| match member {
                Member::Integer(number) => Cow::Owned(IntegerText::new(number).as_bytes().to_vec()),
                Member::Text(text) => Cow::Borrowed(text),
            };
            set.members().map(text).collect()
        }
        StoreValue::SortedSet(set) => set.iter().map(|(member, _)| Cow::Borrowed(member)).collect(),
        StoreValue::Bytes(_) | StoreValue::Hash(_) => return Err(WRONG_TYPE),
    })
}

/// Returns an element with its sort key. If the key of the pattern does not exist, the score is 0.
///
/// # Errors
/// The sort key must be a number, but is not one.
fn weigh<'v>(
    lookup: &Lookup<'v, '_>,
    element: Cow<'v, [u8]>,
    (by, is_text): (Option<Pattern<'_>>, bool),
    copied: &mut CopiedBytes,
) -> Result<SortedElement<'v>, Error> {
    let found = by.map(|pattern| lookup.get(pattern, &element));
    if let Some(Some(text)) = &found {
        copied.add(text)?;
    }
    let weight = match found {
        None if is_text => Weight::Itself,
        Some(found) if is_text => Weight::Text(found.map(|text| text.into_owned().into())),
        None => Weight::Score(score(&element).ok_or(NO_SCORE)?),
        Some(None) => Weight::Score(0.0),
        Some(Some(text)) => Weight::Score(score(&text).ok_or(NO_SCORE)?),
    };
    Ok(SortedElement { element, weight })
}

/// Parses a number as `strtod` does in a C string: leading spaces are skipped, a zero byte is the
/// end, and an empty text is 0.
fn score(text: &[u8]) -> Option<f64> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let is_space = |byte: &&u8| matches!(**byte, b' ' | b'\t'..=b'\r');
    let number = parse_f64(&text[text.iter().take_while(is_space).count()..]);
    // A subnormal number, which has lost digits because it is so near to zero, is out of range,
    // too.
    number.filter(|number| !number.is_subnormal())
}
