//! A Python application of a mount, which all workers share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pinion_engine::Poster;
use pinion_engine::exchange_address::Address;
use pinion_http::python::child_frame::says_asgi;

use super::ProcessIsFree;
use super::limits::{ASGI_REQUESTS_MAX, WAITING_MAX};
use super::process_request_queue::AppQueue;
use super::stuck_processes::StuckHook;
use crate::fastcgi_scgi_variables::AddedVariables;
use crate::field_changes::FieldChanges;
use crate::limits::UPSTREAM_TIMEOUT_MS;
use crate::path_prefix::PathPrefix;
use crate::upstream_group::PassedFields;

/// Numbers of processes; no two have the same.
static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

/// A Python application of a mount, which all workers share.
#[derive(Debug)]
pub struct PythonApp {
    /// Its name in the log, such as `app:app`.
    pub name: Box<str>,
    /// The path of the mount: `SCRIPT_NAME`.
    pub mount: PathPrefix,
    is_asgi: AtomicBool,
    pub(super) queue: AppQueue<Address>,
    pub(super) stuck_hook: StuckHook,
    /// Whether the application gets `Authorization`.
    pub passes_authorization: bool,
    /// Variables that the operator has added. They replace those of the same name.
    pub variables: AddedVariables,
    /// The time that a process may take for the next piece of a response, in milliseconds.
    pub timeout_ms: u64,
    /// Content is stored before a process gets the request, up to this many bytes.
    pub stored_max_bytes: u64,
    /// The changes of response fields.
    pub response_fields: FieldChanges,
    /// Fields of responses that are passed on although they hold for the whole host.
    pub passed_fields: PassedFields,
}

/// The interface by which an application is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PythonInterface {
    /// WSGI (PEP 3333).
    Wsgi {
        /// The number of requests that a process executes at the same time.
        threads: usize,
    },
    /// ASGI 3: a process executes all requests at the same time, at most [`ASGI_REQUESTS_MAX`].
    Asgi,
}

impl PythonInterface {
    /// Returns how many requests a process executes at the same time.
    fn requests_max(self) -> usize {
        match self {
            Self::Wsgi { threads } => threads,
            Self::Asgi => ASGI_REQUESTS_MAX,
        }
    }
}

impl PythonApp {
    /// Describes an application. It has no process yet.
    #[must_use]
    pub fn new(name: &str, mount: PathPrefix, interface: PythonInterface) -> Self {
        Self {
            name: name.into(),
            mount,
            is_asgi: AtomicBool::new(interface == PythonInterface::Asgi),
            queue: AppQueue::new(interface.requests_max(), WAITING_MAX),
            stuck_hook: StuckHook::default(),
            passes_authorization: true,
            variables: AddedVariables::new(),
            timeout_ms: UPSTREAM_TIMEOUT_MS,
            stored_max_bytes: 0,
            response_fields: FieldChanges::default(),
            passed_fields: PassedFields::default(),
        }
    }
}

impl PythonApp {
    /// Returns whether it is called as ASGI says.
    pub(super) fn is_asgi(&self) -> bool {
        self.is_asgi.load(Ordering::Relaxed)
    }

    /// Learns the interface that a process has reported in its frame
    /// [`READY`](pinion_http::python::child_frame::ChildFrame::Ready). It is called that way from
    /// the next request on; before the first one, if the process was waited for.
    pub fn learn_interface(&self, ready: &str) {
        let is_asgi = says_asgi(ready);
        if is_asgi && !self.is_asgi.swap(true, Ordering::Relaxed) {
            self.queue.set_requests_max(PythonInterface::Asgi.requests_max());
        }
    }

    /// Returns whether it has requests, or some wait for it.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.queue.is_used()
    }

    /// Returns the figures of its load.
    #[must_use]
    pub fn figures(&self) -> AppFigures {
        self.queue.figures()
    }

    /// Adds a process that accepts connections on this Unix socket, and returns its number. It gets
    /// requests that wait; `poster` notifies their workers.
    pub fn add_process(&self, socket: PathBuf, poster: Option<&Poster>) -> u64 {
        let number = LAST_NUMBER.fetch_add(1, Ordering::Relaxed);
        for request in self.queue.add_process(number, socket) {
            if let Some(poster) = poster {
                // A message that cannot be sent is not needed at the deadline of the request.
                let _ = poster.post(request, Box::new(ProcessIsFree));
            }
        }
        number
    }

    /// Refuses requests instead of letting them wait for a first process: none is to come before
    /// the application was corrected, or it is not known yet how to call the application.
    pub fn refuse_until_loaded(&self) {
        self.queue.refuse_until_loaded();
    }

    /// Stops sending requests to a process.
    pub fn retire_process(&self, number: u64) {
        self.queue.retire_process(number);
    }

    /// Returns whether a process has requests, or may get some: not for long once it is retired.
    #[must_use]
    pub fn has_process(&self, number: u64) -> bool {
        self.queue.has_process(number)
    }
}

/// The load of an application, in figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppFigures {
    /// Requests that wait for a process.
    pub waiting: usize,
    /// Its processes that have requests, or may get some.
    pub processes: Vec<ProcessFigures>,
}

/// The load of a process of an application, in figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessFigures {
    /// Its number; see [`PythonApp::add_process`].
    pub number: u64,
    /// Requests that it has.
    pub requests: usize,
    /// Requests that it has had.
    pub served: u64,
    /// Whether it does nothing any more: all threads hang, or the event loop is blocked.
    pub is_stuck: bool,
}

/// A process of an application.
#[derive(Clone, Debug)]
pub(super) struct AppProcess {
    pub(super) app: Arc<PythonApp>,
    /// The number of the process.
    pub(super) number: u64,
}
