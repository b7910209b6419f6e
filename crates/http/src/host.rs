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

impl<'a> Authority<'a> {
    /// Returns the host without the dot that makes a name absolute: `example.org.` is `example.org`
    /// (RFC 3986 §3.2.2).
    #[must_use]
    pub fn without_dot(&self) -> &'a [u8] {
        self.host.strip_suffix(b".").unwrap_or(self.host)
    }
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
    let end = authority.iter().position(|&byte| !is_plain(byte)).unwrap_or(authority.len());
    let (host, rest) = authority.split_at(end);
    match rest {
        [] if !host.is_empty() => Ok(Authority { host, port: None }),
        [b':', digits @ ..] if !host.is_empty() => Ok(Authority { host, port: port(digits)? }),
        [b'[', ..] if host.is_empty() => split_behind(authority, bracketed(authority)?),
        [b'%', ..] => split_behind(authority, escaped(authority)?),
        _ => Err(HostError),
    }
}

/// Splits an authority: the first `host_bytes` are the host; perhaps a port follows.
fn split_behind(authority: &[u8], host_bytes: usize) -> Result<Authority<'_>, HostError> {
    match authority.split_at_checked(host_bytes).ok_or(HostError)? {
        (host, []) => Ok(Authority { host, port: None }),
        (host, [b':', digits @ ..]) => Ok(Authority { host, port: port(digits)? }),
        _ => Err(HostError),
    }
}

/// Returns the length of the IPv6 address at the front, brackets included.
#[cold]
fn bracketed(bytes: &[u8]) -> Result<usize, HostError> {
    let close = memchr::memchr(b']', bytes).ok_or(HostError)?;
    let address = bytes.get(1..close).ok_or(HostError)?;
    let address = core::str::from_utf8(address).map_err(|_| HostError)?;
    address.parse::<core::net::Ipv6Addr>().map_err(|_| HostError)?;
    Ok(close + 1)
}

/// Returns the length of the `reg-name` at the front, which has escapes.
#[cold]
fn escaped(bytes: &[u8]) -> Result<usize, HostError> {
    let mut rest = bytes;
    loop {
        match rest {
            [byte, tail @ ..] if is_plain(*byte) => rest = tail,
            [b'%', high, low, tail @ ..]
                if hex_digit(*high).is_some() && hex_digit(*low).is_some() =>
            {
                rest = tail;
            }
            [b'%', ..] => return Err(HostError),
            _ => return Ok(bytes.len() - rest.len()),
        }
    }
}

/// Parses the text after the colon, which may be empty.
#[inline]
fn port(digits: &[u8]) -> Result<Option<u16>, HostError> {
    if digits.len() > PORT_MAX_DIGITS {
        return Err(HostError);
    }
    let mut value = 0u32;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(HostError);
        }
        value = value * 10 + u32::from(digit);
    }
    let port = u16::try_from(value).map_err(|_| HostError)?;
    Ok((!digits.is_empty()).then_some(port))
}

/// The digits of 65535; more would be leading zeros, which clients do not send.
const PORT_MAX_DIGITS: usize = 5;

/// Returns whether a byte is allowed in a `reg-name` unescaped.
#[inline]
fn is_plain(byte: u8) -> bool {
    PLAIN[usize::from(byte)]
}

/// `unreserved / sub-delims` (RFC 3986 §3.2.2). By its characters an IPv4 address is a name too.
static PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let c = byte as u8;
        let unreserved = c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_' | b'~');
        let sub_delims = matches!(c, b'!' | b'$' | b'&' | b'\'' | b'(' | b')')
            || matches!(c, b'*' | b'+' | b',' | b';' | b'=');
        table[byte] = unreserved || sub_delims;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9110 §7.2: Host = uri-host [ ":" port ]; RFC 3986 §3.2.2 has the host.
    #[test]
    fn valid_hosts_are_parsed() {
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
    fn invalid_hosts_are_refused() {
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
