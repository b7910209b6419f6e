//! The files of one folder whose names have a part of the same form.

use std::collections::BTreeSet;

use super::word_or_hash::{PartKind, classify};

/// The characters of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Alphabet {
    /// Hexadecimal digits of one case.
    Hex,
    /// `A` to `Z` and `2` to `7` (RFC 4648 §6).
    Base32,
    /// Letters, digits, `-` and `_` (RFC 4648 §5).
    Base64,
}

/// The form that the last parts of names share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NameForm {
    pub(super) alphabet: Alphabet,
    /// The character in front of the part; 0 where the part begins the name.
    pub(super) separator: u8,
    /// The length of the part.
    pub(super) bytes: u8,
    /// Whether the width of a picture stands after the part.
    pub(super) has_width: bool,
}

impl NameForm {
    /// Returns whether names of this form can be evidence on their own. A part that is the whole
    /// name may as well be the name of a thing: `B07XJ8C8F5.jpg`, `001A2B3C4D5E.png`.
    pub(super) fn is_evidence(self) -> bool {
        self.separator != 0 || self.has_width
    }
}

/// Files of one folder with parts of one form.
#[derive(Default)]
pub(super) struct FileGroup<'a> {
    /// Numbers of the files whose parts are no words.
    files: Vec<u32>,
    /// Of these, the number that are no source maps.
    counted: usize,
    /// Files whose parts are no evidence, source maps aside.
    ambiguous: usize,
    /// Files whose parts are words, source maps aside.
    words: usize,
    /// The parts that speak for a hash, each once.
    parts: BTreeSet<&'a [u8]>,
}

impl Alphabet {
    /// Returns whether a text has no other characters. Hexadecimal digits are of one case.
    pub(super) fn has_all(self, text: &[u8]) -> bool {
        match self {
            Alphabet::Hex => {
                let is_one = |range: std::ops::RangeInclusive<u8>| {
                    text.iter().all(|byte| byte.is_ascii_digit() || range.contains(byte))
                };
                is_one(b'a'..=b'f') || is_one(b'A'..=b'F')
            }
            Alphabet::Base32 => text.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7')),
            Alphabet::Base64 => {
                text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            }
        }
    }
}

impl<'a> FileGroup<'a> {
    /// Adds a file. A source map is no further evidence.
    pub(super) fn add(&mut self, file: u32, part: &'a [u8], alphabet: Alphabet, is_map: bool) {
        let (kind, count) = (classify(part, alphabet), usize::from(!is_map));
        if kind == PartKind::Word {
            self.words += count;
            return;
        }
        self.files.push(file);
        self.counted += count;
        match kind {
            PartKind::Random if !is_map => {
                self.parts.insert(part);
            }
            _ => self.ambiguous += count,
        }
    }

    /// Returns whether the files with such parts are most of the `all` files of the folder, and
    /// those that are no evidence are few among them.
    pub(super) fn is_most_of(&self, all: usize) -> bool {
        let without = self.words + self.ambiguous;
        self.counted * 2 > all && without * 3 <= self.words + self.counted
    }

    /// Returns whether the parts, taken together, are random: at least two of them, of different
    /// shapes, with few that begin alike, and with as many digits as random ones have.
    pub(super) fn is_random(&self, alphabet: Alphabet) -> bool {
        let count = self.parts.len();
        let mut shapes = self.parts.iter().map(|part| shape(part));
        let first = shapes.next();
        let is_varied = shapes.any(|shape| Some(shape) != first);
        let next = self.parts.iter().skip(1);
        let alike = self.parts.iter().zip(next).filter(|(one, next)| begin_alike(one, next));
        let is_mixed = |part: &&&[u8]| {
            part.iter().any(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'_'))
        };
        // Of eight random characters of base64url, 19 in 100 are letters alone; of base 32 too.
        let mixed = self.parts.iter().filter(is_mixed).count();
        let is_mixed = alphabet == Alphabet::Hex || mixed * 3 >= count;
        count >= 2 && is_varied && alike.count() * 4 < count && is_mixed
    }

    /// Returns the numbers of the files that have a hash if the group has.
    pub(super) fn accepted(&self) -> impl Iterator<Item = u32> + '_ {
        self.files.iter().copied()
    }
}

/// Returns the classes of its characters: letters of which case, digits and others, two bits for
/// each. Names that people count up (`IMG_0001`) have one shape.
fn shape(part: &[u8]) -> u32 {
    part.iter().fold(0, |shape, byte| {
        let class = match byte {
            b'A'..=b'Z' => 0,
            b'a'..=b'z' => 1,
            b'0'..=b'9' => 2,
            _ => 3,
        };
        shape << 2 | class
    })
}

/// Returns whether more than half of two parts is the same beginning.
fn begin_alike(one: &[u8], next: &[u8]) -> bool {
    let same = one.iter().zip(next).take_while(|(a, b)| a == b).count();
    same > one.len() / 2
}
