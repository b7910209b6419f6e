//! Commands on ranges of members.

use super::bounds::{BoundKind, Bounds, Order, limited};
use super::write_members;
use crate::command::call::Call;
use crate::command::options::OptionArguments;
use crate::command::ranges::parse_integer;
use crate::error::{Error, SYNTAX};
use crate::keyspace::database::{ChangeEffect, ShardContext};
use crate::keyspace::key::Key;
use crate::keyspace::record::KeyRecord;
use crate::keyspace::shard_locks::Locks;
use crate::value::Collection;
use crate::value::sorted_set::SortedSet;

const LIMIT_OF_RANKS: Error = Error::constant(
    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
);
const SCORES_OF_TEXTS: Error =
    Error::constant("ERR syntax error, WITHSCORES not supported in combination with BYLEX");

/// The selection of members that a command returns.
#[derive(Clone, Copy, Debug)]
struct RangeQuery<'a> {
    bounds: Bounds<'a>,
    order: Order,
    /// The number of members to skip, and the most members to return.
    limit: (i64, i64),
    with_scores: bool,
}

/// No limit.
const UNLIMITED: (i64, i64) = (0, -1);

impl<'a> RangeQuery<'a> {
    /// Parses two bounds, from an argument on, and the options after them. `fixed` is the kind and
    /// the order that the name of the command implies; without it there are options for both.
    fn parse(
        call: &Call<'a, '_>,
        first: usize,
        fixed: Option<(BoundKind, Order)>,
        is_stored: bool,
    ) -> Result<Self, Error> {
        let (mut kind, mut order) = fixed.unwrap_or((BoundKind::Rank, Order::Ascending));
        let (mut limit, mut with_scores) = (UNLIMITED, false);
        let mut options = OptionArguments::from(call.arguments, first + 2);
        while let Some(name) = options.next_name() {
            match name?.as_bytes() {
                b"WITHSCORES" if !is_stored => with_scores = true,
                b"LIMIT" if options.left() >= 2 => {
                    let offset = parse_integer(options.next_value()?)?;
                    limit = (offset, parse_integer(options.next_value()?)?);
                }
                b"REV" if fixed.is_none() && order == Order::Ascending => order = Order::Descending,
                b"BYSCORE" if fixed.is_none() && kind == BoundKind::Rank => {
                    kind = BoundKind::Score;
                }
                b"BYLEX" if fixed.is_none() && kind == BoundKind::Rank => kind = BoundKind::Text,
                _ => return Err(SYNTAX),
            }
        }
        if kind == BoundKind::Rank {
            if limit.1 != UNLIMITED.1 {
                return Err(LIMIT_OF_RANKS);
            }
            // Redis takes an offset without a count, and ignores it.
            limit = UNLIMITED;
        }
        if with_scores && kind == BoundKind::Text {
            return Err(SCORES_OF_TEXTS);
        }
        let (mut low, mut high) = (call.argument(first), call.argument(first + 1));
        if order == Order::Descending && kind != BoundKind::Rank {
            std::mem::swap(&mut low, &mut high);
        }
        Ok(Self { bounds: Bounds::parse(kind, low, high)?, order, limit, with_scores })
    }

    fn ranks(&self, set: &SortedSet) -> std::ops::Range<usize> {
        limited(self.bounds.ranks(set, self.order), self.limit, self.order)
    }
}

/// `ZRANGE`
pub(super) fn range(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let query = RangeQuery::parse(call, 2, None, false)?;
    write_range(call, query)
}

/// Executes `ZRANGEBYSCORE` and the other commands that have the kind of range in their names.
pub(super) fn of_kind(call: &mut Call<'_, '_>, kind: BoundKind, order: Order) -> Result<(), Error> {
    let query = RangeQuery::parse(call, 2, Some((kind, order)), false)?;
    write_range(call, query)
}

fn write_range(call: &mut Call<'_, '_>, query: RangeQuery<'_>) -> Result<(), Error> {
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    let Some(set) = database.collection::<SortedSet>(key, context)? else {
        call.reply.array(0);
        return Ok(());
    };
    let ranks = query.ranks(set);
    let count = ranks.len();
    call.work_limit.check_part(count, (set.len(), set.memory_bytes()))?;
    match query.order {
        Order::Ascending => {
            write_members(&mut call.reply, set.range(ranks), count, query.with_scores);
        }
        Order::Descending => {
            write_members(&mut call.reply, set.range_reversed(ranks), count, query.with_scores);
        }
    }
    Ok(())
}

/// `ZRANGESTORE`
pub(super) fn store(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let query = RangeQuery::parse(call, 3, None, true)?;
    let (target, source) = (call.key(1), call.key(2));
    let (database, context) = call.locks.database(call.database, source);
    let mut stored = SortedSet::default();
    if let Some(set) = database.collection::<SortedSet>(source, context)? {
        let ranks = query.ranks(set);
        call.work_limit.check_part(ranks.len(), (set.len(), set.memory_bytes()))?;
        for (member, score) in set.range(ranks) {
            stored.set_score(member, score, context.hasher);
        }
    }
    let count = stored.len();
    put(call.locks, call.database, target, stored);
    call.reply.size(count);
    Ok(())
}

/// Stores a sorted set, and replaces any previous value. An empty set removes the key.
pub(super) fn put(locks: &mut Locks<'_>, database: usize, key: Key<'_>, set: SortedSet) {
    let (database, context) = locks.database(database, key);
    if set.is_empty() {
        database.remove(key, context);
        return;
    }
    let access = context.new_access();
    database.put(key, KeyRecord::object(key.bytes, None, access, set.into_value()), context);
}

/// `ZCOUNT` and `ZLEXCOUNT`
pub(super) fn count(call: &mut Call<'_, '_>, kind: BoundKind) -> Result<(), Error> {
    let bounds = Bounds::parse(kind, call.argument(2), call.argument(3))?;
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    let set = database.collection::<SortedSet>(key, context)?;
    call.reply.size(set.map_or(0, |set| bounds.ranks(set, Order::Ascending).len()));
    Ok(())
}

/// `ZREMRANGEBYRANK`, `ZREMRANGEBYSCORE`, and `ZREMRANGEBYLEX`
pub(super) fn remove(call: &mut Call<'_, '_>, kind: BoundKind) -> Result<(), Error> {
    let bounds = Bounds::parse(kind, call.argument(2), call.argument(3))?;
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    let limit = call.work_limit;
    let remove = |set: &mut SortedSet, _: &mut ShardContext| {
        let ranks = bounds.ranks(set, Order::Ascending);
        if let Err(error) = limit.check_part(ranks.len(), (set.len(), set.memory_bytes())) {
            return ChangeEffect::None(Err(error));
        }
        match set.remove_range(ranks) {
            0 => ChangeEffect::None(Ok(0)),
            removed => ChangeEffect::Made(Ok(removed)),
        }
    };
    let removed = database.change_collection(key, context, remove)?.transpose()?;
    call.reply.size(removed.unwrap_or(0));
    Ok(())
}
