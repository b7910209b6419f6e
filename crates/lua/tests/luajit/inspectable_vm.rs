//! A VM whose compiler and hash tables can be looked into.

use std::ffi::c_int;

use mlua::{Function, Lua, Table, ffi};

// SAFETY: the signatures are those of crates/luajit/patches.
unsafe extern "C-unwind" {
    /// Returns the number of nodes that a lookup of each key in the hash part of a table visits, in
    /// total.
    fn luaJIT_lookup_steps(state: *mut ffi::lua_State, index: c_int, limit: usize) -> usize;
    /// Returns the number of strings in the longest chain of the table of all strings.
    fn luaJIT_longest_chain(state: *mut ffi::lua_State) -> usize;
}

/// Returns a VM with the compiler on, and all that belongs to it.
pub(crate) fn open() -> Lua {
    let lua = pinion_lua::sandbox::open().expect("a VM");
    assert!(
        jit(&lua).get::<Function>("status").and_then(|f| f.call::<bool>(())).expect("a status")
    );
    lua
}

/// LuaJIT's own library, which no script reaches.
pub(crate) fn jit(lua: &Lua) -> Table {
    let loaded: Table = lua.named_registry_value("_LOADED").expect("the registry");
    loaded.get("jit").expect("the compiler")
}

/// Numbers that traces may have here: that of one is free again when its function is collected.
const TRACE_NUMBERS: usize = 1000;

/// Returns the number of traces.
pub(crate) fn traces(lua: &Lua) -> usize {
    let libraries: Table = lua.named_registry_value("_PRELOAD").expect("the registry");
    let open: Function = libraries.raw_get("jit.util").expect("a function");
    let trace_info: Function =
        open.call::<Table>(()).expect("opened").get("traceinfo").expect("a function");
    let is_there = |at: &usize| trace_info.call::<Option<Table>>(*at).expect("called").is_some();
    (1..TRACE_NUMBERS).filter(is_there).count()
}

/// Returns the number of nodes that a lookup of each key of a table visits; a little more than
/// `limit` when there are more.
pub(crate) fn lookup_steps(lua: &Lua, table: &Table, limit: usize) -> usize {
    let mut steps = 0;
    // SAFETY: the table is the only value on the stack, and nothing is pushed.
    unsafe {
        lua.exec_raw::<()>(table, |state| steps = luaJIT_lookup_steps(state, -1, limit))
            .expect("counted");
    }
    steps
}

/// Returns the number of strings in the longest chain of a VM.
pub(crate) fn longest_chain(lua: &Lua) -> usize {
    let mut strings = 0;
    // SAFETY: nothing is pushed.
    unsafe {
        lua.exec_raw::<()>((), |state| strings = luaJIT_longest_chain(state)).expect("counted");
    }
    strings
}
