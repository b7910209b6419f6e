//! Request heads (RFC 9112 §2 to §6): the lexer finds the parts, this module interprets them, and
//! refuses everything that two servers could read differently.

use super::head_lexer::{Scanned, scan};
use crate::field::{FieldPlace, Fields, KnownField, KnownFieldPlaces};
use crate::field_section::FieldSection;
use crate::grammar;
use crate::host;
use crate::limits::{
    FIELDS_MAX, HEAD_MAX_BYTES, LEADING_EMPTY_LINES_MAX, Limits, METHOD_MAX_BYTES,
};
use crate::refusal::Refusal;
use crate::request_head::{Framing, RequestHead};
use crate::request_target::Target;
use crate::version::Version;

/// The positions of the field lines of one head, and its text when that was compressed. Kept from
/// request to request it allocates once.
#[derive(Debug, Default)]
pub struct HeadStorage {
    section: FieldSection,
}

impl HeadStorage {
    /// Creates empty storage; nothing is allocated before the first head.
    #[must_use]
    pub const fn new() -> Self {
        HeadStorage { section: FieldSection::new() }
    }

    /// Creates storage that holds any head of HTTP/1 and never grows for one.
    #[must_use]
    pub fn reserved() -> Self {
        HeadStorage { section: FieldSection::with_lines() }
    }

    /// Returns the section into which the fields of HTTP/2 and HTTP/3 are decoded.
    pub fn section(&mut self) -> &mut FieldSection {
        &mut self.section
    }

    pub(crate) fn lines(&mut self) -> &mut Vec<FieldPlace> {
        self.section.lines()
    }

    pub(crate) fn places(&self) -> &[FieldPlace] {
        self.section.places()
    }
}

/// The result of parsing the front of a connection's input.
#[derive(Debug)]
pub enum Parsed<'h> {
    /// The head is incomplete. Call again with more input and this number, which avoids a second
    /// scan of the same bytes: a head that arrives byte by byte costs linear work.
    Partial {
        /// The number of bytes of the input that need not be scanned again.
        scanned: usize,
    },
    /// A whole head.
    Head {
        /// The head.
        head: RequestHead<'h>,
        /// The length of the head: leading empty lines, request line, field lines and the blank
        /// line.
        bytes: usize,
    },
}

/// Reads the request head at the front of `input`.
///
/// `scanned` is 0 at first and the value of [`Parsed::Partial`] after that, as long as `input` only
/// grows at its end.
///
/// Refuses as early as possible: a partial head that is over a limit, or malformed already, is not
/// awaited. After every refusal, the connection must close.
#[inline]
pub fn parse<'h>(
    input: &'h [u8],
    scanned: usize,
    storage: &'h mut HeadStorage,
    limits: &Limits,
) -> Result<Parsed<'h>, Refusal> {
    let start = leading_empty_lines(input)?;
    if scanned > start && !has_blank_line(input, start, scanned)? {
        return partial(input, start, limits);
    }
    let head_max = limits.head_bytes.min(HEAD_MAX_BYTES);
    let text = input.get(start..input.len().min(head_max)).unwrap_or_default();
    let fields_max = limits.fields.min(FIELDS_MAX);
    match scan(text, storage.lines(), fields_max) {
        Ok(Some(found)) => {
            let fields = Fields::new(text, storage.section.places());
            let bytes = start + found.bytes;
            Ok(Parsed::Head { head: complete(&found, fields, limits)?, bytes })
        }
        Ok(None) => partial(input, start, limits),
        Err(refusal) => {
            let text = input.get(start..).unwrap_or_default();
            request_line_fits(text, limits).and(Err(refusal))
        }
    }
}

/// The fields that determine the end of the message and the bytes that follow it.
const MESSAGE_FIELDS: [KnownField; 4] = [
    KnownField::Connection,
    KnownField::ContentLength,
    KnownField::Expect,
    KnownField::TransferEncoding,
];

