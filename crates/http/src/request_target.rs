//! Request targets (RFC 9112 §3.2) and the one place where a path is decoded.

use crate::grammar::hex_digit;
use crate::host;
use crate::limits::TARGET_MAX_BYTES;
use crate::method::Method;

/// The four forms of RFC 9112 §3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `/path?query`, §3.2.1.
    Origin,
    /// `http://authority/path?query`, §3.2.2.
    Absolute,
    /// `host:port`, of `CONNECT` alone, §3.2.3.
    Authority,
    /// `*`, of `OPTIONS` alone, §3.2.4; also an absolute form without path on `OPTIONS`.
    Asterisk,
}

/// The scheme of an absolute form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
}

/// A request target, split but not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The bytes as sent.
    pub raw: &'a [u8],
    /// Which form they had.
    pub form: Form,
    /// The path as sent. It starts with `/`, except that it is `*` in asterisk form and empty in
    /// authority form.
    pub path: &'a [u8],
    /// The query, without the question mark.
    pub query: Option<&'a [u8]>,
    /// The authority of the absolute and the authority form: a valid [`host::Authority`].
    pub authority: Option<&'a [u8]>,
    /// The scheme of the absolute form, or of `:scheme`.
    pub scheme: Option<Scheme>,
}

/// The bytes are no target of the method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetError;

/// The reason why a path names no resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// A percent sign without two hexadecimal digits, or no slash at the front: 400.
    Malformed,
    /// A dot segment that leads above the root: 400.
    AboveRoot,
    /// `%2F` or `%00`, which are in no key: 404. The slash of a name and the slash between names
    /// must not be confused (RFC 3986 §2.2).
    NeverMatches,
}

impl PathError {
    /// Returns the status of the response.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            PathError::Malformed | PathError::AboveRoot => 400,
            PathError::NeverMatches => 404,
        }
    }
}

impl<'a> Target<'a> {
    /// Splits a target. Its bytes must be in the set of RFC 3986 (unreserved, reserved and the
    /// percent sign) without `#`, since a target has no fragment; or be bytes that browsers leave
    /// as they are in a path or a query (docs/decisions/0008).
    #[inline]
    pub fn parse(method: Method, raw: &'a [u8]) -> Result<Target<'a>, TargetError> {
        if raw.first() == Some(&b'/') && method != Method::Connect {
            let (path, query) = split_query(raw)?;
            let form = Form::Origin;
            Ok(Target { raw, form, path, query, authority: None, scheme: None })
        } else {
            // Taken apart and put together again, so that the usual form stays in registers.
            let Target { raw, form, path, query, authority, scheme } = other_form(method, raw)?;
            Ok(Target { raw, form, path, query, authority, scheme })
        }
    }

    /// Returns the target of a request that is refused, perhaps for its length, or because no more
    /// than the beginning of it has arrived (`is_whole`). Returns `None` for a target without a
    /// path, and for one whose path may differ from the bytes.
    #[cold]
    pub(crate) fn of_refused(raw: &'a [u8], is_whole: bool) -> Option<Target<'a>> {
        let question = memchr::memchr(b'?', raw).filter(|_| raw.starts_with(b"/"));
        let (raw, is_whole) = match question {
            Some(at) => (raw.get(..at)?, true),
            None => (raw, is_whole),
        };
        if !is_whole || raw.len() > TARGET_MAX_BYTES {
            return None;
        }
        Target::parse(Method::Get, raw).ok()
    }

    /// Returns the path as the site's key: see [`decode_path`].
    #[inline]
    pub fn decoded_path<'s>(&self, scratch: &'s mut Vec<u8>) -> Result<&'s [u8], PathError>
    where
        'a: 's,
    {
        decode_path(self.path, scratch)
    }
}

/// Decodes percent escapes once and removes dot segments once (RFC 3986 §5.2.4), for every
/// protocol alike. `%2E` counts as a dot; empty segments stay.
///
/// A path without `%` and without a segment that starts with a dot is returned unchanged; any other
/// is written to `scratch`, whose capacity is kept between requests. A path that [never
/// matches](PathError::NeverMatches) is written there too, with NUL in the place of each byte that
/// is in no key: it is used to look up a fallback page, and no other path has a NUL.
#[inline]
pub fn decode_path<'a>(path: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<&'a [u8], PathError> {
    if path.first() != Some(&b'/') {
        return Err(PathError::Malformed);
    }
    if is_plain(path) { Ok(path) } else { decode_slowly(path, scratch) }
}

/// Returns whether a path surely has no escape, and no segment that starts with a dot. It may
/// return false for such a path.
#[inline]
fn is_plain(path: &[u8]) -> bool {
    let Some(last) = path.last_chunk() else {
        return !path.contains(&b'%') && !path.windows(2).any(|pair| pair == b"/.");
    };
    let mut found = escape_or_dot(*last);
    let mut rest = path;
    // Each eight bytes begin with the last of those before, so that no pair is torn.
    while let Some(eight) = rest.first_chunk() {
        found |= escape_or_dot(*eight);
        rest = rest.get(7..).unwrap_or_default();
    }
    found == 0
}

/// Returns a value that is not 0 when there is a percent sign, or a slash followed by a dot. A
/// slash before a dot may be taken for a dot, and the other way round, after a true one.
#[inline]
fn escape_or_dot(eight: [u8; 8]) -> u64 {
    let word = u64::from_le_bytes(eight);
    marks(word, b'%') | (marks(word, b'/') << 8 & marks(word, b'.'))
}

/// Sets the high bit of each byte that is `byte`, and perhaps of higher bytes that differ from it
/// only in the last bit.
#[inline]
const fn marks(word: u64, byte: u8) -> u64 {
    let difference = word ^ u64::from_ne_bytes([byte; 8]);
    let lows = u64::from_ne_bytes([1; 8]);
    difference.wrapping_sub(lows) & !difference & u64::from_ne_bytes([0x80; 8])
}

fn decode_slowly<'a>(path: &[u8], out: &'a mut Vec<u8>) -> Result<&'a [u8], PathError> {
    out.clear();
    out.reserve(path.len());
    let mut never_matches = false;
    let mut rest = path;
    // Each turn takes one slash and the segment behind it.
    while let Some((b'/', tail)) = rest.split_first() {
        let start = out.len();
        out.push(b'/');
        rest = decode_segment(tail, out, &mut never_matches)?;
        match out.get(start..).unwrap_or_default() {
            // "/." leaves its slash when it is the last segment, else nothing.
            b"/." => out.truncate(start + usize::from(rest.is_empty())),
            b"/.." => {
                let parent = out.get(..start).and_then(|before| memchr::memrchr(b'/', before));
                let parent = parent.ok_or(PathError::AboveRoot)?;
                out.truncate(parent + usize::from(rest.is_empty()));
            }
            _ => {}
        }
    }
    if never_matches {
        return Err(PathError::NeverMatches);
    }
    Ok(out)
}

