//! The faults of tasks: the limit that a task has exceeded, and where its function begins.

use mlua::Thread as Coroutine;

use super::error_traceback::ScriptFault;
use super::function_origin::{FaultOrigins, HandlerId};
use super::host_functions::Handler;
use super::{Vm, limit_messages};
use crate::cpu_watchdog;
use crate::task::{Task, TaskId};

impl Vm {
    /// Returns the fault of a turn that has used up its budget. The stack is taken where that
    /// happened, or else where the coroutine has ended.
    #[cold]
    pub(super) fn over_budget(&self, id: TaskId, why: &str, coroutine: &Coroutine) -> ScriptFault {
        let stack = cpu_watchdog::struck().unwrap_or_else(|| cpu_watchdog::stack(coroutine));
        ScriptFault::OverBudget(self.fault_text(id, why, &stack))
    }

    /// Returns the fault of a task that has taken too long, wherever it waits.
    #[cold]
    pub(crate) fn over_time(&self, id: TaskId, why: &str) -> ScriptFault {
        if let Some(fault) = self.never_done(id) {
            return fault;
        }
        let coroutine = self.tasks().coroutine(id);
        let stack = coroutine.as_ref().map(cpu_watchdog::stack).unwrap_or_default();
        ScriptFault::OverTime(self.fault_text(id, why, &stack))
    }

    /// Returns the fault of a page that has taken too long because its script has never called the
    /// function that the page waits for.
    fn never_done(&self, id: TaskId) -> Option<ScriptFault> {
        let (awaited, origin) = self.tasks().awaited(id)?;
        let wall_ms = self.tasks().request(id).map(|task| task.wall_ms);
        // A part of a page that runs beside it has the time limit of background work.
        let wall_ms =
            wall_ms.unwrap_or_else(|| limit_messages::background_wall_ms(&self.allowance));
        let place = origin?.explained(&self.sources).source_position();
        let why = format!("{place}: {}", limit_messages::never_done(awaited, wall_ms));
        Some(ScriptFault::OverTime(self.origins(id).format(&why, false, &[])))
    }

    /// Returns the fault of a request whose body is larger than its limit. `coroutine` reads the
    /// body; if it is none, the parked one waits for it.
    #[cold]
    pub(crate) fn body_too_large(&self, id: TaskId, coroutine: Option<&Coroutine>) -> ScriptFault {
        let parked = self.tasks().coroutine(id);
        let stack = coroutine.or(parked.as_ref()).map(cpu_watchdog::stack).unwrap_or_default();
        let (limit, route) = match self.tasks().request(id) {
            Some(task) => (task.content.limit(), task.request.route().map(|found| found.route)),
            None => return ScriptFault::Error(String::new()),
        };
        let is_page = route.is_some_and(|route| route >= self.host.script_routes.get());
        let router = self.router();
        let pattern = route.and_then(|route| router.pattern(route));
        let why = limit_messages::body(limit, pattern, is_page);
        ScriptFault::BodyTooLarge(self.fault_text(id, &why, &stack))
    }

    /// Formats a fault of a task: its reason, the stack, and where the function of the task begins.
    #[cold]
    pub(super) fn fault_text(&self, id: TaskId, why: &str, stack: &str) -> String {
        ScriptFault::with_stack(why, stack, &self.sources, &self.origins(id))
    }

    /// Returns where the function of a task begins.
    #[cold]
    pub(super) fn origins(&self, id: TaskId) -> FaultOrigins {
        let mut tasks = self.tasks();
        let task = match tasks.task(id) {
            Some(Task::Request(task)) => task,
            Some(Task::Background(task)) => {
                return FaultOrigins::of_work(task.kind, task.origin.clone(), &self.sources);
            }
            None => return FaultOrigins::default(),
        };
        let begun = match task.request.route() {
            _ if task.is_failing => HandlerId::Special(Handler::OnError),
            Some(found) => HandlerId::Route(found.route),
            None => HandlerId::Special(Handler::NotFound),
        };
        let handlers = self.host.handlers.borrow();
        let begun = handlers.get(&begun).map_or(&[][..], Vec::as_slice);
        FaultOrigins::of_handler(begun, &self.sources)
    }
}
