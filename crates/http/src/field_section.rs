//! A field section as the compressed forms of HTTP/2 and HTTP/3 have it: decoded into one text and
//! the places in it, so that [`Fields`] can be made of it.
//!
//! The limits are those of a head of HTTP/1, and so a section is weighed as if it were one: a
//! request has the same verdict in every protocol.
//!
//! | Here | There | Bytes | Lines |
//! |---|---|---|---|
//! | `:method`, `:path` | the request line | with `SP SP HTTP/1.1 CRLF` | 0 |
//! | `:scheme` | nothing | 0 | 0 |
//! | `:authority`, and `Host` beside it | `Host` | one line | 1 |
//! | `Cookie` behind a `Cookie` | the end of that line | `; ` and the value | 0 |
//! | any other field | a line | with `: ` and `CRLF` | 1 |
//! | the end | the blank line | `CRLF` | 0 |

use crate::field::{FieldPlace, Fields};
use crate::limits::{FIELDS_MAX, HEAD_MAX_BYTES, Limits};

/// Decoded fields. The value is reused from message to message, so it allocates once.
///
/// Pseudo-fields are lines like the others; their names begin with a colon. Lines of `Cookie` that
/// follow each other are one line (RFC 9113 §8.2.3, RFC 9114 §4.2.1).
#[derive(Debug, Default)]
pub struct FieldSection {
    /// [`TEXT_BYTES`] long from the first field on; the fields are in the first `used`.
    text: Vec<u8>,
    lines: Vec<FieldPlace>,
    used: usize,
    /// The room that HTTP/1 would have if each field so far were as long as one may be, so that few
    /// sections must be weighed. None when they are.
    spare_bytes: usize,
    spare_lines: usize,
    is_weighed: bool,
    left: Left,
    target_max_bytes: usize,
    fit: Fit,
}

/// The room that HTTP/1 would have after the lines that were weighed.
#[derive(Debug, Default)]
struct Left {
    bytes: usize,
    /// Grows by each line that HTTP/1 would not have, up to [`LINES_MAX`].
    lines_max: usize,
    /// `:authority` has come, and no `Host` beside it.
    host_is_said: bool,
}

/// Whether a decoded section is within the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// The section has all fields.
    #[default]
    Whole,
    /// As a head of HTTP/1 the section is longer than [`Limits::head_bytes`]; it has the first
    /// fields.
    TooLarge,
    /// The section is too large because `:path` is longer than [`Limits::target_bytes`].
    TargetTooLong,
    /// As a head of HTTP/1 the section has more lines than [`Limits::fields`]; it has the first
    /// ones.
    TooMany,
}

/// Lines of a section within the limits: beside those of HTTP/1 the pseudo-fields but `:authority`,
/// and a `Host` beside that.
const LINES_MAX: usize = FIELDS_MAX + 4;

/// Bytes of the fields of a section within the limits: here `:method`, `:scheme` and `:authority`
/// are longer than in HTTP/1, by 6, 12 and 2 bytes, and a `Host` beside them is there, which has a
/// name of at most 253 bytes (RFC 1035 §3.1). All others are shorter.
const FIELDS_MAX_BYTES: usize = HEAD_MAX_BYTES + 320;

/// The fields, and behind them all bytes that one literal may add: an entry that a decoder may have
/// to keep in its table is no longer than a head. Places in it need 16 bits.
const TEXT_BYTES: usize = FIELDS_MAX_BYTES + HEAD_MAX_BYTES + SHORT_BYTES;
const _: () = assert!(TEXT_BYTES <= u16::MAX as usize);

/// The bytes after the method in HTTP/1.
const BEHIND_METHOD_BYTES: usize = " ".len();
/// The bytes after the target in HTTP/1.
const BEHIND_TARGET_BYTES: usize = " HTTP/1.1\r\n".len();
/// The bytes within a field line and at its end in HTTP/1.
const IN_LINE_BYTES: usize = ": ".len() + "\r\n".len();
/// The most that a field takes in HTTP/1 beside its name and value: `:path` does.
const BESIDE_FIELD_MAX_BYTES: usize = BEHIND_TARGET_BYTES - ":path".len();
/// The length of the end of a section in HTTP/1.
const BLANK_LINE_BYTES: usize = "\r\n".len();
/// Between two cookies on one line (RFC 9113 §8.2.3).
const BETWEEN_COOKIES: &[u8; 2] = b"; ";
const COOKIE: &[u8; 6] = b"cookie";

/// Texts up to this length are copied as if they had it, in two moves of the processor.
pub(crate) const SHORT_BYTES: usize = 32;

