//! Nested coroutines in Lua 5.4, where a hook belongs to a coroutine and not to the VM: a turn can
//! be stopped at any point only if the running coroutine is always known. LuaJIT does not need
//! this.

use super::{MASK, SLOT, stop};
use mlua::{Function, Lua, ffi};
use std::ffi::{CStr, c_int};
use std::sync::atomic::Ordering;

/// Returns the functions that replace `coroutine.resume` and `coroutine.close`.
///
/// # Errors
/// Fails when memory runs out.
pub(crate) fn coroutines(lua: &Lua) -> mlua::Result<(Function, Function)> {
    // Lua makes this text at a point where an error would end the process, unless it has it
    // already.
    lua.set_named_registry_value("pinion.overflow", "C stack overflow")?;
    // SAFETY: both do only actions that functions of Lua may do, and have nothing to drop when an
    // error unwinds.
    unsafe { Ok((lua.create_c_function(resume)?, lua.create_c_function(close)?)) }
}

/// Records that `lua` is the running coroutine of this thread.
///
/// # Safety
/// The coroutine must belong to this thread and live until another one runs.
unsafe fn runs(lua: *mut ffi::lua_State) {
    // SAFETY: as in the signal handler.
    let Some(slot) = (unsafe { SLOT.get().as_ref() }) else { return };
    slot.lua.store(lua, Ordering::Relaxed);
    if slot.is_doomed() {
        // SAFETY: the caller guarantees it.
        unsafe { ffi::lua_sethook(lua, Some(stop), MASK, 1) };
    }
}

/// `resume(coroutine, ...)`. No error is raised between the two calls that record the running
/// coroutine.
///
/// # Safety
/// Only Lua may call it, in the thread of its VM.
unsafe extern "C-unwind" fn resume(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: the coroutine is on the stack of `lua`, and so lives; room on the stacks is reserved
    // before it is used.
    unsafe {
        let inner = ffi::lua_tothread(lua, 1);
        let count = ffi::lua_gettop(lua) - 1;
        if inner.is_null() || is_active(lua, inner) {
            return refuse(lua, c"cannot resume non-suspended coroutine");
        }
        let is_suspended = match ffi::lua_status(inner) {
            ffi::LUA_OK => ffi::lua_gettop(inner) > 0,
            status => status == ffi::LUA_YIELD,
        };
        if !is_suspended {
            return refuse(lua, c"cannot resume dead coroutine");
        }
        if ffi::lua_checkstack(inner, count) == 0 {
            return refuse(lua, c"too many arguments to resume");
        }
        ffi::lua_xmove(lua, inner, count);
        let mut results = 0;
        runs(inner);
        let status = ffi::lua_resume(inner, lua, count, &raw mut results);
        runs(lua);
        let is_well = matches!(status, ffi::LUA_OK | ffi::LUA_YIELD);
        let results = if is_well { results } else { 1 };
        if ffi::lua_checkstack(lua, results + 1) == 0 {
            ffi::lua_pop(inner, results);
            return refuse(lua, c"too many results to resume");
        }
        ffi::lua_pushboolean(lua, c_int::from(is_well));
        ffi::lua_xmove(inner, lua, results);
        results + 1
    }
}

/// `close(coroutine)`: its variables to be closed run in it.
///
/// # Safety
/// Only Lua may call it, in the thread of its VM.
unsafe extern "C-unwind" fn close(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: as for `resume`; a stack always has enough room for a function of C.
    unsafe {
        let inner = ffi::lua_tothread(lua, 1);
        if inner.is_null() || is_active(lua, inner) {
            return refuse(lua, c"cannot close a coroutine that runs");
        }
        runs(inner);
        let status = ffi::lua_closethread(inner, lua);
        runs(lua);
        ffi::lua_pushboolean(lua, c_int::from(status == ffi::LUA_OK));
        if status == ffi::LUA_OK {
            return 1;
        }
        ffi::lua_xmove(inner, lua, 1);
        2
    }
}

/// Returns whether `inner` runs, or has resumed the running coroutine.
///
/// # Safety
/// Both must be alive and belong to this thread.
unsafe fn is_active(lua: *mut ffi::lua_State, inner: *mut ffi::lua_State) -> bool {
    // SAFETY: the caller guarantees it; a record of zeros is a valid one.
    unsafe {
        let mut frame: ffi::lua_Debug = std::mem::zeroed();
        let has_frames = ffi::lua_getstack(inner, 0, &raw mut frame) != 0;
        inner == lua || (ffi::lua_status(inner) == ffi::LUA_OK && has_frames)
    }
}

/// Returns false and the reason to Lua.
///
/// # Safety
/// Only functions that Lua calls may use it.
unsafe fn refuse(lua: *mut ffi::lua_State, why: &CStr) -> c_int {
    // SAFETY: the caller guarantees it; a stack always has enough room for a function of C.
    unsafe {
        ffi::lua_pushboolean(lua, 0);
        ffi::lua_pushstring(lua, why.as_ptr());
    }
    2
}
