//! The functions of the host by which a main script registers routes and other handlers.

use std::rc::Rc;

use mlua::{Lua, LuaString, Result, Table};

use super::host_functions::{Handler, Host, harmless, or_why};
use crate::router;

/// The error of a registration in a handler.
const STARTED: &str =
    "register routes and middleware while the main script starts, not in a handler";

/// Adds these functions to the table that the prelude receives.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let of = Rc::clone(host);
    let route = move |_: &Lua, (method, pattern): (Option<String>, LuaString)| {
        if of.has_started() {
            return Ok((None, Some(STARTED.to_owned())));
        }
        let pattern = pattern.to_string_lossy();
        let added = of.router.borrow_mut().add(method.as_deref(), &pattern);
        Ok(or_why(added.map_err(|error| format!("{pattern:?}: {error}"))))
    };
    table.raw_set("route", lua.create_function(route)?)?;
    let foreign = |_: &Lua, pattern: LuaString| {
        let pattern = pattern.to_string_lossy();
        let found = router::foreign_parameter(&pattern);
        Ok(found.map_or((None, None), |(text, instead)| (Some(text.to_owned()), Some(instead))))
    };
    table.raw_set("foreign_parameter", lua.create_function(foreign)?)?;
    let of = Rc::clone(host);
    let warn = move |_: &Lua, text: LuaString| {
        of.warnings.borrow_mut().push(harmless(&text.to_string_lossy()));
        Ok(())
    };
    table.raw_set("warn", lua.create_function(warn)?)?;
    let of = Rc::clone(host);
    let check_group_prefix = move |_: &Lua, prefix: LuaString| {
        if of.has_started() {
            return Ok(Some(STARTED.to_owned()));
        }
        let prefix = prefix.to_string_lossy();
        Ok(router::check_prefix(&prefix).err().map(|error| format!("{prefix:?}: {error}")))
    };
    table.raw_set("check_group_prefix", lua.create_function(check_group_prefix)?)?;
    let is_below = |_: &Lua, (prefix, path): (LuaString, LuaString)| {
        Ok(router::is_below_prefix(&prefix.to_string_lossy(), &path.to_string_lossy()))
    };
    table.raw_set("is_below", lua.create_function(is_below)?)?;
    let of = Rc::clone(host);
    let register_special_handler = move |_: &Lua, name: LuaString| {
        if of.has_started() {
            return Ok(Some(STARTED));
        }
        for handler in Handler::ALL {
            if *handler.name().as_bytes() == *name.as_bytes() {
                of.specials.set(of.specials.get() | handler.bit());
            }
        }
        Ok(None)
    };
    table.raw_set("register_special_handler", lua.create_function(register_special_handler)?)
}
