//! The thread that controls a running server: it handles signals and the commands of the control
//! socket, one at a time, and keeps programs running. It never runs anything that takes long:
//! reloads run on other threads, which wake it when they have ended.

use super::configuration_reload::{LiveSettings, Renewal};
use super::control_clients::{ClientId, ControlClients};
use super::explainer::Explainer;
use super::python::process_start::StartOutcome;
use super::reload_report::{ReloadReport, Reports};
use super::running_programs::RunningPrograms;
use super::sd_notify::Notifier;
use super::site_roster::Published;
use super::status::StatusSource;
use super::tls::{Keeper, Wish};
use crate::access_log::AccessLog;
use crate::control::protocol::{CommandRequest, Message, MessageLevel, Response, ServerCommand};
use crate::control::status::{State, Status};
use crate::explain::HAS_NO_HTTP;
use crate::failure::Failure;
use crate::panics;
use crate::terminal::counted;
use anyhow::Context as _;
use pinion_engine::server::Control;
use pinion_engine::signals::{Signal, SignalQueue, Signals};
use pinion_engine::stderr;
use pinion_programs::supervisor_link::SupervisorLink;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long the thread waits after an error of poll(2).
const POLL_PAUSE: Duration = Duration::from_millis(10);

/// Everything that the thread needs.
pub(super) struct Controlled {
    pub(super) signals: Signals,
    /// `None` for a server without a control socket.
    pub(super) socket: Option<OwnedFd>,
    pub(super) control: Control,
    pub(super) notifier: Notifier,
    /// `None` for the dummy.
    pub(super) renewal: Option<Renewal>,
    /// `None` without TLS.
    pub(super) keeper: Option<Keeper>,
    pub(super) log: Option<Arc<AccessLog>>,
    pub(super) live: Arc<LiveSettings>,
    pub(super) status: StatusSource,
    /// `None` for a server without sites.
    pub(super) explainer: Option<Explainer>,
}

impl Controlled {
    /// Starts the thread, waits for programs that have to be ready first, and reports that the
    /// server is ready: to the service manager, and by `print`. The thread runs until the process
    /// ends. A signal that has waited is reported after that, unless programs are waited for.
    ///
    /// # Errors
    /// No descriptor or no thread is left, or a program has failed. Nothing was reported.
    pub(super) fn start_ready(
        self,
        published: Option<Arc<Published>>,
        programs: Option<&RunningPrograms>,
        print: impl FnOnce(),
    ) -> Result<(), Failure> {
        let (notifier, control) = (self.notifier.clone(), self.control.clone());
        let begin = self.start()?;
        if let Some(programs) = programs.filter(|programs| programs.are_waited_for()) {
            // The thread starts them.
            let _begun = begin.send(());
            if programs.wait_until_ready()? == StartOutcome::Ending {
                return Ok(());
            }
        }
        print();
        notifier.ready(published, control);
        // The thread waits for it.
        let _begun = begin.send(());
        Ok(())
    }

    /// Starts the thread, which does nothing before it gets a message.
    fn start(self) -> Result<Sender<()>, Failure> {
        let queue = self.signals.queue().context("cannot receive signals")?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let ready = eventfd(0, flags).context("cannot make an event descriptor")?;
        let (sender, results) = channel();
        let Self { socket, control, notifier, renewal, keeper, log, live, .. } = self;
        let (status, explainer) = (self.status, self.explainer);
        let supervisor = status.programs.supervisor();
        let results = Results { ready: Arc::new(ready), sender, results };
        let clients = ControlClients::new(socket);
        let last_reload_error = Arc::default();
        let ending = ShutdownState { state: State::Serving, until: None, line: None };
        let commands = Commands {
            control,
            notifier,
            renewal,
            keeper,
            log,
            live,
            status,
            explainer,
            last_reload_error,
            ending,
        };
        let mut thread = ControlThread { queue, results, clients, supervisor, commands };
        let (begin, begun) = channel();
        let run = move || {
            let _begun = begun.recv();
            loop {
                // Without this thread the server could not be stopped.
                panics::survive(|| thread.poll_once());
            }
        };
        let spawned = thread::Builder::new().name("control".to_owned()).spawn(run);
        spawned.context("cannot start the thread for signals and commands")?;
        Ok(begin)
    }
}

struct ControlThread {
    queue: SignalQueue,
    results: Results,
    clients: ControlClients,
    /// `None` for a server without programs.
    supervisor: Option<SupervisorLink>,
    commands: Commands,
}

/// The responses to requests that other threads execute: reloads and explanations.
struct Results {
    /// Readable when there is a result.
    ready: Arc<OwnedFd>,
    sender: Sender<(ClientId, Response)>,
    results: Receiver<(ClientId, Response)>,
}

