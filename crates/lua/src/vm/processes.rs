//! The functions of the host for programs that scripts run.

use std::rc::Rc;
use std::sync::Arc;

use mlua::{Lua, LuaString, Result, Table};
use pinion_programs::limits::RUN_TIMEOUT_MS;
use pinion_programs::program_run::{Exit, OutputRead, RunId, RunRequest};
use pinion_programs::run_error::RunError;
use pinion_programs::signal_name;

use super::host_functions::{Host, relaxed};
use crate::external_programs::WorkerPrograms;
use crate::limits::{FETCH_PIECE_BYTES, PROGRAMS_PER_TASK_MAX};
use crate::operation_id::OperationId;
use crate::task::TaskId;

/// The arguments of `pinion.process.run`: the name, the arguments, whether input follows, and the
/// time in seconds.
type Arguments = (LuaString, Vec<LuaString>, bool, Option<f64>);

/// The reason why a program has not started.
enum StartFault {
    /// The script is wrong: the site has no such program.
    Unknown(String),
    /// It may work another time.
    Failed(String),
}

impl Host {
    fn process_start(&self, arguments: &Arguments) -> std::result::Result<u64, StartFault> {
        let (name, arguments, has_input, timeout) = arguments;
        let name = name.to_string_lossy();
        let programs = self.work.worker_site.borrow().site.programs().clone();
        let start = programs.get(&name).map_err(StartFault::Unknown)?;
        let owner = self.outgoing_owner();
        if self.processes.borrow().count_of(owner) >= PROGRAMS_PER_TASK_MAX {
            return Err(StartFault::Failed(format!(
                "a handler runs at most {PROGRAMS_PER_TASK_MAX} programs at the same time; read \
                 their output to the end, or call process:close()"
            )));
        }
        let runners = self.work.programs.borrow().clone();
        let Some(runner) = runners.as_ref().and_then(|programs| programs.get()) else {
            return Err(StartFault::Failed("no programs are run here".to_owned()));
        };
        let timeout_ms = timeout.map_or(RUN_TIMEOUT_MS, |s| (s * 1000.0) as u64).max(1);
        let request = RunRequest {
            start,
            arguments: arguments.iter().map(|text| text.as_bytes().to_vec()).collect(),
            has_input: *has_input,
            timeout_ms,
            script: None,
        };
        let started = runner.borrow_mut().start(request, self.clock.now().monotonic_ms);
        let id = started.map_err(|error| StartFault::Failed(format!("{name}: {error}")))?;
        self.processes.borrow_mut().add(id, owner, (&*name).into());
        self.mark_owner(owner);
        self.work.begin_operation(OperationId::Program(id), owner);
        Ok(id.number())
    }

    /// Registers the running task for news of a program. Returns the runner and the program's name.
    fn wait_for_process(&self, id: RunId) -> Option<(Rc<WorkerPrograms>, Rc<str>)> {
        let mut processes = self.processes.borrow_mut();
        let owned = processes.get_mut(id)?;
        owned.waiter = self.work.current.get();
        Some((self.work.programs.borrow().clone()?, Rc::clone(&owned.value)))
    }

    /// Ends programs.
    pub(crate) fn close_processes(&self, ids: &[RunId]) {
        let Some(programs) = self.work.programs.borrow().clone() else { return };
        let Some(runner) = programs.used() else { return };
        for id in ids {
            if self.processes.borrow_mut().remove(*id).is_some() {
                runner.borrow_mut().close(*id);
                self.work.end_operation(OperationId::Program(*id));
            }
        }
    }

    /// Ends the programs of a task that has ended.
    pub(crate) fn end_processes_of(&self, task: TaskId) {
        if !self.processes.borrow().is_empty() {
            let owned = self.processes.borrow().owned_by(task);
            self.close_processes(&owned);
        }
    }

    /// Returns the process ID once a program runs, or why it does not.
    fn process_started(&self, id: RunId) -> (Option<u32>, Option<String>) {
        let Some((programs, name)) = self.wait_for_process(id) else {
            return (None, Some(RunError::Stopped.to_string()));
        };
        let Some(runner) = programs.used() else { return (None, None) };
        let started = runner.borrow_mut().started(id);
        match started {
            Ok(pid) => (pid, None),
            Err(error) => {
                self.close_processes(&[id]);
                (None, Some(text(&name, &error)))
            }
        }
    }

