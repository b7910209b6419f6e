//! The functions of the host for the head of a response: its status, its fields and its cookies.

use std::rc::Rc;

use mlua::{Lua, LuaString, Result, Table, Value};

use super::host_functions::{Host, OVER, Outcome, or_why};
use crate::cookie;
use crate::task::TaskId;

/// Adds these functions to the table that the prelude receives.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let of = Rc::clone(host);
    let status = move |_: &Lua, (id, status): (TaskId, Value)| -> Result<Option<String>> {
        let mut tasks = of.tasks.borrow_mut();
        let Some(task) = tasks.request(id) else { return Ok(Some(OVER.to_owned())) };
        let number = status.as_f64().or_else(|| status.as_i64().map(|status| status as f64));
        Ok(match number {
            Some(number) => task.response.set_status(number).err(),
            None => Some(format!(
                "bad argument #1 to 'res:status' (number expected, got {})",
                status.type_name()
            )),
        })
    };
    table.raw_set("set_status", lua.create_function(status)?)?;
    let of = Rc::clone(host);
    type Line = (TaskId, LuaString, Option<LuaString>, bool);
    let field = move |_: &Lua, (id, name, value, is_more): Line| -> Result<Option<String>> {
        let mut tasks = of.tasks.borrow_mut();
        let Some(task) = tasks.request(id) else { return Ok(Some(OVER.to_owned())) };
        let Some(value) = value else {
            task.response.remove(&name.as_bytes());
            return Ok(None);
        };
        Ok(task.response.field(&name.as_bytes(), &value.as_bytes(), !is_more).err())
    };
    table.raw_set("set_field", lua.create_function(field)?)?;
    let of = Rc::clone(host);
    let fields = move |_: &Lua, id: TaskId| {
        Ok(of.tasks.borrow_mut().request(id).is_some_and(|task| task.response.has_fields()))
    };
    table.raw_set("has_fields", lua.create_function(fields)?)?;
    let of = Rc::clone(host);
    let compressed = move |_: &Lua, (id, is_wanted): (TaskId, bool)| {
        let mut tasks = of.tasks.borrow_mut();
        let Some(task) = tasks.request(id) else { return Ok(Some(OVER)) };
        task.is_compressed = is_wanted;
        Ok(None)
    };
    table.raw_set("set_compressed", lua.create_function(compressed)?)?;
    type Cookie = (Value, Value, Option<Table>);
    let cookie = |_: &Lua, (name, value, options): Cookie| -> Result<Outcome<String>> {
        Ok(or_why(cookie::text(&name, &value, options.as_ref())))
    };
    table.raw_set("cookie", lua.create_function(cookie)?)
}
