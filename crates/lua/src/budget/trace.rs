//! Where a script is: what a log says of a turn that did not end by an error of the script, which
//! would know its place itself. It is found without memory of Lua, which may be used up.

use std::cell::RefCell;
use std::ffi::{CStr, c_char};
use std::fmt::Write as _;

use mlua::{Lua, Thread as Coroutine, ffi};

use crate::limits::TRACE_FRAMES_MAX;

thread_local! {
    /// The stack where the turn of this thread has met the end of its budget.
    static STRUCK: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The turn that runs has used something up, and this is its stack. Only the first time counts:
/// what catches the error meets the same end again.
pub(crate) fn strike(stack: impl FnOnce() -> String) {
    STRUCK.with_borrow_mut(|struck| {
        struck.get_or_insert_with(stack);
    });
}

/// The stack of [`strike`] since it was asked for last.
pub(crate) fn struck() -> Option<String> {
    STRUCK.take()
}

/// The stack of a coroutine that does not run: a line for each function, the innermost first, as
/// Lua writes them.
pub(crate) fn stack(coroutine: &Coroutine) -> String {
    // SAFETY: the coroutine is there, of this thread and does not run.
    unsafe { stack_of(coroutine.state()) }
}

/// The stack of a function that runs and has been lent to scripts; nothing without memory for it.
pub(crate) fn running(lua: &Lua) -> String {
    let trace = lua.traceback(None, 1).map(|trace| trace.to_string_lossy()).unwrap_or_default();
    trace.split_once('\n').map(|(_, lines)| lines.to_owned()).unwrap_or_default()
}

/// The stack of a state.
///
/// # Safety
/// It is there and of this thread.
pub(super) unsafe fn stack_of(lua: *mut ffi::lua_State) -> String {
    let mut text = String::new();
    for level in 0..TRACE_FRAMES_MAX {
        // SAFETY: the caller's; a record of zeros is a valid one, and looking up source, line and
        // name takes nothing from the VM. Its texts are there as long as the function is.
        unsafe {
            let mut frame: ffi::lua_Debug = std::mem::zeroed();
            if ffi::lua_getstack(lua, level, &raw mut frame) == 0
                || ffi::lua_getinfo(lua, c"Sln".as_ptr(), &raw mut frame) == 0
            {
                break;
            }
            line(&frame, &mut text);
        }
    }
    text
}

/// Writes the line of one function.
///
/// # Safety
/// The record was filled by Lua.
unsafe fn line(frame: &ffi::lua_Debug, text: &mut String) {
    // SAFETY: the caller's: they are null or texts of C.
    let [source, what, name] =
        unsafe { [frame.short_src.as_ptr(), frame.what, frame.name].map(|text| shown(text)) };
    let first = frame.linedefined;
    // Of code that it has compiled LuaJIT does not always know the line: the first one of the
    // function stands for it.
    let line = [frame.currentline, first].into_iter().find(|line| *line > 0);
    let place = line.map_or(source.clone(), |line| format!("{source}:{line}"));
    let _always = match (&*what, &*name) {
        ("main", _) => writeln!(text, "\t{place}: in main chunk"),
        (_, "") => writeln!(text, "\t{place}: in function <{source}:{first}>"),
        (_, name) => writeln!(text, "\t{place}: in function '{name}'"),
    };
}

/// A text of C; an empty one in the place of none.
///
/// # Safety
/// As for [`CStr::from_ptr`], but for null.
unsafe fn shown(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
