//! The supervisor, combined with its connection to the spawner.
//!
//! One thread with a poll(2) loop owns the [`SupervisorLink`]: it polls the descriptors of
//! [`SupervisorLink::polled`] until [`SupervisorLink::deadline`], and calls
//! [`SupervisorLink::handle_events`]. Other threads set the list of programs through a
//! [`SupervisorInbox`].

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pinion_spawner::reply::{REPLY_BYTES, ReplyReader, SpawnerReply};
use pinion_spawner::spawner_handle::ControlError;
use pinion_spawner::worker_connection::{RequestError, SpawnerConnection};
use pinion_spawner::worker_request::StartRequest;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::limits::{CLOSED_REPORT_DELAY_MS, SUPERVISOR_RETRY_MS};
use crate::spawner_access::SpawnerAccess;
use crate::supervisor::{ProgramStatus, SupervisedProgram, Supervisor, SupervisorOutput};

/// The inbox through which other threads set the list of supervised programs. Clones share one
/// inbox.
#[derive(Clone, Debug)]
pub struct SupervisorInbox {
    shared: Arc<SharedInbox>,
}

#[derive(Debug)]
struct SharedInbox {
    /// An event descriptor (eventfd(2)) that is readable when the inbox has changed.
    ready: OwnedFd,
    news: Mutex<SupervisorNews>,
    /// The status of the programs after the last change.
    status: Mutex<Vec<ProgramStatus>>,
}

/// Descriptors that a program gets in addition to those for its output. They stay open when the
/// program ends, and its next process gets them again.
#[derive(Clone, Debug)]
pub struct ProgramDescriptors {
    /// The listening socket that becomes standard input.
    pub listener: Arc<OwnedFd>,
    /// The file that becomes descriptor 3.
    pub file: Arc<OwnedFd>,
}

/// The list of supervised programs.
#[derive(Debug, Default)]
pub struct SupervisedPrograms {
    /// The generation of the spawner's table that has their rows.
    pub generation: u32,
    /// The programs.
    pub programs: Vec<SupervisedProgram>,
    /// The descriptors of the programs that have any, by row.
    pub descriptors: BTreeMap<u16, ProgramDescriptors>,
}

/// The changes since the supervisor last read its inbox.
#[derive(Debug, Default)]
struct SupervisorNews {
    programs: Option<SupervisedPrograms>,
    is_stopping: bool,
}

/// A supervisor with the connection and the queues through which its decisions are carried out.
#[derive(Debug)]
pub struct SupervisorLink {
    access: SpawnerAccess,
    inbox: SupervisorInbox,
    supervisor: Supervisor,
    connection: SupervisorConnection,
    replies: ReplyReader,
    /// The generation of the spawner's table that has the rows of the supervisor.
    generation: u32,
    /// The descriptors of programs by row, as in [`SupervisedPrograms::descriptors`].
    descriptors: BTreeMap<u16, ProgramDescriptors>,
    /// The queue of requests that were not sent yet.
    unsent: VecDeque<UnsentRequest>,
    /// The time at which the first unsent request is retried, in milliseconds.
    retry_at_ms: Option<u64>,
    /// The time at which a closed connection is logged, unless the end of the spawner is known by
    /// then.
    report_closed_at_ms: Option<u64>,
    /// The moment that is 0 in the milliseconds of the supervisor.
    began: Instant,
}

/// The connection to the spawner.
#[derive(Debug)]
enum SupervisorConnection {
    /// No connection was opened yet. The first program opens it.
    Unused,
    Open(SpawnerConnection),
    /// The connection has ended, and no program is started any more.
    Closed,
}

#[derive(Debug)]
enum UnsentRequest {
    Start { id: u64, start: u16, generation: u32, descriptors: Option<ProgramDescriptors> },
    Stop { id: u64 },
}

impl SupervisorInbox {
    /// Creates an inbox.
    ///
    /// # Errors
    /// The process has too many open descriptors.
    pub fn new() -> io::Result<Self> {
        let ready = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (news, status) = (Mutex::default(), Mutex::default());
        Ok(Self { shared: Arc::new(SharedInbox { ready, news, status }) })
    }

