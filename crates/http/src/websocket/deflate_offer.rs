//! The offers of a client to compress messages: `permessage-deflate` (RFC 7692 §7.1) in
//! `Sec-WebSocket-Extensions` (RFC 6455 §9.1).

use super::limits::{OFFER_PARAMETERS_MAX, WINDOW_BITS_MAX, WINDOW_BITS_MIN};
use crate::grammar::{find_unquoted, is_token, list, trim};

/// The agreement that both sides compress messages, each without a history of the ones before
/// (`server_no_context_takeover`, `client_no_context_takeover`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeflateAgreement {
    /// The window of the server, in bits, if the client has asked for one.
    asked_window_bits: Option<u8>,
}

impl DeflateAgreement {
    /// Returns the bits of the largest window with which the server may compress.
    #[must_use]
    pub fn server_window_bits(self) -> u8 {
        self.asked_window_bits.unwrap_or(WINDOW_BITS_MAX)
    }

    /// Returns the value of `Sec-WebSocket-Extensions` in the response.
    #[must_use]
    pub fn response(self) -> String {
        let mut value = "permessage-deflate; server_no_context_takeover; \
                         client_no_context_takeover"
            .to_owned();
        if let Some(bits) = self.asked_window_bits {
            value.push_str(&format!("; server_max_window_bits={bits}"));
        }
        value
    }
}

/// The value of `Sec-WebSocket-Extensions` breaks the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MalformedExtensions;

/// Returns the parameters to which the server agrees: those of the first offer of
/// `permessage-deflate` that it can accept. Other extensions and offers with an unknown, repeated
/// or invalid parameter are declined.
pub(super) fn agree<'h>(
    values: impl Iterator<Item = &'h [u8]>,
) -> Result<Option<DeflateAgreement>, MalformedExtensions> {
    let mut agreement = None;
    for offer in values.flat_map(list) {
        let mut parts = OfferParts { rest: Some(offer) };
        let name = parts.next().filter(|name| is_token(name)).ok_or(MalformedExtensions)?;
        let mut parameters = [(&b""[..], None); OFFER_PARAMETERS_MAX];
        let mut count = 0;
        for part in parts {
            let parameter = parameter(part)?;
            *parameters.get_mut(count).ok_or(MalformedExtensions)? = parameter;
            count += 1;
        }
        if agreement.is_none() && name.eq_ignore_ascii_case(b"permessage-deflate") {
            agreement = accept(parameters.get(..count).unwrap_or_default());
        }
    }
    Ok(agreement)
}

/// A parameter: its name, and its value if it has one.
type Parameter<'h> = (&'h [u8], Option<&'h [u8]>);

/// The parts of an offer between semicolons, trimmed.
struct OfferParts<'h> {
    rest: Option<&'h [u8]>,
}

impl<'h> Iterator for OfferParts<'h> {
    type Item = &'h [u8];

    fn next(&mut self) -> Option<&'h [u8]> {
        let rest = self.rest?;
        let end = find_unquoted(rest, b';').unwrap_or(rest.len());
        self.rest = rest.get(end + 1..);
        rest.get(..end).map(trim)
    }
}

/// Reads a parameter. A value in quotes has to be a token without them.
fn parameter(part: &[u8]) -> Result<Parameter<'_>, MalformedExtensions> {
    let mut sides = part.splitn(2, |byte| *byte == b'=').map(trim);
    let name = sides.next().filter(|name| is_token(name)).ok_or(MalformedExtensions)?;
    let Some(value) = sides.next() else { return Ok((name, None)) };
    let unquoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    let value = unquoted.unwrap_or(value);
    if is_token(value) { Ok((name, Some(value))) } else { Err(MalformedExtensions) }
}

/// Takes an offer, or declines it.
fn accept(parameters: &[Parameter<'_>]) -> Option<DeflateAgreement> {
    let mut asked_window_bits = None;
    for (position, &(name, value)) in parameters.iter().enumerate() {
        let before = parameters.get(..position).unwrap_or_default();
        if before.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            return None;
        }
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        if is(b"server_no_context_takeover") || is(b"client_no_context_takeover") {
            if value.is_some() {
                return None;
            }
        } else if is(b"server_max_window_bits") {
            asked_window_bits = Some(window_bits(value?)?);
        } else if is(b"client_max_window_bits") {
            // It only says that the client has a smaller window if it is asked to, which is not
            // needed: each message is decompressed with the largest one.
            if let Some(value) = value {
                window_bits(value)?;
            }
        } else {
            return None;
        }
    }
    Some(DeflateAgreement { asked_window_bits })
}