/// Checks a whole head and makes the value of it.
#[inline]
fn complete<'h>(
    found: &Scanned<'h>,
    fields: Fields<'h>,
    limits: &Limits,
) -> Result<RequestHead<'h>, Refusal> {
    let &Scanned { method, method_token, target, version, known, .. } = found;
    if method_token.len() > METHOD_MAX_BYTES {
        return Err(Refusal::MethodTooLong);
    }
    if target.len() > limits.target_bytes {
        return Err(Refusal::TargetTooLong);
    }
    let Ok(target) = Target::parse(method, target) else { return Err(Refusal::Target) };
    let authority = authority(version, &target, &fields, &known)?;
    let mut framing = Framing::None;
    let mut keep_alive = version != Version::Http10;
    let mut expect_continue = false;
    if known.has_any(&MESSAGE_FIELDS) {
        framing = framing_of(version, &fields, &known)?;
        keep_alive = stays_open(version, &fields, &known);
        expect_continue = expects_continue(version, framing, &fields, &known)?;
    }
    Ok(RequestHead {
        method,
        method_token,
        version,
        target,
        authority,
        protocol: None,
        fields,
        known,
        framing,
        keep_alive,
        expect_continue,
        identity: None,
    })
}

/// Returns the authority (RFC 9112 §3.2): exactly one valid `Host` in 1.1, at most one in 1.0.
#[inline]
fn authority<'h>(
    version: Version,
    target: &Target<'h>,
    fields: &Fields<'h>,
    known: &KnownFieldPlaces,
) -> Result<Option<&'h [u8]>, Refusal> {
    let host = known.value(fields, KnownField::Host);
    match host {
        Some(host) if !known.repeated(KnownField::Host) => {
            host::split(host).map_err(|_| Refusal::Host)?;
        }
        None if version == Version::Http10 => {}
        _ => return Err(Refusal::Host),
    }
    Ok(target.authority.or(host))
}

/// Returns the framing (RFC 9112 §6.3), in the strict reading: everything ambiguous is refused.
fn framing_of(
    version: Version,
    fields: &Fields<'_>,
    known: &KnownFieldPlaces,
) -> Result<Framing, Refusal> {
    if known.has(KnownField::TransferEncoding) {
        return transfer_encoding(version, fields, known);
    }
    let Some(length) = known.value(fields, KnownField::ContentLength) else {
        return Ok(Framing::None);
    };
    if known.repeated(KnownField::ContentLength)
        || length.is_empty()
        || !length.iter().all(u8::is_ascii_digit)
    {
        return Err(Refusal::ContentLength);
    }
    match grammar::decimal(length) {
        Some(0) => Ok(Framing::None),
        Some(bytes) => Ok(Framing::Length(bytes)),
        // RFC 9110 §8.6 asks to expect numbers beyond any integer type.
        None => Err(Refusal::ContentTooLarge),
    }
}

/// Returns the framing of `Transfer-Encoding`, for requests and responses alike. The only one
/// accepted is a single `chunked`, in HTTP/1.1, without `Content-Length`.
pub(super) fn transfer_encoding(
    version: Version,
    fields: &Fields<'_>,
    known: &KnownFieldPlaces,
) -> Result<Framing, Refusal> {
    let value = known.value(fields, KnownField::TransferEncoding).unwrap_or_default();
    if version == Version::Http10
        || known.has(KnownField::ContentLength)
        || known.repeated(KnownField::TransferEncoding)
    {
        return Err(Refusal::TransferEncoding);
    }
    if value.eq_ignore_ascii_case(b"chunked") {
        return Ok(Framing::Chunked);
    }
    // RFC 9112 §6.3 wants 400 where `chunked` is there but not last, or last but not only once;
    // §6.1 wants 501 for a coding that is not known.
    let chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    let count = members(value).filter(|coding| chunked(coding)).count();
    let last = members(value).last();
    match (count, last) {
        (_, None) => Err(Refusal::TransferEncoding),
        (0, Some(last)) if !grammar::is_token(last) => Err(Refusal::TransferEncoding),
        (0, Some(_)) => Err(Refusal::TransferCoding),
        (1, Some(last)) if chunked(last) => Err(Refusal::TransferCoding),
        _ => Err(Refusal::TransferEncoding),
    }
}

