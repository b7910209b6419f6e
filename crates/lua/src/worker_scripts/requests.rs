//! The requests that scripts answer: from the head of a request to the end of its response.

use std::rc::Rc;
use std::time::Duration;

use mlua::{IntoLuaMulti, Lua, MultiValue, Table, Thread as Coroutine, Value};
use pinion_engine::app::{Event, Gone};
use pinion_engine::exchange::{ContentRoom, Exchange, Slice};
use pinion_engine::response_compression;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::refusal::Refusal;
use pinion_http::request_head::RequestHead;

use super::background_tasks::Resumed;
use super::content_memory::is_body_too_large;
use super::pending_operations::is_left_with_programs;
use super::{Outlet, RequestOutcome, ScriptFailure, Scripts, SiteScript, field_lines, log_failure};
use crate::body::body_memory::BodyMemory;
use crate::body::received_content::{self, LimitSetter};
use crate::limits::FAILING_CPU_MAX_MS;
use crate::request;
use crate::router::Match;
use crate::task::{Reported, RequestTask, TaskId, Tasks, Waits};
use crate::vm::{self, CoroutineStep, Handler, ScriptFault, TimeLimitKind, Vm, WaitOperation};

impl Scripts {
    /// Begins to answer a request by the handler that was found for it, or by the not-found
    /// handler.
    pub fn begin(
        &mut self,
        script: &SiteScript,
        found: Option<Match>,
        head: &RequestHead<'_>,
        client: &ClientIdentity,
        outlet: &mut Outlet<'_, '_>,
    ) -> RequestOutcome {
        let vm = Rc::clone(&script.0);
        let exchange = &mut *outlet.exchange;
        let path = request::path(head, &mut self.path).unwrap_or_default();
        let status = if found.is_some() { 200 } else { 404 };
        let (id, start) = {
            let mut tasks = vm.tasks();
            let Some(id) = tasks.begin(exchange.address()) else {
                return self.too_many(&tasks, head);
            };
            let Some(task) = tasks.request(id) else { return self.too_many(&tasks, head) };
            task.request.fill(head, path, found);
            task.request.came_from(client);
            task.response.status = status;
            task.coding = Some(response_compression::choose(head));
            let limits = vm.host().route_limits(task.request.route().map(|found| found.route));
            let wall_ms = limits.wall_ms.unwrap_or(vm.allowance().wall_ms);
            task.begin_time(exchange.now().monotonic_ms, wall_ms);
            if let Some(body_bytes) = limits.body_bytes {
                // No content has been read yet.
                let _is_set = task.content.set_limit(body_bytes, LimitSetter::Route);
            }
            // The values are made here, while no limit of memory is set, because it makes every
            // allocation dearer. Without memory for them the script gets the error when it reads
            // them.
            let start = match task.request.route() {
                Some(found) if found.has_values() => {
                    let params = task.request.params(vm.lua(), &vm.router());
                    Start::Route(found.route, params.ok())
                }
                Some(found) => Start::Route(found.route, None),
                None => Start::Special(Handler::NotFound, None),
            };
            (id, start)
        };
        self.run_handler(&vm, id, start, outlet)
    }

