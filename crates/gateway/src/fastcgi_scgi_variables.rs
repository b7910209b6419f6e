//! Makes the variables of a request for an application that speaks FastCGI or SCGI (RFC 3875 §4.1).

use pinion_client::http_client::request::{
    ClientRequest, ForwardedRequest, OwnedFields, RequestBody, ServerProtocol,
};
use pinion_http::cgi::variables::{
    RequestVariables, ScriptVariables, ServerVariables, VariableScratch,
};
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::grammar::hex_digit;
use pinion_http::h1::client::request_writer::RequestContent;
use pinion_http::method::Method;
use pinion_http::request_head::{Framing, RequestHead};

use crate::field_changes::FieldChanges;
use crate::field_forwarding::FieldClass;
use crate::path_prefix::PathPrefix;
use crate::proxy_error::ProxyError;
use crate::request_forwarding::has_dot_segment;
use crate::script_location::{LocatedScript, ScriptFolder, ScriptLocation};
use crate::upstream::{Upstream, UpstreamProtocol};
use crate::upstream_group::UpstreamGroup;

/// The options of an application that speaks FastCGI or SCGI, beside the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramOptions {
    /// The target of the application in the paths of the site.
    pub target: ProgramTarget,
    /// Whether it gets `Authorization`.
    pub passes_authorization: bool,
    /// Variables that the operator has added. They replace those of the same name.
    pub variables: AddedVariables,
}

/// Names and values of variables.
pub type AddedVariables = Vec<(Box<str>, Box<str>)>;

/// The target of an application in the paths of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramTarget {
    /// It is one program, which has all paths below this one: `SCRIPT_NAME` is the path of the
    /// mount, and `PATH_INFO` is the rest.
    Application(PathPrefix),
    /// It runs scripts of a folder.
    Scripts(ScriptFolder),
}

/// The value of `SERVER_SOFTWARE`.
pub(crate) const SOFTWARE: &str = concat!("Pinion/", env!("CARGO_PKG_VERSION"));

/// Bytes of the variables beside those of the fields and the paths, about.
const OWN_VARIABLES_BYTES: usize = 512;

/// Variables beside those of the fields.
const OWN_VARIABLES: usize = 24;

/// Makes the request that is sent to an application.
///
/// # Errors
/// There is no script for the path, or its path could be read in two ways, or the method is for the
/// connection only.
pub fn forward_to_program(
    upstream: &Upstream,
    group: &UpstreamGroup,
    options: &ProgramOptions,
    head: &RequestHead<'_>,
    client: &ClientIdentity,
) -> Result<ClientRequest, ProxyError> {
    if matches!(head.method, Method::Connect | Method::Trace) {
        return Err(ProxyError::Method);
    }
    if head.protocol.is_some() {
        return Err(ProxyError::Protocol);
    }
    if has_dot_segment(head.target.path) {
        return Err(ProxyError::DotSegment);
    }
    let method = std::str::from_utf8(head.method_token).map_err(|_| ProxyError::Method)?;
    let (script, folder) = match &options.target {
        ProgramTarget::Application(mount) => (application(mount, head.target.path)?, None),
        ProgramTarget::Scripts(folder) => (script_of(folder, head)?, Some(folder)),
    };
    let variables = variables(&script, folder, group, options, head, client);
    let protocol = match upstream.protocol {
        UpstreamProtocol::FastCgi { keep_connections } => {
            ServerProtocol::FastCgi { variables, keep_connection: keep_connections > 0 }
        }
        UpstreamProtocol::Http | UpstreamProtocol::Scgi => ServerProtocol::Scgi(variables),
    };
    let content = match head.framing {
        Framing::None => RequestBody::Whole(upstream.no_content.clone()),
        Framing::Length(bytes) => RequestBody::Pieces { length: Some(bytes) },
        Framing::Chunked | Framing::Frames => RequestBody::Pieces { length: None },
    };
    Ok(ClientRequest {
        site: upstream.number,
        method: method.into(),
        url: upstream.url.clone(),
        fields: OwnedFields::default(),
        content,
        policy: upstream.policy.clone(),
        tls: None,
        timeout_ms: upstream.timeout_ms,
        redirects_max: 0,
        content_max_bytes: u64::MAX,
        forwarded: Some(ForwardedRequest {
            authority: Box::default(),
            target: Box::default(),
            accepts_trailers: false,
            upgrade: None,
            connect_timeout_ms: group.connect_timeout_ms(),
            waits_for_socket: upstream.waits_for_socket,
        }),
        protocol,
        connections: upstream.connection_limits(),
    })
}

/// Returns the paths of a request to one program.
pub(crate) fn application(mount: &PathPrefix, path: &[u8]) -> Result<LocatedScript, ProxyError> {
    let rest = mount.rest(path).ok_or(ProxyError::OtherPath)?;
    let path_info = percent_decoded(rest).ok_or(ProxyError::Path)?;
    let name = percent_decoded(mount.as_str().as_bytes()).ok_or(ProxyError::Path)?;
    Ok(LocatedScript { name, path_info })
}

