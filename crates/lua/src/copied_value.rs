//! Values that are copied out of their VM: for another worker, for the next script, or as the
//! result of a job.

use std::fmt;

use mlua::{Lua, Result, Table, Value};

use crate::limits::{PLAIN_MAX_BYTES, PLAIN_MAX_DEPTH, PLAIN_PIECE_BYTES};

/// A value that is only data.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CopiedValue {
    /// The value nil.
    Nil,
    /// True or false.
    Boolean(bool),
    /// A whole number, in versions of Lua that distinguish them.
    Integer(i64),
    /// A number.
    Number(f64),
    /// A string.
    Bytes(Vec<u8>),
    /// A table: names and values.
    Table(Vec<(CopiedValue, CopiedValue)>),
}

/// The bounds that are left while a value is copied.
struct Bounds {
    bytes: usize,
    depth: u32,
}

impl CopiedValue {
    /// Copies a value.
    ///
    /// # Errors
    /// Returns the part that is no data, or that the value is too large.
    pub(crate) fn of(value: &Value) -> std::result::Result<Self, String> {
        let mut left = Bounds { bytes: PLAIN_MAX_BYTES, depth: PLAIN_MAX_DEPTH };
        copy(value, &mut left).map_err(|error| error.to_string())
    }

    /// Returns the memory that the value takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let more = match self {
            Self::Bytes(text) => PLAIN_PIECE_BYTES + text.len(),
            Self::Table(pairs) => {
                let pair = |(name, value): &(Self, Self)| name.bytes() + value.bytes();
                PLAIN_PIECE_BYTES + pairs.iter().map(pair).sum::<usize>()
            }
            _ => 0,
        };
        size_of::<Self>() + more
    }

    /// Converts it to a value of a VM.
    pub(crate) fn to_lua(&self, lua: &Lua) -> Result<Value> {
        Ok(match self {
            Self::Nil => Value::Nil,
            Self::Boolean(value) => Value::Boolean(*value),
            Self::Integer(value) => Value::Integer(*value),
            Self::Number(value) => Value::Number(*value),
            Self::Bytes(value) => Value::String(lua.create_string(value)?),
            Self::Table(pairs) => {
                let table = lua.create_table()?;
                for (name, value) in pairs {
                    table.raw_set(name.to_lua(lua)?, value.to_lua(lua)?)?;
                }
                Value::Table(table)
            }
        })
    }
}

/// The reason why a value cannot be copied.
enum CopyError {
    /// A part of the value is no data: its type, and its names from the innermost table outwards.
    NoData { kind: &'static str, names: Vec<String> },
    /// The value is too large or too deep.
    TooMuch(String),
}

impl CopyError {
    /// Adds the name of the field in which the part is.
    fn within(mut self, name: &CopiedValue) -> Self {
        if let Self::NoData { names, .. } = &mut self {
            names.push(match name {
                CopiedValue::Bytes(text) => String::from_utf8_lossy(text).into_owned(),
                CopiedValue::Integer(number) => number.to_string(),
                CopiedValue::Number(number) => number.to_string(),
                CopiedValue::Boolean(value) => value.to_string(),
                CopiedValue::Nil | CopiedValue::Table(_) => "?".to_owned(),
            });
        }
        self
    }
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DATA: &str = "only strings, numbers, booleans and tables of them can be copied";
        match self {
            Self::TooMuch(why) => f.write_str(why),
            Self::NoData { kind, names } if names.is_empty() => {
                write!(f, "{DATA}, and the value is a {kind}")
            }
            Self::NoData { kind, names } => {
                let names: Vec<&str> = names.iter().rev().map(String::as_str).collect();
                write!(f, "{DATA}, and the field {:?} of the value is a {kind}", names.join("."))
            }
        }
    }
}

fn copy(value: &Value, left: &mut Bounds) -> std::result::Result<CopiedValue, CopyError> {
    Ok(match value {
        Value::Nil => CopiedValue::Nil,
        Value::Boolean(value) => CopiedValue::Boolean(*value),
        Value::Integer(value) => CopiedValue::Integer(*value),
        Value::Number(value) => CopiedValue::Number(*value),
        Value::String(text) => {
            let text = text.as_bytes();
            charge(left, text.len())?;
            CopiedValue::Bytes(text.to_vec())
        }
        Value::Table(table) => CopiedValue::Table(pairs(table, left)?),
        other => {
            return Err(CopyError::NoData { kind: other.type_name(), names: Vec::new() });
        }
    })
}

fn pairs(
    table: &Table,
    left: &mut Bounds,
) -> std::result::Result<Vec<(CopiedValue, CopiedValue)>, CopyError> {
    let deep = || {
        CopyError::TooMuch(format!(
            "the value has more than {PLAIN_MAX_DEPTH} levels of tables, or contains itself; copy \
             what you need into a flat table"
        ))
    };
    left.depth = left.depth.checked_sub(1).ok_or_else(deep)?;
    let mut pairs = Vec::new();
    // `__pairs` is not used, because it would be code.
    for pair in table.pairs::<Value, Value>() {
        let (name, value) = pair.map_err(|error| CopyError::TooMuch(error.to_string()))?;
        charge(left, size_of::<(CopiedValue, CopiedValue)>())?;
        let name = copy(&name, left)?;
        let value = copy(&value, left).map_err(|error| error.within(&name))?;
        pairs.push((name, value));
    }
    left.depth += 1;
    // Growth may have doubled the capacity, which a value that waits would keep.
    pairs.shrink_to_fit();
    Ok(pairs)
}

