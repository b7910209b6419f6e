//! The fields of a message (RFC 9110 §5), and the known ones found in one pass.

use core::ops::Range;

/// One field line, without white space around the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name as sent; compare without case.
    pub name: &'a [u8],
    /// The value as sent.
    pub value: &'a [u8],
}

/// The position of one field line in the bytes of its head. Places need 16 bits: no head is longer
/// than [`RESPONSE_HEAD_MAX_BYTES`](crate::h1::client::limits::RESPONSE_HEAD_MAX_BYTES), those of
/// requests are shorter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldPlace {
    name: [u16; 2],
    value: [u16; 2],
}

impl FieldPlace {
    /// Creates a place of the ranges of name and value.
    #[inline]
    pub(crate) fn new(name: Range<usize>, value: Range<usize>) -> FieldPlace {
        let places = |range: Range<usize>| [range.start as u16, range.end as u16];
        FieldPlace { name: places(name), value: places(value) }
    }

    /// Extends the value, which ends there now.
    pub(crate) fn extend_value(&mut self, end: usize) {
        self.value[1] = end as u16;
    }

    /// Returns the name, in the bytes of the head.
    pub(crate) fn name_in<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        part(text, self.name)
    }

    /// Returns the value, in the bytes that the line is in.
    pub(crate) fn value_in<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        part(text, self.value)
    }
}

/// The field lines of a head, in the order they came.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    text: &'a [u8],
    lines: &'a [FieldPlace],
}

impl<'a> Fields<'a> {
    /// No fields.
    pub const EMPTY: Fields<'static> = Fields { text: b"", lines: &[] };

    /// Creates the lines that are in `text`.
    #[inline]
    pub(crate) fn new(text: &'a [u8], lines: &'a [FieldPlace]) -> Fields<'a> {
        Fields { text, lines }
    }

    /// Returns the lines after the first `count`.
    #[inline]
    pub(crate) fn behind(&self, count: usize) -> Fields<'a> {
        Fields { text: self.text, lines: self.lines.get(count..).unwrap_or_default() }
    }

    /// Returns the text that contains the lines, and perhaps more.
    #[inline]
    pub(crate) fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Returns how many lines there are.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether there are no lines.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns all lines in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Field<'a>> + Clone + use<'a> {
        let text = self.text;
        self.lines
            .iter()
            .map(move |line| Field { name: part(text, line.name), value: part(text, line.value) })
    }

    /// Returns the value of the first line of that name, compared without case.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }

    /// Returns the values of all lines of that name, compared without case.
    pub fn all<'n>(&self, name: &'n [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value)
    }
}

impl core::fmt::Debug for Fields<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        f.debug_map().entries(self.iter().map(|x| (text(x.name), text(x.value)))).finish()
    }
}

macro_rules! known_fields {
    ($($variant:ident $name:literal $doc:literal,)*) => {
        /// The fields a server looks at itself.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum KnownField {
            $(#[doc = $doc] $variant,)*
        }

        impl KnownField {
            /// Every known field.
            pub const ALL: &'static [KnownField] = &[$(KnownField::$variant),*];

            /// Returns the name in its usual spelling.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(KnownField::$variant => $name,)*
                }
            }
        }
    };
}

known_fields! {
    Accept "Accept" "RFC 9110 §12.5.1.",
    AcceptEncoding "Accept-Encoding" "RFC 9110 §12.5.3.",
    Connection "Connection" "RFC 9110 §7.6.1.",
    ContentLength "Content-Length" "RFC 9110 §8.6.",
    Expect "Expect" "RFC 9110 §10.1.1.",
    Host "Host" "RFC 9110 §7.2.",
    IfMatch "If-Match" "RFC 9110 §13.1.1.",
    IfModifiedSince "If-Modified-Since" "RFC 9110 §13.1.3.",
    IfNoneMatch "If-None-Match" "RFC 9110 §13.1.2.",
    IfRange "If-Range" "RFC 9110 §13.1.5.",
    IfUnmodifiedSince "If-Unmodified-Since" "RFC 9110 §13.1.4.",
    Range "Range" "RFC 9110 §14.2.",
    Referer "Referer" "RFC 9110 §10.1.3.",
    TransferEncoding "Transfer-Encoding" "RFC 9112 §6.1.",
    Upgrade "Upgrade" "RFC 9110 §7.8.",
    UserAgent "User-Agent" "RFC 9110 §10.1.5.",
}

