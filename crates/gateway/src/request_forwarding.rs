//! A request as the upstream server gets it (RFC 9110 §7.6).

use std::io::Write as _;

use pinion_client::http_client::request::{
    ClientRequest, ForwardedRequest, OwnedFields, RequestBody, ServerProtocol,
};
use pinion_http::field::{Field, Fields, is_same_name};
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::grammar::is_token;
use pinion_http::method::Method;
use pinion_http::request_head::{Framing, RequestHead};
use pinion_http::request_target::decode_repeatedly;
use pinion_http::version::Version;

use crate::field_changes::FieldChanges;
use crate::field_forwarding::{FieldClass, ListedNames};
use crate::limits::CONNECTION_OPTIONS_MAX;
use crate::path_prefix::PathRewrite;
use crate::proxy_error::ProxyError;
use crate::upstream::{Upstream, UpstreamHost};
use crate::upstream_group::UpstreamGroup;

/// Bytes of the fields that are added to a request, the host that the client asks for apart.
const ADDED_FIELDS_BYTES: usize = 192;

/// Makes the request that is forwarded to a server of a group. `pseudonym` is the name of this
/// server in `Via` (RFC 9110 §7.6.3).
///
/// # Errors
/// The request is not forwarded: it has been here before, its method is for the connection only,
/// or its path could be read in two ways.
pub fn forward(
    upstream: &Upstream,
    group: &UpstreamGroup,
    head: &RequestHead<'_>,
    client: &ClientIdentity,
    pseudonym: &str,
) -> Result<ClientRequest, ProxyError> {
    if matches!(head.method, Method::Connect | Method::Trace) {
        return Err(ProxyError::Method);
    }
    let max_forwards = max_forwards(head)?;
    let listed = ListedNames::of(head.fields.iter());
    if listed.count() > CONNECTION_OPTIONS_MAX {
        return Err(ProxyError::ConnectionOptions);
    }
    if has_dot_segment(head.target.path) {
        return Err(ProxyError::DotSegment);
    }
    let has_been_here = |value: &[u8]| {
        let entries = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        entries.into_iter().any(|entry| entry.ends_with(pseudonym.as_bytes()))
    };
    if head.fields.iter().any(|field| is_same_name(field.name, "Via") && has_been_here(field.value))
    {
        return Err(ProxyError::Loop);
    }
    let method = std::str::from_utf8(head.method_token).map_err(|_| ProxyError::Method)?;
    let content = match head.framing {
        Framing::None => RequestBody::Whole(upstream.no_content.clone()),
        Framing::Length(bytes) => RequestBody::Pieces { length: Some(bytes) },
        Framing::Chunked | Framing::Frames => RequestBody::Pieces { length: None },
    };
    Ok(ClientRequest {
        site: upstream.number,
        method: method.into(),
        url: upstream.url.clone(),
        fields: fields(
            head,
            client,
            pseudonym,
            max_forwards,
            &listed,
            &group.options.request_fields,
        ),
        content,
        policy: upstream.policy.clone(),
        tls: upstream.tls.clone(),
        timeout_ms: upstream.timeout_ms,
        redirects_max: 0,
        content_max_bytes: u64::MAX,
        forwarded: Some(ForwardedRequest {
            authority: authority(upstream, head.authority).into(),
            target: target(head, group.options.path.as_ref())?,
            accepts_trailers: accepts_trailers(head),
            upgrade: upgrade(head),
            connect_timeout_ms: group.connect_timeout_ms(),
            waits_for_socket: false,
        }),
        protocol: ServerProtocol::Http,
        connections: upstream.connection_limits(),
    })
}

/// Returns the value of `Host` for a server. `asked` is the host that the client asks for.
pub(crate) fn authority<'a>(upstream: &'a Upstream, asked: Option<&'a [u8]>) -> &'a [u8] {
    let own = upstream.url.authority().as_bytes();
    match &upstream.host {
        // A client of HTTP/1.0 may name no host.
        UpstreamHost::Client => asked.unwrap_or(own),
        UpstreamHost::Upstream => own,
        UpstreamHost::Fixed(host) => host.as_bytes(),
    }
}

