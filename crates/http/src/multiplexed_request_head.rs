//! Request heads of the binary protocols (RFC 9113 §8, RFC 9114 §4): converts decoded pseudo-fields
//! and fields to the type that HTTP/1 uses too.
//!
//! A head that cannot be a message of the protocol is [`Rejected::Malformed`] and gets no response,
//! only the end of its stream (RFC 9113 §8.1.1). Errors that HTTP/1 answers with a status get the
//! same status here.

use crate::field::{Field, Fields, KnownField, KnownFieldPlaces};
use crate::field_section::{FieldSection, Fit};
use crate::grammar;
use crate::h1::head_lexer::value_bytes;
use crate::h1::trailers::is_forbidden;
use crate::host;
use crate::limits::{Limits, METHOD_MAX_BYTES, TRAILER_MAX_BYTES};
use crate::method::Method;
use crate::negotiate::preferred_error_format;
use crate::refusal::{Refusal, RefusedRequest};
use crate::request_head::{Framing, RequestHead, TunnelProtocol};
use crate::request_target::{Scheme, Target};
use crate::version::Version;

/// The reason why fields are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// They break the rules of the protocol: the stream ends with its error for that.
    Malformed,
    /// They are a request, and it is refused with a status.
    Refused(Refusal),
}

impl From<Refusal> for Rejected {
    fn from(refusal: Refusal) -> Rejected {
        Rejected::Refused(refusal)
    }
}

/// Makes a head of all decoded lines of a section.
#[inline]
fn request<'h>(
    version: Version,
    fields: Fields<'h>,
    end: bool,
    limits: &Limits,
    extended_connect: bool,
) -> Result<RequestHead<'h>, Rejected> {
    if !has_value_bytes(&fields) {
        return Err(Rejected::Malformed);
    }
    let (pseudo, count) = pseudo_fields(&fields)?;
    let fields = fields.behind(count);
    let known = regular_fields(&fields)?;
    let method_token = pseudo.method.ok_or(Rejected::Malformed)?;
    if !grammar::is_token(method_token) {
        return Err(Rejected::Malformed);
    }
    let method = Method::from_token(method_token);
    if pseudo.protocol.is_some() {
        check_protocol(method, &pseudo, &known, extended_connect)?;
    }
    let target = target(method, &pseudo, limits)?;
    let authority = authority(&pseudo, target.scheme, &fields, &known)?;
    let framing = framing(&fields, &known, end)?;
    let expect_continue = known.has(KnownField::Expect) && expects(&fields, &known, framing)?;
    Ok(RequestHead {
        method,
        method_token,
        version,
        target,
        authority: Some(authority),
        protocol: pseudo.protocol.map(TunnelProtocol::of),
        fields,
        known,
        framing,
        keep_alive: true,
        expect_continue,
        identity: None,
    })
}

/// Makes a head of a section that was decoded, if that is within the limits. `end` says that no
/// content follows; `extended_connect` says that the server has allowed the client to use
/// `:protocol` (RFC 8441 §3). Without that the field is an undefined one.
///
/// # Errors
/// Why not. After a refusal the stream is still in order, unlike in HTTP/1.
#[inline]
pub fn of_section<'h>(
    version: Version,
    section: &'h FieldSection,
    end: bool,
    limits: &Limits,
    extended_connect: bool,
) -> Result<RequestHead<'h>, Rejected> {
    match section.fit() {
        Fit::Whole => request(version, section.fields(), end, limits, extended_connect),
        fit => Err(over(fit, &section.fields(), limits).into()),
    }
}

/// Returns the refusal for a head over the limits: the parts of its request line are checked first.
#[cold]
fn over(fit: Fit, fields: &Fields<'_>, limits: &Limits) -> Refusal {
    let is_longer = |name, bytes| fields.get(name).is_some_and(|value| value.len() > bytes);
    match fit {
        _ if is_longer(b":method", METHOD_MAX_BYTES) => Refusal::MethodTooLong,
        Fit::TargetTooLong => Refusal::TargetTooLong,
        _ if is_longer(b":path", limits.target_bytes) => Refusal::TargetTooLong,
        Fit::TooMany => Refusal::TooManyFields,
        Fit::TooLarge | Fit::Whole => Refusal::HeadTooLarge,
    }
}

/// Checks the fields after the content: no pseudo-fields, and none that are
/// [forbidden](crate::h1::trailers) there, which [`keep_trailer`] decides. [`trailers_fit`] decides
/// whether they are within the limits.
///
/// # Errors
/// Returns [`Rejected::Malformed`].
pub fn trailers(section: &FieldSection) -> Result<(), Rejected> {
    let fields = section.fields();
    if !has_value_bytes(&fields) {
        return Err(Rejected::Malformed);
    }
    regular_fields(&fields).map(|_| ())
}

