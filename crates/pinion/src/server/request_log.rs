//! One worker's side of the access log and of its figures: it logs and counts requests and their
//! responses.

use super::latency::Sampling;
use super::log_throttle::LogThrottle;
use super::pending_log_records::Pending;
use super::stats::Counts;
use crate::access_log::{LogId, LogRecord, LoggedPeer, Logger, Text};
use crate::warnings_and_notes;
use pinion_engine::app::OwnResponse;
use pinion_engine::clock::Now;
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;
use pinion_engine::file_mapping::MappingId;
use pinion_engine::stderr;
use pinion_http::field::KnownField;
use pinion_http::forwarded_client::{ClientField, ClientIdentity, ClientIdentityError};
use pinion_http::method::Method;
use pinion_http::prepared_response::Prepared;
use pinion_http::request_head::RequestHead;
use pinion_http::version::Version;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Writes one record for each response, once it has been sent; nothing if there is no log. The wall
/// clock is read once a pass, the steady one twice a request. Counts each response, if that is
/// wanted.
pub(crate) struct RequestLog {
    log: Option<Log>,
    counts: Option<Arc<Counts>>,
    sampling: Sampling,
    /// The time at which this pass over the events began; of no use where nothing is logged or
    /// counted.
    pass_began: Instant,
    refusals: Arc<ClientRefusals>,
}

/// The log of refused clients: clients that hold as many connections as they may, or that ask for
/// https on a connection that is not encrypted. It is shared by all workers.
#[derive(Debug, Default)]
pub(crate) struct ClientRefusals {
    /// `--max-connections-per-client`.
    pub(crate) max: u32,
    pub(crate) throttle: LogThrottle,
    /// The throttle of requests whose trusted proxies do not name the client.
    pub(crate) client_unknown: LogThrottle,
    /// Whether it was logged that a client says https on a connection that is not encrypted.
    pub(crate) has_logged_https: AtomicBool,
}

struct Log {
    logger: Logger,
    /// That of the server, if it has one.
    server: Option<LogId>,
    pending: Pending,
    pass_unix_micros: i64,
}

/// The time when the response to a request was begun, and the bytes in the queue before it.
#[derive(Clone, Copy)]
pub(crate) struct Beginning {
    at: Instant,
    queued_bytes: u64,
    peer: LoggedPeer,
    /// `None` where nothing is logged.
    log: Option<LogId>,
}

impl Beginning {
    /// Returns the same for a request of a site: it is written to the log of the site, if it has
    /// one, and else to that of the server.
    pub(crate) fn of_site(self, log: Option<LogId>) -> Self {
        Self { log: log.or(self.log), ..self }
    }
}

/// The record of a request whose response comes after its head is gone.
pub(crate) struct DeferredRecord {
    began: Instant,
    /// `None` where nothing is logged.
    request: Option<RecordedRequest>,
}

/// The fields of a request in its log record.
struct RecordedRequest {
    began: Beginning,
    version: Version,
    /// Method, target, host, referer, user agent, user and number of the request.
    texts: [Vec<u8>; 7],
}

impl RequestLog {
    /// Makes the log with this worker's end of the log and its counts, if there are any.
    pub(crate) fn new(
        logger: Option<Logger>,
        counts: Option<Arc<Counts>>,
        refusals: Arc<ClientRefusals>,
    ) -> Self {
        let log = logger.map(|logger| {
            let (server, pending) = (logger.server(), Pending::default());
            Log { logger, server, pending, pass_unix_micros: unix_micros() }
        });
        let (sampling, pass_began) = (Sampling::default(), Instant::now());
        Self { log, counts, sampling, pass_began, refusals }
    }

    /// Begins a pass.
    #[inline]
    pub(crate) fn pass(&mut self) {
        if self.counts.is_some() || self.log.is_some() {
            self.pass_began = Instant::now();
            self.sampling.pass();
        }
        if let Some(log) = &mut self.log {
            log.pass_unix_micros = unix_micros();
        }
    }