impl Results {
    /// Returns a function that makes the response of another thread a result for a client.
    fn returning(&self, client: ClientId) -> impl FnOnce(Response) + Send + 'static {
        let (ready, sender) = (Arc::clone(&self.ready), self.sender.clone());
        move |response| {
            if sender.send((client, response)).is_ok() {
                // It fails only if it is readable for 2^64 results already.
                let _woken = rustix::io::write(&ready, &1_u64.to_ne_bytes());
            }
        }
    }

    fn take(&self) -> impl Iterator<Item = (ClientId, Response)> {
        let _count = rustix::io::read(&self.ready, &mut [0; 8]);
        self.results.try_iter()
    }
}

impl ControlThread {
    /// Waits for an event, and handles all that have come.
    fn poll_once(&mut self) {
        let now = Instant::now();
        let of_programs = self.supervisor.as_ref().and_then(SupervisorLink::deadline);
        let deadline = [self.clients.deadline(now), self.commands.ending.until, of_programs];
        let deadline = deadline.into_iter().flatten();
        let left = deadline.min().map(|deadline| deadline.saturating_duration_since(now));
        let ready = {
            let mut polled = vec![
                PollFd::new(&self.queue, PollFlags::IN),
                PollFd::from_borrowed_fd(self.results.ready.as_fd(), PollFlags::IN),
            ];
            let of_programs = self.supervisor.iter().flat_map(SupervisorLink::polled);
            polled.extend(of_programs.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            let others = polled.len();
            polled.extend(self.clients.polled(now));
            // Rounded up, so that the thread does not wake before the due time.
            let left = left.map(|left| left + Duration::from_millis(1));
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut polled, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                // The kernel has no memory for a moment.
                Err(_) => thread::sleep(POLL_PAUSE),
            }
            polled.iter().skip(others).map(PollFd::revents).collect::<Vec<_>>()
        };
        while let Some(signal) = self.queue.next() {
            self.commands.signal(signal);
        }
        for (client, response) in self.results.take() {
            self.clients.respond(client, &response);
        }
        let now = Instant::now();
        if let Some(supervisor) = &mut self.supervisor {
            supervisor.handle_events(now, |line| stderr::line(format_args!("pinion: {line}")));
        }
        self.commands.close_at_deadline(now);
        self.clients.handle_events(&ready, now);
        for (client, request) in self.clients.requests(now) {
            let commands = &mut self.commands;
            let supervisor = self.supervisor.as_ref();
            match commands.execute(request, supervisor, self.results.returning(client)) {
                Reply::Now(response) => self.clients.respond(client, &response),
                Reply::BeforeEnd(response) => {
                    // The process may end at once.
                    self.clients.announce(client, &response);
                    self.commands.begin_shutdown();
                }
                Reply::Later => {}
            }
        }
    }
}

/// The parts of a server that commands act on.
struct Commands {
    control: Control,
    notifier: Notifier,
    renewal: Option<Renewal>,
    keeper: Option<Keeper>,
    log: Option<Arc<AccessLog>>,
    live: Arc<LiveSettings>,
    status: StatusSource,
    explainer: Option<Explainer>,
    /// The error of the last reload that was asked for, if it failed.
    last_reload_error: Arc<Mutex<Option<String>>>,
    ending: ShutdownState,
}

fn lock(error: &Mutex<Option<String>>) -> MutexGuard<'_, Option<String>> {
    error.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The response to a request.
enum Reply {
    Now(Response),
    /// Now; after that, the client waits for the end of the process.
    BeforeEnd(Response),
    /// It comes as a result.
    Later,
}

/// The state of the shutdown.
struct ShutdownState {
    state: State,
    /// The time at which the remaining connections are closed.
    until: Option<Instant>,
    /// The line that is logged when the shutdown begins.
    line: Option<String>,
}

impl Commands {
    fn signal(&mut self, signal: Signal) {
        match signal {
            Signal::ReopenLogs => self.reopen_logs(),
            Signal::Reload => self.reload(|_| ()),
            Signal::Terminate | Signal::Interrupt if self.ending.state == State::Stopping => {
                self.control.stop();
            }
            Signal::Terminate | Signal::Interrupt => {
                self.stop();
                self.begin_shutdown();
            }
        }
    }

