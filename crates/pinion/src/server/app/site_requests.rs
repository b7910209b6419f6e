//! Requests of a site: the order in which its developer page, other servers, its script and its
//! archive may respond.

use super::developer_requests::{respond_unloaded, responds_to_developer};
use super::worker_sites::SiteGeneration;
use crate::server::access::path_scope::PathReadings;
use crate::server::access::request_authorization::{AccessGate, CheckedAccess};
use crate::server::access::rules::{MetRules, RuleSet};
use crate::server::deferred_responses::Dynamic;
use crate::server::dev::Developer;
use crate::server::dev::developer_responses::widened;
use crate::server::extended_connect::fallback_for;
use crate::server::gateway::Gateway;
use crate::server::mounts::{Mount, MountTarget};
use crate::server::not_found_reason::RefusalTrace;
use crate::server::request_log::{Beginning, RequestLog};
use crate::server::site_generation::Generation;
use crate::server::store::WorkerPages;
use pinion_archive::Archive;
use pinion_engine::clock::Now;
use pinion_engine::exchange::Exchange;
use pinion_http::error_page;
use pinion_http::field::KnownField;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::negotiate::preferred_error_format;
use pinion_http::prepared_response::Prepared;
use pinion_http::request_head::RequestHead;
use pinion_lua::worker_scripts::Offer;
use pinion_site::{
    Pieces, RequestBuffers, error_for, error_in_format_for, respond, respond_traced,
};
use std::fmt;

/// The facts about a request of a site before its archive is asked.
pub(super) struct SiteRequest<'r> {
    pub(super) began: Option<Beginning>,
    pub(super) client: ClientIdentity,
    /// It says https on a connection that is not encrypted.
    pub(super) is_unsecured: bool,
    /// Who sends it, if that is the developer of the site.
    pub(super) developer: Option<Developer>,
    /// The offer of the script of the site for other methods.
    pub(super) offer: Offer,
    /// It announces more content than is allowed, unless a handler or another server allows more.
    pub(super) is_oversized: bool,
    /// The results of its access checks, if its site has access rules.
    pub(super) checked: Option<CheckedAccess>,
    /// The head as it was sent, if scripts and other servers get another one.
    pub(super) sent: Option<&'r RequestHead<'r>>,
}

impl SiteRequest<'_> {
    /// Takes the offer of the script of the site for other methods.
    fn take_offer(&mut self) -> Offer {
        std::mem::replace(&mut self.offer, Offer::Nothing)
    }

    pub(super) fn new(
        began: Option<Beginning>,
        client: ClientIdentity,
        is_unsecured: bool,
    ) -> Self {
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
pub(super) struct SiteResponders<'w> {
    pub(super) work: &'w mut RequestBuffers,
    pub(super) dynamic: &'w mut Dynamic,
    pub(super) gateway: &'w mut Gateway,
    pub(super) access: &'w mut AccessGate,
    pub(super) request_log: &'w mut RequestLog,
    /// The pages of the store, if there is one.
    pub(super) pages: Option<WorkerPages<'w>>,
}