    /// Returns whether a program takes another piece of its input, and whether none is wanted any
    /// more.
    fn process_takes(&self, id: RunId) -> (bool, bool) {
        let Some((programs, _)) = self.wait_for_process(id) else { return (false, true) };
        programs.used().map_or((false, true), |runner| runner.borrow_mut().takes_input(id))
    }

    fn process_write(&self, id: RunId, piece: Option<&[u8]>) {
        if let Some((programs, _)) = self.wait_for_process(id)
            && let Some(runner) = programs.used()
        {
            runner.borrow_mut().write(id, piece);
        }
    }

    /// Returns the next output of a program; else whether there is none any more, and the reason.
    fn process_read(
        &self,
        lua: &Lua,
        id: RunId,
        max: usize,
    ) -> Result<(Option<LuaString>, bool, Option<String>)> {
        let Some((programs, name)) = self.wait_for_process(id) else {
            return Ok((None, true, None));
        };
        let Some(runner) = programs.used() else { return Ok((None, true, None)) };
        let mut piece = None;
        let give = |bytes: &[u8]| piece = Some(lua.create_string(bytes));
        let outcome = runner.borrow_mut().read(id, max, give);
        Ok(match outcome {
            OutputRead::Pending => (None, false, None),
            OutputRead::Bytes(_) => (piece.transpose()?, false, None),
            OutputRead::End => (None, true, None),
            OutputRead::Failed(error) => (None, true, Some(text(&name, &error))),
        })
    }

    /// Returns the status of a program that has ended, or the name of the signal that has ended it.
    fn process_exit(&self, id: RunId) -> (Option<u8>, Option<String>) {
        let Some((programs, _)) = self.wait_for_process(id) else { return (None, None) };
        let Some(runner) = programs.used() else { return (None, None) };
        let exit = runner.borrow_mut().exit(id);
        match exit {
            Ok(Some(Exit::Status(status))) => (Some(status), None),
            Ok(Some(Exit::Signal(signal))) => (None, Some(signal_name(signal.into()))),
            Ok(None) | Err(_) => (None, None),
        }
    }
}

/// Returns the text of an error of a program in Lua.
fn text(name: &str, error: &Arc<RunError>) -> String {
    format!("{name}: {error}")
}

/// Adds these functions to the table that `process.lua` receives, and its own functions as
/// `process`.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let chunk = lua.load(include_str!("../process.lua")).set_name("=pinion");
    table.raw_set("process", chunk.into_function()?)?;
    let of = Rc::clone(host);
    let start = move |_: &Lua, arguments: Arguments| {
        Ok(match of.process_start(&arguments) {
            Ok(id) => (Some(id), None, false),
            Err(StartFault::Unknown(why)) => (None, Some(why), true),
            Err(StartFault::Failed(why)) => (None, Some(why), false),
        })
    };
    table.raw_set("process_start", lua.create_function(start)?)?;
    let of = Rc::clone(host);
    let started = move |_: &Lua, id: u64| Ok(of.process_started(RunId::of_number(id)));
    table.raw_set("process_started", lua.create_function(started)?)?;
    let of = Rc::clone(host);
    let takes = move |_: &Lua, id: u64| Ok(of.process_takes(RunId::of_number(id)));
    table.raw_set("process_takes", lua.create_function(takes)?)?;
    let of = Rc::clone(host);
    let write = move |_: &Lua, (id, piece): (u64, Option<LuaString>)| {
        let piece = piece.as_ref().map(LuaString::as_bytes);
        of.process_write(RunId::of_number(id), piece.as_deref());
        Ok(())
    };
    table.raw_set("process_write", lua.create_function(write)?)?;
    let of = Rc::clone(host);
    let read = move |lua: &Lua, (id, bytes): (u64, Option<f64>)| {
        let max = bytes.map_or(FETCH_PIECE_BYTES, |bytes| bytes as usize);
        let max = max.clamp(1, FETCH_PIECE_BYTES);
        relaxed(lua, || of.process_read(lua, RunId::of_number(id), max))
    };
    table.raw_set("process_read", lua.create_function(read)?)?;
    let of = Rc::clone(host);
    let exit = move |_: &Lua, id: u64| Ok(of.process_exit(RunId::of_number(id)));
    table.raw_set("process_exit", lua.create_function(exit)?)?;
    let of = Rc::clone(host);
    let close = move |_: &Lua, id: u64| {
        of.close_processes(&[RunId::of_number(id)]);
        Ok(())
    };
    table.raw_set("process_close", lua.create_function(close)?)
}
