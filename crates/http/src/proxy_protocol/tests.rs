use super::*;

/// Parses a whole header, and each cut of it.
fn parsed(input: &[u8]) -> Result<ProxiedClient, HeaderError> {
    let whole = parse(input);
    for cut in 0..input.len() {
        let front = parse(&input[..cut]);
        assert!(front == Ok(ParsedHeader::Partial) || front == whole, "{}", input.escape_ascii());
    }
    match whole? {
        ParsedHeader::Header { client, bytes } => {
            let behind = [input, b"GET / HTTP/1.1\r\n"].concat();
            assert_eq!(parse(&behind), whole, "with what the client sends");
            assert_eq!(bytes, input.len());
            Ok(client)
        }
        ParsedHeader::Partial => panic!("not whole: {}", input.escape_ascii()),
    }
}

fn address(text: &str) -> ProxiedClient {
    ProxiedClient::Address(text.parse().expect("an address"))
}

/// A header of version 2.
fn binary(command: u8, form: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).expect("a short block").to_be_bytes();
    [SIGNATURE, &[command, form], &length, block].concat()
}

/// 192.0.2.1:5000 to 198.51.100.2:443.
const IPV4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0x13, 0x88, 1, 0xbb];

#[test]
fn a_line_names_the_client() {
    for (line, client) in [
        ("PROXY TCP4 192.0.2.1 198.51.100.2 5000 443\r\n", address("192.0.2.1:5000")),
        (
            "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n",
            address("255.255.255.255:65535"),
        ),
        ("PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n", address("0.0.0.0:0")),
        ("PROXY TCP6 2001:DB8::1 ::1 5000 443\r\n", address("[2001:db8::1]:5000")),
        ("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", address("[::ffff:192.0.2.1]:1")),
        ("PROXY UNKNOWN\r\n", ProxiedClient::OfSocket),
        ("PROXY UNKNOWN ffff:f...f:ffff  65535 \0\r x\r\n", ProxiedClient::OfSocket),
    ] {
        assert_eq!(parsed(line.as_bytes()), Ok(client), "{line}");
    }
}

#[test]
fn a_line_that_breaks_the_grammar_is_refused() {
    for line in [
        "PROXY \r\n",
        "PROXY TCP\r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY unknown\r\n",
        "PROXY UNKNOWN\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 5000 443\n",
        "PROXY TCP4  192.0.2.1 198.51.100.2 5000 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 5000 443 \r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 5000 443 x\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 5000 443\r\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 5000\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 05000 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 +5000 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 65536 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 5000 \r\n",
        "PROXY TCP4 192.0.2.01 198.51.100.2 5000 443\r\n",
        "PROXY TCP4 192.0.2.256 198.51.100.2 5000 443\r\n",
        "PROXY TCP4 192.0.2.1 ::1 5000 443\r\n",
        "PROXY TCP4 ::1 ::1 5000 443\r\n",
        "PROXY TCP6 192.0.2.1 198.51.100.2 5000 443\r\n",
        "PROXY TCP6 fe80::1%1 ::1 5000 443\r\n",
        "PROXY TCP6 [::1] ::1 5000 443\r\n",
        "PROXY UDP4 192.0.2.1 198.51.100.2 5000 443\r\n",
    ] {
        assert_eq!(parsed(line.as_bytes()), Err(HeaderError::Malformed), "{line}");
    }
}

#[test]
fn a_missing_header_is_detected_at_the_first_different_byte() {
    for (input, needed) in [
        (&b"GET / HTTP/1.1\r\n"[..], 1),
        (b"POST / HTTP/1.1\r\n", 2),
        (b"PRI * HTTP/2.0\r\n", 3),
        (b"PROXY\r\n", 6),
        (b"proxy UNKNOWN\r\n", 1),
        (b"\r\nGET / HTTP/1.1\r\n", 3),
        (b"\r\n\r\n\0\r\nQUIT\r", 12),
        (b"\x16\x03\x01", 1),
    ] {
        for until in 0..=input.len() {
            let expected =
                if until < needed { Ok(ParsedHeader::Partial) } else { Err(HeaderError::Missing) };
            assert_eq!(parse(&input[..until]), expected, "{}", input[..until].escape_ascii());
        }
    }
}

