//! Tests of the verdicts and messages of policies.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

fn with_networks(networks: &[&str]) -> AddressPolicy {
    let networks = networks.iter().map(|text| text.parse().expect(text));
    AddressPolicy::new(PrivateAddresses::Refused, networks, [])
}

fn with_private() -> AddressPolicy {
    AddressPolicy::new(PrivateAddresses::Allowed, [], [])
}

/// Addresses with the smallest setting that allows them: none, the key, a network that contains
/// them, a network of this one address; or no setting at all.
const VERDICTS: &[(&str, &str)] = &[
    ("192.31.196.1", "default"),
    ("8.8.8.8", "default"),
    ("2606:4700::1111", "default"),
    ("::ffff:8.8.8.8", "default"),
    ("64:ff9b::8.8.8.8", "default"),
    ("2002:808:808::1", "default"),
    ("127.0.0.1", "key"),
    ("127.255.255.254", "key"),
    ("::1", "key"),
    ("10.0.0.1", "key"),
    ("172.31.0.1", "key"),
    ("192.168.1.1", "key"),
    ("100.64.0.1", "key"),
    ("fd12:3456::1", "key"),
    ("::ffff:127.0.0.1", "key"),
    ("::127.0.0.1", "key"),
    ("64:ff9b::10.0.0.1", "key"),
    ("64:ff9b:1::10.0.0.1", "key"),
    ("64:ff9b:1:a0a:a:a00::", "key"),
    ("2002:a00:1::", "key"),
    ("2001:0:808:808:0:0:f5ff:fffe", "key"),
    ("169.254.1.1", "network"),
    ("fe80::1", "network"),
    ("192.0.2.1", "network"),
    ("2001:db8::1", "network"),
    ("3fff::1", "network"),
    ("198.19.0.1", "network"),
    ("192.0.0.170", "network"),
    ("192.88.99.1", "network"),
    ("5f00::1", "network"),
    ("::ffff:169.254.1.1", "network"),
    ("169.254.169.254", "address"),
    ("100.100.100.200", "address"),
    ("168.63.129.16", "address"),
    ("fd00:ec2::254", "address"),
    ("::ffff:169.254.169.254", "address"),
    ("64:ff9b::a9fe:a9fe", "address"),
    ("2002:a9fe:a9fe::", "address"),
    ("0.0.0.0", "never"),
    ("0.1.2.3", "never"),
    ("::", "never"),
    ("::ffff:0.0.0.0", "never"),
    ("224.0.0.1", "never"),
    ("ff02::1", "never"),
    ("255.255.255.255", "never"),
    ("240.0.0.1", "never"),
    ("100::1", "never"),
    ("fec0::1", "never"),
    ("4000::1", "never"),
    ("::ffff:0:8.8.8.8", "never"),
    ("64:ff9b::255.255.255.255", "never"),
];

#[test]
fn each_address_needs_its_setting() {
    let (default, private) = (AddressPolicy::default(), with_private());
    let everything = with_networks(&["0.0.0.0/0", "::/0"]);
    let all = AddressPolicy::new(
        PrivateAddresses::Allowed,
        ["0.0.0.0/0", "::/0"].map(|text| text.parse().expect(text)),
        [],
    );
    for (address, needs) in VERDICTS {
        let rank = ["default", "key", "network", "address", "never"];
        let rank = rank.iter().position(|word| word == needs).expect("a setting");
        let address = ip(address);
        assert_eq!(default.check(address).is_ok(), rank < 1, "{address} by default");
        assert_eq!(private.check(address).is_ok(), rank < 2, "{address} with the key");
        assert_eq!(everything.check(address).is_ok(), rank < 3, "{address} with networks");
        assert_eq!(all.check(address).is_ok(), rank < 3, "{address} with both");
        let Err(refused) = all.check(address) else { continue };
        let alone = IpNetwork::of_address(refused.judged);
        let alone = AddressPolicy::new(PrivateAddresses::Refused, [alone], []);
        assert_eq!(alone.check(address).is_ok(), rank < 4, "{address} alone");
    }
}

#[test]
fn errors_name_the_address_its_class_and_the_setting() {
    for (address, message) in [
        (
            "10.0.0.5",
            "connections to 10.0.0.5 are refused (private network); set fetch-private, or add a \
             network such as 10.0.0.5/32 to fetch-network",
        ),
        (
            "::ffff:127.0.0.1",
            "connections to ::ffff:127.0.0.1 are refused (IPv4 address 127.0.0.1 inside: \
             loopback); set fetch-private, or add a network such as 127.0.0.1/32 to fetch-network",
        ),
        (
            "169.254.169.254",
            "connections to 169.254.169.254 are refused (cloud metadata service); to allow it, \
             add 169.254.169.254/32 to fetch-network",
        ),
        (
            "fe80::1",
            "connections to fe80::1 are refused (link-local); to allow it, add fe80::1/128 to \
             fetch-network",
        ),
        ("0.0.0.0", "connections to 0.0.0.0 are refused (unspecified); no setting allows it"),
    ] {
        let error = AddressPolicy::default().check(ip(address)).expect_err(address);
        assert_eq!(error.to_string(), message);
        assert_eq!(error.address(), ip(address));
    }
}

#[test]
fn networks_widen_the_policy_only_to_their_addresses() {
    let policy = with_networks(&["10.1.0.0/16", "fd00::/8", "127.0.0.1"]);
    for address in ["10.1.2.3", "::ffff:10.1.2.3", "fd00::1", "127.0.0.1", "64:ff9b::127.0.0.1"] {
        assert_eq!(policy.check(ip(address)), Ok(()), "{address}");
    }
    for address in ["10.2.0.1", "fc00::1", "127.0.0.2", "fd00:ec2::254", "64:ff9b::10.2.0.1"] {
        assert!(policy.check(ip(address)).is_err(), "{address}");
    }
}

