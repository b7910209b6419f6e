//! How much of its thread's stack a turn of a script has taken.
//!
//! Lua counts what its own functions take. Where a function of C calls one of the script, as
//! `table.sort` does, each level also takes stack of the thread, which LuaJIT does not count, and
//! in each coroutine there can be as many levels again. Whatever calls back like that asks here
//! first.

use std::cell::Cell;
use std::hint::black_box;
use std::ptr;

use crate::limits::SCRIPT_STACK_MAX_BYTES;

thread_local! {
    /// Where the stack stood when the turn began; 0 before the first one.
    static BEGAN_AT: Cell<usize> = const { Cell::new(0) };
}

/// A turn of a script begins in this thread.
pub(crate) fn begin() {
    BEGAN_AT.set(here());
}

/// Whether the turn that this thread runs has taken as much stack as it may.
pub(crate) fn is_deep() -> bool {
    let began_at = BEGAN_AT.get();
    began_at != 0 && began_at.abs_diff(here()) > SCRIPT_STACK_MAX_BYTES
}

/// The address of something that stands on the stack now.
#[inline(never)]
fn here() -> usize {
    let mark = 0_u8;
    ptr::from_ref(black_box(&mark)).addr()
}
