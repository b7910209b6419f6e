//! Tests of the tables against the registries of IANA.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::AddressClass::*;
use super::*;
use crate::ip_network::IpNetwork;

/// The rows of both special-purpose registries: block, name, the column "Globally Reachable" (`-`
/// where it is "N/A"), and the class.
const REGISTRIES: &[(&str, &str, char, AddressClass)] = &[
    // IANA IPv4 Special-Purpose Address Registry.
    ("0.0.0.0/8", "This network", 'F', Unspecified),
    ("0.0.0.0/32", "This host on this network", 'F', Unspecified),
    ("10.0.0.0/8", "Private-Use", 'F', Private),
    ("100.64.0.0/10", "Shared Address Space", 'F', Shared),
    ("127.0.0.0/8", "Loopback", 'F', Loopback),
    ("169.254.0.0/16", "Link Local", 'F', LinkLocal),
    ("172.16.0.0/12", "Private-Use", 'F', Private),
    ("192.0.0.0/24", "IETF Protocol Assignments", 'F', Protocol),
    ("192.0.0.0/29", "IPv4 Service Continuity Prefix", 'F', Protocol),
    ("192.0.0.8/32", "IPv4 dummy address", 'F', Protocol),
    ("192.0.0.9/32", "Port Control Protocol Anycast", 'T', Global),
    ("192.0.0.10/32", "Traversal Using Relays around NAT Anycast", 'T', Global),
    ("192.0.0.170/32", "NAT64/DNS64 Discovery", 'F', Protocol),
    ("192.0.0.171/32", "NAT64/DNS64 Discovery", 'F', Protocol),
    ("192.0.2.0/24", "Documentation (TEST-NET-1)", 'F', Documentation),
    ("192.31.196.0/24", "AS112-v4", 'T', Global),
    ("192.52.193.0/24", "AMT", 'T', Global),
    ("192.88.99.0/24", "Deprecated (6to4 Relay Anycast)", '-', Protocol),
    ("192.88.99.2/32", "6a44-relay anycast address", 'F', Protocol),
    ("192.168.0.0/16", "Private-Use", 'F', Private),
    ("192.175.48.0/24", "Direct Delegation AS112 Service", 'T', Global),
    ("198.18.0.0/15", "Benchmarking", 'F', Benchmarking),
    ("198.51.100.0/24", "Documentation (TEST-NET-2)", 'F', Documentation),
    ("203.0.113.0/24", "Documentation (TEST-NET-3)", 'F', Documentation),
    ("240.0.0.0/4", "Reserved", 'F', Reserved),
    ("255.255.255.255/32", "Limited Broadcast", 'F', Broadcast),
    // IANA IPv6 Special-Purpose Address Registry. Prefixes with IPv4 addresses inside are judged as
    // these, whatever this class is.
    ("::1/128", "Loopback Address", 'F', Loopback),
    ("::/128", "Unspecified Address", 'F', Unspecified),
    ("::ffff:0:0/96", "IPv4-mapped Address", 'F', Protocol),
    ("64:ff9b::/96", "IPv4-IPv6 Translat.", 'T', Protocol),
    ("64:ff9b:1::/48", "IPv4-IPv6 Translat.", 'F', Protocol),
    ("100::/64", "Discard-Only Address Block", 'F', Reserved),
    ("100:0:0:1::/64", "Dummy IPv6 Prefix", 'F', Reserved),
    ("2001::/23", "IETF Protocol Assignments", 'F', Protocol),
    ("2001::/32", "TEREDO", '-', Protocol),
    ("2001:1::1/128", "Port Control Protocol Anycast", 'T', Global),
    ("2001:1::2/128", "Traversal Using Relays around NAT Anycast", 'T', Global),
    ("2001:1::3/128", "DNS-SD Service Registration Protocol Anycast", 'T', Global),
    ("2001:2::/48", "Benchmarking", 'F', Benchmarking),
    ("2001:3::/32", "AMT", 'T', Global),
    ("2001:4:112::/48", "AS112-v6", 'T', Global),
    ("2001:10::/28", "Deprecated (previously ORCHID)", '-', Protocol),
    ("2001:20::/28", "ORCHIDv2", 'T', Global),
    ("2001:30::/28", "Drone Remote ID Protocol Entity Tags", 'T', Global),
    ("2001:db8::/32", "Documentation", 'F', Documentation),
    ("2002::/16", "6to4", '-', Protocol),
    ("2620:4f:8000::/48", "Direct Delegation AS112 Service", 'T', Global),
    ("3fff::/20", "Documentation", 'F', Documentation),
    ("5f00::/16", "Segment Routing (SRv6) SIDs", 'F', Protocol),
    ("fc00::/7", "Unique-Local", 'F', UniqueLocal),
    ("fe80::/10", "Link-Local Unicast", 'F', LinkLocal),
];

