//! The header of the PROXY protocol: before all else on a connection, a proxy sends the address of
//! the client that it has the connection from ([specification], versions 1 and 2).
//!
//! Only headers that the specification allows are read, and not, for example: another number of
//! spaces, a leading zero, an unknown command, records that do not fill their block. A peer that
//! can send a header chooses the address, so the caller accepts one only from proxies that it
//! trusts.
//!
//! [specification]: https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::limits::{PROXY_HEADER_MAX_BYTES, PROXY_LINE_MAX_BYTES};

/// The client that a header names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxiedClient {
    /// No client: the address of the socket holds. The proxy speaks for itself, for example to
    /// check the health of the server (`LOCAL`), or it does not know (`UNKNOWN`, `AF_UNSPEC`).
    OfSocket,
    /// The client has this address.
    Address(SocketAddr),
    /// The client has come by a Unix socket of the proxy, and has no address.
    Unix,
}

/// The result of parsing the first bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParsedHeader {
    /// The front of a header.
    Partial,
    /// A header.
    Header {
        /// The client of the header.
        client: ProxiedClient,
        /// The length of the header in bytes. The bytes of the client follow it.
        bytes: usize,
    },
}

/// The reason why the first bytes of a connection are no usable header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderError {
    /// They begin neither version of the header.
    Missing,
    /// The header has more bytes than [`PROXY_LINE_MAX_BYTES`] or [`PROXY_HEADER_MAX_BYTES`].
    TooLong,
    /// The input begins as a header, and breaks the grammar.
    Malformed,
    /// The checksum (`PP2_TYPE_CRC32C`) of the header is that of other bytes.
    Checksum,
}

/// The first bytes of a header of version 1.
const LINE_START: &[u8] = b"PROXY ";

/// The first bytes of a header of version 2 (§2.2).
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes of a header of version 2 before its addresses: signature, version and command, family and
/// transport, length of the rest.
const FIXED_BYTES: usize = 16;

/// Parses the header with which `input` begins. Once this has returned anything but
/// [`ParsedHeader::Partial`], more input gives the same result. It costs a pass over the header
/// each time it is called.
///
/// # Errors
/// Returns why the connection cannot be used.
pub fn parse(input: &[u8]) -> Result<ParsedHeader, HeaderError> {
    if begins(input, LINE_START) {
        parse_line(input)
    } else if begins(input, SIGNATURE) {
        parse_binary(input)
    } else {
        Err(HeaderError::Missing)
    }
}

/// Returns whether `input` begins with `start`, as far as it goes.
fn begins(input: &[u8], start: &[u8]) -> bool {
    let bytes = input.len().min(start.len());
    input[..bytes] == start[..bytes]
}

/// Parses a header of version 1: one line of text (§2.1).
fn parse_line(input: &[u8]) -> Result<ParsedHeader, HeaderError> {
    let front = &input[..input.len().min(PROXY_LINE_MAX_BYTES)];
    let Some(end) = front.iter().position(|&byte| byte == b'\n') else {
        let is_full = front.len() == PROXY_LINE_MAX_BYTES;
        return if is_full { Err(HeaderError::TooLong) } else { Ok(ParsedHeader::Partial) };
    };
    let line = front[..end].strip_suffix(b"\r").ok_or(HeaderError::Malformed)?;
    let client = client_of_line(line).ok_or(HeaderError::Malformed)?;
    Ok(ParsedHeader::Header { client, bytes: end + 1 })
}

fn client_of_line(line: &[u8]) -> Option<ProxiedClient> {
    let mut words = line.split(|&byte| byte == b' ').skip(1);
    let family = words.next()?;
    if family == b"UNKNOWN" {
        // The rest of the line has no meaning.
        return Some(ProxiedClient::OfSocket);
    }
    let mut word = || std::str::from_utf8(words.next()?).ok();
    let (source, destination) = (word()?, word()?);
    let (source, destination): (IpAddr, IpAddr) = match family {
        b"TCP4" => {
            (source.parse::<Ipv4Addr>().ok()?.into(), destination.parse::<Ipv4Addr>().ok()?.into())
        }
        b"TCP6" => {
            (source.parse::<Ipv6Addr>().ok()?.into(), destination.parse::<Ipv6Addr>().ok()?.into())
        }
        _ => return None,
    };
    let _not_used = destination;
    let (source_port, _) = (port(word()?)?, port(word()?)?);
    let is_whole = words.next().is_none();
    is_whole.then_some(ProxiedClient::Address(SocketAddr::new(source, source_port)))
}

/// Parses a decimal number up to 65535 without leading zeros.
fn port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let leads = text.len() > 1 && text.starts_with('0');
    if digits && !leads { text.parse().ok() } else { None }
}

