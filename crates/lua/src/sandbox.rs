//! A VM with the libraries that a script may have, listed by hand: additions of a new version of
//! Lua are closed until they are listed here.
//!
//! A script of a site is trusted with the site, not with the machine: it reaches no file, program,
//! variable of the environment, foreign function or bytecode. All other abilities beyond computing
//! are functions of the server.

use crate::cpu_watchdog;
use crate::jit_code_memory;
use crate::limits::SOURCE_MAX_BYTES;
use crate::pattern::limits::STEP_BYTES;
use crate::pattern::{StepsLeft, TOO_MANY_STEPS};
use crate::script_load_error::ScriptProblem;
use mlua::{Error, Function, Lua, LuaOptions, MultiValue, Result, StdLib, Table, Value};

/// Global functions of the base library that stay.
const BASE: &[&str] = &[
    "assert",
    "error",
    "getmetatable",
    "ipairs",
    "next",
    "pairs",
    "pcall",
    "rawequal",
    "rawget",
    "rawlen",
    "rawset",
    "select",
    "setmetatable",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    "xpcall",
    "_VERSION",
    "_G",
];

/// The functions of each library that stay. Functions of strings that search for patterns are
/// replaced by those of [`crate::pattern`], those of coroutines are wrapped where tasks are.
pub(crate) const LIBRARIES: &[(&str, &[&str])] = &[
    (
        "coroutine",
        &["close", "create", "isyieldable", "resume", "running", "status", "wrap", "yield"],
    ),
    ("table", &["concat", "insert", "maxn", "move", "pack", "remove", "sort", "unpack"]),
    (
        "string",
        &[
            "byte", "char", "find", "format", "gmatch", "gsub", "len", "lower", "match", "pack",
            "packsize", "rep", "reverse", "sub", "unpack", "upper",
        ],
    ),
    (
        "math",
        &[
            "abs",
            "acos",
            "asin",
            "atan",
            "atan2",
            "ceil",
            "cos",
            "cosh",
            "deg",
            "exp",
            "floor",
            "fmod",
            "frexp",
            "huge",
            "ldexp",
            "log",
            "log10",
            "max",
            "maxinteger",
            "min",
            "mininteger",
            "modf",
            "pi",
            "pow",
            "rad",
            "random",
            "randomseed",
            "sin",
            "sinh",
            "sqrt",
            "tan",
            "tanh",
            "tointeger",
            "type",
            "ult",
        ],
    ),
    ("os", &["clock", "date", "difftime", "time"]),
    ("utf8", &["char", "charpattern", "codepoint", "codes", "len", "offset"]),
    (
        "bit",
        &[
            "arshift", "band", "bnot", "bor", "bswap", "bxor", "lshift", "rol", "ror", "rshift",
            "tobit", "tohex",
        ],
    ),
];

/// Bytes of the source that are the name of a chunk without one: about as many as Lua shows.
const CHUNK_NAME_BYTES: usize = 40;

/// Returns a fresh VM in which only [`BASE`] and [`LIBRARIES`] can be reached.
///
/// # Errors
/// Fails when memory runs out.
pub fn open() -> Result<Lua> {
    let lua = Lua::new_with(opened(), LuaOptions::new())?;
    jit_code_memory::prepare(&lua)?;
    let globals = lua.globals();
    let has = |table: &Table, name: &str| table.raw_get::<Value>(name).map(|v| !v.is_nil());
    // The listed functions are copied out, everything else is removed: no new function stays by
    // accident.
    let mut kept: Vec<(&str, Value)> = Vec::new();
    for &name in BASE {
        if has(&globals, name)? {
            kept.push((name, globals.raw_get(name)?));
        }
    }
    for &(name, members) in LIBRARIES {
        if let Value::Table(library) = globals.raw_get::<Value>(name)? {
            keep_only(&library, members)?;
            kept.push((name, Value::Table(library)));
        }
    }
    clear(&globals)?;
    for (name, value) in kept {
        globals.raw_set(name, value)?;
    }
    lend(&lua, &globals)?;
    seed(&lua)?;
    Ok(lua)
}

