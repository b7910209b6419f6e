//! Handles the requests of a worker: the steps from a request head to a response.

mod checked_requests;
mod live_requests;
mod stored_pages;

use super::access::gate::{AccessGate, CheckedAccess};
use super::access::path_scope::PathReadings;
use super::access::rules::{MetRules, RuleSet};
use super::acme::AcmeChallenges;
use super::dev::adapt::widened;
use super::dev::load_failure::{LoadFailure, Meanwhile};
use super::dev::{Developer, developer_page};
use super::dispatch::{Responder, ServerResponders};
use super::dynamic::{Dynamic, Scripted};
use super::extended_connect::fallback_for;
use super::gateway::{Gateway, LocalRedirect};
use super::generation::Generation;
use super::journal::{Beginning, Journal};
use super::mounts::{Mount, MountTarget};
use super::published::{Published, Roster, SiteId};
use super::redirect::Redirect;
use super::refusal_by_rule::RefusalTrace;
use super::store::{StoreClients, WorkerPages};
use super::trusted_proxies::TrustedProxies;
use crate::settings::HealthCheck;
use pinion_archive::Archive;
use pinion_engine::address::Address;
use pinion_engine::app::{App, Event, Message, OwnAnswer, RawEvent};
use pinion_engine::clock::Now;
use pinion_engine::connections::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::mapping::{MappingId, Mappings};
use pinion_engine::raw::RawStream;
use pinion_engine::stderr;
use pinion_http::client_identity::{ClientIdentity, ClientIdentityError};
use pinion_http::field::KnownField;
use pinion_http::method::Method;
use pinion_http::negotiate::preferred_error_format;
use pinion_http::page::{self, ErrorFormat};
use pinion_http::prepared::{Prepared, PreparedBody, SharedFields};
use pinion_http::refusal::RefusedRequest;
use pinion_http::request::{Framing, RequestHead};
use pinion_http::target::Target;
use pinion_lua::problem::ScriptProblem;
use pinion_lua::program::SiteProgram;
use pinion_lua::scripts::Offer;
use pinion_site::{
    Pieces, RequestBuffers, answer, answer_traced, error_for, error_in_format_for,
    generated_fields, has_file, refused_page,
};
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

/// The time that a worker waits before it tries again to get its turn: too short to be noticed in a
/// reload, and little work meanwhile.
const TURN_LOOK_MS: u64 = 5;

/// The sites, as one worker serves them.
pub(crate) struct SitesApp {
    published: Arc<Published>,
    /// The roster that this worker serves from; none before its first pass.
    serving: Option<Serving>,
    work: RequestBuffers,
    journal: Journal,
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

/// A roster, and the names this worker's engine has for its mappings.
struct Serving {
    number: u64,
    roster: Arc<Roster>,
    sites: Vec<SiteGeneration>,
    /// Other servers respond to some requests.
    has_mounts: bool,
}

/// A generation and its mapping, and its script, which responds where the archive does not.
struct SiteGeneration {
    id: SiteId,
    generation: Arc<Generation>,
    mapping: MappingId,
    scripted: Option<Scripted>,
    /// It has no script, its files could be loaded, nothing is to be checked, and it shows no
    /// errors to a developer.
    is_static: bool,
    /// The generation that was to replace it and has a script that does not start in this worker.
    refused: Option<Arc<Generation>>,
}

/// The facts about a request of a site before its archive is asked.
struct SiteRequest<'r> {
    began: Option<Beginning>,
    client: ClientIdentity,
    /// It says https on a connection that is not encrypted.
    is_unsecured: bool,
    /// Who sends it, if that is the developer of the site.
    developer: Option<Developer>,
    /// The offer of the script of the site for other methods.
    offer: Offer,
    /// It announces more content than is allowed, unless a handler or another server allows more.
    is_oversized: bool,
    /// The results of its access checks, if its site has access rules.
    checked: Option<CheckedAccess>,
    /// The head as it was sent, if scripts and other servers get another one.
    sent: Option<&'r RequestHead<'r>>,
}

