//! Chooses the route of a request. Every worker and `pinion why` follow this order.

use super::acme::AcmeChallenges;
use super::https_redirect::Redirect;
use crate::settings::HealthCheck;
use pinion_http::request_head::RequestHead;

/// Who responds to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestRoute<S> {
    /// The health check, on every host.
    HealthCheck,
    /// A file with a challenge of a certificate authority, on every host. The file was read
    /// ([`AcmeChallenges::find`]).
    AcmeChallenge,
    /// The redirect to HTTPS. The host may have a site.
    Redirect(Option<S>),
    /// No site responds for the host.
    Misdirected,
    /// The site of the host.
    Site(S),
}

/// The responders that come before sites.
pub(crate) struct ServerResponders<'r> {
    /// `None` without `--health`.
    pub(crate) health: Option<&'r HealthCheck>,
    /// `None` without `--acme-webroot`.
    pub(crate) challenges: Option<&'r mut AcmeChallenges>,
    /// `None` at a listener that does not redirect.
    pub(crate) redirect: Option<&'r mut Redirect>,
}

impl ServerResponders<'_> {
    /// Returns the route of a request. `select` returns the site of its host. `has_challenge`
    /// returns whether the site itself has the challenge of a certificate authority that the
    /// request is for; it is only called at a listener that redirects.
    #[inline(always)]
    pub(crate) fn route<S>(
        &mut self,
        head: &RequestHead<'_>,
        select: impl FnOnce() -> Option<S>,
        has_challenge: impl FnOnce(&mut Redirect, &S) -> bool,
    ) -> RequestRoute<S> {
        let is_for = |check: &HealthCheck| head.target.path == check.path.as_bytes();
        if self.health.is_some_and(is_for) {
            return RequestRoute::HealthCheck;
        }
        if self.challenges.as_mut().is_some_and(|challenges| challenges.find(head)) {
            return RequestRoute::AcmeChallenge;
        }
        let site = select();
        if let Some(redirect) = &mut self.redirect
            && !site.as_ref().is_some_and(|site| has_challenge(redirect, site))
        {
            return RequestRoute::Redirect(site);
        }
        site.map_or(RequestRoute::Misdirected, RequestRoute::Site)
    }
}
