//! The programs that run beside a server: those of `[[program]]`, and those that it starts for its
//! sites. They change by a reload, when the code of a Python application changes (`--dev`), and
//! when a process has reached a limit.
//!
//! Changes happen one after the other. Processes of Python applications are replaced by others that
//! were proved before: they have loaded the application. The replaced ones end behind their
//! requests, for which a thread waits.

use super::program_table::ProgramTable;
use super::python::process_start::{StartOutcome, wait_until_ready};
use super::python::running_app::NewProcess;
use super::reload::report_failure;
use super::reload_report::Reports;
use super::site_programs::{KeptPrograms, LeftPrograms, SitePrograms};
use crate::control::protocol::Message;
use crate::failure::Failure;
use crate::plan::PlannedSite;
use anyhow::anyhow;
use pinion_engine::Poster;
use pinion_engine::server::Control;
use pinion_spawner::start_table::ProgramStart;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// How often it is looked whether programs that are not used any more have requests.
const UNUSED_PAUSE: Duration = Duration::from_millis(50);

/// See the head of the module. Copies share everything.
#[derive(Clone)]
pub(crate) struct RunningPrograms {
    shared: Arc<SharedPrograms>,
}

struct SharedPrograms {
    table: ProgramTable,
    poster: Poster,
    control: Control,
    state: Mutex<RunningState>,
    /// Wakes the thread, once there is one.
    tasks: OnceLock<Sender<Task>>,
}

struct RunningState {
    /// Those of `[[program]]`.
    configured: Vec<ProgramStart>,
    site_programs: SitePrograms,
    left: Vec<LeftPrograms>,
}

/// What the thread is asked for.
enum Task {
    /// To look what is not used any more.
    Look,
    /// To replace the processes of all Python applications. The reports get the messages.
    Restart(Reports),
}

impl RunningPrograms {
    /// Describes the programs of a start. `configured` are those of `[[program]]`.
    pub(crate) fn new(
        (table, configured): (ProgramTable, Vec<ProgramStart>),
        site_programs: SitePrograms,
        (poster, control): (Poster, Control),
    ) -> Self {
        let state = RunningState { configured, site_programs, left: Vec::new() };
        let (state, tasks) = (Mutex::new(state), OnceLock::new());
        Self { shared: Arc::new(SharedPrograms { table, poster, control, state, tasks }) }
    }

    /// Whether the start has to wait for programs.
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
        let outcome = self.prove(&python.new_processes())?;
        python.use_new(&self.shared.poster);
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
            let kept = state.keep(&self.shared.table);
            drop(state);
            self.ask(Task::Look);
            return kept.and(Err(failure));
        }
        next.python.use_new(&self.shared.poster);
        left_now.python.retire();
        (state.configured, state.site_programs) = (configured, next);
        state.left.push(left_now);
        if let Err(failure) = state.keep(&self.shared.table) {
            reports.log(&Message::error("cannot reload programs, keeping the previous ones"));
            report_failure(failure, reports);
        }
        let has_unused = state.has_unused();
        drop(state);
        if has_unused {
            self.ask(Task::Look);
        }
        Ok(())
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

    /// Asks the thread for something. The first time starts it.
    fn ask(&self, task: Task) {
        let tasks = self.shared.tasks.get_or_init(|| {
            let (sender, tasks) = channel();
            let this = self.clone();
            // Without a thread, what is asked for is lost, and the next look makes up for it.
            let _thread =
                thread::Builder::new().name("programs".to_owned()).spawn(move || this.run(&tasks));
            sender
        });
        let _asked = tasks.send(task);
    }

    /// The thread.
    fn run(&self, tasks: &Receiver<Task>) {
        loop {
            let has_unused = self.lock().has_unused();
            let task = match has_unused {
                true => tasks.recv_timeout(UNUSED_PAUSE),
                false => tasks.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match task {
                Ok(Task::Restart(reports)) => {
                    if let Err(failure) = self.restart(&reports) {
                        let line = "cannot reload Python applications, keeping their processes";
                        reports.log(&Message::error(line));
                        report_failure(failure, &reports);
                    }
                }
                Ok(Task::Look) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if let Err(failure) = self.stop_unused() {
                report_failure(failure, &Reports::default());
            }
        }
    }

    /// Replaces the processes of all Python applications.
    fn restart(&self, reports: &Reports) -> Result<(), Failure> {
        let state = self.lock();
        let python = &state.site_programs.python;
        let result = (|| {
            python.add_new(&state.configured)?;
            state.keep(&self.shared.table)?;
            self.prove(&python.new_processes())
        })();
        match result {
            Ok(StartOutcome::Ready) => {
                python.use_new(&self.shared.poster);
                for app in python.apps() {
                    reports.log(&Message::info(format!("reloaded {}", app.in_words())));
                }
            }
            Ok(StartOutcome::Ending) => {}
            Err(failure) => {
                python.drop_new();
                state.keep(&self.shared.table)?;
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Stops what is not used any more.
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
    /// Tells the supervisor which programs there are.
    fn keep(&self, table: &ProgramTable) -> Result<(), Failure> {
        let left: Vec<&LeftPrograms> = self.left.iter().collect();
        table.set_supervised(self.site_programs.kept_with(&self.configured, &left))
    }

    fn has_unused(&self) -> bool {
        !self.left.is_empty() || self.site_programs.python.has_retired()
    }
}
