//! Reads values of mounts: their paths, the servers that respond to their requests, and how
//! requests are distributed over these.

use super::http_values;
use crate::directives::Kind;
use crate::server::mounts::MountPath;
use pinion_client::client_tls::ServerTrust;
use pinion_client::lazy_client_tls::LazyClientTls;
use pinion_gateway::balancing::Balance;
use pinion_gateway::path_prefix::PathPrefix;
use pinion_gateway::upstream::{Upstream, UpstreamHost, UpstreamProtocol};
use pinion_http::grammar::is_token;
use pinion_http::host;

/// Reads `http://127.0.0.1:3000` or `/api=http://127.0.0.1:3000`: the forwarded path, and the
/// server.
pub(crate) fn proxy_mount(text: &str) -> Result<(MountPath, Upstream), String> {
    let (path, url) = match text.split_once('=') {
        Some((path, url)) if path.starts_with('/') => (path, url),
        _ => ("/", text),
    };
    let upstream = upstream(url)?;
    http_values::url_path(path)?;
    Ok((MountPath::Prefix(PathPrefix::new(path)), upstream))
}

/// Reads the path of pages of the store, and the prefix of their keys.
pub(crate) fn store_pages(text: &str) -> Result<(PathPrefix, String), String> {
    let (path, prefix) = match text.split_once('=') {
        Some((path, prefix)) if path.starts_with('/') => (path, prefix),
        _ => ("/", text),
    };
    match MountPath::parse(path)? {
        MountPath::Prefix(path) => Ok((path, prefix.to_owned())),
        MountPath::Suffix(_) => Err(format!("{path:?} is an extension; write a path")),
    }
}

/// Reads the URL of a server that requests are forwarded to.
pub(crate) fn upstream(url: &str) -> Result<Upstream, String> {
    Upstream::parse(url).map_err(|error| {
        if url.contains(':') {
            error.to_string()
        } else {
            format!("{url:?} is no URL: {}", Kind::UpstreamUrl.bounds())
        }
    })
}

/// Reads the address of an application that speaks FastCGI or SCGI.
pub(crate) fn application(text: &str, protocol: UpstreamProtocol) -> Result<Upstream, String> {
    Upstream::parse_application(text, protocol).map_err(|error| format!("{text:?}: {error}"))
}

/// Reads the host that a server is asked for.
pub(crate) fn upstream_host(text: &str) -> Result<UpstreamHost, String> {
    let wrong = || format!("{text:?} is none of: {}", Kind::UpstreamHost.bounds());
    Ok(match text {
        "client" => UpstreamHost::Client,
        "upstream" => UpstreamHost::Upstream,
        name => {
            let split = host::split(name.as_bytes()).map_err(|_| wrong())?;
            let is_whole = !name.ends_with(':') && split.port != Some(0);
            if !is_whole || split.without_dot().is_empty() {
                return Err(wrong());
            }
            UpstreamHost::Fixed(name.into())
        }
    })
}

/// Reads how requests are distributed over several servers.
pub(crate) fn balance(text: &str) -> Result<Balance, String> {
    match text.split_once(':') {
        None if text == "least-connections" => Ok(Balance::LeastConnections),
        None if text == "client-hash" => Ok(Balance::ClientHash),
        Some(("header-hash", name)) if is_token(name.as_bytes()) => {
            Ok(Balance::HeaderHash(name.into()))
        }
        _ => Err(format!("{text:?} is none of: {}", Kind::Balance.bounds())),
    }
}

/// Checks the name of a server in its certificate.
pub(super) fn server_name(text: &str) -> Result<(), String> {
    let named = LazyClientTls::new(ServerTrust::SystemRoots, &[]).with_server_name(text);
    named.map(drop).map_err(|error| error.to_string())
}