/// The rows of the registries of the whole address spaces that the others do not refine.
const SPACES: &[(&str, AddressClass)] = &[
    ("224.0.0.0/4", Multicast),
    ("1.0.0.0/8", Global),
    ("126.0.0.0/8", Global),
    ("223.0.0.0/8", Global),
    ("::2:0:0:0/80", Reserved),
    ("200::/7", Reserved),
    ("400::/6", Reserved),
    ("800::/5", Reserved),
    ("1000::/4", Reserved),
    ("2400::/12", Global),
    ("2a00::/12", Global),
    ("4000::/3", Reserved),
    ("6000::/3", Reserved),
    ("8000::/3", Reserved),
    ("a000::/3", Reserved),
    ("c000::/3", Reserved),
    ("e000::/4", Reserved),
    ("f000::/5", Reserved),
    ("f800::/6", Reserved),
    ("fe00::/9", Reserved),
    ("fec0::/10", Reserved),
    ("ff00::/8", Multicast),
];

/// Splits a block into its first address and its length, without the checks of a setting.
fn block(text: &str) -> (IpAddr, u32) {
    let (first, prefix) = text.split_once('/').expect(text);
    (first.parse().expect(text), prefix.parse().expect(text))
}

/// Returns the first and the last address of a block, and one in the middle.
fn samples(text: &str) -> Vec<IpAddr> {
    match block(text) {
        (IpAddr::V4(first), prefix) => {
            let behind = u32::MAX.checked_shr(prefix).unwrap_or(0);
            let third = 0x5555_5555 & behind;
            [0, third, behind].map(|bits| IpAddr::V4((first.to_bits() | bits).into())).into()
        }
        (IpAddr::V6(first), prefix) => {
            let behind = u128::MAX.checked_shr(prefix).unwrap_or(0);
            let third = (u128::MAX / 3) & behind;
            [0, third, behind].map(|bits| IpAddr::V6((first.to_bits() | bits).into())).into()
        }
    }
}

