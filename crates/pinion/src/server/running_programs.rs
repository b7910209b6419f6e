//! The programs that run beside a server: those of `[[program]]`, and those that it starts for its
//! sites. They change by a reload, when the code of a Python application changes (`--dev`), and
//! when a process hangs or has reached a limit.
//!
//! Changes happen one after the other. Processes of Python applications are replaced by others that
//! were proved before: they have loaded the application. The replaced ones end after their
//! requests, for which a thread waits.

use super::program_table::ProgramTable;
use super::python::code_watch;
use super::python::limits::{LIMITS_PAUSE, REPLACE_RETRY};
use super::python::process_start::{StartOutcome, wait_until_ready};
use super::python::python_apps::PythonApps;
use super::python::running_app::{NewProcess, RunningApp};
use super::reload_report::Reports;
use super::site_programs::{KeptPrograms, LeftPrograms, SitePrograms};
use super::site_reload::report_failure;
use crate::control::protocol::Message;
use crate::control::status::PythonApplication;
use crate::failure::Failure;
use crate::plan::PlannedSite;
use crate::warnings_and_notes;
use anyhow::anyhow;
use pinion_engine::Poster;
use pinion_engine::server::Control;
use pinion_engine::stderr;
use pinion_spawner::start_table::ProgramStart;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// The interval of checks whether programs that are not used any more have requests.
const UNUSED_PAUSE: Duration = Duration::from_millis(50);

/// The programs that run beside a server. Copies share everything.
#[derive(Clone)]
pub(crate) struct RunningPrograms {
    shared: Arc<SharedPrograms>,
}

struct SharedPrograms {
    table: ProgramTable,
    poster: Poster,
    control: Control,
    state: Mutex<RunningState>,
    /// The Python applications, for the status, which does not wait for a change.
    python: Mutex<PythonApps>,
    /// Wakes the thread, once there is one.
    tasks: OnceLock<Sender<Task>>,
}

struct RunningState {
    /// The programs of `[[program]]`.
    configured: Vec<ProgramStart>,
    site_programs: SitePrograms,
    left: Vec<LeftPrograms>,
}

/// A task for the thread.
enum Task {
    /// Find programs that are no longer used.
    Look,
    /// Replace the processes of all Python applications. The reports get the messages.
    Restart(Reports),
    /// Replace the processes of this application, as its code has changed.
    CodeChanged(Weak<RunningApp>),
}

impl RunningPrograms {
    /// Describes the programs of a start. `configured` are those of `[[program]]`.
    pub(crate) fn new(
        (table, configured): (ProgramTable, Vec<ProgramStart>),
        site_programs: SitePrograms,
        (poster, control): (Poster, Control),
    ) -> Self {
        let python = Mutex::new(site_programs.python.clone());
        let state = RunningState { configured, site_programs, left: Vec::new() };
        let (state, tasks) = (Mutex::new(state), OnceLock::new());
        Self { shared: Arc::new(SharedPrograms { table, poster, control, state, python, tasks }) }
    }

    /// Returns whether the start has to wait for programs.
    pub(crate) fn are_waited_for(&self) -> bool {
        !self.lock().site_programs.python.new_processes().is_empty()
    }

    /// Waits at the start until all Python applications are loaded, and gives them requests.
    ///
    /// # Errors
    /// One cannot be loaded.
    pub(crate) fn wait_until_ready(&self) -> Result<StartOutcome, Failure> {
        let state = self.lock();
        let python = &state.site_programs.python;
        let outcome = match self.prove(&python.new_processes()) {
            Ok(outcome) => {
                python.use_new(&self.shared.poster);
                python.apps().iter().for_each(|app| self.log_memory(app));
                outcome
            }
            // It is corrected while the server runs.
            Err(failure) if python.apps().iter().all(|app| app.is_watched()) => {
                warnings_and_notes::warning(
                    "Python applications are not served until the error is corrected (--dev)",
                );
                report_failure(failure, &Reports::default());
                python.refuse_until_loaded();
                state.keep(&self.shared.table)?;
                StartOutcome::Ready
            }
            Err(failure) => return Err(failure),
        };
        python.apps().iter().for_each(|app| self.watch(app));
        self.look(state);
        Ok(outcome)
    }

