//! Random commands on sorted sets, whose replies are compared with those of redis-server.

use crate::command_table::Comparison::{
    ErrorTextMayDiffer, Numbers, ScanWithScores, TypesAndLengths,
};
use crate::command_table::Part::{
    Counted, Integer, Key, Member, Optional, Repeated, Several, Text, Word,
};
use crate::command_table::{Group, Part, Row, row};
use crate::comparison::{compare_valid_requests_of_group, compare_with_redis};

/// Scores that both servers write with the same digits, and texts that are not scores. A text that
/// is here twice is sent more often.
const SCORE: Part = Text(&[
    "0", "1", "2", "3", "1.5", "-2", "-0", "1e3", "+7", "inf", "-inf", "0x10", "1e400", "x", "nan",
    "1", "2", "2.25", "1000000", "-70000",
]);
/// Bounds of ranges of scores, and texts that are not bounds.
const SCORE_BOUND: Part = Text(&[
    "0", "1", "(1", "2", "(2", "3", "-inf", "+inf", "inf", "(-inf", "1.5", "-2", "x", "(", "1000",
    "-inf", "+inf", "nan",
]);
/// Bounds of lexicographical ranges, and texts that are not bounds.
const LEX_BOUND: Part =
    Text(&["-", "+", "-", "+", "[f", "(f", "[1", "(1", "[", "(", "f", "(g", "[3", "(h", "--"]);
const LIMIT: &[Part] = &[Word("limit"), Integer, Integer];
const WITH_SCORES: Part = Word("withscores");
const ADD_OPTIONS: Part = Several(&[
    &[Word("nx")],
    &[Word("xx")],
    &[Word("gt")],
    &[Word("lt")],
    &[Word("ch")],
    &[Word("ch")],
]);
const RANGE_BOUNDS: Part =
    Part::OneOf(&[&[Integer, Integer], &[SCORE_BOUND, SCORE_BOUND, Word("byscore")]]);
const COMBINE_OPTIONS: Part = Several(&[
    &[Word("aggregate"), Text(&["sum", "min", "max", "x"])],
    &[Word("weights"), SCORE],
    &[Word("weights"), SCORE, SCORE],
    &[WITH_SCORES],
]);
const STORE_OPTIONS: Part = Several(&[
    &[Word("aggregate"), Text(&["sum", "min", "max"])],
    &[Word("weights"), SCORE],
    &[Word("weights"), SCORE, SCORE],
]);

/// Returns the row of a command whose replies have scores.
const fn scored(name: &'static str, parts: &'static [Part]) -> Row {
    row(name, parts).compared(Numbers)
}

/// A member that is too long for the compact form.
const LONG_MEMBER: Part =
    Text(&["b-text-of-65-bytes-which-is-too-long-for-the-compact-form-of-any-"]);

