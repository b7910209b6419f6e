//! The additions for a program at the command line: a main script that can wait, its arguments,
//! stdout, and a way to exit.

use std::io::{self, Write as _};

use mlua::{Function, Lua, LuaString, Result, Table, Value};

use super::Vm;
use crate::script_load_error::ScriptProblem;
use crate::site_program::SiteProgram;
use crate::task::{BackgroundTaskKind, TaskId};

/// Returns the table `alone` of the host.
///
/// # Errors
/// Fails when memory runs out.
pub(super) fn extras(lua: &Lua, name: &str, arguments: &[Vec<u8>]) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("print", lua.create_function(|_, text: LuaString| print(&text))?)?;
    table.raw_set("exit", lua.create_function(|_, code: Value| exit(&code))?)?;
    let values = lua.create_table()?;
    values.raw_set(0, name)?;
    for (argument, at) in arguments.iter().zip(1..) {
        values.raw_set(at, lua.create_string(argument)?)?;
    }
    table.raw_set("arguments", values)?;
    Ok(table)
}

/// Prints one line on stdout. When its reader has gone, the program gets the error, which ends it.
fn print(text: &LuaString) -> Result<()> {
    let mut out = io::stdout().lock();
    let bytes = text.as_bytes();
    let written = out.write_all(&bytes).and_then(|()| out.write_all(b"\n"));
    written.and_then(|()| out.flush()).map_err(mlua::Error::external)
}

/// Implements `pinion.exit([code])`, which exits at once, even if tasks still run.
fn exit(code: &Value) -> Result<()> {
    let number = match code {
        Value::Nil | Value::Boolean(true) => Some(0),
        Value::Boolean(false) => Some(1),
        other => other.as_i64().or_else(|| other.as_f64().map(|number| number as i64)),
    };
    match number.and_then(|number| u8::try_from(number).ok()) {
        Some(number) => std::process::exit(i32::from(number)),
        None => Err(mlua::Error::runtime(
            "bad argument #1 to 'pinion.exit' (number from 0 to 255 expected)",
        )),
    }
}

/// The code that calls the main script with its arguments. It is written in Lua so that the script
/// can wait.
const CALL: &str = "local main, arguments = ...
    return function() return main(unpack(arguments)) end";

impl Vm {
    /// Creates the task of the main script, which begins with the next pass.
    ///
    /// # Errors
    /// Returns the error of the script.
    pub(crate) fn begin_main(
        &self,
        program: &SiteProgram,
    ) -> std::result::Result<TaskId, ScriptProblem> {
        let trouble = |error: mlua::Error| self.problem(&error);
        let main = self.loaded(program.name(), program.main().unwrap_or_default())?;
        let arguments: Table = self.lua.globals().get("arg").map_err(trouble)?;
        let call = self.lua.load(CALL).set_name("=pinion");
        let call: Function = call.call((main, arguments)).map_err(trouble)?;
        let begun =
            self.host.spawn(&self.lua, call, BackgroundTaskKind::Program, None).map_err(trouble)?;
        match begun {
            (Some(id), _) => Ok(id),
            (None, why) => Err(ScriptProblem::of_text(&why.unwrap_or_default())),
        }
    }
}
