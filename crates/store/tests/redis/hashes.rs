//! Commands on hashes. Those on the expiry of fields are newer than Redis 7.0.

use crate::command_table::Comparison::{PairsInAnyOrder, ScanOfPairs, TypesAndLengths};
use crate::command_table::Part::{
    Float, Integer, Key, Member, Optional, Repeated, Several, Text, Value, Word,
};
use crate::command_table::{Comparison, Group, row};
use crate::comparison::compare_with_redis;

pub(crate) const GROUP: Group = Group {
    commands: &[
        row("hset", &[Key, Repeated(&[Member, Value])]),
        row("hset", &[Key, Repeated(&[Member, Value])]),
        row("hmset", &[Key, Repeated(&[Member, Value])]),
        row("hsetnx", &[Key, Member, Value]),
        row("hget", &[Key, Member]),
        row("hmget", &[Key, Repeated(&[Member])]),
        row("hgetall", &[Key]).compared(PairsInAnyOrder),
        row("hkeys", &[Key]).compared(Comparison::AnyOrder),
        row("hvals", &[Key]).compared(Comparison::AnyOrder),
        row("hlen", &[Key]),
        row("hdel", &[Key, Repeated(&[Member])]),
        row("hexists", &[Key, Member]),
        row("hstrlen", &[Key, Member]),
        row("hincrby", &[Key, Member, Integer]),
        row("hincrbyfloat", &[Key, Member, Float]),
        row("hrandfield", &[Key, Optional(&[Integer, Optional(&[Word("withvalues")])])])
            .compared(TypesAndLengths),
        row(
            "hscan",
            &[
                Key,
                Text(&["0", "0", "0", "x", "-1"]),
                Word("count"),
                Text(&["1000", "500", "1000", "500", "0", "x"]),
                Several(&[&[Word("match"), Text(&["*", "f*", "[fg]?", "1", "\\*", "^"])]]),
            ],
        )
        .compared(ScanOfPairs { cursor_argument: 2 }),
    ],
    final_reads: &[row("hgetall", &[Key]).compared(PairsInAnyOrder)],
};

#[test]
fn replies_about_hashes_equal_those_of_redis() {
    compare_with_redis(&GROUP);
}