impl KnownField {
    /// Returns the known field of a name, compared without case. A switch on the length leaves one
    /// or two names to compare.
    #[inline]
    #[must_use]
    pub fn of(name: &[u8]) -> Option<KnownField> {
        use KnownField as K;
        match name.len() {
            4 => either(name, &[(b"host", K::Host)]),
            5 => either(name, &[(b"range", K::Range)]),
            6 => either(name, &[(b"accept", K::Accept), (b"expect", K::Expect)]),
            7 => either(name, &[(b"referer", K::Referer), (b"upgrade", K::Upgrade)]),
            8 => either(name, &[(b"if-match", K::IfMatch), (b"if-range", K::IfRange)]),
            10 => either(name, &[(b"user-agent", K::UserAgent), (b"connection", K::Connection)]),
            13 => either(name, &[(b"if-none-match", K::IfNoneMatch)]),
            14 => either(name, &[(b"content-length", K::ContentLength)]),
            15 => either(name, &[(b"accept-encoding", K::AcceptEncoding)]),
            17 => either(
                name,
                &[
                    (b"if-modified-since", K::IfModifiedSince),
                    (b"transfer-encoding", K::TransferEncoding),
                ],
            ),
            19 => either(name, &[(b"if-unmodified-since", K::IfUnmodifiedSince)]),
            _ => None,
        }
    }

    #[inline]
    const fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// The position of the first line of each known field, and the fields that occur more than once.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownFieldPlaces {
    first: [u8; KnownField::ALL.len()],
    seen: u32,
    repeated: u32,
}

// Positions are bytes and the sets are words.
const _: () = assert!(crate::limits::FIELDS_MAX <= u8::MAX as usize);
const _: () = assert!(crate::h1::client::limits::RESPONSE_FIELDS_MAX <= u8::MAX as usize);
const _: () = assert!(KnownField::ALL.len() <= u32::BITS as usize);

impl KnownFieldPlaces {
    /// Records that the next line has this name; `position` lines, at most 255, came before it.
    #[inline]
    pub(crate) fn add(&mut self, name: &[u8], position: usize) {
        let Some(field) = KnownField::of(name) else { return };
        let bit = field.bit();
        if self.seen & bit == 0 {
            self.seen |= bit;
            self.first[field as usize] = position as u8;
        } else {
            self.repeated |= bit;
        }
    }

    /// Returns whether the field occurs at all.
    #[inline]
    #[must_use]
    pub fn has(&self, field: KnownField) -> bool {
        self.seen & field.bit() != 0
    }

    /// Returns whether any of the fields occurs.
    #[inline]
    #[must_use]
    pub fn has_any(&self, fields: &[KnownField]) -> bool {
        let set = fields.iter().fold(0, |set, field| set | field.bit());
        self.seen & set != 0
    }

    /// Returns the places without these fields, as if they were absent.
    #[must_use]
    pub fn without(self, fields: &[KnownField]) -> KnownFieldPlaces {
        let set = fields.iter().fold(0, |set, field| set | field.bit());
        KnownFieldPlaces { seen: self.seen & !set, repeated: self.repeated & !set, ..self }
    }

    /// Returns whether the field occurs in more than one line.
    #[inline]
    #[must_use]
    pub fn repeated(&self, field: KnownField) -> bool {
        self.repeated & field.bit() != 0
    }