impl SiteResponders<'_> {
    /// Responds with the developer page or the script of a site, and otherwise from its archive.
    pub(super) fn dynamic_request(
        self,
        site: &SiteGeneration,
        mut request: SiteRequest<'_>,
        head: &RequestHead<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        let SiteRequest { began, client, is_unsecured, .. } = request;
        let Self { work, dynamic, gateway, access, request_log, pages } = self;
        let developer = site.developer(head, exchange).filter(|_| !is_unsecured);
        if let Some(developer) = developer
            && responds_to_developer(
                site,
                developer,
                (&client, head),
                dynamic,
                request_log,
                exchange,
            )
        {
            return;
        }
        if site.generation.has_no_content() && !is_unsecured {
            return respond_unloaded(site, developer, began, head, work, request_log, exchange);
        }
        if let Some(mount) = site.generation.mount_before_files_and_rules(head, work)
            && !is_unsecured
        {
            let responders = Self { work, dynamic, gateway, access, request_log, pages };
            return responders.forward(site, mount, request, head, exchange);
        }
        request.developer = developer;
        if head.protocol.is_some() && !is_unsecured {
            let mount = fallback_for(&site.generation, head, exchange.now(), work, gateway);
            let responders = Self { work, dynamic, gateway, access, request_log, pages };
            if let Some(mount) = mount {
                return responders.forward(site, mount, request, head, exchange);
            }
            return responders.archive_request(site, request, head, exchange);
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
                    request_log,
                    exchange,
                );
            }
        }
        Self { work, dynamic, gateway, access, request_log, pages }
            .live_request(site, request, head, exchange);
    }

    /// Forwards the request to the servers of a mount, unless an access rule refuses it: one that
    /// covers a path that the script could read in place of the path.
    pub(super) fn forward(
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
        let Self { gateway, access, request_log, .. } = self;
        let (generation, means) = (&site.generation, (access, request_log));
        let heads = (head, request.sent.unwrap_or(head));
        gateway.begin(mount, generation, heads, &request.client, means, exchange);
    }

    /// Responds from the archive of a site.
    #[inline(always)]
    pub(super) fn archive_request(
        self,
        site: &SiteGeneration,
        mut request: SiteRequest<'_>,
        head: &RequestHead<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        let SiteRequest { began, client, is_unsecured, developer, .. } = request;
        let Self { work, dynamic, gateway, access, request_log, pages } = self;
        let (generation, now) = (&*site.generation, exchange.now());
        let archive = generation.archive();
        let (mut pieces, mut traced) = (Pieces::new(), None);
        let fallback = generation.mounts().fallback_for(head.target.path);
        let whole = developer.filter(|developer| developer.wants_page).map(|_| widened(head));
        let asked = whole.as_ref().unwrap_or(head);
        let response = if generation.is_damaged() {
            error_for(500, &archive, head, work)
        } else if is_unsecured {
            request_log.log_refused_https(exchange.socket_peer());
            unencrypted_https(&archive, head, work)
        } else if let Some(checked) = &request.checked {
            let met = MetRules::new(generation.access().map(|rules| &**rules));
            let found = respond_traced(&archive, asked, now.unix_seconds, work, &mut pieces, &met);
            let met = met.get();
            if !met.without(checked.admitted).is_empty() {
                let responders = Self { work, dynamic, gateway, access, request_log, pages };
                return responders.check(site, met, request, head, exchange);
            }
            found
        } else if fallback.is_some() {
            let trace = traced.insert(RefusalTrace::default());
            respond_traced(&archive, asked, now.unix_seconds, work, &mut pieces, &*trace)
        } else {
            respond(&archive, asked, now.unix_seconds, work, &mut pieces)
        };
        let (offer, outdated) = (request.take_offer(), generation.is_outdated(&response));
        if response.status == 404
            && let Some(scripted) = &site.scripted
            && dynamic.missed(scripted, offer, head, (&client, developer), request_log, exchange)
        {
            return;
        }
        if response.status == 404
            && let Some(mount) = fallback
            && !gateway.is_refused_by_rule(&archive, asked, now.unix_seconds, traced.as_ref())
        {
            let responders = Self { work, dynamic, gateway, access, request_log, pages };
            return responders.forward(site, mount, request, head, exchange);
        }
        // A response is large: a reference to the one to be sent is kept.
        let instead;
        let response = if outdated {
            instead = error_for(500, &archive, head, work);
            &instead
        } else {
            &response
        };
        let status = response.status;
        let mut send = |response: &Prepared<'_>| {
            request_log.respond(response, Some(site.mapping), began, head, exchange);
        };
        match developer {
            Some(developer) => developer.adapt(response, send),
            None => send(response),
        }
        if status == 500 {
            report_damage(generation, work, head, now, outdated);
        }
    }
}

/// Reports the reason of a response with status 500.
#[cold]
fn report_damage(
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
    generation.report().report_error(now, 500, head.target.raw, why);
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
        .with_built_in_page(error_page::unencrypted_https_page(error_format))
}
