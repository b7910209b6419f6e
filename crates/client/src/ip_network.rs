//! Networks in the notation of CIDR (RFC 4632 §3.1, RFC 4291 §2.3): `10.0.0.0/8`, `2001:db8::/32`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

use crate::address_class::embedded;

/// A network: all addresses with the same first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpNetwork {
    /// The first address; the bits after the prefix are zero.
    first: IpAddr,
    prefix_bits: u8,
}

/// The reason why a text is not a network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IpNetworkError {
    /// The text before the slash is not an IP address.
    #[error("`{0}` is not an IP address: write 192.0.2.0/24, 2001:db8::/32 or one address")]
    Address(String),
    /// The text after the slash is not a number of bits that an address has.
    #[error("`{0}` is not the length of a prefix: write a number from 0 to {1}")]
    Prefix(String, u8),
    /// The address has bits after the prefix.
    #[error("{written} is an address within a network: write {network}, or the address alone")]
    HostBits {
        /// The written text.
        written: String,
        /// The network that has the address.
        network: IpNetwork,
    },
    /// Addresses of the network contain IPv4 addresses, and policies check only those.
    #[error("addresses in {0} contain IPv4 addresses: write the IPv4 network instead")]
    ContainsIpv4(IpNetwork),
}

impl IpNetwork {
    /// The networks of all addresses.
    pub const EVERYTHING: [IpNetwork; 2] = [
        IpNetwork { first: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix_bits: 0 },
        IpNetwork { first: IpAddr::V6(Ipv6Addr::UNSPECIFIED), prefix_bits: 0 },
    ];

    /// Returns the network of one address.
    #[must_use]
    pub fn of_address(address: IpAddr) -> Self {
        Self { first: address, prefix_bits: bits_of(address) }
    }

    /// Returns whether the network contains an address. An IPv4 network contains no IPv6 address,
    /// and vice versa.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        masked(address, self.prefix_bits) == self.first
    }

    /// Returns whether the network has only one address.
    #[must_use]
    pub fn is_one_address(&self) -> bool {
        self.prefix_bits == bits_of(self.first)
    }
}

/// Parses a network, or one address.
impl FromStr for IpNetwork {
    type Err = IpNetworkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address = address.parse::<IpAddr>();
        let address = address.map_err(|_| IpNetworkError::Address(text.to_owned()))?;
        let max = bits_of(address);
        let prefix_bits = match prefix {
            Some(prefix) => prefix_bits(prefix, max)?,
            None => max,
        };
        let network = Self { first: masked(address, prefix_bits), prefix_bits };
        if network.first != address {
            return Err(IpNetworkError::HostBits { written: text.to_owned(), network });
        }
        match network.first {
            IpAddr::V6(first) if !embedded(first).is_empty() => {
                Err(IpNetworkError::ContainsIpv4(network))
            }
            _ => Ok(network),
        }
    }
}

impl fmt::Display for IpNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix_bits)
    }
}

/// Parses the length of a prefix: digits without a sign.
fn prefix_bits(text: &str, max: u8) -> Result<u8, IpNetworkError> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let bits = text.parse::<u8>().ok().filter(|bits| is_number && *bits <= max);
    bits.ok_or_else(|| IpNetworkError::Prefix(text.to_owned(), max))
}

fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Sets all bits after the prefix to zero. The prefix of an IPv4 address is at most 32 bits long.
fn masked(address: IpAddr, prefix_bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let behind = 32_u32.saturating_sub(prefix_bits.into());
            let bits = u64::from(address.to_bits()) >> behind << behind;
            IpAddr::V4((bits as u32).into())
        }
        IpAddr::V6(address) => {
            let behind = 128 - u32::from(prefix_bits);
            let bits = address.to_bits().checked_shr(behind).unwrap_or(0);
            IpAddr::V6(bits.checked_shl(behind).unwrap_or(0).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv6Addr;

    fn network(text: &str) -> IpNetwork {
        text.parse().expect(text)
    }

    #[test]
    fn networks_have_the_addresses_with_their_prefix() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("192.0.2.128/25", "192.0.2.255", "192.0.2.127"),
            ("192.0.2.1", "192.0.2.1", "192.0.2.0"),
            ("0.0.0.0/0", "255.255.255.255", "::"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::"),
            ("fd00::1", "fd00::1", "fd00::2"),
            ("::/0", "ffff::", "0.0.0.0"),
            ("::1", "::1", "::2"),
        ] {
            assert!(network(text).contains(inside.parse().expect(inside)), "{text} {inside}");
            assert!(!network(text).contains(outside.parse().expect(outside)), "{text} {outside}");
        }
        assert!(network("192.0.2.1/32").is_one_address());
        assert!(!network("192.0.2.0/31").is_one_address());
    }

    #[test]
    fn errors_contain_the_expected_format() {
        for (text, message) in [
            ("", "`` is not an IP address: write 192.0.2.0/24, 2001:db8::/32 or one address"),
            (
                "10/8",
                "`10/8` is not an IP address: write 192.0.2.0/24, 2001:db8::/32 or one address",
            ),
            ("10.0.0.0/", "`` is not the length of a prefix: write a number from 0 to 32"),
            ("10.0.0.0/33", "`33` is not the length of a prefix: write a number from 0 to 32"),
            ("10.0.0.0/+8", "`+8` is not the length of a prefix: write a number from 0 to 32"),
            ("10.0.0.0/8/8", "`8/8` is not the length of a prefix: write a number from 0 to 32"),
            ("fd00::/129", "`129` is not the length of a prefix: write a number from 0 to 128"),
            (
                "10.1.2.3/8",
                "10.1.2.3/8 is an address within a network: write 10.0.0.0/8, or the address alone",
            ),
            (
                "2002::/16",
                "addresses in 2002::/16 contain IPv4 addresses: write the IPv4 network instead",
            ),
            (
                "::ffff:10.0.0.0/104",
                "addresses in ::ffff:10.0.0.0/104 contain IPv4 addresses: write the IPv4 network \
                 instead",
            ),
        ] {
            let error = text.parse::<IpNetwork>().expect_err(text);
            assert_eq!(error.to_string(), message);
        }
    }

    proptest! {
        /// A network has an address if both have the same first bits as texts of zeros and ones.
        #[test]
        fn containment_is_that_of_bits(
            first: [u8; 16], other: [u8; 16], same_bits in 0_usize..=128, prefix in 0_u8..=128,
        ) {
            let bits = |address: [u8; 16]| -> String {
                address.iter().map(|byte| format!("{byte:08b}")).collect()
            };
            let mixed = bits(first)[..same_bits].to_owned() + &bits(other)[same_bits..];
            let address = Ipv6Addr::from(u128::from_str_radix(&mixed, 2).expect("128 bits"));
            let network = IpNetwork {
                first: masked(Ipv6Addr::from(first).into(), prefix),
                prefix_bits: prefix,
            };
            let model = mixed[..prefix.into()] == bits(first)[..prefix.into()];
            prop_assert_eq!(network.contains(address.into()), model);
        }

        #[test]
        fn a_network_round_trips(address: [u8; 4], prefix in 0_u8..=32) {
            let first = masked(IpAddr::from(address), prefix);
            let network = IpNetwork { first, prefix_bits: prefix };
            prop_assert_eq!(network.to_string().parse::<IpNetwork>(), Ok(network));
        }
    }
}
