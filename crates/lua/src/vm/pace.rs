//! How often a VM collects its garbage.
//!
//! LuaJIT collects nothing when there is no memory left, so that a request could meet its limit by
//! what it has let go of long ago: left alone, a collector lets as much garbage come up as there is
//! memory in use. Where that is much, it has to be quicker.

use std::cell::Cell;

use mlua::Lua;
use mlua::state::{GcIncParams, GcMode};

use crate::limits::{COLLECTION_STEPS, GARBAGE_SHARE};

/// What a collector does by itself, in hundredths: it begins anew when there is twice as much as
/// it has left, and goes through twice as much as is made meanwhile.
const USUAL_PERCENT: usize = 200;

/// Bytes that one step of LuaJIT's collector goes through, for each hundredth.
const STEP_BYTES_PER_PERCENT: usize = 10;

/// The pace of one VM's collector.
#[derive(Default)]
pub(super) struct Pace {
    /// The bytes in use when it was set last; 0 as long as it is the usual one.
    set_at: Cell<usize>,
}

impl Pace {
    /// After a turn, with so many bytes in use, and so many that a request may take.
    #[inline]
    pub(super) fn look(&self, lua: &Lua, used: usize, memory_bytes: usize) {
        // Lua 5.4 collects whatever there is before it gives up.
        if cfg!(feature = "luajit") {
            let garbage = memory_bytes / GARBAGE_SHARE;
            if used.abs_diff(self.set_at.get()) > garbage {
                self.set(lua, used, garbage);
            }
        }
    }

    /// Has the next collection begin when so many bytes have been made, and not take long.
    #[cold]
    fn set(&self, lua: &Lua, used: usize, garbage: usize) {
        self.set_at.set(used);
        let pause = (100 + garbage / (used / 100).max(1)).min(USUAL_PERCENT);
        let step = (used / COLLECTION_STEPS / STEP_BYTES_PER_PERCENT).max(USUAL_PERCENT);
        let percent = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        let pace = GcIncParams::default().pause(percent(pause)).step_multiplier(percent(step));
        lua.gc_set_mode(GcMode::Incremental(pace));
        // One begins now: when the next one was to be was settled at the end of the last.
        lua.gc_restart();
    }
}
