//! Networks of IP addresses, as operators write them: `10.0.0.0/8`, `2001:db8::/32`, `192.0.2.1`,
//! and `unix` for clients on Unix sockets.

use crate::directives::Kind;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Some clients by their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// Clients on Unix sockets, which have no address.
    Unix,
    /// Addresses that share their first bits with this one. All are in the form of IPv6.
    Ip {
        /// Bits beyond the prefix are 0.
        prefix: u128,
        /// Bits of the prefix, up to 128.
        bits: u32,
    },
}

impl Network {
    /// Parses a network.
    ///
    /// # Errors
    /// A phrase that follows the name of the flag.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "unix" {
            return Ok(Self::Unix);
        }
        let wrong = || format!("{text:?} is not a network: {}", Kind::Network.bounds());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let all_bits = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => all_bits,
            Some(bits) if bits.is_empty() || !bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err(wrong());
            }
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= all_bits).ok_or_else(wrong)?,
        };
        let bits = 128 - all_bits + bits;
        let number = mapped(address);
        let prefix = number & mask(bits);
        if prefix != number {
            return Err(format!(
                "{text:?} has bits behind its prefix: write {}",
                shown(prefix, bits)
            ));
        }
        Ok(Self::Ip { prefix, bits })
    }

    /// Returns whether a client is in it.
    pub(crate) fn contains(self, peer: Option<SocketAddr>) -> bool {
        match (self, peer) {
            (Self::Unix, None) => true,
            (Self::Ip { prefix, bits }, Some(peer)) => mapped(peer.ip()) & mask(bits) == prefix,
            _ => false,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unix => f.write_str("unix"),
            Self::Ip { prefix, bits } => f.write_str(&shown(prefix, bits)),
        }
    }
}

/// Returns an address as one of IPv6 (RFC 4291 §2.5.5.2).
fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn mask(bits: u32) -> u128 {
    u128::MAX.checked_shl(128 - bits).unwrap_or(0)
}

fn shown(prefix: u128, bits: u32) -> String {
    match IpAddr::from(prefix.to_be_bytes()).to_canonical() {
        address @ IpAddr::V4(_) => format!("{address}/{}", bits.saturating_sub(96)),
        address @ IpAddr::V6(_) => format!("{address}/{bits}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        let inside = |network: &str, address: &str| {
            let address = SocketAddr::new(address.parse().expect("an address"), 1);
            Network::parse(network).expect("a network").contains(Some(address))
        };
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "203.0.113.9", true),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::1", "::1", true),
        ] {
            assert_eq!(inside(network, address), expected, "{address} in {network}");
        }
        for text in ["10.0.0.0/8", "192.0.2.1/32", "2001:db8::/32", "unix"] {
            assert_eq!(Network::parse(text).expect(text).to_string(), text);
        }
        let unix = Network::parse("unix").expect("a network");
        assert!(unix.contains(None) && !unix.contains(Some(([127, 0, 0, 1], 1).into())));
        assert!(!Network::parse("::/0").expect("a network").contains(None));
    }

    #[test]
    fn malformed_networks_are_refused() {
        for text in ["", "10", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "::/129", "a/8", "Unix"] {
            assert!(Network::parse(text).is_err(), "{text}");
        }
        let refused = Network::parse("10.1.2.3/8").expect_err("bits behind the prefix");
        assert!(refused.contains("write 10.0.0.0/8"), "{refused}");
        let refused = Network::parse("2001:db8::1/32").expect_err("bits behind the prefix");
        assert!(refused.contains("write 2001:db8::/32"), "{refused}");
    }
}