/// Decodes up to the next slash; returns the rest, the slash first.
fn decode_segment<'p>(
    segment: &'p [u8],
    out: &mut Vec<u8>,
    never_matches: &mut bool,
) -> Result<&'p [u8], PathError> {
    let mut rest = segment;
    loop {
        match rest {
            [] | [b'/', ..] => return Ok(rest),
            [b'%', tail @ ..] => {
                let &[high, low, ref tail @ ..] = tail else { return Err(PathError::Malformed) };
                let (Some(high), Some(low)) = (hex_digit(high), hex_digit(low)) else {
                    return Err(PathError::Malformed);
                };
                let byte = high << 4 | low;
                let in_no_key = byte == b'/' || byte == 0;
                *never_matches |= in_no_key;
                // A slash would look like the end of a segment.
                out.push(if in_no_key { 0 } else { byte });
                rest = tail;
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
}

/// Splits at the first question mark and checks every byte.
#[inline]
fn split_query(bytes: &[u8]) -> Result<(&[u8], Option<&[u8]>), TargetError> {
    let mut found = 0;
    for &byte in bytes {
        found |= class(byte);
    }
    if found & FORBIDDEN != 0 {
        return Err(TargetError);
    }
    if found & (QUESTION | QUERY_ONLY) == 0 {
        return Ok((bytes, None));
    }
    let (path, query) = match memchr::memchr(b'?', bytes).and_then(|at| bytes.split_at_checked(at))
    {
        Some((path, query)) => (path, query.get(1..)),
        None => (bytes, None),
    };
    if found & QUERY_ONLY != 0 && path.iter().any(|&byte| class(byte) & QUERY_ONLY != 0) {
        return Err(TargetError);
    }
    Ok((path, query))
}

/// The most times that [`decode_repeatedly`] decodes. No server decodes more often than twice.
const DECODED_MAX_TIMES: usize = 4;

/// Decodes percent escapes until none is left, as the loosest of servers do together
/// ([`decode_path`] returns the meaning of a path, RFC 3986 §2.4). Text that is no escape stays.
#[must_use]
pub fn decode_repeatedly(path: &[u8]) -> Vec<u8> {
    let mut decoded = path.to_vec();
    for _ in 0..DECODED_MAX_TIMES {
        let next = decode_escapes(&decoded);
        if next.len() == decoded.len() {
            break;
        }
        decoded = next;
    }
    decoded
}

/// Decodes percent escapes once; other text stays.
fn decode_escapes(path: &[u8]) -> Vec<u8> {
    let (mut decoded, mut rest) = (Vec::with_capacity(path.len()), path);
    while let [first, behind @ ..] = rest {
        let escape = match rest {
            [b'%', high, low, next @ ..] => {
                hex_digit(*high).zip(hex_digit(*low)).map(|(high, low)| (high << 4 | low, next))
            }
            _ => None,
        };
        let (byte, next) = escape.unwrap_or((*first, behind));
        decoded.push(byte);
        rest = next;
    }
    decoded
}

/// Appends bytes, those that are not `plain` as percent escapes (RFC 3986 §2.1).
pub fn escape(out: &mut Vec<u8>, bytes: impl Iterator<Item = u8>, plain: impl Fn(u8) -> bool) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        if plain(byte) {
            out.push(byte);
        } else {
            let digit = |nibble: u8| DIGITS[usize::from(nibble & 15)];
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte)]);
        }
    }
}

