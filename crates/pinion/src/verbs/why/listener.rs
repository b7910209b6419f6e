//! Which listener a client connects to, and the headers that every response of it has.

use super::request::WhyRequest;
use crate::server::run::{alt_svc_of, fields};
use crate::settings::{AltSvc, Listen, ListenKind, Serve};
use pinion_http::date::{self, UnixSeconds};

/// The listener that a request comes to.
pub(super) struct ChosenListener<'s> {
    /// None without a configuration: then it is one for the scheme of the URL.
    pub(super) listen: Option<&'s Listen>,
    is_secured: bool,
    /// What is remarkable about it.
    pub(super) note: Option<String>,
}

impl<'s> ChosenListener<'s> {
    /// Chooses the listener with the scheme and the port of a URL. Without one, it is the first of
    /// the scheme, since a proxy or a port mapping may be before the server.
    pub(super) fn of(serve: &'s Serve, is_configured: bool, request: &WhyRequest) -> Self {
        let is_secured = request.is_secured;
        if !is_configured {
            return Self { listen: None, is_secured, note: None };
        }
        let is_of_scheme = |listen: &&Listen| match listen.kind {
            ListenKind::Http | ListenKind::Redirect => !is_secured,
            ListenKind::Tls => is_secured,
            ListenKind::Quic => false,
        };
        let mut of_scheme = serve.listen.iter().filter(is_of_scheme);
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
        let plain = serve.listen.iter().find(|listen| listen.kind == ListenKind::Http);
        let note = match is_secured {
            true => "no listener has TLS; this is the response behind a proxy that has it",
            false => "no listener is without TLS; a client gets no response at this URL",
        };
        let listen = if is_secured { plain } else { None };
        Self { listen, is_secured: false, note: Some(note.to_owned()) }
    }

    /// Whether it redirects to HTTPS.
    pub(super) fn is_redirect(&self) -> bool {
        self.listen.is_some_and(|listen| listen.kind == ListenKind::Redirect)
    }

    /// The name of its kind.
    pub(super) fn kind_name(&self) -> &'static str {
        match self.listen.map(|listen| listen.kind) {
            Some(ListenKind::Tls | ListenKind::Quic) => "tls",
            Some(ListenKind::Redirect) => "redirect",
            Some(ListenKind::Http) | None => "http",
        }
    }

    /// Returns the lines that every response of it has, and the blank line.
    pub(super) fn fields(&self, serve: &Serve, now: UnixSeconds) -> Vec<u8> {
        let mut lines = b"Date: ".to_vec();
        lines.extend_from_slice(&date::format(now));
        lines.extend_from_slice(b"\r\n");
        lines.extend(fields(serve, self.is_secured));
        let tells_http3 = match self.listen {
            Some(listen) => listen.protocols.http3 || serve.tls.alt_svc != AltSvc::Found,
            None => false,
        };
        if self.is_secured && tells_http3 {
            let quic = serve.listen.iter().filter(|listen| listen.kind == ListenKind::Quic);
            let ports = quic.filter_map(|listen| listen.address.port()).collect();
            if let Some(value) = alt_svc_of(&serve.tls.alt_svc, ports) {
                lines.extend_from_slice(format!("Alt-Svc: {value}\r\n").as_bytes());
            }
        }
        lines.extend_from_slice(b"\r\n");
        lines
    }
}
