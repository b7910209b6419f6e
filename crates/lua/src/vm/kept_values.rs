//! The functions of the host for values that outlive a reload: `pinion.keep` and the counters of
//! `pinion.count`.

use std::rc::Rc;

use mlua::{Lua, LuaString, Result, Table, Value};

use super::host_functions::{Host, or_why};
use crate::copied_value::CopiedValue;

/// Adds these functions to the table that the prelude receives.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let of = Rc::clone(host);
    let write_kept = move |_: &Lua, (name, value): (LuaString, Value)| {
        let place = of.work.worker_site.borrow();
        let outcome =
            CopiedValue::of(&value).and_then(|value| place.keep(&name.to_string_lossy(), value));
        Ok(outcome.err())
    };
    table.raw_set("write_kept", lua.create_function(write_kept)?)?;
    let of = Rc::clone(host);
    let count = move |_: &Lua, (name, by): (LuaString, f64)| {
        let place = of.work.worker_site.borrow();
        Ok(or_why(place.site.counters().add(&name.as_bytes(), by as i64)))
    };
    table.raw_set("count", lua.create_function(count)?)?;
    let of = Rc::clone(host);
    let read_kept = move |lua: &Lua, name: LuaString| {
        let place = of.work.worker_site.borrow();
        let kept = place.kept();
        kept.get(&name.to_string_lossy()).map_or(Ok(Value::Nil), |value| value.to_lua(lua))
    };
    table.raw_set("read_kept", lua.create_function(read_kept)?)
}
