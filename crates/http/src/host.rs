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
/// information (§4.2.4), addresses of a future IP version (there is none), and ports above 65535
/// or of more than five digits. An empty port is allowed and means none was given (RFC 3986
/// §3.2.3).
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

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9110 §7.2: Host = uri-host [ ":" port ]; RFC 3986 §3.2.2 has the host.
    #[test]
    fn valid() {
        let cases: [(&str, &str, Option<u16>); 18] = [
            ("example.com", "example.com", None),
            ("example.com:80", "example.com", Some(80)),
            ("EXAMPLE.com:8080", "EXAMPLE.com", Some(8080)),
            ("localhost:", "localhost", None),
            ("localhost:0", "localhost", Some(0)),
            ("a:65535", "a", Some(65535)),
            ("a:00080", "a", Some(80)),
            ("127.0.0.1", "127.0.0.1", None),
            ("127.0.0.1:8080", "127.0.0.1", Some(8080)),
            ("1234", "1234", None),
            ("my_host-1~x", "my_host-1~x", None),
            ("a!$&'()*+,;=b", "a!$&'()*+,;=b", None),
            ("b%C3%BCcher.example", "b%C3%BCcher.example", None),
            ("[::1]", "[::1]", None),
            ("[::1]:443", "[::1]", Some(443)),
            ("[2001:DB8::7]:", "[2001:DB8::7]", None),
            ("[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.1]", Some(1)),
            (".", ".", None),
        ];
        for (text, host, port) in cases {
            let expected = Authority { host: host.as_bytes(), port };
            assert_eq!(split(text.as_bytes()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn invalid() {
        for text in [
            "",                       // RFC 9110 §4.2.1: an http URI has a host
            ":80",                    // likewise
            ":",                      // likewise
            "user@example.com",       // RFC 9110 §4.2.4: no user information
            "user:pw@example.com",    // likewise
            "a b",                    // a space
            "a\tb",                   // a tab
            "a/b",                    // a path
            "a?b",                    // a query
            "a#b",                    // a fragment
            "a:b",                    // a port that is no number
            "a:80:80",                // two ports
            "a:-1",                   // a sign
            "a:+80",                  // likewise
            "a:65536",                // over 16 bits
            "a:99999999999999999999", // over 64 bits
            "a:000080",               // longer than any port
            "a%zz",                   // a broken escape
            "a%2",                    // a cut escape
            "::1",                    // an address without brackets
            "[::1",                   // an open bracket
            "[::1]x",                 // text behind the bracket
            "[::1]:x",                // a port that is no number
            "[]",                     // nothing in the brackets
            "[1.2.3.4]",              // no IPv6 address
            "[fe80::1%25eth0]",       // RFC 9844 leaves zones out of URIs
            "[v1.x]",                 // no such IP version
            "a\\b",                   // a backslash
            "<a>",                    // not in the set
            "b\u{fc}cher.example",    // not ASCII
            "a\0",                    // NUL
        ] {
            assert_eq!(split(text.as_bytes()), Err(HostError), "{text:?}");
        }
    }
}
