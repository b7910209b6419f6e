//! The workers of a server as threads: started from a [`Kit`], restarted after a panic, drained.

use crate::stderr;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::app::App;
use crate::backend::Backend;
use crate::backend::epoll::Epoll;
use crate::backend::uring::Uring;
use crate::inbox::{Inbox, Poster};
use crate::limits::{ACCEPT_PAUSE_MS, WORKER_STACK_BYTES};
use crate::listener::{Listener, QuicListener};
use crate::quic::worker_endpoints::EndpointPlan;
use crate::restart_pause::RestartPause;
use crate::settings::WorkerSettings;
use crate::worker::{SharedByWorkers, Worker};

/// The system interface that the workers use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Io {
    /// epoll.
    Epoll,
    /// io_uring.
    Uring,
}

/// All that the workers need, prepared before any thread starts (docs/ARCHITECTURE.md, "Start and
/// threads").
pub struct Kit {
    /// The listening sockets; every worker accepts from all of them.
    pub listeners: Vec<Listener>,
    /// The listening addresses of QUIC, with a socket for each worker.
    pub quic: Vec<QuicListener>,
    /// The settings of the workers; their `listeners` are replaced by those above.
    pub settings: WorkerSettings,
    /// The number of workers.
    pub workers: usize,
    /// The system interface.
    pub io: Io,
}

/// A running server.
pub struct RunningServer {
    threads: Vec<JoinHandle<()>>,
    shared: Arc<SharedByWorkers>,
}

/// A handle that ends a running server, from any thread.
#[derive(Clone)]
pub struct Control {
    shared: Arc<SharedByWorkers>,
}

impl Control {
    /// Drains the server: clients that have connected by now are still accepted, then the listening
    /// sockets are closed. Open exchanges go on, and idle connections close.
    pub fn drain(&self) {
        self.shared.drain();
        self.wake_all();
    }

    /// Ends everything now, because the grace period is over.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.drain();
    }

    /// Returns whether the server ends: [`Self::drain`] or [`Self::stop`] was called.
    pub fn is_ending(&self) -> bool {
        self.shared.draining.load(Ordering::Acquire)
    }

    /// Wakes every worker, so that each makes a pass (and `App::pass` is called).
    pub fn wake_all(&self) {
        for inbox in self.shared.inboxes.iter() {
            inbox.wake();
        }
    }

    /// Probes whether every worker still makes passes; see [`Self::silent_workers`].
    pub fn probe_workers(&self) {
        self.shared.inboxes.iter().for_each(Inbox::probe);
    }

    /// Returns the numbers of the workers that have made no pass since they were probed. A server
    /// that drains has none: its workers end one after the other.
    pub fn silent_workers(&self) -> Vec<u16> {
        if self.shared.draining.load(Ordering::Acquire) {
            return Vec::new();
        }
        let silent = |(number, inbox): (u16, &Inbox)| inbox.is_probed().then_some(number);
        (0..).zip(self.shared.inboxes.iter()).filter_map(silent).collect()
    }

    /// Returns the number of connections that are open at the moment.
    pub fn connections(&self) -> usize {
        self.shared.permits.connections()
    }
}

