//! The requests of one worker that CGI scripts respond to (CGI/1.1, RFC 3875).
//!
//! The application begins a request with [`Cgi::begin`], and gives it the events of its exchange
//! ([`Cgi::event`]) and those of streams of scripts ([`Cgi::byte_stream_event`]). After each of
//! these it calls [`Cgi::flush`]. The spawner starts the scripts, each for one request.
//!
//! The end of the output ends the response, as with other servers. A script that closes its output
//! may go on until its time is over, and counts as one that runs. Processes that a script has
//! started end with it: the spawner kills the remaining ones, so that a process which keeps the
//! output open keeps no client waiting.
//!
//! | Module | Task |
//! |---|---|
//! | [`cgi_scripts`] | the scripts of a mount, and their limits |
//! | [`cgi_failure`] | why a request has no response, and the status for that |
//! | `script_search` | which script responds to a path |
//! | `script_variables` | the environment of a script |
//! | `script_queue` | how many scripts run, and which requests wait |
//! | `running_scripts` | the scripts that run, also without a client |
//! | `script_request` | one request: content to the script, output to the client |
//! | `script_output` | output of a script as a response |
//! | `client_response` | the response as it is sent |

pub mod cgi_failure;
pub mod cgi_scripts;
mod client_response;
mod running_scripts;
mod script_output;
mod script_queue;
mod script_request;
mod script_search;
mod script_variables;

use std::fmt;
use std::sync::Arc;

use pinion_engine::Poster;
use pinion_engine::app::{ByteStreamEvent, Event};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::{Address, AddressMap};
use pinion_http::cgi::variables::VariableScratch;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::h1::head_parser::HeadStorage;
use pinion_http::method::Method;
use pinion_http::refusal::Refusal;
use pinion_http::request_head::RequestHead;
use pinion_programs::program_run::{RunRequest, ScriptStart};
use pinion_programs::spawner_access::SpawnerAccess;

use crate::limits::{CGI_QUEUE_TIMEOUT_MS, CGI_TAG, LOCAL_REDIRECTS_MAX, REQUEST_PIECE_BYTES};
use crate::proxy::UploadQuotas;
use crate::stored_content::StoredContent;
use crate::x_sendfile::FileResponse;
use cgi_failure::CgiFailure;
use cgi_scripts::CgiScripts;
use running_scripts::{RunningScripts, ScriptMayStart};
pub use script_output::OutputError;
use script_queue::QueueEntry;
use script_request::{RequestStage, ScriptEnd, ScriptRequest};
pub use script_search::located_script;
use script_search::script_target;
use script_variables::script_variables;

/// The requests of one worker that CGI scripts respond to.
pub struct Cgi {
    running: RunningScripts,
    uploads: UploadQuotas,
    requests: AddressMap<ScriptRequest>,
    storage: HeadStorage,
    scratch: VariableScratch,
}

/// The way in which a request has ended.
#[derive(Debug, PartialEq)]
pub enum CgiEnded {
    /// Its response was handed on.
    Answered {
        /// The status code.
        status: u16,
        /// Bytes of content.
        body_bytes: u64,
    },
    /// Its response is that to a GET for another path (RFC 3875 §6.2.2). The application responds
    /// to that, with one redirect more than before.
    LocalRedirect {
        /// The path and the query.
        target: Box<[u8]>,
    },
    /// A file is sent in place of the content of the response. The application does that.
    File(Box<FileResponse>),
    /// There is no response. The application sends one for the failure.
    Failed(CgiFailure),
    /// The script has failed in the middle of its response. The part that the client has does not
    /// look like a whole response.
    Aborted {
        /// The status code.
        status: u16,
        /// Bytes of content.
        body_bytes: u64,
        /// The failure.
        error: CgiFailure,
    },
    /// The client has left, or its request was refused.
    Gone {
        /// The status code, if the head of the response was sent.
        status: Option<u16>,
        /// Bytes of content that were sent.
        body_bytes: u64,
    },
}

impl Cgi {
    /// Makes one for a worker, whose streams have [`CGI_TAG`].
    #[must_use]
    pub fn new(access: SpawnerAccess, uploads: UploadQuotas, poster: Poster) -> Self {
        Self {
            running: RunningScripts::new(access, poster),
            uploads,
            requests: AddressMap::default(),
            storage: HeadStorage::new(),
            scratch: VariableScratch::default(),
        }
    }

