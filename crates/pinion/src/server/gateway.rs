//! Requests that other servers respond to, between the steps of a request and the proxy.
//!
//! | Module | Has |
//! |---|---|
//! | `cgi_requests` | requests that CGI scripts respond to |
//! | `python_requests` | requests that Python applications respond to |
//! | `ended_requests` | the ends of requests: access log, pages for errors, redirects |
//! | `sendfile_responses` | the files that responses name |
//! | `failure_log` | the lines of the log about requests that have failed |
//! | `application_stderr_log` | the error streams of applications, in the log |
//! | `log_limits` | the limits of the log lines |

mod application_stderr_log;
mod cgi_requests;
mod ended_requests;
mod failure_log;
mod log_limits;
mod python_requests;
mod sendfile_responses;

use super::access::limits::TUNNEL_RETRY_SECONDS;
use super::access::request_authorization::AccessGate;
use super::mounts::{Mount, MountTarget};
use super::not_found_reason::{RefusalTrace, is_by_rule};
use super::request_log::{DeferredRecord, RequestLog};
use super::site_generation::Generation;
use pinion_archive::Archive;
use pinion_client::resolver::Resolver;
use pinion_engine::Poster;
use pinion_engine::app::{ByteStreamEvent, Event};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::AddressMap;
use pinion_engine::stderr;
use pinion_gateway::cgi::Cgi;
use pinion_gateway::limits::{LOCAL_REDIRECTS_MAX, STORED_UPLOADS_MEMORY_MAX_BYTES, UPSTREAM_TAG};
use pinion_gateway::proxy::{Proxy, ProxySettings, ServerNews, UploadQuotas};
use pinion_gateway::proxy_error::ProxyError;
use pinion_gateway::python::Python;
use pinion_gateway::request_forwarding::asks_for_tunnel;
use pinion_gateway::upstream_group::UpstreamGroup;
use pinion_http::error_page::ErrorFormat;
use pinion_http::field::KnownField;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::method::Method;
use pinion_http::negotiate::preferred_error_format;
use pinion_http::request_head::RequestHead;
use pinion_jobs::byte_quota::ByteQuota;
use pinion_jobs::upload_quota::UploadQuota;
use pinion_programs::spawner_access::SpawnerAccess;
use pinion_site::{RequestBuffers, field_rules_path, script_fields};
use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use application_stderr_log::ApplicationMessageLog;
use cgi_requests::KeptRequest;
pub(crate) use cgi_requests::LocalRedirect;
use failure_log::FailureLog;
use log_limits::TARGET_SHOWN_BYTES;

/// The status in the access log for a request whose client has left before the response, the same
/// as in nginx.
pub(super) const CLIENT_LEFT: u16 = 499;

/// The state that the gateways of all workers share.
#[derive(Clone)]
pub(crate) struct GatewayShared {
    settings: ProxySettings,
    /// Starts CGI scripts.
    programs: SpawnerAccess,
    failures: Arc<FailureLog>,
}

impl GatewayShared {
    /// Makes the shared state. `connections_max` is how many connections to other servers there may
    /// be.
    pub(crate) fn new(
        resolver: Resolver,
        connections_max: usize,
        uploads: Arc<UploadQuota>,
        programs: SpawnerAccess,
    ) -> Self {
        // Two servers with the same name would take their requests for a loop.
        let number = RandomState::new().hash_one(()) >> 32;
        let pseudonym = format!("pinion-{number:08x}").into();
        let memory = Arc::new(ByteQuota::new(STORED_UPLOADS_MEMORY_MAX_BYTES));
        let uploads = UploadQuotas { files: uploads, memory };
        let settings = ProxySettings { resolver, pseudonym, connections_max, uploads };
        Self { settings, programs, failures: Arc::default() }
    }
}

/// The requests of one worker that other servers respond to.
pub(crate) struct Gateway {
    shared: GatewayShared,
    poster: Poster,
    worker: u16,
    /// Made for the first request.
    proxy: Option<Box<Proxy>>,
    /// Made for the first request to a CGI script.
    cgi: Option<Box<Cgi>>,
    /// Made for the first request to a Python application.
    python: Option<Box<Python>>,
    /// Requests that CGI scripts have redirected to another path of this server.
    redirects: VecDeque<LocalRedirect>,
    /// How many local redirects have led to the request that begins.
    redirect_count: u32,
    waiting: AddressMap<OpenRequest>,
    work: Option<Box<RequestBuffers>>,
    messages: ApplicationMessageLog,
    is_stopping: bool,
}

/// A request whose response has not ended.
struct OpenRequest {
    /// That of the site when the request began: it has the pages for errors.
    generation: Arc<Generation>,
    /// The path that rules for fields are about; `None` without such rules.
    rules_path: Option<Box<[u8]>>,
    method: Method,
    /// The path of the mount.
    mount: Arc<str>,
    /// The beginning of the target.
    target: Box<[u8]>,
    record: Option<DeferredRecord>,
    error_format: ErrorFormat,
    /// The request, if something other than the content of the response may respond to it.
    kept: Option<Box<KeptRequest>>,
}

