//! Handles the requests of a worker: the steps from a request head to a response.

mod access_controlled_requests;
mod developer_requests;
mod live_file_requests;
mod requests_without_site;
mod site_requests;
mod store_page_requests;
mod worker_sites;

pub(crate) use requests_without_site::{TEXT_FIELDS, has_challenge, health, misdirected};

use super::access::request_authorization::AccessGate;
use super::acme::AcmeChallenges;
use super::deferred_responses::Dynamic;
use super::dispatch::{RequestRoute, ServerResponders};
use super::gateway::{Gateway, LocalRedirect};
use super::https_redirect::Redirect;
use super::request_log::RequestLog;
use super::site_roster::Published;
use super::store::StoreClients;
use super::trusted_proxies::TrustedProxies;
use crate::settings::HealthCheck;
use pinion_engine::app::{App, ByteStreamEvent, Event, Message, OwnResponse};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::clock::Now;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;
use pinion_http::error_page;
use pinion_http::field::KnownField;
use pinion_http::forwarded_client::{ClientIdentity, ClientIdentityError};
use pinion_http::method::Method;
use pinion_http::negotiate::preferred_error_format;
use pinion_http::prepared_response::Prepared;
use pinion_http::refusal::RefusedRequest;
use pinion_http::request_head::{Framing, RequestHead};
use pinion_http::request_target::Target;
use pinion_site::{RequestBuffers, generated_fields, refused_page};
use site_requests::{SiteRequest, SiteResponders};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use worker_sites::Serving;

/// The sites, as one worker serves them.
pub(crate) struct SitesApp {
    published: Arc<Published>,
    /// The roster that this worker serves from; none before its first pass.
    serving: Option<Serving>,
    work: RequestBuffers,
    request_log: RequestLog,
    /// The path at which load balancers ask whether the server is well.
    health: Option<HealthCheck>,
    /// The responses of listeners that redirect; none without any.
    redirect: Option<Redirect>,
    /// The proxies that name their clients.
    trusted_proxies: Arc<TrustedProxies>,
    /// Responds to challenges of certificate authorities, if a folder was given for them.
    challenges: Option<AcmeChallenges>,
    /// Responds by scripts.
    dynamic: Dynamic,
    /// Responds by other servers.
    gateway: Gateway,
    /// Checks the access rules.
    access: AccessGate,
    /// The clients of the store, if there is one.
    store: Option<StoreClients>,
    /// The time of the next attempt to get the turn to load the published roster.
    turn_ms: Option<u64>,
    /// The second in which the archives were last looked at.
    looked_unix_seconds: i64,
}

impl SitesApp {
    /// Serves the published roster, and every later one.
    pub(crate) fn new(
        published: Arc<Published>,
        request_log: RequestLog,
        health: Option<HealthCheck>,
        redirect: Option<Redirect>,
        trusted_proxies: Arc<TrustedProxies>,
        (dynamic, gateway, access): (Dynamic, Gateway, AccessGate),
        (challenges, store): (Option<AcmeChallenges>, Option<StoreClients>),
    ) -> Self {
        Self {
            published,
            serving: None,
            work: RequestBuffers::new(),
            request_log,
            health,
            redirect,
            trusted_proxies,
            challenges,
            dynamic,
            gateway,
            access,
            store,
            turn_ms: None,
            looked_unix_seconds: 0,
        }
    }

    /// Passes on data from other servers and from CGI scripts.
    #[inline]
    pub(super) fn flush_gateway(&mut self, connections: &mut Connections<'_>) {
        self.gateway.flush(&mut self.request_log, connections);
        self.follow_redirects(connections);
    }

    /// Responds to requests that CGI scripts have redirected to another path of this server, as if
    /// the client had asked for that (RFC 3875 §6.2.2).
    #[inline]
    fn follow_redirects(&mut self, connections: &mut Connections<'_>) {
        while let Some(redirect) = self.gateway.next_redirect() {
            self.follow_redirect(&redirect, connections);
        }
    }

    #[cold]
    fn follow_redirect(&mut self, redirect: &LocalRedirect, connections: &mut Connections<'_>) {
        let Some(mut exchange) = connections.exchange(redirect.address) else { return };
        let original = redirect.head.head();
        // The reader of scripts has parsed it, too.
        let Ok(target) = Target::parse(Method::Get, &redirect.target) else {
            return exchange.abort();
        };
        let (method, method_token) = match original.method {
            Method::Head => (Method::Head, &b"HEAD"[..]),
            _ => (Method::Get, &b"GET"[..]),
        };
        let (framing, expect_continue) = (Framing::None, false);
        let head =
            RequestHead { method, method_token, target, framing, expect_continue, ..original };
        self.gateway.set_redirect_count(redirect.count);
        self.request(&head, &mut exchange);
        self.gateway.set_redirect_count(0);
        self.dynamic.flush(connections);
        self.gateway.flush(&mut self.request_log, connections);
    }

