//! The errors of searches, in the words of the Lua version that is compiled in.

use super::limits::{CAPTURES_MAX, PATTERN_MAX_BYTES, RESULT_MAX_BYTES};
use super::step_budget::OutOfSteps;
use super::{LUAJIT, TOO_MANY_STEPS};

/// The reason why a search or a replacement failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternFailure {
    /// The pattern is malformed at the position that the search has reached.
    Malformed(Malformed),
    /// More than [`DEPTH_MAX`](super::limits::DEPTH_MAX) parts are open at a time.
    TooComplex,
    /// The pattern has more than [`PATTERN_MAX_BYTES`].
    TooLong,
    /// The budget is used up.
    TooManySteps,
    /// The result would have more than [`RESULT_MAX_BYTES`].
    ResultTooLarge,
    /// A `%` in a replacement is followed by a character without a meaning.
    Replacement,
    /// A replacement names a capture that the pattern has not: its number, from 1.
    NoSuchCapture(u8),
}

/// The errors of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It ends with `%`.
    EndsWithEscape,
    /// A set is not closed.
    SetNotClosed,
    /// `%f` is not followed by a set.
    FrontierWithoutSet,
    /// `%b` is not followed by two bytes.
    BalanceWithoutPair,
    /// There is a `)` with no capture open.
    NothingToClose,
    /// `%1` to a capture that is not there or not closed: the digit, from 0.
    NoSuchCapture(u8),
    /// More than [`CAPTURES_MAX`].
    TooManyCaptures,
    /// A capture is still open at the end.
    CaptureNotClosed,
}

impl From<OutOfSteps> for PatternFailure {
    fn from(_: OutOfSteps) -> PatternFailure {
        PatternFailure::TooManySteps
    }
}

impl std::fmt::Display for PatternFailure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            PatternFailure::Malformed(malformed) => malformed.fmt(out),
            PatternFailure::TooComplex => out.write_str("pattern too complex"),
            PatternFailure::TooLong => {
                write!(out, "the pattern is longer than {PATTERN_MAX_BYTES} bytes")
            }
            PatternFailure::TooManySteps => out.write_str(TOO_MANY_STEPS),
            PatternFailure::ResultTooLarge => {
                write!(out, "resulting string too large (over {RESULT_MAX_BYTES} bytes)")
            }
            PatternFailure::Replacement => {
                out.write_str("invalid use of '%' in replacement string")
            }
            PatternFailure::NoSuchCapture(number) => Malformed::NoSuchCapture(number).fmt(out),
        }
    }
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match *self {
            Malformed::EndsWithEscape => "malformed pattern (ends with '%')",
            Malformed::SetNotClosed => "malformed pattern (missing ']')",
            Malformed::FrontierWithoutSet => "missing '[' after '%f' in pattern",
            Malformed::BalanceWithoutPair if LUAJIT => "unbalanced pattern",
            Malformed::BalanceWithoutPair => "malformed pattern (missing arguments to '%b')",
            Malformed::NothingToClose => "invalid pattern capture",
            Malformed::NoSuchCapture(_) if LUAJIT => "invalid capture index",
            Malformed::NoSuchCapture(number) => {
                return write!(out, "invalid capture index %{number}");
            }
            Malformed::TooManyCaptures => {
                const { assert!(CAPTURES_MAX == 32, "as Lua has it") };
                "too many captures"
            }
            Malformed::CaptureNotClosed => "unfinished capture",
        })
    }
}
