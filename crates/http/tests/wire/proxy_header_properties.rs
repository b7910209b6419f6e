//! Properties of the header of the PROXY protocol: good ones, damaged ones and any bytes, each
//! given to the check of the fuzz target.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use pinion_http::proxy_protocol::{ParsedHeader, ProxiedClient, parse};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::{oracle, ppp_comparison};

/// Pieces of headers, good and bad.
const PIECES: &[&[u8]] = &[
    b"PROXY ",
    b"TCP4 ",
    b"TCP6 ",
    b"UNKNOWN",
    b"192.0.2.1 ",
    b"192.0.2.01 ",
    b"::1 ",
    b"::ffff:1.2.3.4 ",
    b"1:2:3:4:5:6:7:: ",
    b"80",
    b"080",
    b"65536",
    b" ",
    b"\r\n",
    b"\n",
    b"\r\n\r\n\0\r\nQUIT\n",
    b"\x20",
    b"\x21",
    b"\x11",
    b"\x21\x00\x24",
    b"\x00\x0c",
    b"\x00\x13",
    b"\x03\x00\x04",
    b"\0\0\0\0",
    b"\xff",
    b"GET / HTTP/1.1\r\n",
];

fn address() -> impl Strategy<Value = SocketAddr> {
    let ipv4 = any::<[u8; 4]>().prop_map(|octets| IpAddr::from(Ipv4Addr::from(octets)));
    let ipv6 = any::<[u16; 8]>().prop_map(|groups| IpAddr::from(Ipv6Addr::from(groups)));
    (prop_oneof![ipv4, ipv6], any::<u16>()).prop_map(SocketAddr::from)
}

/// Returns the line of a client, as the specification shows it.
fn line(client: SocketAddr) -> Vec<u8> {
    let (family, destination) = if client.is_ipv4() { (4, "127.0.0.1") } else { (6, "::1") };
    let (ip, port) = (client.ip(), client.port());
    format!("PROXY TCP{family} {ip} {destination} {port} 443\r\n").into_bytes()
}

/// Returns the binary header of a client, with records after its addresses.
fn binary(client: SocketAddr, records: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let (form, mut block) = match client.ip() {
        IpAddr::V4(ip) => (0x11, [ip.octets(), [127, 0, 0, 1]].concat()),
        IpAddr::V6(ip) => (0x21, [ip.octets(), [0; 16]].concat()),
    };
    block.extend(client.port().to_be_bytes());
    block.extend(443u16.to_be_bytes());
    for (kind, value) in records {
        block.push(*kind);
        block.extend((value.len() as u16).to_be_bytes());
        block.extend(value);
    }
    let length = (block.len() as u16).to_be_bytes();
    [&b"\r\n\r\n\0\r\nQUIT\n\x21"[..], &[form], &length, &block].concat()
}

proptest! {
    #[test]
    fn a_header_that_was_written_names_its_client(
        client in address(),
        records in vec((4..=255u8, vec(any::<u8>(), 0..40)), 0..4),
        behind in vec(any::<u8>(), 0..20),
    ) {
        for header in [line(client), binary(client, &records)] {
            let bytes = header.len();
            let client = ProxiedClient::Address(client);
            let expected = Ok(ParsedHeader::Header { client, bytes });
            prop_assert_eq!(parse(&[&header[..], &behind].concat()), expected);
            oracle::proxy_header::check(&header);
            ppp_comparison::check(&header);
        }
    }

    #[test]
    fn a_header_with_a_byte_changed(
        client in address(),
        is_line: bool,
        at: prop::sample::Index,
        byte: u8,
        how in 0..3,
    ) {
        let mut header = if is_line { line(client) } else { binary(client, &[(4, vec![1, 2])]) };
        let at = at.index(header.len());
        match how {
            0 => header[at] = byte,
            1 => header.insert(at, byte),
            _ => drop(header.remove(at)),
        }
        oracle::proxy_header::check(&header);
        ppp_comparison::check(&header);
    }

    #[test]
    fn headers_of_pieces(pieces in vec(select(PIECES), 0..12)) {
        oracle::proxy_header::check(&pieces.concat());
        ppp_comparison::check(&pieces.concat());
    }
}
