//! Requests whose response takes time: from the scripts of sites, between the steps of a request
//! and the runtime, and from the streams that reload pages of a developer.

mod failure_page;

use super::dev::Developer;
use super::dev::reload_streams::ReloadStreams;
use super::request_log::{DeferredRecord, RequestLog};
use super::site_generation::Generation;
use pinion_engine::app::{ByteStreamEvent, Event, Message};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::clock::Now;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::AddressMap;
use pinion_http::error_page::{self, ErrorFormat};
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::method::Method;
use pinion_http::prepared_response::Prepared;
use pinion_http::request_head::RequestHead;
use pinion_lua::router::Match;
use pinion_lua::script_load_error::ScriptProblem;
use pinion_lua::worker_scripts::{Offer, Outlet, RequestOutcome, Scripts, SiteScript};
use pinion_site::{
    RequestBuffers, error_for, error_in_format_for, error_page_at, field_rules_path, options_for,
    script_fields,
};
use std::sync::Arc;

use failure_page::{FailedRequest, FailurePageInputs, failure_format, respond_to_failure};

/// The script of a site, as one worker runs it.
#[derive(Clone)]
pub(crate) struct Scripted {
    /// `None` where it could not be started here.
    script: Option<SiteScript>,
    /// Lines of the fields that its responses have unless it sets them, without the rules for a
    /// path.
    defaults: Arc<[u8]>,
    /// Its site, as it was when the script began: it has the pages for errors.
    generation: Arc<Generation>,
}

/// All scripts in one worker.
pub(crate) struct Dynamic {
    scripts: Scripts,
    /// The streams of pages that reload.
    pub(crate) streams: ReloadStreams,
    /// Requests that wait for something.
    waiting: AddressMap<SuspendedRequest>,
    /// Buffers for responses in place of a script's, once there was one.
    work: Option<Box<RequestBuffers>>,
}

/// A request that continues later.
struct SuspendedRequest {
    scripted: Scripted,
    fields: RequestFields,
    /// The part of its log record that is known already.
    record: Option<DeferredRecord>,
    is_head: bool,
    error_format: ErrorFormat,
    developer: Option<Developer>,
}

/// The field rules of a site that apply to a request.
struct RequestFields {
    /// The path that they are about; `None` without such rules.
    path: Option<Box<[u8]>>,
    /// Lines of the fields that the response has unless the script sets them.
    defaults: Arc<[u8]>,
}

impl Scripted {
    fn of(script: Option<SiteScript>, generation: &Arc<Generation>) -> Self {
        let defaults = Arc::clone(generation.generated_fields());
        Self { script, defaults, generation: Arc::clone(generation) }
    }

    /// Makes the state of a script that could not be started, where there is none before it.
    pub(crate) fn broken(generation: &Arc<Generation>) -> Self {
        Self::of(None, generation)
    }

    /// Returns whether it could not be started.
    pub(crate) fn is_broken(&self) -> bool {
        self.script.is_none()
    }
}

impl Dynamic {
    /// Starts without any script yet.
    pub(crate) fn new(scripts: Scripts, streams: ReloadStreams) -> Self {
        Self { scripts, streams, waiting: AddressMap::default(), work: None }
    }

    /// Starts the script of a generation, if it has one.
    ///
    /// # Errors
    /// The script does not start here. It has been proven, so the cause is the state of this
    /// worker, or this machine.
    pub(crate) fn load(
        &mut self,
        generation: &Arc<Generation>,
        now: Now,
    ) -> Result<Option<Scripted>, ScriptProblem> {
        let Some(program) = generation.program() else { return Ok(None) };
        let script = self.scripts.start(program, generation.site(), now)?;
        Ok(Some(Scripted::of(Some(script), generation)))
    }

    /// Retires the script of a generation that is no longer served.
    pub(crate) fn retire(&mut self, scripted: &Scripted) {
        if let Some(script) = &scripted.script {
            self.scripts.retire(script);
        }
    }

    /// Does the background work that is due.
    #[inline]
    pub(crate) fn pass(&mut self, connections: &mut Connections<'_>) {
        self.scripts.pass(connections);
    }

