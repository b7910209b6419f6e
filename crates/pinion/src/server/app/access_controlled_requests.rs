//! Handles requests of sites with access rules: the checks before any part of the site responds.

use super::SitesApp;
use super::site_requests::{SiteRequest, SiteResponders};
use super::worker_sites::SiteGeneration;
use crate::server::access::password_verification::{ResumedRequest, WaitingRequest};
use crate::server::access::path_scope::PathReadings;
use crate::server::access::request_authorization::{AccessVerdict, GateRefusal};
use crate::server::access::rules::{AccessRules, RuleSet};
use crate::server::extended_connect::fallback_for;
use crate::server::request_log::{Beginning, RequestLog};
use crate::server::store::StoreClients;
use pinion_engine::app::Event;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_http::field::Field;
use pinion_http::owned_head::OwnedRequestHead;
use pinion_http::prepared_response::{Prepared, SharedFields};
use pinion_http::request_head::{RequestHead, RequestIdentity};
use pinion_http::request_target::Form;
use pinion_lua::worker_scripts::Offer;
use pinion_site::{RequestBuffers, error_for, generated_fields};
use std::sync::Arc;

impl SiteResponders<'_> {
    /// Responds to a request if every rule of the site that covers its path admits it.
    pub(super) fn checked_request(
        self,
        site: &SiteGeneration,
        mut request: SiteRequest<'_>,
        head: &RequestHead<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        // A request that says https where nothing is encrypted gets status 421 and nothing else.
        let Some(rules) = site.generation.access().filter(|_| !request.is_unsecured) else {
            return self.admitted_request(site, request, head, exchange);
        };
        // One that was held has its number already.
        let known = head.request_id().map(Into::into);
        let id = known.or_else(|| rules.gives_request_ids.then(|| self.access.next_id()));
        let identity = RequestIdentity { user: None, id };
        let head = RequestHead { identity: Some(&identity), ..*head };
        let asked = rules.covering(&PathReadings::of_sent(head.target.path));
        request.checked.get_or_insert_default();
        self.check(site, asked, request, &head, exchange);
    }

    /// Continues a request if these rules admit it.
    pub(super) fn check(
        self,
        site: &SiteGeneration,
        asked: RuleSet,
        mut request: SiteRequest<'_>,
        head: &RequestHead<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        let Some(rules) = site.generation.access() else { return };
        let head = request.sent.unwrap_or(head);
        let mut checked = request.checked.take().unwrap_or_default();
        let began = request.began;
        let Self { work, request_log, .. } = self;
        let client = request.client;
        match self.access.check(rules, asked, &mut checked, (&client, head), exchange) {
            AccessVerdict::Admitted => {}
            AccessVerdict::Refused(refusal) => {
                return refuse(site, &refusal, began, head, (work, request_log), exchange);
            }
            AccessVerdict::Preflight(fields) => {
                return respond_to_preflight(site, &fields, began, head, request_log, exchange);
            }
            AccessVerdict::Unverified(one) => {
                let waiting = WaitingRequest {
                    head: OwnedRequestHead::new(head),
                    site: site.id,
                    client,
                    began,
                    is_oversized: request.is_oversized,
                    rules: Arc::clone(rules),
                    checked,
                };
                if let Err(refusal) = self.access.verify(one, waiting, exchange) {
                    refuse(site, &refusal, began, head, (work, request_log), exchange);
                }
                return;
            }
        }
        let id = head.request_id().map(Into::into);
        let identity = RequestIdentity { user: checked.user.clone(), id };
        request.checked = Some(checked);
        let responders = Self { work, request_log, ..self };
        if site.passes_heads_on() && identity != RequestIdentity::default() {
            let owned = passed_on(head, identity);
            let request = SiteRequest { sent: Some(head), ..request };
            responders.admitted_request(site, request, &owned.head(), exchange);
        } else {
            let head = RequestHead { identity: Some(&identity), ..*head };
            responders.admitted_request(site, request, &head, exchange);
        }
    }

    fn admitted_request(
        self,
        site: &SiteGeneration,
        request: SiteRequest<'_>,
        head: &RequestHead<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        if request.is_oversized {
            self.oversized_request(site, request, head, exchange);
        } else {
            self.dynamic_request(site, request, head, exchange);
        }
    }

    /// Responds to a request that announces more content than is allowed: by a handler or another
    /// server, which may allow more, and otherwise with status 413.
    #[cold]
    fn oversized_request(
        self,
        site: &SiteGeneration,
        request: SiteRequest<'_>,
        head: &RequestHead<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        let Self { work, dynamic, gateway, access, request_log, pages } = self;
        let (client, began) = (request.client, request.began);
        if let Some(mount) = site.generation.mount_before_files_and_rules(head, work) {
            let responders = Self { work, dynamic, gateway, access, request_log, pages };
            return responders.forward(site, mount, request, head, exchange);
        }
        if let Some(scripted) = &site.scripted
            && let Offer::Handler(found) = dynamic.offer(scripted, head)
        {
            let who = (&client, site.developer(head, exchange));
            return dynamic.begin(scripted, Some(found), head, who, request_log, exchange);
        }
        // As for content that fits: a path that the site has for a GET is not forwarded.
        if head.target.form != Form::Asterisk
            && let Some(mount) = fallback_for(&site.generation, head, exchange.now(), work, gateway)
        {
            let responders = Self { work, dynamic, gateway, access, request_log, pages };
            return responders.forward(site, mount, request, head, exchange);
        }
        let response = error_for(413, &site.generation.archive(), head, work);
        request_log.respond(&response, Some(site.mapping), began, head, exchange);
    }
}