fn opened() -> StdLib {
    let common = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
    #[cfg(feature = "luajit")]
    // The compiler is switched on when `jit` is opened.
    return common | StdLib::BIT | StdLib::JIT;
    #[cfg(not(feature = "luajit"))]
    return common | StdLib::COROUTINE | StdLib::UTF8;
}

fn keep_only(library: &Table, members: &[&str]) -> Result<()> {
    let mut kept = Vec::with_capacity(members.len());
    for &member in members {
        kept.push((member, library.raw_get::<Value>(member)?));
    }
    clear(library)?;
    kept.into_iter().try_for_each(|(member, value)| library.raw_set(member, value))
}

fn clear(table: &Table) -> Result<()> {
    let mut keys = Vec::new();
    for pair in table.pairs::<Value, Value>() {
        keys.push(pair?.0);
    }
    keys.into_iter().try_for_each(|key| table.raw_set(key, Value::Nil))
}

/// Adds functions under their standard names, in harmless forms.
fn lend(lua: &Lua, globals: &Table) -> Result<()> {
    globals.raw_set("load", lua.create_function(load)?)?;
    if cfg!(feature = "luajit") {
        let table: Table = globals.raw_get("table")?;
        if table.raw_get::<Value>("unpack")?.is_nil() {
            table.raw_set("unpack", globals.raw_get::<Value>("unpack")?)?;
        }
    } else {
        let table: Table = globals.raw_get("table")?;
        globals.raw_set("unpack", table.raw_get::<Value>("unpack")?)?;
    }
    globals.raw_set("collectgarbage", lua.create_function(collectgarbage)?)?;
    let debug = lua.create_table()?;
    debug.raw_set("traceback", lua.create_function(traceback)?)?;
    globals.raw_set("debug", debug)?;
    let bounded = lua.load(include_str!("bounded_functions.lua")).set_name("=pinion");
    bound(lua)?;
    bounded.call(!cfg!(feature = "luajit"))
}

/// Bounds how deep functions of Lua's libraries and of the script call each other, which has no
/// other limit in any VM.
///
/// # Errors
/// Fails when memory runs out.
pub(crate) fn bound(lua: &Lua) -> Result<()> {
    let is_over = lua.create_function(|_, ()| Ok(cpu_watchdog::is_over()))?;
    let is_deep = lua.create_function(|_, ()| Ok(crate::native_stack_depth::is_deep()))?;
    let chunk = lua.load(include_str!("guarded_functions.lua")).set_name("=pinion");
    let thrown: Function =
        chunk.call((is_over, is_deep, cfg!(feature = "luajit"), SOURCE_MAX_BYTES))?;
    lua.set_named_registry_value(THROWN, thrown)?;
    let charge = lua.create_function(|lua, bytes: f64| charge(lua, bytes as usize))?;
    lua.load(include_str!("charged_functions.lua"))
        .set_name("=pinion")
        .call((charge, cfg!(feature = "luajit")))
}

/// Takes the cost in steps of a pass over so many bytes in a function of C, where no hook runs.
///
/// # Errors
/// Fails when the request has no steps left: its turn ends.
pub(crate) fn charge(lua: &Lua, bytes: usize) -> Result<()> {
    let steps = lua.app_data_ref::<StepsLeft>().map(|steps| steps.clone());
    let taken = steps.map_or(Ok(()), |steps| steps.take(bytes / STEP_BYTES + 1));
    taken.map_err(|_| {
        cpu_watchdog::strike(|| cpu_watchdog::running(lua));
        Error::runtime(TOO_MANY_STEPS)
    })
}

/// The registry name of the function that returns the last thrown table.
pub(crate) const THROWN: &str = "pinion.thrown";

