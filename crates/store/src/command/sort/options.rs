//! Options of `SORT`.

use std::ops::Range;

use super::pattern::Pattern;
use crate::command::options::OptionArguments;
use crate::command::ranges::parse_integer;
use crate::error::{Error, SYNTAX};
use crate::resp::arguments::Arguments;

/// The options of one `SORT` command.
#[derive(Clone, Debug)]
pub(super) struct SortOptions<'a> {
    /// Whether the elements are sorted. They are not if `BY` has a pattern without a star.
    pub(super) is_sorted: bool,
    pub(super) is_reversed: bool,
    /// Whether the elements are compared by their bytes instead of as numbers.
    pub(super) is_text: bool,
    pub(super) by: Option<Pattern<'a>>,
    pub(super) gets: Vec<Pattern<'a>>,
    /// The key in which the result is stored.
    pub(super) target: Option<&'a [u8]>,
    /// The index of the argument that is this key.
    target_index: Option<usize>,
    offset: i64,
    count: i64,
}

impl<'a> SortOptions<'a> {
    /// # Errors
    /// An option is unknown, or has no value.
    pub(super) fn parse(arguments: &Arguments<'a>, is_read_only: bool) -> Result<Self, Error> {
        const FIRST: usize = 2;
        let mut parsed = Self {
            is_sorted: true,
            is_reversed: false,
            is_text: false,
            by: None,
            gets: Vec::new(),
            target: None,
            target_index: None,
            offset: 0,
            count: -1,
        };
        let mut options = OptionArguments::from(*arguments, FIRST);
        while let Some(name) = options.next_name() {
            match name?.as_bytes() {
                b"ASC" => parsed.is_reversed = false,
                b"DESC" => parsed.is_reversed = true,
                b"ALPHA" => parsed.is_text = true,
                b"LIMIT" if options.left() >= 2 => {
                    parsed.offset = parse_integer(options.next_value()?)?;
                    parsed.count = parse_integer(options.next_value()?)?;
                }
                b"STORE" if !is_read_only => {
                    parsed.target_index = Some(arguments.len() - options.left());
                    parsed.target = Some(options.next_value()?);
                }
                b"BY" => {
                    let pattern = options.next_value()?;
                    // Once a pattern without a star was given, no later one enables sorting again.
                    parsed.is_sorted &= pattern.contains(&b'*');
                    parsed.by = Some(Pattern(pattern));
                }
                b"GET" => parsed.gets.push(Pattern(options.next_value()?)),
                _ => return Err(SYNTAX),
            }
        }
        Ok(parsed)
    }

    /// Returns the range of the selected elements, of `len` elements.
    pub(super) fn range(&self, len: usize) -> Range<usize> {
        let start = usize::try_from(self.offset.max(0)).unwrap_or(usize::MAX).min(len);
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        start..start.saturating_add(count).min(len)
    }
}

/// Returns whether the command reads keys that are derived from the elements.
pub(super) fn needs_all(arguments: &Arguments<'_>) -> bool {
    let Ok(options) = SortOptions::parse(arguments, false) else { return false };
    let mut patterns = options.by.iter().chain(&options.gets);
    patterns.any(|pattern| pattern.has_key())
}

/// Returns the indices of the arguments that are keys.
#[expect(clippy::unnecessary_wraps, reason = "other commands have errors")]
pub(super) fn keys(arguments: &Arguments<'_>) -> Result<Vec<usize>, Error> {
    let target = SortOptions::parse(arguments, false).ok().and_then(|it| it.target_index);
    Ok([1].into_iter().chain(target).collect())
}
