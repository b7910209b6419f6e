//! A field section as the compressed forms of HTTP/2 and HTTP/3 have it: decoded into one text and
//! the places in it, so that [`Fields`] can be made of it.

use crate::field::{Fields, Line};
use crate::limits::{FIELDS_MAX, HEAD_MAX_BYTES, Limits};

/// Decoded fields. Kept from message to message it allocates once.
///
/// Pseudo-fields are lines like the others; their names begin with a colon.
#[derive(Debug, Default)]
pub struct FieldSection {
    /// [`TEXT_BYTES`] long from the first field on; the fields are in the first `used`.
    text: Vec<u8>,
    lines: Vec<Line>,
    used: usize,
    bytes_max: usize,
    lines_max: usize,
    fit: Fit,
}

/// Whether a decoded section is within the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// All of it is there.
    #[default]
    Whole,
    /// Names and values are longer than [`Limits::head_bytes`]; the front of them is there.
    TooLarge,
    /// There are more lines than [`Limits::fields`], pseudo-fields counted; the first are there.
    TooMany,
}

/// The fields of a section within the limits, and behind them whatever one literal may bring: what
/// a decoder may have to keep in its table is no longer than a head. Places in it need 16 bits.
const TEXT_BYTES: usize = 2 * HEAD_MAX_BYTES + SHORT_BYTES;
const _: () = assert!(TEXT_BYTES <= u16::MAX as usize);

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
            bytes_max: 0,
            lines_max: 0,
            fit: Fit::Whole,
        }
    }

    /// A section with room for all lines; the text is allocated with the first section that is
    /// decoded.
    pub(crate) fn with_lines() -> FieldSection {
        FieldSection { lines: Vec::with_capacity(FIELDS_MAX), ..FieldSection::new() }
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
            self.lines.reserve(FIELDS_MAX);
        }
        self.lines.clear();
        self.used = 0;
        self.bytes_max = limits.head_bytes.min(HEAD_MAX_BYTES);
        self.lines_max = limits.fields.min(FIELDS_MAX);
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
        if bytes > self.bytes_max - start {
            self.fit = Fit::TooLarge;
            return;
        }
        if self.lines.len() >= self.lines_max {
            self.fit = Fit::TooMany;
            return;
        }
        let (middle, end) = (start + name_bytes, start + bytes);
        self.lines.push(Line::new(start..middle, middle..end));
        self.used = end;
    }
}