/// Sets another seed of `math.random` in each VM. Lua 5.4 does that on its own; LuaJIT begins with
/// the same number in every worker and at every start.
///
/// # Errors
/// Fails when the system has no random bytes.
pub(crate) fn seed(lua: &Lua) -> Result<()> {
    if !cfg!(feature = "luajit") {
        return Ok(());
    }
    let math: Table = lua.globals().raw_get("math")?;
    // Without an argument LuaJIT takes the seed from the system.
    math.raw_get::<Function>("randomseed")?.call(())
}

/// Implements `load(chunk [, name [, mode [, env]]])` for text only, because bytecode can do
/// anything. The pieces of a reader have been joined by `guarded_functions.lua`.
fn load(
    lua: &Lua,
    (chunk, name, _mode, environment): (Value, Option<mlua::LuaString>, Value, Option<Table>),
) -> Result<MultiValue> {
    let source = match chunk {
        Value::String(text) if text.as_bytes().len() > SOURCE_MAX_BYTES => {
            let kib = SOURCE_MAX_BYTES >> 10;
            let why = format!("load: the source is larger than {kib} KiB, which no flag raises");
            return failed(lua, &why);
        }
        Value::String(text) => text.as_bytes().to_vec(),
        other => {
            let kind = other.type_name();
            return failed(
                lua,
                &format!("bad argument #1 to 'load' (string or function expected, got {kind})"),
            );
        }
    };
    let name = match name {
        Some(name) => name.to_string_lossy(),
        None => format!("=[string \"{}\"]", first_line(&source)),
    };
    // Lua ends names at a NUL, as C does.
    let name = name.replace('\0', "");
    let chunk = lua.load(source).set_name(name).set_mode(mlua::chunk::ChunkMode::Text);
    let chunk = match environment {
        Some(environment) => chunk.set_environment(environment),
        None => chunk,
    };
    match chunk.into_function() {
        Ok(function) => Ok(MultiValue::from_iter([Value::Function(function)])),
        Err(error) => failed(lua, &ScriptProblem::new(&error).to_string()),
    }
}

/// Returns the first line of a chunk, which serves as its name.
fn first_line(source: &[u8]) -> String {
    let line = source.split(u8::is_ascii_control).next().unwrap_or_default();
    String::from_utf8_lossy(&line[..line.len().min(CHUNK_NAME_BYTES)]).into_owned()
}

fn failed(lua: &Lua, why: &str) -> Result<MultiValue> {
    Ok(MultiValue::from_iter([Value::Nil, Value::String(lua.create_string(why)?)]))
}

/// Implements only the query of the memory in use: collections are scheduled per request.
fn collectgarbage(lua: &Lua, option: Option<String>) -> Result<f64> {
    // Libraries request collections out of habit, and it does no harm to ignore that.
    let is_count = option.is_some_and(|option| option == "count");
    Ok(if is_count { lua.used_memory() as f64 / 1024.0 } else { 0.0 })
}