/// Parses a header of version 2: lengths and numbers in network order (§2.2).
fn parse_binary(input: &[u8]) -> Result<ParsedHeader, HeaderError> {
    let (mut is_local, mut form) = (false, AddressForm::Unspecified);
    if let Some(&version_and_command) = input.get(SIGNATURE.len()) {
        is_local = match version_and_command {
            0x20 => true,
            0x21 => false,
            _ => return Err(HeaderError::Malformed),
        };
    }
    // The addresses of a local connection are ignored.
    if let Some(&family_and_transport) = input.get(SIGNATURE.len() + 1)
        && !is_local
    {
        form = AddressForm::of(family_and_transport).ok_or(HeaderError::Malformed)?;
    }
    let Some(&[high, low]) = input.get(FIXED_BYTES - 2..FIXED_BYTES) else {
        return Ok(ParsedHeader::Partial);
    };
    let rest_bytes = usize::from(u16::from_be_bytes([high, low]));
    let bytes = FIXED_BYTES + rest_bytes;
    if bytes > PROXY_HEADER_MAX_BYTES {
        return Err(HeaderError::TooLong);
    }
    if rest_bytes < form.address_bytes() {
        return Err(HeaderError::Malformed);
    }
    let Some(header) = input.get(..bytes) else { return Ok(ParsedHeader::Partial) };
    if form != AddressForm::Unspecified {
        check_records(header, FIXED_BYTES + form.address_bytes())?;
    }
    Ok(ParsedHeader::Header { client: form.client(&header[FIXED_BYTES..]), bytes })
}

/// The form of the addresses of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressForm {
    /// There are no addresses with a meaning.
    Unspecified,
    Ipv4,
    Ipv6,
    Unix,
}

impl AddressForm {
    /// Returns the form of a family, in the high half, and a transport.
    fn of(family_and_transport: u8) -> Option<Self> {
        Some(match (family_and_transport >> 4, family_and_transport & 15) {
            (0..=3, 0) | (0, 1 | 2) => Self::Unspecified,
            (1, 1 | 2) => Self::Ipv4,
            (2, 1 | 2) => Self::Ipv6,
            (3, 1 | 2) => Self::Unix,
            _ => return None,
        })
    }

    /// Bytes of both addresses and their ports.
    fn address_bytes(self) -> usize {
        match self {
            Self::Unspecified => 0,
            Self::Ipv4 => 2 * (4 + 2),
            Self::Ipv6 => 2 * (16 + 2),
            Self::Unix => 2 * 108,
        }
    }

    /// Returns the client of a block that has all bytes of its addresses.
    fn client(self, block: &[u8]) -> ProxiedClient {
        let port = |at: usize| u16::from_be_bytes([block[at], block[at + 1]]);
        match (self, block.first_chunk::<4>(), block.first_chunk::<16>()) {
            (Self::Ipv4, Some(&source), _) => {
                ProxiedClient::Address(SocketAddr::new(Ipv4Addr::from(source).into(), port(8)))
            }
            (Self::Ipv6, _, Some(&source)) => {
                ProxiedClient::Address(SocketAddr::new(Ipv6Addr::from(source).into(), port(32)))
            }
            (Self::Unix, ..) => ProxiedClient::Unix,
            _ => ProxiedClient::OfSocket,
        }
    }
}

/// Checks that the records (TLV, §2.2.1) after the addresses fill the header, and the checksum if
/// there is one. No other record is read.
fn check_records(header: &[u8], addresses_end: usize) -> Result<(), HeaderError> {
    const CRC32C: u8 = 0x03;
    let mut at = addresses_end;
    while at < header.len() {
        let Some(&[kind, high, low]) = header.get(at..at + 3) else {
            return Err(HeaderError::Malformed);
        };
        let value = at + 3;
        at = value + usize::from(u16::from_be_bytes([high, low]));
        let content = header.get(value..at).ok_or(HeaderError::Malformed)?;
        if kind == CRC32C {
            let Ok(expected) = content.try_into() else { return Err(HeaderError::Malformed) };
            let zeros = [0; 4];
            let parts = [&header[..value], &zeros, &header[at..]];
            if crc32c(parts) != u32::from_be_bytes(expected) {
                return Err(HeaderError::Checksum);
            }
        }
    }
    Ok(())
}

/// Returns the checksum of RFC 9260 Appendix A of some bytes that are in parts. It works bit by
/// bit, since a table would not pay for a header.
fn crc32c(parts: [&[u8]; 3]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let mut sum = u32::MAX;
    for byte in parts.into_iter().flatten() {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (POLYNOMIAL & (sum & 1).wrapping_neg());
        }
    }
    !sum
}

#[cfg(test)]
mod tests;
