//! The memory into which LuaJIT writes machine code. Where the system forbids it, or refuses it
//! later, scripts run without compiled code, and the server goes on.
//!
//! The probe is here; LuaJIT handles later refusals (`crates/luajit`): it switches the compiler of
//! the VM off and drops its compiled code.
#![allow(unsafe_code, reason = "LuaJIT calls the function for fatal errors by its address")]

use std::ffi::{CStr, c_int};
use std::io;
use std::sync::{Once, OnceLock};

use mlua::{Function, Lua, Result, Table, ffi};
use pinion_engine::{executable_memory_probe, stderr};

/// Prepares a fresh VM, before it has run anything. Lua 5.4 compiles to no machine code.
///
/// # Errors
/// Fails when memory runs out.
pub(crate) fn prepare(lua: &Lua) -> Result<()> {
    static PROBED: OnceLock<Option<io::Error>> = OnceLock::new();
    static LOGGED: Once = Once::new();
    if !cfg!(feature = "luajit") {
        return Ok(());
    }
    if let Some(reason) = PROBED.get_or_init(|| executable_memory_probe::probe().err()) {
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

/// LuaJIT calls this for an error outside of every protected call, and ends the process when it
/// returns. Nothing is known to cause one.
///
/// # Safety
/// `state` must be a Lua state with the message on top of its stack.
unsafe extern "C-unwind" fn on_panic(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: the state is valid, as the condition of this function demands; the text is used
    // before any value is popped.
    let text = unsafe {
        let text = ffi::lua_tostring(state, -1);
        if text.is_null() { c"an error without a text" } else { CStr::from_ptr(text) }
    };
    stderr::line(format_args!("pinion: lua: {}: the process ends", text.to_string_lossy()));
    0
}
