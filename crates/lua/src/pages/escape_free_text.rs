//! Tests whether a text needs no escaping in HTML, by a function of C: the one kind of function of
//! the host that LuaJIT calls from compiled code. Most values of pages are such texts, and a page
//! has hundreds of them.
#![allow(unsafe_code, reason = "functions are called by LuaJIT through their address")]

use std::ffi::{c_char, c_int, c_void};
use std::slice;

use mlua::{Function, LightUserData, Lua, Result, Table, ffi};

/// Turns the address of [`is_plain`] into a function of a text.
const BIND: &str = r#"
local ffi, address = ...
local is_plain = ffi.cast("int (*)(const char *, size_t)", address)
return function(text)
    return is_plain(text, #text) ~= 0
end
"#;

/// Returns a function that tests whether a text has no character that is escaped in text or in
/// attributes of HTML. Scripts reach nothing else of LuaJIT's foreign functions.
///
/// # Errors
/// Fails when memory runs out.
pub(super) fn function(lua: &Lua) -> Result<Function> {
    let loaded: Table = lua.named_registry_value("_LOADED")?;
    // If the library were opened a second time, it would lose its types.
    let foreign = match loaded.raw_get::<Option<Table>>("ffi")? {
        Some(foreign) => foreign,
        // SAFETY: it is a function of LuaJIT that opens a library, for a VM that has not opened it.
        None => unsafe { lua.create_c_function(ffi::luaopen_ffi)? }.call::<Table>(())?,
    };
    // Its types live as long as this value. `_LOADED` is `package.loaded`, which a script without a
    // sandbox may empty; no script reaches this name.
    lua.set_named_registry_value("pinion.foreign", &foreign)?;
    let address = LightUserData(is_plain as *mut c_void);
    lua.load(BIND).set_name("=pinion").call((foreign, address))
}

/// Returns 1 if a text of so many bytes is plain, else 0.
///
/// # Safety
/// `text` must point to so many bytes, which no thread writes to meanwhile.
unsafe extern "C" fn is_plain(text: *const c_char, bytes: usize) -> c_int {
    // SAFETY: the caller guarantees it; LuaJIT passes the bytes of a string, whose address is valid
    // even when it is empty.
    let text = unsafe { slice::from_raw_parts(text.cast::<u8>(), bytes) };
    c_int::from(has_no_special(text))
}

/// The number of bytes that are tested together, without a branch for each: a register of any
/// processor.
const TOGETHER: usize = 16;

fn has_no_special(text: &[u8]) -> bool {
    let is_special = |byte: &u8| matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\'' | b'`');
    let (chunks, rest) = text.as_chunks::<TOGETHER>();
    let any = |chunk: &[u8]| chunk.iter().fold(false, |any, byte| any | is_special(byte));
    !chunks.iter().any(|chunk| any(chunk)) && !any(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::escape;
    use crate::{sandbox, unsandboxed_vm};

    #[test]
    fn plain_text_is_exactly_the_text_that_no_escape_changes() {
        let vms = [sandbox::open(), unsandboxed_vm::open()].map(|vm| vm.expect("a VM"));
        for lua in vms {
            let is_plain = function(&lua).expect("bound");
            // So often that it runs compiled, and behind collections.
            for byte in 0..=u8::MAX {
                lua.gc_collect().expect("collected");
                for bytes in [1, 15, 16, 17, 40] {
                    for at in 0..bytes {
                        let mut text = vec![b'x'; bytes];
                        text[at] = byte;
                        let text = lua.create_string(&text).expect("a text");
                        let found: bool = is_plain.call(&text).expect("called");
                        let escaped = [escape::html, escape::attribute]
                            .map(|escape| escape(&text.as_bytes()).expect("short"));
                        assert_eq!(found, escaped == [None, None], "{byte} at {at} of {bytes}");
                    }
                }
            }
            assert!(is_plain.call::<bool>("").expect("called"));
        }
    }

    /// LuaJIT forgets what its foreign functions need once their library is collected.
    #[test]
    fn is_plain_works_after_garbage_collection_and_exposes_nothing() {
        let vms = [sandbox::open(), unsandboxed_vm::open()].map(|vm| vm.expect("a VM"));
        for lua in &vms {
            lua.globals().set("is_plain", function(lua).expect("bound")).expect("set");
            let code = "for name in pairs(package and package.loaded or {}) do
                    package.loaded[name] = nil
                end
                ffi = nil";
            lua.load(code).exec().expect("emptied");
            lua.gc_collect().expect("collected");
            lua.gc_collect().expect("collected");
            // What was let go of is something else by now.
            let code = "local kept, count = {}, 0
                for at = 1, 10000 do
                    kept[at] = { at }
                    count = count + (is_plain('value ' .. at) and 1 or 0)
                end
                return count";
            assert_eq!(lua.load(code).eval::<u32>().expect("ran"), 10_000);
        }
        let [lua, _] = vms;
        let code = "return ffi == nil and package == nil and require == nil";
        assert!(lua.load(code).eval::<bool>().expect("ran"));
        // Numbers of 64 bits stand on the same library.
        assert_eq!(lua.load("return tostring(1LL + 1)").eval::<String>().expect("ran"), "2LL");
    }
}
