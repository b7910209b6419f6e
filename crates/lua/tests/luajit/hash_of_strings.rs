//! Strings, of which LuaJIT has each only once: whatever strings somebody sends, each is found
//! among the others after a few of them.

use super::vm::{longest_chain, open};

/// Strings of a chain that are looked at before all bytes of each count.
const CHAIN_MAX: usize = 80;

/// LuaJIT looks at four places of a string first. These strings agree there.
#[test]
fn strings_that_agree_where_luajit_looks_do_not_collide() {
    for bytes in [32, 64, 200, 1000] {
        let lua = open();
        let kept = lua.create_table().expect("a table");
        for number in 0..100_000_u32 {
            let mut text = vec![b'x'; bytes];
            // Not in the first or the last four bytes, nor around a half or a quarter.
            let at = bytes * 3 / 4 - 2;
            text[at - 2..at + 3].copy_from_slice(format!("{number:05x}").as_bytes());
            kept.raw_push(lua.create_string(text).expect("a string")).expect("kept");
        }
        let longest = longest_chain(&lua);
        assert!(longest <= CHAIN_MAX, "{bytes} bytes: a chain of {longest}");
    }
}

/// Texts with a counter, as names and numbers are.
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
