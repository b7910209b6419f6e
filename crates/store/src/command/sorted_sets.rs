//! Commands on sorted sets.

mod add_and_remove;
mod bounds;
mod combine;
mod pop;
mod range;
mod scan;
mod scores_and_ranks;

use bounds::{BoundKind, Order};

use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use crate::resp::reply_writer::{Reply, RespVersion};

const WRITE: Flags = Flags::WRITE.and(Flags::DENY_OOM);
const FAST_WRITE: Flags = WRITE.and(Flags::FAST);
const REMOVE: Flags = Flags::WRITE;
const FAST_REMOVE: Flags = Flags::WRITE.and(Flags::FAST);
const READ: Flags = Flags::READ_ONLY;
const FAST_READ: Flags = Flags::READ_ONLY.and(Flags::FAST);

const COUNTED: KeyArguments = KeyArguments::Counted { count: 1, also: None };
const TARGET_AND_COUNTED: KeyArguments = KeyArguments::Counted { count: 2, also: Some(1) };

const SORTED_SETS: CommandDefaults =
    CommandDefaults { group: CommandGroup::SortedSet, keys: KeyArguments::FIRST };

pub(super) const COMMANDS: &[CommandSpec] = &[
    SORTED_SETS.command(
        "zadd",
        -4,
        FAST_WRITE,
        ("1.2.0", "Adds members or sets their scores."),
        add_and_remove::add,
    ),
    SORTED_SETS.command(
        "zincrby",
        4,
        FAST_WRITE,
        ("1.2.0", "Adds to the score of a member."),
        add_and_remove::increment,
    ),
    SORTED_SETS.command(
        "zrem",
        -3,
        FAST_REMOVE,
        ("1.2.0", "Removes members."),
        add_and_remove::remove,
    ),
    SORTED_SETS.command(
        "zscore",
        3,
        FAST_READ,
        ("1.2.0", "Returns the score of a member."),
        scores_and_ranks::score,
    ),
    SORTED_SETS.command(
        "zmscore",
        -3,
        FAST_READ,
        ("6.2.0", "Returns the scores of members."),
        scores_and_ranks::scores,
    ),
    SORTED_SETS.command(
        "zcard",
        2,
        FAST_READ,
        ("1.2.0", "Returns the number of members."),
        scores_and_ranks::cardinality,
    ),
    SORTED_SETS.command(
        "zcount",
        4,
        FAST_READ,
        ("2.0.0", "Counts the members in a range of scores."),
        |call| range::count(call, BoundKind::Score),
    ),
    SORTED_SETS.command(
        "zlexcount",
        4,
        FAST_READ,
        ("2.8.9", "Counts the members in a range of texts."),
        |call| range::count(call, BoundKind::Text),
    ),
    SORTED_SETS.command(
        "zrank",
        -3,
        FAST_READ,
        ("2.0.0", "Returns the index of a member by score."),
        |call| scores_and_ranks::rank(call, Order::Ascending),
    ),
    SORTED_SETS.command(
        "zrevrank",
        -3,
        FAST_READ,
        ("2.0.0", "Returns the index of a member, from the highest score on."),
        |call| scores_and_ranks::rank(call, Order::Descending),
    ),
    SORTED_SETS.command(
        "zscan",
        -3,
        READ.and(Flags::UNSTABLE),
        ("2.8.0", "Returns some members, and where to go on."),
        scan::scan,
    ),
    SORTED_SETS.command(
        "zrandmember",
        -2,
        READ.and(Flags::UNSTABLE),
        ("6.2.0", "Returns random members."),
        scores_and_ranks::random,
    ),
    SORTED_SETS.command(
        "zrange",
        -4,
        READ,
        ("1.2.0", "Returns the members in a range."),
        range::range,
    ),
    SORTED_SETS
        .command(
            "zrangestore",
            -5,
            WRITE,
            ("6.2.0", "Stores the members in a range."),
            range::store,
        )
        .with_keys(KeyArguments::FIRST_TWO),
    SORTED_SETS.command(
        "zrevrange",
        -4,
        READ,
        ("1.2.0", "Returns the members in a range of indices from the highest score on."),
        |call| range::of_kind(call, BoundKind::Rank, Order::Descending),
    ),
    SORTED_SETS.command(
        "zrangebyscore",
        -4,
        READ,
        ("1.0.5", "Returns the members in a range of scores."),
        |call| range::of_kind(call, BoundKind::Score, Order::Ascending),
    ),
    SORTED_SETS.command(
        "zrevrangebyscore",
        -4,
        READ,
        ("2.2.0", "Returns the members in a range of scores, from the highest on."),
        |call| range::of_kind(call, BoundKind::Score, Order::Descending),
    ),
    SORTED_SETS.command(
        "zrangebylex",
        -4,
        READ,
        ("2.8.9", "Returns the members in a range of texts."),
        |call| range::of_kind(call, BoundKind::Text, Order::Ascending),
    ),
    SORTED_SETS.command(
        "zrevrangebylex",
        -4,
        READ,
        ("2.8.9", "Returns the members in a range of texts, from the last on."),
        |call| range::of_kind(call, BoundKind::Text, Order::Descending),
    ),
    SORTED_SETS.command(
        "zremrangebyrank",
        4,
        REMOVE,
        ("2.0.0", "Removes the members in a range of indices."),
        |call| range::remove(call, BoundKind::Rank),
    ),
    SORTED_SETS.command(
        "zremrangebyscore",
        4,
        REMOVE,
        ("1.2.0", "Removes the members in a range of scores."),
        |call| range::remove(call, BoundKind::Score),
    ),
    SORTED_SETS.command(
        "zremrangebylex",
        4,
        REMOVE,
        ("2.8.9", "Removes the members in a range of texts."),
        |call| range::remove(call, BoundKind::Text),
    ),
    SORTED_SETS.command(
        "zpopmin",
        -2,
        FAST_REMOVE,
        ("5.0.0", "Removes the members with the lowest scores."),
        |call| pop::pop(call, Order::Ascending),
    ),
    SORTED_SETS.command(
        "zpopmax",
        -2,
        FAST_REMOVE,
        ("5.0.0", "Removes the members with the highest scores."),
        |call| pop::pop(call, Order::Descending),
    ),
    SORTED_SETS
        .command(
            "zmpop",
            -4,
            REMOVE,
            ("7.0.0", "Removes members of the first sorted set that has some."),
            pop::pop_first,
        )
        .with_keys(COUNTED),
    SORTED_SETS
        .command("zunion", -3, READ, ("6.2.0", "Returns the members of all sets."), combine::union)
        .with_keys(COUNTED),
    SORTED_SETS
        .command(
            "zunionstore",
            -4,
            WRITE,
            ("2.0.0", "Stores the members of all sets."),
            combine::union_store,
        )
        .with_keys(TARGET_AND_COUNTED),
    SORTED_SETS
        .command(
            "zinter",
            -3,
            READ,
            ("6.2.0", "Returns the members that are in every set."),
            combine::intersection,
        )
        .with_keys(COUNTED),
    SORTED_SETS
        .command(
            "zinterstore",
            -4,
            WRITE,
            ("2.0.0", "Stores the members that are in every set."),
            combine::intersection_store,
        )
        .with_keys(TARGET_AND_COUNTED),
    SORTED_SETS
        .command(
            "zintercard",
            -3,
            READ,
            ("7.0.0", "Counts the members that are in every set."),
            combine::intersection_cardinality,
        )
        .with_keys(COUNTED),
    SORTED_SETS
        .command(
            "zdiff",
            -3,
            READ,
            ("6.2.0", "Returns the members of the first set that no other one has."),
            combine::difference,
        )
        .with_keys(COUNTED),
    SORTED_SETS
        .command(
            "zdiffstore",
            -4,
            WRITE,
            ("6.2.0", "Stores the members of the first set that no other one has."),
            combine::difference_store,
        )
        .with_keys(TARGET_AND_COUNTED),
];

/// Writes `count` members, with their scores if they are asked for: in pairs in RESP3.
fn write_members<'m>(
    reply: &mut Reply<'_>,
    members: impl Iterator<Item = (&'m [u8], f64)>,
    count: usize,
    with_scores: bool,
) {
    let is_flat = reply.version == RespVersion::Two;
    reply.array(if with_scores && is_flat { count * 2 } else { count });
    for (member, score) in members {
        if with_scores && !is_flat {
            reply.array(2);
        }
        reply.bulk(member);
        if with_scores {
            reply.double(score);
        }
    }
}
