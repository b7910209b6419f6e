//! The target of a connection: the origin of a URL (RFC 9110 §4.3.1), or a Unix socket.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use idna::AsciiDenyList;
use rustls::pki_types::{DnsName, ServerName};
use thiserror::Error;

use crate::limits::{HOST_NAME_MAX_BYTES, LABEL_MAX_BYTES, UNIX_PATH_MAX_BYTES};

/// The target of a connection. Equal targets can share connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectTarget {
    endpoint: ConnectEndpoint,
    is_tls: bool,
}

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConnectEndpoint {
    /// An IP address, which needs no name resolution.
    Address {
        /// The address as it was written; the address policy sees IPv4 addresses inside it.
        address: IpAddr,
        /// The port, which is not 0.
        port: u16,
    },
    /// A host name.
    Name {
        /// The name that is resolved.
        name: HostName,
        /// The port, which is not 0.
        port: u16,
    },
    /// The absolute path of a Unix socket, or `@` and an abstract name.
    Unix(PathBuf),
}

/// A host name: labels of letters, digits, `-` and `_`, in lower case, at most
/// [`HOST_NAME_MAX_BYTES`] long. The last label is not a number, so no resolver reads an IPv4
/// address in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostName {
    /// The name without the dot at the end.
    name: Box<str>,
    /// Whether the name was written with a dot at its end: it is not looked up in the search list
    /// of resolv.conf then.
    is_absolute: bool,
}

/// The reason why a text is not a target.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UrlError {
    /// The text does not begin with a scheme for which connections are opened.
    #[error("the URL has to begin with http:// or https://")]
    Scheme,
    /// User information (RFC 9110 §4.2.4) makes a URL look like that of another host.
    #[error("the URL has a user name or a password; send an Authorization field instead")]
    UserInformation,
    /// There is nothing between `//` and the path.
    #[error("the URL has no host")]
    NoHost,
    /// The host is neither a name nor an address.
    #[error("`{0}` is not a host: write example.org, 192.0.2.1 or [2001:db8::1]")]
    Host(String),
    /// A host that some programs read as an IPv4 address and others as a name.
    #[error("`{0}` is not an IPv4 address: write four decimal numbers, as in 192.0.2.1")]
    NumericHost(String),
    /// A name with characters outside of ASCII that has no form in the DNS (UTS #46).
    #[error("`{0}` is not an internationalized domain name")]
    International(String),
    /// The name or one of its labels is longer than the DNS allows.
    #[error(
        "`{0}` is too long for a host name: at most {HOST_NAME_MAX_BYTES} bytes, and \
         {LABEL_MAX_BYTES} between dots"
    )]
    TooLong(String),
    /// The text after the colon is not a number from 1 to 65535.
    #[error("`{0}` is not a port from 1 to 65535")]
    Port(String),
    /// The path cannot be that of a Unix socket.
    #[error(
        "`{0}` is not the path of a socket: write unix:/run/app.sock, with an absolute path of at \
         most {UNIX_PATH_MAX_BYTES} bytes"
    )]
    UnixPath(String),
}

