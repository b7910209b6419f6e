//! The memory that LuaJIT writes machine code to: where the system forbids it, or refuses it later,
//! scripts run without compiled code, and the server goes on.
//!
//! LuaJIT itself ends the process silently when the protection of this memory cannot be changed
//! (`mcode_protfail` in `lj_mcode.c`).
#![allow(unsafe_code, reason = "LuaJIT calls the function for such failures by its address")]

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::io;
use std::sync::{Once, OnceLock};

use mlua::{Function, Lua, Result, Table, ffi};
use pinion_engine::{executable_memory, stderr};

use crate::limits::PROTECTION_FAILURES_MAX;

/// What LuaJIT says when the protection of machine code cannot be changed (`LJ_ERR_JITPROT`).
const PROTECTION_FAILED: &[u8] = b"runtime code generation failed";

/// Prepares a fresh VM, before it has run anything. Lua 5.4 compiles to no machine code.
///
/// # Errors
/// Out of memory.
pub(crate) fn prepare(lua: &Lua) -> Result<()> {
    static PROBED: OnceLock<Option<io::Error>> = OnceLock::new();
    static LOGGED: Once = Once::new();
    if !cfg!(feature = "luajit") {
        return Ok(());
    }
    if let Some(reason) = PROBED.get_or_init(|| executable_memory::probe().err()) {
        LOGGED.call_once(|| {
            stderr::line(format_args!(
                "pinion: executable memory is not available ({reason}), Lua runs without its JIT \
                 compiler"
            ));
        });
        let loaded: Table = lua.named_registry_value("_LOADED")?;
        loaded.raw_get::<Table>("jit")?.raw_get::<Function>("off")?.call::<()>(())?;
    }
    // SAFETY: the function has the signature that LuaJIT calls, and outlives every VM.
    unsafe {
        lua.exec_raw::<()>((), |state| {
            ffi::lua_atpanic(state, on_panic);
        })
    }
}

/// `LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF` (luajit.h).
#[cfg(feature = "luajit")]
const ENGINE_OFF: c_int = 0;

// SAFETY: the signature is that of luajit.h.
#[cfg(feature = "luajit")]
unsafe extern "C-unwind" {
    /// Switches the compiler of a VM on and off (luajit.h).
    fn luaJIT_setmode(state: *mut ffi::lua_State, index: c_int, mode: c_int) -> c_int;
}

thread_local! {
    /// Failures in the current turn of the VM that runs on this thread.
    static FAILURES: Cell<u32> = const { Cell::new(0) };
}

/// Notes that a VM of this thread begins to run: failures before that are over.
pub(crate) fn begin_turn() {
    FAILURES.set(0);
}

/// LuaJIT calls this when it cannot go on, and ends the process if it returns.
///
/// When it cannot make machine code writable again, for want of memory, raising an error gives up
/// what is being compiled, which LuaJIT expects at this point. The VM compiles nothing more; the
/// code that it has stays in use.
///
/// # Safety
/// `state` is a Lua state with the message on top of its stack.
unsafe extern "C-unwind" fn on_panic(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: the state is valid, as this function's condition says; the text is used before
    // anything is popped.
    let text = unsafe {
        let text = ffi::lua_tostring(state, -1);
        if text.is_null() { c"an error without a text" } else { CStr::from_ptr(text) }
    };
    let failures = FAILURES.get() + 1;
    FAILURES.set(failures);
    if text.to_bytes().starts_with(PROTECTION_FAILED) && failures <= PROTECTION_FAILURES_MAX {
        // SAFETY: LuaJIT itself switches the compiler off at this point when it gets no memory. The
        // trace compiler runs protected, there is a message on the stack, and nothing in this frame
        // needs to be dropped.
        unsafe {
            #[cfg(feature = "luajit")]
            luaJIT_setmode(state, 0, ENGINE_OFF);
            ffi::lua_error(state)
        }
    }
    stderr::line(format_args!("pinion: lua: {}: the process ends", text.to_string_lossy()));
    0
}