impl RunningServer {
    /// Starts the workers. `make_app` is called on each worker's thread, and again when the worker
    /// is restarted after a panic. It gets the number of the worker and a handle that posts
    /// messages: to exchanges of any worker, its own too, and to the applications of all.
    ///
    /// # Errors
    /// Fails if a thread cannot be started, or a worker cannot set up its backend; no thread is
    /// left then.
    pub fn start<A, F>(kit: Kit, make_app: F) -> io::Result<Self>
    where
        A: App,
        F: Fn(u16, Poster) -> A + Send + Sync + 'static,
    {
        let Kit { listeners, quic, mut settings, workers, io } = kit;
        let sockets: Vec<_> = listeners.iter().map(|listener| listener.socket.clone()).collect();
        for socket in &sockets {
            // An inherited one may be in either state, and all its holders share the state.
            rustix::io::ioctl_fionbio(socket, true)?;
        }
        settings.listeners = listeners.into_iter().map(|listener| listener.settings).collect();
        let endpoints = quic.into_iter().map(|listener| {
            settings.listeners.push(listener.settings);
            let index = (settings.listeners.len() - 1) as u16;
            EndpointPlan { sockets: listener.sockets, config: listener.config, listener: index }
        });
        let endpoints = endpoints.collect();
        settings.buffer_bytes /= workers;
        let settings = Arc::new(settings);
        let shared = Arc::new(SharedByWorkers::new(workers, &settings, sockets, endpoints));
        let make_app = Arc::new(make_app);
        let mut threads = Vec::with_capacity(workers);
        let (report_sender, reports) = mpsc::channel();
        let mut failure = None;
        for index in 0..workers {
            let seat = WorkerSeat {
                index: index as u16,
                settings: settings.clone(),
                shared: shared.clone(),
            };
            let (make_app, reports) = (make_app.clone(), report_sender.clone());
            let named = thread::Builder::new().name(format!("worker-{index}"));
            let named = named.stack_size(WORKER_STACK_BYTES);
            match named.spawn(move || seat.work(io, &*make_app, reports)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        drop(report_sender);
        let server = Self { threads, shared };
        // The loop ends when each worker has reported, or died without a report.
        if let Some(error) = reports.iter().find_map(Result::err).or(failure) {
            server.control().stop();
            server.join();
            return Err(error);
        }
        Ok(server)
    }

    /// Returns a handle that ends the server.
    pub fn control(&self) -> Control {
        Control { shared: self.shared.clone() }
    }

    /// Returns a handle that posts messages.
    pub fn poster(&self) -> Poster {
        Poster { inboxes: self.shared.inboxes.clone() }
    }

    /// Waits until every worker has drained.
    pub fn join(self) {
        for thread in self.threads {
            // Panics are caught on the thread; joining cannot fail.
            let _ = thread.join();
        }
    }
}

/// The state from which one worker's thread starts, again after a panic.
struct WorkerSeat {
    index: u16,
    settings: Arc<WorkerSettings>,
    shared: Arc<SharedByWorkers>,
}

impl WorkerSeat {
    /// Runs until the server has drained. Reports once whether it could begin; if not, it returns.
    fn work<A: App>(
        &self,
        io: Io,
        make_app: &(impl Fn(u16, Poster) -> A + ?Sized),
        started: mpsc::Sender<io::Result<()>>,
    ) {
        let mut started = Some(started);
        let mut pause = RestartPause::default();
        loop {
            let start = Instant::now();
            let outcome = catch_unwind(AssertUnwindSafe(|| match io {
                Io::Epoll => self.run(Epoll::new(self.shared.listening())?, make_app, &mut started),
                Io::Uring => {
                    let uring = Uring::new(self.shared.listening(), self.settings.buffer_bytes)?;
                    self.run(uring, make_app, &mut started)
                }
            }));
            match outcome {
                Ok(Ok(())) => return,
                Ok(Err(error)) => {
                    if let Some(started) = started.take() {
                        let _ = started.send(Err(error));
                        return;
                    }
                    stderr::line(format_args!("worker {}: {error}; starting anew", self.index));
                }
                Err(_) => {
                    if let Some(started) = started.take() {
                        let _ = started.send(Err(io::Error::other("a worker panicked")));
                        return;
                    }
                    stderr::line(format_args!("worker {}: panicked; starting anew", self.index));
                }
            }
            self.shared.permits.leave_all(self.index);
            self.shared.client_limit.leave_all(self.index);
            if self.has_drained_within(pause.after(start.elapsed())) {
                return;
            }
        }
    }

    /// Waits, but not for longer than the server goes on; returns whether it has begun to drain.
    fn has_drained_within(&self, pause_ms: u64) -> bool {
        let end = Instant::now() + Duration::from_millis(pause_ms);
        loop {
            if self.shared.draining.load(Ordering::Acquire) {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            thread::sleep(left.min(Duration::from_millis(ACCEPT_PAUSE_MS)));
        }
    }

    fn run<B: Backend, A: App>(
        &self,
        backend: B,
        make_app: &(impl Fn(u16, Poster) -> A + ?Sized),
        started: &mut Option<mpsc::Sender<io::Result<()>>>,
    ) -> io::Result<()> {
        let app = make_app(self.index, Poster { inboxes: self.shared.inboxes.clone() });
        let (settings, shared) = (self.settings.clone(), self.shared.clone());
        let mut worker = Worker::new(self.index, backend, app, settings, shared);
        worker.open_endpoints()?;
        if let Some(started) = started.take() {
            let _ = started.send(Ok(()));
        }
        worker.run()
    }
}
