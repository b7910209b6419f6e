//! The search itself: backtracking, as Lua does it, without recursion and on a budget.
//!
//! Lua recurses at every capture and repetition. Here only choices that can still be made otherwise
//! are stored, in a list whose length is bounded; the depth that Lua would have is counted beside
//! it, so that the same patterns are too complex. Captures need not be stored: after a step back
//! the same parts follow, which set them anew.

use super::LUAJIT;
use super::compiled_pattern::{PatternItem, PatternProgram, Single};
use super::limits::{CAPTURES_MAX, DEPTH_MAX};
use super::pattern_error::PatternFailure;
use super::step_budget::{OutOfSteps, Steps};

/// The span of a capture in the subject, as offsets; for a position, only `from` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureSpan {
    /// The first byte.
    pub from: usize,
    /// The offset after the last byte.
    pub to: usize,
}

/// A capture of the last match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// Bytes of the subject.
    Bytes(CaptureSpan),
    /// An offset in the subject.
    Position(usize),
}

/// A choice that can be made otherwise.
#[derive(Clone, Copy, Debug)]
struct Choice {
    /// The part of the choice.
    part: usize,
    /// The offset in the subject with the fewest repetitions that are left to try.
    at: usize,
    /// The number of repetitions that can still be given back.
    more: usize,
    /// The depth of the parts after this one.
    depth: u16,
}

/// The working memory of a search, which later searches reuse.
#[derive(Debug)]
pub struct Matcher {
    choices: Vec<Choice>,
    captures: [CaptureSpan; CAPTURES_MAX],
}

impl Default for Matcher {
    fn default() -> Matcher {
        Matcher::new()
    }
}

impl Matcher {
    /// Allocates all memory that it will need.
    pub fn new() -> Matcher {
        Matcher {
            choices: Vec::with_capacity(usize::from(DEPTH_MAX)),
            captures: [CaptureSpan::default(); CAPTURES_MAX],
        }
    }

    /// Finds the first match that begins at the offset `from` or after it, and does not end at
    /// `ended`: the end of the previous match, for Lua 5.4. An offset after the end of the subject
    /// finds nothing.
    ///
    /// # Errors
    /// Fails if the pattern is malformed at a position that the search has reached, or the steps do
    /// not suffice.
    pub fn search(
        &mut self,
        program: &PatternProgram,
        subject: &[u8],
        from: usize,
        ended: Option<usize>,
        steps: &mut Steps,
    ) -> Result<Option<CaptureSpan>, PatternFailure> {
        let mut from = from;
        loop {
            let Some(rest) = subject.get(from..) else { return Ok(None) };
            if let (Some(lead), false) = (program.lead, program.anchored) {
                let skipped = memchr::memchr(lead, rest);
                steps.take_bytes(skipped.unwrap_or(rest.len()))?;
                let Some(skipped) = skipped else { return Ok(None) };
                from += skipped;
            }
            match self.match_at(program, subject, from, steps)? {
                Some(to) if ended != Some(to) => return Ok(Some(CaptureSpan { from, to })),
                _ if program.anchored => return Ok(None),
                _ => from += 1,
            }
        }
    }

    /// Returns a capture of the last match. The first is the whole match where the pattern has
    /// none.
    pub fn capture(
        &self,
        program: &PatternProgram,
        index: usize,
        whole: CaptureSpan,
    ) -> Option<Capture> {
        if index >= program.captures() {
            return (index == 0).then_some(Capture::Bytes(whole));
        }
        let span = self.captures[index];
        let position = program.positions >> index & 1 == 1;
        Some(if position { Capture::Position(span.from) } else { Capture::Bytes(span) })
    }

    /// Returns the end of the match that begins at `start`.
    fn match_at(
        &mut self,
        program: &PatternProgram,
        subject: &[u8],
        start: usize,
        steps: &mut Steps,
    ) -> Result<Option<usize>, PatternFailure> {
        self.choices.clear();
        let mut place = MatchProgress { part: 0, at: start, depth: 1 };
        loop {
            steps.take(1)?;
            let Some(part) = program.parts.get(place.part) else { return Ok(Some(place.at)) };
            let matched = self.step(program, *part, subject, &mut place, steps)?;
            if matched {
                place.part += 1;
            } else if !self.back(program, subject, &mut place) {
                return Ok(None);
            }
            if place.depth > DEPTH_MAX {
                return Err(PatternFailure::TooComplex);
            }
        }
    }