impl FieldSection {
    /// Creates an empty section; nothing is allocated before the first field.
    #[must_use]
    pub const fn new() -> FieldSection {
        FieldSection {
            text: Vec::new(),
            lines: Vec::new(),
            used: 0,
            spare_bytes: 0,
            spare_lines: 0,
            is_weighed: false,
            left: Left { bytes: 0, lines_max: 0, host_is_said: false },
            target_max_bytes: 0,
            fit: Fit::Whole,
        }
    }

    /// Creates a section with room for all lines; the text is allocated with the first section that
    /// is decoded.
    pub(crate) fn with_lines() -> FieldSection {
        FieldSection { lines: Vec::with_capacity(LINES_MAX), ..FieldSection::new() }
    }

    /// Returns the fields decoded last.
    #[must_use]
    pub fn fields(&self) -> Fields<'_> {
        Fields::new(self.text.get(..self.used).unwrap_or_default(), &self.lines)
    }

    /// Returns whether the fields decoded last are complete, and if not, which limit they exceed.
    #[must_use]
    pub const fn fit(&self) -> Fit {
        self.fit
    }

    /// Returns the places alone, for a reader whose text is elsewhere.
    pub(crate) fn lines(&mut self) -> &mut Vec<FieldPlace> {
        &mut self.lines
    }

    /// Returns the places, to be read.
    pub(crate) fn places(&self) -> &[FieldPlace] {
        &self.lines
    }

    /// Leaves out the lines whose names are not to be kept.
    pub(crate) fn retain(&mut self, keep: impl Fn(&[u8]) -> bool) {
        let text = self.text.get(..self.used).unwrap_or_default();
        self.lines.retain(|line| keep(line.name_in(text)));
    }

    /// Clears the section. The next fields are compared with `limits`.
    #[inline]
    pub(crate) fn begin(&mut self, limits: &Limits) {
        if self.text.len() != TEXT_BYTES {
            self.text = vec![0; TEXT_BYTES];
            self.lines.reserve(LINES_MAX);
        }
        self.lines.clear();
        self.used = 0;
        let bytes = limits.head_bytes.min(HEAD_MAX_BYTES).saturating_sub(BLANK_LINE_BYTES);
        let lines_max = limits.fields.min(FIELDS_MAX);
        self.left = Left { bytes, lines_max, host_is_said: false };
        self.spare_bytes = bytes;
        self.spare_lines = lines_max;
        self.is_weighed = false;
        self.target_max_bytes = limits.target_bytes;
        self.fit = Fit::Whole;
    }

    /// Returns whether more fields are accepted.
    #[inline(always)]
    pub(crate) fn is_whole(&self) -> bool {
        self.fit == Fit::Whole
    }

    /// Returns the room after the fields, where the next one is put before it is
    /// [taken](Self::take).
    #[inline(always)]
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.text.get_mut(self.used..).unwrap_or_default()
    }

    /// Adds the field whose name and value are at the front of the room, if it is within the
    /// limits. The lengths may be longer than the room: then it is not.
    #[inline(always)]
    pub(crate) fn take(&mut self, name_bytes: usize, value_bytes: usize) {
        if !self.is_whole() {
            return;
        }
        let http1_max_bytes =
            name_bytes.saturating_add(value_bytes).saturating_add(BESIDE_FIELD_MAX_BYTES);
        if http1_max_bytes > self.spare_bytes || self.lines.len() >= self.spare_lines {
            return self.take_weighed(name_bytes, value_bytes);
        }
        self.spare_bytes -= http1_max_bytes;
        if self.joins(name_bytes, value_bytes) {
            self.join(name_bytes, value_bytes);
        } else {
            self.push(name_bytes, value_bytes);
        }
    }

    /// Adds the field if HTTP/1 has room for it after the others.
    #[cold]
    fn take_weighed(&mut self, name_bytes: usize, value_bytes: usize) {
        if name_bytes.saturating_add(value_bytes) > FIELDS_MAX_BYTES - self.used {
            return self.end_too_large(name_bytes, value_bytes);
        }
        self.weigh_lines();
        if self.joins(name_bytes, value_bytes) {
            let http1_bytes = BETWEEN_COOKIES.len() + value_bytes;
            if http1_bytes > self.left.bytes {
                self.fit = Fit::TooLarge;
                return;
            }
            self.left.bytes -= http1_bytes;
            return self.join(name_bytes, value_bytes);
        }
        let (_, room) = self.text.split_at_checked(self.used).unwrap_or_default();
        let name = room.get(..name_bytes).unwrap_or_default();
        let http1_bytes = self.left.weigh(name, value_bytes);
        if http1_bytes > self.left.bytes {
            return self.end_too_large(name_bytes, value_bytes);
        }
        if self.lines.len() >= self.left.lines_max {
            self.fit = Fit::TooMany;
            return;
        }
        self.left.bytes -= http1_bytes;
        self.push(name_bytes, value_bytes);
    }

    /// Weighs the lines that are there, once; those that follow are weighed one by one.
    fn weigh_lines(&mut self) {
        if std::mem::replace(&mut self.is_weighed, true) {
            return;
        }
        self.spare_bytes = 0;
        for field in Fields::new(&self.text, &self.lines).iter() {
            // All were within a limit that is no higher.
            self.left.bytes -= self.left.weigh(field.name, field.value.len());
        }
    }

    /// Makes a line of the field at the front of the room.
    #[inline(always)]
    fn push(&mut self, name_bytes: usize, value_bytes: usize) {
        let start = self.used;
        let middle = start + name_bytes;
        self.used = middle + value_bytes;
        self.lines.push(FieldPlace::new(start..middle, middle..self.used));
    }

    /// Returns whether the field at the front of the room is a cookie for the end of the line
    /// before it. It is a line of its own if it is empty, or if it has white space that has to be
    /// kept visible (RFC 9113 §8.2.1).
    #[inline(always)]
    fn joins(&mut self, name_bytes: usize, value_bytes: usize) -> bool {
        name_bytes == COOKIE.len() && self.room().starts_with(COOKIE) && self.follows(value_bytes)
    }

    /// Returns whether a cookie with a value of this length is joined to the line before it.
    fn follows(&self, value_bytes: usize) -> bool {
        let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        let (before, room) = self.text.split_at_checked(self.used).unwrap_or_default();
        let value = room.get(COOKIE.len()..COOKIE.len() + value_bytes).unwrap_or_default();
        let shows_space =
            is_space(before.last()) || is_space(value.first()) || is_space(value.last());
        let is_cookie = |line: &FieldPlace| line.name_in(before) == COOKIE;
        !shows_space && !value.is_empty() && self.lines.last().is_some_and(is_cookie)
    }

    /// Puts the cookie at the front of the room at the end of the line before.
    fn join(&mut self, name_bytes: usize, value_bytes: usize) {
        let Some(line) = self.lines.last_mut() else { return };
        // The name is longer than the separator between cookies, so the value moves to the front.
        let from = self.used + name_bytes;
        let to = self.used + BETWEEN_COOKIES.len();
        self.text.copy_within(from..from + value_bytes, to);
        if let Some(between) = self.text.get_mut(self.used..to) {
            between.copy_from_slice(BETWEEN_COOKIES);
        }
        self.used = to + value_bytes;
        line.extend_value(self.used);
    }

    /// Ends a section because the field at the front of the room is over the limits.
    #[cold]
    fn end_too_large(&mut self, name_bytes: usize, value_bytes: usize) {
        let is_path = self.room().get(..name_bytes) == Some(b":path");
        let is_target = is_path && value_bytes > self.target_max_bytes;
        self.fit = if is_target { Fit::TargetTooLong } else { Fit::TooLarge };
    }

    /// Returns the size of trailers in HTTP/1, where there are no pseudo-fields.
    pub(crate) fn trailer_bytes(&self) -> usize {
        self.used + IN_LINE_BYTES * self.lines.len() + BLANK_LINE_BYTES
    }
}

impl Left {
    /// Returns the size of a field in HTTP/1. Pseudo-fields and a second host have no line there.
    fn weigh(&mut self, name: &[u8], value_bytes: usize) -> usize {
        match name {
            b":method" => self.unlisted(value_bytes + BEHIND_METHOD_BYTES),
            b":path" => self.unlisted(value_bytes + BEHIND_TARGET_BYTES),
            b":scheme" => self.unlisted(0),
            b":authority" => {
                self.host_is_said = true;
                "host".len() + value_bytes + IN_LINE_BYTES
            }
            b"host" if std::mem::take(&mut self.host_is_said) => self.unlisted(0),
            _ => name.len() + value_bytes + IN_LINE_BYTES,
        }
    }

    /// Counts a field that has no line of its own in HTTP/1, where it takes `http1_bytes`.
    fn unlisted(&mut self, http1_bytes: usize) -> usize {
        self.lines_max = (self.lines_max + 1).min(LINES_MAX);
        http1_bytes
    }
}
