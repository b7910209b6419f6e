//! `require`: the Lua files of a site as modules. In the sandbox there is no other way to one: no
//! search path, no loader, no bytecode.

use crate::limits::MODULES_SHOWN_MAX;
use crate::pages::Files;
use crate::problem::Problem;
use crate::program::Program;
use crate::source_names::SourceNames;
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaString, Result};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Puts `require` into a VM.
///
/// # Errors
/// Out of memory.
pub(crate) fn install(lua: &Lua, files: &Arc<Files>, names: &SourceNames) -> Result<()> {
    let host = lua.create_table()?;
    let (code, names) = (Arc::clone(files), names.clone());
    let find =
        move |lua: &Lua, name: LuaString| Ok(found(lua, (&code, &names), &name.to_string_lossy()));
    host.raw_set("code", lua.create_function(find)?)?;
    let code = Arc::clone(files);
    let is_missing = move |_: &Lua, name: LuaString| {
        Ok(places(&name.to_string_lossy()).iter().all(|place| !code.contains_key(place)))
    };
    host.raw_set("is_missing", lua.create_function(is_missing)?)?;
    lua.load(include_str!("require.lua")).set_name("=pinion").call(host)
}

/// Where a module can stand, the first one first.
fn places(name: &str) -> [String; 2] {
    let path = name.replace('.', "/");
    [format!("//{path}.lua"), format!("/{path}.lua")]
}

/// The chunk of a module; nil and why.
fn found(
    lua: &Lua,
    (code, names): (&Files, &SourceNames),
    name: &str,
) -> (Option<Function>, Option<String>) {
    let places = places(name);
    let Some((place, text)) = places.iter().find_map(|place| code.get_key_value(place)) else {
        let [beside, within] = places.map(|place| names.name(&place));
        let missing = match names.has_beside() {
            true => format!("neither {beside} nor {within} exists"),
            false => format!("{within} does not exist"),
        };
        let shown = modules(code);
        let why = format!("there is no module {name:?}: {missing}; {shown}");
        return (None, Some(why));
    };
    match compiled(lua, &names.name(place), text) {
        Ok(function) => (Some(function), None),
        Err(error) => {
            let why = format!("cannot load the module {name:?}: {}", Problem::new(&error));
            (None, Some(why))
        }
    }
}

fn compiled(lua: &Lua, shown: &str, text: &[u8]) -> Result<Function> {
    lua.load(text).set_name(format!("@{shown}")).set_mode(ChunkMode::Text).into_function()
}

/// By which name `require` finds a file; none for a file with a point in its name.
fn name(path: &str) -> Option<&str> {
    let name = path.trim_start_matches('/').strip_suffix(".lua")?;
    (!name.contains('.')).then_some(name)
}

/// Compiles every module and runs none: one that is first required by a request has its mistakes
/// told before.
///
/// # Errors
/// The first of them, with file and line.
pub(crate) fn prove(lua: &Lua, program: &Program) -> std::result::Result<(), Problem> {
    let mut modules = program.code().iter().filter(|(place, _)| name(place).is_some());
    modules.try_for_each(|(place, text)| {
        let made = compiled(lua, &program.names().name(place), text);
        made.map(drop).map_err(|error| Problem::new(&error).explained(program.sources()))
    })
}

/// Which modules there are, as an error says it.
fn modules(code: &Files) -> String {
    let found = code.keys().filter_map(|path| name(path)).filter(|name| *name != "main");
    let names = found.map(|name| name.replace('/', "."));
    let names: BTreeSet<String> = names.collect();
    let shown: Vec<&str> = names.iter().take(MODULES_SHOWN_MAX).map(String::as_str).collect();
    match names.len() {
        0 => "the site has no modules".to_owned(),
        count if count > shown.len() => {
            format!("the modules of the site are {} and others", shown.join(", "))
        }
        _ => format!("the modules of the site are {}", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests;
