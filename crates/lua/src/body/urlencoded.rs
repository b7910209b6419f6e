//! `application/x-www-form-urlencoded` (WHATWG URL §5.1), the format of queries and simple forms.

use crate::limits::FORM_PAIRS_MAX;
use mlua::{Lua, Result, Table, Value};
use pinion_http::grammar::hex_digit;

/// Returns the pairs of a text, decoded, in order; pairs beyond [`FORM_PAIRS_MAX`] are left out.
pub(crate) fn pairs(text: &[u8]) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> + '_ {
    let pairs = text.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty());
    pairs.take(FORM_PAIRS_MAX).map(|pair| {
        let at = memchr::memchr(b'=', pair).unwrap_or(pair.len());
        (decode(&pair[..at]), decode(pair.get(at + 1..).unwrap_or_default()))
    })
}

/// Returns the values by name, see [`insert`].
pub(crate) fn table(lua: &Lua, text: &[u8]) -> Result<Table> {
    let table = lua.create_table()?;
    for (name, value) in pairs(text) {
        insert(lua, &table, &name, Value::String(lua.create_string(value)?))?;
    }
    Ok(table)
}

/// Adds a value. Of a name that comes more than once the last value counts, as in most languages'
/// tables, and the list under `NAME[]` has all of them. Values that the client itself calls
/// `NAME[]` are only in that list, also a single value: whatever is sent, scripts find a list there
/// or nothing.
pub(crate) fn insert(lua: &Lua, table: &Table, name: &[u8], value: Value) -> Result<()> {
    let base = name.strip_suffix(b"[]");
    let (name, is_listed) = (base.unwrap_or(name), base.is_some());
    let (key, list_key) = (lua.create_string(name)?, [name, b"[]"].concat());
    let list_key = lua.create_string(list_key)?;
    // Under a name that ends in brackets there is a list, which is no value.
    let earlier = if name.ends_with(b"[]") { Value::Nil } else { table.raw_get(&key)? };
    let list = match table.raw_get::<Value>(&list_key)? {
        Value::Table(list) => Some(list),
        _ if is_listed || !earlier.is_nil() => {
            let list = lua.create_table()?;
            if !earlier.is_nil() {
                list.raw_push(earlier)?;
            }
            table.raw_set(list_key, &list)?;
            Some(list)
        }
        _ => None,
    };
    if let Some(list) = list {
        list.raw_push(&value)?;
    }
    if is_listed { Ok(()) } else { table.raw_set(key, value) }
}

/// Decodes a text: `+` is a space, `%XX` a byte, and a percent sign without two digits stands for
/// itself.
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
    fn urlencoded_text_is_decoded_as_in_the_whatwg_tests() {
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
    fn a_repeated_name_also_has_a_list_of_its_values() {
        let lua = Lua::new();
        lua.globals().set("t", table(&lua, b"a=1&b=2&a=3&a=4").expect("a table")).expect("set");
        let shown: String = lua
            .load("return t.a .. t.b .. #t['a[]'] .. t['a[]'][1] .. t['a[]'][3]")
            .eval()
            .expect("ran");
        assert_eq!(shown, "42314");
    }

    #[test]
    fn a_name_with_brackets_at_its_end_is_a_list() {
        let lua = Lua::new();
        for (text, expected) in [
            ("a[]=x", "x"),
            ("a[]=x&a[]=y", "x y"),
            ("a[]=x&a=y", "x y"),
            ("a=w&a[]=x&a=y", "w x y"),
            ("a[]=x&a[][]=y", "x"),
            ("a[][]=y&a[]=x", "x"),
            ("a=v&a=w&a[]=x", "v w x"),
        ] {
            lua.globals().set("t", table(&lua, text.as_bytes()).expect("a table")).expect("set");
            let list = lua.load("return table.concat(t['a[]'], ' ')").eval::<String>();
            assert_eq!(list.expect("a list"), expected, "{text}");
        }
        let nested = table(&lua, b"a[]=x&a[][]=y").expect("a table");
        lua.globals().set("t", nested).expect("set");
        let list = lua.load("return table.concat(t['a[][]'])").eval::<String>();
        assert_eq!(list.expect("a list"), "y");
    }
}
