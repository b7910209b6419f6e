//! A compiled pattern, which the search uses instead of its text.
//!
//! Lua reads a pattern while it searches, so it reports a mistake only when a search has reached
//! it: `("a"):find("b[")` finds nothing and raises no error. This is kept: a mistake is a part of
//! the program like any other.

use memchr::memmem::Finder;

use super::LUAJIT;
use super::byte_set::{ESCAPE, Set, end_of_set};
use super::limits::{CAPTURES_MAX, PATTERN_MAX_BYTES};
use super::pattern_error::{Malformed, PatternFailure};

/// Bytes that make a text a pattern, for `find`. `)` and `]` alone do not.
const SPECIALS: &[u8] = b"^$*+?.([%-";

/// A set of bytes that match one byte of the subject.
#[derive(Clone, Copy, Debug)]
pub(super) enum Single {
    Any,
    Byte(u8),
    /// One of the sets in [`PatternProgram::sets`].
    Set(u16),
}

/// A part of a pattern.
#[derive(Clone, Copy, Debug)]
pub(super) enum PatternItem {
    /// Exactly once.
    Once(Single),
    /// The item matches as often as possible, `least` times at least.
    Greedy {
        single: Single,
        least: u8,
    },
    /// The item matches as rarely as possible.
    Lazy(Single),
    /// Once or not at all.
    Optional(Single),
    Open(u8),
    Close(u8),
    /// An empty capture, whose value is its position.
    Position(u8),
    /// The item matches the same bytes as a capture.
    Again(u8),
    /// Never matches: the same bytes as a position.
    Never,
    Balanced(u8, u8),
    /// A frontier: from outside of the set into it.
    Frontier(u16),
    End,
    Malformed(Malformed),
}

/// A pattern that can be searched for.
#[derive(Debug)]
pub struct PatternProgram {
    pub(super) parts: Vec<PatternItem>,
    pub(super) sets: Vec<Set>,
    /// The captures that are positions, as bits.
    pub(super) positions: u32,
    pub(super) captures: u8,
    /// Whether it matches only where the search begins.
    pub(super) anchored: bool,
    /// The byte that every match begins with, where that is known.
    pub(super) lead: Option<u8>,
    /// The text for `find`, which uses a pattern without specials literally.
    pub(super) literal: Option<Finder<'static>>,
}