    /// Returns the value of the first line. `fields` are those the positions were found in.
    #[inline]
    #[must_use]
    pub fn value<'a>(&self, fields: &Fields<'a>, field: KnownField) -> Option<&'a [u8]> {
        if !self.has(field) {
            return None;
        }
        let line = fields.lines.get(usize::from(self.first[field as usize]))?;
        Some(part(fields.text, line.value))
    }

    /// Returns the values of all lines in order; free when there is none, a step when there is one.
    #[inline]
    #[must_use]
    pub fn values<'a>(&self, fields: &Fields<'a>, field: KnownField) -> Values<'a> {
        let lines = if self.has(field) {
            let from = fields.lines.get(usize::from(self.first[field as usize])..);
            let from = from.unwrap_or_default();
            if self.repeated(field) { from } else { from.get(..1).unwrap_or_default() }
        } else {
            &[]
        };
        Values { text: fields.text, lines, field }
    }
}

/// Iterator over the values of one known field.
#[derive(Clone)]
pub struct Values<'a> {
    text: &'a [u8],
    lines: &'a [FieldPlace],
    field: KnownField,
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        while let [line, rest @ ..] = self.lines {
            self.lines = rest;
            if KnownField::of(part(self.text, line.name)) == Some(self.field) {
                return Some(part(self.text, line.value));
            }
        }
        None
    }
}

/// Returns whether a name is a known one: without case, and with `_` for `-`, which programs behind
/// a gateway cannot distinguish (RFC 3875 §4.1.18).
#[must_use]
pub fn is_same_name(name: &[u8], known: impl AsRef<[u8]>) -> bool {
    let known = known.as_ref();
    let is_same_byte = |(byte, known): (&u8, &u8)| {
        byte.eq_ignore_ascii_case(known) || (*byte == b'_' && *known == b'-')
    };
    name.len() == known.len() && name.iter().zip(known).all(is_same_byte)
}

/// Returns the bytes between two positions.
#[inline(always)]
fn part(text: &[u8], [start, end]: [u16; 2]) -> &[u8] {
    text.get(usize::from(start)..usize::from(end)).unwrap_or_default()
}

/// Returns the field among candidates of one length that the name spells.
#[inline(always)]
fn either<const N: usize>(
    name: &[u8],
    candidates: &[(&[u8; N], KnownField)],
) -> Option<KnownField> {
    let name: &[u8; N] = name.try_into().ok()?;
    candidates.iter().find(|(lower, _)| spells(name, lower)).map(|&(_, field)| field)
}

