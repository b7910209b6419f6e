//! Keeps programs running. The supervisor decides which programs are started, when they are
//! restarted, and which are stopped.
//!
//! The supervisor does no I/O and reads no clock. Its input is calls with events and the time, in
//! milliseconds of any monotonic clock. Its output is the actions that [`Supervisor::next_output`]
//! returns, which the caller reads after each of these calls. [`Supervisor::deadline_ms`] returns
//! the time at which [`Supervisor::tick`] is due.
//!
//! | State | Meaning | Next |
//! |---|---|---|
//! | waiting | it will be started at a known time | starting |
//! | starting | a start request was sent to the spawner | running, waiting, stopping |
//! | running | its process runs | waiting, stopping |
//! | stopping | its process has to end: other settings, or it was removed | waiting, stopped |
//! | stopped | it will not be started any more | |

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;

use pinion_spawner::reply::{Reason, SpawnerReply, StartStage, signal_name};

use crate::limits::RESTART_DELAY_MS;
use crate::restart_delay::RestartDelay;

/// A program that is to be kept running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupervisedProgram {
    /// The unique name of the program.
    pub name: Arc<str>,
    /// The row of the program in the table of the spawner.
    pub start: u16,
    /// A number that changes whenever the settings of the program do.
    pub revision: u64,
}

/// An action for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SupervisorOutput {
    /// Request the start of a row of the spawner's table.
    Start {
        /// The unique number of the start.
        id: u64,
        /// The row of the table.
        start: u16,
    },
    /// Request the stop of the program that was started with this number.
    Stop {
        /// The number of the start.
        id: u64,
    },
    /// Write a line to the log.
    Log(String),
}

/// The way in which a program has ended, or the reason why it was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// The program has exited with this status.
    Exited(u8),
    /// The signal with this number has ended the program.
    Signaled(u8),
    /// A step of the start has failed with this error number (errno(3)).
    NotStarted(StartStage, i32),
    /// The spawner has rejected the start without an attempt.
    Rejected(Reason),
}

/// The phase of a supervised program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramPhase {
    /// The program will be started at this time.
    Waiting {
        /// The time of the start, in milliseconds.
        until_ms: u64,
    },
    /// A start request was sent to the spawner.
    Starting,
    /// The program runs.
    Running,
    /// The program, or its start that goes on, was requested to stop.
    Stopping,
    /// The program will not be started any more, because the server stops or the spawner has ended.
    Stopped,
}

/// The status of a program, as reports show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramStatus {
    /// The name of the program.
    pub name: Arc<str>,
    /// The phase of the program.
    pub phase: ProgramPhase,
    /// The time at which the phase began, in milliseconds.
    pub since_ms: u64,
    /// The process ID, if there is a process and its ID is known.
    pub pid: Option<u32>,
    /// The number of restarts with the current settings.
    pub restarts: u64,
    /// The last end of the program, if it has ended before.
    pub last_end: Option<ProgramEnd>,
}

/// Keeps programs running.
#[derive(Debug)]
pub struct Supervisor {
    /// The programs in the order of the configuration. Removed programs that still run come last.
    programs: Vec<ProgramEntry>,
    outputs: VecDeque<SupervisorOutput>,
    last_id: u64,
    /// The state of the generator of random numbers.
    random: u64,
    is_stopped: bool,
}

