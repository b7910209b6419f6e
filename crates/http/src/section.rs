//! A field section as the compressed forms of HTTP/2 and HTTP/3 have it: decoded into one text and
//! the places in it, so that [`Fields`] can be made of it.
//!
//! The limits are those of a head of HTTP/1, and so a section is weighed as if it were one: a
//! request has the same verdict whatever carries it.
//!
//! | Here | There | Bytes | Lines |
//! |---|---|---|---|
//! | `:method`, `:path` | the request line | with `SP SP HTTP/1.1 CRLF` | 0 |
//! | `:scheme` | nothing | 0 | 0 |
//! | `:authority`, and `Host` beside it | `Host` | one line | 1 |
//! | `Cookie` behind a `Cookie` | the end of that line | `; ` and the value | 0 |
//! | any other field | a line | with `: ` and `CRLF` | 1 |
//! | the end | the blank line | `CRLF` | 0 |

use crate::field::{Fields, Line};
use crate::limits::{FIELDS_MAX, HEAD_MAX_BYTES, Limits};

/// Decoded fields. Kept from message to message it allocates once.
///
/// Pseudo-fields are lines like the others; their names begin with a colon. Lines of `Cookie` that
/// follow each other are one line (RFC 9113 §8.2.3, RFC 9114 §4.2.1).
#[derive(Debug, Default)]
pub struct FieldSection {
    /// [`TEXT_BYTES`] long from the first field on; the fields are in the first `used`.
    text: Vec<u8>,
    lines: Vec<Line>,
    used: usize,
    /// What HTTP/1 would have room for.
    bytes_left: usize,
    target_max_bytes: usize,
    /// Grows by each line that HTTP/1 would not have, up to [`LINES_MAX`].
    lines_max: usize,
    /// `:authority` has come, and no `Host` beside it.
    host_is_said: bool,
    fit: Fit,
}

/// Whether a decoded section is within the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// All of it is there.
    #[default]
    Whole,
    /// As a head of HTTP/1 it is longer than [`Limits::head_bytes`]; the front of it is there.
    TooLarge,
    /// The same, and it is `:path` that is longer than [`Limits::target_bytes`].
    TargetTooLong,
    /// As a head of HTTP/1 it has more lines than [`Limits::fields`]; the first are there.
    TooMany,
}

/// Lines of a section within the limits: beside those of HTTP/1 the pseudo-fields but `:authority`,
/// and a `Host` beside that.
const LINES_MAX: usize = FIELDS_MAX + 4;

/// Bytes of the fields of a section within the limits: here `:method`, `:scheme` and `:authority`
/// are longer than in HTTP/1, by 6, 12 and 2 bytes, and a `Host` beside them is there, which has a
/// name of at most 253 bytes (RFC 1035 §3.1). All others are shorter.
const FIELDS_MAX_BYTES: usize = HEAD_MAX_BYTES + 320;

/// Those, and behind them whatever one literal may bring: what a decoder may have to keep in its
/// table is no longer than a head. Places in it need 16 bits.
const TEXT_BYTES: usize = FIELDS_MAX_BYTES + HEAD_MAX_BYTES + SHORT_BYTES;
const _: () = assert!(TEXT_BYTES <= u16::MAX as usize);

/// In HTTP/1 behind the method.
const BEHIND_METHOD_BYTES: usize = " ".len();
/// In HTTP/1 behind the target.
const BEHIND_TARGET_BYTES: usize = " HTTP/1.1\r\n".len();
/// In HTTP/1 within a field line, and behind it.
const IN_LINE_BYTES: usize = ": ".len() + "\r\n".len();
/// What ends a section in HTTP/1.
const BLANK_LINE_BYTES: usize = "\r\n".len();
/// Between two cookies on one line (RFC 9113 §8.2.3).
const BETWEEN_COOKIES: &[u8; 2] = b"; ";

/// Texts up to this length are copied as if they had it, in two moves of the processor.
pub(crate) const SHORT_BYTES: usize = 32;

impl FieldSection {
    /// An empty section; nothing is allocated before the first field.
    #[must_use]
    pub const fn new() -> FieldSection {
        FieldSection {
            text: Vec::new(),
            lines: Vec::new(),
            used: 0,
            bytes_left: 0,
            target_max_bytes: 0,
            lines_max: 0,
            host_is_said: false,
            fit: Fit::Whole,
        }
    }

    /// A section with room for all lines; the text is allocated with the first section that is
    /// decoded.
    pub(crate) fn with_lines() -> FieldSection {
        FieldSection { lines: Vec::with_capacity(LINES_MAX), ..FieldSection::new() }
    }

