//! `pinion.json`: Lua values as JSON (RFC 8259), and back.
//!
//! | JSON | Lua |
//! |---|---|
//! | object | table with strings for keys |
//! | array | table with the keys 1, 2, …; decoded ones are marked, so that an empty one stays one |
//! | `null` | `json.null`, which is not nil: tables hold no nil. It counts as true in conditions |
//! | number | integer where it has neither fraction nor exponent, fits, and the flavour has them |

#![expect(clippy::needless_pass_by_value, reason = "a function of Lua owns its arguments")]

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use super::limits::JSON_INDENT_MAX_BYTES;
use super::options::CallOptions;
use crate::pattern::StepsLeft;
use crate::pattern::limits::STEP_BYTES;
use mlua::{Error, IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, Value};

pub(crate) use decode::decode;
pub(crate) use encode::{JsonStyle, encode, write_number};

/// Counts the values of one text and the bytes of its strings: no hook runs while it is made or
/// read, so both cost steps of the request. Without a count of steps nothing is taken.
pub(crate) struct Toll(Option<StepsLeft>);

impl Toll {
    fn of(lua: &Lua) -> Self {
        Self(lua.app_data_ref::<StepsLeft>().map(|steps| steps.clone()))
    }

    fn take(&self, steps: usize) -> Result<()> {
        let taken = self.0.as_ref().map_or(Ok(()), |left| left.take(steps));
        taken.map_err(|_| Error::runtime("json: too many steps"))
    }

    /// Takes the cost of a pass over so many bytes of a text.
    fn take_bytes(&self, bytes: usize) -> Result<()> {
        self.take(bytes / STEP_BYTES)
    }
}

/// The registry name of the metatable that marks arrays.
const ARRAYS: &str = "pinion.json.array";

pub(crate) fn table(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("encode", lua.create_function(encode_value)?)?;
    table.raw_set("decode", lua.create_function(decode_text)?)?;
    table.raw_set("array", lua.create_function(array)?)?;
    Ok(table)
}

/// `json.encode(value [, {indent = 2, sort = true}]) -> string`
///
/// `indent` is a number of spaces, or a string of spaces and tabs; `sort` puts the keys of objects
/// in the order of their bytes, so that equal values are equal texts. Raises an error for values
/// that JSON cannot represent: functions, infinities, text that is not UTF-8, arrays with holes,
/// keys of both kinds, tables that contain themselves; the message names the position, as in
/// `data.items[3].x`.
fn encode_value(lua: &Lua, (value, options): (Value, Option<Table>)) -> Result<LuaString> {
    let options = CallOptions::of(lua, "json.encode", options, &["indent", "sort"])?;
    let indent = options.get("indent")?.map(indent).transpose()?.unwrap_or_default();
    let style = JsonStyle { indent, is_sorted: options.get("sort")?.unwrap_or(false) };
    lua.create_string(encode(lua, &value, &style)?)
}

fn indent(value: Value) -> Result<Vec<u8>> {
    let bytes = match value {
        Value::Integer(spaces) => usize::try_from(spaces).ok().map(|spaces| (spaces, None)),
        Value::String(text) => {
            let bytes = text.as_bytes().to_vec();
            let is_blank = bytes.iter().all(|byte| matches!(byte, b' ' | b'\t'));
            is_blank.then_some((bytes.len(), Some(bytes)))
        }
        _ => None,
    };
    match bytes {
        Some((length, text)) if length <= JSON_INDENT_MAX_BYTES => {
            Ok(text.unwrap_or_else(|| vec![b' '; length]))
        }
        _ => Err(Error::runtime(format!(
            "json.encode: indent is a number of spaces up to {JSON_INDENT_MAX_BYTES}, or as many \
             spaces and tabs in a string"
        ))),
    }
}

/// `json.decode(text) -> value`, or `nil, why` with line and column if the text is not JSON.
///
/// The word `null` becomes `json.null`, also at the root: nil is an error and nothing else. Of a
/// key that occurs twice the last value stays.
fn decode_text(lua: &Lua, text: LuaString) -> Result<MultiValue> {
    match decode(lua, &text.as_bytes())? {
        Ok(value) => value.into_lua_multi(lua),
        Err(why) => (Value::Nil, why).into_lua_multi(lua),
    }
}

/// `json.array(table) -> table`: marks a table as an array and returns it, so that it is one even
/// when it is empty; `json.array()` returns a new one. The mark is its metatable: the function
/// raises an error if it has another one.
fn array(lua: &Lua, table: Option<Table>) -> Result<Table> {
    let arrays = arrays(lua)?;
    let table = table.map_or_else(|| lua.create_table(), Ok)?;
    match table.metatable() {
        None => table.set_metatable(Some(arrays))?,
        Some(metatable) if metatable.to_pointer() == arrays.to_pointer() => {}
        Some(_) => {
            let message =
                "json.array: the table has a metatable already, and the mark would be one";
            return Err(Error::runtime(message));
        }
    }
    Ok(table)
}

/// Returns the metatable that marks arrays, one for each VM.
fn arrays(lua: &Lua) -> Result<Table> {
    if let Some(arrays) = lua.named_registry_value(ARRAYS)? {
        return Ok(arrays);
    }
    let arrays = lua.create_table()?;
    lua.set_named_registry_value(ARRAYS, &arrays)?;
    Ok(arrays)
}
