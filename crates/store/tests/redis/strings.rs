//! Commands on strings.

use crate::command_table::Part::{
    Float, Integer, Key, Milliseconds, OneOf, Optional, Repeated, Seconds, Several,
    UnixMilliseconds, UnixSeconds, Value, Word,
};
use crate::command_table::{Group, Part, row};
use crate::comparison::compare_with_redis;

const EXPIRY: &[Part] = &[OneOf(&[
    &[Word("ex"), Seconds],
    &[Word("px"), Milliseconds],
    &[Word("exat"), UnixSeconds],
    &[Word("pxat"), UnixMilliseconds],
])];

pub(crate) const GROUP: Group = Group {
    commands: &[
        row("get", &[Key]),
        row(
            "set",
            &[
                Key,
                Value,
                Several(&[
                    EXPIRY,
                    &[Word("nx")],
                    &[Word("xx")],
                    &[Word("get")],
                    &[Word("keepttl")],
                ]),
            ],
        ),
        row("setnx", &[Key, Value]),
        row("setex", &[Key, Seconds, Value]),
        row("psetex", &[Key, Milliseconds, Value]),
        row("getset", &[Key, Value]),
        row("getdel", &[Key]),
        row("getex", &[Key, Several(&[EXPIRY, &[Word("persist")]])]),
        row("strlen", &[Key]),
        row("append", &[Key, Value]),
        row("incr", &[Key]),
        row("decr", &[Key]),
        row("incrby", &[Key, Integer]),
        row("decrby", &[Key, Integer]),
        row("incrbyfloat", &[Key, Float]),
        row("getrange", &[Key, Integer, Integer]),
        row("substr", &[Key, Integer, Integer]),
        row("setrange", &[Key, Integer, Value]),
        row("mget", &[Repeated(&[Key])]),
        row("mset", &[Repeated(&[Key, Value])]),
        row("msetnx", &[Repeated(&[Key, Value])]),
        row(
            "lcs",
            &[
                Key,
                Key,
                Optional(&[OneOf(&[&[Word("len")], &[Word("idx")]])]),
                Several(&[&[Word("minmatchlen"), Integer], &[Word("withmatchlen")]]),
            ],
        ),
    ],
    final_reads: &[row("get", &[Key])],
};

#[test]
fn replies_about_strings_equal_those_of_redis() {
    compare_with_redis(&GROUP);
}
