//! The scope of a request for an ASGI application.

use pinion_http::field::is_same_name;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::python::asgi_scope::{Scope, ScopeProtocol};
use pinion_http::python::environ::Environ;
use pinion_http::request_head::{Framing, RequestHead};
use pinion_http::websocket::handshake::WebSocketRequest;

use super::python_app::PythonApp;
use super::python_failure::PythonFailure;
use crate::fastcgi_scgi_variables::{application, server};
use crate::field_forwarding::{FieldClass, ListedNames};
use crate::proxy_error::ProxyError;
use crate::request_forwarding::has_dot_segment;
use crate::script_location::LocatedScript;

/// Bytes of a scope beside those of the fields and the paths, about.
const OWN_BYTES: usize = 384;

/// Bytes of a field beside its name and its value.
const FIELD_BYTES: usize = 12;

/// Returns the scope of an HTTP request.
///
/// # Errors
/// The path is not one of the application, or the request has too many fields.
pub(super) fn http_scope(
    app: &PythonApp,
    client: &ClientIdentity,
    head: &RequestHead<'_>,
) -> Result<Environ, ProxyError> {
    scope(app, client, head, ScopeProtocol::Http { method: head.method_token })
}

/// Returns the scope of a WebSocket.
///
/// # Errors
/// The errors of the scope of a request, above.
pub(super) fn websocket_scope(
    app: &PythonApp,
    client: &ClientIdentity,
    head: &RequestHead<'_>,
    websocket: &WebSocketRequest<'_>,
) -> Result<Environ, ProxyError> {
    let subprotocols: Vec<&[u8]> = websocket.subprotocols().collect();
    scope(app, client, head, ScopeProtocol::WebSocket { subprotocols: &subprotocols })
}

fn scope(
    app: &PythonApp,
    client: &ClientIdentity,
    head: &RequestHead<'_>,
    protocol: ScopeProtocol<'_>,
) -> Result<Environ, ProxyError> {
    if has_dot_segment(head.target.path) {
        return Err(ProxyError::DotSegment);
    }
    let LocatedScript { name: root_path, path_info } = application(&app.mount, head.target.path)?;
    let path = [&*root_path, &*path_info].concat();
    let (host, port) = server(head, client);
    let scope = Scope {
        protocol,
        version: head.version,
        is_secured: client.is_secured,
        path: &path,
        raw_path: head.target.path,
        query: head.target.query.unwrap_or_default(),
        root_path: &root_path,
        client: client.peer,
        server: (&host, port),
    };
    let listed = ListedNames::of(head.fields.iter());
    let is_chunked = head.framing == Framing::Chunked;
    let fields = head.fields.iter().filter(|field| {
        is_passed(field.name, app.passes_authorization, is_chunked)
            && (!listed.contain(field.name) || is_same_name(field.name, "Content-Length"))
    });
    let field_bytes: usize =
        head.fields.iter().map(|field| field.name.len() + field.value.len() + FIELD_BYTES).sum();
    let mut environ = Environ::with_capacity(field_bytes + 2 * head.target.raw.len() + OWN_BYTES);
    let written = scope.write(head.authority, fields, &mut environ);
    written.map_err(|error| ProxyError::Python {
        app: app.name.clone(),
        failure: Box::new(PythonFailure::Variables(error)),
    })?;
    Ok(environ)
}

/// Returns whether an application gets a field: not one of the connection, nor one by which proxies
/// name the client and its request. Frameworks turn names into variables, in which an underscore is
/// the same as a hyphen, so none of a client is passed on.
fn is_passed(name: &[u8], passes_authorization: bool, is_chunked: bool) -> bool {
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    if name.contains(&b'_') {
        return false;
    }
    match FieldClass::of(name) {
        // Some applications see by it that there is content.
        FieldClass::Connection => is_chunked && is("Transfer-Encoding"),
        FieldClass::Framing => is("Content-Length"),
        FieldClass::Origin => false,
        FieldClass::Date | FieldClass::Host => true,
        FieldClass::Other => passes_authorization || !is("Authorization"),
    }
}
