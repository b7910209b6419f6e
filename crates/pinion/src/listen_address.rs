//! The forms of a listening address: `8080` or `:8080` (every address of the machine, IPv4 and
//! IPv6), `host:port`, `[v6]:port`, `unix:/path`, `fd:NAME`.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// Longest path of a Unix socket: `sun_path` is 108 bytes and ends in a zero (unix(7)).
const UNIX_PATH_MAX_BYTES: usize = 107;

/// Longest name in the DNS (RFC 1035 §2.3.4), as text without the trailing dot.
const HOST_NAME_MAX_BYTES: usize = 253;

/// Where to listen, as written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    /// `8080`, `:8080`: every IPv6 and IPv4 address of the machine.
    Any {
        /// 0 lets the kernel choose.
        port: u16,
    },
    /// `127.0.0.1:8080`, `[::1]:8080`.
    Ip(SocketAddr),
    /// `localhost:8080`: looked up once, at start.
    Name {
        /// A host name, not an address.
        host: String,
        /// 0 lets the kernel choose.
        port: u16,
    },
    /// `unix:/run/pinion.sock`.
    Unix(PathBuf),
    /// `fd:web`: the sockets that a service manager has passed with this name, or `fd:3`: the
    /// descriptor with this number.
    Inherited(String),
}

impl Address {
    /// Where a server listens when no listener of any kind is configured: reachable from this
    /// machine alone.
    pub(crate) const UNCONFIGURED: Self =
        Self::Ip(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080));

    /// Reads an address as a user writes it.
    ///
    /// # Errors
    /// A phrase that names the mistake and says how to write it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return parse_unix(path);
        }
        if let Some(name) = text.strip_prefix("fd:") {
            return parse_inherited(name);
        }
        if let Some(rest) = text.strip_prefix('[') {
            return parse_bracketed(rest);
        }
        if text.contains("://") {
            return Err("write host:port alone, without a scheme".to_owned());
        }
        if text.parse::<Ipv6Addr>().is_ok() {
            return Err(format!("an IPv6 address needs brackets and a port: [{text}]:8080"));
        }
        let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
        if host.contains(':') {
            return Err("an IPv6 address is written in brackets: [::1]:8080".to_owned());
        }
        if host.is_empty() {
            return parse_port(port).map(|port| Self::Any { port });
        }
        if let Ok(ip) = host.parse::<Ipv4Addr>() {
            return parse_port(port).map(|port| Self::Ip(SocketAddr::new(ip.into(), port)));
        }
        check_host_name(host)?;
        parse_port(port).map(|port| Self::Name { host: host.to_owned(), port })
    }

    /// Returns the port; `None` for a Unix socket and for a socket of a service manager.
    pub(crate) fn port(&self) -> Option<u16> {
        match self {
            Self::Any { port } | Self::Name { port, .. } => Some(*port),
            Self::Ip(ip) => Some(ip.port()),
            Self::Unix(_) | Self::Inherited(_) => None,
        }
    }

    /// Returns whether it may be listened on twice: the kernel chooses another port each time.
    pub(crate) fn may_repeat(&self) -> bool {
        self.port() == Some(0)
    }

    /// Returns whether a socket of this address gets the connections to the other one too, which
    /// has the same port.
    fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any { .. }, Self::Any { .. } | Self::Ip(_) | Self::Name { .. }) => true,
            (Self::Ip(ip), Self::Ip(other)) => {
                // The IPv6 wildcard takes IPv4 too.
                ip.ip().is_unspecified() && (ip.is_ipv6() || other.is_ipv4())
            }
            _ => false,
        }
    }

    /// Returns the properties that decide, beside the port, whether another address includes this
    /// one: a wildcard, IPv4, IPv6 or a name.
    fn class(&self) -> (bool, bool, bool) {
        match self {
            Self::Ip(ip) => (ip.ip().is_unspecified(), ip.is_ipv4(), ip.is_ipv6()),
            Self::Any { .. } => (true, true, true),
            _ => (false, false, false),
        }
    }
}

/// Two listeners of which only one can listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overlap {
    /// The number of the first one.
    pub(crate) earlier: usize,
    /// The number of the other one.
    pub(crate) later: usize,
    /// The conflict of the two and the advice, as text that follows their names.
    pub(crate) conflict: &'static str,
}