    /// Returns whether the part matches; if so, the progress is after it.
    #[inline]
    fn step(
        &mut self,
        program: &PatternProgram,
        part: PatternItem,
        subject: &[u8],
        place: &mut MatchProgress,
        steps: &mut Steps,
    ) -> Result<bool, PatternFailure> {
        let at = place.at;
        match part {
            PatternItem::Once(single) => {
                let matches = single.holds_at(program, subject, at);
                place.at += usize::from(matches);
                return Ok(matches);
            }
            PatternItem::Greedy { single, least } => {
                return self.greedy(program, single, usize::from(least), subject, place, steps);
            }
            PatternItem::Lazy(single) => {
                let matches = single.holds_at(program, subject, at);
                // LuaJIT goes a level deeper even if there is nothing to repeat.
                place.depth += u16::from(matches || LUAJIT);
                if matches {
                    self.remember(place, at, 0);
                }
            }
            PatternItem::Optional(single) => {
                if single.holds_at(program, subject, at) {
                    self.remember(place, at, 0);
                    place.depth += 1;
                    place.at += 1;
                }
            }
            PatternItem::Open(capture) | PatternItem::Position(capture) => {
                self.captures[usize::from(capture)].from = at;
                place.depth += 1;
            }
            PatternItem::Close(capture) => {
                self.captures[usize::from(capture)].to = at;
                place.depth += 1;
            }
            PatternItem::Again(capture) => {
                let CaptureSpan { from, to } = self.captures[usize::from(capture)];
                steps.take_bytes(to - from)?;
                let matches = subject[at..].starts_with(&subject[from..to]);
                place.at += if matches { to - from } else { 0 };
                return Ok(matches);
            }
            PatternItem::Never => return Ok(false),
            PatternItem::Balanced(open, close) => {
                let Some(end) = balanced(subject, at, open, close, steps)? else {
                    return Ok(false);
                };
                place.at = end;
            }
            PatternItem::Frontier(set) => {
                let set = &program.sets[usize::from(set)];
                // Lua sees NULs around the subject.
                let before = at.checked_sub(1).map_or(0, |before| subject[before]);
                let behind = subject.get(at).copied().unwrap_or(0);
                return Ok(!set.holds(before) && set.holds(behind));
            }
            PatternItem::End => return Ok(at == subject.len()),
            PatternItem::Malformed(malformed) => return Err(PatternFailure::Malformed(malformed)),
        }
        Ok(true)
    }

    #[inline]
    fn greedy(
        &mut self,
        program: &PatternProgram,
        single: Single,
        least: usize,
        subject: &[u8],
        place: &mut MatchProgress,
        steps: &mut Steps,
    ) -> Result<bool, PatternFailure> {
        let run = single.run(program, &subject[place.at..]);
        steps.take(run)?;
        if run < least {
            return Ok(false);
        }
        // As above: Lua 5.4 goes a level deeper only if there is something to repeat.
        place.depth += u16::from(run > 0 || LUAJIT);
        if run > least {
            self.remember(place, place.at + least, run - least);
        }
        place.at += run;
        Ok(true)
    }

    /// Stores a choice. Every choice is of another part and at a depth of its own, so there are
    /// never more than [`DEPTH_MAX`].
    #[inline]
    fn remember(&mut self, place: &MatchProgress, at: usize, more: usize) {
        self.choices.push(Choice { part: place.part, at, more, depth: place.depth });
    }

    /// Goes back to the last choice and makes it otherwise; returns whether there was one.
    #[inline]
    fn back(
        &mut self,
        program: &PatternProgram,
        subject: &[u8],
        place: &mut MatchProgress,
    ) -> bool {
        while let Some(choice) = self.choices.last_mut() {
            place.part = choice.part + 1;
            place.depth = choice.depth;
            match program.parts[choice.part] {
                PatternItem::Greedy { .. } => {
                    choice.more -= 1;
                    place.at = choice.at + choice.more;
                    if choice.more == 0 {
                        self.choices.pop();
                    }
                    return true;
                }
                PatternItem::Lazy(single) if single.holds_at(program, subject, choice.at) => {
                    choice.at += 1;
                    place.at = choice.at;
                    return true;
                }
                PatternItem::Optional(_) => {
                    place.at = choice.at;
                    self.choices.pop();
                    return true;
                }
                _ => self.choices.pop(),
            };
        }
        false
    }
}

/// The progress of a match.
#[derive(Debug)]
struct MatchProgress {
    part: usize,
    at: usize,
    /// Levels of recursion that Lua would be in.
    depth: u16,
}

impl Single {
    #[inline]
    fn holds_at(self, program: &PatternProgram, subject: &[u8], at: usize) -> bool {
        let Some(&byte) = subject.get(at) else { return false };
        match self {
            Single::Any => true,
            Single::Byte(own) => byte == own,
            Single::Set(set) => program.sets[usize::from(set)].holds(byte),
        }
    }

    /// Returns how many bytes at the beginning of `rest` match.
    #[inline]
    fn run(self, program: &PatternProgram, rest: &[u8]) -> usize {
        let other = match self {
            Single::Any => None,
            Single::Byte(own) => rest.iter().position(|byte| *byte != own),
            Single::Set(set) => {
                let set = &program.sets[usize::from(set)];
                rest.iter().position(|byte| !set.holds(*byte))
            }
        };
        other.unwrap_or(rest.len())
    }
}

/// Returns the end of the text from `open` at `at` to the `close` that belongs to it.
fn balanced(
    subject: &[u8],
    at: usize,
    open: u8,
    close: u8,
    steps: &mut Steps,
) -> Result<Option<usize>, OutOfSteps> {
    if subject.get(at) != Some(&open) {
        return Ok(None);
    }
    let mut nested = 1_usize;
    for (index, byte) in subject.iter().enumerate().skip(at + 1) {
        // The order counts, as one byte may be both.
        if *byte == close {
            nested -= 1;
            if nested == 0 {
                steps.take(index - at)?;
                return Ok(Some(index + 1));
            }
        } else if *byte == open {
            nested += 1;
        }
    }
    steps.take(subject.len() - at)?;
    Ok(None)
}
