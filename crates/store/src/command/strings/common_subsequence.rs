//! `LCS`: the longest common subsequence of two strings.

use std::ops::Range;

use super::STRINGS;
use crate::command::call::Call;
use crate::command::options::OptionArguments;
use crate::command::ranges::parse_integer;
use crate::command::spec::{CommandSpec, Flags, KeyArguments};
use crate::error::{Error, SYNTAX};
use crate::keyspace::record::KeyRecord;
use crate::limits::LCS_CELLS_MAX;
use crate::resp::reply_writer::Reply;

const NO_STRINGS: Error = Error::constant("ERR The specified keys must contain string values");
const TOO_LARGE: Error =
    Error::constant("ERR Insufficient memory, failed allocating transient memory for LCS");
const LENGTH_AND_INDICES: Error =
    Error::constant("ERR If you want both the length and indexes, please just use IDX.");

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[STRINGS
    .command("lcs", -3, Flags::READ_ONLY, ("7.0.0", "Finds the longest common subsequence."), lcs)
    .with_keys(KeyArguments::FIRST_TWO)];

/// The options of `LCS`, which choose the form of the reply.
#[derive(Clone, Copy, Debug, Default)]
struct LcsOptions {
    only_length: bool,
    has_indices: bool,
    has_match_lengths: bool,
    /// The least length of matches. Shorter ones are left out.
    match_min: usize,
}

impl LcsOptions {
    fn parse(call: &Call<'_, '_>) -> Result<Self, Error> {
        let mut parsed = Self::default();
        let mut options = OptionArguments::from(call.arguments, 3);
        while let Some(name) = options.next_name() {
            match name?.as_bytes() {
                b"LEN" => parsed.only_length = true,
                b"IDX" => parsed.has_indices = true,
                b"WITHMATCHLEN" => parsed.has_match_lengths = true,
                b"MINMATCHLEN" => {
                    let length = parse_integer(options.next_value()?)?;
                    parsed.match_min = usize::try_from(length).unwrap_or(0);
                }
                _ => return Err(SYNTAX),
            }
        }
        if parsed.only_length && parsed.has_indices {
            return Err(LENGTH_AND_INDICES);
        }
        Ok(parsed)
    }
}

/// A table of the length of the longest common subsequence for each pair of prefixes of two
/// strings.
struct LcsTable {
    cells: Vec<u32>,
    width: usize,
}

impl LcsTable {
    fn new(left: &[u8], right: &[u8]) -> Self {
        let width = right.len() + 1;
        let mut cells = vec![0; (left.len() + 1) * width];
        for (row, byte) in left.iter().enumerate() {
            let (above, below) = cells.split_at_mut((row + 1) * width);
            let above = &above[row * width..];
            let mut last = 0;
            for (column, other) in right.iter().enumerate() {
                last = if byte == other {
                    above[column] + 1
                } else {
                    u32::max(last, above[column + 1])
                };
                below[column + 1] = last;
            }
        }
        Self { cells, width }
    }

    fn at(&self, left: usize, right: usize) -> u32 {
        self.cells[left * self.width + right]
    }

    /// Returns the ranges of both strings that form the subsequence, from the last one on.
    fn matches(&self, left: &[u8], right: &[u8]) -> Vec<(Range<usize>, Range<usize>)> {
        let mut matches: Vec<(Range<usize>, Range<usize>)> = Vec::new();
        let (mut i, mut j) = (left.len(), right.len());
        while i > 0 && j > 0 {
            if left[i - 1] == right[j - 1] {
                match matches.last_mut() {
                    Some((a, b)) if a.start == i && b.start == j => {
                        a.start -= 1;
                        b.start -= 1;
                    }
                    _ => matches.push((i - 1..i, j - 1..j)),
                }
                i -= 1;
                j -= 1;
            } else if self.at(i - 1, j) > self.at(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        matches
    }
}

/// Returns the bytes of a string, which is empty if the key does not exist.
fn text(call: &mut Call<'_, '_>, index: usize) -> Result<Vec<u8>, Error> {
    let key = call.key(index);
    let (database, context) = call.locks.database(call.database, key);
    let record = database.get(key, context);
    let bytes = record.map(|record| KeyRecord::bytes(record).ok_or(NO_STRINGS)).transpose()?;
    let bytes = bytes.unwrap_or_default();
    call.work_limit.check_bytes(bytes.len())?;
    Ok(bytes.to_vec())
}

/// `LCS`. Takes time and memory for each pair of bytes of the strings.
fn lcs(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (left, right) = (text(call, 1)?, text(call, 2)?);
    let options = LcsOptions::parse(call)?;
    let cells = (left.len() + 1).saturating_mul(right.len() + 1);
    if cells > LCS_CELLS_MAX {
        return Err(TOO_LARGE);
    }
    const CELLS_PER_ELEMENT: usize = 32;
    call.work_limit.check(cells / CELLS_PER_ELEMENT)?;
    let table = LcsTable::new(&left, &right);
    let length = table.at(left.len(), right.len()) as usize;
    if options.only_length {
        call.reply.size(length);
        return Ok(());
    }
    let matches = table.matches(&left, &right);
    if options.has_indices {
        write_indices(&mut call.reply, &matches, length, options);
        return Ok(());
    }
    let parts = matches.iter().rev().filter_map(|(range, _)| left.get(range.clone()));
    call.reply.bulk(&parts.collect::<Vec<_>>().concat());
    Ok(())
}

fn write_indices(
    reply: &mut Reply<'_>,
    matches: &[(Range<usize>, Range<usize>)],
    length: usize,
    options: LcsOptions,
) {
    reply.map(2);
    reply.bulk(b"matches");
    let shown = || matches.iter().filter(|(range, _)| range.len() >= options.match_min);
    reply.array(shown().count());
    for (left, right) in shown() {
        reply.array(if options.has_match_lengths { 3 } else { 2 });
        for range in [left, right] {
            reply.array(2);
            reply.size(range.start);
            reply.size(range.end - 1);
        }
        if options.has_match_lengths {
            reply.size(left.len());
        }
    }
    reply.bulk(b"len");
    reply.size(length);
}