#[test]
fn unix_sockets_are_allowed_by_their_paths() {
    let policy = AddressPolicy::new(PrivateAddresses::Allowed, [], ["/run/app.sock".into()]);
    assert_eq!(policy.check_socket(Path::new("/run/app.sock")), Ok(()));
    for path in ["/run/docker.sock", "/run/../run/app.sock", "/run//app.sock", "/run/./app.sock"] {
        let error = policy.check_socket(Path::new(path)).expect_err(path);
        let message =
            format!("connections to unix:{path} are refused; add the path to fetch-socket");
        assert_eq!(error.to_string(), message);
    }
}

/// All IPv6 forms of an IPv4 address that are looked through, apart from NAT64 with a prefix of the
/// operator.
fn forms(inner: Ipv4Addr, other: u64) -> [Ipv6Addr; 5] {
    let bits = u128::from(inner.to_bits());
    let low = u128::from(other);
    // A Teredo server with a global address.
    let server = u128::from(Ipv4Addr::new(65, 54, 227, 120).to_bits());
    [
        bits,
        0xffff << 32 | bits,
        0x0064_ff9b << 96 | bits,
        0x2002 << 112 | bits << 80 | low,
        0x2001 << 112 | server << 64 | (low & 0xffff_ffff) << 32 | (bits ^ 0xffff_ffff),
    ]
    .map(Ipv6Addr::from)
}

/// Forms of RFC 6052 §2.2 within 64:ff9b:1::/48, with zeros after the address.
fn local_nat64_forms(inner: Ipv4Addr, other: u64) -> [Ipv6Addr; 4] {
    let prefix = 0x0064_ff9b_0001_u128 << 80;
    let [a, b, c, d] = inner.octets().map(u128::from);
    let subnet = u128::from(other) & 0xffff;
    let all = u128::from(inner.to_bits());
    [
        prefix | (a << 8 | b) << 64 | (c << 8 | d) << 40,
        prefix | (subnet >> 8) << 72 | a << 64 | (b << 16 | c << 8 | d) << 32,
        prefix | subnet << 64 | all << 24,
        prefix | subnet << 64 | (u128::from(other) >> 32) << 32 | all,
    ]
    .map(Ipv6Addr::from)
}

fn addresses() -> impl Strategy<Value = Ipv4Addr> {
    let listed = VERDICTS.iter().filter_map(|(text, _)| text.parse::<Ipv4Addr>().ok());
    prop_oneof![
        any::<u32>().prop_map(Ipv4Addr::from),
        prop::sample::select(listed.collect::<Vec<_>>()),
        (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Ipv4Addr::new(10, 0, a, b)),
        (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Ipv4Addr::new(169, 254, a, b)),
    ]
}

fn policies() -> impl Strategy<Value = AddressPolicy> {
    const NETWORKS: [&str; 5] =
        ["10.0.0.0/8", "127.0.0.1", "169.254.0.0/16", "169.254.169.254", "0.0.0.0/0"];
    let networks = prop::collection::vec(prop::sample::select(&NETWORKS[..]), 0..4);
    (networks, any::<bool>()).prop_map(|(networks, is_private)| {
        let private =
            if is_private { PrivateAddresses::Allowed } else { PrivateAddresses::Refused };
        AddressPolicy::new(private, networks.iter().map(|text| text.parse().expect(text)), [])
    })
}

/// Returns the verdict of a policy, without the text of the address.
fn verdict(policy: &AddressPolicy, address: IpAddr) -> Option<(AddressClass, IpAddr)> {
    policy.check(address).err().map(|refused| (refused.class, refused.judged))
}

proptest! {
    /// Every form of an IPv4 address has the verdict of this address.
    #[test]
    fn embedding_forms_have_the_verdict_of_their_ipv4_address(
        inner in addresses(), other: u64, policy in policies(),
    ) {
        for form in forms(inner, other) {
            // `::` and `::1` are addresses of their own.
            if form.is_unspecified() || form.is_loopback() {
                continue;
            }
            let expected = verdict(&policy, inner.into());
            prop_assert_eq!(verdict(&policy, form.into()), expected, "{}", form);
        }
    }

    /// The same for the local prefix of NAT64. Where the length of the prefix is not clear, the
    /// verdict is that of one of the addresses that may be inside, and never a milder one.
    #[test]
    fn local_nat64_is_at_least_as_strict_as_its_ipv4_address(
        inner in addresses(), other: u64, policy in policies(),
    ) {
        // No packet is for 0.0.0.0, and the zeros are those of a shorter prefix.
        prop_assume!(!inner.is_unspecified());
        for form in local_nat64_forms(inner, other) {
            let (found, expected) = (policy.check(form.into()), policy.check(inner.into()));
            prop_assert!(embedded(form).contains(&inner), "{}", form);
            prop_assert!(found.is_err() || expected.is_ok(), "{}", form);
            if embedded(form) == [inner] {
                prop_assert_eq!(found.is_ok(), expected.is_ok(), "{}", form);
            }
        }
    }

    /// A wider policy allows all that a narrower one allows.
    #[test]
    fn settings_only_widen(inner in addresses(), bits: u128, policy in policies()) {
        for address in [IpAddr::from(inner), IpAddr::V6(bits.into())] {
            if AddressPolicy::default().check(address).is_ok() {
                prop_assert_eq!(policy.check(address), Ok(()));
            }
        }
    }
}
