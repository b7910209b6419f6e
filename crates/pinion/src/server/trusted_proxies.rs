//! Proxies that terminate TLS and that name their clients.

use crate::cidr_network::Network;
use pinion_engine::exchange::Exchange;
use pinion_engine::settings::ProxySources;
use pinion_http::forwarded_client::{ClientField, ClientIdentity, ClientIdentityError, identify};
use pinion_http::request_head::RequestHead;
use pinion_http::request_target::Scheme;
use std::net::SocketAddr;

/// The trusted proxies, and the fields that are trusted.
#[derive(Clone, Debug)]
pub(crate) struct TrustedProxies {
    /// Their networks.
    pub(crate) networks: Vec<Network>,
    /// The field that has the address of the client.
    pub(crate) client_field: ClientField,
    /// Whether the host is read, too, that the client has asked a proxy for.
    pub(crate) gives_host: bool,
}

/// A request, and its client.
#[derive(Clone, Copy)]
pub(crate) struct IdentifiedRequest<'h> {
    /// The head with the scheme and the host that the client has asked for.
    pub(crate) head: RequestHead<'h>,
    /// The client.
    pub(crate) client: ClientIdentity,
}

impl TrustedProxies {
    /// Returns the proxies for the engine, if there are any.
    pub(crate) fn sources(&self) -> Option<ProxySources> {
        let networks = self.networks.clone();
        let is_proxy = move |peer| networks.iter().any(|network| network.contains(peer));
        (!self.networks.is_empty()).then(|| ProxySources::new(is_proxy))
    }

    /// Returns the field that has the address of the client.
    pub(crate) fn client_field(&self) -> &ClientField {
        &self.client_field
    }

    /// Returns whether a trusted proxy has an address.
    fn has(&self, peer: Option<SocketAddr>) -> bool {
        self.networks.iter().any(|network| network.contains(peer))
    }

    /// Returns whether a request for an https resource came over an unsecured connection: without
    /// TLS, and not from a trusted proxy (RFC 9110 §7.4).
    #[inline]
    pub(crate) fn is_unsecured(&self, head: &RequestHead<'_>, exchange: &mut Exchange<'_>) -> bool {
        head.target.scheme == Some(Scheme::Https)
            && !exchange.is_secured()
            && !self.has(exchange.socket_peer())
    }

    /// Finds the client of a request, if it has come from a trusted proxy.
    ///
    /// # Errors
    /// The proxy does not say it in a way that can be read.
    #[cold]
    fn identify<'h>(
        &self,
        head: &RequestHead<'h>,
        direct: ClientIdentity,
    ) -> Result<IdentifiedRequest<'h>, ClientIdentityError> {
        let trusts = |peer| self.has(peer);
        let reported = identify(&head.fields, &self.client_field, direct.peer, trusts)?;
        let mut head = *head;
        if let Some(is_secured) = reported.is_secured {
            head.target.scheme = Some(if is_secured { Scheme::Https } else { Scheme::Http });
        }
        if self.gives_host {
            head.authority = reported.host.or(head.authority);
        }
        let is_secured = reported.is_secured.unwrap_or(direct.is_secured);
        Ok(IdentifiedRequest { head, client: ClientIdentity { peer: reported.peer, is_secured } })
    }

    /// Returns the client of a request, and in `slot` the request as the client has sent it if
    /// that is another one.
    ///
    /// # Errors
    /// A trusted proxy does not name its client in a readable form.
    #[inline]
    pub(crate) fn client<'h>(
        &self,
        head: &RequestHead<'h>,
        slot: &mut Option<RequestHead<'h>>,
        exchange: &mut Exchange<'_>,
    ) -> Result<ClientIdentity, ClientIdentityError> {
        let is_secured = exchange.is_secured() || head.target.scheme == Some(Scheme::Https);
        let direct = ClientIdentity { peer: exchange.peer(), is_secured };
        if self.networks.is_empty() || !self.has(direct.peer) {
            return Ok(direct);
        }
        let IdentifiedRequest { head, client } = self.identify(head, direct)?;
        *slot = Some(head);
        Ok(client)
    }
}
