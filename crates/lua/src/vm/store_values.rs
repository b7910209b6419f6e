//! Values of Lua as arguments of commands of the store, and replies as values of Lua.

use mlua::{Lua, MultiValue, Result, Table, Value};
use pinion_store::local_client::LocalCommand;
use pinion_store::{ReplyElement, ReplyOutput, ReplyReader};

use crate::limits::{STORE_ARGUMENTS_MAX, STORE_ELEMENTS_MAX};

/// The largest number up to which Lua has all integers; a larger one is a string.
const EXACT_MAX: u64 = 1 << 53;

/// Makes values the arguments of a command, and checks it.
///
/// # Errors
/// Returns the error of the arguments.
pub(super) fn add_arguments(
    command: &mut LocalCommand,
    values: &MultiValue,
    max_bytes: usize,
) -> std::result::Result<(), String> {
    command.clear();
    let mut arguments = ArgumentWriter { command: &mut *command, max_bytes };
    for (position, value) in values.iter().enumerate() {
        arguments.add(value, position).map_err(|why| match values.front() {
            Some(Value::String(name)) => format!("{}: {why}", name.to_string_lossy()),
            _ => why,
        })?;
    }
    command.check().map_err(|error| error.to_string())
}

/// Adds arguments up to the limits.
struct ArgumentWriter<'c> {
    command: &'c mut LocalCommand,
    max_bytes: usize,
}

impl ArgumentWriter<'_> {
    /// Adds one value. Position 0 is the name of the command.
    fn add(&mut self, value: &Value, position: usize) -> std::result::Result<(), String> {
        match value {
            Value::Table(table) if position > 0 => self.add_table(table, position),
            _ if self.add_one(value)? => Ok(()),
            _ if position == 0 => {
                Err(format!("the name of a command is a string, not a {}", type_name(value)))
            }
            _ => Err(format!(
                "argument {position} is a {}; write a string, a number, or a table of them",
                type_name(value)
            )),
        }
    }

    /// Adds the elements of a list, or the names and values of another table.
    fn add_table(&mut self, table: &Table, position: usize) -> std::result::Result<(), String> {
        let wrong = |value: &Value| {
            Err(format!(
                "argument {position} is a table that contains a {}; it may contain strings and \
                 numbers, and functions of the store are called with a dot",
                type_name(value)
            ))
        };
        let unreadable = |error: mlua::Error| error.to_string();
        let count = table.raw_len();
        if count > 0 {
            for index in 1..=count {
                let value = table.raw_get(index).map_err(unreadable)?;
                if !self.add_one(&value)? {
                    return wrong(&value);
                }
            }
            if table.pairs::<Value, Value>().count() > count {
                return Err(format!(
                    "argument {position} is a table with numbers and names, or with gaps; write a \
                     list, or names with their values"
                ));
            }
            return Ok(());
        }
        for pair in table.pairs::<Value, Value>() {
            let (name, value) = pair.map_err(unreadable)?;
            for value in [name, value] {
                if !self.add_one(&value)? {
                    return wrong(&value);
                }
            }
        }
        Ok(())
    }

    /// Adds a string or a number. Returns whether it is one.
    fn add_one(&mut self, value: &Value) -> std::result::Result<bool, String> {
        match value {
            Value::String(text) => {
                let text = text.as_bytes();
                if self.command.byte_len() + text.len() > self.max_bytes {
                    let kib = self.max_bytes >> 10;
                    return Err(format!("the arguments of a command have at most {kib} KiB"));
                }
                self.command.push(&text);
            }
            Value::Number(number) if number.is_nan() => {
                return Err("an argument is the result of 0/0, which is no number".to_owned());
            }
            Value::Integer(number) => self.command.push_integer(*number),
            Value::Number(number) => self.command.push_number(*number),
            _ => return Ok(false),
        }
        if self.command.argument_count() > STORE_ARGUMENTS_MAX {
            return Err(format!("a command has at most {STORE_ARGUMENTS_MAX} arguments"));
        }
        Ok(true)
    }
}

fn type_name(value: &Value) -> &'static str {
    if value.is_null() { "null" } else { value.type_name() }
}