impl Gateway {
    pub(crate) fn new(shared: GatewayShared, worker: u16, poster: Poster) -> Self {
        Self {
            shared,
            poster,
            worker,
            proxy: None,
            cgi: None,
            python: None,
            redirects: VecDeque::new(),
            redirect_count: 0,
            waiting: AddressMap::default(),
            work: None,
            messages: ApplicationMessageLog::default(),
            is_stopping: false,
        }
    }

    /// Returns whether a rule of the site says that the path has no resource. `traced` has the
    /// steps of the look-up that has led to status 404, if they were recorded.
    pub(crate) fn is_refused_by_rule(
        &mut self,
        archive: &Archive<'_>,
        head: &RequestHead<'_>,
        unix_seconds: i64,
        traced: Option<&RefusalTrace>,
    ) -> bool {
        match traced {
            Some(trace) => trace.is_by_rule(),
            None => is_by_rule(archive, head, unix_seconds, self.work.get_or_insert_default()),
        }
    }

    /// Begins to forward a request to the server of a mount. Answers it if that is not possible.
    /// `sent` is its head as the client has sent it, with a password that was checked.
    pub(crate) fn begin(
        &mut self,
        mount: &Mount,
        generation: &Arc<Generation>,
        (head, sent): (&RequestHead<'_>, &RequestHead<'_>),
        client: &ClientIdentity,
        (access, request_log): (&mut AccessGate, &mut RequestLog),
        exchange: &mut Exchange<'_>,
    ) {
        let archive = &generation.archive();
        let rules_path = field_rules_path(archive, head);
        let defaults: Arc<[u8]> = match &rules_path {
            Some(path) => script_fields(archive, path, self.work.get_or_insert_default()).into(),
            None => Arc::clone(generation.generated_fields()),
        };
        let target = head.target.raw.get(..TARGET_SHOWN_BYTES).unwrap_or(head.target.raw);
        let mut waiting = OpenRequest {
            generation: Arc::clone(generation),
            rules_path,
            method: head.method,
            mount: Arc::clone(mount.name()),
            target: target.into(),
            record: request_log.begin_deferred(head, client, generation.log(), exchange),
            error_format: preferred_error_format(head.values(KnownField::Accept)),
            kept: None,
        };
        if mount.is_of_programs() || mount.sent_folders.is_some() {
            waiting.kept = Some(KeptRequest::new(sent, self.redirect_count, mount));
        }
        let has_tunnels = !matches!(mount.target, MountTarget::Scripts(_));
        if has_tunnels
            && asks_for_tunnel(head)
            && let Err(max) = access.count_tunnel(client, exchange)
        {
            exchange.add_fields(format!("Retry-After: {TUNNEL_RETRY_SECONDS}\r\n").as_bytes());
            return self.fail(waiting, &ProxyError::TooManyTunnels { max }, request_log, exchange);
        }
        let upstreams = match &mount.target {
            MountTarget::Servers(upstreams) => upstreams,
            MountTarget::Python(python) => {
                let of_app = (python, &defaults);
                return self.begin_python(waiting, of_app, (client, head), request_log, exchange);
            }
            MountTarget::Store(_) => unreachable!("its pages are sent before"),
            MountTarget::Scripts(cgi) => {
                let scripts = &cgi.scripts;
                return self.begin_cgi(
                    waiting,
                    (scripts, &defaults),
                    (client, head),
                    request_log,
                    exchange,
                );
            }
        };
        if upstreams.options().program.is_some() && self.redirect_count > LOCAL_REDIRECTS_MAX {
            return self.fail(waiting, &ProxyError::LocalRedirects, request_log, exchange);
        }
        match self.proxy().begin(upstreams, &defaults, client, head, exchange) {
            Ok(()) => {
                self.waiting.insert(exchange.address(), waiting);
            }
            Err(error) => self.fail(waiting, &error, request_log, exchange),
        }
    }

    /// Checks the health of these servers from now on, and of no others. The first worker does so
    /// for all.
    pub(crate) fn watch(&mut self, groups: Vec<Arc<UpstreamGroup>>) {
        let is_needed = self.proxy.is_some() || !groups.is_empty();
        if self.worker == 0 && is_needed && !self.is_stopping {
            self.proxy().watch(groups.into_iter());
        }
    }

    /// Returns the proxy, which is made for the first request or the first health check.
    fn proxy(&mut self) -> &mut Proxy {
        let Self { shared: GatewayShared { settings, .. }, poster, worker, .. } = self;
        let is_stopping = self.is_stopping;
        self.proxy.get_or_insert_with(|| {
            let mut proxy = Proxy::new(settings, poster.clone(), *worker);
            if is_stopping {
                proxy.stop();
            }
            Box::new(proxy)
        })
    }

