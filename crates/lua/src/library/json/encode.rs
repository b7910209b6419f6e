//! Encodes Lua values to a JSON text, in one walk.

use super::super::limits::{
    JSON_DEPTH_MAX_LEVELS, JSON_PATH_MAX_STEPS, JSON_TABLE_STEPS, JSON_TEXT_MAX_BYTES,
    JSON_VALUE_STEPS,
};
use super::Toll;
use crate::library::shown;
use core::ffi::c_void;
use core::fmt::Write as _;
use mlua::{Error, Lua, LuaString, Result, Table, Value};

/// Integers below this are exact as floats, so a float that has no fraction can be written as one.
const EXACT_INTEGERS_BELOW: f64 = 9_007_199_254_740_992.0;

/// The format of the text.
#[derive(Default)]
pub(crate) struct JsonStyle {
    /// Spaces and tabs of one level; without any the text is one line without spaces.
    pub(crate) indent: Vec<u8>,
    /// Whether the keys of objects are in the order of their bytes, else in Lua's.
    pub(crate) is_sorted: bool,
}

/// Encodes a value of any kind; nil is `null`.
///
/// # Errors
/// Returns the value that JSON cannot represent, with its position.
pub(crate) fn encode(lua: &Lua, value: &Value, style: &JsonStyle) -> Result<Vec<u8>> {
    let arrays = super::arrays(lua)?.to_pointer();
    let (out, parents, toll) = (Vec::new(), Vec::new(), Toll::of(lua));
    let mut encoder = JsonEncoder { lua, style, arrays, out, parents, toll };
    encoder.value(value).and_then(|()| encoder.bounded()).map_err(Stop::error)?;
    Ok(encoder.out)
}

/// Writes a number, floats without a fraction as integers, so that both flavours write the same
/// text. Returns false, and writes nothing, if it is not finite.
pub(crate) fn write_number(out: &mut Vec<u8>, number: f64) -> bool {
    let is_negative_zero = number == 0.0 && number.is_sign_negative();
    if number.fract() == 0.0 && number.abs() < EXACT_INTEGERS_BELOW && !is_negative_zero {
        out.extend_from_slice((number as i64).to_string().as_bytes());
        return true;
    }
    number.is_finite() && serde_json::to_writer(out, &number).is_ok()
}

/// The reason why the walk has ended.
enum Stop {
    /// A value that JSON cannot represent, and the path to it, the last step first.
    Fault {
        problem: String,
        steps: Vec<EncoderStep>,
    },
    /// A table contains itself: the numbers of tables around both of its occurrences.
    Cycle {
        outer: usize,
        inner: usize,
        steps: Vec<EncoderStep>,
    },
    Lua(Error),
}

enum EncoderStep {
    Key(String),
    Index(i64),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Lua(error)
    }
}

impl Stop {
    fn fault<T>(problem: impl Into<String>) -> core::result::Result<T, Stop> {
        Err(Stop::Fault { problem: problem.into(), steps: Vec::new() })
    }

    /// Adds the step of the table that contains the value.
    fn under(mut self, step: EncoderStep) -> Stop {
        match &mut self {
            Stop::Fault { steps, .. } | Stop::Cycle { steps, .. } => steps.push(step),
            Stop::Lua(_) => {}
        }
        self
    }

    fn error(self) -> Error {
        match self {
            Stop::Fault { problem, steps } => {
                Error::runtime(format!("json.encode: {} {problem}", path(steps.iter().rev())))
            }
            Stop::Cycle { outer, inner, steps } => Error::runtime(format!(
                "json.encode: {} refers to {}: JSON cannot contain circular references",
                path(steps.iter().rev().take(inner)),
                path(steps.iter().rev().take(outer)),
            )),
            Stop::Lua(error) => error,
        }
    }
}

/// Returns a position as Lua would write it, from the root on.
fn path<'s>(steps: impl Iterator<Item = &'s EncoderStep>) -> String {
    let mut text = String::from("data");
    for (count, step) in steps.enumerate() {
        if count == JSON_PATH_MAX_STEPS {
            text.push('…');
            break;
        }
        // Writing into a string cannot fail.
        let _ = match step {
            EncoderStep::Index(index) => write!(text, "[{index}]"),
            EncoderStep::Key(key) if is_name(key) => write!(text, ".{key}"),
            EncoderStep::Key(key) => write!(text, "[{key:?}]"),
        };
    }
    text
}

fn is_name(key: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    key.bytes().all(is_letter) && key.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}

type Walked = core::result::Result<(), Stop>;

struct JsonEncoder<'e> {
    lua: &'e Lua,
    style: &'e JsonStyle,
    /// The metatable of arrays.
    arrays: *const c_void,
    out: Vec<u8>,
    /// The tables that are open, the root first.
    parents: Vec<*const c_void>,
    toll: Toll,
}

