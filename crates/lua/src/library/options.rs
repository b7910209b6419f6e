//! The table of named options that a function takes last.

use super::shown;
use mlua::{Error, FromLua, Lua, Result, Table, Value};

/// Options of one call. A name that the function does not know is an error: a typing mistake in
/// `leeway` must not pass for its default.
pub(super) struct CallOptions<'l> {
    lua: &'l Lua,
    function: &'static str,
    table: Option<Table>,
}

impl<'l> CallOptions<'l> {
    /// # Errors
    /// Fails for a name that is not among `known`.
    pub(super) fn of(
        lua: &'l Lua,
        function: &'static str,
        table: Option<Table>,
        known: &[&str],
    ) -> Result<CallOptions<'l>> {
        for pair in table.iter().flat_map(Table::pairs::<Value, Value>) {
            let (key, _) = pair?;
            let is_known = |name: &[u8]| known.iter().any(|known| known.as_bytes() == name);
            if !key.as_string().is_some_and(|name| is_known(&name.as_bytes())) {
                let (key, known) = (shown(&key), known.join(", "));
                let message =
                    format!("{function} has no option \"{key}\"; its options are: {known}");
                return Err(Error::runtime(message));
            }
        }
        Ok(CallOptions { lua, function, table })
    }

    /// Returns the value of an option, `None` where it was left out.
    ///
    /// # Errors
    /// Fails for a value of another type.
    pub(super) fn get<T: FromLua>(&self, name: &str) -> Result<Option<T>> {
        let Some(table) = &self.table else { return Ok(None) };
        let value: Value = table.raw_get(name)?;
        if value.is_nil() {
            return Ok(None);
        }
        let kind = value.type_name();
        T::from_lua(value, self.lua).map(Some).map_err(|_| {
            let function = self.function;
            Error::runtime(format!("{function}: the option \"{name}\" cannot be a {kind}"))
        })
    }
}
