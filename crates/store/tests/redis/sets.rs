//! Commands on sets.

use crate::command_table::Comparison::{AnyOrder, RandomRemoval, Scan, TypesAndLengths};
use crate::command_table::Part::{
    Counted, Integer, Key, Member, Optional, Repeated, Several, Text, Word,
};
use crate::command_table::{Group, row};
use crate::comparison::compare_with_redis;

pub(crate) const GROUP: Group = Group {
    commands: &[
        row("sadd", &[Key, Repeated(&[Member])]),
        row("sadd", &[Key, Repeated(&[Member])]),
        row("sadd", &[Key, Repeated(&[Text(&["1", "2", "-3", "70000", "5000000000"])])]),
        row("srem", &[Key, Repeated(&[Member])]),
        row("sismember", &[Key, Member]),
        row("smismember", &[Key, Repeated(&[Member])]),
        row("scard", &[Key]),
        row("smembers", &[Key]).compared(AnyOrder),
        row("spop", &[Key, Optional(&[Integer])]).compared(RandomRemoval),
        row("srandmember", &[Key, Optional(&[Integer])]).compared(TypesAndLengths),
        row("smove", &[Key, Key, Member]),
        row("sinter", &[Repeated(&[Key])]).compared(AnyOrder),
        row("sinterstore", &[Key, Repeated(&[Key])]),
        row("sintercard", &[Counted(&[Key]), Optional(&[Word("limit"), Integer])]),
        row("sunion", &[Repeated(&[Key])]).compared(AnyOrder),
        row("sunionstore", &[Key, Repeated(&[Key])]),
        row("sdiff", &[Repeated(&[Key])]).compared(AnyOrder),
        row("sdiffstore", &[Key, Repeated(&[Key])]),
        row(
            "sscan",
            &[
                Key,
                Text(&["0", "0", "0", "x", "-1"]),
                Word("count"),
                Text(&["1000", "500", "1000", "500", "0", "x"]),
                Several(&[&[Word("match"), Text(&["*", "f*", "[fg]?", "1", "\\*", "^"])]]),
            ],
        )
        .compared(Scan { cursor_argument: 2 }),
    ],
    final_reads: &[row("smembers", &[Key]).compared(AnyOrder)],
};

#[test]
fn replies_about_sets_equal_those_of_redis() {
    compare_with_redis(&GROUP);
}
