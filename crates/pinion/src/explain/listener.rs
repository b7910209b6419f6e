//! Finds the listener that a client connects to, and the headers that every response of it has.

use super::explanation::ListenerKind;
use super::request::WhyRequest;
use super::server_settings::ServerSettings;
use crate::server::server_threads::{alt_svc_of, fields};
use crate::settings::{AltSvc, Listen, ListenKind};
use pinion_http::date::{self, UnixSeconds};

/// The listener that a request comes to.
pub(super) struct ChosenListener<'s> {
    /// `None` without a configuration: then it is one for the scheme of the URL.
    pub(super) listen: Option<&'s Listen>,
    is_secured: bool,
    /// A remark about it.
    pub(super) note: Option<String>,
}

impl<'s> ChosenListener<'s> {
    /// Chooses the listener with the scheme and the port of a URL. Without one, it is the first of
    /// the scheme, since a proxy or a port mapping may be before the server.
    pub(super) fn of(settings: &'s ServerSettings, request: &WhyRequest) -> Self {
        let is_secured = request.is_secured;
        let Some(listeners) = &settings.listeners else {
            return Self { listen: None, is_secured, note: None };
        };
        let is_of_scheme = |listen: &&Listen| match listen.kind {
            ListenKind::Http | ListenKind::Redirect => !is_secured,
            ListenKind::Tls => is_secured,
            ListenKind::Quic | ListenKind::Store | ListenKind::StoreTls => false,
        };
        let mut of_scheme = listeners.iter().filter(is_of_scheme);
        let at_port = |listen: &&Listen| listen.address.port() == Some(request.port);
        if let Some(listen) = of_scheme.clone().find(at_port) {
            return Self { listen: Some(listen), is_secured, note: None };
        }
        if let Some(listen) = of_scheme.next() {
            let (port, address) = (request.port, &listen.address);
            let note = format!("no listener has port {port}; this is the response at {address}");
            // A path alone names no port.
            let note = request.names_host.then_some(note);
            return Self { listen: Some(listen), is_secured, note };
        }
        let plain = listeners.iter().find(|listen| listen.kind == ListenKind::Http);
        let note = if is_secured {
            "no listener has TLS; this is the response behind a proxy that has it"
        } else {
            "no listener is without TLS; a client gets no response at this URL"
        };
        let listen = if is_secured { plain } else { None };
        Self { listen, is_secured: false, note: Some(note.to_owned()) }
    }

    /// Returns whether it redirects to HTTPS.
    pub(super) fn is_redirect(&self) -> bool {
        self.listen.is_some_and(|listen| listen.kind == ListenKind::Redirect)
    }

    /// Returns the kind of content at it.
    pub(super) fn kind(&self) -> ListenerKind {
        match self.listen.map(|listen| listen.kind) {
            Some(ListenKind::Tls | ListenKind::Quic) => ListenerKind::Tls,
            Some(ListenKind::Redirect) => ListenerKind::Redirect,
            // A store has no responses to explain, so none is chosen.
            Some(ListenKind::Http | ListenKind::Store | ListenKind::StoreTls) | None => {
                ListenerKind::Http
            }
        }
    }

    /// Returns the lines that every response of it has, and the blank line.
    pub(super) fn fields(&self, settings: &ServerSettings, now: UnixSeconds) -> Vec<u8> {
        let mut lines = b"Date: ".to_vec();
        lines.extend_from_slice(&date::format(now));
        lines.extend_from_slice(b"\r\n");
        let (name, hsts) = (settings.server_name.as_deref(), settings.hsts.as_deref());
        lines.extend(fields(name, hsts, self.is_secured));
        let announces_http3 = match self.listen {
            Some(listen) => listen.protocols.http3 || settings.alt_svc != AltSvc::Found,
            None => false,
        };
        if self.is_secured && announces_http3 {
            let listeners = settings.listeners.iter().flatten();
            let quic = listeners.filter(|listen| listen.kind == ListenKind::Quic);
            let ports = quic.filter_map(|listen| listen.address.port()).collect();
            if let Some(value) = alt_svc_of(&settings.alt_svc, ports) {
                lines.extend_from_slice(format!("Alt-Svc: {value}\r\n").as_bytes());
            }
        }
        lines.extend_from_slice(b"\r\n");
        lines
    }
}