/// Finds each listener whose address cannot be listened on beside an earlier one: both are the
/// same, or one of them stands for every address of the machine. Each address is given with whether
/// it is one of UDP, which has only the numbers of its ports in common with TCP.
///
/// Host names are not resolved.
pub(crate) fn overlaps<'a>(addresses: impl Iterator<Item = (&'a Address, bool)>) -> Vec<Overlap> {
    let mut overlaps = Vec::new();
    let mut known: HashMap<(&Address, bool), usize> = HashMap::new();
    // The first of each class at each port: whether one is included does not depend on more.
    let mut of_port: HashMap<(u16, bool), Vec<(&Address, usize)>> = HashMap::new();
    let listeners = addresses.enumerate().filter(|(_, (address, _))| !address.may_repeat());
    for (later, (address, is_udp)) in listeners {
        if let Some(&earlier) = known.get(&(address, is_udp)) {
            let conflict = match address {
                Address::Unix(_) => "name the same socket; give one of them another path",
                Address::Inherited(_) => "name the same sockets; give one of them another name",
                _ => "name the same address; give one of them another port",
            };
            overlaps.push(Overlap { earlier, later, conflict });
            continue;
        }
        known.insert((address, is_udp), later);
        let Some(port) = address.port() else { continue };
        let others = of_port.entry((port, is_udp)).or_default();
        let overlapping =
            others.iter().find(|(other, _)| other.includes(address) || address.includes(other));
        if let Some(&(_, earlier)) = overlapping {
            let conflict = "have the port in common, and one of them is for every address of the \
                        machine; give one of them another port";
            overlaps.push(Overlap { earlier, later, conflict });
        } else if others.iter().all(|(other, _)| other.class() != address.class()) {
            others.push((address, later));
        }
    }
    overlaps
}

/// The spelling that [`Address::parse`] reads back.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any { port } => write!(f, ":{port}"),
            Self::Ip(address) => address.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Inherited(name) => write!(f, "fd:{name}"),
        }
    }
}

fn parse_unix(path: &str) -> Result<Address, String> {
    if path.is_empty() {
        return Err("the path is missing: write unix:/run/pinion.sock".to_owned());
    }
    if path.starts_with('@') || path.contains('\0') {
        return Err("abstract sockets are not supported: write unix:/run/pinion.sock".to_owned());
    }
    if path.len() > UNIX_PATH_MAX_BYTES {
        return Err(format!("a socket path has at most {UNIX_PATH_MAX_BYTES} bytes"));
    }
    Ok(Address::Unix(PathBuf::from(path)))
}

fn parse_inherited(name: &str) -> Result<Address, String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if name.is_empty() || !name.bytes().all(allowed) {
        return Err("a socket name has letters, digits, '-', '_' and '.': fd:web".to_owned());
    }
    Ok(Address::Inherited(name.to_owned()))
}

/// Parses an address in brackets; `rest` follows the opening bracket.
fn parse_bracketed(rest: &str) -> Result<Address, String> {
    let Some((ip, port)) = rest.split_once("]:") else {
        return Err("write the port behind the brackets: [::1]:8080".to_owned());
    };
    let port = parse_port(port)?;
    // Through SocketAddr, because it alone knows the numeric scope of fe80::1%2.
    match format!("[{ip}]:{port}").parse::<SocketAddr>() {
        Ok(address) => Ok(Address::Ip(address)),
        Err(_) => Err(format!("{ip:?} is not an IPv6 address")),
    }
}

fn parse_port(port: &str) -> Result<u16, String> {
    // `u16::from_str` would take "+80".
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    port.parse().ok().filter(|_| digits).ok_or_else(|| match port {
        "" => "the port is missing: write 8080, host:port, [v6]:port or unix:/path".to_owned(),
        host if host.contains('.') || host == "localhost" => {
            format!("the port is missing: write {host}:8080")
        }
        _ => format!("{port:?} is not a port (0 to 65535); write 8080 or host:8080"),
    })
}

