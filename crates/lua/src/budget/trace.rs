//! Where a script is: what a log says of a turn that did not end by an error of the script, which
//! would know its place itself. It is found without memory of Lua, which may be used up.

use std::cell::RefCell;

use mlua::Lua;

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

/// The stack of a function that runs and has been lent to scripts; nothing without memory for it.
pub(crate) fn running(lua: &Lua) -> String {
    let trace = lua.traceback(None, 1).map(|trace| trace.to_string_lossy()).unwrap_or_default();
    trace.split_once('\n').map(|(_, lines)| lines.to_owned()).unwrap_or_default()
}