    /// Handles an event of a request after its head.
    pub fn event(&mut self, event: &Event<'_>, outlet: &mut Outlet<'_, '_>) -> RequestOutcome {
        let address = outlet.exchange.address();
        let Some((vm, id)) = self.waiting.get(&address).cloned() else {
            return RequestOutcome::NotOurs;
        };
        let now_ms = outlet.exchange.now().monotonic_ms;
        let (waits, ends_ms, is_woken, is_done) = match vm.tasks().request(id) {
            Some(task) => {
                task.is_input_over |= matches!(event, Event::InputEnd);
                (task.state.waits, task.ends_ms(), task.state.is_woken, task.state.result.is_some())
            }
            None => return RequestOutcome::NotOurs,
        };
        match event {
            Event::Gone(_) | Event::Refused(_) => {
                if is_too_large(event) {
                    self.log_refused_body(&vm, id);
                }
                self.waiting.remove(&address);
                self.end_of(&vm, id);
                return RequestOutcome::Gone;
            }
            Event::Body(_) | Event::BodyEnd(_) => {
                if let Some(outcome) = self.body_came(&vm, id, event, outlet) {
                    return outcome;
                }
            }
            Event::Writable if matches!(waits, Waits::Room | Waits::FileRoom) => {
                return self.room_came(&vm, id, waits, outlet);
            }
            Event::Posted(_) if vm.is_ended() => {
                let why = vm::replaced("the request");
                return self.fail(&vm, id, &ScriptFault::OverTime(why), outlet);
            }
            Event::InputEnd | Event::Posted(_) if is_left_with_programs(&vm, id) => {
                self.waiting.remove(&address);
                self.end_of(&vm, id);
                outlet.exchange.abort();
                return RequestOutcome::Gone;
            }
            Event::Posted(_) if waits == Waits::Content && is_refused(&vm, id) => {
                return self.go_on(&vm, id, true, outlet);
            }
            Event::Posted(_) if matches!(waits, Waits::Wake | Waits::WakeUntil(_)) && is_woken => {
                return self.go_on(&vm, id, true, outlet);
            }
            Event::Posted(_) if waits == Waits::Job && is_done => {
                let result = vm.tasks().request(id).and_then(|task| task.state.result.take());
                let resumed = Resumed { result, message: None, is_new: false };
                return self.go_on(&vm, id, resumed, outlet);
            }
            Event::Posted(_) if waits == Waits::File && is_done => {
                return self.send_piece(&vm, id, outlet);
            }
            Event::Deadline if now_ms >= ends_ms => {
                let fault = over_time(&vm, id, waits);
                return self.fail(&vm, id, &fault, outlet);
            }
            Event::Deadline if waits.until_ms().is_some_and(|time| now_ms >= time) => {
                return self.go_on(&vm, id, true, outlet);
            }
            _ => {}
        }
        if let Some(task) = vm.tasks().request(id) {
            wait(task, outlet.exchange);
        }
        RequestOutcome::Waits
    }

    /// Resumes a request whose client has received some of the response, so that the output queue
    /// has room.
    fn room_came(
        &mut self,
        vm: &Rc<Vm>,
        id: TaskId,
        waits: Waits,
        outlet: &mut Outlet<'_, '_>,
    ) -> RequestOutcome {
        if let Some(task) = vm.tasks().request(id) {
            task.room_came(outlet.exchange.now().monotonic_ms);
        }
        match waits {
            Waits::FileRoom => self.send_more(vm, id, outlet),
            _ => self.go_on(vm, id, true, outlet),
        }
    }

    /// Starts a handler.
    fn run_handler(
        &mut self,
        vm: &Rc<Vm>,
        id: TaskId,
        route: Start,
        outlet: &mut Outlet<'_, '_>,
    ) -> RequestOutcome {
        match vm.coroutine() {
            Ok(coroutine) => self.run(vm, id, coroutine, (id, route), outlet),
            Err(error) => self.fail(vm, id, &ScriptFault::Error(error.to_string()), outlet),
        }
    }

    /// Resumes a coroutine with the result of its wait.
    pub(super) fn go_on(
        &mut self,
        vm: &Rc<Vm>,
        id: TaskId,
        values: impl IntoLuaMulti,
        outlet: &mut Outlet<'_, '_>,
    ) -> RequestOutcome {
        let coroutine = {
            let mut tasks = vm.tasks();
            if let Some(task) = tasks.request(id) {
                (task.state.waits, task.state.is_woken) = (Waits::No, false);
                task.end_wait(outlet.exchange.now().monotonic_ms, vm.allowance());
            }
            tasks.take_coroutine(id)
        };
        match coroutine {
            Some(coroutine) => self.run(vm, id, coroutine, values, outlet),
            None => RequestOutcome::NotOurs,
        }
    }

