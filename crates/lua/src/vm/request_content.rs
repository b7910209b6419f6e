//! The functions by which a script reads the content of its request.

use std::rc::Rc;

use mlua::{Function, Lua, LuaString, Result, Table, Value};

use super::host_functions::{Host, OVER};
use crate::body::multipart_form::{FormValue, MultipartForm};
use crate::body::received_content::{ContentRead, LimitSetter, ReceivedContent};
use crate::body::urlencoded;
use crate::limits::CONTENT_PIECE_MAX_BYTES;
use crate::task::TaskId;

/// The result of a read: the data, whether to wait for it, and why it is not available.
type Response<T> = (Option<T>, bool, Option<String>);

/// Adds the functions to the table that `request_content.lua` receives, and its own functions as
/// `content`.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    table.raw_set("PIECE_BYTES", CONTENT_PIECE_MAX_BYTES)?;
    let chunk = lua.load(include_str!("../request_content.lua")).set_name("=pinion");
    table.raw_set("content", chunk.into_function()?)?;
    content(lua, host, table)?;
    files(lua, host, table)
}

fn content(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let of = Rc::clone(host);
    let limit = move |_: &Lua, (id, bytes): (TaskId, f64)| -> Result<Option<String>> {
        let Some(bytes) = whole(bytes) else {
            return Ok(Some(format!(
                "bad argument #1 to 'req:limit' (whole number of bytes expected, got {bytes})"
            )));
        };
        let limited = with(&of, id, |content| content.set_limit(bytes, LimitSetter::Script));
        Ok(match limited {
            Some(outcome) => outcome.err().map(str::to_owned),
            None => Some(OVER.to_owned()),
        })
    };
    table.raw_set("limit_content", lua.create_function(limit)?)?;
    let of = Rc::clone(host);
    let piece = move |lua: &Lua,
                      (id, bytes): (TaskId, Option<f64>)|
          -> Result<Response<LuaString>> {
        let bytes = match bytes.map(whole) {
            None => CONTENT_PIECE_MAX_BYTES,
            Some(Some(bytes @ 1..)) => bytes.min(CONTENT_PIECE_MAX_BYTES as u64) as usize,
            Some(_) => {
                let why = "the size of a piece is a whole number of bytes, 1 or more";
                return Ok((None, false, Some(why.to_owned())));
            }
        };
        let taken = with(&of, id, |content| content.piece(bytes, |piece| lua.create_string(piece)));
        response(taken, Option::transpose)
    };
    table.raw_set("take_piece", lua.create_function(piece)?)?;
    let of = Rc::clone(host);
    let whole = move |lua: &Lua, id: TaskId| -> Result<Response<LuaString>> {
        let taken = with(&of, id, |content| content.whole(|all| lua.create_string(all)));
        response(taken, |made| made.map(Some))
    };
    table.raw_set("take_whole", lua.create_function(whole)?)
}

fn files(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let of = Rc::clone(host);
    let take = move |lua: &Lua, (id, file): (TaskId, Function)| -> Result<Response<Table>> {
        let mut tasks = of.tasks.borrow_mut();
        let taken = tasks.request(id).map(|task| {
            let content_type = task.request.only_field(b"content-type");
            ready(&mut task.content, task.request.has_content());
            match task.content.form(content_type) {
                ContentRead::Ready(upload) => {
                    ContentRead::Ready(upload.map(|form| to_table(lua, id, form, &file)))
                }
                ContentRead::Pending => ContentRead::Pending,
                ContentRead::Unavailable(why) => ContentRead::Unavailable(why),
            }
        });
        response(taken, Option::transpose)
    };
    table.raw_set("take_form", lua.create_function(take)?)?;
    let of = Rc::clone(host);
    type Part = (TaskId, usize, Option<u64>, Option<f64>);
    let read = move |lua: &Lua, (id, number, at, bytes): Part| -> Result<_> {
        let mut tasks = of.tasks.borrow_mut();
        let memory_bytes = tasks.allowance.memory_bytes as u64;
        let Some(task) = tasks.request(id) else { return Ok((None, Some(OVER.to_owned()))) };
        let found = task.content.upload().and_then(|upload| Some((upload, upload.file(number)?)));
        let Some((upload, file)) = found else {
            return Ok((None, Some("the form has no such file".to_owned())));
        };
        let bytes =
            bytes.map_or(Some(file.bytes), whole).filter(|&bytes| bytes > 0 || file.bytes == 0);
        let Some(bytes) = bytes else {
            let why = "the size of a piece is a whole number of bytes, 1 or more";
            return Ok((None, Some(why.to_owned())));
        };
        // The file is in memory twice for a moment, and only one copy counts for the script.
        if bytes.min(file.bytes) > memory_bytes {
            let why = "the file is larger than the memory of a request, see --lua-memory: read it \
                       with file:pieces()";
            return Ok((None, Some(why.to_owned())));
        }
        match upload.read(file, at.unwrap_or(0), bytes) {
            Ok(text) => Ok((Some(lua.create_string(text)?), None)),
            Err(error) => Ok((None, Some(format!("cannot read the upload: {error}")))),
        }
    };
    table.raw_set("read_file", lua.create_function(read)?)
}

/// Returns the fields of a form; `file` makes the values that are files.
fn to_table(lua: &Lua, id: TaskId, upload: &MultipartForm, file: &Function) -> Result<Table> {
    let table = lua.create_table()?;
    for (number, entry) in upload.entries().iter().enumerate() {
        let value = match &entry.value {
            FormValue::Text(text) => Value::String(lua.create_string(text)?),
            FormValue::File(stored) => {
                let kind = stored.kind.as_ref().map(|kind| lua.create_string(kind)).transpose()?;
                file.call((id, number, &*stored.name, stored.bytes as f64, kind))?
            }
        };
        urlencoded::insert(lua, &table, &entry.name, value)?;
    }
    Ok(table)
}

/// Runs a function on the content of a request that lives.
fn with<T>(host: &Host, id: TaskId, act: impl FnOnce(&mut ReceivedContent) -> T) -> Option<T> {
    let mut tasks = host.tasks.borrow_mut();
    let task = tasks.request(id)?;
    ready(&mut task.content, task.request.has_content());
    Some(act(&mut task.content))
}

fn ready(content: &mut ReceivedContent, has_content: bool) {
    if !has_content {
        content.is_none();
    }
}

/// Converts a result to values of Lua.
fn response<T, M>(
    taken: Option<ContentRead<M>>,
    made: impl FnOnce(M) -> Result<Option<T>>,
) -> Result<Response<T>> {
    Ok(match taken {
        Some(ContentRead::Ready(value)) => (made(value)?, false, None),
        Some(ContentRead::Pending) => (None, true, None),
        Some(ContentRead::Unavailable(why)) => (None, false, Some(why)),
        None => (None, false, Some(OVER.to_owned())),
    })
}

/// Returns a number of bytes, if `number` is one.
fn whole(number: f64) -> Option<u64> {
    /// The largest value up to which a double represents every whole number.
    const MOST: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && (0.0..=MOST).contains(&number)).then_some(number as u64)
}
