//! Identifies the client of a request that has come through proxies: `Forwarded` (RFC 7239),
//! `X-Forwarded-For` and its like.
//!
//! Every proxy adds the address that has connected to it at the end of the list, and passes on the
//! entries before. So the list is read from its end, beginning with the address of the connection,
//! and only as long as the previous address is that of a trusted proxy: everything that an
//! untrusted client has written is further to the left, and is not even parsed.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::field::Fields;
use crate::grammar::{self, find_unquoted, is_token, trim};
use crate::host;
use crate::limits::FORWARDED_HOPS_MAX;

/// The field in which trusted proxies name the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientField {
    /// `Forwarded` (RFC 7239 §4), which also has the scheme and the host.
    Forwarded,
    /// A field of this name, such as `X-Forwarded-For` or `CF-Connecting-IP`: a list of addresses
    /// with commas between. `X-Forwarded-Proto` has the scheme, `X-Forwarded-Host` the host.
    List(Box<[u8]>),
}

impl ClientField {
    /// Returns the field of a name.
    #[must_use]
    pub fn named(name: &[u8]) -> Self {
        if name.eq_ignore_ascii_case(b"Forwarded") {
            Self::Forwarded
        } else {
            Self::List(name.into())
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        match self {
            Self::Forwarded => b"Forwarded",
            Self::List(name) => name,
        }
    }
}

/// The client of a request: its address, and whether its connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The address of the client; `None` on a Unix socket. The port is 0 if it is not known.
    pub peer: Option<SocketAddr>,
    /// Whether its connection is encrypted.
    pub is_secured: bool,
}

impl ClientIdentity {
    /// Returns the scheme of the request.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.is_secured { "https" } else { "http" }
    }
}

/// The claims of trusted proxies about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedClient<'h> {
    /// The address of the client; `None` on a Unix socket. The port is 0 if it is not known.
    pub peer: Option<SocketAddr>,
    /// Whether the connection of the client is encrypted; `None` if no proxy has said it.
    pub is_secured: Option<bool>,
    /// The host that the client has asked for, valid by [`host::split`]; `None` if no proxy has
    /// said it.
    pub host: Option<&'h [u8]>,
}

/// The reason why the client of a request cannot be identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientIdentityError {
    /// A trusted proxy has written a text that is no address.
    Address,
    /// `Forwarded` is malformed.
    Malformed,
    /// There are more addresses than [`FORWARDED_HOPS_MAX`].
    TooMany,
}

impl fmt::Display for ClientIdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => f.write_str("it has no address where the proxy writes one"),
            Self::Malformed => f.write_str("it is malformed"),
            Self::TooMany => write!(f, "it has more than {FORWARDED_HOPS_MAX} members"),
        }
    }
}

impl core::error::Error for ClientIdentityError {}

/// Finds out who sends a request.
///
/// `peer` is the address of its connection, and `trusts` returns whether an address is that of a
/// trusted proxy; `None` is a Unix socket. An untrusted peer is the client.
///
/// # Errors
/// Fails if a trusted proxy has written an unreadable entry. The request is refused then: the only
/// other candidate for the client is the address of the proxy, which may have other rights.
pub fn identify<'h>(
    fields: &Fields<'h>,
    field: &ClientField,
    peer: Option<SocketAddr>,
    trusts: impl Fn(Option<SocketAddr>) -> bool,
) -> Result<ReportedClient<'h>, ClientIdentityError> {
    let direct = ReportedClient { peer, is_secured: None, host: None };
    if !trusts(peer) {
        return Ok(direct);
    }
    match field {
        ClientField::Forwarded => by_forwarded(fields, direct, trusts),
        ClientField::List(name) => by_list(fields, name, direct, trusts),
    }
}

/// Reads a list of addresses.
fn by_list<'h>(
    fields: &Fields<'h>,
    name: &[u8],
    direct: ReportedClient<'h>,
    trusts: impl Fn(Option<SocketAddr>) -> bool,
) -> Result<ReportedClient<'h>, ClientIdentityError> {
    let addresses = members(fields, name)?;
    let schemes = members(fields, b"X-Forwarded-Proto")?;
    let hosts = members(fields, b"X-Forwarded-Host")?;
    let mut identity = direct;
    let mut hops = 0;
    for address in addresses.iter().rev() {
        identity.peer = node(address, true)?;
        hops += 1;
        if !trusts(identity.peer) {
            break;
        }
    }
    // Proxies add to these lists, too, or set one member and pass it on.
    let member_of = |list: &[&'h [u8]]| {
        let from_end = hops.max(1).min(list.len());
        list.get(list.len() - from_end).copied()
    };
    identity.is_secured = member_of(&schemes).map(is_secure_scheme);
    identity.host = member_of(&hosts).filter(|host| host::split(host).is_ok());
    Ok(identity)
}

/// Returns the members of all lines of a field, in their order.
fn members<'h>(fields: &Fields<'h>, name: &[u8]) -> Result<Vec<&'h [u8]>, ClientIdentityError> {
    let lines = fields.all(name).flat_map(|line| line.split(|byte| *byte == b','));
    let members = lines.map(trim).filter(|member| !member.is_empty());
    let members: Vec<&[u8]> = members.take(FORWARDED_HOPS_MAX + 1).collect();
    if members.len() > FORWARDED_HOPS_MAX {
        return Err(ClientIdentityError::TooMany);
    }
    Ok(members)
}