    /// Begins a request.
    #[inline]
    pub(crate) fn begin(
        &self,
        client: &ClientIdentity,
        exchange: &mut Exchange<'_>,
    ) -> Option<Beginning> {
        let log = self.log.as_ref()?.server;
        let peer = client.peer.map_or(LoggedPeer::Unix, LoggedPeer::Ip);
        Some(Beginning { at: Instant::now(), queued_bytes: exchange.queued_bytes(), peer, log })
    }

    /// Sends a complete response and records it. `mapping` is that of the archive in which the body
    /// is, if it is in one.
    #[inline]
    pub(crate) fn respond(
        &mut self,
        response: &Prepared<'_>,
        mapping: Option<MappingId>,
        began: Option<Beginning>,
        head: &RequestHead<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        exchange.prepared(response, mapping);
        self.record(began, head, response, exchange);
    }

    /// Records a response that stands in the queue.
    #[inline]
    pub(crate) fn record(
        &mut self,
        began: Option<Beginning>,
        head: &RequestHead<'_>,
        response: &Prepared<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        if let Some(counts) = &self.counts {
            counts.add(response.status, content_bytes(head, response));
            if let Some(weight) = self.sampling.weight() {
                counts.add_time(self.pass_began.elapsed(), weight);
            }
        }
        if let (Some(log), Some(began)) = (&mut self.log, began) {
            log.record(began, self.pass_began, head, response, exchange);
        }
    }

    /// Begins the record of a request of a site whose response comes later; `None` if nothing is
    /// logged or counted. The site may have a log of its own.
    #[inline]
    pub(crate) fn begin_deferred(
        &self,
        head: &RequestHead<'_>,
        client: &ClientIdentity,
        log: Option<LogId>,
        exchange: &mut Exchange<'_>,
    ) -> Option<DeferredRecord> {
        let request = self.recorded_request(head, client, log, exchange);
        if request.is_none() && self.counts.is_none() {
            return None;
        }
        let began = request.as_ref().map_or_else(Instant::now, |request| request.began.at);
        Some(DeferredRecord { began, request })
    }

    fn recorded_request(
        &self,
        head: &RequestHead<'_>,
        client: &ClientIdentity,
        log: Option<LogId>,
        exchange: &mut Exchange<'_>,
    ) -> Option<RecordedRequest> {
        let began = self.begin(client, exchange)?.of_site(log);
        began.log?;
        let field = |field| head.value(field).unwrap_or_default();
        let texts = [
            head.method_token,
            head.target.raw,
            head.authority.unwrap_or_default(),
            field(KnownField::Referer),
            field(KnownField::UserAgent),
            head.user().unwrap_or_default().as_bytes(),
            head.request_id().unwrap_or_default().as_bytes(),
        ];
        Some(RecordedRequest { began, version: head.version, texts: texts.map(<[u8]>::to_vec) })
    }

    /// Sends the complete response to a request whose record was begun before, and records it.
    /// `is_head` says that the request was HEAD.
    pub(crate) fn respond_deferred(
        &mut self,
        response: &Prepared<'_>,
        record: Option<DeferredRecord>,
        is_head: bool,
        exchange: &mut Exchange<'_>,
    ) {
        exchange.prepared(response, None);
        let body_bytes = response.content_length.filter(|_| !is_head).unwrap_or_default();
        self.record_deferred(record, response.status, body_bytes, exchange);
    }

    /// Records a response that is already queued, for a request whose record was begun before.
    #[inline]
    pub(crate) fn record_deferred(
        &mut self,
        record: Option<DeferredRecord>,
        status: u16,
        body_bytes: u64,
        exchange: &mut Exchange<'_>,
    ) {
        if let (Some(counts), Some(DeferredRecord { began, .. })) = (&self.counts, &record) {
            counts.add_time(began.elapsed(), 1);
        }
        self.record_stream(record, status, body_bytes, exchange);
    }

