//! The stack of the thread that a turn of a script has used.
//!
//! Lua counts the stack of its own functions. Where a function of C calls one of the script, as
//! `table.sort` does, each level also uses stack of the thread, which LuaJIT does not count, and in
//! each coroutine there can be as many levels again. Every function that calls back in this way
//! checks the depth here first.

use std::cell::Cell;
use std::hint::black_box;
use std::ptr;

use crate::limits::SCRIPT_STACK_MAX_BYTES;

thread_local! {
    /// The address of the stack when the turn began; 0 before the first one.
    static BEGAN_AT: Cell<usize> = const { Cell::new(0) };
}

/// Records the begin of a turn in this thread.
pub(crate) fn begin() {
    BEGAN_AT.set(here());
}

/// Returns whether the turn that this thread runs has used as much stack as it may.
pub(crate) fn is_deep() -> bool {
    let began_at = BEGAN_AT.get();
    began_at != 0 && began_at.abs_diff(here()) > SCRIPT_STACK_MAX_BYTES
}

/// Returns the address of a variable on the stack.
#[inline(never)]
fn here() -> usize {
    let mark = 0_u8;
    ptr::from_ref(black_box(&mark)).addr()
}