    /// The fields decoded last.
    #[must_use]
    pub fn fields(&self) -> Fields<'_> {
        Fields::new(self.text.get(..self.used).unwrap_or_default(), &self.lines)
    }

    /// Whether the fields decoded last are all there.
    #[must_use]
    pub const fn fit(&self) -> Fit {
        self.fit
    }

    /// The places alone, for a reader whose text is elsewhere.
    pub(crate) fn lines(&mut self) -> &mut Vec<Line> {
        &mut self.lines
    }

    /// The places, to be read.
    pub(crate) fn places(&self) -> &[Line] {
        &self.lines
    }

    /// Leaves out the lines whose names are not to be kept.
    pub(crate) fn retain(&mut self, keep: impl Fn(&[u8]) -> bool) {
        let text = self.text.get(..self.used).unwrap_or_default();
        self.lines.retain(|line| keep(line.name_in(text)));
    }

    /// Forgets what was there. What comes now is held against `limits`.
    #[inline]
    pub(crate) fn begin(&mut self, limits: &Limits) {
        if self.text.len() != TEXT_BYTES {
            self.text = vec![0; TEXT_BYTES];
            self.lines.reserve(LINES_MAX);
        }
        self.lines.clear();
        self.used = 0;
        self.bytes_left = limits.head_bytes.min(HEAD_MAX_BYTES).saturating_sub(BLANK_LINE_BYTES);
        self.target_max_bytes = limits.target_bytes;
        self.lines_max = limits.fields.min(FIELDS_MAX);
        self.host_is_said = false;
        self.fit = Fit::Whole;
    }

    /// Whether more fields are taken.
    #[inline(always)]
    pub(crate) fn is_whole(&self) -> bool {
        self.fit == Fit::Whole
    }

    /// The room behind the fields, where the next one is put before it is [taken](Self::take).
    #[inline(always)]
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.text.get_mut(self.used..).unwrap_or_default()
    }

    /// Takes the field whose name and value stand at the front of the room, if it is within the
    /// limits. The lengths may be longer than the room: then it is not.
    #[inline(always)]
    pub(crate) fn take(&mut self, name_bytes: usize, value_bytes: usize) {
        if !self.is_whole() {
            return;
        }
        let start = self.used;
        let bytes = name_bytes.saturating_add(value_bytes);
        if bytes > FIELDS_MAX_BYTES - start {
            return self.end_too_large(name_bytes, value_bytes);
        }
        let (middle, end) = (start + name_bytes, start + bytes);
        let name = self.text.get(start..middle).unwrap_or_default();
        let http1_bytes = if name.first() == Some(&b':') {
            self.pseudo(name_bytes, value_bytes)
        } else if self.host_is_said && name == b"host" {
            self.host_is_said = false;
            self.unlisted(0)
        } else if name == b"cookie" && self.join(middle, end) {
            return;
        } else {
            bytes + IN_LINE_BYTES
        };
        if http1_bytes > self.bytes_left {
            return self.end_too_large(name_bytes, value_bytes);
        }
        if self.lines.len() >= self.lines_max {
            self.fit = Fit::TooMany;
            return;
        }
        self.bytes_left -= http1_bytes;
        self.lines.push(Line::new(start..middle, middle..end));
        self.used = end;
    }

    /// What the pseudo-field at the front of the room takes in HTTP/1, most often on no line of its
    /// own.
    #[inline]
    fn pseudo(&mut self, name_bytes: usize, value_bytes: usize) -> usize {
        match self.room().get(..name_bytes).unwrap_or_default() {
            b":method" => self.unlisted(value_bytes + BEHIND_METHOD_BYTES),
            b":path" => self.unlisted(value_bytes + BEHIND_TARGET_BYTES),
            b":scheme" => self.unlisted(0),
            b":authority" => {
                self.host_is_said = true;
                "host".len() + value_bytes + IN_LINE_BYTES
            }
            // There is no such one, and the request is none.
            _ => name_bytes + value_bytes + IN_LINE_BYTES,
        }
    }

    /// The next line is none of HTTP/1, where it takes `http1_bytes`.
    #[inline]
    fn unlisted(&mut self, http1_bytes: usize) -> usize {
        self.lines_max = (self.lines_max + 1).min(LINES_MAX);
        http1_bytes
    }

    /// Puts a cookie at the end of the line before, if that is one of cookies: its value stands
    /// from `middle` to `end` in the text, behind its name. False when it is a line of its own, as
    /// an empty one is, and one whose white space is to be seen (RFC 9113 §8.2.1).
    fn join(&mut self, middle: usize, end: usize) -> bool {
        let Some(line) = self.lines.last_mut() else { return false };
        let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        let value = self.text.get(middle..end).unwrap_or_default();
        let before = self.text.get(..self.used).unwrap_or_default();
        let shows_space =
            is_space(before.last()) || is_space(value.first()) || is_space(value.last());
        if shows_space || value.is_empty() || line.name_in(before) != b"cookie" {
            return false;
        }
        let http1_bytes = BETWEEN_COOKIES.len() + value.len();
        if http1_bytes > self.bytes_left {
            self.fit = Fit::TooLarge;
            return true;
        }
        // The name is longer than what stands between cookies, so the value moves to the front.
        let to = self.used + BETWEEN_COOKIES.len();
        self.text.copy_within(middle..end, to);
        if let Some(between) = self.text.get_mut(self.used..to) {
            between.copy_from_slice(BETWEEN_COOKIES);
        }
        self.used += http1_bytes;
        self.bytes_left -= http1_bytes;
        line.extend_value(self.used);
        true
    }

    /// The field at the front of the room is over the limits.
    #[cold]
    fn end_too_large(&mut self, name_bytes: usize, value_bytes: usize) {
        let is_path = self.room().get(..name_bytes) == Some(b":path");
        let is_target = is_path && value_bytes > self.target_max_bytes;
        self.fit = if is_target { Fit::TargetTooLong } else { Fit::TooLarge };
    }

    /// What trailers take in HTTP/1, where no pseudo-fields are.
    pub(crate) fn trailer_bytes(&self) -> usize {
        self.used + IN_LINE_BYTES * self.lines.len() + BLANK_LINE_BYTES
    }
}
