//! Parameters after a value (RFC 9110 §5.6.6), as forms have them.

use super::FormFault;
use crate::grammar::{is_token, trim};
use crate::limits::BOUNDARY_MAX_BYTES;

/// Returns the boundary of a form, by the value of `Content-Type`; none when it is no
/// `multipart/form-data`.
///
/// # Errors
/// [`FormFault::Boundary`]: it is one, and has no boundary that can be used.
pub fn boundary(content_type: &[u8]) -> Option<Result<Vec<u8>, FormFault>> {
    let (kind, parameters) = Parameters::of(content_type);
    if !kind.eq_ignore_ascii_case(b"multipart/form-data") {
        return None;
    }
    Some(
        only(parameters, b"boundary")
            .filter(|boundary| is_boundary(boundary))
            .ok_or(FormFault::Boundary),
    )
}

/// Returns the value of a parameter that has to occur once.
fn only(parameters: Parameters<'_>, wanted: &[u8]) -> Option<Vec<u8>> {
    let mut value = None;
    for parameter in parameters {
        let (name, text) = parameter.ok()?;
        if name.eq_ignore_ascii_case(wanted) && value.replace(text).is_some() {
            return None;
        }
    }
    value
}

/// Returns whether the bytes are a boundary (RFC 2046 §5.1.1): 1 to 70 of these, and no space at
/// the end.
fn is_boundary(bytes: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(byte);
    let has_end = bytes.last().is_some_and(|&byte| byte != b' ');
    has_end && bytes.len() <= BOUNDARY_MAX_BYTES && bytes.iter().all(is_allowed)
}

/// The parameters of a value, one by one: their names, and their values without quotes.
pub(super) struct Parameters<'a> {
    rest: &'a [u8],
    /// Whether a backslash between quotes stands for itself, wherever it is.
    is_literal: bool,
}

/// A name and a value.
type Parameter<'a> = (&'a [u8], Vec<u8>);

impl<'a> Parameters<'a> {
    /// Returns the text before the first semicolon, and the parameters after it.
    pub(super) fn of(value: &'a [u8]) -> (&'a [u8], Self) {
        let at = memchr::memchr(b';', value).unwrap_or(value.len());
        (trim(&value[..at]), Self { rest: &value[at..], is_literal: false })
    }

    /// Splits a value as browsers write it: they escape a quote as `%22`, and a backslash not at
    /// all, so that one may be the last byte between quotes.
    pub(super) fn literal(value: &'a [u8]) -> (&'a [u8], Self) {
        let (value, parameters) = Self::of(value);
        (value, Self { is_literal: true, ..parameters })
    }

    /// Reads the next parameter; none at the end, which may have a semicolon.
    fn read(&mut self) -> Option<Result<Parameter<'a>, FormFault>> {
        self.rest = trim(self.rest);
        while let [b';', rest @ ..] = self.rest {
            self.rest = trim(rest);
        }
        if self.rest.is_empty() {
            return None;
        }
        let Some(at) = memchr::memchr(b'=', self.rest) else {
            return Some(Err(FormFault::PartHead));
        };
        let (name, rest) = (&self.rest[..at], &self.rest[at + 1..]);
        if !is_token(name) {
            return Some(Err(FormFault::PartHead));
        }
        let (value, rest) = match rest {
            [b'"', quoted @ ..] => match unquoted(quoted, self.is_literal) {
                Some(value) => value,
                None => return Some(Err(FormFault::PartHead)),
            },
            // Some programs do not quote values that are no tokens.
            _ => {
                let end = memchr::memchr(b';', rest).unwrap_or(rest.len());
                (trim(&rest[..end]).to_vec(), &rest[end..])
            }
        };
        self.rest = trim(rest);
        let is_well = self.rest.is_empty() || self.rest.starts_with(b";");
        Some(if is_well { Ok((name, value)) } else { Err(FormFault::PartHead) })
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Result<Parameter<'a>, FormFault>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.read();
        if matches!(next, Some(Err(_))) {
            self.rest = &[];
        }
        next
    }
}

/// Returns the text up to the closing quote, and the rest after it. A backslash stands for itself,
/// as in the paths that old browsers send, except before a quote or another backslash (RFC 9110
/// §5.6.4), unless it always does.
fn unquoted(quoted: &[u8], is_literal: bool) -> Option<(Vec<u8>, &[u8])> {
    let (mut text, mut rest) = (Vec::new(), quoted);
    loop {
        rest = match rest {
            [b'"', behind @ ..] => return Some((text, behind)),
            [b'\\', byte @ (b'"' | b'\\'), behind @ ..] if !is_literal => {
                text.push(*byte);
                behind
            }
            [byte, behind @ ..] => {
                text.push(*byte);
                behind
            }
            [] => return None,
        };
    }
}