/// Returns whether the connection stays open (RFC 9112 §9.3), for the recipient of a request and
/// for that of a response.
pub(super) fn stays_open(version: Version, fields: &Fields<'_>, known: &KnownFieldPlaces) -> bool {
    let mut asked = version != Version::Http10;
    for value in known.values(fields, KnownField::Connection) {
        for option in members(value) {
            if option.eq_ignore_ascii_case(b"close") {
                return false;
            }
            asked |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
    asked
}

/// Returns the members of a list of tokens. A quote has no meaning there, so it hides no comma.
fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(grammar::trim).filter(|member| !member.is_empty())
}

/// Returns whether the client expects `100-continue` (RFC 9110 §10.1.1), the only expectation there
/// is. One in HTTP/1.0 is ignored, and one without content has nothing to wait for.
fn expects_continue(
    version: Version,
    framing: Framing,
    fields: &Fields<'_>,
    known: &KnownFieldPlaces,
) -> Result<bool, Refusal> {
    if !known.has(KnownField::Expect) || version == Version::Http10 {
        return Ok(false);
    }
    for value in known.values(fields, KnownField::Expect) {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(Refusal::Expectation);
        }
    }
    Ok(framing != Framing::None)
}

/// Returns the length of the empty lines before the request line (RFC 9112 §2.2).
#[inline]
fn leading_empty_lines(input: &[u8]) -> Result<usize, Refusal> {
    let mut rest = input;
    let mut lines = 0;
    while let [b'\r' | b'\n', ..] = rest {
        match rest {
            [b'\r'] => break,
            [b'\r', b'\n', tail @ ..] => rest = tail,
            _ => return Err(Refusal::LineEnd),
        }
        lines += 1;
        if lines > LEADING_EMPTY_LINES_MAX {
            return Err(Refusal::EmptyLines);
        }
    }
    Ok(input.len() - rest.len())
}

/// Returns whether a blank line ends in the bytes from `scanned` on. Before them there is none.
pub(super) fn has_blank_line(input: &[u8], start: usize, scanned: usize) -> Result<bool, Refusal> {
    let fresh = input.get(scanned..).unwrap_or_default();
    for at in memchr::memchr_iter(b'\n', fresh) {
        let line = input.get(start..scanned + at).unwrap_or_default();
        if line.ends_with(b"\r\n\r") {
            return Ok(true);
        }
        if !line.ends_with(b"\r") {
            return Err(Refusal::LineEnd);
        }
    }
    Ok(false)
}

/// Checks whether a partial head may still become one within the limits.
fn partial<'h>(input: &[u8], start: usize, limits: &Limits) -> Result<Parsed<'h>, Refusal> {
    let text = input.get(start..).unwrap_or_default();
    if text.len() > limits.target_bytes.min(METHOD_MAX_BYTES) {
        request_line_fits(text, limits)?;
    }
    if input.len() >= limits.head_bytes {
        return Err(Refusal::HeadTooLarge);
    }
    Ok(Parsed::Partial { scanned: input.len() })
}

/// Checks whether method and target of a request line, complete or not, are within the limits.
fn request_line_fits(text: &[u8], limits: &Limits) -> Result<(), Refusal> {
    // The longest line that fits is short, so this looks at a bounded number of bytes.
    let longest = METHOD_MAX_BYTES + 1 + limits.target_bytes + 1;
    let line = text.get(..longest).unwrap_or(text);
    let mut parts = line.splitn(3, |&byte| byte == b' ' || byte == b'\r' || byte == b'\n');
    if parts.next().unwrap_or_default().len() > METHOD_MAX_BYTES {
        return Err(Refusal::MethodTooLong);
    }
    if parts.next().unwrap_or_default().len() > limits.target_bytes {
        return Err(Refusal::TargetTooLong);
    }
    Ok(())
}
