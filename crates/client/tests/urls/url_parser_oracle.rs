//! Targets of connections compared with a second reader of URLs: the checks of the fuzz target
//! `client_url`. Two programs that read different hosts in one URL make it possible to evade a
//! check of URLs, so a target here must be the same as that of a reader of the URL Standard.

use std::net::IpAddr;

use pinion_client::address_policy::AddressPolicy;
use pinion_client::connect_target::{ConnectEndpoint, ConnectTarget};

/// Panics if the result differs from that of the URL Standard. Returns whether the URL is a target.
pub(crate) fn check(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let Ok((target, rest)) = ConnectTarget::from_url(text) else { return false };
    assert!(text.ends_with(rest), "{text:?}");
    let other = url::Url::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    assert_eq!(other.scheme() == "https", target.is_tls(), "{text:?}");
    assert_eq!((other.username(), other.password()), ("", None), "{text:?}");
    let (host, port) = match target.endpoint() {
        ConnectEndpoint::Address { address, port } => {
            // No address makes the policy panic.
            let _ = AddressPolicy::default().check(*address);
            (address.to_string(), *port)
        }
        ConnectEndpoint::Name { name, port } => {
            let dot = if name.is_absolute() { "." } else { "" };
            assert_eq!(name.as_str().parse::<IpAddr>().ok(), None, "{text:?}");
            (format!("{}{dot}", name.as_str()), *port)
        }
        ConnectEndpoint::Unix(_) => unreachable!("not the target of a URL"),
    };
    let other_host = match other.host() {
        Some(url::Host::Domain(name)) => name.to_owned(),
        Some(url::Host::Ipv4(address)) => address.to_string(),
        Some(url::Host::Ipv6(address)) => address.to_string(),
        None => panic!("{text:?} has no host"),
    };
    assert_eq!((other_host, other.port_or_known_default()), (host, Some(port)), "{text:?}");

    let field = target.host_field();
    let split = pinion_http::host::split(field.as_bytes());
    assert!(split.is_ok_and(|authority| authority.port != Some(0)), "{field:?}");
    let (again, _) = ConnectTarget::from_url(&target.to_string()).expect("its own text");
    assert_eq!(again.to_string(), target.to_string(), "{text:?}");
    true
}
