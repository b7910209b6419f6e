//! Commands on keys of all types.

use crate::command_table::Comparison::{AnyOrder, Encoding, Errors, Near, Scan, TypesAndLengths};
use crate::command_table::Part::{
    Integer, Key, Milliseconds, Optional, Repeated, Seconds, Several, Text, UnixMilliseconds,
    UnixSeconds, Word,
};
use crate::command_table::{Group, Part, row};
use crate::comparison::compare_with_redis;

const CONDITIONS: Part = Several(&[&[Word("nx")], &[Word("xx")], &[Word("gt")], &[Word("lt")]]);

/// The conditions that do not compare two times: those from now on differ by some milliseconds.
const EXISTENCE: Part = Several(&[&[Word("nx")], &[Word("xx")]]);

pub(crate) const GROUP: Group = Group {
    commands: &[
        row("del", &[Repeated(&[Key])]),
        row("unlink", &[Repeated(&[Key])]),
        row("exists", &[Repeated(&[Key])]),
        row("touch", &[Repeated(&[Key])]),
        row("type", &[Key]),
        row("rename", &[Key, Key]),
        row("renamenx", &[Key, Key]),
        row("copy", &[Key, Key, Several(&[&[Word("replace")], &[Word("db"), Integer]])]),
        row("move", &[Key, Integer]),
        row("expire", &[Key, Seconds, EXISTENCE]),
        row("pexpire", &[Key, Milliseconds, EXISTENCE]),
        row("expireat", &[Key, UnixSeconds, CONDITIONS]),
        row("pexpireat", &[Key, UnixMilliseconds, CONDITIONS]),
        row("persist", &[Key]),
        row("ttl", &[Key]).compared(Near(1)),
        row("pttl", &[Key]).compared(Near(2000)),
        row("expiretime", &[Key]).compared(Near(1)),
        row("pexpiretime", &[Key]).compared(Near(2000)),
        row("keys", &[Text(&["*", "a", "[a-c]", "[^a]", "?", "x*"])]).compared(AnyOrder),
        row("randomkey", &[]).compared(TypesAndLengths),
        // Redis counts keys that have expired and were not accessed.
        row("dbsize", &[]).compared(TypesAndLengths),
        row(
            "scan",
            &[
                Text(&["0"]),
                Word("count"),
                Text(&["1000"]),
                Several(&[
                    &[Word("match"), Text(&["*", "[a-c]", "b"])],
                    &[Word("type"), Text(&["string", "hash", "set", "list", "zset", "x"])],
                ]),
            ],
        )
        .compared(Scan { cursor_argument: 1 }),
        row("swapdb", &[Integer, Integer]),
        row("select", &[Text(&["0", "0", "1", "16", "-1", "x"])]),
        row("dump", &[Key]).compared(Errors),
        row(
            "restore",
            &[
                Key,
                Text(&["0", "100000", "-1"]),
                Text(&["", "no payload", "\0\u{1}a: its checksum is wrong"]),
                Several(&[
                    &[Word("replace")],
                    &[Word("absttl")],
                    &[Word("idletime"), Integer],
                    &[Word("freq"), Integer],
                ]),
            ],
        ),
        row("slowlog", &[Text(&["get", "len", "reset", "help", "x"]), Optional(&[Integer])])
            .compared(Errors),
        row("flushdb", &[Several(&[&[Word("async")], &[Word("sync")]])]),
    ],
    final_reads: &[
        row("type", &[Key]),
        row("object", &[Word("encoding"), Key]).compared(Encoding),
        row("ttl", &[Key]).compared(Near(1)),
    ],
};

#[test]
fn replies_about_keys_equal_those_of_redis() {
    compare_with_redis(&GROUP);
}