/// Returns whether a trailer section is within the limits: those of HTTP/1.
#[must_use]
pub fn trailers_fit(section: &FieldSection) -> bool {
    section.fit() == Fit::Whole && section.trailer_bytes() <= TRAILER_MAX_BYTES
}

/// Returns whether a trailer field is passed on.
#[must_use]
pub fn keep_trailer(name: &[u8]) -> bool {
    !is_forbidden(name)
}

/// Returns the facts in the lines of a refused head that decide the page of the response.
#[cold]
#[must_use]
pub fn refused_request<'h>(fields: &Fields<'h>) -> RefusedRequest<'h> {
    let path = fields.get(b":path").filter(|path| path.starts_with(b"/"));
    let path = path.and_then(|path| Target::of_refused(path, true)).map(|target| target.path);
    let mut hosts = fields.all(b"host");
    let authority = fields.get(b":authority").or(hosts.next());
    let is_one_host = hosts.next().is_none();
    RefusedRequest {
        head_only: fields.get(b":method") == Some(b"HEAD"),
        error_format: preferred_error_format(fields.all(b"accept")),
        path,
        authority: authority.filter(|name| is_one_host && host::split(name).is_ok()),
    }
}

/// Returns the `Content-Length` of fields that [`request`] has made a head of.
#[must_use]
pub fn content_length(head: &RequestHead<'_>) -> Option<u64> {
    head.value(KnownField::ContentLength).and_then(grammar::decimal)
}

/// RFC 9113 §8.3.1, RFC 8441 §4.
#[derive(Default)]
struct Pseudo<'h> {
    method: Option<&'h [u8]>,
    scheme: Option<&'h [u8]>,
    path: Option<&'h [u8]>,
    authority: Option<&'h [u8]>,
    protocol: Option<&'h [u8]>,
}

/// Returns the pseudo-fields before the fields, each at most once, and how many lines they take.
#[inline]
fn pseudo_fields<'h>(fields: &Fields<'h>) -> Result<(Pseudo<'h>, usize), Rejected> {
    let mut pseudo = Pseudo::default();
    for (count, field) in fields.iter().enumerate() {
        let slot = match field.name {
            b":method" => &mut pseudo.method,
            b":scheme" => &mut pseudo.scheme,
            b":path" => &mut pseudo.path,
            b":authority" => &mut pseudo.authority,
            b":protocol" => &mut pseudo.protocol,
            [b':', ..] => return Err(Rejected::Malformed),
            _ => return Ok((pseudo, count)),
        };
        if slot.replace(field.value).is_some() || !is_trimmed(field.value) {
            return Err(Rejected::Malformed);
        }
    }
    Ok((pseudo, fields.len()))
}

/// Checks every line (RFC 9113 §8.2) and notes where the known ones stand.
#[inline]
fn regular_fields(fields: &Fields<'_>) -> Result<KnownFieldPlaces, Rejected> {
    let mut known = KnownFieldPlaces::default();
    for (position, Field { name, value }) in fields.iter().enumerate() {
        if !is_name(name) || !is_trimmed(value) || is_of_the_connection(name, value) {
            return Err(Rejected::Malformed);
        }
        known.add(name, position);
    }
    Ok(known)
}

/// Returns whether a name is a token without capital letters (RFC 9113 §8.2.1).
#[inline]
fn is_name(name: &[u8]) -> bool {
    is_letters(name) || !name.is_empty() && name.iter().all(|&byte| LOWER_TOKEN[usize::from(byte)])
}

/// Returns whether a name has only small letters and hyphens, as most names have; it checks eight
/// bytes in a step, and the remaining bytes together with letters before them. Names of less than
/// four bytes are not checked.
#[inline]
fn is_letters(name: &[u8]) -> bool {
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let Some(last) = name.last_chunk() else {
        let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) else {
            return false;
        };
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return are_letters(u64::from(first) << 32 | u64::from(last));
    };
    let (words, _) = name.as_chunks();
    words.iter().all(|bytes| are_letters(word(bytes))) && are_letters(word(last))
}

/// Returns whether each byte is a small letter or a hyphen.
#[inline]
const fn are_letters(word: u64) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
    // Without its high bit no byte carries into the next one.
    let low = word & !HIGHS;
    let from_a = low + ONES * (0x80 - b'a' as u64);
    let above_z = low + ONES * (0x7f - b'z' as u64);
    let not_hyphen = (low ^ (ONES * b'-' as u64)) + ONES * 0x7f;
    let letters = from_a & !above_z;
    (letters | !not_hyphen) & !word & HIGHS == HIGHS
}