pub(crate) const GROUP: Group = Group {
    commands: &[
        row("zadd", &[Key, SCORE, LONG_MEMBER]),
        row("zadd", &[Key, Repeated(&[SCORE, Member])]),
        row("zadd", &[Key, Repeated(&[SCORE, Member])]),
        row("zadd", &[Key, ADD_OPTIONS, Repeated(&[SCORE, Member])]),
        scored("zadd", &[Key, ADD_OPTIONS, Word("incr"), SCORE, Member]),
        scored("zincrby", &[Key, SCORE, Member]),
        row("zrem", &[Key, Repeated(&[Member])]),
        scored("zscore", &[Key, Member]),
        scored("zmscore", &[Key, Repeated(&[Member])]),
        row("zcard", &[Key]),
        row("zcount", &[Key, SCORE_BOUND, SCORE_BOUND]),
        row("zrank", &[Key, Member]).compared(ErrorTextMayDiffer),
        row("zrevrank", &[Key, Member]).compared(ErrorTextMayDiffer),
        row("zrandmember", &[Key, Optional(&[Integer, Optional(&[WITH_SCORES])])])
            .compared(TypesAndLengths),
        scored(
            "zrange",
            &[Key, RANGE_BOUNDS, Several(&[LIMIT, &[WITH_SCORES], &[WITH_SCORES], &[Word("rev")]])],
        ),
        row("zrangestore", &[Key, Key, RANGE_BOUNDS, Several(&[LIMIT, &[Word("rev")]])]),
        scored("zrevrange", &[Key, Integer, Integer, Optional(&[WITH_SCORES])]),
        scored(
            "zrangebyscore",
            &[Key, SCORE_BOUND, SCORE_BOUND, Several(&[LIMIT, &[WITH_SCORES]])],
        ),
        scored(
            "zrevrangebyscore",
            &[Key, SCORE_BOUND, SCORE_BOUND, Several(&[LIMIT, &[WITH_SCORES]])],
        ),
        row("zremrangebyrank", &[Key, Integer, Integer]),
        row("zremrangebyscore", &[Key, SCORE_BOUND, SCORE_BOUND]),
        row(
            "zscan",
            &[
                Key,
                Text(&["0", "0", "0", "x", "-1"]),
                Word("count"),
                Text(&["1000", "500", "1000", "500", "0", "x"]),
                Several(&[&[Word("match"), Text(&["*", "f*", "[fg]?", "1", "\\*", "^"])]]),
            ],
        )
        .compared(ScanWithScores { cursor_argument: 2 }),
        scored("zpopmin", &[Key, Optional(&[Integer])]),
        scored("zpopmax", &[Key, Optional(&[Integer])]),
        scored(
            "zmpop",
            &[Counted(&[Key]), Text(&["min", "max"]), Optional(&[Word("count"), Integer])],
        ),
        scored("zunion", &[Counted(&[Key]), COMBINE_OPTIONS]),
        scored("zinter", &[Counted(&[Key]), COMBINE_OPTIONS]),
        scored("zdiff", &[Counted(&[Key]), Optional(&[WITH_SCORES])]),
        row("zunionstore", &[Key, Counted(&[Key]), STORE_OPTIONS]),
        row("zinterstore", &[Key, Counted(&[Key]), STORE_OPTIONS]),
        row("zdiffstore", &[Key, Counted(&[Key])]),
        row("zintercard", &[Counted(&[Key]), Optional(&[Word("limit"), Integer])]),
    ],
    final_reads: &[scored("zrange", &[Key, Word("0"), Word("-1"), WITH_SCORES])],
};

/// Commands on lexicographical ranges (`BYLEX`), whose results are only specified if all scores are
/// equal.
const LEX_RANGES: Group = Group {
    commands: &[
        row("zadd", &[Key, Word("0"), LONG_MEMBER]),
        row("zadd", &[Key, Repeated(&[Word("0"), Member])]),
        row("zadd", &[Key, Repeated(&[Word("0"), Member])]),
        row("zrem", &[Key, Member]),
        row("zlexcount", &[Key, LEX_BOUND, LEX_BOUND]),
        row("zrangebylex", &[Key, LEX_BOUND, LEX_BOUND, Several(&[LIMIT])]),
        row("zrevrangebylex", &[Key, LEX_BOUND, LEX_BOUND, Several(&[LIMIT, &[WITH_SCORES]])]),
        row("zremrangebylex", &[Key, LEX_BOUND, LEX_BOUND]),
        row(
            "zrange",
            &[Key, LEX_BOUND, LEX_BOUND, Word("bylex"), Several(&[LIMIT, &[Word("rev")]])],
        ),
        row(
            "zrangestore",
            &[Key, Key, LEX_BOUND, LEX_BOUND, Word("bylex"), Several(&[LIMIT, &[Word("rev")]])],
        ),
    ],
    final_reads: &[],
};

#[test]
fn lexicographical_ranges_equal_those_of_redis() {
    compare_valid_requests_of_group(&LEX_RANGES);
}

#[test]
fn replies_about_sorted_sets_equal_those_of_redis() {
    compare_with_redis(&GROUP);
}