/// Reads a number of bits: a decimal without leading zeros.
fn window_bits(value: &[u8]) -> Option<u8> {
    let bits = match *value {
        [ones @ b'1'..=b'9'] => ones - b'0',
        [b'1', ones @ b'0'..=b'9'] => 10 + ones - b'0',
        _ => return None,
    };
    (WINDOW_BITS_MIN..=WINDOW_BITS_MAX).contains(&bits).then_some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &str = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

    fn agreed(lines: &[&str]) -> Result<Option<String>, MalformedExtensions> {
        let agreement = agree(lines.iter().map(|line| line.as_bytes()))?;
        Ok(agreement.map(DeflateAgreement::response))
    }

    /// Offers that a client may make, and offers that are declined (RFC 7692 §7.1).
    #[test]
    fn the_first_good_offer_is_taken() {
        let with_bits = |bits: u8| format!("{BOTH}; server_max_window_bits={bits}");
        for (offers, expected) in [
            ("permessage-deflate", Some(BOTH.to_owned())),
            ("PERMESSAGE-Deflate", Some(BOTH.to_owned())),
            ("permessage-deflate; client_max_window_bits", Some(BOTH.to_owned())),
            ("permessage-deflate; client_max_window_bits=8", Some(BOTH.to_owned())),
            ("permessage-deflate;client_no_context_takeover", Some(BOTH.to_owned())),
            (
                "permessage-deflate ; server_no_context_takeover ;client_no_context_takeover",
                Some(BOTH.to_owned()),
            ),
            ("permessage-deflate; server_max_window_bits=10", Some(with_bits(10))),
            ("permessage-deflate; server_max_window_bits=\"9\"", Some(with_bits(9))),
            ("permessage-deflate; server_max_window_bits=8", Some(with_bits(8))),
            ("permessage-deflate; server_max_window_bits=15", Some(with_bits(15))),
            ("permessage-deflate; server_max_window_bits", None),
            ("permessage-deflate; server_max_window_bits=7", None),
            ("permessage-deflate; server_max_window_bits=16", None),
            ("permessage-deflate; server_max_window_bits=09", None),
            ("permessage-deflate; server_max_window_bits=+9", None),
            ("permessage-deflate; server_max_window_bits=109", None),
            ("permessage-deflate; client_max_window_bits=7", None),
            ("permessage-deflate; client_max_window_bits=x", None),
            ("permessage-deflate; server_no_context_takeover=1", None),
            ("permessage-deflate; client_no_context_takeover=true", None),
            ("permessage-deflate; client_max_window_bits; client_max_window_bits", None),
            ("permessage-deflate; server_max_window_bits=9; server_max_window_bits=9", None),
            ("permessage-deflate; unknown", None),
            ("x-webkit-deflate-frame, bbf-usp-protocol", None),
            ("", None),
            (", ,", None),
            (
                "permessage-deflate; unknown, permessage-deflate; server_max_window_bits=12, \
                 permessage-deflate",
                Some(with_bits(12)),
            ),
            ("foo; a=\"b\", permessage-deflate", Some(BOTH.to_owned())),
        ] {
            assert_eq!(agreed(&[offers]), Ok(expected), "{offers}");
        }
        let lines = ["permessage-deflate; unknown=1", "permessage-deflate"];
        assert_eq!(agreed(&lines), Ok(Some(BOTH.to_owned())));
    }

    /// RFC 6455 §9.1: values that break the grammar fail the handshake.
    #[test]
    fn malformed_offers_are_refused() {
        for offers in [
            "permessage-deflate;",
            "permessage-deflate; ;client_max_window_bits",
            ";permessage-deflate",
            "permessage deflate",
            "permessage-deflate; a=",
            "permessage-deflate; =1",
            "permessage-deflate; a=b c",
            "permessage-deflate; a=\"b",
            "permessage-deflate; a=\"b c\"",
            "permessage-deflate, a/b",
        ] {
            assert_eq!(agreed(&[offers]), Err(MalformedExtensions), "{offers}");
        }
        let many = ["permessage-deflate", &"; a".repeat(OFFER_PARAMETERS_MAX + 1)].concat();
        assert_eq!(agreed(&[&many]), Err(MalformedExtensions));
    }
}
