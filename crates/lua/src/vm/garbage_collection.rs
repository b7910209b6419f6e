//! The pace of garbage collection in a VM.
//!
//! LuaJIT does not collect when memory runs out, so that a request could meet its limit because of
//! garbage that it has dropped long ago: by default, a collector allows as much garbage as there is
//! memory in use. Where that is much, it has to be quicker.

use std::cell::Cell;

use mlua::Lua;
use mlua::state::{GcIncParams, GcMode};

use crate::limits::{COLLECTION_STEPS, GARBAGE_SHARE};

/// The default pace of a collector, in hundredths: it begins anew when memory has doubled since its
/// last end, and goes through twice as much as is allocated meanwhile.
const USUAL_PERCENT: usize = 200;

/// Bytes that one step of LuaJIT's collector goes through, for each hundredth.
const STEP_BYTES_PER_PERCENT: usize = 10;

/// The pace of one VM's collector.
#[derive(Default)]
pub(super) struct CollectorPace {
    /// The bytes in use when the pace was set last; 0 as long as it is the default.
    set_at: Cell<usize>,
}

impl CollectorPace {
    /// Sets the pace after a turn, by the bytes in use and the memory that a request may take.
    #[inline]
    pub(super) fn adjust(&self, lua: &Lua, used: usize, memory_bytes: usize) {
        // Lua 5.4 collects all garbage before it fails.
        if cfg!(feature = "luajit") {
            let garbage = memory_bytes / GARBAGE_SHARE;
            if used.abs_diff(self.set_at.get()) > garbage {
                self.set(lua, used, garbage);
            }
        }
    }

    /// Lets the next collection begin when so many bytes have been allocated, and end soon.
    #[cold]
    fn set(&self, lua: &Lua, used: usize, garbage: usize) {
        self.set_at.set(used);
        let pause = (100 + garbage / (used / 100).max(1)).min(USUAL_PERCENT);
        let step = (used / COLLECTION_STEPS / STEP_BYTES_PER_PERCENT).max(USUAL_PERCENT);
        let percent = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        let pace = GcIncParams::default().pause(percent(pause)).step_multiplier(percent(step));
        lua.gc_set_mode(GcMode::Incremental(pace));
        // A collection begins now: the time of the next one was fixed at the end of the last.
        lua.gc_restart();
    }
}