/// Writes the arguments of a command, each after its length.
pub(super) fn pack(command: &LocalCommand, packed: &mut Vec<u8>) {
    packed.clear();
    for argument in command.arguments() {
        // The limit of all arguments is far below `u32::MAX`.
        let length = u32::try_from(argument.len()).unwrap_or(u32::MAX);
        packed.extend_from_slice(&length.to_le_bytes());
        packed.extend_from_slice(argument);
    }
}

/// Turns the bytes that [`pack`] has written into a command again.
///
/// # Errors
/// Fails if they are no command.
pub(super) fn add_packed(
    command: &mut LocalCommand,
    mut packed: &[u8],
) -> std::result::Result<(), String> {
    command.clear();
    while let Some((length, rest)) = packed.split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some((argument, rest)) = rest.split_at_checked(length) else { break };
        command.push(argument);
        packed = rest;
    }
    command.check().map_err(|error| error.to_string())
}

/// Returns the value of a reply, or why there is none: the text of an error, or that it is too
/// large.
///
/// # Errors
/// Fails when memory runs out.
pub(super) fn value_of(
    lua: &Lua,
    output: &ReplyOutput,
    max_bytes: usize,
) -> Result<std::result::Result<Value, String>> {
    if output.len() > max_bytes {
        return Ok(Err(format!(
            "the reply has {} KiB, and a script gets at most {} KiB at once; ask for less",
            output.len() >> 10,
            max_bytes >> 10
        )));
    }
    let mut replies =
        ReplyValues { lua, reader: ReplyReader::new(output), left: STORE_ELEMENTS_MAX };
    let value = match replies.next() {
        Ok(Some(value)) => Ok(value),
        Ok(None) => Ok(Value::Nil),
        Err(ReplyFault::Lua(error)) => return Err(error),
        Err(ReplyFault::Error(text)) => Err(text),
        Err(ReplyFault::TooMany) => Err(format!(
            "the reply has more than {STORE_ELEMENTS_MAX} elements; ask for fewer at once"
        )),
    };
    Ok(value)
}

/// Converts replies to values.
struct ReplyValues<'o, 'l> {
    lua: &'l Lua,
    reader: ReplyReader<'o>,
    /// The number of elements that are still allowed.
    left: usize,
}

enum ReplyFault {
    Error(String),
    TooMany,
    Lua(mlua::Error),
}

impl ReplyFault {
    /// Adds the number of the command that has failed. Only the reply of a transaction has errors
    /// within a list.
    fn of_command(self, number: usize) -> Self {
        match self {
            Self::Error(text) => {
                Self::Error(format!("command {number} of the transaction: {text}"))
            }
            other => other,
        }
    }
}

impl From<mlua::Error> for ReplyFault {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

impl ReplyValues<'_, '_> {
    /// Returns the next value; `None` for null.
    fn next(&mut self) -> std::result::Result<Option<Value>, ReplyFault> {
        self.left = self.left.checked_sub(1).ok_or(ReplyFault::TooMany)?;
        let Some(element) = self.reader.next_element() else { return Ok(None) };
        Ok(Some(match element {
            ReplyElement::Null => return Ok(None),
            ReplyElement::Integer(number) if number.unsigned_abs() > EXACT_MAX => {
                Value::String(self.lua.create_string(number.to_string())?)
            }
            ReplyElement::Integer(number) => Value::Integer(number),
            ReplyElement::Double(number) => Value::Number(number),
            ReplyElement::Bytes(bytes) => Value::String(self.lua.create_string(bytes)?),
            ReplyElement::Error(text) => {
                return Err(ReplyFault::Error(String::from_utf8_lossy(text).into_owned()));
            }
            ReplyElement::List(count) => {
                let table = self.lua.create_table_with_capacity(self.room(count), 0)?;
                for index in 1..=count {
                    let value = self.next().map_err(|fault| fault.of_command(index))?;
                    table.raw_set(index, value.unwrap_or(Value::NULL))?;
                }
                Value::Table(table)
            }
            ReplyElement::Map(count) => {
                let table = self.lua.create_table_with_capacity(0, self.room(count))?;
                for _ in 0..count {
                    let key = self.next()?.unwrap_or(Value::NULL);
                    let value = self.next()?.unwrap_or(Value::NULL);
                    table.raw_set(key, value)?;
                }
                Value::Table(table)
            }
        }))
    }

    /// Returns the capacity of a table of so many elements, which may be too many.
    fn room(&self, count: usize) -> usize {
        count.min(self.left)
    }
}