    /// Returns whether a stream with this tag is one of a script.
    #[must_use]
    pub fn is_of_script(tag: u64) -> bool {
        tag >> CGI_TAG.trailing_zeros() == 1
    }

    /// Begins a request. `defaults` are whole lines of fields that its response has unless the
    /// script sets them; `redirects` is how many local redirects have led to it.
    ///
    /// # Errors
    /// No script responds. The application responds.
    pub fn begin(
        &mut self,
        scripts: &Arc<CgiScripts>,
        defaults: &Arc<[u8]>,
        (client, head): (&ClientIdentity, &RequestHead<'_>),
        redirects: u32,
        exchange: &mut Exchange<'_>,
    ) -> Result<(), CgiFailure> {
        if redirects > LOCAL_REDIRECTS_MAX {
            return Err(CgiFailure::Redirects);
        }
        if matches!(head.method, Method::Connect | Method::Trace) || head.protocol.is_some() {
            return Err(CgiFailure::Method);
        }
        let target = script_target(scripts, head.target.path)?;
        if scripts.row.get().is_none() {
            return Err(CgiFailure::NoRow);
        }
        let variables = script_variables(scripts, &target, head, client, &mut self.scratch);
        let variables = variables.map_err(CgiFailure::Variables)?;
        let stored_max_bytes = scripts.stored_max_bytes_of(head.framing);
        let is_stored = stored_max_bytes.is_some();
        let stored = is_stored.then(|| StoredContent::new(&self.uploads));
        let request = ScriptRequest::new(scripts, defaults, head, (target, variables), stored);
        let address = exchange.address();
        exchange.wait(None);
        // The script decides how much it takes, unless the content is stored.
        exchange.body_limit(stored_max_bytes.unwrap_or(u64::MAX));
        self.requests.insert(address, request);
        if is_stored {
            exchange.want(REQUEST_PIECE_BYTES);
            return Ok(());
        }
        let entered = self.enter(address, exchange);
        entered.inspect_err(|_| drop(self.requests.remove(&address)))
    }

    /// Handles an event of an exchange. Returns how its request has ended, if it has; `None` also
    /// for an exchange of another request.
    pub fn event(&mut self, event: &Event<'_>, exchange: &mut Exchange<'_>) -> Option<CgiEnded> {
        let address = exchange.address();
        let request = self.requests.get_mut(&address)?;
        let is_storing = request.stage == RequestStage::Storing;
        let now_ms = exchange.now().monotonic_ms;
        let ended = match event {
            Event::Body(bytes) if is_storing => {
                exchange.want(bytes.len() as u64);
                let stored = request.store(bytes, &self.uploads);
                stored.err().map(|failure| self.failed(address, failure))
            }
            Event::BodyEnd(_) if is_storing => {
                let entered = match request.finish_storing() {
                    Ok(()) => self.enter(address, exchange),
                    Err(failure) => Err(failure),
                };
                entered.err().map(|failure| self.failed(address, failure))
            }
            Event::Body(bytes) => {
                request.wanted_bytes = request.wanted_bytes.saturating_sub(bytes.len() as u64);
                request.due_ms = now_ms + request.scripts.timeout_ms;
                if let RequestStage::Running(id) = request.stage {
                    self.running.runner.write(id, Some(bytes));
                }
                self.go_on(address, exchange)
            }
            Event::BodyEnd(_) => {
                (request.has_all_content, request.wanted_bytes) = (true, 0);
                match request.stage {
                    RequestStage::Running(id) => self.running.runner.write(id, None),
                    // Nothing was asked for, so there is no content.
                    _ => request.has_content = false,
                }
                None
            }
            Event::Writable => {
                request.response.is_full = false;
                request.due_ms = now_ms + request.scripts.timeout_ms;
                self.go_on(address, exchange)
            }
            Event::Posted(message) if message.is::<ScriptMayStart>() => {
                self.turn(address, exchange)
            }
            Event::Deadline => self.deadline(address, exchange),
            Event::Refused(Refusal::ContentTooLarge) if request.is_measured() => {
                Some(self.failed(address, CgiFailure::LengthRequired))
            }
            Event::Refused(_) | Event::Gone(_) => Some(self.left(address)),
            // A client that ends its side has left, as far as other servers are concerned, too.
            Event::InputEnd => {
                exchange.abort();
                Some(self.left(address))
            }
            Event::Head(_) | Event::Posted(_) | Event::Stopping => None,
        };
        if ended.is_none() {
            self.set_deadline(address, exchange);
        }
        ended
    }

    /// Returns whether a script responds to an exchange.
    #[must_use]
    pub fn has(&self, address: Address) -> bool {
        self.requests.contains_key(&address)
    }

    /// Handles an event on a stream of a script.
    pub fn byte_stream_event(
        &mut self,
        event: &ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
    ) {
        self.running.runner.byte_stream_event(event, stream);
    }

    /// Does the due work. Call it at the top of each pass, and [`Self::flush`] after it.
    pub fn pass(&mut self, connections: &mut Connections<'_>) {
        self.running.pass(connections);
    }

    /// Returns the time when [`Self::pass`] has something to do, in monotonic milliseconds.
    #[must_use]
    pub fn alarm_ms(&self) -> Option<u64> {
        self.running.alarm_ms()
    }

    /// Stops with the server: the connection to the spawner ends with the last script.
    pub fn stop(&mut self) {
        self.running.runner.stop();
    }

    /// Returns whether [`Self::flush`] has something to do.
    #[inline]
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.running.runner.has_work()
    }

