//! Commands that iterate over all keys: `SCAN`, `KEYS`, `RANDOMKEY`.

use super::call::Call;
use super::options::OptionArguments;
use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use crate::error::{Error, NOT_AN_INTEGER, SYNTAX};
use crate::glob;
use crate::keyspace::database::{ShardContext, has_expired};
use crate::keyspace::record::KeyRecord;
use crate::keyspace::segment_table::POSITION_BITS;
use crate::keyspace::walk::walk;
use crate::limits::SCANNED_MAX;
use crate::resp::number::{IntegerText, parse_i64, parse_u64};
use crate::resp::reply_writer::Reply;
use crate::value::Collection;
use crate::value::StoreValue;

const KEYSPACE: CommandDefaults =
    CommandDefaults { group: CommandGroup::Generic, keys: KeyArguments::All };

pub(super) const COMMANDS: &[CommandSpec] = &[
    KEYSPACE.command(
        "scan",
        -2,
        Flags::READ_ONLY,
        ("2.8.0", "Returns some keys, and where to go on."),
        scan,
    ),
    KEYSPACE.command(
        "keys",
        2,
        Flags::READ_ONLY,
        ("1.0.0", "Returns all keys that match a pattern."),
        keys,
    ),
    KEYSPACE.command(
        "randomkey",
        1,
        Flags::READ_ONLY,
        ("1.0.0", "Returns a random key."),
        random_key,
    ),
];

/// Options of `SCAN` and of its relatives for collections.
#[derive(Debug)]
pub(crate) struct ScanOptions<'a> {
    /// The cursor at which the scan begins.
    pub(crate) cursor: u64,
    pattern: Option<&'a [u8]>,
    /// The approximate number of elements to examine.
    count: usize,
    type_name: Option<&'a [u8]>,
    /// Whether values are returned. They are not with `NOVALUES`, which only `HSCAN` has.
    pub(crate) has_values: bool,
}

impl<'a> ScanOptions<'a> {
    /// Parses the cursor at an argument and the options behind it. Only `SCAN` has `TYPE`.
    ///
    /// # Errors
    /// The cursor is not a number, or an option is unknown.
    pub(crate) fn parse(call: &Call<'a, '_>, cursor: usize) -> Result<Self, Error> {
        const USUAL_COUNT: usize = 10;
        let mut parsed = Self {
            cursor: parse_cursor(call.argument(cursor))?,
            pattern: None,
            count: USUAL_COUNT,
            type_name: None,
            has_values: true,
        };
        let mut options = OptionArguments::from(call.arguments, cursor + 1);
        while let Some(name) = options.next_name() {
            match name?.as_bytes() {
                b"MATCH" => parsed.pattern = Some(options.next_value()?),
                b"COUNT" => {
                    let count = parse_i64(options.next_value()?).ok_or(NOT_AN_INTEGER)?;
                    let count = usize::try_from(count).ok().filter(|&count| count > 0);
                    parsed.count = count.ok_or(SYNTAX)?;
                }
                b"NOVALUES" if call.command.name == "hscan" => parsed.has_values = false,
                b"TYPE" if cursor == 1 => parsed.type_name = Some(options.next_value()?),
                _ => return Err(SYNTAX),
            }
        }
        Ok(parsed)
    }

    /// Returns the approximate number of elements to examine, limited to the most that one command
    /// may examine.
    pub(crate) fn scanned(&self) -> usize {
        self.count.min(SCANNED_MAX)
    }

    /// Returns whether an element matches the pattern.
    pub(crate) fn matches(&self, element: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, element))
    }

    fn matches_type(&self, record: &KeyRecord) -> bool {
        let name = record.type_name().as_bytes();
        self.type_name.is_none_or(|wanted| wanted.eq_ignore_ascii_case(name))
    }
}

