//! `require`: the Lua files of a site as modules. In the sandbox there is no other way to one: no
//! search path, no loader, no bytecode.

use crate::limits::MODULES_SHOWN_MAX;
use crate::pages::Files;
use crate::script_load_error::ScriptProblem;
use crate::site_program::SiteProgram;
use crate::source_names::SourceNames;
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaString, Result};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Installs `require` in a VM.
///
/// # Errors
/// Fails when memory runs out.
pub(crate) fn install(lua: &Lua, program: &SiteProgram) -> Result<()> {
    let host = lua.create_table()?;
    let (code, names) = (Arc::clone(program.code()), program.names().clone());
    let kind = ProgramKind::of(program);
    let find = move |lua: &Lua, name: LuaString| {
        Ok(found(lua, (&code, &names, kind), &name.to_string_lossy()))
    };
    host.raw_set("code", lua.create_function(find)?)?;
    let code = Arc::clone(program.code());
    let is_missing = move |_: &Lua, name: LuaString| {
        Ok(places(&name.to_string_lossy()).iter().all(|place| !code.contains_key(place)))
    };
    host.raw_set("is_missing", lua.create_function(is_missing)?)?;
    lua.load(include_str!("require.lua")).set_name("=pinion").call(host)
}

/// The kind of program, which decides where its modules can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgramKind {
    /// A site: modules are in its folder.
    Site,
    /// A site of one file, without modules.
    Script,
    /// A script that `pinion run` runs, without modules.
    CommandLine,
}

impl ProgramKind {
    fn of(program: &SiteProgram) -> Self {
        if program.arguments().is_some() {
            return Self::CommandLine;
        }
        let is_single = program.code().is_empty() && *program.names() == SourceNames::default();
        if is_single { Self::Script } else { Self::Site }
    }
}

/// Returns the paths of a module, in the order of the search.
fn places(name: &str) -> [String; 2] {
    let path = name.replace('.', "/");
    [format!("//{path}.lua"), format!("/{path}.lua")]
}

/// Loads the chunk of a module; returns nil and the reason if there is none.
fn found(
    lua: &Lua,
    (code, names, kind): (&Files, &SourceNames, ProgramKind),
    name: &str,
) -> (Option<Function>, Option<String>) {
    let places = places(name);
    let Some((place, text)) = places.iter().find_map(|place| code.get_key_value(place)) else {
        let [beside, within] = places.map(|place| names.name(&place));
        let missing = if names.has_beside() {
            format!("neither {beside} nor {within} exists")
        } else {
            format!("{within} does not exist")
        };
        let why = match kind {
            ProgramKind::Site => format!("{missing}; {}", modules(code)),
            ProgramKind::Script => "a single script has no modules; put it into a folder as \
                                    main.lua, with its modules beside it, and serve the folder"
                .to_owned(),
            ProgramKind::CommandLine => "pinion run has no modules; with --lua-unsafe, Lua's own \
                                         require finds those of package.path"
                .to_owned(),
        };
        return (None, Some(format!("there is no module {name:?}: {why}")));
    };
    match compiled(lua, &names.name(place), text) {
        Ok(function) => (Some(function), None),
        Err(error) => {
            let why = format!("cannot load the module {name:?}: {}", ScriptProblem::new(&error));
            (None, Some(why))
        }
    }
}

fn compiled(lua: &Lua, shown: &str, text: &[u8]) -> Result<Function> {
    lua.load(text).set_name(format!("@{shown}")).set_mode(ChunkMode::Text).into_function()
}

/// Returns the name by which `require` finds a file; none for a file with a point in its name.
fn name(path: &str) -> Option<&str> {
    let name = path.trim_start_matches('/').strip_suffix(".lua")?;
    (!name.contains('.')).then_some(name)
}

/// Compiles every module and runs none, so that mistakes are reported before a request requires a
/// module for the first time.
///
/// # Errors
/// Returns the first mistake, with file and line.
pub(crate) fn prove(lua: &Lua, program: &SiteProgram) -> std::result::Result<(), ScriptProblem> {
    wrong(lua, program).next().map_or(Ok(()), Err)
}

/// Compiles every Lua file that has a name for `require`, and returns the mistakes.
pub(crate) fn wrong<'p>(
    lua: &'p Lua,
    program: &'p SiteProgram,
) -> impl Iterator<Item = ScriptProblem> + 'p {
    let modules = program.code().iter().filter(|(place, _)| name(place).is_some());
    modules.filter_map(|(place, text)| {
        let made = compiled(lua, &program.names().name(place), text);
        made.err().map(|error| ScriptProblem::new(&error).explained(program.sources()))
    })
}

/// Returns the list of modules for an error.
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