    /// Makes these the programs: those of `[[program]]` and of the sites, which get their mounts.
    /// New processes of Python applications are started and proved first. `arrange` makes the sites
    /// those that are served.
    ///
    /// # Errors
    /// Something cannot be started, or `arrange` has failed. Nothing has changed.
    pub(crate) fn change(
        &self,
        mut sites: Vec<PlannedSite>,
        configured: Vec<ProgramStart>,
        arrange: impl FnOnce(Vec<PlannedSite>) -> Result<(), Failure>,
        reports: &Reports,
    ) -> Result<(), Failure> {
        let mut state = self.lock();
        if let Some(program) = configured.iter().find(|it| state.site_programs.python.has(&it.name))
        {
            return Err(anyhow!(
                "[[program]]: {} is the name of a process of a Python application; choose another",
                program.name
            )
            .into());
        }
        let next = state.site_programs.next(&mut sites, &configured)?;
        let left_now = state.site_programs.left_out_of(&next);
        let result = (|| {
            let left: Vec<&LeftPrograms> = state.left.iter().chain([&left_now]).collect();
            let check = |kept: &KeptPrograms| self.shared.table.check_supervised(&kept.starts);
            check(&next.kept_with(&configured, &left))?;
            let new = next.python.new_processes();
            if !new.is_empty() {
                // The programs of the configuration change when nothing can fail any more.
                let kept = next.kept_with(&state.configured, &left);
                check(&kept)?;
                self.shared.table.set_supervised(kept)?;
                if self.prove(&new)? == StartOutcome::Ending {
                    return Err(anyhow!("the server ends").into());
                }
            }
            arrange(sites)
        })();
        if let Err(failure) = result {
            next.python.drop_new();
            // Their names are taken until they have ended.
            let new_apps = next.python.left_out_of(&state.site_programs.python);
            state.leave(LeftPrograms::of_python(new_apps));
            let kept = state.keep(&self.shared.table);
            self.look(state);
            return kept.and(Err(failure));
        }
        next.python.use_new(&self.shared.poster);
        next.python.apps().iter().for_each(|app| self.log_memory(app));
        let new_apps = next.python.left_out_of(&state.site_programs.python);
        new_apps.apps().iter().for_each(|app| self.watch(app));
        *self.shared.python.lock().unwrap_or_else(PoisonError::into_inner) = next.python.clone();
        left_now.python.retire();
        (state.configured, state.site_programs) = (configured, next);
        state.leave(left_now);
        if let Err(failure) = state.keep(&self.shared.table) {
            reports.log(&Message::error("cannot reload programs, keeping the previous ones"));
            report_failure(failure, reports);
        }
        self.look(state);
        Ok(())
    }

    /// Returns the status of the Python applications.
    pub(crate) fn python_status(&self) -> Vec<PythonApplication> {
        let python = self.shared.python.lock().unwrap_or_else(PoisonError::into_inner).clone();
        python.apps().iter().map(|app| app.status(|name| self.pid_of(name))).collect()
    }

    /// Replaces the processes of all Python applications, on a thread of its own. The reports get
    /// the messages. It does not wait for anything.
    pub(crate) fn restart_applications(&self, reports: Reports) {
        if self.shared.table.access().is_there() {
            self.ask(Task::Restart(reports));
        }
    }

    /// Removes all files. Nothing of them is used any more.
    pub(crate) fn remove_files(&self) {
        self.lock().site_programs.remove_files();
    }

    /// Waits until processes have loaded their applications.
    fn prove(&self, new: &[NewProcess]) -> Result<StartOutcome, Failure> {
        let table = &self.shared.table;
        let control = &self.shared.control;
        let outcome = wait_until_ready(new, |name| table.status_of(name), || control.is_ending());
        Ok(outcome?)
    }

    /// Logs how much memory the processes of an application have.
    fn log_memory(&self, app: &RunningApp) {
        stderr::line(format_args!("{}", app.memory_in_words(|name| self.pid_of(name))));
    }

    /// Watches the processes of an application, and its code if that was asked for.
    fn watch(&self, app: &Arc<RunningApp>) {
        let shared = Arc::downgrade(&self.shared);
        app.when_stuck(move || {
            if let Some(shared) = shared.upgrade() {
                Self { shared }.ask(Task::Look);
            }
        });
        if !app.is_watched() {
            return;
        }
        let (this, changed) = (self.clone(), Arc::downgrade(app));
        let watched = code_watch::watch(app.folder(), move || {
            this.ask(Task::CodeChanged(Weak::clone(&changed)));
            changed.strong_count() > 0
        });
        if let Err(error) = watched {
            let folder = app.folder().display();
            warnings_and_notes::warning(format_args!("cannot watch the code in {folder}: {error}"));
        }
    }

    fn pid_of(&self, name: &str) -> Option<u32> {
        self.shared.table.status_of(name)?.pid
    }

    /// Asks the thread to look at new events, if there is something for it to do.
    fn look(&self, state: MutexGuard<'_, RunningState>) {
        let has_work = state.pause().is_some();
        // The thread takes the lock.
        drop(state);
        if has_work {
            self.ask(Task::Look);
        }
    }

