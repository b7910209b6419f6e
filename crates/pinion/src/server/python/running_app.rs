//! A Python application with its processes. Each reload, each change of its code with `--dev` and
//! each limit of a process leads to the same: other processes are started, and once all of them
//! have loaded the application they replace the earlier ones. These finish their requests and end.

use super::interpreter;
use super::limits::RETIRED_PROCESSES_MAX;
use super::process_files::{ProcessFiles, ProcessSocket};
use super::process_limit_check::{ProcessUse, jitter_percent, reached};
use super::process_memory::{proportional_bytes, resident_bytes};
use crate::control::status;
use crate::failure::Failure;
use crate::json_failure_document;
use crate::server::memory_limit::MemoryLimit;
use crate::settings::PythonSettings;
use pinion_engine::Poster;
use pinion_gateway::python::python_app::PythonApp;
use pinion_programs::supervisor_link::ProgramDescriptors;
use pinion_python::command_line::ApplicationCommand;
use pinion_spawner::start_table::{ProgramKind, ProgramStart};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the processes have for their requests after a stop, in milliseconds.
const GRACE_MS: u32 = 30_000;

/// A Python application with its processes.
#[derive(Debug)]
pub(crate) struct RunningApp {
    pub(super) settings: PythonSettings,
    /// The application for the workers.
    pub(super) app: Arc<PythonApp>,
    interpreter: PathBuf,
    /// Whether changes of its code replace its processes (`--dev`).
    is_watched: bool,
    files: ProcessFiles,
    processes: Mutex<Vec<AppProcess>>,
}

/// A process of it.
#[derive(Debug)]
struct AppProcess {
    start: ProgramStart,
    socket: ProcessSocket,
    stage: ProcessStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessStage {
    /// It was not proved yet that it can load the application.
    New,
    /// Workers have it with this number.
    InUse { number: u64, since: Instant, jitter_percent: u64 },
    /// It finishes its requests since then.
    Retired { number: u64, since: Instant },
    /// It gets its stop signal.
    Stopping,
}

/// A process that is waited for.
#[derive(Clone, Debug)]
pub(crate) struct NewProcess {
    /// The name of its program.
    pub(super) name: String,
    pub(super) socket: PathBuf,
    pub(super) app: Arc<PythonApp>,
    pub(super) interpreter: PathBuf,
    /// The number of the user that runs it, if it is not that of the server.
    pub(super) uid: Option<u32>,
}

impl RunningApp {
    /// Describes an application that has no processes yet.
    ///
    /// # Errors
    /// There is no Python.
    pub(super) fn new(
        settings: &PythonSettings,
        is_watched: bool,
        files: &ProcessFiles,
    ) -> Result<Self, Failure> {
        Ok(Self {
            interpreter: interpreter::find(settings.python.as_deref(), &settings.folder)?,
            settings: settings.clone(),
            app: Arc::new(settings.app()),
            is_watched,
            files: files.clone(),
            processes: Mutex::default(),
        })
    }

    /// Adds `count` processes that get no requests yet. `is_taken` says which names other programs
    /// have.
    ///
    /// # Errors
    /// A socket cannot be made. None was added.
    pub(crate) fn add_new(
        &self,
        count: usize,
        is_taken: impl Fn(&str) -> bool,
    ) -> Result<(), Failure> {
        let new = (0..count).map(|_| Ok(self.process(self.files.socket(&is_taken)?)));
        let new: Result<Vec<AppProcess>, Failure> = new.collect();
        self.lock().extend(new?);
        Ok(())
    }

    /// Returns the processes that get no requests yet.
    pub(crate) fn new_processes(&self) -> Vec<NewProcess> {
        let processes = self.lock();
        let new = processes.iter().filter(|process| process.stage == ProcessStage::New);
        let described = new.map(|process| NewProcess {
            name: process.start.name.clone(),
            socket: process.socket.path.clone(),
            app: Arc::clone(&self.app),
            interpreter: self.interpreter.clone(),
            uid: self.settings.identity.as_ref().map(|identity| identity.uid),
        });
        described.collect()
    }

    /// Stops the processes that get no requests yet.
    pub(crate) fn drop_new(&self) {
        let mut processes = self.lock();
        let new = processes.iter_mut().filter(|process| process.stage == ProcessStage::New);
        new.for_each(|process| process.stage = ProcessStage::Stopping);
    }

    /// Sends requests to the new processes, and no more to as many of the earlier ones as there are
    /// too many: first to the one with the number `first`, if it is there.
    pub(crate) fn use_new(&self, first: Option<u64>, poster: Option<&Poster>) {
        let mut processes = self.lock();
        let in_use = |process: &AppProcess| match process.stage {
            ProcessStage::InUse { number, .. } => Some(number),
            _ => None,
        };
        let mut old: Vec<u64> = processes.iter().filter_map(in_use).collect();
        old.sort_by_key(|number| first != Some(*number));
        let mut count = old.len();
        for process in &mut *processes {
            if process.stage == ProcessStage::New {
                let number = self.app.add_process(process.socket.path.clone(), poster);
                let jitter_percent = jitter_percent();
                process.stage =
                    ProcessStage::InUse { number, since: Instant::now(), jitter_percent };
                count += 1;
            }
        }
        old.truncate(count.saturating_sub(self.settings.processes));
        for process in &mut *processes {
            if let ProcessStage::InUse { number, .. } = process.stage
                && old.contains(&number)
            {
                self.app.retire_process(number);
                process.stage = ProcessStage::Retired { number, since: Instant::now() };
            }
        }
    }