/// Returns whether `name` is `lower` in any case. `lower` has only small letters and hyphens, and
/// setting bit 0x20 maps no other token character onto those.
#[inline(always)]
fn spells<const N: usize>(name: &[u8; N], lower: &[u8; N]) -> bool {
    let mut difference = 0;
    for index in 0..N {
        difference |= (name[index] | 0x20) ^ lower[index];
    }
    difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns names and values as the text of a head, and their positions in it.
    fn head(fields: &[(&str, &str)]) -> (Vec<u8>, Vec<FieldPlace>) {
        let mut text = Vec::new();
        let mut add = |part: &str| {
            text.extend_from_slice(part.as_bytes());
            text.len() - part.len()..text.len()
        };
        let lines =
            fields.iter().map(|(name, value)| FieldPlace::new(add(name), add(value))).collect();
        (text, lines)
    }

    fn known(fields: &Fields<'_>) -> KnownFieldPlaces {
        let mut known = KnownFieldPlaces::default();
        fields.iter().enumerate().for_each(|(position, field)| known.add(field.name, position));
        known
    }

    /// RFC 9110 §5.1: "Field names are case-insensitive".
    #[test]
    fn known_names_are_recognised_in_any_case() {
        for &field in KnownField::ALL {
            let name = field.name();
            assert_eq!(KnownField::of(name.as_bytes()), Some(field));
            assert_eq!(KnownField::of(name.to_lowercase().as_bytes()), Some(field));
            assert_eq!(KnownField::of(name.to_uppercase().as_bytes()), Some(field));
        }
    }

    /// Setting bit 0x20 must not make another token out of a known one.
    #[test]
    fn a_changed_byte_makes_another_name() {
        for &field in KnownField::ALL {
            let name = field.name().as_bytes();
            for position in 0..name.len() {
                for byte in (0..=255).filter(|&byte| crate::grammar::is_token_byte(byte)) {
                    let mut other = name.to_vec();
                    other[position] = byte;
                    let same = other.eq_ignore_ascii_case(name);
                    assert_eq!(KnownField::of(&other) == Some(field), same, "{other:?}");
                }
            }
        }
    }

    #[test]
    fn unknown_names() {
        for name in ["", "X", "Hos", "Hostt", "Date", "Cookie", "Accept-Language", "If-Matches"] {
            assert_eq!(KnownField::of(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn first_value_and_all_values() {
        let (text, lines) = head(&[
            ("Host", "a"),
            ("accept-encoding", "gzip"),
            ("X-Other", "1"),
            ("ACCEPT-ENCODING", "br"),
            ("Accept", "*/*"),
            ("Accept-Encoding", "zstd"),
        ]);
        let fields = Fields::new(&text, &lines);
        let known = known(&fields);
        let values = |field| known.values(&fields, field).collect::<Vec<_>>();

        assert!(known.has(KnownField::Host));
        assert!(!known.repeated(KnownField::Host));
        assert_eq!(known.value(&fields, KnownField::Host), Some(&b"a"[..]));
        assert_eq!(values(KnownField::Host), [b"a"]);

        assert!(known.repeated(KnownField::AcceptEncoding));
        assert_eq!(known.value(&fields, KnownField::AcceptEncoding), Some(&b"gzip"[..]));
        assert_eq!(values(KnownField::AcceptEncoding), [&b"gzip"[..], b"br", b"zstd"]);

        assert!(!known.has(KnownField::Range));
        assert_eq!(known.value(&fields, KnownField::Range), None);
        assert!(values(KnownField::Range).is_empty());
        assert!(known.has_any(&[KnownField::Range, KnownField::Accept]));
        assert!(!known.has_any(&[KnownField::Range, KnownField::IfRange]));

        let without = known.without(&[KnownField::AcceptEncoding, KnownField::Range]);
        assert!(without.values(&fields, KnownField::AcceptEncoding).next().is_none());
        assert!(!without.repeated(KnownField::AcceptEncoding));
        assert_eq!(without.value(&fields, KnownField::Accept), Some(&b"*/*"[..]));
    }

    #[test]
    fn fields_are_found_by_any_name() {
        let (text, lines) = head(&[("Cookie", "a=1"), ("Host", "h"), ("cookie", "b=2")]);
        let fields = Fields::new(&text, &lines);
        assert_eq!(fields.len(), 3);
        assert_eq!(fields.get(b"COOKIE"), Some(&b"a=1"[..]));
        assert_eq!(fields.get(b"Date"), None);
        assert_eq!(fields.all(b"Cookie").collect::<Vec<_>>(), [b"a=1", b"b=2"]);
        assert!(Fields::EMPTY.is_empty());
        assert_eq!(format!("{:?}", Fields::new(&text, &lines[1..2])), r#"{"Host": "h"}"#);
    }

    #[test]
    fn as_many_lines_as_a_head_may_have() {
        let mut lines = vec![("X", "0"); crate::limits::FIELDS_MAX];
        *lines.last_mut().expect("lines") = ("Range", "bytes=0-");
        let (text, lines) = head(&lines);
        let fields = Fields::new(&text, &lines);
        let known = known(&fields);
        assert_eq!(known.value(&fields, KnownField::Range), Some(&b"bytes=0-"[..]));
    }
}
