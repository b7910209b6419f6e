//! The header of the PROXY protocol against the crate `ppp`: a header that this server accepts is
//! one for `ppp`, too, with the same client. The other way round `ppp` is more lenient.

use std::net::{IpAddr, SocketAddr};

use pinion_http::proxy_protocol::{ParsedHeader, ProxiedClient, parse};
use ppp::{HeaderResult, v1, v2};

/// Compares the results of both parsers for the first bytes of a connection.
pub(crate) fn check(data: &[u8]) {
    let Ok(ParsedHeader::Header { client, bytes }) = parse(data) else { return };
    let expected = match client {
        ProxiedClient::Address(address) => Some(address),
        ProxiedClient::Unix => None,
        // Of a connection without an address nothing else is read (§2.2), which `ppp` does.
        ProxiedClient::OfSocket => return,
    };
    let found = match HeaderResult::parse(&data[..bytes]) {
        HeaderResult::V1(header) => {
            let header = header.unwrap_or_else(|error| panic!("{}: {error}", data.escape_ascii()));
            match header.addresses {
                v1::Addresses::Unknown => None,
                v1::Addresses::Tcp4(tcp) => Some((tcp.source_address.into(), tcp.source_port)),
                v1::Addresses::Tcp6(tcp) => Some((tcp.source_address.into(), tcp.source_port)),
            }
        }
        HeaderResult::V2(header) => {
            let header = header.unwrap_or_else(|error| panic!("{}: {error}", data.escape_ascii()));
            let addresses = match header.command {
                v2::Command::Local => v2::Addresses::Unspecified,
                v2::Command::Proxy => header.addresses,
            };
            match addresses {
                v2::Addresses::IPv4(ip) => Some((IpAddr::from(ip.source_address), ip.source_port)),
                v2::Addresses::IPv6(ip) => Some((IpAddr::from(ip.source_address), ip.source_port)),
                v2::Addresses::Unix(_) | v2::Addresses::Unspecified => None,
            }
        }
    };
    let found = found.map(|(ip, port)| SocketAddr::new(ip, port));
    assert_eq!(found, expected, "{}", data.escape_ascii());
}