/// Returns whether a byte needs no escape in a path: `pchar` without the percent sign, and the
/// slash (RFC 3986 §3.3).
pub fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte)
}

/// Returns whether a byte is allowed in a path or a query of a URI (RFC 3986 §3.3, §3.4). The other
/// bytes that a target may have are escaped wherever they are sent back.
#[must_use]
pub fn is_uri_byte(byte: u8) -> bool {
    class(byte) & (FORBIDDEN | QUERY_ONLY | NO_URI) == 0
}

#[inline]
fn class(byte: u8) -> u8 {
    CLASS[usize::from(byte)]
}

/// Parses every form but the origin form.
#[cold]
fn other_form(method: Method, raw: &[u8]) -> Result<Target<'_>, TargetError> {
    if method == Method::Connect {
        return authority_form(raw);
    }
    if raw == b"*" {
        if method != Method::Options {
            return Err(TargetError);
        }
        let form = Form::Asterisk;
        return Ok(Target { raw, form, path: b"*", query: None, authority: None, scheme: None });
    }
    absolute_form(method, raw)
}

/// Parses `host:port`; the port is not optional (RFC 9110 §9.3.6).
fn authority_form(raw: &[u8]) -> Result<Target<'_>, TargetError> {
    let authority = host::split(raw).map_err(|_| TargetError)?;
    if authority.port.is_none() {
        return Err(TargetError);
    }
    let form = Form::Authority;
    Ok(Target { raw, form, path: b"", query: None, authority: Some(raw), scheme: None })
}

/// Parses `http://authority[/path][?query]`, scheme in any case (RFC 3986 §3.1).
fn absolute_form(method: Method, raw: &[u8]) -> Result<Target<'_>, TargetError> {
    let (scheme, rest) = scheme(raw).ok_or(TargetError)?;
    let end = rest.iter().position(|&byte| byte == b'/' || byte == b'?').unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    host::split(authority).map_err(|_| TargetError)?;
    let (path, query) = split_query(rest)?;
    let (form, path): (Form, &[u8]) = match (path, query, method) {
        // RFC 9112 §3.2.4: OPTIONS on a URI without path and query is about the server.
        (b"", None, Method::Options) => (Form::Asterisk, b"*"),
        (b"", _, _) => (Form::Absolute, b"/"),
        _ => (Form::Absolute, path),
    };
    Ok(Target { raw, form, path, query, authority: Some(authority), scheme: Some(scheme) })
}

fn scheme(raw: &[u8]) -> Option<(Scheme, &[u8])> {
    for (prefix, scheme) in [(&b"http://"[..], Scheme::Http), (b"https://", Scheme::Https)] {
        if let Some((front, rest)) = raw.split_at_checked(prefix.len())
            && front.eq_ignore_ascii_case(prefix)
        {
            return Some((scheme, rest));
        }
    }
    None
}

const FORBIDDEN: u8 = 1;
const QUESTION: u8 = 2;
/// In no URI, and left as it is by browsers in a query: neither in the query percent-encode set of
/// the URL standard nor in RFC 3986's.
const QUERY_ONLY: u8 = 4;
/// Likewise, in a path too: not in the standard's path percent-encode set, or only since lately.
const NO_URI: u8 = 8;

static CLASS: [u8; 256] = {
    let mut table = [FORBIDDEN; 256];
    let mut byte = 0;
    while byte < 128 {
        let c = byte as u8;
        let unreserved = c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_' | b'~');
        let gen_delims = matches!(c, b':' | b'/' | b'[' | b']' | b'@');
        let sub_delims = matches!(c, b'!' | b'$' | b'&' | b'\'' | b'(' | b')')
            || matches!(c, b'*' | b'+' | b',' | b';' | b'=');
        if unreserved || gen_delims || sub_delims || c == b'%' {
            table[byte] = 0;
        } else if c == b'?' {
            table[byte] = QUESTION;
        } else if matches!(c, b'{' | b'}' | b'`' | b'\\') {
            table[byte] = QUERY_ONLY;
        } else if matches!(c, b'|' | b'^') {
            table[byte] = NO_URI;
        }
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests;