/// Reads `Forwarded`.
fn by_forwarded<'h>(
    fields: &Fields<'h>,
    direct: ReportedClient<'h>,
    trusts: impl Fn(Option<SocketAddr>) -> bool,
) -> Result<ReportedClient<'h>, ClientIdentityError> {
    let elements = fields.all(b"Forwarded").flat_map(grammar::list);
    let elements: Vec<&[u8]> = elements.take(FORWARDED_HOPS_MAX + 1).collect();
    if elements.len() > FORWARDED_HOPS_MAX {
        return Err(ClientIdentityError::TooMany);
    }
    let mut identity = direct;
    for element in elements.iter().rev() {
        let element = ForwardedElement::parse(element)?;
        // A proxy that says nothing about the client says nothing that is worth more.
        let address = element.node.ok_or(ClientIdentityError::Address)?;
        identity.peer = node(address, false)?;
        if let Some(scheme) = element.scheme {
            identity.is_secured = Some(is_secure_scheme(scheme));
        }
        if let Some(host) = element.host.filter(|host| host::split(host).is_ok()) {
            identity.host = Some(host);
        }
        if !trusts(identity.peer) {
            break;
        }
    }
    Ok(identity)
}

/// The entry of one proxy (`forwarded-element`, RFC 7239 §4), without quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ForwardedElement<'h> {
    node: Option<&'h [u8]>,
    scheme: Option<&'h [u8]>,
    host: Option<&'h [u8]>,
}

impl<'h> ForwardedElement<'h> {
    fn parse(mut rest: &'h [u8]) -> Result<Self, ClientIdentityError> {
        let mut element = Self::default();
        while !rest.is_empty() {
            let end = find_unquoted(rest, b';').unwrap_or(rest.len());
            let pair = trim(rest.get(..end).unwrap_or_default());
            rest = rest.get(end + 1..).unwrap_or_default();
            if pair.is_empty() {
                continue;
            }
            let equals = pair.iter().position(|byte| *byte == b'=');
            let (name, value) = pair.split_at(equals.ok_or(ClientIdentityError::Malformed)?);
            let value = unquoted(value.get(1..).unwrap_or_default())?;
            let slot = match name {
                name if name.eq_ignore_ascii_case(b"for") => &mut element.node,
                name if name.eq_ignore_ascii_case(b"proto") => &mut element.scheme,
                name if name.eq_ignore_ascii_case(b"host") => &mut element.host,
                name if is_token(name) => continue,
                _ => return Err(ClientIdentityError::Malformed),
            };
            // "Each parameter MUST NOT occur more than once per field-value".
            if slot.replace(value).is_some() {
                return Err(ClientIdentityError::Malformed);
            }
        }
        Ok(element)
    }
}

/// Returns the text of a token or a quoted string. No relevant value has a reason to escape a
/// character, so a value with an escape is malformed.
fn unquoted(value: &[u8]) -> Result<&[u8], ClientIdentityError> {
    match value {
        [b'"', text @ .., b'"'] if !text.iter().any(|byte| b"\"\\".contains(byte)) => Ok(text),
        token if is_token(token) => Ok(token),
        _ => Err(ClientIdentityError::Malformed),
    }
}

/// Returns whether a client has used TLS.
fn is_secure_scheme(scheme: &[u8]) -> bool {
    scheme.eq_ignore_ascii_case(b"https") || scheme.eq_ignore_ascii_case(b"wss")
}

/// Parses the address of a node (RFC 7239 §6), with a port if it has one. Outside of `Forwarded` an
/// IPv6 address may stand without brackets, and nginx writes `unix:` for a client on a Unix socket,
/// which is `None`. `unknown` and names that hide the address are errors.
fn node(text: &[u8], is_list: bool) -> Result<Option<SocketAddr>, ClientIdentityError> {
    if is_list && text == b"unix:" {
        return Ok(None);
    }
    let text = core::str::from_utf8(text).map_err(|_| ClientIdentityError::Address)?;
    let address = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(parts) => parts.and_then(|(ip, rest)| Some((ipv6(ip)?, port(rest)?))),
        None if is_list && let Some(ip) = ipv6(text) => Some((ip, 0)),
        None => {
            let (ip, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
            let ip = ip.parse::<Ipv4Addr>().ok().map(IpAddr::V4);
            ip.zip(port(rest))
        }
    };
    let (ip, port) = address.ok_or(ClientIdentityError::Address)?;
    Ok(Some(SocketAddr::new(ip.to_canonical(), port)))
}

fn ipv6(text: &str) -> Option<IpAddr> {
    text.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

/// Parses the text after an address: nothing, or a colon and a port, which may be hidden
/// (`obfport`, RFC 7239 §6.3). Returns 0 for a port that is not known.
fn port(text: &str) -> Option<u16> {
    match text.strip_prefix(':') {
        None if text.is_empty() => Some(0),
        Some(hidden) if hidden.len() > 1 && hidden.starts_with('_') => {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            hidden.bytes().all(is_allowed).then_some(0)
        }
        Some(digits) if (1..=5).contains(&digits.len()) => {
            grammar::decimal(digits.as_bytes()).and_then(|port| port.try_into().ok())
        }
        _ => None,
    }
}
