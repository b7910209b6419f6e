//! The settings of a server that its responses depend on, beside its sites.

use super::listener::ChosenListener;
use super::request::WhyRequest;
use crate::failure::Failure;
use crate::listen_address::Address;
use crate::server::https_redirect::Leads;
use crate::server::listeners::{Bound, BoundQuic};
use crate::server::tls::redirect_origin;
use crate::settings::{AltSvc, HealthCheck, Listen, Serve};
use pinion_engine::listener::local_address;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The settings, for explanations.
#[derive(Debug)]
pub(crate) struct ServerSettings {
    /// `None` for a server that is not started and has only a source: a client finds one for the
    /// scheme of its URL.
    pub(super) listeners: Option<Vec<Listen>>,
    pub(super) health: Option<HealthCheck>,
    pub(super) acme_webroot: Option<Arc<Path>>,
    pub(super) server_name: Option<String>,
    pub(super) hsts: Option<String>,
    pub(super) alt_svc: AltSvc,
    /// Where listeners that redirect to HTTPS lead; none if there is no such listener, or if the
    /// explained request does not come to it.
    pub(super) redirect_origin: Option<Arc<str>>,
}

impl ServerSettings {
    fn new(serve: &Serve, listeners: Option<Vec<Listen>>, origin: Option<Arc<str>>) -> Self {
        let webroot = serve.tls.acme_webroot.as_ref();
        Self {
            listeners,
            health: serve.health.clone(),
            acme_webroot: webroot.map(|webroot: &PathBuf| webroot.as_path().into()),
            server_name: serve.server_name.clone(),
            hsts: serve.tls.hsts.clone(),
            alt_svc: serve.tls.alt_svc.clone(),
            redirect_origin: origin,
        }
    }

    /// Returns whether no listener has responses to explain.
    pub(crate) fn is_store_only(&self) -> bool {
        self.listeners.iter().any(|all| all.iter().all(|listen| listen.kind.is_store()))
    }

    /// Returns the settings of a server that is not started, for one request.
    ///
    /// # Errors
    /// The certificate that names the host of redirects cannot be read.
    pub(super) fn of_plan(
        serve: &Serve,
        is_configured: bool,
        request: &WhyRequest,
    ) -> Result<Self, Failure> {
        let mut settings = Self::new(serve, is_configured.then(|| serve.listen.clone()), None);
        if ChosenListener::of(&settings, request).is_redirect() {
            settings.redirect_origin = redirect_origin(serve)?.map(Into::into);
        }
        Ok(settings)
    }

    /// Returns the settings of a server whose sockets are bound.
    pub(crate) fn of_server(
        serve: &Serve,
        listeners: &[Bound],
        quic: &[BoundQuic],
        leads: Option<&Leads>,
    ) -> Self {
        let of_tcp = listeners.iter().map(|bound| bound_listener(&bound.listen, &bound.socket));
        let of_quic = quic.iter().filter_map(|bound| {
            let socket = bound.sockets.first()?;
            Some(bound_listener(&bound.listen, socket))
        });
        let origin = leads.map(|leads| Arc::clone(&leads.origin));
        Self::new(serve, Some(of_tcp.chain(of_quic).collect()), origin)
    }
}

/// Returns a listener with the address that it has, if the configuration leaves the port open.
fn bound_listener(listen: &Listen, socket: &OwnedFd) -> Listen {
    let mut listen = listen.clone();
    let is_open = match &listen.address {
        Address::Inherited(_) => true,
        address => address.port() == Some(0),
    };
    if let (true, Some(address)) = (is_open, local_address(socket)) {
        listen.address = Address::Ip(address);
    }
    listen
}