#[derive(Debug)]
struct ProgramEntry {
    name: Arc<str>,
    /// `None` for a program that was removed.
    wanted: Option<WantedStart>,
    state: EntryState,
    since_ms: u64,
    delay: RestartDelay,
    /// The number of starts with the current settings.
    starts: u64,
    last_end: Option<ProgramEnd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WantedStart {
    start: u16,
    revision: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryState {
    Waiting { until_ms: u64 },
    Starting { id: u64 },
    Running { id: u64, pid: u32 },
    Stopping { id: u64, pid: Option<u32> },
    Stopped,
}

impl Supervisor {
    /// Creates a supervisor without programs. `seed` is any number; it determines the jitter of
    /// restarts.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let (programs, outputs) = (Vec::new(), VecDeque::new());
        // A seed of zero would make the generator return only zeros.
        Self { programs, outputs, last_id: 0, random: seed.max(1), is_stopped: false }
    }

    /// Replaces the list of programs. Programs with the same revision as before go on, changed ones
    /// are stopped and started again, and removed ones are stopped.
    pub fn set_programs(&mut self, programs: &[SupervisedProgram], now_ms: u64) {
        if self.is_stopped {
            return;
        }
        let mut old = std::mem::take(&mut self.programs);
        for program in programs {
            let wanted = WantedStart { start: program.start, revision: program.revision };
            let position = old.iter().position(|entry| entry.name == program.name);
            let mut entry = match position {
                Some(position) => old.remove(position),
                None => ProgramEntry::new(Arc::clone(&program.name), wanted, now_ms),
            };
            if entry.wanted.is_none_or(|before| before.revision != wanted.revision) {
                let outputs = &mut self.outputs;
                entry.renew("its settings have changed", now_ms, outputs);
            }
            entry.wanted = Some(wanted);
            self.programs.push(entry);
        }
        for mut entry in old {
            if entry.wanted.take().is_some() {
                entry.renew("it was removed from the configuration", now_ms, &mut self.outputs);
            }
            if matches!(entry.state, EntryState::Stopping { .. }) {
                self.programs.push(entry);
            }
        }
        self.tick(now_ms);
    }

    /// Starts all programs that are due.
    pub fn tick(&mut self, now_ms: u64) {
        for entry in &mut self.programs {
            if let (EntryState::Waiting { until_ms }, Some(wanted)) = (entry.state, entry.wanted)
                && until_ms <= now_ms
            {
                self.last_id += 1;
                let (id, start) = (self.last_id, wanted.start);
                self.outputs.push_back(SupervisorOutput::Start { id, start });
                entry.starts += 1;
                entry.change(EntryState::Starting { id }, now_ms);
            }
        }
    }

    /// Handles a reply of the spawner. A reply about an unknown start is ignored.
    pub fn on_reply(&mut self, reply: SpawnerReply, now_ms: u64) {
        let of_reply = |entry: &ProgramEntry| entry.id() == Some(reply.id());
        let Some(position) = self.programs.iter().position(of_reply) else { return };
        match reply {
            SpawnerReply::Started { id, pid } => {
                let entry = &mut self.programs[position];
                match entry.state {
                    EntryState::Stopping { id, .. } => {
                        entry.state = EntryState::Stopping { id, pid: Some(pid) };
                    }
                    _ => entry.change(EntryState::Running { id, pid }, now_ms),
                }
                let line = format!("{}: started", entry.shown());
                self.outputs.push_back(SupervisorOutput::Log(line));
            }
            SpawnerReply::Exited { status, .. } => {
                self.end(position, ProgramEnd::Exited(status), now_ms);
            }
            SpawnerReply::Signaled { signal, .. } => {
                self.end(position, ProgramEnd::Signaled(signal), now_ms);
            }
            SpawnerReply::Failed { stage, errno, .. } => {
                self.end(position, ProgramEnd::NotStarted(stage, errno), now_ms);
            }
            SpawnerReply::Rejected { reason: Reason::Stopping, .. } => self.stop(now_ms),
            SpawnerReply::Rejected { reason, .. } => self.reject(position, reason, now_ms),
        }
    }

    /// Ends supervision: no program is started or stopped any more. The server is about to stop the
    /// spawner, which stops all programs.
    pub fn stop(&mut self, now_ms: u64) {
        self.is_stopped = true;
        for entry in &mut self.programs {
            if matches!(entry.state, EntryState::Waiting { .. } | EntryState::Starting { .. }) {
                entry.change(EntryState::Stopped, now_ms);
            }
        }
        self.outputs.retain(|output| matches!(output, SupervisorOutput::Log(_)));
    }

    /// Handles the end of the spawner: no program runs, and none is started any more.
    pub fn on_spawner_end(&mut self, now_ms: u64) {
        self.stop(now_ms);
        self.programs.retain(|entry| entry.wanted.is_some());
        for entry in &mut self.programs {
            entry.change(EntryState::Stopped, now_ms);
        }
    }

    /// Returns the next action for the caller.
    pub fn next_output(&mut self) -> Option<SupervisorOutput> {
        self.outputs.pop_front()
    }

    /// Returns the time at which the next program is due, in milliseconds.
    #[must_use]
    pub fn deadline_ms(&self) -> Option<u64> {
        let waiting = self.programs.iter().filter_map(|entry| match entry.state {
            EntryState::Waiting { until_ms } => Some(until_ms),
            _ => None,
        });
        waiting.min()
    }

    /// Returns the status of all programs, including removed programs that still run.
    pub fn status(&self) -> impl Iterator<Item = ProgramStatus> {
        self.programs.iter().map(ProgramEntry::status)
    }

    /// Handles the end of a program or a failed start.
    fn end(&mut self, position: usize, end: ProgramEnd, now_ms: u64) {
        let random = self.random();
        let entry = &mut self.programs[position];
        let shown = entry.shown();
        entry.last_end = Some(end);
        if self.is_stopped {
            entry.change(EntryState::Stopped, now_ms);
            return;
        }
        let line = match (entry.state, entry.wanted) {
            (EntryState::Stopping { .. }, Some(_)) => {
                entry.change(EntryState::Waiting { until_ms: now_ms }, now_ms);
                format!("{shown}: {end}")
            }
            (_, None) => {
                self.programs.remove(position);
                format!("{shown}: {end}")
            }
            (_, Some(_)) => {
                let is_run = matches!(entry.state, EntryState::Running { .. });
                let ran_ms = if is_run { now_ms.saturating_sub(entry.since_ms) } else { 0 };
                let delay_ms = entry.delay.after_run(ran_ms, random);
                let until_ms = now_ms.saturating_add(delay_ms);
                entry.change(EntryState::Waiting { until_ms }, now_ms);
                format!("{shown}: {end}; next start in {delay_ms} ms")
            }
        };
        self.outputs.push_back(SupervisorOutput::Log(line));
        self.tick(now_ms);
    }

    /// Handles a request that the spawner has rejected.
    fn reject(&mut self, position: usize, reason: Reason, now_ms: u64) {
        let entry = &mut self.programs[position];
        match (entry.state, reason) {
            // The table was replaced a moment ago, and the new rows have not arrived here yet.
            (EntryState::Starting { .. }, Reason::StaleTable | Reason::UnknownStart) => {
                entry.starts -= 1;
                let until_ms = now_ms.saturating_add(RESTART_DELAY_MS);
                entry.change(EntryState::Waiting { until_ms }, now_ms);
            }
            // Programs of scripts, which end soon, use up the limit. This is logged once.
            (EntryState::Starting { .. }, Reason::TooManyRunning) => {
                entry.starts -= 1;
                let until_ms = now_ms.saturating_add(RESTART_DELAY_MS);
                entry.change(EntryState::Waiting { until_ms }, now_ms);
                let end = Some(ProgramEnd::Rejected(reason));
                if std::mem::replace(&mut entry.last_end, end) != end {
                    let line = format!("{}: cannot start yet: {reason}", entry.shown());
                    self.outputs.push_back(SupervisorOutput::Log(line));
                }
            }
            _ => self.end(position, ProgramEnd::Rejected(reason), now_ms),
        }
    }

    /// Returns a random number (xorshift64, Marsaglia 2003), good enough for jitter.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

impl ProgramEntry {
    fn new(name: Arc<str>, wanted: WantedStart, now_ms: u64) -> Self {
        Self {
            name,
            wanted: Some(wanted),
            state: EntryState::Waiting { until_ms: now_ms },
            since_ms: now_ms,
            delay: RestartDelay::default(),
            starts: 0,
            last_end: None,
        }
    }

    /// Resets the history of a program whose settings have changed, and stops its process.
    fn renew(&mut self, why: &str, now_ms: u64, outputs: &mut VecDeque<SupervisorOutput>) {
        (self.delay, self.starts, self.last_end) = (RestartDelay::default(), 0, None);
        match self.state {
            EntryState::Starting { id } | EntryState::Running { id, .. } => {
                let line = format!("{}: stopping, {why}", self.shown());
                outputs.push_back(SupervisorOutput::Log(line));
                outputs.push_back(SupervisorOutput::Stop { id });
                let pid = self.pid();
                self.change(EntryState::Stopping { id, pid }, now_ms);
            }
            EntryState::Waiting { .. } => {
                self.change(EntryState::Waiting { until_ms: now_ms }, now_ms);
            }
            EntryState::Stopping { .. } | EntryState::Stopped => {}
        }
    }

    fn change(&mut self, state: EntryState, now_ms: u64) {
        (self.state, self.since_ms) = (state, now_ms);
    }

    /// Returns the number of the current start, if it has not ended.
    fn id(&self) -> Option<u64> {
        match self.state {
            EntryState::Starting { id }
            | EntryState::Running { id, .. }
            | EntryState::Stopping { id, .. } => Some(id),
            EntryState::Waiting { .. } | EntryState::Stopped => None,
        }
    }

    fn pid(&self) -> Option<u32> {
        match self.state {
            EntryState::Running { pid, .. } => Some(pid),
            EntryState::Stopping { pid, .. } => pid,
            _ => None,
        }
    }

    /// Returns the name and the process ID as the log shows them.
    fn shown(&self) -> String {
        match self.pid() {
            Some(pid) => format!("{}[{pid}]", self.name),
            None => self.name.to_string(),
        }
    }

    fn status(&self) -> ProgramStatus {
        ProgramStatus {
            name: Arc::clone(&self.name),
            phase: match self.state {
                EntryState::Waiting { until_ms } => ProgramPhase::Waiting { until_ms },
                EntryState::Starting { .. } => ProgramPhase::Starting,
                EntryState::Running { .. } => ProgramPhase::Running,
                EntryState::Stopping { .. } => ProgramPhase::Stopping,
                EntryState::Stopped => ProgramPhase::Stopped,
            },
            since_ms: self.since_ms,
            pid: self.pid(),
            restarts: self.starts.saturating_sub(1),
            last_end: self.last_end,
        }
    }
}

impl fmt::Display for ProgramEnd {
    /// Writes the event as a phrase that follows the name of the program.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "exited with status {status}"),
            Self::Signaled(signal) => {
                write!(f, "ended by {}", signal_name(i32::from(*signal)))
            }
            Self::NotStarted(stage, errno) => {
                let error = io::Error::from_raw_os_error(*errno).to_string();
                // The error number is of no use to a reader of the log.
                let reason = error.split(" (os error ").next().unwrap_or_default();
                write!(f, "cannot {stage}: {reason}")
            }
            Self::Rejected(reason) => write!(f, "cannot start: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests;
