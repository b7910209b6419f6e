//! `Host` and authorities (RFC 9110 §7.2, RFC 3986 §3.2).

use crate::grammar::hex_digit;

/// A host with its optional port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    /// Registered name, IPv4 address, or IPv6 address in its brackets; as sent, never empty.
    pub host: &'a [u8],
    /// The port, when one was given.
    pub port: Option<u16>,
}

/// The bytes are no `uri-host [ ":" port ]` of the `http` scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostError;

/// Splits `uri-host [ ":" port ]`.
///
/// An empty host is refused: the `http` scheme has none (RFC 9110 §4.2.1). So are user
/// information (§4.2.4), addresses of a future IP version (there is none), and ports above 65535.
/// An empty port is allowed and means none was given (RFC 3986 §3.2.3).
#[inline]
pub fn split(authority: &[u8]) -> Result<Authority<'_>, HostError> {
    let host_bytes = match authority.first() {
        Some(b'[') => bracketed(authority)?,
        _ => registered_name(authority)?,
    };
    let (host, rest) = authority.split_at_checked(host_bytes).ok_or(HostError)?;
    let port = match rest {
        [] | [b':'] => None,
        [b':', digits @ ..] => Some(port(digits)?),
        _ => return Err(HostError),
    };
    Ok(Authority { host, port })
}

/// Length of the `reg-name` (an IPv4 address is one by its characters) at the front.
#[inline]
fn registered_name(bytes: &[u8]) -> Result<usize, HostError> {
    let mut length = 0;
    let mut escapes = false;
    for &byte in bytes {
        if byte == b':' {
            break;
        }
        if !NAME[usize::from(byte)] {
            return Err(HostError);
        }
        escapes |= byte == b'%';
        length += 1;
    }
    if length == 0 || (escapes && !escapes_are_whole(bytes.get(..length).unwrap_or_default())) {
        return Err(HostError);
    }
    Ok(length)
}

/// Length of the IPv6 address at the front, brackets included.
fn bracketed(bytes: &[u8]) -> Result<usize, HostError> {
    let close = memchr::memchr(b']', bytes).ok_or(HostError)?;
    let address = bytes.get(1..close).ok_or(HostError)?;
    let address = core::str::from_utf8(address).map_err(|_| HostError)?;
    address.parse::<core::net::Ipv6Addr>().map_err(|_| HostError)?;
    Ok(close + 1)
}

#[inline]
fn port(digits: &[u8]) -> Result<u16, HostError> {
    let value = crate::grammar::decimal(digits).ok_or(HostError)?;
    u16::try_from(value).map_err(|_| HostError)
}

fn escapes_are_whole(name: &[u8]) -> bool {
    let mut rest = name;
    while let Some(at) = memchr::memchr(b'%', rest) {
        match rest.get(at + 1..at + 3) {
            Some(&[high, low]) if hex_digit(high).is_some() && hex_digit(low).is_some() => {
                rest = rest.get(at + 3..).unwrap_or_default();
            }
            _ => return false,
        }
    }
    true
}

/// `unreserved / sub-delims` and the percent sign (RFC 3986 §3.2.2).
static NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let c = byte as u8;
        table[byte] = c.is_ascii_alphanumeric()
            || matches!(c, b'-' | b'.' | b'_' | b'~' | b'%')
            || matches!(c, b'!' | b'$' | b'&' | b'\'' | b'(' | b')')
            || matches!(c, b'*' | b'+' | b',' | b';' | b'=');
        byte += 1;
    }
    table
};