    /// Handles an event on a connection that was opened for a script.
    pub(crate) fn byte_stream_event(
        &mut self,
        event: &ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
    ) {
        self.scripts.byte_stream_event(event, stream);
        self.scripts.flush(&mut stream.connections());
    }

    /// Does the operations on connections that scripts have requested.
    #[inline]
    pub(crate) fn flush(&mut self, connections: &mut Connections<'_>) {
        self.scripts.flush(connections);
    }

    /// Returns the time when work is due.
    #[inline]
    pub(crate) fn alarm_ms(&self) -> Option<u64> {
        self.scripts.alarm_ms()
    }

    /// Stops with the server: repeated work does not begin again.
    pub(crate) fn stop(&mut self) {
        self.scripts.stop();
    }

    /// Returns whether background work has not come to its end.
    pub(crate) fn is_busy(&self) -> bool {
        self.scripts.is_busy()
    }

    /// Delivers a message that was posted to this worker.
    pub(crate) fn posted(&mut self, message: Message, connections: &mut Connections<'_>) {
        self.scripts.posted(message, connections);
    }

    /// Returns the offer of the script of a site for a request.
    #[inline]
    pub(crate) fn offer(&mut self, scripted: &Scripted, head: &RequestHead<'_>) -> Offer {
        match &scripted.script {
            Some(script) => self.scripts.offer(script, head),
            None => Offer::Nothing,
        }
    }

    /// Starts a handler for a request.
    pub(crate) fn begin(
        &mut self,
        scripted: &Scripted,
        found: Option<Match>,
        head: &RequestHead<'_>,
        (client, developer): (&ClientIdentity, Option<Developer>),
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) {
        let Some(script) = &scripted.script else { return };
        if head.is_untyped_query() {
            return self.untyped_query(scripted, head, (client, developer), request_log, exchange);
        }
        let record = request_log.begin_deferred(head, client, scripted.generation.log(), exchange);
        let page_end = developer.map(Developer::page_end).unwrap_or_default();
        let fields = self.fields_for(scripted, head);
        let mut outlet = Outlet { exchange, defaults: &fields.defaults, page_end: &page_end };
        let outcome = self.scripts.begin(script, found, head, client, &mut outlet);
        let is_head = head.method == Method::Head;
        let error_format = failure_format(head, developer);
        match outcome {
            RequestOutcome::Waits => {
                let scripted = scripted.clone();
                let waiting =
                    SuspendedRequest { scripted, fields, record, is_head, error_format, developer };
                self.waiting.insert(exchange.address(), waiting);
            }
            RequestOutcome::Answered { status, body_bytes } => {
                let body_bytes = if is_head { 0 } else { body_bytes };
                request_log.record_deferred(record, status, body_bytes, exchange);
            }
            RequestOutcome::Failed(failure) => {
                let asked =
                    FailurePageInputs { path: fields.path.as_deref(), error_format, developer };
                let request = FailedRequest { record, is_head, request_log, exchange };
                let generation = &scripted.generation;
                respond_to_failure(&failure, generation, asked, &mut self.work, request);
            }
            RequestOutcome::NotOurs | RequestOutcome::Gone => {}
        }
    }

    /// Refuses a QUERY without a Content-Type.
    #[cold]
    fn untyped_query(
        &mut self,
        scripted: &Scripted,
        head: &RequestHead<'_>,
        (client, developer): (&ClientIdentity, Option<Developer>),
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) {
        let Scripted { generation, .. } = scripted;
        let (archive, work) = (generation.archive(), self.work.get_or_insert_default());
        let error_format = failure_format(head, developer);
        let response = error_in_format_for(400, error_format, &archive, head, work)
            .with_built_in_page(error_page::untyped_query_page(error_format));
        let began =
            request_log.begin(client, exchange).map(|began| began.of_site(generation.log()));
        request_log.respond(&response, None, began, head, exchange);
    }

    /// Looks up the rules for the path of a request.
    #[inline]
    fn fields_for(&mut self, scripted: &Scripted, head: &RequestHead<'_>) -> RequestFields {
        let archive = &scripted.generation.archive();
        let path = field_rules_path(archive, head);
        let defaults = match &path {
            Some(path) => script_fields(archive, path, self.work.get_or_insert_default()).into(),
            None => Arc::clone(&scripted.defaults),
        };
        RequestFields { path, defaults }
    }

