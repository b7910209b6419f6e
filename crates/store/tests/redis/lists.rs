//! Commands on lists.

use crate::command_table::Part::{
    Counted, Integer, Key, Member, Optional, Repeated, Several, Text, Value, Word,
};
use crate::command_table::{Group, row};
use crate::comparison::compare_with_redis;

const END: crate::command_table::Part = Text(&["left", "right"]);

const LONG_BYTES: [u8; 3000] = [b'x'; 3000];
/// Three of these are more than a compact list has space for.
const LONG: &str = match std::str::from_utf8(&LONG_BYTES) {
    Ok(text) => text,
    Err(_) => panic!("it is ASCII"),
};

pub(crate) const GROUP: Group = Group {
    commands: &[
        row("rpush", &[Key, Repeated(&[Text(&[LONG, "f"])])]),
        row("linsert", &[Key, Text(&["before", "after"]), Member, Text(&[LONG])]),
        row("lpush", &[Key, Repeated(&[Member])]),
        row("rpush", &[Key, Repeated(&[Member])]),
        row("rpush", &[Key, Repeated(&[Value])]),
        row("lpushx", &[Key, Repeated(&[Member])]),
        row("rpushx", &[Key, Repeated(&[Member])]),
        row("lpop", &[Key, Optional(&[Integer])]),
        row("rpop", &[Key, Optional(&[Integer])]),
        row("lmpop", &[Counted(&[Key]), END, Optional(&[Word("count"), Integer])]),
        row("llen", &[Key]),
        row("lrange", &[Key, Integer, Integer]),
        row("lindex", &[Key, Integer]),
        row("lset", &[Key, Integer, Member]),
        row("linsert", &[Key, Text(&["before", "after", "x"]), Member, Member]),
        row("lrem", &[Key, Integer, Member]),
        row("ltrim", &[Key, Integer, Integer]),
        row(
            "lpos",
            &[
                Key,
                Member,
                Several(&[
                    &[Word("rank"), Integer],
                    &[Word("count"), Integer],
                    &[Word("maxlen"), Integer],
                ]),
            ],
        ),
        row("lmove", &[Key, Key, END, END]),
        row("rpoplpush", &[Key, Key]),
    ],
    final_reads: &[row("lrange", &[Key, Word("0"), Word("-1")])],
};

#[test]
fn replies_about_lists_equal_those_of_redis() {
    compare_with_redis(&GROUP);
}
