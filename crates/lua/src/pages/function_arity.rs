//! The number of parameters of a Lua function.

use mlua::Function;

/// Returns the number of named parameters; 0 for a function of the host. LuaJIT discloses it only
/// to its own debug library, which is not open, and in a dump of the function.
#[cfg(feature = "luajit")]
pub(super) fn count(function: &Function) -> u8 {
    of_dump(&function.dump(true)).unwrap_or_default()
}

/// Returns the number of named parameters; 0 for a function of the host.
#[cfg(not(feature = "luajit"))]
pub(super) fn count(function: &Function) -> u8 {
    function.info().num_params
}

/// Reads it from a function as LuaJIT dumps it without names (`lj_bcdump.h`): a head of three
/// signs, a version and flags, then prototypes, inner ones first, each after its length, then a
/// zero. A prototype begins with its flags and the number of its parameters.
#[cfg(feature = "luajit")]
fn of_dump(dump: &[u8]) -> Option<u8> {
    let mut rest = dump.strip_prefix(b"\x1bLJ")?.get(1..)?;
    let _flags = number(&mut rest)?;
    let mut count = None;
    loop {
        let length = number(&mut rest)?;
        if length == 0 {
            return count;
        }
        let (prototype, behind) = rest.split_at_checked(length)?;
        count = prototype.get(1).copied();
        rest = behind;
    }
}

/// Reads a number in ULEB128.
#[cfg(feature = "luajit")]
fn number(rest: &mut &[u8]) -> Option<usize> {
    let mut value = 0_usize;
    for shift in (0..usize::BITS).step_by(7) {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        value |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlua::Lua;

    #[test]
    fn parameters_of_nested_functions_are_not_counted() {
        let lua = Lua::new();
        for (code, expected) in [
            ("function() end", 0),
            ("function(a) return function(b, c, d) end end", 1),
            ("function(a, b) local function f() return function(x, y, z) end end return f end", 2),
            ("function(...) return ... end", 0),
            ("function(a, b, c, ...) return a, b, c end", 3),
            ("print", 0),
        ] {
            let function: Function = lua.load(format!("return {code}")).eval().expect(code);
            assert_eq!(count(&function), expected, "{code}");
        }
        let many = (0..200).map(|n| format!("a{n}")).collect::<Vec<_>>().join(",");
        let long = format!("return function({many}) return '{}' end", "x".repeat(100_000));
        assert_eq!(count(&lua.load(long).eval().expect("a function")), 200);
    }
}
