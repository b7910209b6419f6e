//! The second half of a start: the threads, and the wait for their end.

use super::app::{DummyApp, StaticApp};
use super::generation::Published;
use super::journal::Journal;
use super::kit::{Kit, Site};
use super::listeners::Bound;
use super::reload::Reloader;
use crate::access_log::AccessLog;
use crate::failure::Failure;
use crate::settings::Serve;
use crate::terminal::{count, counted, size};
use anyhow::Context as _;
use pinion_engine::listener::Listener;
use pinion_engine::server::{Control, Io, Kit as EngineKit, Server};
use pinion_engine::settings::{ListenerSettings, Protocol, Settings};
use pinion_engine::signals::{Signal, Signals};
use pinion_engine::stderr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Serves until SIGTERM or SIGINT, and returns when everything has ended.
///
/// # Errors
/// Something could not be started. Once the first request is served nothing fails any more.
pub(crate) fn run(kit: Kit) -> Result<(), Failure> {
    let Kit { settings, signals, listeners, files, log, site, io, workers, capacity } = kit;
    tell_start(&settings, io, workers, &capacity);
    let log = match log {
        Some(output) => Some(AccessLog::start(output, settings.log_format)),
        None => None,
    };
    let log = log.transpose().context("cannot start the access log")?.map(Arc::new);
    let urls: Vec<String> = listeners.iter().map(|bound| bound.url.clone()).collect();
    let engine = engine_kit(&settings, listeners, io, workers, &capacity);
    let (server, reloader) = match site {
        Some(site) => start_site(site, engine, &log)?,
        None => (start_dummy(engine, &log)?, None),
    };
    for url in urls {
        stderr::line(format_args!("listening {url}"));
    }
    let control = server.control();
    let ears = Ears { signals, control, reloader, log: log.clone(), grace: settings.grace };
    let listen = thread::Builder::new().name("signals".to_owned()).spawn(move || ears.run());
    listen.context("cannot start the thread for signals")?;
    server.join();
    drop(files);
    if let Some(log) = log {
        log.finish();
    }
    Ok(())
}

fn tell_start(settings: &Serve, io: Io, workers: usize, capacity: &super::capacity::Capacity) {
    if let Some(asked) = capacity.asked {
        stderr::line(format_args!(
            "pinion: --max-connections {asked}: the limit on open files allows {}; raise it \
             (ulimit -n) or ask for less",
            capacity.connections
        ));
    }
    let bound_bytes = capacity.bound_bytes(workers, io, settings.access_log.is_some());
    let io = match io {
        Io::Epoll => "epoll",
        Io::Uring => "io_uring",
    };
    let what = match (&settings.path, settings.dummy) {
        (_, true) => "dummy".to_owned(),
        (Some(path), _) => path.display().to_string(),
        (None, _) => "public".to_owned(),
    };
    stderr::line(format_args!(
        "pinion {}: {what}, {} on {io}, at most {} connections and {} beside the archive",
        env!("CARGO_PKG_VERSION"),
        counted(workers as u64, "worker"),
        count(capacity.connections),
        size(bound_bytes),
    ));
}

fn engine_kit(
    settings: &Serve,
    listeners: Vec<Bound>,
    io: Io,
    workers: usize,
    capacity: &super::capacity::Capacity,
) -> EngineKit {
    let fields = match &settings.server_name {
        Some(name) => format!("Server: {name}\r\n").into_bytes(),
        None => Vec::new(),
    };
    let listeners = listeners.into_iter().map(|bound| Listener {
        socket: Arc::new(bound.socket),
        settings: ListenerSettings { protocol: Protocol::Http, fields: fields.clone() },
    });
    EngineKit {
        listeners: listeners.collect(),
        settings: Settings {
            connections: capacity.connections as usize,
            requests_per_connection: settings.max_requests_per_connection,
            buffer_bytes: capacity.buffer_bytes as usize,
            ..Settings::default()
        },
        workers,
        io,
    }
}

fn start_site(
    site: Site,
    engine: EngineKit,
    log: &Option<Arc<AccessLog>>,
) -> Result<(Server, Option<Reloader>), Failure> {
    let Site { first, loader, watch } = site;
    let published = Arc::new(Published::new(first));
    let (for_workers, log) = (Arc::clone(&published), log.clone());
    let make_app =
        move |_worker, _poster| StaticApp::new(Arc::clone(&for_workers), journal(log.as_deref()));
    let server = Server::start(engine, make_app).context("cannot start the workers")?;
    let shown = loader.source().path().display().to_string();
    let reloader = Reloader::start(loader, published, server.control());
    let reloader = reloader.context("cannot start the thread for reloads")?;
    if let Some(watch) = watch {
        let ask = reloader.clone();
        let started = watch.start(move || ask.ask());
        started.with_context(|| format!("cannot watch {shown}"))?;
    }
    Ok((server, Some(reloader)))
}

fn start_dummy(engine: EngineKit, log: &Option<Arc<AccessLog>>) -> Result<Server, Failure> {
    let log = log.clone();
    let make_app = move |_worker, _poster| DummyApp::new(journal(log.as_deref()));
    Ok(Server::start(engine, make_app).context("cannot start the workers")?)
}

fn journal(log: Option<&AccessLog>) -> Journal {
    Journal::new(log.map(AccessLog::logger))
}

/// The thread that hears signals.
struct Ears {
    signals: Signals,
    control: Control,
    reloader: Option<Reloader>,
    log: Option<Arc<AccessLog>>,
    grace: Duration,
}

impl Ears {
    /// Runs until the process ends.
    fn run(self) {
        let mut draining = false;
        loop {
            match self.signals.wait() {
                Signal::Reload => {
                    if let Some(log) = &self.log {
                        log.reopen();
                    }
                    if let Some(reloader) = &self.reloader {
                        reloader.ask();
                    }
                }
                Signal::Terminate | Signal::Interrupt if draining => self.control.stop(),
                Signal::Terminate | Signal::Interrupt => {
                    draining = true;
                    self.drain();
                }
            }
        }
    }

    /// Ends idle connections now, the others with their answers, and what is left when the grace
    /// is over.
    fn drain(&self) {
        let open = counted(self.control.connections() as u64, "connection");
        stderr::line(format_args!(
            "stopping; {open} open, at most {} seconds",
            self.grace.as_secs()
        ));
        self.control.drain();
        let (control, grace) = (self.control.clone(), self.grace);
        let timer = thread::Builder::new().name("grace".to_owned()).spawn(move || {
            thread::sleep(grace);
            control.stop();
        });
        if timer.is_err() {
            // Without a clock nobody would end a client that never ends.
            self.control.stop();
        }
    }
}
