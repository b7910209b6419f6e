//! Decodes a JSON text to Lua values, which are built where the parser meets them.

use super::super::limits::{JSON_DEPTH_MAX_LEVELS, JSON_TABLE_STEPS};
use super::super::limits::{JSON_TEXT_MAX_BYTES, JSON_VALUE_STEPS};
use super::Toll;
use core::fmt;
use mlua::{Lua, Table, Value};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::cell::Cell;

/// Decodes a text. The inner error is for the sender of the text: the mistake, with line and
/// column.
///
/// # Errors
/// Fails when memory runs out, so that Lua cannot hold the values.
pub(crate) fn decode(lua: &Lua, text: &[u8]) -> mlua::Result<Result<Value, String>> {
    if text.len() > JSON_TEXT_MAX_BYTES {
        return Ok(Err(format!("the text is longer than {JSON_TEXT_MAX_BYTES} bytes")));
    }
    let arrays = super::arrays(lua)?;
    let failed = Cell::new(None);
    let toll = Toll::of(lua);
    toll.take_bytes(text.len())?;
    let builder = Builder { lua, arrays: &arrays, failed: &failed, toll: &toll, depth: 0 };
    let mut parser = serde_json::Deserializer::from_slice(text);
    // The builder counts the levels.
    parser.disable_recursion_limit();
    let decoded = builder.deserialize(&mut parser).and_then(|value| parser.end().map(|()| value));
    match failed.take() {
        Some(error) => Err(error),
        None => Ok(decoded.map_err(|error| error.to_string())),
    }
}

/// Builds a Lua value of the next JSON value.
#[derive(Clone, Copy)]
struct Builder<'b> {
    lua: &'b Lua,
    /// The metatable of arrays.
    arrays: &'b Table,
    /// An error of Lua, which is not the fault of the text.
    failed: &'b Cell<Option<mlua::Error>>,
    toll: &'b Toll,
    /// The number of arrays and objects around the value.
    depth: usize,
}

impl Builder<'_> {
    fn inside<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth == JSON_DEPTH_MAX_LEVELS {
            return Err(E::custom(format_args!("deeper than {JSON_DEPTH_MAX_LEVELS} levels")));
        }
        self.lua(self.toll.take(JSON_TABLE_STEPS))?;
        Ok(Builder { depth: self.depth + 1, ..self })
    }

    /// Remembers an error of Lua and ends the parsing with it.
    fn lua<T, E: serde::de::Error>(&self, done: mlua::Result<T>) -> Result<T, E> {
        done.map_err(|error| {
            let reported = E::custom("Lua could not hold it");
            self.failed.set(Some(error));
            reported
        })
    }
}

impl<'de> DeserializeSeed<'de> for Builder<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.lua(self.toll.take(JSON_VALUE_STEPS))?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Builder<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::NULL)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    /// Numbers above the integers of Lua become floats.
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or(Value::Number(value as f64), Value::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        self.lua(self.lua.create_string(text)).map(Value::String)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let table = self.lua(self.lua.create_table())?;
        let mut index: usize = 0;
        while let Some(item) = items.next_element_seed(inside)? {
            index += 1;
            self.lua(table.raw_set(index, item))?;
        }
        self.lua(table.set_metatable(Some(self.arrays.clone())))?;
        Ok(Value::Table(table))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let table = self.lua(self.lua.create_table())?;
        // Keys are strings by the grammar, so the same builder makes them.
        while let Some((name, value)) = members.next_entry_seed(inside, inside)? {
            self.lua(table.raw_set(name, value))?;
        }
        Ok(Value::Table(table))
    }
}
