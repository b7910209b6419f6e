//! Classes of addresses, from the IANA special-purpose address registries (RFC 6890, RFC 8190) and
//! the registries of the whole address spaces.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The purpose of an address. The address policy decides by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressClass {
    /// A unicast address that is globally reachable.
    Global,
    /// This machine: 127.0.0.0/8 (RFC 1122 §3.2.1.3), `::1` (RFC 4291 §2.5.3).
    Loopback,
    /// Private networks: 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 (RFC 1918).
    Private,
    /// Networks after the translators of a provider: 100.64.0.0/10 (RFC 6598).
    Shared,
    /// Unique local addresses: fc00::/7 (RFC 4193).
    UniqueLocal,
    /// One link: 169.254.0.0/16 (RFC 3927), fe80::/10 (RFC 4291 §2.5.6).
    LinkLocal,
    /// Services of cloud providers that give credentials to every program of a machine.
    Metadata,
    /// Examples in documents: 192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24 (RFC 5737),
    /// 2001:db8::/32 (RFC 3849), 3fff::/20 (RFC 9637).
    Documentation,
    /// Tests of network devices: 198.18.0.0/15 (RFC 2544), 2001:2::/48 (RFC 5180).
    Benchmarking,
    /// Addresses of protocols that are not globally reachable, such as 192.0.0.0/24 and 2001::/23
    /// (RFC 6890), 192.88.99.0/24 (RFC 7526), 5f00::/16 (RFC 9602).
    Protocol,
    /// No host: 0.0.0.0/8 (RFC 791 §3.2), `::` (RFC 4291 §2.5.2). Linux connects to itself.
    Unspecified,
    /// Groups of hosts: 224.0.0.0/4 (RFC 5771), ff00::/8 (RFC 4291 §2.7).
    Multicast,
    /// All hosts of a network: 255.255.255.255 (RFC 8190).
    Broadcast,
    /// Addresses that are not assigned, or discarded: 240.0.0.0/4 (RFC 1112 §4), 100::/64 (RFC
    /// 6666), IPv6 addresses outside of 2000::/3 (RFC 3513 §4).
    Reserved,
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Global => "global",
            Self::Loopback => "loopback",
            Self::Private => "private network",
            Self::Shared => "shared address space",
            Self::UniqueLocal => "unique local",
            Self::LinkLocal => "link-local",
            Self::Metadata => "cloud metadata service",
            Self::Documentation => "documentation",
            Self::Benchmarking => "benchmarking",
            Self::Protocol => "reserved for a protocol",
            Self::Unspecified => "unspecified",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::Reserved => "reserved",
        })
    }
}

impl AddressClass {
    /// Returns the class of an address. IPv4 addresses within IPv6 addresses are not searched for
    /// here (the policy does that): the prefixes of translators and tunnels are [`Self::Protocol`].
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_ipv4(address),
            IpAddr::V6(address) => of_ipv6(address),
        }
    }
}

/// A row: the first address, the length of the prefix, the class.
type Ipv4Row = ([u8; 4], u32, AddressClass);

/// Special addresses, the most specific rows first. All others are global.
const IPV4: &[Ipv4Row] = &[
    // Services with credentials of the machine.
    ([169, 254, 169, 254], 32, AddressClass::Metadata), // AWS, Azure, Google Cloud and others
    ([169, 254, 170, 2], 32, AddressClass::Metadata),   // AWS ECS: credentials of a task
    ([169, 254, 170, 23], 32, AddressClass::Metadata),  // AWS EKS: credentials of a pod
    ([169, 254, 42, 42], 32, AddressClass::Metadata),   // Scaleway
    ([169, 254, 0, 23], 32, AddressClass::Metadata),    // Tencent Cloud
    ([100, 100, 100, 200], 32, AddressClass::Metadata), // Alibaba Cloud
    ([168, 63, 129, 16], 32, AddressClass::Metadata),   // Azure: the agent of the machine
    ([192, 0, 0, 192], 32, AddressClass::Metadata),     // Oracle Cloud, first generation
    // IANA IPv4 Special-Purpose Address Registry.
    ([255, 255, 255, 255], 32, AddressClass::Broadcast),
    ([192, 0, 0, 9], 32, AddressClass::Global), // Port Control Protocol anycast, RFC 7723
    ([192, 0, 0, 10], 32, AddressClass::Global), // TURN anycast, RFC 8155
    ([192, 0, 0, 0], 24, AddressClass::Protocol),
    ([192, 0, 2, 0], 24, AddressClass::Documentation),
    ([192, 88, 99, 0], 24, AddressClass::Protocol), // 6to4 relay anycast, deprecated by RFC 7526
    ([198, 51, 100, 0], 24, AddressClass::Documentation),
    ([203, 0, 113, 0], 24, AddressClass::Documentation),
    ([169, 254, 0, 0], 16, AddressClass::LinkLocal),
    ([192, 168, 0, 0], 16, AddressClass::Private),
    ([198, 18, 0, 0], 15, AddressClass::Benchmarking),
    ([172, 16, 0, 0], 12, AddressClass::Private),
    ([100, 64, 0, 0], 10, AddressClass::Shared),
    ([0, 0, 0, 0], 8, AddressClass::Unspecified),
    ([10, 0, 0, 0], 8, AddressClass::Private),
    ([127, 0, 0, 0], 8, AddressClass::Loopback),
    ([240, 0, 0, 0], 4, AddressClass::Reserved),
    // IANA IPv4 Address Space Registry.
    ([224, 0, 0, 0], 4, AddressClass::Multicast),
];