fn script_of(folder: &ScriptFolder, head: &RequestHead<'_>) -> Result<LocatedScript, ProxyError> {
    let (path, query) = (head.target.path, head.target.query);
    let located = folder.locate(path).map_err(|error| ProxyError::ScriptFolder {
        path: folder.root.clone(),
        error: error.to_string().into(),
    })?;
    match located {
        ScriptLocation::Script(script) => Ok(script),
        ScriptLocation::MissingSlash => Err(ProxyError::MissingSlash {
            path: [path, b"/"].concat().into(),
            query: query.map(Box::from),
        }),
        ScriptLocation::NotFound => Err(ProxyError::NoScript),
    }
}

/// Decodes percent escapes once. Returns `None` for an escape without two hexadecimal digits, and
/// for a NUL byte, which neither a variable nor the name of a file can have.
#[must_use]
pub fn percent_decoded(path: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    loop {
        let byte = match rest {
            [] => return Some(decoded),
            [b'%', high, low, behind @ ..] => {
                rest = behind;
                hex_digit(*high)? << 4 | hex_digit(*low)?
            }
            [b'%', ..] => return None,
            [byte, behind @ ..] => {
                rest = behind;
                *byte
            }
        };
        if byte == 0 {
            return None;
        }
        decoded.push(byte);
    }
}

fn variables(
    script: &LocatedScript,
    folder: Option<&ScriptFolder>,
    group: &UpstreamGroup,
    options: &ProgramOptions,
    head: &RequestHead<'_>,
    client: &ClientIdentity,
) -> OwnedFields {
    let filename = folder.map(|folder| folder.filename(script)).unwrap_or_default();
    let (name, port) = server(head, client);
    let own = options.variables.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let mut added: Vec<(&[u8], &[u8])> = own.collect();
    if folder.is_some() && !added.iter().any(|(name, _)| *name == b"REDIRECT_STATUS") {
        // php-cgi wants it: the server has found the script, and not the client.
        added.push((b"REDIRECT_STATUS", b"200"));
    }
    let request = RequestVariables {
        head,
        client: *client,
        server: ServerVariables { name: &name, port, software: SOFTWARE.as_bytes() },
        script: ScriptVariables {
            document_root: folder.map_or(b"", |folder| &folder.application_root),
            filename: &filename,
            name: &script.name,
            path_info: &script.path_info,
        },
        content: match head.framing {
            Framing::None => RequestContent::Length(0),
            Framing::Length(bytes) => RequestContent::Length(bytes),
            Framing::Chunked | Framing::Frames => RequestContent::Chunked,
        },
        passes_authorization: options.passes_authorization,
        added: &added,
    };
    let field_bytes: usize =
        head.fields.iter().map(|field| field.name.len() + field.value.len()).sum();
    let path_bytes = 2 * (head.target.raw.len() + filename.len());
    let bytes = field_bytes + path_bytes + OWN_VARIABLES_BYTES;
    let mut variables = OwnedFields::with_capacity(head.fields.len() + OWN_VARIABLES, bytes);
    let changes = &group.options.request_fields;
    let Ok(()) = request.visit::<std::convert::Infallible>(
        &mut VariableScratch::default(),
        |name, value| {
            if is_passed(name, changes) {
                variables.push(name, value);
            }
            Ok(())
        },
    );
    set_fields(changes, &mut variables);
    variables
}

/// Returns whether a variable is passed on: not one of a field by which proxies name the client or
/// the requested resource, nor of one that the operator sets or removes.
pub(crate) fn is_passed(name: &[u8], changes: &FieldChanges) -> bool {
    match name.strip_prefix(b"HTTP_") {
        None | Some(b"HOST") => true,
        Some(field) => FieldClass::of(field) == FieldClass::Other && !changes.replace(field),
    }
}

/// Adds the fields that the operator sets.
fn set_fields(changes: &FieldChanges, variables: &mut OwnedFields) {
    for field in changes.set_fields() {
        let upper = field.name.iter().map(|byte| match byte {
            b'-' => b'_',
            byte => byte.to_ascii_uppercase(),
        });
        let name: Vec<u8> = b"HTTP_".iter().copied().chain(upper).collect();
        variables.push(&name, field.value);
    }
}

/// Returns the host that the client has asked for and its port. The site was chosen by that host.
pub(crate) fn server(head: &RequestHead<'_>, client: &ClientIdentity) -> (Vec<u8>, u16) {
    let default_port = if client.is_secured { 443 } else { 80 };
    let authority = head.authority.unwrap_or(b"localhost");
    let behind_brackets = authority.iter().rposition(|byte| *byte == b']').map_or(0, |at| at + 1);
    let colon =
        authority.iter().rposition(|byte| *byte == b':').filter(|at| *at >= behind_brackets);
    let (host, port) = match colon.and_then(|at| authority.split_at_checked(at)) {
        Some((host, port)) => (host, std::str::from_utf8(port.get(1..).unwrap_or_default())),
        None => (authority, Ok("")),
    };
    let port = port.ok().and_then(|digits| digits.parse().ok()).unwrap_or(default_port);
    (host.to_ascii_lowercase(), port)
}

#[cfg(test)]
mod tests;