impl JsonEncoder<'_> {
    fn value(&mut self, value: &Value) -> Walked {
        self.toll.take(JSON_VALUE_STEPS)?;
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Integer(number) => self.out.extend_from_slice(number.to_string().as_bytes()),
            Value::Number(number) => {
                if !write_number(&mut self.out, *number) {
                    return Stop::fault(format!("is {number}, and JSON has finite numbers only"));
                }
            }
            Value::String(text) => match self.text(text)? {
                Ok(()) => {}
                Err(at) => return Stop::fault(format!("is not UTF-8 at byte {}", at + 1)),
            },
            Value::Table(table) => return self.table(table),
            value if value.is_null() => self.out.extend_from_slice(b"null"),
            value => {
                let kind = value.type_name();
                return Stop::fault(format!("is a {kind}, and JSON has no such value"));
            }
        }
        self.bounded()
    }

    fn bounded(&self) -> Walked {
        if self.out.len() > JSON_TEXT_MAX_BYTES {
            return Stop::fault(format!("makes the text longer than {JSON_TEXT_MAX_BYTES} bytes"));
        }
        Ok(())
    }

    /// Writes a string, or returns at which byte it is no UTF-8.
    fn text(&mut self, text: &LuaString) -> Result<core::result::Result<(), usize>> {
        let bytes = text.as_bytes();
        self.toll.take_bytes(bytes.len())?;
        match core::str::from_utf8(&bytes) {
            Ok(text) => serde_json::to_writer(&mut self.out, text).map_err(Error::external).map(Ok),
            Err(error) => Ok(Err(error.valid_up_to())),
        }
    }

    fn table(&mut self, table: &Table) -> Walked {
        let this = table.to_pointer();
        if self.parents.len() == JSON_DEPTH_MAX_LEVELS {
            return Err(self.too_deep(this));
        }
        self.parents.push(this);
        let is_marked = table.metatable().is_some_and(|meta| meta.to_pointer() == self.arrays);
        let length = table.raw_len();
        self.toll.take(JSON_TABLE_STEPS + length)?;
        if is_marked || length > 0 {
            is_dense(table, length)?;
            self.items(table, length)?;
        } else if self.style.is_sorted {
            self.sorted_members(table)?;
        } else {
            self.members(table)?;
        }
        self.parents.pop();
        Ok(())
    }

    /// Returns the fault where the limit of levels was met: nearly always a table that contains
    /// itself.
    fn too_deep(&self, last: *const c_void) -> Stop {
        let mut tables = self.parents.clone();
        tables.push(last);
        for (inner, table) in tables.iter().enumerate() {
            if let Some(outer) = tables.iter().take(inner).position(|before| before == table) {
                return Stop::Cycle { outer, inner, steps: Vec::new() };
            }
        }
        let problem = format!("lies deeper than {JSON_DEPTH_MAX_LEVELS} levels");
        Stop::Fault { problem, steps: Vec::new() }
    }

    fn items(&mut self, table: &Table, length: usize) -> Walked {
        self.out.push(b'[');
        for index in 1..=length {
            self.next_line(index > 1, self.parents.len());
            let item: Value = table.raw_get(index)?;
            let step = EncoderStep::Index(i64::try_from(index).unwrap_or(i64::MAX));
            self.value(&item).map_err(|stop| stop.under(step))?;
        }
        self.close(b']', length > 0)
    }

    fn members(&mut self, table: &Table) -> Walked {
        self.out.push(b'{');
        let mut is_later = false;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            let key = name(&key)?;
            self.member(is_later, key, &value)?;
            is_later = true;
        }
        self.close(b'}', is_later)
    }

    fn sorted_members(&mut self, table: &Table) -> Walked {
        let mut names = Vec::new();
        for pair in table.pairs::<Value, Value>() {
            names.push(name(&pair?.0)?);
        }
        names.sort_unstable();
        self.out.push(b'{');
        let is_any = !names.is_empty();
        for (count, name) in names.into_iter().enumerate() {
            let value: Value = table.raw_get(self.lua.create_string(&name)?)?;
            self.member(count > 0, name, &value)?;
        }
        self.close(b'}', is_any)
    }

    fn member(&mut self, is_later: bool, name: String, value: &Value) -> Walked {
        self.next_line(is_later, self.parents.len());
        self.toll.take_bytes(name.len())?;
        serde_json::to_writer(&mut self.out, &name).map_err(Error::external)?;
        self.out.push(b':');
        if !self.style.indent.is_empty() {
            self.out.push(b' ');
        }
        self.value(value).map_err(|stop| stop.under(EncoderStep::Key(name)))
    }

    fn close(&mut self, bracket: u8, has_content: bool) -> Walked {
        if has_content {
            self.next_line(false, self.parents.len().saturating_sub(1));
        }
        self.out.push(bracket);
        self.bounded()
    }

    fn next_line(&mut self, is_later: bool, levels: usize) {
        if is_later {
            self.out.push(b',');
        }
        if !self.style.indent.is_empty() {
            self.out.push(b'\n');
            for _ in 0..levels {
                self.out.extend_from_slice(&self.style.indent);
            }
        }
    }
}

/// Returns whether the keys are 1 to `length` and nothing else.
fn is_dense(table: &Table, length: usize) -> Walked {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let mut count = 0;
    for pair in table.pairs::<Value, Value>() {
        match pair?.0 {
            Value::Integer(index) if (1..=length).contains(&index) => count += 1,
            Value::Integer(index) => return Stop::fault(with_holes(index)),
            key => {
                let key = shown(&key);
                return Stop::fault(format!(
                    "has array elements and the key {key:?}; a JSON value is either an array or an \
                     object"
                ));
            }
        }
    }
    if count == length { Ok(()) } else { Stop::fault(with_holes(length)) }
}

fn with_holes(index: i64) -> String {
    format!("is an array with holes (it has an item {index}): fill them with json.null")
}

/// Returns the key of a member as text.
fn name(key: &Value) -> core::result::Result<String, Stop> {
    match key {
        Value::String(name) => {
            let name = String::from_utf8(name.as_bytes().to_vec());
            name.or_else(|error| {
                let name = String::from_utf8_lossy(error.as_bytes()).into_owned();
                Stop::fault(format!("has the key {name:?}, which is not UTF-8"))
            })
        }
        Value::Integer(index) => Stop::fault(with_holes(*index)),
        key => {
            let kind = key.type_name();
            Stop::fault(format!("has a {kind} for a key, and JSON has strings only"))
        }
    }
}