impl SiteRequest<'_> {
    /// Takes the offer of the script of the site for other methods.
    fn take_offer(&mut self) -> Offer {
        std::mem::replace(&mut self.offer, Offer::Nothing)
    }

    fn new(began: Option<Beginning>, client: ClientIdentity, is_unsecured: bool) -> Self {
        let (developer, offer) = (None, Offer::Nothing);
        Self {
            began,
            client,
            is_unsecured,
            developer,
            offer,
            is_oversized: false,
            checked: None,
            sent: None,
        }
    }
}

/// The parts of a worker that respond to requests of any site.
struct Means<'w> {
    work: &'w mut RequestBuffers,
    dynamic: &'w mut Dynamic,
    gateway: &'w mut Gateway,
    access: &'w mut AccessGate,
    journal: &'w mut Journal,
    /// The pages of the store, if there is one.
    pages: Option<WorkerPages<'w>>,
}

impl Means<'_> {
    /// Responds with the developer page or the script of a site, and otherwise from its archive.
    fn dynamic_request(
        self,
        site: &SiteGeneration,
        mut request: SiteRequest<'_>,
        head: &RequestHead<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        let SiteRequest { began, client, is_unsecured, .. } = request;
        let Self { work, dynamic, gateway, access, journal, pages } = self;
        let developer = site.developer(head, exchange).filter(|_| !is_unsecured);
        if let Some(developer) = developer
            && answers_developer(site, developer, (&client, head), dynamic, journal, exchange)
        {
            return;
        }
        if site.generation.has_no_content() && !is_unsecured {
            return answer_unloaded(site, developer, began, head, work, journal, exchange);
        }
        if let Some(mount) = site.generation.covering_mount(head, work)
            && !is_unsecured
        {
            let means = Self { work, dynamic, gateway, access, journal, pages };
            return means.forward(site, mount, request, head, exchange);
        }
        request.developer = developer;
        if head.protocol.is_some() && !is_unsecured {
            let mount = fallback_for(&site.generation, head, exchange.now(), work, gateway);
            let means = Self { work, dynamic, gateway, access, journal, pages };
            if let Some(mount) = mount {
                return means.forward(site, mount, request, head, exchange);
            }
            return means.archive_request(site, request, head, exchange);
        }
        if let Some(scripted) = &site.scripted
            && !is_unsecured
        {
            request.offer = dynamic.offer(scripted, head);
            if let Offer::Handler(found) = request.offer {
                let found = Some(found);
                return dynamic.begin(
                    scripted,
                    found,
                    head,
                    (&client, developer),
                    journal,
                    exchange,
                );
            }
        }
        Self { work, dynamic, gateway, access, journal, pages }
            .live_request(site, request, head, exchange);
    }

    /// Forwards the request to the servers of a mount, unless an access rule refuses it: one that
    /// covers a path that the script could read in place of the path.
    fn forward(
        self,
        site: &SiteGeneration,
        mount: &Mount,
        request: SiteRequest<'_>,
        head: &RequestHead<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        if let (Some(checked), Some(rules)) = (&request.checked, site.generation.access()) {
            let readings = mount.script_readings(head.target.path);
            let covering = |path: &Vec<u8>| rules.covering(&PathReadings::of_decoded(path));
            let met = readings.iter().map(covering).fold(RuleSet::default(), RuleSet::with);
            if !met.without(checked.admitted).is_empty() {
                return self.check(site, met, request, head, exchange);
            }
        }
        if let MountTarget::Store(keys) = &mount.target {
            return self.stored_page(site, keys, request.began, head, exchange);
        }
        let Self { gateway, access, journal, .. } = self;
        let (generation, means) = (&site.generation, (access, journal));
        let heads = (head, request.sent.unwrap_or(head));
        gateway.begin(mount, generation, heads, &request.client, means, exchange);
    }

    /// Responds from the archive of a site.
    #[inline(always)]
    fn archive_request(
        self,
        site: &SiteGeneration,
        mut request: SiteRequest<'_>,
        head: &RequestHead<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        let SiteRequest { began, client, is_unsecured, developer, .. } = request;
        let Self { work, dynamic, gateway, access, journal, pages } = self;
        let (generation, now) = (&*site.generation, exchange.now());
        let archive = generation.archive();
        let (mut pieces, mut traced) = (Pieces::new(), None);
        let fallback = generation.mounts().without_file(head.target.path);
        let whole = developer.filter(|developer| developer.wants_page).map(|_| widened(head));
        let asked = whole.as_ref().unwrap_or(head);
        let answer = if generation.is_damaged() {
            error_for(500, &archive, head, work)
        } else if is_unsecured {
            journal.https_refused(exchange.socket_peer());
            unencrypted_https(&archive, head, work)
        } else if let Some(checked) = &request.checked {
            let met = MetRules::new(generation.access().map(|rules| &**rules));
            let found = answer_traced(&archive, asked, now.unix_seconds, work, &mut pieces, &met);
            let met = met.get();
            if !met.without(checked.admitted).is_empty() {
                let means = Self { work, dynamic, gateway, access, journal, pages };
                return means.check(site, met, request, head, exchange);
            }
            found
        } else if fallback.is_some() {
            let trace = traced.insert(RefusalTrace::default());
            answer_traced(&archive, asked, now.unix_seconds, work, &mut pieces, &*trace)
        } else {
            answer(&archive, asked, now.unix_seconds, work, &mut pieces)
        };
        let (offer, outdated) = (request.take_offer(), generation.is_outdated(&answer));
        if answer.status == 404
            && let Some(scripted) = &site.scripted
            && dynamic.missed(scripted, offer, head, (&client, developer), journal, exchange)
        {
            return;
        }
        if answer.status == 404
            && let Some(mount) = fallback
            && !gateway.is_refused_by_rule(&archive, asked, now.unix_seconds, traced.as_ref())
        {
            let means = Self { work, dynamic, gateway, access, journal, pages };
            return means.forward(site, mount, request, head, exchange);
        }
        // A response is large: a reference to the one to be sent is kept.
        let instead;
        let answer = if outdated {
            instead = error_for(500, &archive, head, work);
            &instead
        } else {
            &answer
        };
        let status = answer.status;
        let mut send = |answer: &Prepared<'_>| {
            exchange.prepared(answer, Some(site.mapping));
            journal.answered(began, head, answer, exchange);
        };
        match developer {
            Some(developer) => developer.adapt(answer, send),
            None => send(answer),
        }
        if status == 500 {
            tell_damage(generation, work, head, now, outdated);
        }
    }
}

