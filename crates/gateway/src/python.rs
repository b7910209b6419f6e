//! The requests of one worker that Python applications respond to: WSGI (PEP 3333) and ASGI 3.
//!
//! The application begins a request with [`Python::begin`], and gives it the events of its exchange
//! ([`Python::event`]) and those of connections to processes ([`Python::byte_stream_event`]). At
//! the end of each pass of the worker it calls [`Python::flush`].
//!
//! Each worker has a connection to each process that it has used. Requests that come in the same
//! pass go to a process in one frame ([`pinion_http::python`]), and so do those whose turn comes by
//! responses of the same pass.
//!
//! | Module | Task |
//! |---|---|
//! | [`python_app`] | the application of a mount |
//! | [`python_failure`] | why a request has no response, and the status for that |
//! | `process_request_queue` | how many requests each process has, and which requests wait |
//! | `process_assignment` | which process a request goes to, and when its place is free again |
//! | `process_link` | the connection to a process |
//! | `file_descriptor_channel`, `sent_file` | files that processes open and this server sends |
//! | `process_messages` | frames of processes, their ends, requests that they cannot begin |
//! | `stuck_processes` | processes that do nothing any more |
//! | `python_request` | one request: content to the process, the response to the client |
//! | `websockets`, `open_websocket` | requests for WebSockets, and accepted WebSockets |
//! | `python_environ` | the environ of a request for a WSGI application |
//! | `python_scope` | the scope of a request for an ASGI application |
//! | `fuzz_properties` | the properties of both for any request: for tests and the fuzzer |
//! | [`limits`] | every limit with its reason |

mod file_descriptor_channel;
#[cfg(any(test, fuzzing))]
pub mod fuzz_properties;
pub mod limits;
mod open_websocket;
mod process_assignment;
mod process_link;
mod process_messages;
mod process_request_queue;
pub mod python_app;
mod python_environ;
pub mod python_failure;
mod python_request;
mod python_scope;
mod sent_file;
mod stuck_processes;
mod websockets;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use pinion_engine::Poster;
use pinion_engine::app::Event;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::{Address, AddressMap};
use pinion_http::cgi::variables::VariableScratch;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::h1::head_parser::HeadStorage;
use pinion_http::method::Method;
use pinion_http::python::frame_writer::write_stack;
use pinion_http::refusal::Refusal;
use pinion_http::request_head::RequestHead;
use rustc_hash::FxHashMap;

use crate::limits::{PYTHON_TAG, REQUEST_PIECE_BYTES};
use crate::proxy::{Ended, UploadQuotas};
use crate::proxy_error::ProxyError;
use limits::QUEUE_TIMEOUT_MS;
use process_assignment::ProcessIsFree;
use process_link::ProcessLink;
use python_app::PythonApp;
use python_failure::PythonFailure;
use python_request::{PythonRequest, RequestStage};
use sent_file::SentFiles;
use websockets::{WebSockets, websocket_request};

/// The requests of one worker that Python applications respond to.
pub struct Python {
    poster: Poster,
    uploads: UploadQuotas,
    requests: AddressMap<PythonRequest>,
    /// The connections to processes, by the numbers in their tags.
    links: FxHashMap<u64, ProcessLink>,
    /// The number of the connection to a process, by the number of the process.
    numbers: FxHashMap<u64, u64>,
    last_number: u64,
    websockets: WebSockets,
    files: SentFiles,
    /// Connections with requests that were not sent yet.
    unsent: Vec<u64>,
    /// Requests of this worker that a process has time for now.
    turns: Vec<Address>,
    storage: HeadStorage,
    scratch: VariableScratch,
    /// Memory for frames.
    frames: Vec<u8>,
    /// The time of the next search for requests that no process has started, in monotonic
    /// milliseconds.
    check_ms: Option<u64>,
    /// Connections to processes whose event loops were asked, and the times when they must have
    /// answered.
    blocked_checks: VecDeque<(u64, u64)>,
    is_stopping: bool,
}

impl Python {
    /// Makes one for a worker, whose connections have [`PYTHON_TAG`].
    #[must_use]
    pub fn new(uploads: UploadQuotas, poster: Poster) -> Self {
        Self {
            poster,
            uploads,
            requests: AddressMap::default(),
            links: FxHashMap::default(),
            numbers: FxHashMap::default(),
            last_number: 0,
            websockets: WebSockets::default(),
            files: SentFiles::default(),
            unsent: Vec::new(),
            turns: Vec::new(),
            storage: HeadStorage::new(),
            scratch: VariableScratch::default(),
            frames: Vec::new(),
            check_ms: None,
            blocked_checks: VecDeque::new(),
            is_stopping: false,
        }
    }