    /// Runs a coroutine until it returns or has to wait.
    pub(super) fn run(
        &mut self,
        vm: &Rc<Vm>,
        id: TaskId,
        coroutine: Coroutine,
        values: impl IntoLuaMulti,
        outlet: &mut Outlet<'_, '_>,
    ) -> RequestOutcome {
        let now = outlet.exchange.now();
        let mut step = self.resume(vm, id, &coroutine, values, now);
        loop {
            match step {
                CoroutineStep::Done(text) => {
                    vm.give_back(coroutine);
                    return self.finish(vm, id, &text, outlet);
                }
                CoroutineStep::Failed(fault) => return self.fail(vm, id, &fault, outlet),
                CoroutineStep::Waits(WaitOperation::Job) => match self.job(vm, id) {
                    Ok(waits) => return self.suspend(vm, id, coroutine, waits, outlet),
                    Err(why) => {
                        step = self.resume(vm, id, &coroutine, (true, Value::Nil, why), now);
                    }
                },
                CoroutineStep::Waits(WaitOperation::File) => {
                    return self.send_file(vm, id, coroutine, outlet);
                }
                CoroutineStep::Waits(operation) => {
                    match begin(vm, id, &operation, outlet, (&mut self.lines, &self.body_memory)) {
                        Some(Waits::Content) if is_body_too_large(vm, id) => {
                            let fault = vm.body_too_large(id, Some(&coroutine));
                            return self.fail(vm, id, &fault, outlet);
                        }
                        Some(waits) => return self.suspend(vm, id, coroutine, waits, outlet),
                        None => step = self.resume(vm, id, &coroutine, (true, ""), now),
                    }
                }
            }
        }
    }

    /// Keeps a coroutine until the event comes that it waits for.
    pub(super) fn suspend(
        &mut self,
        vm: &Rc<Vm>,
        id: TaskId,
        coroutine: Coroutine,
        waits: Waits,
        outlet: &mut Outlet<'_, '_>,
    ) -> RequestOutcome {
        let parked = vm.tasks().park(id, coroutine, waits);
        if let Err(error) = parked {
            return self.fail(vm, id, &ScriptFault::Error(error.to_string()), outlet);
        }
        if let Some(task) = vm.tasks().request(id) {
            task.begin_wait(outlet.exchange.now().monotonic_ms);
            wait(task, outlet.exchange);
        }
        self.waiting.insert(outlet.exchange.address(), (Rc::clone(vm), id));
        self.settle(vm);
        RequestOutcome::Waits
    }

    /// Ends a request whose handler has failed.
    pub(super) fn fail(
        &mut self,
        vm: &Rc<Vm>,
        id: TaskId,
        fault: &ScriptFault,
        outlet: &mut Outlet<'_, '_>,
    ) -> RequestOutcome {
        let (shown, has_begun, earlier, sent, refused) = {
            let mut tasks = vm.tasks();
            let _dropped = tasks.take_coroutine(id);
            let Some(task) = tasks.request(id) else { return RequestOutcome::NotOurs };
            task.state.waits = Waits::No;
            task.is_failing = true;
            let earlier = task.failure.take();
            let refused = received_content::refused(task, fault);
            (task.request.shown(), task.has_begun, earlier, task.sent_bytes, refused)
        };
        let (status, text) = match fault {
            ScriptFault::Error(text) | ScriptFault::OverBudget(text) => (500, text),
            ScriptFault::OverTime(text) => (503, text),
            ScriptFault::BodyTooLarge(text) => (413, text),
        };
        let status = refused.unwrap_or(status);
        let can_retry = refused == Some(503);
        // A mistake of the client is not the fault of the script, and has no stack.
        let message = text.split("\nstack traceback:").next().unwrap_or_default();
        let text = if status < 500 { message } else { text };
        let Reported { id: failure_id, report } = self.report(&shown, text, earlier.as_deref());
        let is_error = matches!(fault, ScriptFault::Error(_)) && refused.is_none();
        if is_error && earlier.is_none() && !has_begun && vm.has(Handler::OnError) {
            let error = Some((message.to_owned(), failure_id.clone()));
            if let Some(task) = vm.tasks().request(id) {
                task.response.clear();
                task.response.status = 500;
                let left = &mut task.state.left;
                left.cpu = left.cpu.max(Duration::from_millis(FAILING_CPU_MAX_MS));
                task.failure = Some(Box::new(Reported { id: failure_id, report }));
            }
            let start = Start::Special(Handler::OnError, error);
            return self.run_handler(vm, id, start, outlet);
        }
        self.end(vm, id, outlet);
        if has_begun {
            outlet.exchange.abort();
            return RequestOutcome::Answered { status, body_bytes: sent };
        }
        RequestOutcome::Failed(ScriptFailure { status, id: failure_id, report, can_retry })
    }