    /// Handles a request that announces more content than is allowed: only a handler may allow it
    /// more. The engine refuses one for no site.
    #[cold]
    fn oversized(&mut self, head: &RequestHead<'_>, exchange: &mut Exchange<'_>) {
        let is_unsecured = self.trusted_proxies.is_unsecured(head, exchange);
        let mut reported = None;
        let client = match self.trusted_proxies.client(head, &mut reported, exchange) {
            Ok(client) => client,
            Err(error) => return self.client_unknown(error, head, exchange),
        };
        let head = reported.as_ref().unwrap_or(head);
        let listener = exchange.listener();
        let is_redirected = self.redirect.as_ref().is_some_and(|one| one.is_for(listener));
        if is_unsecured || is_redirected && !client.is_secured {
            return;
        }
        let Some(serving) = &self.serving else { return };
        let index = serving.roster.hosts.select(head.authority);
        let Some(site) = index.and_then(|index| serving.sites.get(index)) else { return };
        let began = self.request_log.begin(&client, exchange);
        let began = began.map(|began| began.of_site(site.generation.log()));
        let request = SiteRequest { is_oversized: true, ..SiteRequest::new(began, client, false) };
        let Self { work, dynamic, gateway, access, request_log, store, .. } = self;
        let pages = store.as_mut().map(StoreClients::pages);
        let responders = SiteResponders { work, dynamic, gateway, access, request_log, pages };
        responders.checked_request(site, request, head, exchange);
    }

    /// Handles a request: finds its client and its site, passes the response to the engine, and
    /// logs it.
    fn request(&mut self, head: &RequestHead<'_>, exchange: &mut Exchange<'_>) {
        let is_unsecured = self.trusted_proxies.is_unsecured(head, exchange);
        let mut reported = None;
        let client = match self.trusted_proxies.client(head, &mut reported, exchange) {
            Ok(client) => client,
            Err(error) => return self.client_unknown(error, head, exchange),
        };
        let head = reported.as_ref().unwrap_or(head);
        let began = self.request_log.begin(&client, exchange);
        let Self { serving, work, request_log, health, redirect, challenges, store, .. } = self;
        let pages = store.as_mut().map(StoreClients::pages);
        let (dynamic, gateway, access) = (&mut self.dynamic, &mut self.gateway, &mut self.access);
        let Some(serving) = serving else { return };
        let listener = exchange.listener();
        let mut server = ServerResponders {
            health: health.as_ref(),
            challenges: challenges.as_mut(),
            redirect: redirect.as_mut().filter(|redirect| {
                redirect.is_for(listener) && (is_unsecured || !client.is_secured)
            }),
        };
        let select = || serving.sites.get(serving.roster.hosts.select(head.authority)?);
        let route = server.route(head, select, |redirect, site| {
            !is_unsecured && has_challenge(redirect, head, &site.generation, work)
        });
        let site = match route {
            RequestRoute::Site(site) => site,
            other => return server.respond(other, began, head, request_log, exchange),
        };
        let began = began.map(|began| began.of_site(site.generation.log()));
        let request = SiteRequest::new(began, client, is_unsecured);
        let responders = SiteResponders { work, dynamic, gateway, access, request_log, pages };
        // Most sites have files and nothing else.
        if site.is_static {
            responders.archive_request(site, request, head, exchange);
        } else {
            responders.checked_request(site, request, head, exchange);
        }
    }

    /// Refuses a request of a trusted proxy that does not name its client.
    #[cold]
    fn client_unknown(
        &mut self,
        error: ClientIdentityError,
        head: &RequestHead<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        let client = ClientIdentity { peer: exchange.peer(), is_secured: exchange.is_secured() };
        let began = self.request_log.begin(&client, exchange);
        let error_format = preferred_error_format(head.values(KnownField::Accept));
        let response = error_page::response(400, error_format, error_page::BUILT_IN_FIELDS);
        self.request_log.respond(&response, None, began, head, exchange);
        self.request_log.log_unknown_client(error, self.trusted_proxies.client_field(), exchange);
    }
}

/// Returns whether a request announces no more content than is allowed. The engine refuses one that
/// announces more and gets no response.
#[inline]
pub(super) fn fits(head: &RequestHead<'_>, exchange: &mut Exchange<'_>) -> bool {
    head.framing == Framing::None || exchange.content_fits()
}

