//! Percent escapes, and queries as forms send them.

#![expect(clippy::needless_pass_by_value, reason = "a function of Lua owns its arguments")]

use super::super::json::write_number;
use super::super::limits::QUERY_PAIRS_MAX;
use crate::bounded_output::{BoundedResult, check, percent, room};
use mlua::{Error, IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, Value};
use pinion_http::grammar::hex_digit;

/// Escapes all characters that are not unreserved (RFC 3986 §2.3).
pub(super) fn escape_component(out: &mut Vec<u8>, text: &[u8]) -> BoundedResult<()> {
    percent(out, text, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

/// Escapes as forms do (the URL standard's `application/x-www-form-urlencoded`).
pub(super) fn escape_form(text: &[u8]) -> BoundedResult {
    let mut out = Vec::new();
    percent(&mut out, text, |byte| byte.is_ascii_alphanumeric() || b"*-._ ".contains(&byte))?;
    out.iter_mut().filter(|byte| **byte == b' ').for_each(|byte| *byte = b'+');
    Ok(out)
}

/// Undoes both escapes. Returns `None` if a percent sign begins no escape.
pub(super) fn unescape(text: &[u8], is_form: bool) -> BoundedResult<Option<Vec<u8>>> {
    let mut is_whole = true;
    let bytes = read(text, is_form, |_| is_whole = false)?;
    Ok(is_whole.then_some(bytes))
}

/// Undoes escapes; a percent sign that begins none is reported and stands for itself.
fn read(text: &[u8], is_form: bool, mut broken: impl FnMut(u8)) -> BoundedResult {
    let mut bytes = room(text.len())?;
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        let escaped = match behind {
            [high, low, ..] if first == b'%' => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        if let Some((high, low)) = escaped {
            bytes.push(high << 4 | low);
            rest = behind.get(2..).unwrap_or_default();
            continue;
        }
        if first == b'%' {
            broken(first);
        }
        bytes.push(if is_form && first == b'+' { b' ' } else { first });
    }
    Ok(bytes)
}

/// `codec.query(table) -> string`: `{q = "a b", page = 2, tag = {"x", "y"}}` becomes
/// `page=2&q=a%20b&tag=x&tag=y`.
///
/// Keys are in the order of their bytes, a list repeats its key. Raises an error for values that
/// are neither text, number nor boolean, and for keys that are no text.
pub(super) fn query(lua: &Lua, table: Table) -> Result<LuaString> {
    let mut names = Vec::new();
    for pair in table.pairs::<Value, Value>() {
        match pair?.0 {
            Value::String(name) => names.push(name.as_bytes().to_vec()),
            key => {
                let kind = key.type_name();
                return Err(Error::runtime(format!("codec.query: a {kind} for a key")));
            }
        }
    }
    names.sort_unstable();
    let mut out = Vec::new();
    for name in names {
        match table.raw_get(lua.create_string(&name)?)? {
            Value::Table(list) => {
                if list.pairs::<Value, Value>().count() != list.raw_len() {
                    let name = String::from_utf8_lossy(&name);
                    let message =
                        format!("codec.query: the value of {name:?} is a table, but no list");
                    return Err(Error::runtime(message));
                }
                for index in 1..=list.raw_len() {
                    pair(&mut out, &name, &list.raw_get(index)?)?;
                }
            }
            value => pair(&mut out, &name, &value)?,
        }
    }
    lua.create_string(out)
}

fn pair(out: &mut Vec<u8>, name: &[u8], value: &Value) -> Result<()> {
    let add = |out: &mut Vec<u8>, text: &[u8]| {
        escape_component(out, text).map_err(|why| why.of("codec.query"))
    };
    if !out.is_empty() {
        out.push(b'&');
    }
    add(out, name)?;
    out.push(b'=');
    let is_written = match value {
        Value::String(text) => {
            add(out, &text.as_bytes())?;
            true
        }
        Value::Integer(number) => {
            out.extend_from_slice(number.to_string().as_bytes());
            true
        }
        Value::Number(number) => write_number(out, *number),
        Value::Boolean(value) => {
            out.extend_from_slice(value.to_string().as_bytes());
            true
        }
        _ => false,
    };
    if is_written {
        return Ok(());
    }
    let (name, kind) = (String::from_utf8_lossy(name), value.type_name());
    Err(Error::runtime(format!("codec.query: the value of {name:?} is a {kind} that has no text")))
}

/// `codec.parse_query(text) -> last, all`, or `nil, why`
///
/// Reads a query or the body of a form: `last` has the last value of each name, as `req.query` and
/// forms have it, `all` has lists of all of them. A pair without `=` has an empty value, `+` is a
/// space, and a percent sign that begins no escape stands for itself, as the URL standard has it.
pub(super) fn parse_query(lua: &Lua, text: LuaString) -> Result<MultiValue> {
    let (last, all) = (lua.create_table()?, lua.create_table()?);
    let text = text.as_bytes();
    if let Err(why) = check(text.len()) {
        return (Value::Nil, why.to_string()).into_lua_multi(lua);
    }
    let pairs = text.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty());
    for (count, pair) in pairs.enumerate() {
        if count == QUERY_PAIRS_MAX {
            let why = format!("more than {QUERY_PAIRS_MAX} pairs");
            return (Value::Nil, why).into_lua_multi(lua);
        }
        let mut parts = pair.splitn(2, |&byte| byte == b'=');
        let mut part = || {
            let part = read(parts.next().unwrap_or_default(), true, |_| ());
            part.map_err(|why| why.of("codec.parse_query"))
        };
        let name = lua.create_string(part()?)?;
        let value = lua.create_string(part()?)?;
        last.raw_set(&name, &value)?;
        match all.raw_get::<Option<Table>>(&name)? {
            Some(list) => list.raw_push(value)?,
            None => all.raw_set(&name, lua.create_sequence_from([value])?)?,
        }
    }
    (last, all).into_lua_multi(lua)
}