/// Letters, digits, hyphens and dots (RFC 1123 §2.1; `_` is in use too).
fn check_host_name(host: &str) -> Result<(), String> {
    if host == "*" {
        return Err("for every address write the port alone: 8080".to_owned());
    }
    let label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    // Four numbers that are no IPv4 address (127.0.0.256) are a slip, never a name.
    let numeric = host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if numeric || host.len() > HOST_NAME_MAX_BYTES || !host.split('.').all(label) {
        return Err(format!("{host:?} is neither an address nor a host name"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Address {
        Address::Ip(text.parse().expect("a socket address"))
    }

    #[test]
    fn every_spelling_is_read() {
        let name = |host: &str, port| Address::Name { host: host.to_owned(), port };
        for (text, address) in [
            ("8080", Address::Any { port: 8080 }),
            (":8080", Address::Any { port: 8080 }),
            ("0", Address::Any { port: 0 }),
            ("127.0.0.1:80", ip("127.0.0.1:80")),
            ("0.0.0.0:80", ip("0.0.0.0:80")),
            ("[::1]:80", ip("[::1]:80")),
            ("[fe80::1%2]:80", ip("[fe80::1%2]:80")),
            ("[::ffff:1.2.3.4]:80", ip("[::ffff:1.2.3.4]:80")),
            ("localhost:80", name("localhost", 80)),
            ("a-b.example_c.org:65535", name("a-b.example_c.org", 65535)),
            ("unix:/run/p.sock", Address::Unix("/run/p.sock".into())),
            ("unix:p:1.sock", Address::Unix("p:1.sock".into())),
            ("fd:web-1", Address::Inherited("web-1".to_owned())),
        ] {
            assert_eq!(Address::parse(text), Ok(address), "{text}");
        }
    }

    #[test]
    fn malformed_addresses_get_advice() {
        for (text, hint) in [
            ("", "port is missing"),
            (":", "port is missing"),
            ("localhost:", "port is missing"),
            ("65536", "not a port"),
            ("+80", "not a port"),
            ("-1", "not a port"),
            ("localhost", "port is missing: write localhost:8080"),
            ("127.0.0.1", "port is missing: write 127.0.0.1:8080"),
            ("host:http", "not a port"),
            ("::1", "needs brackets"),
            ("::1:80:x", "in brackets"),
            ("fe80::1%2:80", "in brackets"),
            ("[::1]", "behind the brackets"),
            ("[::1]80", "behind the brackets"),
            ("[127.0.0.1]:80", "not an IPv6 address"),
            ("[::1]x]:80", "not an IPv6 address"),
            ("*:80", "port alone"),
            ("127.0.0.256:80", "neither an address nor a host name"),
            ("a..b:80", "neither an address nor a host name"),
            ("a b:80", "neither an address nor a host name"),
            ("http://x:80", "without a scheme"),
            ("unix:", "path is missing"),
            ("unix:@abstract", "abstract"),
            ("fd:", "socket name"),
            ("fd:a/b", "socket name"),
        ] {
            let error = Address::parse(text).expect_err(text);
            assert!(error.contains(hint), "{text}: {error}");
        }
        assert!(Address::parse(&format!("unix:/{}", "x".repeat(107))).is_err());
        assert!(Address::parse(&format!("unix:/{}", "x".repeat(106))).is_ok());
        assert!(Address::parse(&format!("{}:80", "x".repeat(254))).is_err());
    }

    /// The law: two addresses overlap if they are equal, or if they have the port in common and
    /// one of them stands for every address that the other one is.
    #[test]
    fn addresses_that_cannot_be_listened_on_together() {
        let (same, wildcard) = ("name the same", "have the port in common");
        for (first, second, expected) in [
            ("8080", ":8080", Some(same)),
            ("127.0.0.1:80", "127.0.0.1:80", Some(same)),
            ("localhost:80", "localhost:80", Some(same)),
            ("unix:/a", "unix:/a", Some("name the same socket;")),
            ("fd:web", "fd:web", Some("name the same sockets;")),
            ("fd:web", "fd:other", None),
            ("fd:80", "80", None),
            ("80", "127.0.0.1:80", Some(wildcard)),
            ("80", "[::1]:80", Some(wildcard)),
            ("80", "localhost:80", Some(wildcard)),
            ("80", "0.0.0.0:80", Some(wildcard)),
            ("0.0.0.0:80", "127.0.0.1:80", Some(wildcard)),
            ("[::]:80", "127.0.0.1:80", Some(wildcard)),
            ("0.0.0.0:80", "[::1]:80", None),
            ("127.0.0.1:80", "[::1]:80", None),
            ("127.0.0.1:80", "localhost:80", None),
            ("80", "81", None),
            ("80", "127.0.0.1:81", None),
            ("0", "0", None),
            ("unix:/a", "unix:/b", None),
            ("80", "unix:/a", None),
        ] {
            let [one, two] = [first, second].map(|text| Address::parse(text).expect(text));
            for pair in [[&one, &two], [&two, &one]] {
                let found = overlaps(pair.into_iter().map(|address| (address, false)));
                let conflict = found.first().map(|overlap| overlap.conflict);
                let is_match = |expected: &str| {
                    conflict.is_some_and(|conflict| conflict.starts_with(expected))
                };
                assert!(
                    expected.map_or(conflict.is_none(), is_match),
                    "{first} {second}: {conflict:?}"
                );
                let apart = overlaps(pair.into_iter().zip([false, true]));
                assert!(apart.is_empty(), "TCP and UDP: {first} {second}");
            }
        }
    }

    /// However many addresses share a port, each is compared with only a few others.
    #[test]
    fn the_first_of_two_overlapping_addresses_is_named() {
        let mut texts: Vec<String> = (1..=50_000u32)
            .map(|n| format!("10.{}.{}.{}:80", n >> 16, (n >> 8) & 255, n & 255))
            .collect();
        texts.extend([":0".to_owned(), "10.0.0.7:80".to_owned(), ":80".to_owned()]);
        let parsed: Vec<Address> =
            texts.iter().map(|text| Address::parse(text).expect(text)).collect();
        let found = overlaps(parsed.iter().map(|address| (address, false)));
        let pairs: Vec<(usize, usize)> = found.iter().map(|o| (o.earlier, o.later)).collect();
        assert_eq!(pairs, [(6, 50_001), (0, 50_002)]);
    }

    #[test]
    fn displayed_addresses_round_trip() {
        for text in ["8080", "1.2.3.4:5", "[::1]:80", "localhost:80", "unix:/a", "fd:web"] {
            let address = Address::parse(text).expect(text);
            assert_eq!(Address::parse(&address.to_string()), Ok(address));
        }
    }
}