    /// Sends requests to none of the processes.
    pub(super) fn retire(&self) {
        for process in &mut *self.lock() {
            if let ProcessStage::InUse { number, .. } = process.stage {
                self.app.retire_process(number);
                process.stage = ProcessStage::Retired { number, since: Instant::now() };
            }
        }
    }

    /// Stops retired processes without requests, processes that hang or have been retired for
    /// `age_max`, and the first ones of too many; forgets processes for which `is_there` is false.
    /// Returns whether some were stopped.
    pub(super) fn stop_unused(&self, age_max: Duration, is_there: impl Fn(&str) -> bool) -> bool {
        let mut processes = self.lock();
        let is_left = |process: &AppProcess| {
            process.stage != ProcessStage::Stopping || is_there(&process.start.name)
        };
        processes.retain(is_left);
        let is_retired =
            |process: &&AppProcess| matches!(process.stage, ProcessStage::Retired { .. });
        let retired = processes.iter().filter(is_retired).count();
        let mut excess = retired.saturating_sub(RETIRED_PROCESSES_MAX);
        let figures = self.app.figures();
        let is_stuck = |number| {
            let mut known = figures.processes.iter();
            known.any(|known| known.number == number && known.is_stuck)
        };
        let mut has_stopped = false;
        for process in &mut *processes {
            let ProcessStage::Retired { number, since } = process.stage else { continue };
            let may_go_on = since.elapsed() < age_max && !is_stuck(number);
            let is_used = self.app.has_process(number) && may_go_on;
            if excess > 0 || !is_used {
                excess = excess.saturating_sub(1);
                process.stage = ProcessStage::Stopping;
                has_stopped = true;
            }
        }
        has_stopped
    }

    /// Returns the number of a process that hangs or has reached a limit, and its name and the
    /// reason in words. `pid_of` knows the processes of programs.
    pub(crate) fn due_process(
        &self,
        pid_of: impl Fn(&str) -> Option<u32>,
    ) -> Option<(u64, String)> {
        let limits = &self.settings.limits;
        let figures = self.app.figures();
        let processes = self.lock();
        processes.iter().find_map(|process| {
            let ProcessStage::InUse { number, since, jitter_percent } = process.stage else {
                return None;
            };
            let name = &process.start.name;
            let pid = limits.memory_bytes.and_then(|_| pid_of(name));
            let known = figures.processes.iter().find(|known| known.number == number);
            if known.is_some_and(|known| known.is_stuck) {
                return Some((number, format!("{name} hangs in requests over their time")));
            }
            let used = ProcessUse {
                requests: known.map_or(0, |known| known.served),
                age: since.elapsed(),
                memory_bytes: pid.map_or(0, resident_bytes),
            };
            let reached = reached(limits, used, jitter_percent)?;
            Some((number, format!("{name} has had {reached}")))
        })
    }

    /// Sets the function that is called when one of its processes hangs.
    pub(crate) fn when_stuck(&self, call: impl Fn() + Send + Sync + 'static) {
        self.app.when_stuck(call);
    }

    /// Returns whether its processes have limits.
    pub(super) fn has_limits(&self) -> bool {
        self.settings.limits.is_some()
    }

    /// Returns whether changes of its code replace its processes.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Returns how many processes it is to have.
    pub(crate) fn process_count(&self) -> usize {
        self.settings.processes
    }

    /// Returns the folder of its code.
    pub(crate) fn folder(&self) -> &Path {
        &self.settings.folder
    }

    /// Returns its status. `status_of` returns the state of a program.
    pub(crate) fn status(&self, pid_of: impl Fn(&str) -> Option<u32>) -> status::PythonApplication {
        let figures = self.app.figures();
        let memory = self.memory(&pid_of);
        let processes = self.lock();
        let of_process = |process: &AppProcess| {
            let (number, state) = match process.stage {
                ProcessStage::New => (None, status::PythonState::Starting),
                ProcessStage::InUse { number, .. } => (Some(number), status::PythonState::InUse),
                ProcessStage::Retired { number, .. } => {
                    (Some(number), status::PythonState::Retired)
                }
                ProcessStage::Stopping => (None, status::PythonState::Stopping),
            };
            let known = figures.processes.iter().find(|known| Some(known.number) == number);
            let pid = pid_of(&process.start.name);
            status::PythonProcess {
                name: process.start.name.clone(),
                pid,
                state,
                requests: known.map_or(0, |known| known.requests as u64),
                served: known.map_or(0, |known| known.served),
                resident_bytes: pid.map(resident_bytes),
            }
        };
        status::PythonApplication {
            name: self.settings.application.clone(),
            folder: json_failure_document::text(&self.settings.folder),
            waiting: figures.waiting as u64,
            memory,
            processes: processes.iter().map(of_process).collect(),
        }
    }

