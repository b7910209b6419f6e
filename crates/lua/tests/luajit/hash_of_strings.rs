//! Strings, which LuaJIT stores only once: whatever strings a client sends, each is found after
//! comparing a few others.

use super::inspectable_vm::{longest_chain, open};

/// The length of a chain from which on all bytes of each string are hashed.
const CHAIN_MAX: usize = 80;

/// LuaJIT hashes four positions of a string first. These strings are equal there.
#[test]
fn strings_equal_at_the_hashed_positions_do_not_collide() {
    for bytes in [32, 64, 200, 1000] {
        let lua = open();
        let kept = lua.create_table().expect("a table");
        for number in 0..100_000_u32 {
            let mut text = vec![b'x'; bytes];
            // The difference is neither in the first or the last four bytes, nor around a half or a
            // quarter.
            let at = bytes * 3 / 4 - 2;
            text[at - 2..at + 3].copy_from_slice(format!("{number:05x}").as_bytes());
            kept.raw_push(lua.create_string(text).expect("a string")).expect("kept");
        }
        let longest = longest_chain(&lua);
        assert!(longest <= CHAIN_MAX, "{bytes} bytes: a chain of {longest}");
    }
}

/// Texts with a counter, as in names and numbers.
#[test]
fn short_strings_do_not_collide() {
    let lua = open();
    let kept = lua.create_table().expect("a table");
    for number in 0..200_000 {
        kept.raw_push(format!("{number}")).expect("kept");
        kept.raw_push(format!("key[{number:08}]")).expect("kept");
    }
    let longest = longest_chain(&lua);
    assert!(longest <= CHAIN_MAX, "a chain of {longest}");
}
