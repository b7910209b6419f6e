//! The header of the PROXY protocol, read from a whole buffer: the line by its words, the binary
//! form by a reader that takes numbers off its front.

use std::net::{IpAddr, SocketAddr};

use pinion_http::proxy_protocol::{HeaderError, ParsedHeader, ProxiedClient, parse};

/// Compares the parser with a plain reading, and with itself for each front of `data`.
pub(crate) fn check(data: &[u8]) {
    let whole = parse(data);
    match (whole, read(data)) {
        (Ok(ParsedHeader::Header { client, bytes }), Some((expected, expected_bytes))) => {
            assert_eq!((client, bytes), (expected, expected_bytes), "{}", data.escape_ascii());
        }
        // The front of one is none yet, unless the connection ends there.
        (Ok(ParsedHeader::Partial) | Err(_), None) => {}
        (parsed, read) => panic!("{}: {parsed:?}, and {read:?}", data.escape_ascii()),
    }
    let is_front = |bytes: usize| parse(&data[..bytes]) == Ok(ParsedHeader::Partial);
    for cut in 0..data.len().min(4200) {
        assert!(is_front(cut) || parse(&data[..cut]) == whole, "{}", data.escape_ascii());
    }
    if whole == Ok(ParsedHeader::Partial) {
        assert!(data.len() < 4096, "input is kept without end");
    }
    let starts = ["PROXY ", "\r\n\r\n\0\r\nQUIT\n"];
    let is_started = starts
        .iter()
        .any(|start| data.iter().zip(start.bytes()).all(|(byte, expected)| *byte == expected));
    assert_eq!(whole == Err(HeaderError::Missing), !is_started);
}

/// Returns the client of a header, and how long the header is.
fn read(data: &[u8]) -> Option<(ProxiedClient, usize)> {
    if data.starts_with(b"PROXY ") { read_line(data) } else { read_binary(data) }
}

fn read_line(data: &[u8]) -> Option<(ProxiedClient, usize)> {
    let end = data.windows(2).position(|pair| pair == b"\r\n")?;
    let line = &data[..end];
    if end + 2 > 107 || line.contains(&b'\n') {
        return None;
    }
    if line == b"PROXY UNKNOWN" || line.starts_with(b"PROXY UNKNOWN ") {
        return Some((ProxiedClient::OfSocket, end + 2));
    }
    let line = String::from_utf8(line.to_vec()).ok()?;
    let words: Vec<&str> = line.split(' ').collect();
    let [_, family, source, destination, source_port, destination_port] = words[..] else {
        return None;
    };
    let address = |text: &str| match family {
        "TCP4" => ipv4(text),
        "TCP6" => ipv6(text),
        _ => None,
    };
    let port = |text: &str| {
        let number: u32 = text.parse().ok()?;
        u16::try_from(number).ok().filter(|number| number.to_string() == text)
    };
    let (source, _) = (address(source)?, address(destination)?);
    let (source_port, _) = (port(source_port)?, port(destination_port)?);
    Some((ProxiedClient::Address(SocketAddr::new(source, source_port)), end + 2))
}

/// Reads four numbers as they are shown.
fn ipv4(text: &str) -> Option<IpAddr> {
    let numbers: Vec<u8> = text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let address = IpAddr::from(<[u8; 4]>::try_from(numbers).ok()?);
    (address.to_string() == text).then_some(address)
}

/// Reads eight groups, of which one or more may be `::`, and the last two an IPv4 address.
fn ipv6(text: &str) -> Option<IpAddr> {
    let groups = |text: &str| -> Option<Vec<u16>> {
        let mut groups = Vec::new();
        if text.is_empty() {
            return Some(groups);
        }
        let parts: Vec<&str> = text.split(':').collect();
        for (at, part) in parts.iter().enumerate() {
            if part.contains('.') && at + 1 == parts.len() {
                let IpAddr::V4(address) = ipv4(part)? else { return None };
                let [a, b, c, d] = address.octets();
                groups.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
                continue;
            }
            let is_hex = part.bytes().all(|byte| byte.is_ascii_hexdigit());
            let has_length = (1..=4).contains(&part.len());
            groups.push(u16::from_str_radix(part, 16).ok().filter(|_| is_hex && has_length)?);
        }
        Some(groups)
    };
    let whole = match text.split_once("::") {
        None => groups(text)?,
        // Only the last group can be an IPv4 address.
        Some((front, _)) if front.contains('.') => return None,
        Some((front, back)) => {
            let (mut front, back) = (groups(front)?, groups(back)?);
            let left_out = 8usize.checked_sub(front.len() + back.len()).filter(|left| *left > 0)?;
            front.resize(front.len() + left_out, 0);
            front.extend(back);
            front
        }
    };
    Some(IpAddr::from(<[u16; 8]>::try_from(whole).ok()?))
}

/// Takes bytes off the front.
struct Reader<'d>(&'d [u8]);

impl<'d> Reader<'d> {
    fn bytes(&mut self, bytes: usize) -> Option<&'d [u8]> {
        let (front, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(front)
    }

    fn number(&mut self, bytes: usize) -> Option<u128> {
        Some(self.bytes(bytes)?.iter().fold(0, |number, byte| number << 8 | u128::from(*byte)))
    }
}

fn read_binary(data: &[u8]) -> Option<(ProxiedClient, usize)> {
    let mut reader = Reader(data);
    if reader.bytes(12)? != [0x0d, 0x0a, 0x0d, 0x0a, 0, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a] {
        return None;
    }
    let [command, form, length] = [reader.number(1)?, reader.number(1)?, reader.number(2)?];
    let bytes = 16 + length as usize;
    let mut block = Reader(reader.bytes(length as usize)?);
    if bytes > 4096 {
        return None;
    }
    let client = match (command, form >> 4, form & 15) {
        (0x20, ..) => return Some((ProxiedClient::OfSocket, bytes)),
        (0x21, 0..=3, 0) | (0x21, 0, 1..=2) => return Some((ProxiedClient::OfSocket, bytes)),
        (0x21, family @ 1..=2, 1..=2) => {
            let width = if family == 1 { 4 } else { 16 };
            let (source, _) = (block.number(width)?, block.number(width)?);
            let (port, _) = (block.number(2)?, block.number(2)?);
            let ip = match family {
                1 => IpAddr::from((source as u32).to_be_bytes()),
                _ => IpAddr::from(source.to_be_bytes()),
            };
            ProxiedClient::Address(SocketAddr::new(ip, port as u16))
        }
        (0x21, 3, 1..=2) => {
            block.bytes(216)?;
            ProxiedClient::Unix
        }
        _ => return None,
    };
    while !block.0.is_empty() {
        let (kind, length) = (block.number(1)?, block.number(2)?);
        let at = bytes - block.0.len();
        let value = block.bytes(length as usize)?;
        if kind == 3 {
            let mut zeroed = data[..bytes].to_vec();
            zeroed.get_mut(at..at + 4)?.fill(0);
            if value != remainder(&zeroed).to_be_bytes() {
                return None;
            }
        }
    }
    Some((client, bytes))
}

/// Computes CRC-32C with the bits in the order of the polynomial (RFC 9260 Appendix A).
fn remainder(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x1edc_6f41;
    let mut register = u32::MAX;
    for byte in bytes {
        register ^= u32::from(byte.reverse_bits()) << 24;
        for _ in 0..8 {
            let carries = register >> 31 == 1;
            register = (register << 1) ^ if carries { POLYNOMIAL } else { 0 };
        }
    }
    !register.reverse_bits()
}