/// Returns whether every byte of a section is allowed in a value: RFC 9113 §8.2.1, in the strict
/// reading it allows, which is the grammar of RFC 9110 §5.5. Names and values are one text, checked
/// in one pass; a byte that no value may have is not allowed in names either.
#[inline]
fn has_value_bytes(fields: &Fields<'_>) -> bool {
    value_bytes(fields.text()) == fields.text().len()
}

/// Returns whether a value neither begins nor ends with white space (RFC 9113 §8.2.1).
#[inline]
fn is_trimmed(value: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !is_space(value.first()) && !is_space(value.last())
}

/// Returns whether a field is about the connection (RFC 9113 §8.2.2), which only frames control.
/// `name` has no capital letters.
#[inline]
fn is_of_the_connection(name: &[u8], value: &[u8]) -> bool {
    match name.len() {
        2 => name == b"te" && !value.eq_ignore_ascii_case(b"trailers"),
        7 => name == b"upgrade",
        10 => name == b"connection" || name == b"keep-alive",
        16 => name == b"proxy-connection",
        17 => name == b"transfer-encoding",
        _ => false,
    }
}

/// Checks a request with `:protocol`, which makes a CONNECT an extended one (RFC 8441 §4).
///
/// # Errors
/// The field is malformed where it was not announced, with another method, and if it is no token
/// (RFC 9110 §7.8). A length is refused: a tunnel has no content (RFC 9110 §9.3.6).
#[cold]
fn check_protocol(
    method: Method,
    pseudo: &Pseudo<'_>,
    known: &KnownFieldPlaces,
    extended_connect: bool,
) -> Result<(), Rejected> {
    let is_token = pseudo.protocol.is_some_and(grammar::is_token);
    if !extended_connect || method != Method::Connect || !is_token {
        return Err(Rejected::Malformed);
    }
    if known.has(KnownField::ContentLength) {
        return Err(Refusal::ContentLength.into());
    }
    Ok(())
}

/// Returns the target of `:scheme` and `:path`, also of an extended CONNECT (RFC 8441 §4), or of an
/// ordinary CONNECT (RFC 9113 §8.5), where neither may be.
#[inline]
fn target<'h>(
    method: Method,
    pseudo: &Pseudo<'h>,
    limits: &Limits,
) -> Result<Target<'h>, Rejected> {
    // An extended CONNECT is for a URL, as GET is.
    let method = if pseudo.protocol.is_some() { Method::Get } else { method };
    let (raw, scheme) = match (method, pseudo.scheme, pseudo.path, pseudo.authority) {
        (Method::Connect, None, None, Some(authority)) => (authority, None),
        (Method::Connect, ..) | (_, None, ..) | (_, _, None | Some([]), _) => {
            return Err(Rejected::Malformed);
        }
        (_, Some(scheme), Some(path), _) => (path, Some(scheme_of(scheme)?)),
    };
    if method == Method::Other && pseudo.method.is_some_and(|token| token.len() > METHOD_MAX_BYTES)
    {
        return Err(Refusal::MethodTooLong.into());
    }
    if raw.len() > limits.target_bytes {
        return Err(Refusal::TargetTooLong.into());
    }
    let has_form = method == Method::Connect || raw.starts_with(b"/") || raw == b"*";
    match Target::parse(method, raw) {
        Ok(target) if has_form => Ok(Target { scheme, ..target }),
        _ => Err(Refusal::Target.into()),
    }
}

/// Returns the scheme. Other schemes are those of other servers, whose gateway this is not.
#[inline]
fn scheme_of(scheme: &[u8]) -> Result<Scheme, Rejected> {
    if scheme.eq_ignore_ascii_case(b"https") {
        return Ok(Scheme::Https);
    }
    if scheme.eq_ignore_ascii_case(b"http") {
        return Ok(Scheme::Http);
    }
    // RFC 3986 §3.1.
    let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
    Err(if is_scheme { Refusal::Target.into() } else { Rejected::Malformed })
}

/// Returns the fault of an authority: user information breaks the rules (RFC 9113 §8.3.1); a host
/// that is none is refused.
#[cold]
fn wrong_authority(authority: &[u8]) -> Rejected {
    if authority.contains(&b'@') { Rejected::Malformed } else { Refusal::Host.into() }
}

