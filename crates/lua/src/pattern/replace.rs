//! The replacement of matches by a text, for `gsub`.

use std::io::Write;

use super::LUAJIT;
use super::byte_set::ESCAPE;
use super::compiled_pattern::PatternProgram;
use super::limits::RESULT_MAX_BYTES;
use super::matcher::{Capture, CaptureSpan, Matcher};
use super::pattern_error::PatternFailure;
use super::step_budget::Steps;

/// Replaces up to `most` matches in the subject. Returns the new text and how many matches there
/// were; without any, the text is empty, as the subject itself can be used.
///
/// # Errors
/// Returns the errors of a search. Fails if the replacement is malformed, which shows at the first
/// match, or if the text becomes too long.
pub fn replace(
    matcher: &mut Matcher,
    program: &PatternProgram,
    subject: &[u8],
    replacement: &[u8],
    most: u64,
    steps: &mut Steps,
) -> Result<(Vec<u8>, u64), PatternFailure> {
    let (mut text, mut count) = (Vec::new(), 0);
    let mut walk = MatchWalk::default();
    let mut copied = 0;
    while count < most {
        let Some(found) = walk.next(matcher, program, subject, steps)? else { break };
        count += 1;
        append(&mut text, &subject[copied..found.from], steps)?;
        put(&mut text, matcher, program, subject, replacement, found, steps)?;
        copied = found.to;
    }
    if count > 0 {
        append(&mut text, &subject[copied..], steps)?;
    }
    Ok((text, count))
}

/// The position at which the next of several matches is searched. An empty match directly after
/// another one counts for Lua 5.1, and with it for LuaJIT, but not for Lua 5.4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatchWalk {
    from: usize,
    /// Whether a match may not end where it would begin, as the previous one ended there.
    behind_match: bool,
}

impl MatchWalk {
    /// Starts at an offset.
    pub fn from(from: usize) -> MatchWalk {
        MatchWalk { from, behind_match: false }
    }

    /// Converts it to one number, for Lua to keep.
    pub fn to_number(self) -> i64 {
        i64::try_from(self.from).unwrap_or(i64::MAX >> 1) << 1 | i64::from(self.behind_match)
    }

    /// Converts a number of [`MatchWalk::to_number`] back.
    pub fn from_number(number: i64) -> MatchWalk {
        MatchWalk {
            from: (number >> 1).try_into().unwrap_or(usize::MAX),
            behind_match: number & 1 == 1,
        }
    }

    /// Returns the next match.
    ///
    /// # Errors
    /// Returns the errors of a search.
    pub fn next(
        &mut self,
        matcher: &mut Matcher,
        program: &PatternProgram,
        subject: &[u8],
        steps: &mut Steps,
    ) -> Result<Option<CaptureSpan>, PatternFailure> {
        if program.anchored && (self.from > 0 || self.behind_match) {
            return Ok(None);
        }
        let ended = self.behind_match.then_some(self.from);
        let found = matcher.search(program, subject, self.from, ended, steps)?;
        if let Some(CaptureSpan { from, to }) = found {
            // An empty match would be found again and again.
            let stays = usize::from(LUAJIT && from == to);
            *self = MatchWalk { from: to + stays, behind_match: !LUAJIT };
        }
        Ok(found)
    }
}

/// Appends the replacement of one match.
fn put(
    text: &mut Vec<u8>,
    matcher: &Matcher,
    program: &PatternProgram,
    subject: &[u8],
    replacement: &[u8],
    found: CaptureSpan,
    steps: &mut Steps,
) -> Result<(), PatternFailure> {
    let mut rest = replacement;
    while let Some(escape) = memchr::memchr(ESCAPE, rest) {
        append(text, &rest[..escape], steps)?;
        // At the end of the text LuaJIT sees the terminating NUL, and takes it for a byte like
        // others.
        let byte = rest.get(escape + 1).copied().unwrap_or(0);
        rest = rest.get(escape + 2..).unwrap_or_default();
        match byte {
            b'0' => append(text, &subject[found.from..found.to], steps)?,
            b'1'..=b'9' => {
                let number = byte - b'0';
                match matcher.capture(program, usize::from(number - 1), found) {
                    Some(Capture::Bytes(span)) => {
                        append(text, &subject[span.from..span.to], steps)?;
                    }
                    Some(Capture::Position(at)) => {
                        // Writing to a vector does not fail.
                        let _ = write!(text, "{}", at + 1);
                    }
                    None => return Err(PatternFailure::NoSuchCapture(number)),
                }
            }
            _ if LUAJIT || byte == ESCAPE => append(text, &[byte], steps)?,
            _ => return Err(PatternFailure::Replacement),
        }
    }
    append(text, rest, steps)
}

fn append(text: &mut Vec<u8>, bytes: &[u8], steps: &mut Steps) -> Result<(), PatternFailure> {
    steps.take_bytes(bytes.len())?;
    if text.len() + bytes.len() > RESULT_MAX_BYTES {
        return Err(PatternFailure::ResultTooLarge);
    }
    text.extend_from_slice(bytes);
    Ok(())
}
