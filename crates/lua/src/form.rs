//! `application/x-www-form-urlencoded` (WHATWG URL §5.1): what queries and simple forms are
//! written in.

use crate::limits::FORM_PAIRS_MAX;
use mlua::{Lua, Result, Table, Value};
use pinion_http::grammar::hex_digit;

/// The pairs of a text, decoded, in order; those beyond [`FORM_PAIRS_MAX`] are left out.
pub(crate) fn pairs(text: &[u8]) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> + '_ {
    let pairs = text.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty());
    pairs.take(FORM_PAIRS_MAX).map(|pair| {
        let at = memchr::memchr(b'=', pair).unwrap_or(pair.len());
        (decode(&pair[..at]), decode(pair.get(at + 1..).unwrap_or_default()))
    })
}

/// Values by name, see [`insert`].
pub(crate) fn table(lua: &Lua, text: &[u8]) -> Result<Table> {
    let table = lua.create_table()?;
    for (name, value) in pairs(text) {
        insert(lua, &table, &name, Value::String(lua.create_string(value)?))?;
    }
    Ok(table)
}

/// Adds a value. Of a name that comes more than once the last value counts, as in most languages'
/// tables; all of them stand in the list under `NAME[]`. A name that a client ends with `[]` itself
/// is that list, also with one value: it is what scripts go through.
pub(crate) fn insert(lua: &Lua, table: &Table, name: &[u8], value: Value) -> Result<()> {
    if name.ends_with(b"[]") {
        return match table.raw_get::<Value>(lua.create_string(name)?)? {
            Value::Table(list) => list.raw_push(&value),
            _ => table.raw_set(lua.create_string(name)?, lua.create_sequence_from([value])?),
        };
    }
    let key = lua.create_string(name)?;
    let earlier: Value = table.raw_get(&key)?;
    if !earlier.is_nil() {
        let list_key = lua.create_string([name, b"[]"].concat())?;
        let list = match table.raw_get::<Value>(&list_key)? {
            Value::Table(list) => list,
            _ => {
                let list = lua.create_sequence_from([earlier])?;
                table.raw_set(&list_key, &list)?;
                list
            }
        };
        list.raw_push(&value)?;
    }
    table.raw_set(key, value)
}

/// `+` is a space, `%XX` a byte; a percent sign without two digits stands for itself.
fn decode(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        rest = after;
        let byte = match (first, after) {
            (b'+', _) => b' ',
            (b'%', [high, low, behind @ ..]) => match (hex_digit(*high), hex_digit(*low)) {
                (Some(high), Some(low)) => {
                    rest = behind;
                    high << 4 | low
                }
                _ => b'%',
            },
            (byte, _) => *byte,
        };
        decoded.push(byte);
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of WHATWG's own tests for urlencoded parsing.
    #[test]
    fn texts_are_read_as_browsers_write_them() {
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("", &[]),
            ("a=b&c=d", &[("a", "b"), ("c", "d")]),
            ("a=b&&c", &[("a", "b"), ("c", "")]),
            ("a=b=c", &[("a", "b=c")]),
            ("=b", &[("", "b")]),
            ("a+b=c%20d%2b", &[("a b", "c d+")]),
            ("a=%&b=%2&c=%zz", &[("a", "%"), ("b", "%2"), ("c", "%zz")]),
            ("%61=%00", &[("a", "\0")]),
        ];
        for (text, expected) in cases {
            let found: Vec<_> = pairs(text.as_bytes())
                .map(|(name, value)| {
                    (String::from_utf8(name).expect(text), String::from_utf8(value).expect(text))
                })
                .collect();
            let expected: Vec<_> =
                expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_name_that_comes_again_has_a_list() {
        let lua = Lua::new();
        lua.globals().set("t", table(&lua, b"a=1&b=2&a=3&a=4").expect("a table")).expect("set");
        let shown: String = lua
            .load("return t.a .. t.b .. #t['a[]'] .. t['a[]'][1] .. t['a[]'][3]")
            .eval()
            .expect("ran");
        assert_eq!(shown, "42314");
    }
}