impl SiteGeneration {
    /// Returns whether something gets the heads of requests that is not this server.
    fn passes_heads_on(&self) -> bool {
        self.scripted.is_some() || !self.generation.mounts().is_empty()
    }
}

/// Copies a head for scripts and other servers: without a password that was checked here, and with
/// the number of the request, if it has one.
fn passed_on(head: &RequestHead<'_>, identity: RequestIdentity) -> OwnedRequestHead {
    let is = |field: &Field<'_>, name: &[u8]| field.name.eq_ignore_ascii_case(name);
    let keep = |field: &Field<'_>| {
        let is_password = identity.user.is_some() && is(field, b"authorization");
        let is_number = identity.id.is_some() && is(field, b"x-request-id");
        !is_password && !is_number
    };
    let id = identity.id.as_deref().map(str::as_bytes);
    let added = id.map(|value| Field { name: b"X-Request-Id", value });
    let mut owned = OwnedRequestHead::with_fields(head, keep, added.as_slice());
    owned.set_identity(identity);
    owned
}

/// Responds to a request that is not admitted, with the page of its status.
#[cold]
fn refuse(
    site: &SiteGeneration,
    refusal: &GateRefusal,
    began: Option<Beginning>,
    head: &RequestHead<'_>,
    (work, request_log): (&mut RequestBuffers, &mut RequestLog),
    exchange: &mut Exchange<'_>,
) {
    let response = error_for(refusal.status, &site.generation.archive(), head, work);
    exchange.add_fields(refusal.fields.as_bytes());
    request_log.respond(&response, Some(site.mapping), began, head, exchange);
}

/// Responds to a preflight request of a browser with the permissions of pages of other origins.
#[cold]
fn respond_to_preflight(
    site: &SiteGeneration,
    fields: &str,
    began: Option<Beginning>,
    head: &RequestHead<'_>,
    request_log: &mut RequestLog,
    exchange: &mut Exchange<'_>,
) {
    let shared = SharedFields::h1(generated_fields(&site.generation.archive()).h1);
    exchange.add_fields(fields.as_bytes());
    let response = Prepared { shared, ..Prepared::empty(204) };
    request_log.respond(&response, None, began, head, exchange);
}

impl SitesApp {
    /// Takes an event of a request that waits for the verification of its password. Returns false
    /// for any other request.
    pub(super) fn holds(&mut self, event: &Event<'_>, exchange: &mut Exchange<'_>) -> bool {
        match self.access.event(event, exchange) {
            None => false,
            Some(None) => true,
            Some(Some(resumed)) => {
                self.resume_one(resumed, exchange);
                true
            }
        }
    }

    /// Continues requests whose passwords were verified.
    #[cold]
    pub(super) fn resume(
        &mut self,
        resumed: Vec<ResumedRequest>,
        connections: &mut Connections<'_>,
    ) {
        for request in resumed {
            if let Some(mut exchange) = connections.exchange(request.address) {
                self.resume_one(request, &mut exchange);
            }
        }
        self.dynamic.flush(connections);
        self.flush_gateway(connections);
    }

    #[cold]
    fn resume_one(&mut self, resumed: ResumedRequest, exchange: &mut Exchange<'_>) {
        let ResumedRequest { request: waiting, outcome, .. } = resumed;
        let WaitingRequest { head, site, client, began, is_oversized, rules, checked } = waiting;
        let sites = self.serving.iter().flat_map(|serving| &serving.sites);
        let Some(site) = sites.into_iter().find(|known| known.id == site) else {
            // The site was taken out of the configuration meanwhile.
            return exchange.abort();
        };
        let Self { work, dynamic, gateway, access, request_log, store, .. } = self;
        let pages = store.as_mut().map(StoreClients::pages);
        let head = head.head();
        if let Err(refusal) = outcome {
            if refusal.is_client_left() {
                exchange.abort();
                return request_log.record(
                    began,
                    &head,
                    &Prepared::empty(refusal.status),
                    exchange,
                );
            }
            return refuse(site, &refusal, began, &head, (work, request_log), exchange);
        }
        // Results by rules that are no longer in force do not count, except for limits.
        let checked = Some(match site.generation.access() {
            Some(now) if Arc::ptr_eq(now, &rules) => checked,
            Some(now) => checked.reloaded(&rules, now),
            None => checked.reloaded(&rules, &AccessRules::default()),
        });
        let request =
            SiteRequest { is_oversized, checked, ..SiteRequest::new(began, client, false) };
        let responders = SiteResponders { work, dynamic, gateway, access, request_log, pages };
        responders.checked_request(site, request, &head, exchange);
    }
}
