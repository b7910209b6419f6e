//! The environ of a request for a WSGI application (PEP 3333).

use pinion_http::cgi::variable_error::VariableError;
use pinion_http::cgi::variables::{
    RequestVariables, ScriptVariables, ServerVariables, VariableScratch,
};
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::h1::client::request_writer::RequestContent;
use pinion_http::python::environ::Environ;
use pinion_http::request_head::{Framing, RequestHead};

use super::python_app::PythonApp;
use super::python_failure::PythonFailure;
use crate::fastcgi_scgi_variables::{SOFTWARE, application, is_passed, server};
use crate::field_changes::FieldChanges;
use crate::proxy_error::ProxyError;
use crate::request_forwarding::has_dot_segment;
use crate::script_location::LocatedScript;

/// Bytes of the variables beside those of the fields and the paths, about.
const OWN_VARIABLES_BYTES: usize = 768;

/// Returns the variables of a request.
///
/// # Errors
/// The path is not one of the application, or the request has too many fields.
pub(super) fn environ(
    app: &PythonApp,
    client: &ClientIdentity,
    head: &RequestHead<'_>,
    scratch: &mut VariableScratch,
) -> Result<Environ, ProxyError> {
    if has_dot_segment(head.target.path) {
        return Err(ProxyError::DotSegment);
    }
    let LocatedScript { name: script_name, path_info } = application(&app.mount, head.target.path)?;
    let (server_name, port) = server(head, client);
    let added: Vec<(&[u8], &[u8])> =
        app.variables.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    let request = RequestVariables {
        head,
        client: *client,
        server: ServerVariables { name: &server_name, port, software: SOFTWARE.as_bytes() },
        script: ScriptVariables {
            name: &script_name,
            path_info: &path_info,
            ..ScriptVariables::default()
        },
        content: match head.framing {
            Framing::None => RequestContent::Length(0),
            Framing::Length(bytes) => RequestContent::Length(bytes),
            Framing::Chunked | Framing::Frames => RequestContent::Chunked,
        },
        passes_authorization: app.passes_authorization,
        added: &added,
    };
    let field_bytes: usize =
        head.fields.iter().map(|field| field.name.len() + field.value.len() + 16).sum();
    let bytes = field_bytes + 2 * head.target.raw.len() + OWN_VARIABLES_BYTES;
    let mut environ = Environ::with_capacity(bytes);
    let changes = FieldChanges::default();
    let visited = request.visit(scratch, |name, value| {
        if is_passed(name, &changes) { environ.add(name, value) } else { Ok(()) }
    });
    let scheme: &[u8] = if client.is_secured { b"https" } else { b"http" };
    let visited = visited.and_then(|()| environ.add(b"wsgi.url_scheme", scheme));
    // It may be left out if it is empty (PEP 3333), but WSGI applications rely on it.
    let has_path = !path_info.is_empty() || added.iter().any(|(name, _)| *name == b"PATH_INFO");
    let visited =
        visited.and_then(|()| if has_path { Ok(()) } else { environ.add(b"PATH_INFO", b"") });
    visited.map_err(|error: VariableError| ProxyError::Python {
        app: app.name.clone(),
        failure: Box::new(PythonFailure::Variables(error)),
    })?;
    Ok(environ)
}
