//! A site whose pages are requested without a server, for tests.

use crate::body::received_content::ReceivedContent;
use crate::cpu_watchdog::{CpuWatchdog, CpuWatchdogs};
use crate::request;
use crate::router::FoundRoute;
use crate::shared_site_state::WorkerSite;
use crate::site_program::SiteProgram;
use crate::source_names::SourceNames;
use crate::task::{TaskBudget, TaskId, Waits};
use crate::vm::{CoroutineStep, Vm, WaitOperation};
use mlua::Value;
use pinion_engine::clock::Now;
use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
use pinion_http::limits::Limits;

/// A started site.
pub(crate) struct TestSite {
    vm: Vm,
    watchdog: CpuWatchdog,
}

/// A response.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
    /// The lengths of the pieces that were sent before the page ended.
    pub(crate) sent: Vec<usize>,
}

/// Creates a program of some files.
pub(crate) fn program(files: &[(&str, &str)]) -> Result<SiteProgram, String> {
    named(files, SourceNames::default())
}

/// Creates a program of some files with these names in errors.
pub(crate) fn named(files: &[(&str, &str)], names: SourceNames) -> Result<SiteProgram, String> {
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
    SiteProgram::of_code("site", None, names, files).map_err(|problem| problem.to_string())
}

impl TestSite {
    pub(crate) fn of(program: &SiteProgram) -> Result<Self, String> {
        let mut watchdog = CpuWatchdogs::new(1).watchdog(0).expect("watched");
        let vm = Vm::start(program, &mut watchdog, WorkerSite::default(), Now::read())
            .map_err(|problem| problem.to_string())?;
        Ok(Self { vm, watchdog })
    }

    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let started = program(files).and_then(|program| Self::of(&program));
        started.unwrap_or_else(|problem| panic!("{problem}"))
    }

    pub(crate) fn get(&mut self, target: &str) -> Result<TestResponse, String> {
        self.ask(&format!("GET {target} HTTP/1.1\r\nHost: a\r\nX-Sign: <x>\r\n\r\n"), "")
    }

    /// Returns only the content.
    pub(crate) fn body(&mut self, target: &str) -> String {
        self.get(target).unwrap_or_else(|report| panic!("{target}: {report}")).body
    }

    /// Runs a page until it waits for another task, which never comes, and returns the log entry of
    /// the end of its time.
    pub(crate) fn over_time(&mut self, target: &str) -> String {
        let (id, _) = self.wait_forever(target);
        let fault = self.vm.over_time(id, "it has taken too long");
        self.vm.host().end(id);
        fault.text().to_owned()
    }

    /// Works like [`Self::over_time`] for the first part of a page that runs beside the page.
    pub(crate) fn part_over_time(&mut self, target: &str) -> String {
        let (id, parts) = self.wait_forever(target);
        let fault = self.vm.over_time(parts[0], "it has taken too long");
        self.vm.host().end(id);
        fault.text().to_owned()
    }

    /// Runs a page until it and its parts wait for other tasks; returns the task of the page, and
    /// those of the parts.
    fn wait_forever(&mut self, target: &str) -> (TaskId, Vec<TaskId>) {
        let FoundRoute::Route(found) = self.vm.router().find(b"GET", target.as_bytes()) else {
            panic!("{target} leads nowhere");
        };
        let (route, id) = (found.route, self.vm.tasks().begin_without_exchange().expect("a place"));
        if let Some(task) = self.vm.tasks().request(id) {
            task.wall_ms = 1500;
        }
        let coroutine = self.vm.coroutine().expect("a coroutine");
        let (mut left, start) = (TaskBudget::default(), (id, route as f64));
        let step = self.vm.resume(id, &coroutine, start, &mut self.watchdog, &mut left);
        assert!(
            matches!(step, CoroutineStep::Waits(WaitOperation::Wake)),
            "{target} does not wait"
        );
        self.vm.tasks().park(id, coroutine, Waits::Wake).expect("parked");
        let parts: Vec<TaskId> = self.vm.host().work.ready.take().into_iter().collect();
        for &part in &parts {
            let coroutine = self.vm.tasks().take_coroutine(part).expect("it has not begun");
            let step = self.vm.resume(part, &coroutine, (), &mut self.watchdog, &mut left);
            assert!(
                matches!(step, CoroutineStep::Waits(WaitOperation::Wake)),
                "a part does not wait"
            );
            self.vm.tasks().park(part, coroutine, Waits::Wake).expect("parked");
        }
        (id, parts)
    }

    /// Returns the report of a request that fails.
    pub(crate) fn report(&mut self, target: &str) -> String {
        self.get(target).expect_err(target)
    }

    pub(crate) fn post(&mut self, target: &str, body: &str) -> Result<TestResponse, String> {
        let length = body.len();
        let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        self.ask(&head, body)
    }

    /// Runs the tasks that the page has begun, to their end.
    fn run_parts(&mut self) {
        let ready = self.vm.host().work.ready.take();
        assert!(!ready.is_empty(), "the page waits for nothing");
        for id in ready {
            let coroutine = self.vm.tasks().take_coroutine(id);
            let coroutine = coroutine.expect("it has not begun");
            let mut left = TaskBudget::default();
            let mut step = self.vm.resume(id, &coroutine, (), &mut self.watchdog, &mut left);
            while matches!(step, CoroutineStep::Waits(WaitOperation::Sleep(_))) {
                step = self.vm.resume(id, &coroutine, true, &mut self.watchdog, &mut left);
            }
            assert!(matches!(step, CoroutineStep::Done(_)), "a part of the page has not ended");
            self.vm.host().end(id);
        }
    }

    fn ask(&mut self, head: &str, body: &str) -> Result<TestResponse, String> {
        let mut storage = HeadStorage::reserved();
        let parsed = parse(head.as_bytes(), 0, &mut storage, &Limits::default());
        let Ok(Parsed::Head { head, .. }) = parsed else { panic!("{head:?} is no request") };
        let mut path = Vec::new();
        let path = request::path(&head, &mut path).expect("a path");
        let found = self.vm.router().find(head.method_token, path);
        let FoundRoute::Route(found) = found else { return Err(format!("{found:?}")) };
        let (route, id) = (found.route, self.vm.tasks().begin_without_exchange().expect("a place"));
        if let Some(task) = self.vm.tasks().request(id) {
            task.request.fill(&head, path, Some(found));
            task.content = ReceivedContent::of(body.as_bytes());
        }
        let coroutine = self.vm.coroutine().expect("a coroutine");
        let (mut left, mut shown) = (TaskBudget::default(), Vec::new());
        let mut sent = Vec::new();
        let mut step =
            self.vm.resume(id, &coroutine, (id, route as f64), &mut self.watchdog, &mut left);
        loop {
            let value = match step {
                CoroutineStep::Done(unsent) => {
                    shown.extend_from_slice(&unsent.to_vec(self.vm.lua()));
                    break;
                }
                CoroutineStep::Failed(fault) => return Err(fault.text().to_owned()),
                CoroutineStep::Waits(WaitOperation::Write(text) | WaitOperation::Flush(text)) => {
                    sent.push(text.as_bytes().len());
                    shown.extend_from_slice(&text.as_bytes());
                    Value::Nil
                }
                CoroutineStep::Waits(WaitOperation::Sleep(_)) => Value::Nil,
                CoroutineStep::Waits(WaitOperation::Wake) => {
                    self.run_parts();
                    Value::Nil
                }
                CoroutineStep::Waits(_) => panic!("a page on trial does not wait"),
            };
            step = self.vm.resume(id, &coroutine, (true, value), &mut self.watchdog, &mut left);
        }
        self.vm.give_back(coroutine);
        let mut tasks = self.vm.tasks();
        let response = &tasks.request(id).expect("it lives").response;
        let (status, mut lines) = (response.status, Vec::new());
        response.head_lines(b"", &mut lines);
        let _nobody_watches = tasks.end(id);
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Ok(TestResponse { status, head: text(lines), body: text(shown), sent })
    }
}

/// Returns the content of a page without other files.
pub(crate) fn alone(text: &str) -> String {
    TestSite::new(&[("/index.dyn.html", text)]).body("/?name=%3CAnn%3E&n=7")
}
