//! The functions of the host for sessions of visitors, which `session.lua` uses.

use std::rc::Rc;

use mlua::{Lua, LuaString, Result, Table};

use super::host_functions::{Host, OVER};
use crate::library::limits::KEY_MIN_BYTES;
use crate::limits::{
    SESSION_AGE_SECONDS, SESSION_IDLE_SECONDS, SESSION_MAX_BYTES, SESSION_NAME_MAX_BYTES,
    SESSION_SECONDS_MAX, SESSION_VALUE_MAX_BYTES, SESSION_VALUES_MAX,
};
use crate::task::TaskId;

/// Adds these functions to the table that the prelude receives.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    table.raw_set("SESSION_IDLE_SECONDS", SESSION_IDLE_SECONDS)?;
    table.raw_set("SESSION_AGE_SECONDS", SESSION_AGE_SECONDS)?;
    table.raw_set("SESSION_SECONDS_MAX", SESSION_SECONDS_MAX)?;
    table.raw_set("SESSION_NAME_MAX_BYTES", SESSION_NAME_MAX_BYTES)?;
    table.raw_set("SESSION_VALUE_MAX_BYTES", SESSION_VALUE_MAX_BYTES)?;
    table.raw_set("SESSION_VALUES_MAX", SESSION_VALUES_MAX)?;
    table.raw_set("SESSION_MAX_BYTES", SESSION_MAX_BYTES)?;
    table.raw_set("SESSION_KEY_MIN_BYTES", KEY_MIN_BYTES)?;
    let of = Rc::clone(host);
    let now = move |_: &Lua, ()| Ok(of.clock.now().unix_ms / 1000);
    table.raw_set("unix_seconds", lua.create_function(now)?)?;
    let of = Rc::clone(host);
    type Cookie = (TaskId, LuaString, LuaString);
    let cookie = move |_: &Lua, (id, name, text): Cookie| -> Result<Option<String>> {
        let mut tasks = of.tasks.borrow_mut();
        let Some(task) = tasks.request(id) else { return Ok(Some(OVER.to_owned())) };
        task.response.remove_cookie(&name.as_bytes());
        Ok(task.response.field(b"Set-Cookie", &text.as_bytes(), false).err())
    };
    table.raw_set("set_session_cookie", lua.create_function(cookie)?)?;
    let chunk = lua.load(include_str!("../session.lua")).set_name("=pinion");
    table.raw_set("session", chunk.into_function()?)
}