fn of_ipv4(address: Ipv4Addr) -> AddressClass {
    let bits = address.to_bits();
    let covers = |&&(first, prefix, _): &&Ipv4Row| {
        (bits ^ Ipv4Addr::from(first).to_bits()) >> (u32::BITS - prefix) == 0
    };
    IPV4.iter().find(covers).map_or(AddressClass::Global, |(_, _, class)| *class)
}

/// A row: the segments of the first address, the length of the prefix, the class.
type Ipv6Row = ([u16; 8], u32, AddressClass);

/// Special addresses, the most specific rows first. The last row has all addresses that are not
/// special.
const IPV6: &[Ipv6Row] = &[
    // Services with credentials of the machine.
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, AddressClass::Metadata), // AWS
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128, AddressClass::Metadata),  // AWS EKS
    ([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, AddressClass::Metadata),  // Google Cloud
    ([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128, AddressClass::Metadata),   // Scaleway
    ([0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128, AddressClass::Metadata), // Oracle Cloud
    ([0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200], 128, AddressClass::Metadata), // Alibaba Cloud
    ([0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1], 128, AddressClass::Metadata), // Akamai, Linode
    // IANA IPv6 Special-Purpose Address Registry.
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, AddressClass::Unspecified),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, AddressClass::Loopback),
    ([0, 0, 0, 0, 0, 0, 0, 0], 96, AddressClass::Protocol), // IPv4-compatible, deprecated
    ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, AddressClass::Protocol), // IPv4-mapped
    ([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, AddressClass::Protocol), // NAT64, RFC 6052
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, AddressClass::Protocol), // NAT64, RFC 8215
    ([0x2001, 1, 0, 0, 0, 0, 0, 1], 128, AddressClass::Global), // RFC 7723
    ([0x2001, 1, 0, 0, 0, 0, 0, 2], 128, AddressClass::Global), // RFC 8155
    ([0x2001, 1, 0, 0, 0, 0, 0, 3], 128, AddressClass::Global), // RFC 9665
    ([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, AddressClass::Benchmarking),
    ([0x2001, 4, 0x112, 0, 0, 0, 0, 0], 48, AddressClass::Global), // AS112, RFC 7535
    ([0x2001, 3, 0, 0, 0, 0, 0, 0], 32, AddressClass::Global),     // AMT, RFC 7450
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, AddressClass::Documentation),
    ([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28, AddressClass::Global), // ORCHIDv2, RFC 7343
    ([0x2001, 0x30, 0, 0, 0, 0, 0, 0], 28, AddressClass::Global), // Drone Remote ID, RFC 9374
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, AddressClass::Protocol),  // with Teredo, RFC 4380
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, AddressClass::Documentation),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, AddressClass::Protocol), // 6to4, RFC 3056
    ([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, AddressClass::Protocol), // SRv6 segments, RFC 9602
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, AddressClass::LinkLocal),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, AddressClass::Multicast),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, AddressClass::UniqueLocal),
    // IANA IPv6 Address Space Registry: global unicast, and nothing else, is in 2000::/3. The
    // discard-only prefixes of the special-purpose registry (100::/64, 100:0:0:1::/64) are outside.
    ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, AddressClass::Global),
];

fn of_ipv6(address: Ipv6Addr) -> AddressClass {
    let bits = address.to_bits();
    let covers = |&&(first, prefix, _): &&Ipv6Row| {
        (bits ^ Ipv6Addr::from(first).to_bits()) >> (u128::BITS - prefix) == 0
    };
    IPV6.iter().find(covers).map_or(AddressClass::Reserved, |(_, _, class)| *class)
}

/// Returns the IPv4 addresses that a packet to an IPv6 address may be forwarded to, because the
/// address is translated or is that of a tunnel:
///
/// - IPv4-mapped, `::ffff:0:0/96` (RFC 4291 §2.5.5.2); the kernel connects over IPv4
/// - IPv4-compatible, `::/96` (§2.5.5.1), but neither `::` nor `::1`
/// - NAT64, `64:ff9b::/96` (RFC 6052) and `64:ff9b:1::/48` (RFC 8215). Operators choose the length
///   of the prefix within the latter, so several addresses may be inside: all forms of RFC 6052
///   §2.2 count whose other bits are zero
/// - 6to4, `2002::/16` (RFC 3056)
/// - Teredo, `2001::/32`: the client, and the server (RFC 4380 §4)
pub(crate) fn embedded(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let bits = address.to_bits();
    let ipv4_at = |bit: u32| Ipv4Addr::from_bits((bits >> (96 - bit)) as u32);
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Vec::new(),
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => vec![ipv4_at(96)],
        [0x64, 0xff9b, 1, ..] => local_nat64(bits),
        [0x2002, ..] => vec![ipv4_at(16)],
        [0x2001, 0, ..] => vec![!ipv4_at(96), ipv4_at(32)],
        _ => Vec::new(),
    }
}

/// Finds the addresses in one of 64:ff9b:1::/48. The bits 64 to 71 are skipped by all forms except
/// the one with a prefix of 96 bits (RFC 6052 §2.2), and the bits after the address are zero.
fn local_nat64(bits: u128) -> Vec<Ipv4Addr> {
    let without_skipped = (bits >> 64 << 56) | (bits & ((1 << 56) - 1));
    let are_skipped_zero = (bits >> 56) & 0xff == 0;
    let mut found = Vec::new();
    for prefix in [48, 56, 64] {
        // Without the skipped bits an address has 120 of them.
        let behind = 120 - prefix - 32;
        if are_skipped_zero && without_skipped & ((1 << behind) - 1) == 0 {
            found.push(Ipv4Addr::from_bits((without_skipped >> behind) as u32));
        }
    }
    if bits as u32 != 0 || found.is_empty() {
        found.push(Ipv4Addr::from_bits(bits as u32));
    }
    found
}

#[cfg(test)]
mod tests;