/// The parts of a worker that respond to requests without a site.
struct ServerMeans<'w> {
    health: Option<&'w HealthCheck>,
    challenges: Option<&'w AcmeChallenges>,
    redirect: Option<&'w mut Redirect>,
    journal: &'w mut Journal,
}

impl ServerMeans<'_> {
    /// Responds to a request that needs no site.
    #[cold]
    fn respond(
        self,
        responder: Responder<&SiteGeneration>,
        began: Option<Beginning>,
        head: &RequestHead<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        let log = match responder {
            Responder::Redirect(site) => site.and_then(|site| site.generation.log()),
            _ => None,
        };
        let mut is_logged = true;
        let answer = match (responder, self.challenges, self.redirect) {
            (Responder::HealthCheck, _, _) => {
                let answer = health(head, exchange.is_stopping());
                // A request with another method than load balancers use is no health check.
                let logs_all = self.health.is_none_or(|check| check.is_logged);
                is_logged = logs_all || answer.status == 405;
                answer
            }
            (Responder::AcmeChallenge, Some(challenges), _) => challenges.response(),
            (Responder::Redirect(_), _, Some(redirect)) => redirect.answer(head),
            _ => misdirected(head),
        };
        exchange.prepared(&answer, None);
        let began = began.filter(|_| is_logged).map(|began| began.of_site(log));
        self.journal.answered(began, head, &answer, exchange);
    }
}