    /// Executes a request. `later` gets the response to one that takes long when it is known.
    fn execute(
        &mut self,
        request: CommandRequest,
        supervisor: Option<&SupervisorLink>,
        later: impl FnOnce(Response) + Send + 'static,
    ) -> Reply {
        let done = |text: String| Response::done(vec![Message::info(text)]);
        match request.command {
            ServerCommand::Status => {
                let status = self.status.now(&self.control, self.ending.state, supervisor);
                let last_reload_error = lock(&self.last_reload_error).clone();
                let status = Some(Box::new(Status { last_reload_error, ..status }));
                Reply::Now(Response { status, ..Response::done(Vec::new()) })
            }
            ServerCommand::Reload => {
                self.reload(move |messages| later(Response::done(messages)));
                Reply::Later
            }
            ServerCommand::Why => {
                let Some(explainer) = &self.explainer else {
                    let error = match self.status.published {
                        None => "it has no sites: --dummy is the response to every request".into(),
                        Some(_) => format!("it {HAS_NO_HTTP}"),
                    };
                    return Reply::Now(Response::refused(error));
                };
                let Some(request) = request.request else {
                    return Reply::Now(Response::refused("the request to explain is missing"));
                };
                match explainer.start(request, later) {
                    Ok(()) => Reply::Later,
                    Err(error) => Reply::Now(Response::refused(error)),
                }
            }
            ServerCommand::ReopenLogs => {
                self.reopen_logs();
                let text = match self.log {
                    Some(_) => "reopening the access logs",
                    None => "there is no access log",
                };
                Reply::Now(done(text.to_owned()))
            }
            ServerCommand::Drain => Reply::BeforeEnd(done(self.drain())),
            ServerCommand::Stop => Reply::BeforeEnd(done(self.stop())),
        }
    }

    /// Begins a reload; `done` gets its messages when it is over.
    fn reload(&self, done: impl FnOnce(Vec<Message>) + Send + 'static) {
        let notice = self.notifier.reloading();
        let last_error = Arc::clone(&self.last_reload_error);
        let reports = Reports::of(ReloadReport::new(move |messages| {
            let error = messages.iter().find(|message| message.level == MessageLevel::Error);
            if error.is_some() {
                notice.fail();
            }
            *lock(&last_error) = error.map(|message| message.text.clone());
            drop(notice);
            done(messages);
        }));
        self.reopen_logs();
        match (&self.renewal, &self.keeper) {
            // The file says which certificates there are.
            (Some(renewal @ Renewal::File(_)), _) => renewal.ask(reports.clone()),
            (renewal, keeper) => {
                if keeper.is_none() && !renewal.as_ref().is_some_and(Renewal::loads_anything) {
                    let reason = "there is no site, no configuration file and no certificate";
                    reports.log(&Message::info(format!("nothing to reload: {reason}")));
                }
                renewal.iter().for_each(|renewal| renewal.ask(reports.clone()));
                keeper.iter().for_each(|keeper| keeper.ask(Wish::Reload, reports.clone()));
            }
        }
    }

    fn reopen_logs(&self) {
        if let Some(log) = &self.log {
            log.reopen();
        }
    }

    /// Prepares a shutdown without a time limit, and returns a line about it.
    /// [`Self::begin_shutdown`] begins it.
    fn drain(&mut self) -> String {
        let open = counted(self.control.connections() as u64, "connection");
        match self.ending.state {
            State::Serving => {}
            State::Draining => return format!("already draining; {open} open"),
            State::Stopping => return format!("already stopping; {open} open"),
        }
        self.ending.state = State::Draining;
        let line = format!("draining; {open} open, without a time limit");
        self.ending.line = Some(line.clone());
        line
    }

    /// Prepares a shutdown that closes the remaining connections at the end of the grace period.
    fn stop(&mut self) -> String {
        let open = counted(self.control.connections() as u64, "connection");
        if self.ending.state == State::Stopping {
            return format!("already stopping; {open} open");
        }
        let grace = self.live.grace();
        self.ending.state = State::Stopping;
        self.ending.until = Instant::now().checked_add(grace);
        let line = format!("stopping; {open} open, at most {} seconds", grace.as_secs());
        self.ending.line = Some(line.clone());
        line
    }

    /// Begins the shutdown that [`Self::drain`] or [`Self::stop`] has prepared: idle connections
    /// close now, the others after their responses.
    fn begin_shutdown(&mut self) {
        let Some(line) = self.ending.line.take() else { return };
        stderr::line(format_args!("{line}"));
        match self.ending.state {
            State::Stopping => self.notifier.stopping(&line),
            State::Draining | State::Serving => self.notifier.draining(&line),
        }
        // Without connections the process ends at once, so nothing comes after this.
        self.control.drain();
    }

    /// Closes the remaining connections when the grace period is over.
    fn close_at_deadline(&mut self, now: Instant) {
        if self.ending.until.take_if(|until| now >= *until).is_some() {
            self.control.stop();
        }
    }
}