    /// Replaces the list of supervised programs.
    pub fn set_programs(&self, programs: SupervisedPrograms) {
        self.lock().programs = Some(programs);
        self.wake();
    }

    /// Announces that the spawner is about to be stopped: no program is started after that.
    pub fn stop(&self) {
        self.lock().is_stopping = true;
        self.wake();
    }

    /// Returns the status of a program, or `None` if the program is so new that it has no status
    /// yet. Times are those of the supervisor.
    #[must_use]
    pub fn status_of(&self, name: &str) -> Option<ProgramStatus> {
        let status = self.shared.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.iter().find(|program| *program.name == *name).cloned()
    }

    fn set_status(&self, status: Vec<ProgramStatus>) {
        *self.shared.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    fn take(&self) -> SupervisorNews {
        let _count = rustix::io::read(&self.shared.ready, &mut [0; 8]);
        std::mem::take(&mut *self.lock())
    }

    fn wake(&self) {
        // The write fails only if the descriptor is readable already.
        let _woken = rustix::io::write(&self.shared.ready, &1_u64.to_ne_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, SupervisorNews> {
        self.shared.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SupervisorLink {
    /// Creates a supervisor for the programs of the inbox. `seed` is any number; it determines the
    /// jitter of restarts.
    #[must_use]
    pub fn new(access: SpawnerAccess, inbox: SupervisorInbox, seed: u64) -> Self {
        Self {
            access,
            inbox,
            supervisor: Supervisor::new(seed),
            connection: SupervisorConnection::Unused,
            replies: ReplyReader::default(),
            generation: 0,
            descriptors: BTreeMap::new(),
            unsent: VecDeque::new(),
            retry_at_ms: None,
            report_closed_at_ms: None,
            began: Instant::now(),
        }
    }

    /// Returns the descriptors that the owner must poll for reading.
    pub fn polled(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let connection = match &self.connection {
            SupervisorConnection::Open(connection) => Some(connection.as_fd()),
            SupervisorConnection::Unused | SupervisorConnection::Closed => None,
        };
        [self.inbox.shared.ready.as_fd()].into_iter().chain(connection)
    }

    /// Returns the time at which [`Self::handle_events`] is due even if no descriptor is readable.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let of_supervisor = self.supervisor.deadline_ms();
        let deadlines_ms = [of_supervisor, self.retry_at_ms, self.report_closed_at_ms];
        let deadline_ms = deadlines_ms.into_iter().flatten();
        self.began.checked_add(Duration::from_millis(deadline_ms.min()?))
    }

    /// Reads the inbox and the replies of the spawner, and starts and stops the programs that are
    /// due. This function never waits. `log` receives the lines for the log.
    pub fn handle_events(&mut self, now: Instant, mut log: impl FnMut(&str)) {
        let now_ms = self.milliseconds(now);
        // Answers are read before the inbox. The stop of the spawner is announced in the inbox
        // before it happens, so the end of a program that the stop has caused is recognised as
        // such.
        let replies = self.read_replies();
        let news = self.inbox.take();
        if news.is_stopping {
            self.supervisor.stop(now_ms);
            self.unsent.clear();
        }
        if let Some(next) = news.programs {
            (self.generation, self.descriptors) = (next.generation, next.descriptors);
            self.supervisor.set_programs(&next.programs, now_ms);
        }
        let mut is_lost = false;
        for reply in replies {
            match reply {
                Ok(reply) => self.supervisor.on_reply(reply, now_ms),
                Err(ConnectionLost) => is_lost = true,
            }
        }
        self.supervisor.tick(now_ms);
        self.take_outputs(&mut log);
        if is_lost || self.send(now_ms).is_err() {
            self.connection = SupervisorConnection::Closed;
            self.unsent.clear();
            self.retry_at_ms = None;
            self.supervisor.on_spawner_end(now_ms);
            self.report_closed_at_ms = Some(now_ms.saturating_add(CLOSED_REPORT_DELAY_MS));
        }
        if self.report_closed_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            self.report_closed_at_ms = None;
            // The end of the spawner is logged by the thread that waits for it.
            if !self.access.has_ended() {
                log("the process that starts programs has closed a connection; restart the server");
            }
        }
        self.inbox.set_status(self.supervisor.status().collect());
    }

    /// Returns the status of all programs. Times are those of [`Self::milliseconds`].
    pub fn status(&self) -> impl Iterator<Item = ProgramStatus> {
        self.supervisor.status()
    }

    /// Converts a time to milliseconds of this supervisor.
    #[must_use]
    pub fn milliseconds(&self, time: Instant) -> u64 {
        let passed = time.saturating_duration_since(self.began);
        u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
    }

    /// Reads all replies that have arrived.
    fn read_replies(&mut self) -> Vec<Result<SpawnerReply, ConnectionLost>> {
        let mut replies = Vec::new();
        let SupervisorConnection::Open(connection) = &self.connection else { return replies };
        let mut buffer = [0; 64 * REPLY_BYTES];
        loop {
            match rustix::io::read(connection, &mut buffer) {
                Ok(bytes) if bytes > 0 => {
                    let found =
                        |reply: Option<SpawnerReply>| replies.push(reply.ok_or(ConnectionLost));
                    self.replies.feed(&buffer[..bytes], found);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return replies,
                Ok(_) | Err(_) => {
                    replies.push(Err(ConnectionLost));
                    return replies;
                }
            }
        }
    }

    fn take_outputs(&mut self, mut log: impl FnMut(&str)) {
        while let Some(output) = self.supervisor.next_output() {
            match output {
                SupervisorOutput::Start { id, start } => {
                    let generation = self.generation;
                    let descriptors = self.descriptors.get(&start).cloned();
                    let request = UnsentRequest::Start { id, start, generation, descriptors };
                    self.unsent.push_back(request);
                }
                SupervisorOutput::Stop { id } => self.unsent.push_back(UnsentRequest::Stop { id }),
                SupervisorOutput::Log(line) => log(&line),
            }
        }
    }

    /// Sends requests until the socket of the spawner is full.
    fn send(&mut self, now_ms: u64) -> Result<(), ConnectionLost> {
        self.retry_at_ms = None;
        while let Some(request) = self.unsent.front() {
            let sent = match &self.connection {
                SupervisorConnection::Open(connection) => request.send(connection),
                SupervisorConnection::Closed => return Err(ConnectionLost),
                SupervisorConnection::Unused => match self.access.connect() {
                    Ok(connection) => {
                        self.connection = SupervisorConnection::Open(connection);
                        continue;
                    }
                    Err(ControlError::Busy | ControlError::Timeout | ControlError::Socket(_)) => {
                        Err(RequestError::Busy)
                    }
                    Err(_) => Err(RequestError::Gone),
                },
            };
            match sent {
                Ok(()) => drop(self.unsent.pop_front()),
                Err(RequestError::Busy) => {
                    self.retry_at_ms = Some(now_ms.saturating_add(SUPERVISOR_RETRY_MS));
                    return Ok(());
                }
                Err(RequestError::Gone | RequestError::Invalid) => return Err(ConnectionLost),
            }
        }
        Ok(())
    }
}

/// The connection to the spawner has ended, or carries malformed data.
#[derive(Clone, Copy, Debug)]
struct ConnectionLost;

impl UnsentRequest {
    fn send(&self, connection: &SpawnerConnection) -> Result<(), RequestError> {
        match *self {
            Self::Start { id, start, generation, ref descriptors } => {
                let arguments = Vec::new();
                let request = StartRequest { id, start, generation, arguments, script: None };
                match descriptors {
                    None => connection.start_supervised(request, &[]),
                    Some(ProgramDescriptors { listener, file }) => {
                        connection.start_supervised(request, &[listener.as_fd(), file.as_fd()])
                    }
                }
            }
            Self::Stop { id } => connection.stop(id),
        }
    }
}