impl PatternProgram {
    /// Compiles a pattern. `gmatch`, for which `^` means itself, passes it escaped.
    ///
    /// # Errors
    /// Returns [`PatternFailure::TooLong`]; other mistakes show in a search.
    pub fn new(pattern: &[u8]) -> Result<PatternProgram, PatternFailure> {
        if pattern.len() > PATTERN_MAX_BYTES {
            return Err(PatternFailure::TooLong);
        }
        let literal = !pattern.iter().any(|byte| SPECIALS.contains(byte));
        let literal = literal.then(|| Finder::new(pattern).into_owned());
        // For LuaJIT a pattern is a text of C, which ends at the first NUL.
        let pattern = match memchr::memchr(0, pattern) {
            Some(end) if LUAJIT => &pattern[..end],
            _ => pattern,
        };
        let (anchored, pattern) = match pattern {
            [b'^', rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let mut reading = Reading::of(pattern);
        while reading.at < pattern.len() {
            let part = reading.part().unwrap_or_else(PatternItem::Malformed);
            reading.parts.push(part);
            if let PatternItem::Malformed(_) = part {
                break;
            }
        }
        // Lua reports this when the capture is used, which only `gsub` may leave undone.
        if reading.open.iter().take(reading.captures()).any(|open| *open) {
            reading.parts.push(PatternItem::Malformed(Malformed::CaptureNotClosed));
        }
        reading.parts.shrink_to_fit();
        reading.sets.shrink_to_fit();
        Ok(PatternProgram {
            captures: reading.captures,
            positions: reading.positions,
            anchored,
            lead: lead(&reading.parts),
            literal,
            parts: reading.parts,
            sets: reading.sets,
        })
    }

    /// Returns how many captures a match has. Without any, the whole match replaces the first.
    pub fn captures(&self) -> usize {
        usize::from(self.captures)
    }
}

fn lead(parts: &[PatternItem]) -> Option<u8> {
    let opens =
        |part: &&PatternItem| matches!(part, PatternItem::Open(_) | PatternItem::Position(_));
    match parts.iter().find(|part| !opens(part))? {
        PatternItem::Once(Single::Byte(byte)) => Some(*byte),
        PatternItem::Greedy { single: Single::Byte(byte), least: 1 } => Some(*byte),
        _ => None,
    }
}

/// A pattern during its compilation. Lua has no alternatives, so the captures that are open at a
/// position of the pattern are known without any subject.
struct Reading<'a> {
    pattern: &'a [u8],
    at: usize,
    parts: Vec<PatternItem>,
    sets: Vec<Set>,
    captures: u8,
    open: [bool; CAPTURES_MAX],
    positions: u32,
}

impl Reading<'_> {
    fn of(pattern: &[u8]) -> Reading<'_> {
        Reading {
            pattern,
            at: 0,
            parts: Vec::new(),
            sets: Vec::new(),
            captures: 0,
            open: [false; CAPTURES_MAX],
            positions: 0,
        }
    }

    fn captures(&self) -> usize {
        usize::from(self.captures)
    }

    fn part(&mut self) -> Result<PatternItem, Malformed> {
        match (self.pattern[self.at], self.pattern.get(self.at + 1)) {
            (b'(', Some(b')')) => {
                self.at += 2;
                let capture = self.capture()?;
                self.positions |= 1 << capture;
                Ok(PatternItem::Position(capture))
            }
            (b'(', _) => {
                self.at += 1;
                let capture = self.capture()?;
                self.open[usize::from(capture)] = true;
                Ok(PatternItem::Open(capture))
            }
            (b')', _) => {
                self.at += 1;
                let last = self.open.iter().rposition(|open| *open);
                let capture = last.ok_or(Malformed::NothingToClose)?;
                self.open[capture] = false;
                Ok(PatternItem::Close(capture as u8))
            }
            (b'$', None) => {
                self.at += 1;
                Ok(PatternItem::End)
            }
            (ESCAPE, Some(b'b')) => self.balanced(),
            (ESCAPE, Some(b'f')) => self.frontier(),
            (ESCAPE, Some(digit @ b'0'..=b'9')) => self.again(digit - b'0'),
            _ => self.repeated(),
        }
    }

    fn capture(&mut self) -> Result<u8, Malformed> {
        if self.captures() == CAPTURES_MAX {
            return Err(Malformed::TooManyCaptures);
        }
        self.captures += 1;
        Ok(self.captures - 1)
    }

    fn balanced(&mut self) -> Result<PatternItem, Malformed> {
        let [open, close, ..] = self.pattern[self.at + 2..] else {
            return Err(Malformed::BalanceWithoutPair);
        };
        self.at += 4;
        Ok(PatternItem::Balanced(open, close))
    }

    fn frontier(&mut self) -> Result<PatternItem, Malformed> {
        self.at += 2;
        if self.pattern.get(self.at) != Some(&b'[') {
            return Err(Malformed::FrontierWithoutSet);
        }
        let set = self.brackets()?;
        Ok(PatternItem::Frontier(set))
    }

    fn again(&mut self, digit: u8) -> Result<PatternItem, Malformed> {
        self.at += 2;
        let no_such = Malformed::NoSuchCapture(digit);
        let capture = digit.checked_sub(1).filter(|capture| *capture < self.captures);
        let capture = capture.ok_or(no_such)?;
        if self.open[usize::from(capture)] {
            return Err(no_such);
        }
        let position = self.positions >> capture & 1 == 1;
        Ok(if position { PatternItem::Never } else { PatternItem::Again(capture) })
    }

    fn repeated(&mut self) -> Result<PatternItem, Malformed> {
        let single = self.single()?;
        let part = match self.pattern.get(self.at) {
            Some(b'*') => PatternItem::Greedy { single, least: 0 },
            Some(b'+') => PatternItem::Greedy { single, least: 1 },
            Some(b'-') => PatternItem::Lazy(single),
            Some(b'?') => PatternItem::Optional(single),
            _ => return Ok(PatternItem::Once(single)),
        };
        self.at += 1;
        Ok(part)
    }

    fn single(&mut self) -> Result<Single, Malformed> {
        let byte = self.pattern[self.at];
        match byte {
            b'[' => return self.brackets().map(Single::Set),
            ESCAPE => self.at += 1,
            _ => {
                self.at += 1;
                return Ok(if byte == b'.' { Single::Any } else { Single::Byte(byte) });
            }
        }
        let escaped = *self.pattern.get(self.at).ok_or(Malformed::EndsWithEscape)?;
        self.at += 1;
        Ok(match Set::class(escaped) {
            Some(class) => Single::Set(self.set(class)),
            None => Single::Byte(escaped),
        })
    }

    fn brackets(&mut self) -> Result<u16, Malformed> {
        let end = end_of_set(self.pattern, self.at)?;
        let set = Set::of_brackets(&self.pattern[self.at + 1..end]);
        self.at = end + 1;
        Ok(self.set(set))
    }

    /// Adds a set. Each takes two bytes of the pattern at least, so their number fits.
    fn set(&mut self, set: Set) -> u16 {
        const { assert!(PATTERN_MAX_BYTES / 2 <= u16::MAX as usize) };
        self.sets.push(set);
        (self.sets.len() - 1) as u16
    }
}
