//! A server that requests are forwarded to, and how.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pinion_client::address_policy::{AddressPolicy, PrivateAddresses};
use pinion_client::client_tls::ServerTrust;
use pinion_client::connection_pool::KeyLimits;
use pinion_client::ip_network::IpNetwork;
use pinion_client::lazy_client_tls::{LazyClientTls, ServerNameError};
use pinion_client::request_url::{RequestUrl, RequestUrlError};

use crate::limits::UPSTREAM_TIMEOUT_MS;

/// A server that requests are forwarded to.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// No other one has the same. Connections and memory belong to one number.
    pub(crate) number: u64,
    /// The number for the connections of health checks, which is unique as well.
    pub(crate) health_number: u64,
    pub(crate) url: RequestUrl,
    pub(crate) policy: Arc<AddressPolicy>,
    pub(crate) tls: Option<Arc<LazyClientTls>>,
    /// The content of requests that have none.
    pub(crate) no_content: Arc<[u8]>,
    /// Its protocol.
    pub protocol: UpstreamProtocol,
    /// Most connections of a worker to it.
    pub connections_max: usize,
    /// Whether requests wait for its Unix socket if that is not there: the server is one that is
    /// being started.
    pub waits_for_socket: bool,
    /// The value of `Host`.
    pub host: UpstreamHost,
    /// The time that it may be silent, in milliseconds; see [`UPSTREAM_TIMEOUT_MS`].
    pub timeout_ms: u64,
}

/// The protocol of an upstream server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamProtocol {
    /// HTTP/1.1.
    Http,
    /// FastCGI 1.0.
    FastCgi {
        /// The number of unused connections that a worker keeps for further requests. Each of them
        /// occupies a process of most applications.
        keep_connections: usize,
    },
    /// SCGI.
    Scgi,
}

/// Which host an upstream server is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamHost {
    /// That of the client's request. Applications make links of it.
    Client,
    /// That of the upstream server's URL.
    Upstream,
    /// This one.
    Fixed(Box<str>),
}

impl Upstream {
    /// Describes the server with a URL: `http://HOST:PORT`, `https://HOST`, or `unix:PATH` for a
    /// Unix socket. A server with https is asked for its own host, others for the client's.
    ///
    /// # Errors
    /// The text is no such URL, or has a path.
    pub fn parse(text: &str) -> Result<Self, UpstreamError> {
        let (url, sockets) = match text.strip_prefix("unix:") {
            Some(path) => {
                let path = Path::new(path);
                let url = RequestUrl::parse("http://localhost/")?.over_socket(path)?;
                (url, vec![PathBuf::from(path)])
            }
            None => (RequestUrl::parse(text)?, Vec::new()),
        };
        Self::new(url, sockets)
    }

    /// Describes an application: `unix:PATH` for a Unix socket, `unix:@NAME` for an abstract one,
    /// or `HOST:PORT`.
    ///
    /// # Errors
    /// The text is no such address.
    pub fn parse_application(
        text: &str,
        protocol: UpstreamProtocol,
    ) -> Result<Self, UpstreamError> {
        if text.starts_with("unix:") {
            return Ok(Self { protocol, ..Self::parse(text)? });
        }
        let port = text.rsplit_once(':').map(|(_, port)| port).unwrap_or_default();
        let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
        if !is_port || text.contains(['/', '?', '#', '@']) {
            return Err(UpstreamError::Application);
        }
        Ok(Self { protocol, ..Self::parse(&format!("http://{text}"))? })
    }

    fn new(url: RequestUrl, sockets: Vec<PathBuf>) -> Result<Self, UpstreamError> {
        if url.path_and_query() != "/" {
            return Err(UpstreamError::Path);
        }
        // The operator has named the server, so its address may be in any network. That of a
        // metadata service has to be named itself.
        let host = match url.authority().strip_prefix('[') {
            Some(address) => address.split(']').next().unwrap_or_default(),
            None => url.authority().split(':').next().unwrap_or_default(),
        };
        let own = host.parse::<IpAddr>().ok().map(IpNetwork::of_address);
        let networks = own.into_iter().chain(IpNetwork::EVERYTHING);
        let policy = AddressPolicy::new(PrivateAddresses::Allowed, networks, sockets);
        let is_tls = url.target().is_tls();
        let tls =
            is_tls.then(|| Arc::new(LazyClientTls::new(ServerTrust::SystemRoots, &[b"http/1.1"])));
        let host = if is_tls { UpstreamHost::Upstream } else { UpstreamHost::Client };
        let (policy, timeout_ms) = (Arc::new(policy), UPSTREAM_TIMEOUT_MS);
        // So that a slow server takes no memory from the requests for another one.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(2, Ordering::Relaxed);
        let health_number = number + 1;
        let no_content = Arc::from([]);
        Ok(Self {
            number,
            health_number,
            url,
            policy,
            tls,
            no_content,
            protocol: UpstreamProtocol::Http,
            connections_max: usize::MAX,
            waits_for_socket: false,
            host,
            timeout_ms,
        })
    }

