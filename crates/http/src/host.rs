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
/// information (§4.2.4), addresses of a future IP version (there is none), and ports above 65535 or of more than
/// five digits.
/// An empty port is allowed and means none was given (RFC 3986 §3.2.3).
#[inline]
pub fn split(authority: &[u8]) -> Result<Authority<'_>, HostError> {
    if authority.first() == Some(&b'[') {
        return split_bracketed(authority);
    }
    let (host, port) = split_port(authority)?;
    check_name(host)?;
    Ok(Authority { host, port })
}

/// Takes `":" [ port ]` off the end; what stays may still have a colon, which no name has.
#[inline]
fn split_port(authority: &[u8]) -> Result<(&[u8], Option<u16>), HostError> {
    let mut host = authority;
    while let [rest @ .., b'0'..=b'9'] = host {
        host = rest;
    }
    let [host @ .., b':'] = host else { return Ok((authority, None)) };
    match authority.get(host.len() + 1..) {
        None | Some(b"") => Ok((host, None)),
        Some(digits) => Ok((host, Some(port(digits)?))),
    }
}

/// A `reg-name` that is not empty; by its characters an IPv4 address is one too.
#[inline]
fn check_name(name: &[u8]) -> Result<(), HostError> {
    let found = name.iter().fold(0, |found, &byte| found | CLASS[usize::from(byte)]);
    if name.is_empty()
        || found & FORBIDDEN != 0
        || (found & PERCENT != 0 && !escapes_are_whole(name))
    {
        return Err(HostError);
    }
    Ok(())
}

/// An IPv6 address in brackets, then perhaps a port.
#[cold]
fn split_bracketed(authority: &[u8]) -> Result<Authority<'_>, HostError> {
    let (host, rest) = authority.split_at_checked(bracketed(authority)?).ok_or(HostError)?;
    match split_port(rest)? {
        (b"", port) => Ok(Authority { host, port }),
        _ => Err(HostError),
    }
}

/// Length of the IPv6 address at the front, brackets included.
fn bracketed(bytes: &[u8]) -> Result<usize, HostError> {
    let close = memchr::memchr(b']', bytes).ok_or(HostError)?;
    let address = bytes.get(1..close).ok_or(HostError)?;
    let address = core::str::from_utf8(address).map_err(|_| HostError)?;
    address.parse::<core::net::Ipv6Addr>().map_err(|_| HostError)?;
    Ok(close + 1)
}

/// Digits only, as `split_port` found them.
#[inline]
fn port(digits: &[u8]) -> Result<u16, HostError> {
    if digits.len() > PORT_MAX_DIGITS {
        return Err(HostError);
    }
    let value = digits.iter().fold(0u32, |value, byte| value * 10 + u32::from(byte - b'0'));
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

/// Of 65535; more would be leading zeros, which nobody sends.
const PORT_MAX_DIGITS: usize = 5;

const FORBIDDEN: u8 = 1;
const PERCENT: u8 = 2;

/// `unreserved / pct-encoded / sub-delims` (RFC 3986 §3.2.2).
static CLASS: [u8; 256] = {
    let mut table = [FORBIDDEN; 256];
    let mut byte = 0;
    while byte < 128 {
        let c = byte as u8;
        let unreserved = c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_' | b'~');
        let sub_delims = matches!(c, b'!' | b'$' | b'&' | b'\'' | b'(' | b')')
            || matches!(c, b'*' | b'+' | b',' | b';' | b'=');
        if unreserved || sub_delims {
            table[byte] = 0;
        } else if c == b'%' {
            table[byte] = PERCENT;
        }
        byte += 1;
    }
    table
};