    /// Returns whether a connection with this tag is one to a process.
    #[must_use]
    pub fn is_of_process(tag: u64) -> bool {
        tag >> PYTHON_TAG.trailing_zeros() == 1
    }

    /// Begins a request. `defaults` are whole lines of fields that its response has unless the
    /// application sets them.
    ///
    /// # Errors
    /// The application does not get the request. The caller responds.
    pub fn begin(
        &mut self,
        app: &Arc<PythonApp>,
        defaults: &Arc<[u8]>,
        (client, head): (&ClientIdentity, &RequestHead<'_>),
        exchange: &mut Exchange<'_>,
    ) -> Result<(), ProxyError> {
        let websocket = websocket_request(app, head, exchange)?;
        if websocket.is_none() && matches!(head.method, Method::Connect | Method::Trace) {
            return Err(ProxyError::Method);
        }
        let (uploads, scratch) = (&self.uploads, &mut self.scratch);
        let request =
            PythonRequest::new(app, defaults, client, (head, websocket), uploads, scratch)?;
        let address = exchange.address();
        exchange.wait(None);
        exchange.body_limit(request.content_max_bytes());
        let is_storing = request.stage == RequestStage::Storing;
        let prefetched_bytes = request.prefetched_bytes();
        self.requests.insert(address, request);
        if is_storing {
            exchange.want(REQUEST_PIECE_BYTES);
            return Ok(());
        }
        if prefetched_bytes > 0 {
            exchange.want(prefetched_bytes);
        }
        let entered = self.enter(address, exchange);
        entered.inspect_err(|_| drop(self.requests.remove(&address)))
    }

    /// Returns whether an application responds to an exchange.
    #[must_use]
    pub fn has(&self, address: Address) -> bool {
        self.requests.contains_key(&address) || self.websockets.has_stream(address)
    }

    /// Handles an event of an exchange. Returns how its request has ended, if it has.
    pub fn event(&mut self, event: &Event<'_>, exchange: &mut Exchange<'_>) -> Option<Ended> {
        if self.websocket_stream_event(event, exchange) {
            return None;
        }
        let address = exchange.address();
        let request = self.requests.get_mut(&address)?;
        let is_storing = request.stage == RequestStage::Storing;
        let now_ms = exchange.now().monotonic_ms;
        match event {
            Event::Body(bytes) if is_storing => {
                exchange.want(bytes.len() as u64);
                let stored = request.store(bytes, &self.uploads);
                stored.err().map(|error| self.failed(address, error, exchange))
            }
            Event::BodyEnd(_) if is_storing => {
                let entered = match request.finish_storing() {
                    Ok(()) => self.enter(address, exchange),
                    Err(error) => Err(error),
                };
                entered.err().map(|error| self.failed(address, error, exchange))
            }
            Event::Body(bytes) => {
                if request.stage != RequestStage::Waiting {
                    request.due_ms = now_ms + request.app.timeout_ms;
                }
                request.add_content(bytes);
                self.send_content(address, exchange);
                None
            }
            Event::BodyEnd(_) if request.websocket.is_some() => {
                request.end_websocket_input();
                None
            }
            Event::BodyEnd(_) => {
                request.end_content();
                self.send_content(address, exchange);
                None
            }
            Event::Writable => {
                request.due_ms = now_ms + request.app.timeout_ms;
                let room = request.room_after_writing();
                self.send_room(address, room, exchange);
                None
            }
            Event::Posted(message) if message.is::<ProcessIsFree>() => {
                self.turn(address, exchange);
                None
            }
            Event::Deadline => self.deadline(address, exchange),
            Event::Refused(Refusal::ContentTooLarge) if is_storing && request.lacks_length => {
                Some(self.failed(address, ProxyError::LengthRequired, exchange))
            }
            Event::Refused(_) | Event::Gone(_) => Some(self.left(address, exchange)),
            // A client that ends its side has left, as far as other servers are concerned, too.
            Event::InputEnd => {
                exchange.abort();
                Some(self.left(address, exchange))
            }
            Event::Head(_) | Event::Posted(_) | Event::Stopping => None,
        }
    }

    /// Returns whether [`Self::flush`] has something to do.
    #[inline]
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.unsent.is_empty()
            || !self.turns.is_empty()
            || self.is_stopping && self.links.values().any(ProcessLink::is_idle)
    }

    /// Returns the time when [`Self::pass`] has something to do, in monotonic milliseconds.
    #[inline]
    #[must_use]
    pub fn alarm_ms(&self) -> Option<u64> {
        if self.has_work() {
            return Some(0);
        }
        let checks = self.check_ms.into_iter().chain(self.blocked_check_ms());
        checks.chain(self.websockets.alarm_ms()).min()
    }