    /// Sets which servers are trusted, and the name that the certificate has to be for if it is not
    /// the host of the URL. Without https nothing changes.
    ///
    /// # Errors
    /// The name is none.
    pub fn trusting(
        self,
        trust: ServerTrust,
        server_name: Option<&str>,
    ) -> Result<Self, ServerNameError> {
        if self.tls.is_none() {
            return Ok(self);
        }
        let tls = LazyClientTls::new(trust, &[b"http/1.1"]);
        let tls = match server_name {
            Some(name) => tls.with_server_name(name)?,
            None => tls,
        };
        Ok(Self { tls: Some(Arc::new(tls)), ..self })
    }

    /// Returns the bounds of the connections of a worker.
    pub(crate) fn connection_limits(&self) -> KeyLimits {
        let idle_max = match self.protocol {
            UpstreamProtocol::Http => usize::MAX,
            UpstreamProtocol::FastCgi { keep_connections } => keep_connections,
            UpstreamProtocol::Scgi => 0,
        };
        KeyLimits { connections_max: self.connections_max, idle_max }
    }

    /// Returns whether the connections to it are encrypted.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self.url.target().to_string();
        let (scheme, front) = match self.protocol {
            UpstreamProtocol::Http => return f.write_str(&target),
            UpstreamProtocol::FastCgi { .. } => ("fastcgi", "http://"),
            UpstreamProtocol::Scgi => ("scgi", "http://"),
        };
        match target.strip_prefix(front) {
            Some(address) => write!(f, "{scheme}://{address}"),
            None => write!(f, "{scheme}+{target}"),
        }
    }
}

/// The reason why a text does not name an upstream server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// It is no URL.
    #[error(transparent)]
    Url(#[from] RequestUrlError),
    /// It has a path or a query.
    #[error("the URL of an upstream server has no path; requests keep theirs")]
    Path,
    /// It is no address of an application.
    #[error("write unix:/run/app.sock, unix:@name for an abstract socket, or HOST:PORT")]
    Application,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_a_server_without_a_path() {
        for (text, shown, host) in [
            ("http://127.0.0.1:3000", "http://127.0.0.1:3000", UpstreamHost::Client),
            ("http://[::1]:3000/", "http://[::1]:3000", UpstreamHost::Client),
            ("https://example.org", "https://example.org", UpstreamHost::Upstream),
            ("unix:/run/app.sock", "unix:/run/app.sock", UpstreamHost::Client),
        ] {
            let upstream = Upstream::parse(text).expect(text);
            assert_eq!((upstream.to_string(), upstream.host), (shown.to_owned(), host));
        }
        for text in ["127.0.0.1:3000", "http://a/b", "http://a/?b", "ftp://a", "unix:", "unix:a"] {
            assert!(Upstream::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_application_has_an_address() {
        let fastcgi = UpstreamProtocol::FastCgi { keep_connections: 0 };
        for (text, protocol, shown) in [
            ("127.0.0.1:9000", fastcgi, "fastcgi://127.0.0.1:9000"),
            ("[::1]:9000", UpstreamProtocol::Scgi, "scgi://[::1]:9000"),
            ("php:9000", fastcgi, "fastcgi://php:9000"),
            ("unix:/run/php.sock", fastcgi, "fastcgi+unix:/run/php.sock"),
            ("unix:@php", UpstreamProtocol::Scgi, "scgi+unix:@php"),
        ] {
            let upstream = Upstream::parse_application(text, protocol).expect(text);
            assert_eq!(upstream.to_string(), shown);
        }
        for text in ["", "127.0.0.1", "a:0", "a:b", "http://a:1", "a:1/x", "unix:x", "unix:@"] {
            assert!(Upstream::parse_application(text, fastcgi).is_err(), "{text}");
        }
    }
}