/// Returns the authority (RFC 9113 §8.3.1): `:authority`, or the `Host` of an intermediary that has
/// translated a request of HTTP/1; never with user information, and if there are both they must
/// agree.
#[inline]
fn authority<'h>(
    pseudo: &Pseudo<'h>,
    scheme: Option<Scheme>,
    fields: &Fields<'h>,
    known: &KnownFieldPlaces,
) -> Result<&'h [u8], Rejected> {
    let host = known.value(fields, KnownField::Host);
    if known.repeated(KnownField::Host) {
        return Err(Refusal::Host.into());
    }
    let authority = pseudo.authority.or(host).ok_or(Refusal::Host)?;
    let split = host::split(authority).map_err(|_| wrong_authority(authority))?;
    match host {
        Some(host) if host != authority => {
            let other = host::split(host).map_err(|_| Refusal::Host)?;
            let port = |port: Option<u16>| match (port, scheme) {
                (None, Some(Scheme::Http)) => Some(80),
                (None, Some(Scheme::Https)) => Some(443),
                _ => port,
            };
            let same =
                split.host.eq_ignore_ascii_case(other.host) && port(split.port) == port(other.port);
            if same { Ok(authority) } else { Err(Rejected::Malformed) }
        }
        _ => Ok(authority),
    }
}

/// Returns the framing. RFC 9113 §8.1.1: an announced length that cannot come true is malformed.
#[inline]
fn framing(fields: &Fields<'_>, known: &KnownFieldPlaces, end: bool) -> Result<Framing, Rejected> {
    let Some(length) = known.value(fields, KnownField::ContentLength) else {
        return Ok(if end { Framing::None } else { Framing::Frames });
    };
    if known.repeated(KnownField::ContentLength)
        || length.is_empty()
        || !length.iter().all(u8::is_ascii_digit)
    {
        return Err(Refusal::ContentLength.into());
    }
    match grammar::decimal(length) {
        Some(0) => Ok(Framing::None),
        _ if end => Err(Rejected::Malformed),
        Some(bytes) => Ok(Framing::Length(bytes)),
        // RFC 9110 §8.6 asks to expect numbers beyond any integer type.
        None => Err(Refusal::ContentTooLarge.into()),
    }
}

/// Returns whether the client expects `100-continue` (RFC 9110 §10.1.1), as in HTTP/1.1.
#[cold]
fn expects(
    fields: &Fields<'_>,
    known: &KnownFieldPlaces,
    framing: Framing,
) -> Result<bool, Rejected> {
    let mut values = known.values(fields, KnownField::Expect);
    if !values.all(|value| value.eq_ignore_ascii_case(b"100-continue")) {
        return Err(Refusal::Expectation.into());
    }
    Ok(framing != Framing::None)
}

/// Token characters without the capital letters (RFC 9113 §8.2.1).
static LOWER_TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let c = byte as u8;
        table[byte] = grammar::is_token_byte(c) && !c.is_ascii_uppercase();
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::FieldPlace;

    #[test]
    fn refused_fields_hint_at_their_path_and_host() {
        type Case<'c> = (&'c [(&'c str, &'c str)], Option<&'c str>, Option<&'c str>);
        let cases: [Case<'_>; 8] = [
            (&[(":path", "/a?b"), (":authority", "h")], Some("/a"), Some("h")),
            (&[(":path", "/a"), ("host", "h:1")], Some("/a"), Some("h:1")),
            (&[(":path", "/a"), ("host", "h"), ("host", "i")], Some("/a"), None),
            (&[(":path", "/a"), (":authority", "h i")], Some("/a"), None),
            (&[(":path", "*"), (":authority", "h")], None, Some("h")),
            (&[(":path", "/a\"b"), (":authority", "h")], None, Some("h")),
            (&[(":path", "http://g/a")], None, None),
            (&[], None, None),
        ];
        for (lines, path, authority) in cases {
            let (mut text, mut places) = (Vec::new(), Vec::new());
            for (name, value) in lines {
                let start = text.len();
                let middle = start + name.len();
                text.extend_from_slice(name.as_bytes());
                text.extend_from_slice(value.as_bytes());
                places.push(FieldPlace::new(start..middle, middle..text.len()));
            }
            let hints = refused_request(&Fields::new(&text, &places));
            assert_eq!(hints.path, path.map(str::as_bytes), "{lines:?}");
            assert_eq!(hints.authority, authority.map(str::as_bytes), "{lines:?}");
        }
    }

    /// The fast search finds the same as a plain one, for every byte at every position.
    #[test]
    fn upper_case_letters_are_found_in_eight_byte_steps() {
        for length in 0..20 {
            for place in 0..length {
                for byte in 0..=255 {
                    for other in [b'a', b'z', b'-'] {
                        let mut name = vec![other; length];
                        name[place] = byte;
                        let plain = |byte: &u8| matches!(byte, b'a'..=b'z' | b'-');
                        let law = length >= 4 && name.iter().all(plain);
                        assert_eq!(is_letters(&name), law, "{name:?}");
                    }
                }
            }
        }
    }
}