/// Implements `debug.traceback([message [, level]])` of the running coroutine.
fn traceback(lua: &Lua, (message, level): (Value, Option<usize>)) -> Result<Value> {
    match message {
        Value::Nil => Ok(Value::String(lua.traceback(None, level.unwrap_or(1))?)),
        Value::String(message) => {
            let message = message.to_string_lossy();
            Ok(Value::String(lua.traceback(Some(&message), level.unwrap_or(1))?))
        }
        // As in Lua, a message that is no text is returned unchanged.
        other => Ok(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval<R: mlua::FromLuaMulti>(code: &str) -> Result<R> {
        open().expect("a VM").load(code).eval()
    }

    #[test]
    fn the_sandbox_has_no_unsafe_functions() {
        for name in [
            "io",
            "ffi",
            "require",
            "package",
            "dofile",
            "loadfile",
            "module",
            "newproxy",
            "getfenv",
            "setfenv",
            "jit",
            "os.execute",
            "os.exit",
            "os.getenv",
            "os.remove",
            "os.rename",
            "os.tmpname",
            "os.setlocale",
            "string.dump",
            "debug.getinfo",
            "debug.getregistry",
            "debug.sethook",
            "debug.setmetatable",
            "debug.getupvalue",
            "debug.setupvalue",
            "debug.setlocal",
            "debug.upvaluejoin",
            "debug.getmetatable",
            "table.new",
            "table.clear",
            "gcinfo",
            "warn",
        ] {
            let code = format!("return {name} == nil");
            assert!(eval::<bool>(&code).expect(name), "{name} can be reached");
        }
    }

    /// By every value that can be reached from the globals, metatables included.
    #[test]
    fn every_reachable_function_is_in_the_lists_of_the_sandbox() {
        let code = r#"
            local seen, names = {}, {}
            local function walk(value, path)
                if seen[value] then return end
                if type(value) == "function" then seen[value] = true; names[#names + 1] = path end
                if type(value) == "table" then
                    seen[value] = true
                    for key, inner in pairs(value) do
                        walk(inner, path .. "." .. tostring(key))
                    end
                end
                local meta = getmetatable(value)
                if meta then walk(meta, path .. ":meta") end
            end
            walk(_G, "_G")
            walk("", "text")
            return names
        "#;
        let names: Vec<String> = eval(code).expect("walked");
        let own = ["load", "loadstring", "collectgarbage", "debug.traceback"];
        for name in names {
            let short = name.trim_start_matches("_G.").trim_start_matches("_G");
            let listed = BASE.contains(&short)
                || own.contains(&short)
                || LIBRARIES.iter().any(|(library, members)| {
                    members.iter().any(|member| name.ends_with(&format!("{library}.{member}")))
                })
                // The metatable of strings leads to their library, and to arithmetic in 5.4.
                || name.contains(":meta.__");
            assert!(listed, "{name}");
        }
    }

    #[test]
    fn bytecode_is_not_loaded() {
        // What `string.dump` gives in both begins with ESC.
        let (function, why) = eval::<(Value, String)>(r#"return load("\27LJ\2\0")"#).expect("ran");
        assert!(function.is_nil());
        assert!(why.contains("bytecode") || why.contains("binary"), "{why}");
        let loaded = eval::<i64>(r#"return load("return 6 * 7")()"#).expect("ran");
        assert_eq!(loaded, 42);
        let code = r#"local n = 0
            return load(function() n = n + 1; return ({"return ", "1"})[n] end)()"#;
        assert_eq!(eval::<i64>(code).expect("ran"), 1);
        assert_eq!(
            eval::<i64>(r#"return load("return x", "=x", "t", {x = 3})()"#).expect("ran"),
            3
        );
        let (_, why) = eval::<(Value, String)>(r#"return load("x x", "=chunk")"#).expect("ran");
        assert!(why.contains("chunk:1:"), "{why}");
    }

    #[test]
    fn each_vm_has_different_random_numbers() {
        let draw = "return math.random(2^31 - 1) .. ' ' .. math.random(2^31 - 1)";
        // Lua 5.4 makes its seed of the time and of where a VM lies: both lie somewhere at once.
        let vms = [open(), open()].map(|vm| vm.expect("a VM"));
        let [first, other] = vms.each_ref().map(|vm| vm.load(draw).eval::<String>().expect("two"));
        assert_ne!(first, other);
    }

    #[test]
    fn common_lua_idioms_work_in_the_sandbox() {
        assert_eq!(eval::<i64>("return select('#', unpack({1, 2, 3}))").expect("ran"), 3);
        assert_eq!(eval::<i64>("return select('#', table.unpack({1, 2}))").expect("ran"), 2);
        let trace: String = eval(
            "local _, trace = xpcall(function() error('why') end, debug.traceback) return trace",
        )
        .expect("ran");
        assert!(trace.contains("why") && trace.contains("stack traceback"), "{trace}");
        assert!(eval::<f64>("return collectgarbage('count')").expect("ran") > 1.0);
    }
}