/// Sends a request that was made for one server to another one of its group. `asked` is the host
/// that the client asks for, and a connection has to open within `connect_timeout_ms`.
pub(crate) fn readdress(
    request: &mut ClientRequest,
    to: &Upstream,
    asked: Option<&[u8]>,
    connect_timeout_ms: u64,
) {
    request.site = to.number;
    request.url = to.url.clone();
    request.policy = to.policy.clone();
    request.tls = to.tls.clone();
    request.timeout_ms = to.timeout_ms;
    request.connections = to.connection_limits();
    if let Some(forwarded) = &mut request.forwarded {
        forwarded.authority = authority(to, asked).into();
        forwarded.connect_timeout_ms = connect_timeout_ms;
    }
}

/// Returns path and query, as the client has sent them but for the path of the mount.
fn target(head: &RequestHead<'_>, rewrite: Option<&PathRewrite>) -> Result<Box<[u8]>, ProxyError> {
    let path = head.target.path;
    let rewritten = match rewrite {
        // `OPTIONS *` is about the server.
        Some(rewrite) if path.starts_with(b"/") => {
            Some(rewrite.to_upstream(path).ok_or(ProxyError::OtherPath)?)
        }
        _ => None,
    };
    let path = rewritten.as_deref().unwrap_or(path);
    Ok(match head.target.query {
        None => path.into(),
        Some(query) => [path, query].join(&b'?').into(),
    })
}

/// Returns how often the request may still be forwarded after this server (RFC 9110 §7.6.2). It
/// counts for OPTIONS alone, since TRACE is not forwarded.
fn max_forwards(head: &RequestHead<'_>) -> Result<Option<u64>, ProxyError> {
    if head.method != Method::Options {
        return Ok(None);
    }
    let value = head.fields.get(b"Max-Forwards").and_then(|value| value.utf8_chunks().next());
    match value.and_then(|value| value.valid().parse::<u64>().ok()) {
        None => Ok(None),
        Some(0) => Err(ProxyError::Method),
        Some(left) => Ok(Some(left - 1)),
    }
}

/// Returns whether a request may become a tunnel, such as a WebSocket, if its server agrees.
#[must_use]
pub fn asks_for_tunnel(head: &RequestHead<'_>) -> bool {
    head.protocol.is_some() || upgrade(head).is_some()
}

/// Returns the protocols that the connection may be switched to (RFC 9110 §7.8), such as
/// `websocket`. Only HTTP/1.1 has this, and only a request without content can have it here.
/// Another version of HTTP and TLS would be for the next server, which this one would have to
/// understand.
fn upgrade(head: &RequestHead<'_>) -> Option<Box<str>> {
    let is_whole = head.method == Method::Get && head.framing == Framing::None;
    if head.version != Version::Http11 || !is_whole {
        return None;
    }
    let options = head.fields.all(b"Connection").flat_map(|value| value.split(|b| *b == b','));
    let mut options = options.map(<[u8]>::trim_ascii);
    if !options.any(|option| option.eq_ignore_ascii_case(b"upgrade")) {
        return None;
    }
    let is_forwarded = |protocol: &&str| {
        let (name, version) = protocol.split_once('/').unwrap_or((protocol, "0"));
        let is_valid = is_token(name.as_bytes()) && is_token(version.as_bytes());
        is_valid
            && !["h2", "h2c", "h3", "http", "tls"].iter().any(|one| name.eq_ignore_ascii_case(one))
    };
    let values = head.fields.all(b"Upgrade").filter_map(|value| std::str::from_utf8(value).ok());
    let protocols = values.flat_map(|value| value.split(',')).map(str::trim).filter(is_forwarded);
    let protocols: Vec<&str> = protocols.collect();
    (!protocols.is_empty()).then(|| protocols.join(", ").into())
}

