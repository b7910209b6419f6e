//! A VM with the libraries, for tests.

use crate::clock::Clock;
use mlua::{FromLuaMulti, Lua, Result};
use pinion_engine::clock::Now;

/// A VM as scripts get it, with `pinion`.
pub(super) fn vm() -> Lua {
    let lua = crate::sandbox::open().expect("a VM");
    let pinion = lua.create_table().expect("a table");
    super::install(&lua, &pinion, &Clock::new(Now::read())).expect("installed");
    for name in ["json", "codec", "crypto"] {
        let library: mlua::Table = pinion.raw_get(name).expect(name);
        lua.globals().raw_set(name, library).expect("room");
    }
    lua.globals().raw_set("pinion", pinion).expect("room");
    lua
}

/// Returns the result of a script in a VM of its own.
pub(super) fn eval<R: FromLuaMulti>(code: &str) -> Result<R> {
    vm().load(code).eval()
}

/// Returns the error message of a script.
pub(super) fn raised(code: &str) -> String {
    match eval::<mlua::MultiValue>(code) {
        Ok(values) => panic!("{code} gave {} values", values.len()),
        Err(error) => error.to_string(),
    }
}

pub(super) fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: &u8| pinion_http::grammar::hex_digit(*byte).expect("a digit");
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    assert!(rest.is_empty(), "pairs of digits");
    pairs.iter().map(|[high, low]| digit(high) << 4 | digit(low)).collect()
}
