//! The functions of the host for files: each queues a job, and the function that sends a file
//! describes it in between.

use std::rc::Rc;

use mlua::{Lua, LuaString, Result, Table};
use pinion_engine::clock::Now;
use pinion_jobs::confined_folders::{FileError, FileErrorKind, Folders};
use pinion_jobs::job_queue::{BlockingJob, JobOutcome};

use super::blocking_jobs::job;
use super::host_functions::{Host, OVER, Outcome, or_why};
use crate::copied_value::CopiedValue;
use crate::lua_job::{file_error_kind, file_outcome};
use crate::sent_file::{FileOptions, FileTransfer, SentContent};
use crate::task::TaskId;

/// Adds these functions to the table that `files.lua` receives, and its own functions as `files`.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let chunk = lua.load(include_str!("../files.lua")).set_name("=pinion");
    table.raw_set("files", chunk.into_function()?)?;
    type Alone = fn(&Folders, &[u8]) -> JobOutcome<CopiedValue>;
    let alone: [(&str, Alone); 4] = [
        ("list_files", |folders, path| file_outcome(folders.list(path))),
        ("stat_file", |folders, path| file_outcome(folders.stat(path))),
        ("remove_file", |folders, path| file_outcome(folders.remove(path))),
        ("make_folder", |folders, path| file_outcome(folders.make_folder(path))),
    ];
    for (name, operation) in alone {
        let folders = host.work.folders.borrow().clone();
        let make = move |path: LuaString| {
            let (folders, path) = (folders.clone(), path.as_bytes().to_vec());
            BlockingJob::files(path.len(), move || operation(&folders, &path))
        };
        table.raw_set(name, job(lua, host, make)?)?;
    }
    type Pair = fn(&Folders, &[u8], &[u8]) -> std::result::Result<(), FileError>;
    let pairs: [(&str, Pair); 4] = [
        ("create_file", Folders::create),
        ("write_file", Folders::write),
        ("append_file", Folders::append),
        ("rename_file", Folders::rename),
    ];
    for (name, operation) in pairs {
        let folders = host.work.folders.borrow().clone();
        let make = move |(path, other): (LuaString, LuaString)| {
            let (path, other) = (path.as_bytes().to_vec(), other.as_bytes().to_vec());
            let folders = folders.clone();
            let bytes = path.len() + other.len();
            BlockingJob::files(bytes, move || file_outcome(operation(&folders, &path, &other)))
        };
        table.raw_set(name, job(lua, host, make)?)?;
    }
    let (folders, of) = (host.work.folders.borrow().clone(), Rc::clone(host));
    let read = move |(path, from, bytes): (LuaString, Option<f64>, Option<f64>)| {
        let (folders, path) = (folders.clone(), path.as_bytes().to_vec());
        let whole = |number: f64| number as u64;
        // The result becomes a string of the request.
        let max_bytes = of.tasks.borrow().allowance.memory_bytes as u64;
        BlockingJob::files(path.len(), move || {
            file_outcome(folders.read(&path, from.map(whole), bytes.map(whole), max_bytes))
        })
    };
    table.raw_set("read_stored", job(lua, host, read)?)?;
    sending(lua, host, table)
}

fn sending(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let of = Rc::clone(host);
    let open = move |_: &Lua, (id, path): (TaskId, LuaString)| -> Result<Option<String>> {
        let mut tasks = of.tasks.borrow_mut();
        let Some(task) = tasks.request(id) else { return Ok(Some(OVER.to_owned())) };
        let folders = of.work.folders.borrow();
        // No request can avoid this error: it does not mean that a file is missing.
        if folders.is_empty() {
            return Ok(Some(file_error_kind(&FileErrorKind::NoFolders)));
        }
        let sending = FileTransfer::default();
        let opening = sending.opening(&folders, path.as_bytes().to_vec());
        task.sending = Some(sending);
        of.work.job.replace(Some(opening));
        Ok(None)
    };
    table.raw_set("open_file", lua.create_function(open)?)?;
    let of = Rc::clone(host);
    type Arguments = (TaskId, LuaString, Option<LuaString>, Option<LuaString>);
    let describe = move |_: &Lua, arguments: Arguments| -> Result<Outcome<bool>> {
        let (id, path, media_type, download) = arguments;
        let mut tasks = of.tasks.borrow_mut();
        let Some(task) = tasks.request(id) else { return Ok((None, Some(OVER.to_owned()))) };
        let Some(sending) = &mut task.sending else {
            return Ok((None, Some("no file is open".to_owned())));
        };
        let (media_type, download) = (
            media_type.as_ref().map(LuaString::as_bytes),
            download.as_ref().map(LuaString::as_bytes),
        );
        let said = FileOptions { media_type: media_type.as_deref(), download: download.as_deref() };
        let (request, response) = (&task.request, &mut task.response);
        let folders = of.work.folders.borrow();
        let now = Now::read().unix_seconds;
        let sent = sending.describe(&path.as_bytes(), &said, &folders, request, response, now);
        if sent == Ok(SentContent::Ranges) {
            // The positions of ranges are those of the uncompressed file.
            task.is_compressed = false;
        }
        Ok(or_why(sent.map(|sent| sent != SentContent::Nothing)))
    };
    table.raw_set("describe_file", lua.create_function(describe)?)?;
    let of = Rc::clone(host);
    let miss = move |_: &Lua, id: TaskId| {
        let mut tasks = of.tasks.borrow_mut();
        if let Some(task) = tasks.request(id).filter(|task| task.response.status == 200) {
            task.response.status = 404;
        }
        Ok(())
    };
    table.raw_set("miss_file", lua.create_function(miss)?)
}