    /// Logs why a request has failed. If the error handler failed, the `earlier` error that it was
    /// called for comes first, and both have one identifier.
    fn report(&mut self, shown: &str, text: &str, earlier: Option<&Reported>) -> Reported {
        let Some(earlier) = earlier else {
            let reported = Reported { id: self.ids.next(), report: format!("{shown}: {text}") };
            log_failure(&reported.id, &reported.report);
            return reported;
        };
        let next = format!("the handler of pinion.on_error has failed too: {text}");
        log_failure(&earlier.id, &format!("{shown}: {next}"));
        Reported { id: earlier.id.clone(), report: format!("{}\n\n{next}", earlier.report) }
    }

    pub(super) fn end(&mut self, vm: &Rc<Vm>, id: TaskId, outlet: &mut Outlet<'_, '_>) {
        if !self.waiting.is_empty() {
            self.waiting.remove(&outlet.exchange.address());
        }
        self.end_of(vm, id);
    }

    #[cold]
    fn too_many(&mut self, tasks: &Tasks, head: &RequestHead<'_>) -> RequestOutcome {
        let text = String::from_utf8_lossy;
        let (method, target) = (text(head.method_token), text(head.target.raw));
        let tasks_max = tasks.tasks_max;
        let report = format!(
            "{method} {target}: this worker has {tasks_max} requests and pieces of background work \
             of the script already, which no flag raises; try again later"
        );
        let id = self.ids.next();
        log_failure(&id, &report);
        RequestOutcome::Failed(ScriptFailure { status: 503, id, report, can_retry: true })
    }
}

/// Returns why a request is ended whose time is over.
#[cold]
fn over_time(vm: &Vm, id: TaskId, waits: Waits) -> ScriptFault {
    let task = vm.tasks().request(id).map(|task| {
        let route = task.request.route().map(|found| found.route);
        (task.wall_ms, task.has_begun, route)
    });
    let (wall_ms, has_begun, route) = task.unwrap_or_default();
    let wait = match waits {
        Waits::Room | Waits::FileRoom => TimeLimitKind::Client,
        _ if has_begun => TimeLimitKind::SinceWrite,
        _ => TimeLimitKind::Total,
    };
    let is_of_route = vm.host().route_limits(route).wall_ms.is_some();
    vm.over_time(id, &vm::time(wait, wall_ms, is_of_route))
}

/// The handler that a coroutine runs.
enum Start {
    /// The handler of a route, with its parameters, if it has some.
    Route(usize, Option<Table>),
    /// A handler without a route; for an error handler, the error and its identifier in the log.
    Special(Handler, Option<(String, String)>),
}

impl IntoLuaMulti for Start {
    fn into_lua_multi(self, lua: &Lua) -> mlua::Result<MultiValue> {
        match self {
            Self::Route(number, params) => (number as f64, params).into_lua_multi(lua),
            Self::Special(handler, Some((why, id))) => {
                (handler.name(), why, id).into_lua_multi(lua)
            }
            Self::Special(handler, None) => handler.name().into_lua_multi(lua),
        }
    }
}

