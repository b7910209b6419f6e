//! Requests that need no site: health checks, challenges of certificate authorities, redirects to
//! HTTPS, and hosts without a site.

use super::worker_sites::SiteGeneration;
use crate::server::dispatch::{RequestRoute, ServerResponders};
use crate::server::https_redirect::Redirect;
use crate::server::request_log::{Beginning, RequestLog};
use crate::server::site_generation::Generation;
use pinion_engine::exchange::Exchange;
use pinion_http::error_page::{self, ErrorFormat};
use pinion_http::field::KnownField;
use pinion_http::method::Method;
use pinion_http::negotiate::preferred_error_format;
use pinion_http::prepared_response::{Prepared, PreparedBody, SharedFields};
use pinion_http::request_head::RequestHead;
use pinion_site::{RequestBuffers, has_file};

impl ServerResponders<'_> {
    /// Responds to a request that needs no site.
    #[cold]
    pub(super) fn respond(
        self,
        route: RequestRoute<&SiteGeneration>,
        began: Option<Beginning>,
        head: &RequestHead<'_>,
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) {
        let log = match route {
            RequestRoute::Redirect(site) => site.and_then(|site| site.generation.log()),
            _ => None,
        };
        let mut is_logged = true;
        let response = match (route, self.challenges, self.redirect) {
            (RequestRoute::HealthCheck, _, _) => {
                let response = health(head, exchange.is_stopping());
                // A request with another method than load balancers use is no health check.
                let logs_all = self.health.is_none_or(|check| check.is_logged);
                is_logged = logs_all || response.status == 405;
                response
            }
            (RequestRoute::AcmeChallenge, Some(challenges), _) => challenges.response(),
            (RequestRoute::Redirect(_), _, Some(redirect)) => redirect.response(head),
            _ => misdirected(head),
        };
        let began = began.filter(|_| is_logged).map(|began| began.of_site(log));
        request_log.respond(&response, None, began, head, exchange);
    }
}

/// Returns the health response: 200 as long as the server takes requests; 503 as soon as it begins
/// to stop, so that a load balancer chooses another server. Load balancers ask with OPTIONS too,
/// HAProxy unless it is configured otherwise.
#[cold]
pub(crate) fn health(head: &RequestHead<'_>, is_stopping: bool) -> Prepared<'static> {
    let allow = Some(&b"GET, HEAD, OPTIONS"[..]);
    let is_options = head.method == Method::Options;
    if !is_options && !matches!(head.method, Method::Get | Method::Head) {
        return Prepared {
            allow,
            ..error_page::response(405, ErrorFormat::Text, error_page::BUILT_IN_FIELDS)
        };
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

pub(crate) const TEXT_FIELDS: &[u8] =
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
    error_page::response(421, error_format, error_page::BUILT_IN_FIELDS)
}
