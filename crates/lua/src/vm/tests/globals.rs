//! What a script finds when it starts: the sandbox, and what the runtime puts into it.

use std::collections::BTreeSet;

use mlua::{Table, Value};

use super::*;
use crate::sandbox::LIBRARIES;

/// Globals of both Luas.
const GLOBALS: &str = "_G _VERSION assert collectgarbage coroutine debug error getmetatable ipairs \
    load math next os pairs pcall pinion print rawequal rawget rawset require select setmetatable \
    string table tonumber tostring type unpack xpcall";

/// Globals of one of them.
const GLOBALS_OF_ONE: &str =
    if cfg!(feature = "luajit") { "bit loadstring" } else { "rawlen utf8" };

const PINION: &str = "any cached codec count cron crypto delete ending every fetch fs gather get \
    group head json keep log not_found on on_error options password patch post process put query \
    route secret send session sleep spawn store subscribe use version wait";

fn names(table: &Table) -> BTreeSet<String> {
    table.pairs::<String, Value>().map(|pair| pair.expect("a name").0).collect()
}

/// What the runtime would leave there by mistake stands in no list.
#[test]
fn a_new_script_has_exactly_the_listed_globals() {
    let room = Room::new();
    let globals = room.vm.lua.globals();
    let listed = |names: &[&str]| -> BTreeSet<String> {
        names.iter().flat_map(|names| names.split_whitespace()).map(str::to_owned).collect()
    };
    assert_eq!(names(&globals), listed(&[GLOBALS, GLOBALS_OF_ONE]));
    assert!(globals.metatable().is_none());
    let table = |name: &str| globals.raw_get::<Table>(name).expect(name);
    assert_eq!(names(&table("pinion")), listed(&[PINION]));
    assert_eq!(names(&table("debug")), listed(&["traceback"]));
    for (library, members) in LIBRARIES {
        let Ok(Some(library)) = globals.raw_get::<Option<Table>>(*library) else { continue };
        let more: Vec<_> = names(&library).difference(&listed(members)).cloned().collect();
        assert!(more.is_empty(), "{more:?}");
    }
}
