//! A VM with everything that Lua has, for scripts that are trusted with the machine: it is made
//! only where the operator of the server has requested it.
#![allow(unsafe_code, reason = "foreign functions and bytecode can be anything")]

use mlua::{Lua, LuaOptions, Result, StdLib, Table, Value};

use crate::jit_code_memory;
use crate::sandbox;

/// Returns a fresh VM with all libraries: files, programs, `debug`, `package`, bytecode, and in
/// LuaJIT foreign functions.
///
/// # Errors
/// Fails when memory runs out.
pub(crate) fn open() -> Result<Lua> {
    // SAFETY: the script, which the operator trusts with the whole process, is responsible for its
    // C modules, foreign functions and bytecode; the VM itself is as sound as any other.
    let lua = unsafe { Lua::unsafe_new_with(StdLib::ALL, LuaOptions::new()) };
    jit_code_memory::prepare(&lua)?;
    // As in the sandbox, both Luas have both names.
    let (globals, table) = (lua.globals(), lua.globals().raw_get::<Table>("table")?);
    let unpack: Value = globals.raw_get("unpack")?;
    if unpack.is_nil() {
        globals.raw_set("unpack", table.raw_get::<Value>("unpack")?)?;
    } else {
        table.raw_set("unpack", unpack)?;
    }
    sandbox::bound(&lua)?;
    sandbox::seed(&lua)?;
    Ok(lua)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval<R: mlua::FromLuaMulti>(code: &str) -> Result<R> {
        open().expect("a VM").load(code).eval()
    }

    #[test]
    fn io_os_package_and_debug_work() {
        let code = r#"local file = assert(io.open("/proc/self/comm"))
            local name = file:read("*l")
            file:close()
            return #name > 0"#;
        assert!(eval::<bool>(code).expect("read"));
        assert!(eval::<bool>("return os.getenv('PATH') ~= nil").expect("the environment"));
        assert!(eval::<bool>("return package.path ~= nil and require ~= nil").expect("package"));
        let code = "return debug.getinfo(1, 'l').currentline";
        assert_eq!(eval::<i64>(code).expect("debug"), 1);
    }

    #[test]
    fn bytecode_runs() {
        let code = r#"local load = loadstring or load
            return load(string.dump(function() return 6 * 7 end))()"#;
        assert_eq!(eval::<i64>(code).expect("ran"), 42);
    }

    #[cfg(feature = "luajit")]
    #[test]
    fn ffi_functions_can_be_called() {
        let code = r#"local ffi = require("ffi")
            ffi.cdef("int abs(int);")
            return ffi.C.abs(-42)"#;
        assert_eq!(eval::<i64>(code).expect("called"), 42);
    }

    #[test]
    fn each_vm_has_different_random_numbers() {
        let draw = "return math.random(2^31 - 1) .. ' ' .. math.random(2^31 - 1)";
        let vms = [open(), open()].map(|vm| vm.expect("a VM"));
        let [first, other] = vms.each_ref().map(|vm| vm.load(draw).eval::<String>().expect("two"));
        assert_ne!(first, other);
    }

    #[test]
    fn unpack_and_table_unpack_work() {
        assert_eq!(eval::<i64>("return select('#', unpack({1, 2}))").expect("ran"), 2);
        assert_eq!(eval::<i64>("return select('#', table.unpack({1, 2}))").expect("ran"), 2);
    }
}