    /// Asks the thread for something. The first time starts it.
    fn ask(&self, task: Task) {
        let tasks = self.shared.tasks.get_or_init(|| {
            let (sender, tasks) = channel();
            let this = self.clone();
            // Without a thread, the task is lost, and the next look makes up for it.
            let _thread =
                thread::Builder::new().name("programs".to_owned()).spawn(move || this.run(&tasks));
            sender
        });
        let _asked = tasks.send(task);
    }

    /// Runs the thread.
    fn run(&self, tasks: &Receiver<Task>) {
        // Before that, no process that has reached a limit is replaced.
        let mut retry_at = Instant::now();
        loop {
            let pause = self.lock().pause();
            let task = match pause {
                Some(pause) => tasks.recv_timeout(pause),
                None => tasks.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match task {
                Ok(Task::Restart(reports)) => self.restart(|_| true, &reports),
                Ok(Task::CodeChanged(app)) => {
                    self.restart(|known| app.ptr_eq(&Arc::downgrade(known)), &Reports::default());
                }
                Ok(Task::Look) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = Instant::now();
            if now >= retry_at
                && let Err(failure) = self.replace_due()
            {
                report_failure(failure, &Reports::default());
                retry_at = now + REPLACE_RETRY;
            }
            if let Err(failure) = self.stop_unused() {
                report_failure(failure, &Reports::default());
            }
        }
    }

    /// Replaces the processes of Python applications.
    fn restart(&self, is_asked: impl Fn(&Arc<RunningApp>) -> bool, reports: &Reports) {
        let state = self.lock();
        for app in state.site_programs.python.apps().iter().filter(|app| is_asked(app)) {
            match self.replace(&state, app, app.process_count(), None) {
                Ok(StartOutcome::Ready) => {
                    reports.log(&Message::info(format!("reloaded {}", app.in_words())));
                    self.log_memory(app);
                }
                Ok(StartOutcome::Ending) => return,
                Err(failure) => {
                    let line = "cannot reload the Python application, keeping its processes";
                    reports.log(&Message::error(line));
                    report_failure(failure, reports);
                }
            }
        }
    }

    /// Replaces the processes that have reached a limit.
    fn replace_due(&self) -> Result<(), Failure> {
        let state = self.lock();
        for app in state.site_programs.python.apps() {
            while let Some((number, why)) = app.due_process(|name| self.pid_of(name)) {
                stderr::line(format_args!("pinion: replacing a Python process: {why}"));
                if self.replace(&state, app, 1, Some(number))? == StartOutcome::Ending {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Starts so many processes of an application, and gives them requests in the place of others:
    /// first in that of the one with the number `first`.
    fn replace(
        &self,
        state: &RunningState,
        app: &RunningApp,
        count: usize,
        first: Option<u64>,
    ) -> Result<StartOutcome, Failure> {
        let table = &self.shared.table;
        let is_taken = |name: &str| state.configured.iter().any(|program| program.name == name);
        let result = (|| {
            app.add_new(count, is_taken)?;
            state.keep(table)?;
            self.prove(&app.new_processes())
        })();
        match &result {
            Ok(StartOutcome::Ready) => app.use_new(first, Some(&self.shared.poster)),
            Ok(StartOutcome::Ending) => {}
            Err(_) => {
                app.drop_new();
                state.keep(table)?;
            }
        }
        result
    }

    /// Stops programs that are no longer used.
    fn stop_unused(&self) -> Result<(), Failure> {
        let mut state = self.lock();
        let table = &self.shared.table;
        let is_there = |name: &str| table.status_of(name).is_some();
        let mut has_stopped = state.site_programs.python.stop_unused(is_there);
        for left in &mut state.left {
            has_stopped |= left.stop_unused(is_there);
        }
        state.left.retain(|left| !left.is_empty());
        if has_stopped { state.keep(table) } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, RunningState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningState {
    /// Sends the supervisor the list of programs.
    fn keep(&self, table: &ProgramTable) -> Result<(), Failure> {
        let left: Vec<&LeftPrograms> = self.left.iter().collect();
        table.set_supervised(self.site_programs.kept_with(&self.configured, &left))
    }

    /// Remembers programs that end after their requests.
    fn leave(&mut self, programs: LeftPrograms) {
        if !programs.is_empty() {
            self.left.push(programs);
        }
    }

    /// Returns how long the thread waits until it looks again.
    fn pause(&self) -> Option<Duration> {
        if self.has_unused() {
            return Some(UNUSED_PAUSE);
        }
        self.site_programs.python.have_limits().then_some(LIMITS_PAUSE)
    }

    fn has_unused(&self) -> bool {
        !self.left.is_empty() || self.site_programs.python.has_retired()
    }
}
