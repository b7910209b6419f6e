//! The order of destination addresses (RFC 6724 §6), as far as it follows from the addresses
//! themselves.
//!
//! Of the ten rules, 6 and 8 are applied, and 10 by sorting stably. The others compare source
//! addresses, which only the kernel knows; an address that cannot be reached fails at once, and the
//! next one is tried.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv6Addr};

/// The rank of an address: lower ranks are tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AddressRank {
    /// Rule 6: higher precedence first.
    precedence: Reverse<u8>,
    /// Rule 8: smaller scope first.
    scope: u8,
}

impl AddressRank {
    pub(crate) fn of(address: IpAddr) -> Self {
        Self { precedence: Reverse(precedence(address)), scope: scope(address) }
    }
}

/// A row of the policy table: the first address, the length of the prefix, the precedence.
type PolicyRow = ([u16; 8], u32, u8);

/// The default policy table (RFC 6724 §2.1), the longest prefixes first.
const POLICY: &[PolicyRow] = &[
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, 50),
    ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, 35),
    ([0, 0, 0, 0, 0, 0, 0, 0], 96, 1),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, 5),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, 30),
    ([0x3ffe, 0, 0, 0, 0, 0, 0, 0], 16, 1),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, 1),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, 3),
];

/// The precedence of all other addresses: the row `::/0`.
const OTHER_PRECEDENCE: u8 = 40;

fn precedence(address: IpAddr) -> u8 {
    // IPv4 addresses are represented as IPv4-mapped addresses (RFC 6724 §2.1).
    let bits = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    };
    let covers = |&&(first, prefix, _): &&PolicyRow| {
        (bits ^ Ipv6Addr::from(first).to_bits()) >> (u128::BITS - prefix) == 0
    };
    POLICY.iter().find(covers).map_or(OTHER_PRECEDENCE, |(_, _, precedence)| *precedence)
}

/// The scope of an address as the numbers of RFC 4291 §2.7. IPv4 loopback and link-local addresses
/// have link-local scope (RFC 6724 §3.2), and so has `::1`.
fn scope(address: IpAddr) -> u8 {
    const LINK_LOCAL: u8 = 2;
    const SITE_LOCAL: u8 = 5;
    const GLOBAL: u8 = 14;
    match address {
        IpAddr::V4(address) if address.is_loopback() || address.is_link_local() => LINK_LOCAL,
        IpAddr::V6(address) if address.is_loopback() => LINK_LOCAL,
        IpAddr::V6(address) if address.is_unicast_link_local() => LINK_LOCAL,
        IpAddr::V6(address) if address.segments()[0] & 0xffc0 == 0xfec0 => SITE_LOCAL,
        _ => GLOBAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6724 §2.1: the default policy table.
    #[test]
    fn precedence_is_that_of_the_default_policy_table() {
        for (address, expected) in [
            ("::1", 50),
            ("2001:db8::1", 40),
            ("fe80::1", 40),
            ("192.0.2.1", 35),
            ("127.0.0.1", 35),
            ("::ffff:192.0.2.1", 35),
            ("2002:c000:201::1", 30),
            ("2001:0:1::1", 5),
            ("fd00::1", 3),
            ("::192.0.2.1", 1),
            ("fec0::1", 1),
            ("3ffe::1", 1),
        ] {
            assert_eq!(precedence(address.parse().expect(address)), expected, "{address}");
        }
    }

    #[test]
    fn better_addresses_precede_others() {
        let best_first = [
            "::1",
            "fe80::1",
            "2001:db8::1",
            "127.0.0.1",
            "192.0.2.1",
            "2002::1",
            "2001::1",
            "fd00::1",
            "::192.0.2.1",
        ];
        let best_first: Vec<IpAddr> =
            best_first.iter().map(|text| text.parse().expect(text)).collect();
        let mut sorted: Vec<IpAddr> = best_first.iter().rev().copied().collect();
        sorted.sort_by_key(|address| AddressRank::of(*address));
        assert_eq!(sorted, best_first);
    }
}