/// Returns whether the content of a request was refused.
#[cold]
fn is_refused(vm: &Vm, id: TaskId) -> bool {
    vm.tasks().request(id).is_some_and(|task| task.content.is_refused())
}

/// Begins an operation of a coroutine; returns none when it is done already.
fn begin(
    vm: &Vm,
    id: TaskId,
    operation: &WaitOperation,
    outlet: &mut Outlet<'_, '_>,
    (lines, body_memory): (&mut Vec<u8>, &Rc<BodyMemory>),
) -> Option<Waits> {
    let mut tasks = vm.tasks();
    let task = tasks.request(id)?;
    match operation {
        WaitOperation::Sleep(seconds) => {
            Some(Waits::Until(time_of(task, *seconds, outlet.exchange)))
        }
        WaitOperation::Await(seconds) => {
            let is_woken = std::mem::take(&mut task.state.is_woken);
            (!is_woken).then(|| Waits::WakeUntil(time_of(task, *seconds, outlet.exchange)))
        }
        WaitOperation::Wake => (!std::mem::take(&mut task.state.is_woken)).then_some(Waits::Wake),
        // The caller passes it on, because it knows the threads.
        WaitOperation::Job | WaitOperation::File => Some(Waits::Job),
        WaitOperation::Content => received_content::begin(task, outlet.exchange, body_memory),
        WaitOperation::Write(text) | WaitOperation::Flush(text) => {
            let text = text.as_bytes();
            if !task.has_begun {
                head(task, None, outlet, lines);
            }
            if !text.is_empty() && !outlet.exchange.is_head_only() {
                task.renew_time(outlet.exchange.now().monotonic_ms);
            }
            task.sent_bytes += text.len() as u64;
            let mut room = outlet.exchange.write(Slice::Copied(&text));
            if matches!(operation, WaitOperation::Flush(_)) && room != ContentRoom::Gone {
                room = outlet.exchange.flush();
            }
            if room == ContentRoom::Free {
                return None;
            }
            task.room_went(outlet.exchange.now().monotonic_ms);
            Some(Waits::Room)
        }
    }
}

/// Returns when a task has waited for so many seconds, in monotonic milliseconds. The task is ended
/// earlier if that is longer than it may take.
fn time_of(task: &RequestTask, seconds: f64, exchange: &Exchange<'_>) -> u64 {
    let ms = (seconds * 1000.0).min(task.wall_ms as f64 * 2.0) as u64;
    exchange.now().monotonic_ms + ms.max(1)
}

/// Sends the head of a response; content follows.
pub(super) fn head(
    task: &mut RequestTask,
    length: Option<u64>,
    outlet: &mut Outlet<'_, '_>,
    lines: &mut Vec<u8>,
) {
    task.has_begun = true;
    task.response.head_lines(outlet.defaults, lines);
    if let (true, Some(coding)) = (task.is_compressed, task.coding) {
        outlet.exchange.compress(coding);
    }
    outlet.exchange.head(task.response.status, field_lines::of(lines), length);
}

/// Keeps an exchange open until the event comes that its task waits for, or its time is over.
pub(super) fn wait(task: &RequestTask, exchange: &mut Exchange<'_>) {
    let now_ms = exchange.now().monotonic_ms;
    let ends_ms = task.ends_ms();
    let until_ms = task.state.waits.until_ms().map_or(ends_ms, |time| time.min(ends_ms));
    exchange.wait(Some(until_ms.saturating_sub(now_ms)));
}

/// Returns whether an exchange ends because the content of its request is larger than its limit.
fn is_too_large(event: &Event<'_>) -> bool {
    matches!(event, Event::Gone(Gone::ContentTooLarge) | Event::Refused(Refusal::ContentTooLarge))
}