fn charge(left: &mut Bounds, bytes: usize) -> std::result::Result<(), CopyError> {
    let large = || {
        let kib = PLAIN_MAX_BYTES / 1024;
        CopyError::TooMuch(format!(
            "the value is larger than {kib} KiB, the most of a message or a kept value"
        ))
    };
    left.bytes = left.bytes.checked_sub(bytes).ok_or_else(large)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(code: &str) -> std::result::Result<String, String> {
        let lua = Lua::new();
        let value: Value = lua.load(code).eval().expect("a value");
        let plain = CopiedValue::of(&value)?;
        let other = Lua::new();
        other.globals().set("it", plain.to_lua(&other).expect("a value")).expect("set");
        other.load("local t = it return tostring(t)").eval::<String>().expect("text");
        let shown = "local function show(v) if type(v) ~= 'table' then return tostring(v) end \
                     local names = {} for k, w in pairs(v) do \
                     names[#names + 1] = tostring(k) .. '=' .. show(w) end \
                     table.sort(names) return '{' .. table.concat(names, ' ') .. '}' end \
                     return show(it)";
        Ok(other.load(shown).eval::<String>().expect("text"))
    }

    #[test]
    fn copied_data_is_equal_in_another_vm() {
        let all = "return { 1, 2.5, 'a\\0b', true, name = { deep = { 'x' } }, [0.5] = false }";
        let shown = "{0.5=false 1=1 2=2.5 3=a\0b 4=true name={deep={1=x}}}";
        assert_eq!(copied(all).expect("plain"), shown);
        assert_eq!(copied("return nil").expect("plain"), "nil");
        assert_eq!(copied("return 12").expect("plain"), "12");
    }

    fn taken_bytes(value: &CopiedValue) -> usize {
        // What glibc gives: sixteens, of which eight bytes are its own, and two at least.
        let allocated = |bytes: usize| (bytes + 8).next_multiple_of(16).max(32);
        let more = match value {
            CopiedValue::Bytes(text) if text.capacity() > 0 => allocated(text.capacity()),
            CopiedValue::Table(pairs) if pairs.capacity() > 0 => {
                let beside = allocated(pairs.capacity() * size_of::<(CopiedValue, CopiedValue)>());
                let within = |value| taken_bytes(value) - size_of::<CopiedValue>();
                let inner = pairs.iter().map(|(name, value)| within(name) + within(value));
                beside + inner.sum::<usize>()
            }
            _ => 0,
        };
        size_of::<CopiedValue>() + more
    }

    #[test]
    fn a_copied_value_takes_no_more_memory_than_it_is_counted_for() {
        let lua = Lua::new();
        for code in [
            "return 'x'",
            "return ('x'):rep(2^20)",
            "local t = {} for i = 1, 1025 do t[i] = 'x' end return t",
            "local t = {} for i = 1, 4097 do t[i] = i end return t",
            "local t = {} for i = 1, 1000 do t[i] = { i } end return t",
            "return { a = { b = { c = {} } } }",
        ] {
            let value: Value = lua.load(code).eval().expect("a value");
            let plain = CopiedValue::of(&value).expect("plain");
            let (taken, weighed) = (taken_bytes(&plain), plain.bytes());
            assert!(taken <= weighed && weighed <= 3 * taken, "{code}: {taken} of {weighed}");
        }
    }

    #[test]
    fn functions_circular_tables_and_values_over_1_mib_are_not_copied() {
        for code in ["return print", "return { a = { print } }", "return coroutine.create(print)"] {
            assert!(copied(code).expect_err("refused").contains("only strings"), "{code}");
        }
        let circle = "local t = {} t.t = t return t";
        assert!(copied(circle).expect_err("refused").contains("contains itself"));
        let large = "return { ('x'):rep(2^19), ('y'):rep(2^19 + 1) }";
        assert!(copied(large).expect_err("refused").contains("1024 KiB"));
        let many = "local t = {} for i = 1, 1e6 do t[i] = i end return t";
        assert!(copied(many).expect_err("refused").contains("1024 KiB"));
    }

    #[test]
    fn an_error_names_the_field_that_cannot_be_copied() {
        for (code, words) in [
            ("return print", "and the value is a function"),
            ("return { f = print }", "the field \"f\" of the value is a function"),
            (
                "return { a = { { b = coroutine.create(print) } } }",
                "the field \"a.1.b\" of the value is a thread",
            ),
            ("return { [true] = { x = io.stdout } }", "the field \"true.x\" of the value is a"),
        ] {
            let why = copied(code).expect_err(code);
            assert!(why.starts_with("only strings, numbers") && why.contains(words), "{why}");
        }
    }
}
