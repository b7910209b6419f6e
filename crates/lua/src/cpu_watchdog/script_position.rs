//! The position of a script in the log, for a turn that did not end by an error of the script,
//! which would know its position itself. It is found without memory of Lua, which may be used up.

use std::cell::RefCell;

use mlua::Lua;

thread_local! {
    /// The stack where the turn of this thread has met the end of its budget.
    static STRUCK: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Records the stack of the running turn, which has met the end of its budget. Only the first call
/// counts: code that catches the error meets the same end again.
pub(crate) fn strike(stack: impl FnOnce() -> String) {
    STRUCK.with_borrow_mut(|struck| {
        struck.get_or_insert_with(stack);
    });
}

/// Takes the stack that [`strike`] has recorded since the last call.
pub(crate) fn struck() -> Option<String> {
    STRUCK.take()
}

/// Returns the stack of a running function of the host; an empty text without memory for it.
pub(crate) fn running(lua: &Lua) -> String {
    let trace = lua.traceback(None, 1).map(|trace| trace.to_string_lossy()).unwrap_or_default();
    trace.split_once('\n').map(|(_, lines)| lines.to_owned()).unwrap_or_default()
}