    /// Records the end of a stream whose client decides how long it lasts, like
    /// [`Self::record_deferred`], but without its time, which is no latency.
    pub(crate) fn record_stream(
        &mut self,
        record: Option<DeferredRecord>,
        status: u16,
        body_bytes: u64,
        exchange: &mut Exchange<'_>,
    ) {
        self.count_response(status, body_bytes);
        let request = record.and_then(|record| record.request);
        if let (Some(log), Some(request)) = (&mut self.log, request) {
            log.record_deferred(&request, self.pass_began, status, body_bytes, exchange);
        }
    }

    /// Counts a response in the queue of which nothing is logged.
    pub(crate) fn count_response(&mut self, status: u16, content_bytes: u64) {
        if let Some(counts) = &self.counts {
            counts.add(status, content_bytes);
        }
    }

    /// Counts a connection that ends for the work without end that its client made.
    #[cold]
    pub(crate) fn count_flood(&self) {
        if let Some(counts) = &self.counts {
            counts.add_flood();
        }
    }

    /// Logs that a connection of a client was closed because the client holds as many as it may.
    #[cold]
    pub(crate) fn log_refused_connection(&self, peer: SocketAddr, now: Now) {
        let ClientRefusals { max, throttle, .. } = &*self.refusals;
        let Some(suppressed) = throttle.admit(now.monotonic_ms) else { return };
        let client = peer.ip().to_canonical();
        stderr::line(format_args!(
            "pinion: closed a connection of {client}: the client holds {max}, the most that \
             --max-connections-per-client allows ({suppressed} more closed since the last line)"
        ));
    }

    /// Logs that a request with the scheme https was refused because its connection is not
    /// encrypted. Logged once: it is a proxy that is not configured, or clients that try things
    /// out.
    #[cold]
    pub(crate) fn log_refused_https(&self, peer: Option<SocketAddr>) {
        if self.refusals.has_logged_https.swap(true, Ordering::Relaxed) {
            return;
        }
        let client = peer.map_or("unix".to_owned(), |peer| peer.ip().to_canonical().to_string());
        warnings_and_notes::warning(format_args!(
            "{client} sends requests with the scheme https over an unencrypted connection (421); \
             if it is your proxy, give --trusted-proxy {client}"
        ));
    }

    /// Logs that a request of a trusted proxy was refused because it does not name its client.
    #[cold]
    pub(crate) fn log_unknown_client(
        &self,
        error: ClientIdentityError,
        field: &ClientField,
        exchange: &mut Exchange<'_>,
    ) {
        let now_ms = exchange.now().monotonic_ms;
        let Some(suppressed) = self.refusals.client_unknown.admit(now_ms) else { return };
        let proxy = exchange.peer().map(|peer| peer.ip().to_canonical().to_string());
        let (proxy, name) = (proxy.as_deref().unwrap_or("unix"), field.name().escape_ascii());
        stderr::line(format_args!(
            "pinion: refused a request (400): {name} of the trusted proxy {proxy}: {error} \
             ({suppressed} more refused since the last line)"
        ));
    }

    /// Records a response of the engine alone, to input that was no valid request.
    pub(crate) fn record_engine_response(&mut self, connection: Address, response: OwnResponse) {
        self.count_response(response.status, response.body_bytes);
        if let Some(log) = &mut self.log {
            log.record_engine_response(connection, response, self.pass_began);
        }
    }

    /// Records that the last `bytes` of a response were dropped.
    #[cold]
    pub(crate) fn record_dropped(&mut self, exchange: Address, bytes: u64) {
        if let Some(log) = &mut self.log {
            log.pending.drop_end(exchange, bytes);
        }
    }