fn has(text: &str, address: IpAddr) -> bool {
    match (block(text), address) {
        ((IpAddr::V4(first), prefix), IpAddr::V4(address)) => {
            (first.to_bits() ^ address.to_bits()).checked_shr(32 - prefix).unwrap_or(0) == 0
        }
        ((IpAddr::V6(first), prefix), IpAddr::V6(address)) => {
            (first.to_bits() ^ address.to_bits()).checked_shr(128 - prefix).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// The most specific row of a registry decides (RFC 6890 §2.2.2).
fn by_registry(address: IpAddr) -> Option<(&'static str, char, AddressClass)> {
    let rows = REGISTRIES.iter().filter(|row| has(row.0, address));
    let row = rows.max_by_key(|row| block(row.0).1)?;
    Some((row.1, row.2, row.3))
}

#[test]
fn every_block_of_the_special_purpose_registries_has_its_class() {
    for (text, name, _, class) in REGISTRIES {
        for address in samples(text) {
            let (found_name, _, expected) = by_registry(address).expect(text);
            if found_name == *name {
                assert_eq!(expected, *class, "{text}");
            }
            assert_eq!(AddressClass::of(address), expected, "{address} of {text} ({name})");
        }
    }
}

#[test]
fn only_globally_reachable_blocks_are_global() {
    for (text, name, reachable, class) in REGISTRIES {
        // The NAT64 prefix reaches the addresses inside.
        let is_translated = *text == "64:ff9b::/96";
        assert_eq!(*class == Global, *reachable == 'T' && !is_translated, "{text} ({name})");
    }
}

#[test]
fn the_rest_of_the_address_spaces_has_its_class() {
    for (text, class) in SPACES {
        for address in samples(text) {
            assert_eq!(AddressClass::of(address), *class, "{address} of {text}");
        }
    }
}

#[test]
fn metadata_services_are_recognised_by_their_addresses() {
    for (text, neighbour, class) in [
        ("169.254.169.254", "169.254.169.253", LinkLocal),
        ("169.254.170.2", "169.254.170.3", LinkLocal),
        ("169.254.170.23", "169.254.170.22", LinkLocal),
        ("169.254.42.42", "169.254.42.43", LinkLocal),
        ("169.254.0.23", "169.254.0.22", LinkLocal),
        ("100.100.100.200", "100.100.100.201", Shared),
        ("168.63.129.16", "168.63.129.17", Global),
        ("192.0.0.192", "192.0.0.193", Protocol),
        ("fd00:ec2::254", "fd00:ec2::253", UniqueLocal),
        ("fd00:ec2::23", "fd00:ec2::22", UniqueLocal),
        ("fd20:ce::254", "fd20:ce::253", UniqueLocal),
        ("fd00:42::42", "fd00:42::43", UniqueLocal),
        ("fd00:c1::a9fe:a9fe", "fd00:c1::a9fe:a9ff", UniqueLocal),
        ("fd00:100::100:200", "fd00:100::100:201", UniqueLocal),
        ("fd00:a9fe:a9fe::1", "fd00:a9fe:a9fe::2", UniqueLocal),
    ] {
        assert_eq!(AddressClass::of(text.parse().expect(text)), Metadata, "{text}");
        assert_eq!(AddressClass::of(neighbour.parse().expect(neighbour)), class, "{neighbour}");
    }
}

#[test]
fn embedded_ipv4_addresses_are_found() {
    for (form, inside) in [
        ("::", &[][..]),
        ("::1", &[]),
        ("::2", &["0.0.0.2"]),
        ("::192.0.2.1", &["192.0.2.1"]),
        ("::ffff:192.0.2.1", &["192.0.2.1"]),
        ("::ffff:0:192.0.2.1", &[]),
        ("64:ff9b::192.0.2.1", &["192.0.2.1"]),
        ("64:ff9b::1:0:0", &[]),
        // The examples of RFC 6052 §2.4 (192.0.2.33 behind 48, 56, 64 and 96 bits), with the prefix
        // of RFC 8215. Zeros at the end may belong to the address or not.
        ("64:ff9b:1:c000:2:2100::", &["192.0.2.33", "0.2.33.0", "2.33.0.0"]),
        ("64:ff9b:1:3c0:0:221::", &["192.0.2.33", "0.2.33.0"]),
        ("64:ff9b:1:344:c0:2:2100:0", &["192.0.2.33", "33.0.0.0"]),
        ("64:ff9b:1::192.0.2.33", &["192.0.2.33"]),
        ("64:ff9b:1:abcd:ef01:2345:192.0.2.33", &["192.0.2.33"]),
        ("64:ff9b:1::", &["0.0.0.0", "0.0.0.0", "0.0.0.0"]),
        ("2002:c000:201::1", &["192.0.2.1"]),
        ("2002:c000:201:1:2:3:4:5", &["192.0.2.1"]),
        // The example of RFC 4380 §4: the server 65.54.227.120, the client 192.0.2.45.
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", &["192.0.2.45", "65.54.227.120"]),
        ("2001:1::1", &[]),
        ("2001:db8::192.0.2.1", &[]),
        ("fe80::5efe:192.0.2.1", &[]),
    ] {
        let found: Vec<String> =
            embedded(form.parse().expect(form)).iter().map(ToString::to_string).collect();
        assert_eq!(found, inside, "{form}");
    }
}

proptest! {
    /// The classes agree with the registries for all addresses, also those between two blocks.
    #[test]
    fn ipv4_classes_are_those_of_the_registry(bits: u32, row in 0..REGISTRIES.len(), low: u8) {
        let near = match block(REGISTRIES[row].0) {
            (IpAddr::V4(first), _) => first.to_bits().wrapping_add(low.into()).wrapping_sub(128),
            (IpAddr::V6(_), _) => bits,
        };
        for address in [Ipv4Addr::from(bits), Ipv4Addr::from(near)] {
            let class = AddressClass::of(address.into());
            let registered = by_registry(address.into()).map(|(_, _, class)| class);
            let expected = match registered {
                Some(class) => class,
                None if address.is_multicast() => Multicast,
                None => Global,
            };
            prop_assert!(class == expected || class == Metadata, "{} {:?}", address, class);
        }
    }

    #[test]
    fn ipv6_classes_are_those_of_the_registry(bits: u128, row in 0..REGISTRIES.len(), low: u16) {
        let near = match block(REGISTRIES[row].0) {
            (IpAddr::V6(first), prefix) => {
                let unit = 1_u128.checked_shl(128 - prefix).unwrap_or(1) >> 15;
                first.to_bits().wrapping_add(unit.max(1).wrapping_mul(low.into()))
            }
            (IpAddr::V4(_), _) => bits,
        };
        for address in [Ipv6Addr::from(bits), Ipv6Addr::from(near)] {
            let class = AddressClass::of(address.into());
            let registered = by_registry(address.into()).map(|(_, _, class)| class);
            let is_compatible = address.to_bits() >> 32 == 0;
            let expected = match registered {
                Some(class) => class,
                None if address.is_multicast() => Multicast,
                None if is_compatible => Protocol,
                None if address.segments()[0] >> 13 == 1 => Global,
                None => Reserved,
            };
            prop_assert!(class == expected || class == Metadata, "{} {:?}", address, class);
        }
    }

    /// A network of settings and the rows of the tables mean the same addresses.
    #[test]
    fn rows_and_networks_cover_the_same_addresses(bits: u32, row in 0..IPV4.len()) {
        let (first, prefix, _) = IPV4[row];
        let text = format!("{}/{prefix}", Ipv4Addr::from(first));
        let network: IpNetwork = text.parse().expect("a row without bits behind its prefix");
        let near = Ipv4Addr::from(first).to_bits() ^ bits.checked_shr(prefix).unwrap_or(0);
        prop_assert!(network.contains(IpAddr::V4(near.into())));
        let address = IpAddr::V4(bits.into());
        prop_assert_eq!(network.contains(address), has(&text, address));
    }
}
