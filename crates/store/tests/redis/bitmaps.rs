//! Commands on the bits of strings.

use crate::command_table::Part::{
    Integer, Key, OneOf, Optional, Repeated, Several, Text, Value, Word,
};
use crate::command_table::{Group, Part, row};
use crate::comparison::compare_with_redis;

const BIT: Part = Text(&["0", "1", "0", "1", "2"]);
const OFFSET: Part =
    Text(&["0", "1", "2", "7", "8", "9", "15", "63", "64", "100", "-1", "4294967296", "x"]);
const RANGE: Part =
    Optional(&[Integer, Optional(&[Integer, Optional(&[Text(&["bit", "byte", "bits"])])])]);
const FIELD: Part =
    Text(&["u1", "u8", "i8", "i5", "u63", "i64", "i64", "u31", "i1", "u64", "i65", "x8", "u0"]);
const FIELD_OFFSET: Part = Text(&["0", "1", "3", "7", "8", "20", "#0", "#1", "#3", "-1", "x"]);
const FIELD_VALUE: Part = Text(&[
    "0",
    "1",
    "-1",
    "100",
    "-129",
    "255",
    "256",
    "9223372036854775807",
    "-4000000000000000000",
]);

pub(crate) const GROUP: Group = Group {
    commands: &[
        row("set", &[Key, Value]),
        row("setrange", &[Key, Integer, Text(&["\u{ff}", "\u{7fff}x", "", "\u{0}"])]),
        row("setbit", &[Key, OFFSET, BIT]),
        row("setbit", &[Key, OFFSET, Text(&["1"])]),
        row("getbit", &[Key, OFFSET]),
        row("bitcount", &[Key, RANGE]),
        row("bitpos", &[Key, BIT, RANGE]),
        row("bitop", &[Text(&["and", "or", "xor", "nand"]), Key, Repeated(&[Key])]),
        row("bitop", &[Word("not"), Key, Key]),
        row(
            "bitfield",
            &[
                Key,
                Several(&[
                    &[Word("get"), FIELD, FIELD_OFFSET],
                    &[Word("set"), FIELD, FIELD_OFFSET, FIELD_VALUE],
                    &[Word("incrby"), FIELD, FIELD_OFFSET, FIELD_VALUE],
                    &[
                        Word("overflow"),
                        Text(&["wrap", "sat", "fail", "x"]),
                        OneOf(&[
                            &[Word("set"), FIELD, FIELD_OFFSET, FIELD_VALUE],
                            &[Word("incrby"), FIELD, FIELD_OFFSET, FIELD_VALUE],
                        ]),
                    ],
                ]),
            ],
        )
        // Saturated to the greatest number.
        .without("-9223372036854775808"),
        row("bitfield_ro", &[Key, Several(&[&[Word("get"), FIELD, FIELD_OFFSET]])]),
    ],
    final_reads: &[],
};

#[test]
fn replies_about_bitmaps_equal_those_of_redis() {
    compare_with_redis(&GROUP);
}