    /// Records that all bytes queued on a connection but the last `unsent_bytes` have been sent.
    #[inline]
    pub(crate) fn record_sent(&mut self, connection: Address, unsent_bytes: u64) {
        if let Some(log) = &mut self.log {
            log.pending.finish(&mut log.logger, connection.slot, unsent_bytes);
        }
    }
}

impl Log {
    fn record(
        &mut self,
        began: Beginning,
        pass_began: Instant,
        head: &RequestHead<'_>,
        response: &Prepared<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        let Some(to) = began.log else { return };
        let body_bytes = content_bytes(head, response);
        let field = |field| Text::from(head.value(field).unwrap_or_default());
        let record = LogRecord {
            log: to,
            unix_micros: self.unix_micros(began.at, pass_began),
            peer: began.peer,
            version: Some(head.version),
            status: response.status,
            body_bytes,
            duration_micros: 0,
            cut: false,
            method: Text::from(head.method_token),
            target: Text::from(head.target.raw),
            host: Text::from(head.authority.unwrap_or_default()),
            referer: field(KnownField::Referer),
            user_agent: field(KnownField::UserAgent),
            user: Text::from(head.user().unwrap_or_default().as_bytes()),
            request_id: Text::from(head.request_id().unwrap_or_default().as_bytes()),
        };
        let bytes = exchange.queued_bytes().saturating_sub(began.queued_bytes);
        self.pending.add(&mut self.logger, exchange.address(), (began.at, bytes), &record);
    }

    fn record_deferred(
        &mut self,
        request: &RecordedRequest,
        pass_began: Instant,
        status: u16,
        body_bytes: u64,
        exchange: &mut Exchange<'_>,
    ) {
        let Some(to) = request.began.log else { return };
        let [method, target, host, referer, user_agent, user, request_id] = &request.texts;
        let record = LogRecord {
            log: to,
            unix_micros: self.unix_micros(request.began.at, pass_began),
            peer: request.began.peer,
            version: Some(request.version),
            status,
            body_bytes,
            duration_micros: 0,
            cut: false,
            method: Text::from(&method[..]),
            target: Text::from(&target[..]),
            host: Text::from(&host[..]),
            referer: Text::from(&referer[..]),
            user_agent: Text::from(&user_agent[..]),
            user: Text::from(&user[..]),
            request_id: Text::from(&request_id[..]),
        };
        // Bytes that have been sent already are no part of the queue.
        let bytes = exchange.queued_bytes().saturating_sub(request.began.queued_bytes);
        self.pending.add(&mut self.logger, exchange.address(), (request.began.at, bytes), &record);
    }

    fn record_engine_response(
        &mut self,
        connection: Address,
        response: OwnResponse,
        pass_began: Instant,
    ) {
        let Some(to) = self.server else { return };
        let at = Instant::now();
        let nothing = Text::from(&b""[..]);
        let record = LogRecord {
            log: to,
            unix_micros: self.unix_micros(at, pass_began),
            peer: response.peer.map_or(LoggedPeer::Unix, LoggedPeer::Ip),
            version: None,
            status: response.status,
            body_bytes: response.body_bytes,
            duration_micros: 0,
            cut: false,
            method: nothing,
            target: nothing,
            host: nothing,
            referer: nothing,
            user_agent: nothing,
            user: nothing,
            request_id: nothing,
        };
        self.pending.add(&mut self.logger, connection, (at, response.bytes), &record);
    }

    fn unix_micros(&self, at: Instant, pass_began: Instant) -> i64 {
        let since_pass = at.saturating_duration_since(pass_began).as_micros();
        self.pass_unix_micros.saturating_add(since_pass as i64)
    }
}

/// Returns the bytes of content that a response has.
fn content_bytes(head: &RequestHead<'_>, response: &Prepared<'_>) -> u64 {
    match head.method {
        Method::Head => 0,
        _ => response.content_length.unwrap_or_default(),
    }
}

/// Returns the microseconds since 1970; 0 for a clock that is set before.
fn unix_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros().try_into().unwrap_or(i64::MAX)
}
