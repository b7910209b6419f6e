//! Libraries that compute and reach nothing: values in, values out.
//!
//! | module | what it holds |
//! |---|---|
//! | [`json`] | `pinion.json`: Lua values as JSON, and back |
//! | [`codec`] | `pinion.codec`: hex, base64, what stands in URLs, forms and HTML |
//! | [`crypto`] | `pinion.crypto`: digests, keys, sealed texts, tokens |
//! | [`passwords`] | hashes of passwords; slow by intent, so never called on a worker |
//! | [`options`] | the table of named options that a function takes last |
//! | [`limits`] | every bound with its reason |
//!
//! What a client may have sent (a text to decode, a token, something sealed) is never an error of
//! the script: those functions return `nil, why`. What only the script can get wrong is raised.

pub(crate) mod codec;
pub(crate) mod crypto;
pub(crate) mod json;
pub mod limits;
mod options;
pub mod passwords;
#[cfg(test)]
mod trial;

use crate::clock::Clock;
use mlua::{Lua, Result, Table, Value};

/// Puts `json`, `codec` and `crypto` into a table, which scripts know as `pinion`. What goes by the
/// time asks the clock.
///
/// # Errors
/// Out of memory.
pub(crate) fn install(lua: &Lua, pinion: &Table, clock: &Clock) -> Result<()> {
    pinion.raw_set("json", json::table(lua)?)?;
    pinion.raw_set("codec", codec::table(lua)?)?;
    pinion.raw_set("crypto", crypto::table(lua, clock)?)
}

/// A key that should not be there, for the message that says so. Of what is neither a text nor a
/// number only the kind is told: its own text could be made by the script.
fn shown(key: &Value) -> String {
    match key {
        Value::String(text) => text.to_string_lossy(),
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Boolean(truth) => truth.to_string(),
        other => format!("a {}", other.type_name()),
    }
}
