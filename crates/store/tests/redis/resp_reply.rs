//! Replies, parsed and compared.

use crate::command_table::Comparison;

/// A reply in RESP2 or RESP3.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RespReply {
    /// The type and the text of a reply of one line, which may be a null.
    Line(u8, Vec<u8>),
    /// The type and the text of a string.
    Text(u8, Vec<u8>),
    /// The type and the elements of a collection. Maps have two for each pair.
    Elements(u8, Vec<RespReply>),
}

use RespReply::{Elements, Line, Text};

impl RespReply {
    /// Parses the reply at the beginning of the bytes, and returns the number of its bytes; `None`
    /// if it is incomplete.
    ///
    /// # Panics
    /// The bytes are no reply.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let end = bytes.windows(2).position(|two| two == b"\r\n")?;
        let (kind, line) = (bytes[0], &bytes[1..end]);
        let mut parsed_bytes = end + 2;
        if matches!(kind, b'+' | b'-' | b':' | b',' | b'#' | b'_' | b'(') || line == b"-1" {
            return Some((Line(kind, line.to_vec()), parsed_bytes));
        }
        let count = std::str::from_utf8(line).ok().and_then(|line| line.parse::<usize>().ok());
        let count = count.unwrap_or_else(|| panic!("no reply: {}", bytes.escape_ascii()));
        match kind {
            b'$' | b'=' => {
                let text = bytes.get(parsed_bytes..parsed_bytes + count + 2)?;
                assert!(text.ends_with(b"\r\n"), "no reply: {}", bytes.escape_ascii());
                Some((Text(kind, text[..count].to_vec()), parsed_bytes + count + 2))
            }
            b'*' | b'~' | b'%' => {
                let count = if kind == b'%' { count * 2 } else { count };
                let mut elements = Vec::new();
                for _ in 0..count {
                    let (element, element_bytes) = Self::parse(&bytes[parsed_bytes..])?;
                    elements.push(element);
                    parsed_bytes += element_bytes;
                }
                Some((Elements(kind, elements), parsed_bytes))
            }
            _ => panic!("no reply: {}", bytes.escape_ascii()),
        }
    }

    /// Returns the bytes of a string, unless it is something else or null.
    pub(crate) fn into_text(self) -> Option<Vec<u8>> {
        match self {
            Text(_, text) => Some(text),
            _ => None,
        }
    }

    /// Returns whether two replies are the same as far as they are compared.
    pub(crate) fn matches(&self, other: &Self, comparison: Comparison) -> bool {
        if self == other {
            return true;
        }
        let is_error = |reply: &Self| matches!(reply, Line(b'-', _));
        if comparison == Comparison::Errors {
            return !is_error(self) && !is_error(other);
        }
        match (self, other) {
            (Line(kind, text), Line(other_kind, other_text)) if kind == other_kind => match kind {
                b'-' => comparison == Comparison::ErrorTextMayDiffer,
                b',' => {
                    comparison == Comparison::TypesAndLengths || number(text) == number(other_text)
                }
                b':' => match (comparison, number(text), number(other_text)) {
                    (Comparison::Near(most), Some(one), Some(two)) => {
                        is_near(one, two, most as f64)
                    }
                    (Comparison::TypesAndLengths | Comparison::RandomRemoval, ..) => true,
                    _ => false,
                },
                _ => false,
            },
            (Text(kind, text), Text(other_kind, other_text)) if kind == other_kind => {
                match comparison {
                    Comparison::TypesAndLengths | Comparison::RandomRemoval => true,
                    Comparison::Encoding => is_same_encoding(text, other_text),
                    Comparison::Numbers => {
                        number(text).is_some() && number(text) == number(other_text)
                    }
                    _ => false,
                }
            }
            (Elements(kind, elements), Elements(other_kind, others)) => {
                kind == other_kind
                    && elements.len() == others.len()
                    && elements_match(elements, others, comparison, *kind)
            }
            _ => false,
        }
    }

    /// Returns whether it is the error of a command that there is not.
    pub(crate) fn is_unknown_command(&self) -> bool {
        matches!(self, Line(b'-', text) if text.starts_with(b"ERR unknown command"))
    }
}

fn elements_match(
    elements: &[RespReply],
    others: &[RespReply],
    comparison: Comparison,
    kind: u8,
) -> bool {
    // Of a scan: the cursor and the elements.
    let is_nested = elements.iter().any(|element| matches!(element, Elements(..)));
    let unit = match comparison {
        Comparison::PairsInAnyOrder | Comparison::ScoresInAnyOrder => 2,
        Comparison::AnyOrder if kind == b'%' => 2,
        Comparison::AnyOrder => 1,
        _ => elements.len().max(1),
    };
    if is_nested {
        let mut pairs = elements.iter().zip(others);
        return pairs.all(|(element, other)| element.matches(other, comparison));
    }
    let sorted = |elements: &[RespReply]| {
        let mut units: Vec<_> = elements.chunks(unit).map(<[_]>::to_vec).collect();
        units.sort();
        units.concat()
    };
    // Members differ, so that the digits of the scores do not affect the order.
    let within = match comparison {
        Comparison::ScoresInAnyOrder => Comparison::Numbers,
        other => other,
    };
    let (elements, others) = (sorted(elements), sorted(others));
    elements.iter().zip(&others).all(|(element, other)| element.matches(other, within))
}

/// Returns whether the encoding of the store is as good as the one of Redis: the store has other
/// forms of strings, and a difference of sets of integers always consists of integers.
fn is_same_encoding(stored: &[u8], of_redis: &[u8]) -> bool {
    let is_string = |encoding| [&b"int"[..], b"embstr", b"raw"].contains(&encoding);
    let is_difference = stored == b"intset" && of_redis == b"hashtable";
    is_string(stored) && is_string(of_redis) || is_difference
}

/// Returns whether two times are about the same. Those after the year 10889 are, since the store
/// has none that is later.
fn is_near(one: f64, two: f64, most: f64) -> bool {
    const FAR: f64 = 2.7e11;
    const FARTHER: f64 = 1e15;
    let are_far = one.min(two) > FAR && one.max(two) > FARTHER;
    are_far || one.signum() == two.signum() && (one - two).abs() <= most
}

fn number(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl std::fmt::Debug for RespReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Line(kind, text) => write!(f, "{}{}", char::from(*kind), text.escape_ascii()),
            Text(kind, text) => write!(f, "{}\"{}\"", char::from(*kind), text.escape_ascii()),
            Elements(kind, elements) => {
                write!(f, "{}", char::from(*kind))?;
                f.debug_list().entries(elements).finish()
            }
        }
    }
}