    /// Handles an event of a request that waits.
    #[cold]
    pub(crate) fn event(
        &mut self,
        event: &Event<'_>,
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) {
        if self.streams.event(event, request_log, exchange) {
            return;
        }
        let address = exchange.address();
        let Some(waiting) = self.waiting.get(&address) else { return };
        let defaults = Arc::clone(&waiting.fields.defaults);
        let page_end = waiting.developer.map(Developer::page_end).unwrap_or_default();
        let mut outlet = Outlet { exchange, defaults: &defaults, page_end: &page_end };
        let outcome = self.scripts.event(event, &mut outlet);
        if matches!(outcome, RequestOutcome::Waits) {
            return;
        }
        let Some(waiting) = self.waiting.remove(&address) else { return };
        match outcome {
            RequestOutcome::Answered { status, body_bytes } => {
                let body_bytes = if waiting.is_head { 0 } else { body_bytes };
                request_log.record_deferred(waiting.record, status, body_bytes, exchange);
            }
            RequestOutcome::Failed(failure) => {
                let SuspendedRequest {
                    scripted,
                    fields,
                    record,
                    is_head,
                    error_format,
                    developer,
                    ..
                } = waiting;
                let asked =
                    FailurePageInputs { path: fields.path.as_deref(), error_format, developer };
                let request = FailedRequest { record, is_head, request_log, exchange };
                let generation = &scripted.generation;
                respond_to_failure(&failure, generation, asked, &mut self.work, request);
            }
            RequestOutcome::Gone => {
                if let Event::Refused(refusal) = event {
                    self.refused(waiting, refusal.status(), request_log, exchange);
                }
            }
            RequestOutcome::NotOurs | RequestOutcome::Waits => {}
        }
    }

    /// Responds to a request whose content was refused: its handler is over.
    #[cold]
    fn refused(
        &mut self,
        waiting: SuspendedRequest,
        status: u16,
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) {
        let SuspendedRequest { scripted, fields, record, is_head, error_format, .. } = waiting;
        let archive = &scripted.generation.archive();
        let path = fields.path.as_deref();
        let work = self.work.get_or_insert_default();
        let page = error_page_at(path, status, error_format, archive, work).prepared;
        request_log.respond_deferred(&page, record, is_head, exchange);
    }

    /// Responds by the script when the archive has only the page for missing resources. Returns
    /// true if the script, or its routes, have responded.
    #[cold]
    pub(crate) fn missed(
        &mut self,
        scripted: &Scripted,
        offer: Offer,
        head: &RequestHead<'_>,
        (client, developer): (&ClientIdentity, Option<Developer>),
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) -> bool {
        let allow;
        let archive = &scripted.generation.archive();
        let (work, scripts) = (&mut self.work, &scripted.script);
        let response = match (offer, scripts) {
            (Offer::Methods(mut methods), _) => {
                // Either a handler of its own, or the server.
                if !methods.iter().any(|method| method == "OPTIONS") {
                    methods.push("OPTIONS".to_owned());
                }
                allow = methods.join(", ");
                let work = work.get_or_insert_default();
                let response = match head.method {
                    Method::Options => options_for(archive, head, work),
                    _ => error_for(405, archive, head, work),
                };
                Prepared { allow: Some(allow.as_bytes()), ..response }
            }
            (_, Some(script)) if script.has_not_found() => {
                self.begin(scripted, None, head, (client, developer), request_log, exchange);
                return true;
            }
            (_, Some(_)) => return false,
            // A script that could not be started has no routes: it is unknown whether this path is
            // one.
            (_, None) => error_for(500, archive, head, work.get_or_insert_default()),
        };
        let log = scripted.generation.log();
        let began = request_log.begin(client, exchange).map(|began| began.of_site(log));
        let mut send = |response: &Prepared<'_>| {
            request_log.respond(response, None, began, head, exchange);
        };
        match developer {
            Some(developer) => developer.adapt(&response, send),
            None => send(&response),
        }
        true
    }
}