impl SitesApp {
    /// Serves the published roster, and every later one.
    pub(crate) fn new(
        published: Arc<Published>,
        journal: Journal,
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
            journal,
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
        self.gateway.flush(&mut self.journal, connections);
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
        self.gateway.flush(&mut self.journal, connections);
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
        let began = self.journal.begin(&client, exchange);
        let began = began.map(|began| began.of_site(site.generation.log()));
        let request = SiteRequest { is_oversized: true, ..SiteRequest::new(began, client, false) };
        let Self { work, dynamic, gateway, access, journal, store, .. } = self;
        let pages = store.as_mut().map(StoreClients::pages);
        let means = Means { work, dynamic, gateway, access, journal, pages };
        means.checked_request(site, request, head, exchange);
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
        let began = self.journal.begin(&client, exchange);
        let Self { serving, work, journal, health, redirect, challenges, store, .. } = self;
        let pages = store.as_mut().map(StoreClients::pages);
        let (dynamic, gateway, access) = (&mut self.dynamic, &mut self.gateway, &mut self.access);
        let Some(serving) = serving else { return };
        let listener = exchange.listener();
        let server = ServerResponders {
            health: health.as_ref(),
            challenges: challenges.as_mut(),
            redirect: redirect.as_mut().filter(|redirect| {
                redirect.is_for(listener) && (is_unsecured || !client.is_secured)
            }),
        };
        let select = || serving.sites.get(serving.roster.hosts.select(head.authority)?);
        let responder = server.responder(head, select, |redirect, site| {
            !is_unsecured && has_challenge(redirect, head, &site.generation, work)
        });
        let site = match responder {
            Responder::Site(site) => site,
            other => {
                let (health, challenges) = (health.as_ref(), challenges.as_ref());
                let redirect = redirect.as_mut();
                let means = ServerMeans { health, challenges, redirect, journal };
                return means.respond(other, began, head, exchange);
            }
        };
        let began = began.map(|began| began.of_site(site.generation.log()));
        let request = SiteRequest::new(began, client, is_unsecured);
        let means = Means { work, dynamic, gateway, access, journal, pages };
        // Most sites have files and nothing else.
        if site.is_static {
            means.archive_request(site, request, head, exchange);
        } else {
            means.checked_request(site, request, head, exchange);
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
        let began = self.journal.begin(&client, exchange);
        let error_format = preferred_error_format(head.values(KnownField::Accept));
        let answer = page::answer(400, error_format, page::BUILT_IN_FIELDS);
        exchange.prepared(&answer, None);
        self.journal.answered(began, head, &answer, exchange);
        self.journal.client_unknown(error, self.trusted_proxies.client_field(), exchange);
    }

    /// Loads the published roster when it is this worker's turn; the first roster at once, since
    /// this worker has no earlier one.
    #[cold]
    fn take_turn(&mut self, now: Now, mappings: &mut Mappings) {
        let published = Arc::clone(&self.published);
        let turn = published.turn();
        if turn.is_some() || self.serving.is_none() {
            self.take_up(now, mappings);
        } else {
            self.turn_ms = Some(now.monotonic_ms + TURN_LOOK_MS);
        }
    }

    /// Loads the published roster. A generation that stays in use keeps its mapping.
    #[cold]
    fn take_up(&mut self, now: Now, mappings: &mut Mappings) {
        let (number, roster) = self.published.current();
        let mut old = self.serving.take().map(|old| old.sites).unwrap_or_default();
        let dynamic = &mut self.dynamic;
        let mut site = |(id, generation): &(SiteId, Arc<Generation>)| {
            if let Some(at) = old.iter().position(|site| site.has_seen(generation)) {
                return old.swap_remove(at);
            }
            let scripted = match dynamic.take_up(generation, now) {
                Ok(scripted) => scripted,
                Err(problem) => {
                    let earlier = old.iter().position(|site| site.id == *id && !site.is_broken());
                    tell_refused(generation, &problem, earlier.is_some());
                    let shown = earlier.and_then(|at| old.get(at)).map(|site| &site.generation);
                    show_refused(shown, generation, &problem);
                    if let Some(at) = earlier {
                        let refused = Some(Arc::clone(generation));
                        return SiteGeneration { refused, ..old.swap_remove(at) };
                    }
                    Some(Scripted::broken(generation))
                }
            };
            let mapping = mappings.add(Arc::clone(generation.mapping()));
            let generation = Arc::clone(generation);
            let is_static = scripted.is_none()
                && generation.mounts().is_empty()
                && !generation.has_no_content()
                && generation.access().is_none()
                && generation.live().is_none()
                && !generation.shows_errors();
            SiteGeneration { id: *id, generation, mapping, scripted, is_static, refused: None }
        };
        let sites: Vec<SiteGeneration> = roster.sites.iter().map(&mut site).collect();
        for site in old {
            mappings.retire(site.mapping);
            if let Some(scripted) = &site.scripted {
                self.dynamic.put_away(scripted);
            }
        }
        let mounts = sites.iter().flat_map(|site| site.generation.mounts().all());
        let upstreams = mounts.filter_map(Mount::upstreams);
        let watched = upstreams.filter(|upstreams| upstreams.options().active.is_some());
        self.gateway.watch(watched.cloned().collect());
        let version = |id| sites.iter().find(|site| site.id == id).map(SiteGeneration::version);
        self.dynamic.streams.sites_changed(version);
        let has_mounts = sites.iter().any(|site| !site.generation.mounts().is_empty());
        self.serving = Some(Serving { number, roster, sites, has_mounts });
    }
}

/// Responds to requests of a developer alone: the script and the streams of pages that reload, and
/// for a page the reason why the site could not be loaded. Returns false for any other request.
#[cold]
fn answers_developer(
    site: &SiteGeneration,
    developer: Developer,
    (client, head): (&ClientIdentity, &RequestHead<'_>),
    dynamic: &mut Dynamic,
    journal: &mut Journal,
    exchange: &mut Exchange<'_>,
) -> bool {
    if dynamic.streams.answers(
        (site.id, site.generation.log()),
        developer,
        (client, head),
        journal,
        exchange,
    ) {
        return true;
    }
    let Some(failure) = site.generation.failure().filter(|_| developer.wants_page) else {
        return false;
    };
    let began = journal.begin(client, exchange);
    let began = began.map(|began| began.of_site(site.generation.log()));
    let page = [&*failure.page, &developer.page_end()].concat();
    let answer = Prepared {
        shared: SharedFields::h1(developer_page::FIELDS.as_bytes()),
        content_length: Some(page.len() as u64),
        body: PreparedBody::Bytes(&page),
        ..Prepared::empty(500)
    };
    exchange.prepared(&answer, None);
    journal.answered(began, head, &answer, exchange);
    true
}

/// Responds to a request of a site that could not be loaded when the server started: with the
/// errors for its developer, with status 503 for others.
#[cold]
fn answer_unloaded(
    site: &SiteGeneration,
    developer: Option<Developer>,
    began: Option<Beginning>,
    head: &RequestHead<'_>,
    work: &mut RequestBuffers,
    journal: &mut Journal,
    exchange: &mut Exchange<'_>,
) {
    let archive = site.generation.archive();
    let failure = developer.and_then(|_| site.generation.failure());
    let answer = match &failure {
        Some(failure) => Prepared {
            shared: SharedFields::h1(TEXT_FIELDS),
            content_length: Some(failure.text.len() as u64),
            body: PreparedBody::Bytes(failure.text.as_bytes()),
            ..Prepared::empty(500)
        },
        None => error_for(503, &archive, head, work),
    };
    exchange.prepared(&answer, None);
    journal.answered(began, head, &answer, exchange);
}

impl SiteGeneration {
    /// Returns whether it is of a generation, or has refused it.
    fn has_seen(&self, generation: &Arc<Generation>) -> bool {
        let refused = self.refused.as_ref();
        Arc::ptr_eq(&self.generation, generation)
            || refused.is_some_and(|refused| Arc::ptr_eq(refused, generation))
    }

    /// Returns the latest version of the site that this worker has seen.
    fn version(&self) -> u64 {
        let refused = self.refused.as_ref().map_or(0, |refused| refused.version());
        self.generation.version().max(refused)
    }

    /// Returns the developer who sends a request; `None` for any other client, and without `--dev`.
    #[inline]
    fn developer(&self, head: &RequestHead<'_>, exchange: &mut Exchange<'_>) -> Option<Developer> {
        if !self.generation.shows_errors() {
            return None;
        }
        Developer::of(self.version(), head, exchange.peer())
    }

    fn is_broken(&self) -> bool {
        self.scripted.as_ref().is_some_and(Scripted::is_broken)
    }
}

/// Reports that a script that was proven does not start in this worker.
#[cold]
fn tell_refused(generation: &Generation, problem: &ScriptProblem, has_earlier: bool) {
    let what = generation.program().map_or("a script", SiteProgram::name);
    match has_earlier {
        true => stderr::line(format_args!(
            "pinion: cannot reload {what} in one worker, keeping the previous version"
        )),
        false => stderr::line(format_args!("pinion: cannot start {what} in one worker")),
    }
    stderr::line(format_args!("pinion: {problem}"));
    for line in problem.stack() {
        stderr::line(format_args!("pinion:   {line}"));
    }
}

/// Shows the developer of a site why its script does not start in this worker.
#[cold]
fn show_refused(earlier: Option<&Arc<Generation>>, next: &Generation, problem: &ScriptProblem) {
    if next.shows_errors() {
        let subject = next.program().map_or("the script", SiteProgram::name);
        let read = |name: &str| next.source_text(name);
        let meanwhile = if earlier.is_some() { Meanwhile::Previous } else { Meanwhile::Nothing };
        let failure = LoadFailure::of_script(subject, &problem.report(), read, meanwhile);
        earlier.map_or(next, |earlier| &**earlier).fail(failure);
    }
}

/// Reports the reason of a response with status 500.
#[cold]
fn tell_damage(
    generation: &Generation,
    work: &RequestBuffers,
    head: &RequestHead<'_>,
    now: Now,
    outdated: bool,
) {
    let damage = work.damage();
    let why: &dyn fmt::Display = match &damage {
        _ if generation.is_damaged() => {
            &"the archive was truncated or its disk failed; every request is answered 500 \
              until a whole archive is loaded (SIGHUP)"
        }
        _ if outdated => {
            &"the file has changed since the folder was built; --watch or SIGHUP takes it up"
        }
        Some(damage) => damage,
        None => &"damage",
    };
    generation.report().tell(now, 500, head.target.raw, why);
}

/// Returns the health response: 200 as long as the server takes requests; 503 as soon as it begins
/// to stop, so that a load balancer chooses another server. Load balancers ask with OPTIONS too,
/// HAProxy unless it is configured otherwise.
#[cold]
pub(crate) fn health(head: &RequestHead<'_>, is_stopping: bool) -> Prepared<'static> {
    let allow = Some(&b"GET, HEAD, OPTIONS"[..]);
    let is_options = head.method == Method::Options;
    if !is_options && !matches!(head.method, Method::Get | Method::Head) {
        return Prepared { allow, ..page::answer(405, ErrorFormat::Text, page::BUILT_IN_FIELDS) };
    }
    let (status, body) = if is_stopping { (503, &b"stopping\n"[..]) } else { (200, &b"ok\n"[..]) };
    Prepared {
        shared: SharedFields::h1(TEXT_FIELDS),
        allow: allow.filter(|_| is_options),
        content_length: Some(body.len() as u64),
        body: PreparedBody::Bytes(body),
        ..Prepared::empty(status)
    }
}

pub(super) const TEXT_FIELDS: &[u8] =
    b"Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n";

/// Returns whether a request that would be redirected is for the challenge of a certificate
/// authority that its site has as a file.
pub(crate) fn has_challenge(
    redirect: &mut Redirect,
    head: &RequestHead<'_>,
    generation: &Generation,
    work: &mut RequestBuffers,
) -> bool {
    let Some(path) = redirect.proof(head) else { return false };
    let is_live = || generation.live().is_some_and(|live| live.has_file(path));
    !generation.is_damaged() && (has_file(&generation.archive(), path, work) || is_live())
}

/// Returns the response when no site responds for the host (RFC 9110 §15.5.20).
#[cold]
pub(crate) fn misdirected(head: &RequestHead<'_>) -> Prepared<'static> {
    let error_format = preferred_error_format(head.values(KnownField::Accept));
    page::answer(421, error_format, page::BUILT_IN_FIELDS)
}

/// Returns the response to a request that says https on a connection that is not encrypted
/// (RFC 9110 §7.4).
#[cold]
fn unencrypted_https<'x>(
    archive: &Archive<'x>,
    head: &RequestHead<'x>,
    work: &'x mut RequestBuffers,
) -> Prepared<'x> {
    let error_format = preferred_error_format(head.values(KnownField::Accept));
    error_in_format_for(421, error_format, archive, head, work)
        .with_built_in_page(page::unencrypted_https_page(error_format))
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
                let Self { gateway, dynamic, journal, .. } = self;
                if !gateway.event(&event, journal, exchange) {
                    dynamic.event(&event, journal, exchange);
                }
            }
        }
        self.dynamic.flush(&mut exchange.connections());
        self.flush_gateway(&mut exchange.connections());
    }

    fn raw(&mut self, event: RawEvent<'_>, stream: &mut RawStream<'_>) {
        match stream.tag() {
            Some(tag) if StoreClients::is_of_store(tag) => {
                if let Some(store) = &mut self.store {
                    store.raw(event, stream);
                }
            }
            Some(tag) if Gateway::is_of_upstream(tag) => {
                self.gateway.raw(&event, stream);
                self.flush_gateway(&mut stream.connections());
            }
            Some(tag) if Gateway::is_of_python(tag) => {
                self.gateway.raw_of_python(&event, &mut self.journal, stream);
                self.flush_gateway(&mut stream.connections());
            }
            Some(tag) if Gateway::is_of_script(tag) => {
                self.gateway.raw_of_script(&event, stream);
                self.flush_gateway(&mut stream.connections());
            }
            Some(_) => self.dynamic.raw(&event, stream),
            None => {
                let store = self.store.as_mut();
                let is_of_store = matches!(event, RawEvent::Open)
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
        self.journal.pass();
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
        self.gateway.pass(&mut self.journal, connections);
        self.follow_redirects(connections);
    }

    #[inline]
    fn pass_end(&mut self, connections: &mut Connections<'_>) {
        self.gateway.pass_end(&mut self.journal, connections);
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
            None => page::BUILT_IN_FIELDS,
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
            None => page::answer(status, request.error_format, page::BUILT_IN_FIELDS),
        }
    }

    fn answered(&mut self, connection: Address, answer: OwnAnswer) {
        self.journal.engine_answered(connection, answer);
    }

    fn flooded(&mut self, _connection: Address) {
        self.journal.flooded();
    }

    fn connection_refused(&mut self, peer: SocketAddr, now: Now) {
        self.journal.connection_refused(peer, now);
    }

    #[inline]
    fn sent(&mut self, connection: Address) {
        self.journal.left(connection, 0);
    }

    fn dropped(&mut self, exchange: Address, bytes: u64) {
        self.journal.dropped(exchange, bytes);
    }

    #[cold]
    fn ended(&mut self, number: NonZeroU32) {
        self.access.ended(number);
    }

    fn closed(&mut self, connection: Address, unsent_bytes: u64) {
        self.journal.left(connection, unsent_bytes);
    }
}