impl App for SitesApp {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        match event {
            // A static response is complete at once: no content is wanted, nothing is waited for.
            Event::Head(head) if fits(head, exchange) => self.request(head, exchange),
            Event::Head(head) => self.oversized(head, exchange),
            event if self.holds(&event, exchange) || self.holds_page(&event, exchange) => {}
            event => {
                let Self { gateway, dynamic, request_log, .. } = self;
                if !gateway.event(&event, request_log, exchange) {
                    dynamic.event(&event, request_log, exchange);
                }
            }
        }
        self.dynamic.flush(&mut exchange.connections());
        self.flush_gateway(&mut exchange.connections());
    }

    fn byte_stream_event(&mut self, event: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>) {
        match stream.tag() {
            Some(tag) if StoreClients::is_of_store(tag) => {
                if let Some(store) = &mut self.store {
                    store.byte_stream_event(event, stream);
                }
            }
            Some(tag) if Gateway::is_of_upstream(tag) => {
                self.gateway.byte_stream_event(&event, stream);
                self.flush_gateway(&mut stream.connections());
            }
            Some(tag) if Gateway::is_of_python(tag) => {
                self.gateway.raw_of_python(&event, &mut self.request_log, stream);
                self.flush_gateway(&mut stream.connections());
            }
            Some(tag) if Gateway::is_of_script(tag) => {
                self.gateway.raw_of_script(&event, stream);
                self.flush_gateway(&mut stream.connections());
            }
            Some(_) => self.dynamic.byte_stream_event(&event, stream),
            None => {
                let store = self.store.as_mut();
                let is_of_store = matches!(event, ByteStreamEvent::Open)
                    && store.is_some_and(|store| store.open(stream));
                if !is_of_store {
                    self.gateway.raw_of_client(&event, stream);
                }
            }
        }
    }

    fn pass(&mut self, connections: &mut Connections<'_>) {
        let now = connections.now();
        let mappings = connections.mappings();
        self.request_log.pass();
        if let Some(serving) = &self.serving
            && now.unix_seconds != self.looked_unix_seconds
        {
            self.looked_unix_seconds = now.unix_seconds;
            serving.sites.iter().for_each(|site| site.generation.look());
        }
        let held = self.serving.as_ref().map_or(0, |serving| serving.number);
        self.turn_ms = None;
        if self.published.number() != held {
            self.take_turn(now, mappings);
        }
        self.dynamic.pass(connections);
        self.gateway.pass(&mut self.request_log, connections);
        self.follow_redirects(connections);
    }

    #[inline]
    fn pass_end(&mut self, connections: &mut Connections<'_>) {
        self.gateway.pass_end(&mut self.request_log, connections);
    }

    #[inline]
    fn alarm_ms(&self) -> Option<u64> {
        let alarms = [self.dynamic.alarm_ms(), self.gateway.alarm_ms(), self.turn_ms];
        alarms.into_iter().flatten().min()
    }

    fn stopping(&mut self) {
        self.dynamic.stop();
        self.gateway.stop();
    }

    fn is_busy(&self) -> bool {
        self.dynamic.is_busy()
    }

    fn posted(&mut self, message: Message, connections: &mut Connections<'_>) {
        match self.access.posted(message, connections.now().monotonic_ms) {
            Ok(resumed) => self.resume(resumed, connections),
            Err(message) => self.dynamic.posted(message, connections),
        }
    }

    fn takes_extended_connect(&self) -> bool {
        self.serving.as_ref().is_some_and(|serving| serving.has_mounts)
    }

    fn page_fields(&self) -> &[u8] {
        match self.serving.as_ref().and_then(|serving| serving.roster.rest()) {
            Some(generation) => generated_fields(&generation.archive()).h1,
            None => error_page::BUILT_IN_FIELDS,
        }
    }

    /// Returns an error page of the site of the host that the request names, or of the site for the
    /// rest if it names none that could be read.
    fn error_page(&mut self, status: u16, request: &RefusedRequest<'_>) -> Prepared<'_> {
        let site = self.serving.as_ref().and_then(|serving| {
            let index = serving.roster.hosts.select(request.authority)?;
            serving.sites.get(index)
        });
        match site {
            Some(site) => refused_page(status, request, &site.generation.archive(), &mut self.work),
            None => error_page::response(status, request.error_format, error_page::BUILT_IN_FIELDS),
        }
    }

    fn answered(&mut self, connection: Address, response: OwnResponse) {
        self.request_log.record_engine_response(connection, response);
    }

    fn flooded(&mut self, _connection: Address) {
        self.request_log.count_flood();
    }

    fn connection_refused(&mut self, peer: SocketAddr, now: Now) {
        self.request_log.log_refused_connection(peer, now);
    }

    #[inline]
    fn sent(&mut self, connection: Address) {
        self.request_log.record_sent(connection, 0);
    }

    fn dropped(&mut self, exchange: Address, bytes: u64) {
        self.request_log.record_dropped(exchange, bytes);
    }

    #[cold]
    fn ended(&mut self, number: NonZeroU32) {
        self.access.ended(number);
    }

    fn closed(&mut self, connection: Address, unsent_bytes: u64) {
        self.request_log.record_sent(connection, unsent_bytes);
    }
}
