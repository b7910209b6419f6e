//! `pinion run SCRIPT [ARGS]`: a Lua script runs to its end, on one worker of a server that listens
//! nowhere. SIGTERM lets running work finish, within the time of `--grace`; other signals have
//! their default effects.

use crate::failure::Failure;
use crate::lua_program_loader;
use crate::server::program_table::ProgramTable;
use crate::server::sd_notify::Notifier;
use crate::server::site_programs::KeptPrograms;
use crate::settings::Run;
use anyhow::{Context as _, anyhow};
use pinion_engine::app::{App, ByteStreamEvent, Event, Message};
use pinion_engine::backend::probe_uring;
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::clock::Now;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::server::{Control, Io, Kit, RunningServer};
use pinion_engine::settings::WorkerSettings;
use pinion_engine::signals::{self, Signals};
use pinion_engine::stderr;
use pinion_jobs::upload_quota::UploadQuota;
use pinion_lua::script_memory_limits::ScriptMemory;
use pinion_lua::shared_site_state::ScriptSite;
use pinion_lua::site_program::SiteProgram;
use pinion_lua::worker_scripts::{Scripts, SharedByScripts};
use std::iter;
use std::os::unix::ffi::OsStringExt;
use std::process;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Runs the script.
pub(crate) fn run(run: Run) -> Result<(), Failure> {
    let program = lua_program_loader::alone(&run.script, run.allowance)?;
    let arguments = run.arguments.into_iter().map(OsStringExt::into_vec);
    let program = program.with_arguments(arguments.collect());
    // Before the first thread.
    let programs =
        ProgramTable::fork(KeptPrograms::default(), run.access.programs().iter(), iter::empty())?;
    let site = run.access.give_to(&ScriptSite::default(), &programs)?;
    if run.allowance.is_unsafe {
        let shown = run.script.display();
        stderr::line(format_args!("pinion: {shown} runs with --lua-unsafe"));
    }
    // Before the first thread, so that none of them is ended by it.
    let signals = signals::block_terminate().context("cannot block SIGTERM")?;
    let kit = Kit {
        listeners: Vec::new(),
        quic: Vec::new(),
        settings: WorkerSettings { connections: 1, ..WorkerSettings::default() },
        workers: 1,
        io: if probe_uring(1).is_ok() { Io::Uring } else { Io::Epoll },
    };
    programs
        .watch(Notifier::default())
        .context("cannot start the thread for the end of programs")?;
    let shared = SharedByScripts::new(1, UploadQuota::default(), ScriptMemory::default());
    let shared = shared.with_spawner(programs.access());
    let (ending_sender, ended) = mpsc::channel();
    // A worker that dies is started again; the script is not.
    let once = Mutex::new(Some((program, site, ending_sender)));
    let make_app = move |worker, poster| {
        let taken = once.lock().unwrap_or_else(PoisonError::into_inner).take();
        let scripts = Scripts::new(&shared, worker, poster);
        NoSites::start(scripts, taken)
    };
    let server = RunningServer::start(kit, make_app).context("cannot start a worker")?;
    let control = server.control();
    let ears = thread::Builder::new().name("signals".to_owned());
    let ears = ears.spawn(move || hear(&signals, &control, run.grace));
    let _until_the_process_ends = ears.context("cannot start the thread for signals")?;
    let ending = ended.recv();
    server.control().stop();
    server.join();
    if let Some(left) = programs.stop(run.grace) {
        stderr::line(format_args!("pinion: {left}"));
    }
    match ending {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err(Failure::AlreadyReported),
        Ok(Err(why)) => Err(anyhow!("{why}").into()),
        Err(_) => Err(anyhow!("{} was lost with its worker", run.script.display()).into()),
    }
}

/// Waits for SIGTERM: the first one lets running work finish. A second one ends it, and so does the
/// end of the grace, in any state of its worker.
fn hear(signals: &Signals, control: &Control, grace: Duration) {
    signals.wait();
    control.drain();
    let timer = thread::Builder::new().name("grace".to_owned());
    let timer = timer.spawn(move || {
        thread::sleep(grace);
        cut_off();
    });
    if timer.is_ok() {
        signals.wait();
    }
    cut_off();
}

fn cut_off() -> ! {
    stderr::line(format_args!(
        "pinion: stopped before the script was done; a longer --grace gives it more time"
    ));
    process::exit(1)
}

/// How the program has ended: whether all went well, or why it could not begin.
type Ending = Result<bool, String>;

/// The application of the worker, which runs the program and serves no sites.
struct NoSites {
    scripts: Scripts,
    /// The channel that gets its end; `None` once it was sent.
    ending_sender: Option<Sender<Ending>>,
}

impl NoSites {
    fn start(
        mut scripts: Scripts,
        taken: Option<(SiteProgram, ScriptSite, Sender<Ending>)>,
    ) -> Self {
        let Some((program, site, ending_sender)) = taken else {
            return Self { scripts, ending_sender: None };
        };
        let begun = scripts.run_alone(&program, &site, Now::read());
        let mut this = Self { scripts, ending_sender: Some(ending_sender) };
        if let Err(problem) = begun {
            this.end(Err(problem.to_string()));
        }
        this
    }

    fn look(&mut self, now: Now) {
        if let Some(is_well) = self.scripts.ending(now) {
            self.end(Ok(is_well));
        }
    }

    fn end(&mut self, ending: Ending) {
        if let Some(ending_sender) = self.ending_sender.take() {
            // The main thread waits for this.
            let _heard = ending_sender.send(ending);
        }
    }
}

impl App for NoSites {
    fn exchange(&mut self, _event: Event<'_>, exchange: &mut Exchange<'_>) {
        exchange.abort();
    }

    fn byte_stream_event(&mut self, event: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>) {
        self.scripts.byte_stream_event(&event, stream);
        self.scripts.flush(&mut stream.connections());
    }

    fn pass(&mut self, connections: &mut Connections<'_>) {
        let now = connections.now();
        // After its end was reported, remaining work does not run any more.
        if self.ending_sender.is_some() {
            self.scripts.pass(connections);
            self.look(now);
        }
    }

    fn alarm_ms(&self) -> Option<u64> {
        self.ending_sender.as_ref().and_then(|_| self.scripts.alarm_ms())
    }

    fn stopping(&mut self) {
        self.scripts.stop();
        self.look(Now::read());
    }

    fn is_busy(&self) -> bool {
        self.ending_sender.is_some()
    }

    fn posted(&mut self, message: Message, connections: &mut Connections<'_>) {
        self.scripts.posted(message, connections);
        self.look(Now::read());
    }
}