/// Returns whether the client uses trailers (RFC 9110 §10.1.4).
fn accepts_trailers(head: &RequestHead<'_>) -> bool {
    let codings = head.fields.all(b"TE").flat_map(|value| value.split(|byte| *byte == b','));
    codings.into_iter().any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

/// Returns whether a path has a segment `.` or `..` for some server: also percent-encoded, more
/// than once, between encoded slashes and backslashes, before a parameter (`..;`) or a NUL, and
/// with white space around. Clients take dot segments out before they send a path (RFC 3986
/// §5.2.4). One that is sent would be looked up here as it is, and taken out by the upstream
/// server.
pub(crate) fn has_dot_segment(path: &[u8]) -> bool {
    // Most paths have neither a dot after a slash nor a percent sign.
    let may_have = |pair: &[u8]| matches!(pair, [b'/' | b'\\', b'.' | b' '] | [b'%', _]);
    if !path.windows(2).any(may_have) {
        return false;
    }
    decode_repeatedly(path).split(|byte| matches!(byte, b'/' | b'\\')).any(is_dot_segment)
}

fn is_dot_segment(segment: &[u8]) -> bool {
    let name = segment.split(|byte| matches!(byte, b';' | 0)).next().unwrap_or_default();
    let is_space = |byte: &u8| *byte <= b' ';
    let from = name.iter().position(|byte| !is_space(byte)).unwrap_or(name.len());
    let until = name.iter().rposition(|byte| !is_space(byte)).map_or(from, |last| last + 1);
    matches!(name.get(from..until), Some(b"." | b".."))
}

/// Returns the trailers of a request that are forwarded.
pub(crate) fn forwarded_trailers(trailers: Fields<'_>, changes: &FieldChanges) -> OwnedFields {
    let mut kept = OwnedFields::default();
    let is_kept = |field: &Field<'_>| {
        FieldClass::of(field.name) == FieldClass::Other && !changes.replace(field.name)
    };
    trailers.iter().filter(is_kept).for_each(|field| kept.push(field.name, field.value));
    kept
}

fn fields<'a>(
    head: &RequestHead<'_>,
    client: &ClientIdentity,
    pseudonym: &str,
    max_forwards: Option<u64>,
    listed: &ListedNames<impl Iterator<Item = Field<'a>> + Clone>,
    changes: &FieldChanges,
) -> OwnedFields {
    let cookies = if listed.contain(b"Cookie") || changes.replace(b"Cookie") {
        0
    } else {
        head.fields.all(b"Cookie").count()
    };
    let bytes: usize = head.fields.iter().map(|field| field.name.len() + field.value.len()).sum();
    let authority_bytes = head.authority.map_or(0, <[u8]>::len);
    let bytes = bytes + authority_bytes + ADDED_FIELDS_BYTES;
    let mut fields = OwnedFields::with_capacity(head.fields.len() + 4, bytes);
    for field in head.fields.iter() {
        let is_crumb = cookies > 1 && field.name.eq_ignore_ascii_case(b"Cookie");
        let is_other = matches!(FieldClass::of(field.name), FieldClass::Other | FieldClass::Date);
        let is_forwarded = is_other && !is_crumb && !listed.contain(field.name);
        if is_forwarded && !changes.replace(field.name) {
            fields.push(field.name, field.value);
        }
    }
    changes.set_fields().for_each(|field| fields.push(field.name, field.value));
    if cookies > 1 {
        // HTTP/2 and HTTP/3 may split a cookie into several lines (RFC 9113 §8.2.3).
        let crumbs: Vec<&[u8]> = head.fields.all(b"Cookie").collect();
        fields.push(b"Cookie", &crumbs.join(&b"; "[..]));
    }
    if let Some(forwards) = max_forwards {
        fields.push(b"Max-Forwards", forwards.to_string().as_bytes());
    }
    via(head, pseudonym, &mut fields);
    if let Some(peer) = client.peer {
        fields.push_with(b"X-Forwarded-For", |value| {
            write!(value, "{}", peer.ip().to_canonical()).expect("memory takes all bytes");
        });
    }
    if let Some(authority) = head.authority {
        fields.push(b"X-Forwarded-Host", authority);
    }
    fields.push(b"X-Forwarded-Proto", client.scheme().as_bytes());
    if let Some(user) = head.user() {
        fields.push(b"X-Forwarded-User", user.as_bytes());
    }
    fields
}

/// Adds this server to the list of those that have forwarded the request (RFC 9110 §7.6.3).
fn via(head: &RequestHead<'_>, pseudonym: &str, fields: &mut OwnedFields) {
    for earlier in head.fields.iter().filter(|field| is_same_name(field.name, "Via")) {
        fields.push(b"Via", earlier.value);
    }
    let version = match head.version {
        Version::Http10 => "1.0",
        Version::Http11 => "1.1",
        Version::Http2 => "2",
        Version::Http3 => "3",
    };
    fields.push_with(b"Via", |value| {
        [version, " ", pseudonym].iter().for_each(|part| value.extend_from_slice(part.as_bytes()));
    });
}

#[cfg(test)]
mod tests;