    /// Handles an event of an exchange. Returns false if its request is not forwarded.
    pub(crate) fn event(
        &mut self,
        event: &Event<'_>,
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) -> bool {
        if self.cgi_event(event, request_log, exchange)
            || self.python_event(event, request_log, exchange)
        {
            return true;
        }
        let Some(proxy) = &mut self.proxy else { return false };
        if !proxy.has(exchange.address()) {
            return false;
        }
        if let Some(ended) = proxy.event(event, exchange) {
            let refusal = match event {
                Event::Refused(refusal) => Some(refusal.status()),
                _ => None,
            };
            self.ended(ended, refusal, request_log, exchange);
        }
        true
    }

    /// Returns whether an event on a connection is for the proxy.
    pub(crate) fn is_of_upstream(tag: u64) -> bool {
        tag >> UPSTREAM_TAG.trailing_zeros() == 1
    }

    /// Handles an event on a connection to another server.
    pub(crate) fn byte_stream_event(
        &mut self,
        event: &ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
    ) {
        match &mut self.proxy {
            Some(proxy) => proxy.byte_stream_event(event, stream),
            None => stream.abort(),
        }
    }

    /// Handles an event on the connection of a client that was switched to another protocol.
    pub(crate) fn raw_of_client(
        &mut self,
        event: &ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
    ) {
        let proxy = self.proxy.as_mut();
        let python = self.python.as_mut();
        let is_known = proxy.is_some_and(|proxy| proxy.raw_of_client(event, stream))
            || python.is_some_and(|python| python.raw_of_client(event, stream));
        if !is_known {
            // No listener of this server speaks anything but HTTP.
            stream.close();
        }
    }

    /// Passes on data from other servers.
    #[inline]
    pub(crate) fn flush(
        &mut self,
        request_log: &mut RequestLog,
        connections: &mut Connections<'_>,
    ) {
        if self.proxy.as_ref().is_some_and(|proxy| proxy.has_work()) {
            self.flush_proxy(request_log, connections);
        }
        if self.cgi.as_ref().is_some_and(|cgi| cgi.has_work()) {
            self.flush_cgi(request_log, connections);
        }
    }

    /// Sends the requests of this pass to Python applications.
    #[inline]
    pub(crate) fn pass_end(
        &mut self,
        request_log: &mut RequestLog,
        connections: &mut Connections<'_>,
    ) {
        if self.python.as_ref().is_some_and(|python| python.has_work()) {
            self.flush_python(request_log, connections);
        }
    }

    fn flush_proxy(&mut self, request_log: &mut RequestLog, connections: &mut Connections<'_>) {
        let Some(mut proxy) = self.proxy.take() else { return };
        proxy.flush(connections, |ended, exchange| self.ended(ended, None, request_log, exchange));
        while let Some(news) = proxy.next_server_news() {
            log_server_news(&news);
        }
        while let Some(message) = proxy.next_message() {
            self.messages.log(&message, connections.now().monotonic_ms);
        }
        self.proxy = Some(proxy);
    }

    /// Does the due work.
    #[inline]
    pub(crate) fn pass(&mut self, request_log: &mut RequestLog, connections: &mut Connections<'_>) {
        self.proxy.iter_mut().for_each(|proxy| proxy.pass(connections));
        self.cgi.iter_mut().for_each(|cgi| cgi.pass(connections));
        self.python.iter_mut().for_each(|python| python.pass(connections));
        self.flush(request_log, connections);
    }

    /// Returns the time when work is due, in monotonic milliseconds.
    #[inline]
    pub(crate) fn alarm_ms(&self) -> Option<u64> {
        let of_proxy = self.proxy.as_ref().and_then(|proxy| proxy.alarm_ms());
        let of_cgi = self.cgi.as_ref().and_then(|cgi| cgi.alarm_ms());
        let of_python = self.python.as_ref().and_then(|python| python.alarm_ms());
        of_proxy.into_iter().chain(of_cgi).chain(of_python).min()
    }

    /// Stops with the server.
    pub(crate) fn stop(&mut self) {
        self.is_stopping = true;
        self.proxy.iter_mut().for_each(|proxy| proxy.stop());
        self.cgi.iter_mut().for_each(|cgi| cgi.stop());
        self.python.iter_mut().for_each(|python| python.stop());
    }
}

/// Logs that a server is left out or used again.
#[cold]
fn log_server_news(news: &ServerNews) {
    let ServerNews { server, change, reason } = news;
    match reason {
        Some(reason) => stderr::line(format_args!("pinion: {server} {change}: {reason}")),
        None => stderr::line(format_args!("pinion: {server} {change}")),
    }
}