impl ConnectTarget {
    /// Parses the part of a URL that a connection needs. Also returns the rest: the path, the query
    /// and the fragment, which are not checked here.
    ///
    /// Host names are converted to lower case, those of other scripts to Punycode (UTS #46). A
    /// missing or empty port is that of the scheme.
    ///
    /// # Errors
    /// Fails if the scheme is not `http` or `https`, or the authority is malformed, has user
    /// information or port 0.
    pub fn from_url(url: &str) -> Result<(Self, &str), UrlError> {
        let (scheme, rest) = url.split_once("://").ok_or(UrlError::Scheme)?;
        let is_tls = match scheme {
            scheme if scheme.eq_ignore_ascii_case("http") => false,
            scheme if scheme.eq_ignore_ascii_case("https") => true,
            _ => return Err(UrlError::Scheme),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let endpoint = endpoint(authority, if is_tls { HTTPS_PORT } else { HTTP_PORT })?;
        Ok((Self { endpoint, is_tls }, rest))
    }

    /// Creates a target from the path of a Unix socket, without TLS. `@` and an abstract name
    /// (unix(7)) refer to a socket without a file.
    ///
    /// # Errors
    /// Fails if the path is not absolute, has a NUL byte or is longer than [`UNIX_PATH_MAX_BYTES`].
    pub fn unix(path: &Path) -> Result<Self, UrlError> {
        let bytes = path.as_os_str().as_encoded_bytes();
        let fits = bytes.len() <= UNIX_PATH_MAX_BYTES && !bytes.contains(&0);
        let is_abstract = bytes.len() > 1 && bytes.starts_with(b"@");
        if !fits || !(is_abstract || path.is_absolute()) {
            return Err(UrlError::UnixPath(path.display().to_string()));
        }
        Ok(Self { endpoint: ConnectEndpoint::Unix(path.to_owned()), is_tls: false })
    }

    /// Returns the other end of the connection.
    #[must_use]
    pub fn endpoint(&self) -> &ConnectEndpoint {
        &self.endpoint
    }

    /// Returns whether the connection is encrypted.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Returns the value of the `Host` field (RFC 9110 §7.2): the host, and the port unless it is
    /// that of the scheme. For a Unix socket it is `localhost`.
    #[must_use]
    pub fn host_field(&self) -> String {
        let default_port = if self.is_tls { HTTPS_PORT } else { HTTP_PORT };
        let (host, port) = match &self.endpoint {
            ConnectEndpoint::Address { address: IpAddr::V4(address), port } => {
                (address.to_string(), *port)
            }
            ConnectEndpoint::Address { address: IpAddr::V6(address), port } => {
                (format!("[{address}]"), *port)
            }
            ConnectEndpoint::Name { name, port } => (name.as_str().to_owned(), *port),
            ConnectEndpoint::Unix(_) => return "localhost".to_owned(),
        };
        if port == default_port { host } else { format!("{host}:{port}") }
    }

    /// Returns the name or the address that the certificate of the server has to have, if the
    /// connection is encrypted. A name is also sent in the handshake (RFC 6066 §3). Returns `None`
    /// also for a name with a label that certificates cannot have: one that begins or ends with a
    /// hyphen, or that is empty.
    #[must_use]
    pub fn tls_server_name(&self) -> Option<ServerName<'static>> {
        match &self.endpoint {
            _ if !self.is_tls => None,
            ConnectEndpoint::Address { address, .. } => Some(ServerName::from(*address)),
            ConnectEndpoint::Name { name, .. } => {
                DnsName::try_from(name.as_str().to_owned()).ok().map(ServerName::DnsName)
            }
            ConnectEndpoint::Unix(_) => None,
        }
    }
}

/// Formats the origin, as in a URL; a Unix socket as `unix:/path`.
impl fmt::Display for ConnectTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            ConnectEndpoint::Unix(path) => write!(f, "unix:{}", path.display()),
            _ if self.is_tls => write!(f, "https://{}", self.host_field()),
            _ => write!(f, "http://{}", self.host_field()),
        }
    }
}