    /// Passes on the output of scripts. `ended` is called for each request that this ends, with its
    /// exchange.
    pub fn flush(
        &mut self,
        connections: &mut Connections<'_>,
        mut ended: impl FnMut(CgiEnded, &mut Exchange<'_>),
    ) {
        while self.running.runner.has_work() {
            self.running.runner.flush(connections);
            while let Some(address) = self.running.next_exchange() {
                // Without an exchange its last event is on the way.
                let Some(mut exchange) = connections.exchange(address) else { continue };
                match self.go_on(address, &mut exchange) {
                    Some(end) => ended(end, &mut exchange),
                    None => self.set_deadline(address, &mut exchange),
                }
            }
        }
    }

    /// Continues an exchange in both directions, as far as there is room.
    fn go_on(&mut self, address: Address, exchange: &mut Exchange<'_>) -> Option<CgiEnded> {
        let Self { running: RunningScripts { runner, .. }, requests, storage, .. } = self;
        let request = requests.get_mut(&address)?;
        let RequestStage::Running(id) = request.stage else { return None };
        let (ended, end) = match request.give_content(runner, id, exchange) {
            Ok(()) => request.respond(runner, id, storage, exchange)?,
            Err(error) => {
                let failure = CgiFailure::Stored(error.to_string().into());
                (request.failed(failure, exchange), ScriptEnd::Stopped)
            }
        };
        self.forget(address, end);
        Some(ended)
    }

    /// Starts the script of a request, or lets the request wait.
    fn enter(&mut self, address: Address, exchange: &mut Exchange<'_>) -> Result<(), CgiFailure> {
        let Some(request) = self.requests.get_mut(&address) else { return Ok(()) };
        match request.scripts.queue.enter(address) {
            QueueEntry::Run => self.start(address, exchange),
            QueueEntry::Waits => {
                request.due_ms = exchange.now().monotonic_ms + CGI_QUEUE_TIMEOUT_MS;
                exchange.wait(Some(CGI_QUEUE_TIMEOUT_MS));
                Ok(())
            }
            QueueEntry::Full => {
                Err(CgiFailure::Busy { running_max: request.scripts.queue.running_max() })
            }
        }
    }

    /// Starts the script of a request that has waited, since it may run now.
    fn turn(&mut self, address: Address, exchange: &mut Exchange<'_>) -> Option<CgiEnded> {
        let request = self.requests.get(&address)?;
        if request.stage != RequestStage::Waiting || !request.scripts.queue.take(address) {
            return None;
        }
        let started = self.start(address, exchange);
        started.err().map(|failure| self.fail_started(address, failure))
    }

    /// Starts the script of a request, which has a permit of the queue.
    fn start(&mut self, address: Address, exchange: &mut Exchange<'_>) -> Result<(), CgiFailure> {
        let now_ms = exchange.now().monotonic_ms;
        let Some(request) = self.requests.get_mut(&address) else { return Ok(()) };
        let scripts = Arc::clone(&request.scripts);
        let variables = std::mem::take(&mut request.variables);
        let run = RunRequest {
            // It was looked at when the request began.
            start: scripts.row.get().copied().unwrap_or(u16::MAX),
            arguments: Vec::new(),
            has_input: request.has_content,
            timeout_ms: scripts.total_timeout_ms,
            script: Some(ScriptStart { path: request.path.clone().into(), variables }),
        };
        match self.running.start(run, &scripts, address, now_ms) {
            Ok(id) => {
                request.stage = RequestStage::Running(id);
                request.due_ms = now_ms + scripts.timeout_ms;
                exchange.wait(Some(scripts.timeout_ms));
                Ok(())
            }
            Err(error) => Err(CgiFailure::of_run(&scripts, &request.path, Arc::new(error))),
        }
    }

    /// Handles a passed deadline: the event that an exchange waits for has not come in time.
    fn deadline(&mut self, address: Address, exchange: &mut Exchange<'_>) -> Option<CgiEnded> {
        let now_ms = exchange.now().monotonic_ms;
        let request = self.requests.get_mut(&address)?;
        if now_ms < request.due_ms || request.stage == RequestStage::Storing {
            return None;
        }
        if request.stage == RequestStage::Waiting {
            if request.scripts.queue.take(address) {
                // The message about it is late.
                let started = self.start(address, exchange);
                return started.err().map(|failure| self.fail_started(address, failure));
            }
            let running_max = request.scripts.queue.running_max();
            self.requests.remove(&address);
            return Some(CgiEnded::Failed(CgiFailure::QueueTimeout { running_max }));
        }
        if request.response.is_full || request.wanted_bytes > 0 {
            // It is the client that does nothing, which the engine watches.
            request.due_ms = now_ms + request.scripts.timeout_ms;
            return None;
        }
        if request.output_end_ms.is_some() {
            return self.go_on(address, exchange);
        }
        let script = request.scripts.shown(&request.path).into();
        let seconds = request.scripts.timeout_ms / 1000;
        let ended = request.failed(CgiFailure::Silent { script, seconds }, exchange);
        self.forget(address, ScriptEnd::Stopped);
        Some(ended)
    }

    /// Sets the deadline at which the engine reports that an exchange has waited for too long.
    fn set_deadline(&self, address: Address, exchange: &mut Exchange<'_>) {
        let Some(request) = self.requests.get(&address) else { return };
        let left_ms = request.due_ms.saturating_sub(exchange.now().monotonic_ms);
        exchange.wait((request.stage != RequestStage::Storing).then_some(left_ms));
    }

    /// Ends a request of an exchange that has failed before its script was started.
    fn failed(&mut self, address: Address, failure: CgiFailure) -> CgiEnded {
        self.forget(address, ScriptEnd::Stopped);
        CgiEnded::Failed(failure)
    }

    /// Ends a request of an exchange whose script could not be started. Its permit is released
    /// already.
    fn fail_started(&mut self, address: Address, failure: CgiFailure) -> CgiEnded {
        self.requests.remove(&address);
        CgiEnded::Failed(failure)
    }

    /// Ends the request of an exchange whose client has left.
    fn left(&mut self, address: Address) -> CgiEnded {
        let response = self.requests.get(&address).map(|request| &request.response);
        let (status, body_bytes) =
            response.map_or((None, 0), |response| (response.status, response.body_bytes));
        self.forget(address, ScriptEnd::Stopped);
        CgiEnded::Gone { status, body_bytes }
    }

    /// Forgets the request of an exchange, which has ended.
    fn forget(&mut self, address: Address, end: ScriptEnd) {
        let Some(request) = self.requests.remove(&address) else { return };
        match request.stage {
            RequestStage::Storing => {}
            RequestStage::Waiting => {
                if request.scripts.queue.take(address) {
                    self.running.release(&request.scripts);
                }
            }
            RequestStage::Running(id) => self.running.end_request(id, end),
        }
    }
}

/// Releases the permits of waiting requests, also when the worker panics.
impl Drop for Cgi {
    fn drop(&mut self) {
        for (address, request) in std::mem::take(&mut self.requests) {
            if request.stage == RequestStage::Waiting && request.scripts.queue.take(address) {
                self.running.release(&request.scripts);
            }
        }
    }
}

impl fmt::Debug for Cgi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cgi").field("requests", &self.requests).finish_non_exhaustive()
    }
}
