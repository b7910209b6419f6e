//! The functions of the host for the head of a request.

use std::rc::Rc;

use mlua::{Lua, LuaString, MultiValue, Result, Table, Value};

use super::host_functions::{Host, OVER, relaxed};
use crate::body::urlencoded;
use crate::task::TaskId;

/// Adds these functions to the table that the prelude receives.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let of = Rc::clone(host);
    let request = move |lua: &Lua, (id, key): (TaskId, Value)| -> Result<MultiValue> {
        let Value::String(key) = key else { return Ok(MultiValue::new()) };
        relaxed(lua, || {
            let (router, mut tasks) = (of.router.borrow(), of.tasks.borrow_mut());
            let values = match tasks.request(id) {
                Some(task) => [task.request.value(lua, &router, &key.as_bytes())?, Value::Nil],
                None => [Value::Nil, Value::String(lua.create_string(OVER)?)],
            };
            Ok(MultiValue::from_iter(values))
        })
    };
    table.raw_set("request", lua.create_function(request)?)?;
    let of = Rc::clone(host);
    let field = move |lua: &Lua, (id, name): (TaskId, LuaString)| -> Result<_> {
        relaxed(lua, || match of.tasks.borrow_mut().request(id) {
            Some(task) => Ok((task.request.field(lua, &name.as_bytes())?, None)),
            None => Ok((None, Some(OVER))),
        })
    };
    table.raw_set("request_field", lua.create_function(field)?)?;
    let parse = |lua: &Lua, text: LuaString| urlencoded::table(lua, &text.as_bytes());
    table.raw_set("parse_form", lua.create_function(parse)?)
}