/// Parses a cursor as `strtoul` does: with any sign and with zeros in front, up to a zero byte.
///
/// # Errors
/// The text is not a number.
fn parse_cursor(text: &[u8]) -> Result<u64, Error> {
    const INVALID: Error = Error::constant("ERR invalid cursor");
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let (is_negative, digits) = match text {
        [] => return Ok(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    let significant =
        if zeros == digits.len() { &digits[zeros.max(1) - 1..] } else { &digits[zeros..] };
    let number = parse_u64(significant).ok_or(INVALID)?;
    Ok(if is_negative { number.wrapping_neg() } else { number })
}

/// Replies to `HSCAN` and its relatives. `visit` writes the elements of the collection that match
/// the options. It returns the number of strings that it has written, and the next cursor.
///
/// # Errors
/// The cursor is not a number, an option is invalid, or the key has a value of another type.
pub(crate) fn scan_collection<C: Collection>(
    call: &mut Call<'_, '_>,
    visit: impl FnOnce(&C, &ScanOptions<'_>, &ShardContext, &mut Reply<'_>) -> (usize, Option<u64>),
) -> Result<(), Error> {
    parse_cursor(call.argument(2))?;
    let key = call.key(1);
    let options = ScanOptions::parse(call, 2);
    let (database, context) = call.locks.database(call.database, key);
    let (limit, reply) = (call.work_limit, &mut call.reply);
    let value = database.peek(key, call.now_ms).and_then(KeyRecord::value);
    let size = value.map(StoreValue::size).unwrap_or_default();
    let Some(collection) = database.collection::<C>(key, context)? else {
        // As in Redis, the options are not checked in this case.
        reply.array(2);
        reply.bulk(b"0");
        reply.array(0);
        return Ok(());
    };
    let options = options?;
    limit.check_part(options.scanned(), size)?;
    reply.array(2);
    let cursor = reply.begin();
    let elements = reply.begin();
    let (count, next) = visit(collection, &options, context, reply);
    reply.end_array(elements, count);
    reply.insert_bulk(cursor, IntegerText::unsigned(next.unwrap_or(0)).as_bytes());
    Ok(())
}

fn scan(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let options = ScanOptions::parse(call, 1)?;
    let shards = call.locks.store().shard_count();
    let mut shard = (options.cursor >> POSITION_BITS) as usize;
    let mut position = options.cursor & ((1 << POSITION_BITS) - 1);
    let mut left = options.scanned();
    let mut next = 0;
    call.reply.array(2);
    let mark = call.reply.begin();
    let elements = call.reply.begin();
    let mut found = 0;
    while shard < shards {
        let (database, _) = call.locks.shard(shard).database(call.database);
        let (now_ms, reply) = (call.now_ms, &mut call.reply);
        let mut looked = 0;
        let after = database.records().visit_from(position, left, database.hash_of(), |record| {
            looked += 1;
            let key = record.key();
            let is_wanted = options.matches(key) && options.matches_type(record);
            if is_wanted && !has_expired(record, now_ms) {
                reply.bulk(key);
                found += 1;
            }
        });
        left = left.saturating_sub(looked);
        (shard, position) = match after {
            Some(position) => (shard, position),
            None => (shard + 1, 0),
        };
        if left == 0 {
            next = (shard as u64) << POSITION_BITS | position;
            break;
        }
    }
    let is_at_end = shard >= shards;
    call.reply.end_array(elements, found);
    let cursor = if is_at_end { 0 } else { next };
    call.reply.insert_bulk(mark, IntegerText::unsigned(cursor).as_bytes());
    Ok(())
}

fn keys(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let pattern = call.argument(1);
    let mark = call.reply.begin();
    let mut found = 0;
    let reply = &mut call.reply;
    walk(call.locks, call.database, call.now_ms, |record| {
        if glob::matches(pattern, record.key()) {
            reply.bulk(record.key());
            found += 1;
        }
    });
    call.reply.end_array(mark, found);
    Ok(())
}

fn random_key(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let shards = call.locks.store().shard_count();
    let mut counts = Vec::with_capacity(shards);
    for shard in 0..shards {
        counts.push(call.locks.shard(shard).database(call.database).0.len());
    }
    let all: usize = counts.iter().sum();
    // Number of attempts to find a key that has not expired. If there are only expired keys, none
    // is found.
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        let context = call.locks.shard(0).database(call.database).1;
        let Some(mut chosen) = context.random_below(all) else { break };
        let mut shard = 0;
        while chosen >= counts[shard] {
            chosen -= counts[shard];
            shard += 1;
        }
        let (database, context) = call.locks.shard(shard).database(call.database);
        let record = database.records().random(|| context.random());
        if let Some(record) = record.filter(|record| !has_expired(record, call.now_ms)) {
            call.reply.bulk(record.key());
            return Ok(());
        }
    }
    call.reply.null();
    Ok(())
}