#[test]
fn a_binary_header_names_the_client() {
    let mut ipv6 = [0; 36];
    (ipv6[0], ipv6[15], ipv6[33]) = (0x20, 9, 80);
    for (header, client) in [
        (binary(0x21, 0x11, &IPV4), address("192.0.2.1:5000")),
        (binary(0x21, 0x12, &IPV4), address("192.0.2.1:5000")),
        (binary(0x21, 0x21, &ipv6), address("[2000::9]:80")),
        (binary(0x21, 0x31, &[0; 216]), ProxiedClient::Unix),
        (binary(0x21, 0x00, b""), ProxiedClient::OfSocket),
        (binary(0x21, 0x10, &IPV4), ProxiedClient::OfSocket),
        (binary(0x21, 0x01, b"anything"), ProxiedClient::OfSocket),
        (binary(0x20, 0x00, b""), ProxiedClient::OfSocket),
        (binary(0x20, 0x11, &IPV4), ProxiedClient::OfSocket),
        (binary(0x20, 0xff, b"whatever it is"), ProxiedClient::OfSocket),
        // Records: ALPN, and one of a kind that is not known.
        (
            binary(0x21, 0x11, &[&IPV4[..], b"\x01\x00\x02h2\xe0\x00\x00"].concat()),
            address("192.0.2.1:5000"),
        ),
    ] {
        assert_eq!(parsed(&header), Ok(client), "{}", header.escape_ascii());
    }
}

#[test]
fn a_binary_header_that_breaks_the_grammar_is_refused() {
    let behind = |records: &[u8]| [&IPV4[..], records].concat();
    for header in [
        binary(0x11, 0x11, &IPV4),
        binary(0x31, 0x11, &IPV4),
        binary(0x22, 0x11, &IPV4),
        binary(0x21, 0x13, &IPV4),
        binary(0x21, 0x41, &IPV4),
        binary(0x21, 0x11, &IPV4[..11]),
        binary(0x21, 0x21, &[0; 35]),
        binary(0x21, 0x31, &[0; 215]),
        binary(0x21, 0x11, &behind(b"\x04")),
        binary(0x21, 0x11, &behind(b"\x04\x00")),
        binary(0x21, 0x11, &behind(b"\x04\x00\x02x")),
        binary(0x21, 0x11, &behind(b"\x03\x00\x03abc")),
    ] {
        assert_eq!(parsed(&header), Err(HeaderError::Malformed), "{}", header.escape_ascii());
    }
}

#[test]
fn a_header_of_the_maximum_length_is_parsed_and_no_longer_one() {
    let line = |bytes: usize| {
        let filler = "x".repeat(bytes - "PROXY UNKNOWN \r\n".len());
        parse(format!("PROXY UNKNOWN {filler}\r\n").as_bytes())
    };
    let bytes = PROXY_LINE_MAX_BYTES;
    assert_eq!(line(bytes), Ok(ParsedHeader::Header { client: ProxiedClient::OfSocket, bytes }));
    assert_eq!(line(bytes + 1), Err(HeaderError::TooLong));
    let bytes = PROXY_HEADER_MAX_BYTES;
    let local = |bytes: usize| parse(&binary(0x20, 0, &vec![7; bytes - FIXED_BYTES]));
    assert_eq!(local(bytes), Ok(ParsedHeader::Header { client: ProxiedClient::OfSocket, bytes }));
    assert_eq!(local(bytes + 1), Err(HeaderError::TooLong));
}

/// RFC 3720 B.4 has the values of 32 bytes; that of nine digits is the usual check.
#[test]
fn a_checksum_is_checked() {
    assert_eq!(crc32c([b"1234", b"", b"56789"]), 0xe306_9283);
    assert_eq!(crc32c([&[0; 32], b"", b""]), 0x8a91_36aa);
    let mut header =
        binary(0x21, 0x11, &[&IPV4[..], b"\x03\x00\x04\0\0\0\0\x04\x00\x01z"].concat());
    let sum = crc32c([&header, b"", b""]).to_be_bytes();
    let at = FIXED_BYTES + IPV4.len() + 3;
    header[at..at + 4].copy_from_slice(&sum);
    assert_eq!(parsed(&header), Ok(address("192.0.2.1:5000")));
    for bit in 0..header.len() * 8 {
        let mut damaged = header.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let sum_only = (at * 8..(at + 4) * 8).contains(&bit);
        let addresses = (FIXED_BYTES * 8..(at - 3) * 8).contains(&bit);
        let parsed = parse(&damaged);
        if sum_only || addresses {
            assert_eq!(parsed, Err(HeaderError::Checksum), "bit {bit}");
        }
    }
}