impl HostName {
    /// Parses a host name in ASCII, with or without the dot at its end.
    ///
    /// # Errors
    /// Fails if the text has other characters, an empty label, a number as its last label, or is
    /// too long.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let (name, is_absolute) = match text.strip_suffix('.') {
            Some(name) => (name, true),
            None => (text, false),
        };
        let is_valid = |label: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            !label.is_empty() && label.bytes().all(is_plain)
        };
        if !name.split('.').all(is_valid) {
            return Err(UrlError::Host(text.to_owned()));
        }
        let is_long = name.len() > HOST_NAME_MAX_BYTES;
        if is_long || name.split('.').any(|label| label.len() > LABEL_MAX_BYTES) {
            return Err(UrlError::TooLong(text.to_owned()));
        }
        if name.rsplit('.').next().is_some_and(is_number) {
            return Err(UrlError::NumericHost(text.to_owned()));
        }
        Ok(Self { name: name.to_ascii_lowercase().into_boxed_str(), is_absolute })
    }

    /// Returns the name in lower case, without a dot at its end.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Returns whether the name had a dot at its end, so that the search list does not apply.
    #[must_use]
    pub fn is_absolute(&self) -> bool {
        self.is_absolute
    }

    /// Returns whether the name is `localhost` or below it: it is the name of this machine, and is
    /// not looked up (RFC 6761 §6.3).
    #[must_use]
    pub fn is_localhost(&self) -> bool {
        let below = self.name.strip_suffix("localhost");
        below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// Parses `host [ ":" port ]` (RFC 3986 §3.2).
fn endpoint(authority: &str, default_port: u16) -> Result<ConnectEndpoint, UrlError> {
    if authority.contains('@') {
        return Err(UrlError::UserInformation);
    }
    let authority = to_ascii(authority)?;
    let (host, port) = match authority.rfind(']').map_or(0, |close| close + 1) {
        0 => authority.split_once(':').unwrap_or((&authority, "")),
        after => {
            let (host, rest) = authority.split_at(after);
            let port = rest.strip_prefix(':').or(rest.is_empty().then_some(""));
            (host, port.ok_or_else(|| UrlError::Host(authority.to_string()))?)
        }
    };
    let port = parse_port(port, default_port)?;
    if host.is_empty() {
        return Err(UrlError::NoHost);
    }
    if let Some(bracketed) = host.strip_prefix('[') {
        let address = bracketed.strip_suffix(']').and_then(|text| text.parse::<Ipv6Addr>().ok());
        let address = address.ok_or_else(|| UrlError::Host(host.to_owned()))?;
        return Ok(ConnectEndpoint::Address { address: address.into(), port });
    }
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return Ok(ConnectEndpoint::Address { address: address.into(), port });
    }
    Ok(ConnectEndpoint::Name { name: HostName::parse(host)?, port })
}

/// Converts an authority with an internationalized host to ASCII, and checks labels that are in
/// Punycode already. Characters that UTS #46 maps to digits and dots are converted first, so that
/// the host is then parsed like any other.
fn to_ascii(authority: &str) -> Result<Cow<'_, str>, UrlError> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let is_punycode = |label: &str| {
        label.get(..PUNYCODE.len()).is_some_and(|start| start.eq_ignore_ascii_case(PUNYCODE))
    };
    if authority.is_ascii() && !host.split('.').any(is_punycode) {
        return Ok(Cow::Borrowed(authority));
    }
    let ascii = idna::domain_to_ascii_cow(host.as_bytes(), AsciiDenyList::URL);
    let ascii = ascii.map_err(|_| UrlError::International(host.to_owned()))?;
    Ok(match port {
        Some(port) => Cow::Owned(format!("{ascii}:{port}")),
        None => Cow::Owned(ascii.into_owned()),
    })
}

/// The prefix of a label in Punycode (RFC 5890 §2.3.2.1).
const PUNYCODE: &str = "xn--";

fn parse_port(digits: &str, default_port: u16) -> Result<u16, UrlError> {
    if digits.is_empty() {
        return Ok(default_port);
    }
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let port = digits.parse::<u16>().ok().filter(|port| is_number && *port > 0);
    port.ok_or_else(|| UrlError::Port(digits.to_owned()))
}

/// Returns whether a label is a decimal or hexadecimal number, as `inet_aton` and browsers read
/// parts of IPv4 addresses (URL Standard, "ends in a number").
fn is_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    let is_hexadecimal = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    label.bytes().all(|byte| byte.is_ascii_digit()) || hexadecimal.is_some_and(is_hexadecimal)
}

#[cfg(test)]
mod tests;
