//! Commands with the arguments that are generated for them, as tables.

/// Commands of one type of value.
pub(crate) struct Group {
    pub(crate) commands: &'static [Row],
    /// Commands that read a whole value: they are sent for each key after all others. Their parts
    /// are keys and words.
    pub(crate) final_reads: &'static [Row],
}

/// A command.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) parts: &'static [Part],
    pub(crate) comparison: Comparison,
    /// An argument that is never sent, since redis-server does not reply to it as documented.
    pub(crate) left_out: Option<&'static str>,
}

/// One argument of a command, or several.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    /// A key of a few, which all types share.
    Key,
    /// A field of a hash or a member of a set: one of a few.
    Member,
    /// A string.
    Value,
    /// An integer, mostly a small one.
    Integer,
    /// A number with a fraction, or any other form of numbers.
    Float,
    /// A relative time in seconds that is long, or over.
    Seconds,
    /// A relative time in milliseconds that is long, or over.
    Milliseconds,
    /// An absolute time in seconds that is far away, or over.
    UnixSeconds,
    /// An absolute time in milliseconds that is far away, or over.
    UnixMilliseconds,
    /// This word, in upper or lower case.
    Word(&'static str),
    /// One of these texts.
    Text(&'static [&'static str]),
    /// These parts or nothing.
    Optional(&'static [Part]),
    /// One of these sequences of parts.
    OneOf(&'static [&'static [Part]]),
    /// None to three of these in any order.
    Several(&'static [&'static [Part]]),
    /// These parts one to four times.
    Repeated(&'static [Part]),
    /// The number of repetitions, and the parts one to four times.
    Counted(&'static [Part]),
}

/// The comparison of two replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Everything, byte for byte.
    Exact,
    /// Everything, but the text of an error may differ: newer versions have options that 7.0 has
    /// not.
    ErrorTextMayDiffer,
    /// Arrays have the same elements in any order.
    AnyOrder,
    /// Arrays have the same pairs of elements in any order.
    PairsInAnyOrder,
    /// Arrays have the same members with the same scores in any order.
    ScoresInAnyOrder,
    /// Numbers have the same value, also in strings: before 7.2, Redis has written more digits.
    Numbers,
    /// Integers differ by no more than this: times, which advance between two commands.
    Near(i64),
    /// Names of encodings; all forms of strings are the same, since the store has others.
    Encoding,
    /// Only the types and lengths: the elements are random.
    TypesAndLengths,
    /// Only whether it is the same error or none.
    Errors,
    /// As `AnyOrder`, if the cursor at this argument is 0, and as `Errors` otherwise: the position
    /// at which an enumeration continues depends on the table. It also depends on a second count,
    /// which can be small.
    Scan { cursor_argument: usize },
    /// As `Scan`, for pairs of elements.
    ScanOfPairs { cursor_argument: usize },
    /// As `Scan`, for members and their scores.
    ScanWithScores { cursor_argument: usize },
    /// As `TypesAndLengths`, and the key is deleted afterwards since its elements are not the same
    /// any more.
    RandomRemoval,
}

/// Returns the row of a command whose replies are compared byte for byte.
pub(crate) const fn row(name: &'static str, parts: &'static [Part]) -> Row {
    Row { name, parts, comparison: Comparison::Exact, left_out: None }
}

impl Comparison {
    /// Returns the comparison for these arguments.
    pub(crate) fn for_arguments(self, arguments: &[Vec<u8>]) -> Self {
        let is_count = |text: &&Vec<u8>| text.eq_ignore_ascii_case(b"count");
        let has_one_count = arguments.iter().filter(is_count).count() < 2;
        let is_zero = |cursor: usize| arguments.get(cursor).is_some_and(|text| text == b"0");
        let is_begin = |cursor: usize| has_one_count && is_zero(cursor);
        match self {
            Self::Scan { cursor_argument } if is_begin(cursor_argument) => Self::AnyOrder,
            Self::ScanOfPairs { cursor_argument } if is_begin(cursor_argument) => {
                Self::PairsInAnyOrder
            }
            Self::ScanWithScores { cursor_argument } if is_begin(cursor_argument) => {
                Self::ScoresInAnyOrder
            }
            Self::Scan { .. } | Self::ScanOfPairs { .. } | Self::ScanWithScores { .. } => {
                Self::Errors
            }
            _ => self,
        }
    }
}

impl Row {
    pub(crate) const fn compared(self, comparison: Comparison) -> Self {
        Self { comparison, ..self }
    }

    pub(crate) const fn without(self, argument: &'static str) -> Self {
        Self { left_out: Some(argument), ..self }
    }
}
