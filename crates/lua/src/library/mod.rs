//! Libraries that only compute: values in, values out.
//!
//! | module | contents |
//! |---|---|
//! | [`json`] | `pinion.json`: Lua values as JSON, and back |
//! | [`codec`] | `pinion.codec`: hex, base64, escapes for URLs, forms and HTML |
//! | [`crypto`] | `pinion.crypto`: digests, keys, sealed texts, tokens |
//! | [`passwords`] | hashes of passwords; slow by intent, so never called on a worker |
//! | [`options`] | the table of named options that a function takes last |
//! | [`limits`] | every bound with its reason |
//! | `test_vm` | a VM with the libraries, for tests |
//!
//! Data that a client may have sent (a text to decode, a token, a sealed text) is never an error of
//! the script: those functions return `nil, why`. Mistakes that only the script can make are raised
//! as errors.

pub(crate) mod codec;
pub(crate) mod crypto;
pub(crate) mod json;
pub mod limits;
mod options;
pub mod passwords;
#[cfg(test)]
mod test_vm;

use crate::clock::Clock;
use mlua::{Lua, Result, Table, Value};

/// Adds `json`, `codec` and `crypto` to a table, which scripts know as `pinion`. Functions that
/// depend on the time use the clock.
///
/// # Errors
/// Fails when memory runs out.
pub(crate) fn install(lua: &Lua, pinion: &Table, clock: &Clock) -> Result<()> {
    pinion.raw_set("json", json::table(lua)?)?;
    pinion.raw_set("codec", codec::table(lua)?)?;
    pinion.raw_set("crypto", crypto::table(lua, clock)?)
}

/// Returns the text of an unknown key for the error message. For a key that is neither a text nor a
/// number this is only its type: its own text could be made by the script.
fn shown(key: &Value) -> String {
    match key {
        Value::String(text) => text.to_string_lossy(),
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Boolean(truth) => truth.to_string(),
        other => format!("a {}", other.type_name()),
    }
}