    /// Returns a line about the memory of its processes. `pid_of` knows those of programs.
    pub(crate) fn memory_in_words(&self, pid_of: impl Fn(&str) -> Option<u32>) -> String {
        let memory = self.memory(&pid_of);
        format!("Python application {}: {memory}", self.settings.application)
    }

    fn memory(&self, pid_of: &impl Fn(&str) -> Option<u32>) -> status::PythonMemory {
        let is_in_use = |process: &&AppProcess| matches!(process.stage, ProcessStage::InUse { .. });
        let name = |process: &AppProcess| process.start.name.clone();
        // Reading the memory takes long, so the processes are not locked meanwhile.
        let in_use: Vec<String> = self.lock().iter().filter(is_in_use).map(name).collect();
        let pids = in_use.iter().filter_map(|name| pid_of(name));
        let count = self.settings.processes as u64;
        status::PythonMemory {
            processes: in_use.len() as u64,
            max_processes: count,
            used_bytes: pids.map(proportional_bytes).sum(),
            usable_bytes: MemoryLimit::of_process().bytes,
            max_bytes: self.settings.limits.memory_bytes.map(|bytes| bytes.saturating_mul(count)),
        }
    }

    /// Returns whether there are processes that were replaced.
    pub(super) fn has_retired(&self) -> bool {
        let is_retired = |process: &AppProcess| {
            matches!(process.stage, ProcessStage::Retired { .. } | ProcessStage::Stopping)
        };
        self.lock().iter().any(is_retired)
    }

    /// Returns whether it has no process.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Returns its programs, with their descriptors.
    pub(super) fn starts(&self) -> Vec<(ProgramStart, ProgramDescriptors)> {
        let with_descriptors =
            |process: &AppProcess| (process.start.clone(), process.socket.descriptors.clone());
        let processes = self.lock();
        let is_kept = |process: &&AppProcess| process.stage != ProcessStage::Stopping;
        processes.iter().filter(is_kept).map(with_descriptors).collect()
    }

    /// Returns whether a program is one of its processes.
    pub(super) fn has(&self, name: &str) -> bool {
        self.lock().iter().any(|process| process.start.name == name)
    }

    /// Returns a line about it for the start.
    pub(crate) fn in_words(&self) -> String {
        let Self { settings, interpreter, .. } = self;
        let nice = settings.nice.map_or_else(String::new, |nice| {
            let percent = cpu_share(nice) * 100.0;
            format!(
                ", nice {nice} (about {percent:.1} % of a core while another program is busy on it)"
            )
        });
        format!(
            "Python application {} in {} ({}), {}{nice}",
            settings.application,
            settings.folder.display(),
            interpreter.display(),
            match (settings.processes, settings.threads) {
                (1, 1) => "1 process with 1 thread".to_owned(),
                (1, threads) => format!("1 process with {threads} threads"),
                (processes, 1) => {
                    format!("{processes} processes, which share no global variables")
                }
                (processes, threads) => format!(
                    "{processes} processes with {threads} threads each, which share no global \
                     variables"
                ),
            }
        )
    }

    fn process(&self, socket: ProcessSocket) -> AppProcess {
        let settings = &self.settings;
        let number = |count: usize| {
            u16::try_from(count).ok().and_then(NonZeroU16::new).unwrap_or(NonZeroU16::MIN)
        };
        let command = ApplicationCommand {
            interface: settings.interface,
            application: settings.application.clone().into(),
            folder: settings.folder.clone(),
            threads: number(settings.threads),
            processes: number(settings.processes),
            is_factory: settings.is_factory,
        };
        let start = ProgramStart {
            kind: ProgramKind::Supervised,
            arguments: command.arguments(),
            environment: settings.environment.clone(),
            identity: settings.identity.clone(),
            nice: settings.nice,
            working_directory: settings.folder.clone(),
            grace_ms: GRACE_MS,
            ..ProgramStart::new(&socket.name, &self.interpreter)
        };
        AppProcess { start, socket, stage: ProcessStage::New }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<AppProcess>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the part of a core that a program with this nice value gets beside one with 0, while
/// both are busy: each step is a factor of 1.25 (sched(7), "The nice value").
fn cpu_share(nice: i8) -> f64 {
    1.0 / (1.0 + 1.25_f64.powi(nice.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The weights are those of the kernel (`sched_prio_to_weight`).
    #[test]
    fn the_share_is_that_of_the_kernel() {
        for (nice, weight) in [(-20, 88761.0), (-5, 3121.0), (0, 1024.0), (5, 335.0), (19, 15.0)] {
            let share = cpu_share(nice);
            let expected = weight / (weight + 1024.0);
            assert!((share - expected).abs() < 0.002, "{nice}: {share}, {expected}");
        }
    }
}
