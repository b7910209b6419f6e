//! `SORT`. Its elements are keys, too.

use crate::command_table::Comparison::{AnyOrder, Errors};
use crate::command_table::Part::{Integer, Key, Repeated, Several, Text, Word};
use crate::command_table::{Group, Part, row};
use crate::comparison::compare_valid_requests_of_group;

const ELEMENT: Part = Text(&["a", "b", "c", "d", "e", "1", "2.5", "-3", "10", "x"]);
const FIELD: Part = Text(&["f", "g"]);
const PATTERN: Part = Text(&["*", "*->f", "*->g", "*->", "x*", "*x"]);
const GET: Part = Text(&["#", "*", "*->f", "*->g", "x", "x*->f"]);
const NUMBER: Part = Text(&["5", "-7", "1.5", "0", "12", "1e2", " 3", "inf", "0x1f", ""]);

const GET_OPTION: &[Part] = &[Word("get"), GET];
const LIMIT: &[Part] = &[Word("limit"), Integer, Integer];
const DESCENDING: &[Part] = &[Word("desc")];
const ASCENDING: &[Part] = &[Word("asc")];
const STORE: &[Part] = &[Word("store"), Key];

pub(crate) const GROUP: Group = Group {
    commands: &[
        row("rpush", &[Key, Repeated(&[ELEMENT])]),
        row("sadd", &[Key, Repeated(&[ELEMENT])]),
        row("zadd", &[Key, Repeated(&[Integer, ELEMENT])]).compared(Errors),
        row("set", &[Key, NUMBER]),
        row("hset", &[Key, Repeated(&[FIELD, NUMBER])]),
        row("del", &[Key]),
        row("sort", &[Key, Several(&[GET_OPTION, LIMIT, DESCENDING, ASCENDING, STORE])]),
        row(
            "sort",
            &[Key, Word("alpha"), Several(&[GET_OPTION, LIMIT, DESCENDING, ASCENDING, STORE])],
        ),
        row(
            "sort",
            &[
                Key,
                Word("by"),
                PATTERN,
                Several(&[GET_OPTION, LIMIT, DESCENDING, ASCENDING, STORE]),
            ],
        ),
        // Elements with equal texts are in any order, and so are those of a set that is not sorted.
        row("sort_ro", &[Key, Word("alpha"), Word("by"), PATTERN, Several(&[GET_OPTION])])
            .compared(AnyOrder),
        row("sort_ro", &[Key, Word("by"), Text(&["nosort", "#"]), Several(&[DESCENDING])])
            .compared(AnyOrder),
    ],
    final_reads: &[],
};

/// Lists and sorted sets, which have an order.
const ORDERED: Group = Group {
    commands: &[
        row("rpush", &[Text(&["l"]), Repeated(&[ELEMENT])]),
        row("zadd", &[Text(&["z"]), Repeated(&[Text(&["1", "2", "3"]), ELEMENT])]),
        row(
            "sort",
            &[
                Text(&["l", "z"]),
                Word("by"),
                Text(&["nosort", "#"]),
                Several(&[LIMIT, DESCENDING, ASCENDING, GET_OPTION, STORE, &[Word("alpha")]]),
            ],
        ),
        row("lrange", &[Text(&["l", "a", "b", "c"]), Word("0"), Word("-1")]),
    ],
    final_reads: &[],
};

/// No odd texts, since redis-server 7.0.15 takes a number that was out of range before
/// for a fault of the next `SORT`.
const WITH_FAULTS: Group = Group {
    commands: &[
        row("rpush", &[Key, Repeated(&[ELEMENT])]),
        row("set", &[Key, NUMBER]),
        row(
            "sort",
            &[
                Key,
                Several(&[
                    GET_OPTION,
                    LIMIT,
                    &[Word("by"), PATTERN],
                    &[Word("limit"), Text(&["x", "1.5", "9223372036854775808"]), Integer],
                    &[Word("limit"), Integer],
                    &[Text(&["by", "get", "limit", "store", "count", "withscores", ""])],
                ]),
            ],
        )
        .compared(Errors),
        row("sort_ro", &[Key, Several(&[GET_OPTION, LIMIT, STORE])]).compared(Errors),
        row("sort", &[]),
    ],
    final_reads: &[],
};

#[test]
fn sort_gives_the_replies_of_redis() {
    compare_valid_requests_of_group(&GROUP);
}

#[test]
fn sort_of_equal_elements_gives_the_replies_of_redis() {
    compare_valid_requests_of_group(&ORDERED);
}

#[test]
fn sort_gives_the_errors_of_redis() {
    compare_valid_requests_of_group(&WITH_FAULTS);
}