    /// Stops with the server: each connection to a process ends with its last request.
    pub fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Sends requests to the processes.
    pub fn flush(
        &mut self,
        connections: &mut Connections<'_>,
        mut ended: impl FnMut(Ended, &mut Exchange<'_>),
    ) {
        while !self.turns.is_empty() || !self.unsent.is_empty() {
            for address in std::mem::take(&mut self.turns) {
                // Without an exchange its last event is on the way, and passes the turn on.
                if let Some(mut exchange) = connections.exchange(address) {
                    self.turn(address, &mut exchange);
                }
            }
            for number in std::mem::take(&mut self.unsent) {
                self.send(number, connections, &mut ended);
            }
        }
        if self.is_stopping {
            self.links.retain(|_, link| {
                let is_needed = !link.is_idle();
                if !is_needed {
                    link.close(connections);
                }
                is_needed
            });
            let links = &self.links;
            self.numbers.retain(|_, number| links.contains_key(number));
        }
    }

    /// Sends the requests of a connection.
    fn send(
        &mut self,
        number: u64,
        connections: &mut Connections<'_>,
        ended: &mut impl FnMut(Ended, &mut Exchange<'_>),
    ) {
        let Some(link) = self.links.get_mut(&number) else { return };
        let process = link.process.clone();
        match link.send(&mut self.requests, connections, number) {
            Ok(refused) => {
                if !process.app.is_asgi() {
                    let check_ms = connections.now().monotonic_ms + limits::START_MS;
                    self.check_ms.get_or_insert(check_ms);
                }
                for (known, error) in refused {
                    self.release(&process.app, process.number, None);
                    let Some(address) = known.exchange else { continue };
                    let Some(mut exchange) = connections.exchange(address) else { continue };
                    self.requests.remove(&address);
                    ended(Ended::Failed(error), &mut exchange);
                }
            }
            Err(failure) => self.lost(number, &failure, connections, ended),
        }
    }

    /// Handles a passed deadline: the event that an exchange waits for has not come in time.
    fn deadline(&mut self, address: Address, exchange: &mut Exchange<'_>) -> Option<Ended> {
        let now_ms = exchange.now().monotonic_ms;
        let request = self.requests.get_mut(&address)?;
        if request.stage == RequestStage::Storing {
            return None;
        }
        if now_ms < request.due_ms {
            // Something has come meanwhile.
            exchange.wait(Some(request.due_ms - now_ms));
            return None;
        }
        if request.stage == RequestStage::Waiting {
            if let Some(process) = request.app.queue.take(address) {
                // The message about it is late.
                self.start(address, process, exchange);
                return None;
            }
            let failure = PythonFailure::QueueTimeout { seconds: QUEUE_TIMEOUT_MS / 1000 };
            let error = request.error(failure);
            return Some(self.failed(address, error, exchange));
        }
        if request.waits_for_client() {
            // It is the client that does nothing, which the engine watches.
            request.due_ms = now_ms + request.app.timeout_ms;
            exchange.wait(Some(request.app.timeout_ms));
            return None;
        }
        let failure = PythonFailure::Silent { seconds: request.app.timeout_ms / 1000 };
        if self.is_sent(address) {
            self.send_frame(address, exchange, |number, out| write_stack(out, number));
            self.note_overdue(address, exchange);
        }
        self.give_up(address, exchange);
        let request = self.requests.remove(&address)?;
        Some(request.failed(failure, exchange))
    }

    /// Ends a request that has failed before its process had it, or that the process has finished
    /// with.
    fn failed(
        &mut self,
        address: Address,
        error: ProxyError,
        exchange: &mut Exchange<'_>,
    ) -> Ended {
        self.give_up(address, exchange);
        self.requests.remove(&address);
        Ended::Failed(error)
    }

    /// Ends the request of an exchange whose client has left.
    fn left(&mut self, address: Address, exchange: &mut Exchange<'_>) -> Ended {
        self.give_up(address, exchange);
        let request = self.requests.remove(&address);
        let (status, body_bytes) =
            request.map_or((None, 0), |request| (request.status, request.body_bytes));
        Ended::Gone { status, body_bytes }
    }
}

/// A worker that ends in a panic leaves its places to the others.
impl Drop for Python {
    fn drop(&mut self) {
        for (address, request) in std::mem::take(&mut self.requests) {
            if request.stage == RequestStage::Waiting
                && let Some(process) = request.app.queue.take(address)
            {
                self.release(&request.app, process, None);
            }
        }
        for link in std::mem::take(&mut self.links).into_values() {
            for _ in &link.requests {
                self.release(&link.process.app, link.process.number, None);
            }
        }
    }
}

impl fmt::Debug for Python {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Python").field("requests", &self.requests).finish_non_exhaustive()
    }
}
