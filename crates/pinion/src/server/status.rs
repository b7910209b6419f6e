//! Collects the status that `pinion status` shows.

use super::capacity::Capacity;
use super::program_table::ProgramTable;
use super::running_programs::RunningPrograms;
use super::site_roster::Published;
use super::stats::{self, Tally};
use super::tls::ServedCertificates;
use crate::control::status::{
    Certificate, Child, Connections, ProcessMemory, ProgramState, Programs, State, Status,
    StoreUse, SupervisedProgram, Workers,
};
use crate::terminal::shown;
use crate::{json_failure_document, timestamp_format};
use pinion_engine::server::{Control, Io};
use pinion_programs::supervisor::{ProgramPhase, ProgramStatus};
use pinion_programs::supervisor_link::SupervisorLink;
use pinion_store::store::Store;
use rustix::process::Pid;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

const SECONDS_PER_DAY: i64 = 86_400;

/// The sources of the status.
pub(super) struct StatusSource {
    pub(super) started: (Instant, SystemTime),
    pub(super) configuration: Option<PathBuf>,
    pub(super) listeners: Vec<String>,
    /// Their number, and how they talk to the kernel.
    pub(super) workers: (usize, Io),
    pub(super) capacity: Capacity,
    /// `None` for the dummy.
    pub(super) published: Option<Arc<Published>>,
    pub(super) programs: ProgramTable,
    /// `None` for the dummy.
    pub(super) running: Option<RunningPrograms>,
    /// `None` for a server without a store.
    pub(super) store: Option<Arc<Store>>,
    /// `None` without TLS.
    pub(super) certificates: Option<Arc<ServedCertificates>>,
    pub(super) tally: Option<Arc<Tally>>,
}

impl StatusSource {
    /// Returns the current status.
    pub(super) fn now(
        &self,
        control: &Control,
        state: State,
        supervisor: Option<&SupervisorLink>,
    ) -> Status {
        let ((started, started_at), (workers, io)) = (self.started, self.workers);
        let (requests, latency) =
            self.tally.as_ref().map(|tally| tally.status()).unwrap_or_default();
        Status {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state,
            started: timestamp_format::rfc3339(timestamp_format::unix_seconds(started_at)),
            uptime_seconds: started.elapsed().as_secs(),
            configuration: self.configuration.as_deref().map(json_failure_document::text),
            last_reload_error: None,
            listeners: self.listeners.clone(),
            workers: Workers { count: workers as u64, io: io_name(io).to_owned() },
            connections: Connections {
                open: control.connections() as u64,
                max: self.capacity.connections,
            },
            requests,
            latency,
            memory: ProcessMemory {
                resident_bytes: stats::memory_bytes(),
                bound_bytes: self.capacity.bound_bytes(workers, io),
            },
            sites: self.published.as_ref().map(|published| published.status()).unwrap_or_default(),
            programs: self.programs(supervisor),
            python: self.running.as_ref().map(RunningPrograms::python_status).unwrap_or_default(),
            store: self.store.as_deref().map(stored),
            certificates: self.certificates(),
        }
    }

    fn programs(&self, supervisor: Option<&SupervisorLink>) -> Option<Programs> {
        let access = self.programs.access();
        access.is_there().then(|| {
            let spawner = access.pid();
            let children = spawner.map(children).unwrap_or_default();
            let spawner_pid = spawner.map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
            let supervised = supervisor.map(supervised).unwrap_or_default();
            Programs { spawner_pid, supervised, children }
        })
    }

    fn certificates(&self) -> Vec<Certificate> {
        let now = timestamp_format::unix_seconds(SystemTime::now());
        let served = self.certificates.as_ref().map(|served| served.all()).unwrap_or_default();
        let certificate = |(files, certificate): (
            crate::settings::CertificateFiles,
            pinion_engine::tls::certificate::Certificate,
        )| {
            Certificate {
                file: json_failure_document::text(&files.cert),
                names: certificate.names().iter().map(ToString::to_string).collect(),
                not_after: timestamp_format::rfc3339(certificate.not_after()),
                days_left: (certificate.not_after() - now).div_euclid(SECONDS_PER_DAY),
            }
        };
        served.into_iter().map(certificate).collect()
    }
}

/// Returns the name of an interface, as the line of the start has it.
pub(super) fn io_name(io: Io) -> &'static str {
    match io {
        Io::Epoll => "epoll",
        Io::Uring => "io_uring",
    }
}

/// Returns how much is in the store.
fn stored(store: &Store) -> StoreUse {
    let settings = store.live();
    StoreUse {
        memory_bytes: store.used_bytes() as u64,
        max_bytes: settings.memory_max_bytes as u64,
        eviction: settings.eviction.name().to_owned(),
    }
}

/// Returns the programs that are kept running.
fn supervised(supervisor: &SupervisorLink) -> Vec<SupervisedProgram> {
    let (now_ms, now) = (supervisor.milliseconds(Instant::now()), SystemTime::now());
    let program = |program: ProgramStatus| {
        let left_ms = |until_ms: u64| until_ms.saturating_sub(now_ms);
        let (state, restart_in_ms) = match program.phase {
            ProgramPhase::Starting => (ProgramState::Starting, None),
            ProgramPhase::Running => (ProgramState::Running, None),
            ProgramPhase::Stopping => (ProgramState::Stopping, None),
            ProgramPhase::Stopped => (ProgramState::Stopped, None),
            ProgramPhase::Waiting { until_ms } => (ProgramState::Waiting, Some(left_ms(until_ms))),
        };
        let since = now - Duration::from_millis(now_ms.saturating_sub(program.since_ms));
        SupervisedProgram {
            name: program.name.to_string(),
            state,
            since: timestamp_format::rfc3339(timestamp_format::unix_seconds(since)),
            pid: program.pid,
            restarts: program.restarts,
            restart_in_ms,
            last_end: program.last_end.map(|end| end.to_string()),
        }
    };
    supervisor.status().map(program).collect()
}

/// Returns the children of a process: all threads of it that have some (proc_pid_task_children(5)).
/// Where the kernel does not report them, none.
fn children(of: Pid) -> Vec<Child> {
    let of = of.as_raw_nonzero();
    let text = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    let child = |pid: u32| {
        // A program can choose any bytes for it.
        let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
        Some(Child { pid, name: shown(name.trim_ascii_end()) })
    };
    text.split_ascii_whitespace().filter_map(|pid| child(pid.parse().ok()?)).collect()
}
