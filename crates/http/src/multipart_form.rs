//! `multipart/form-data` (RFC 7578, RFC 2046 §5.1): forms with files, read as they come.
//!
//! Bytes go in, in any pieces, and events are returned. No content is kept: a line break that may
//! begin a delimiter at the end of a piece is counted, not stored, because the delimiter determines
//! its bytes. Each byte is read once, so the work is linear.
//!
//! Everything that two readers could take for different forms is refused: a delimiter with other
//! text after it, a parameter that occurs twice, a line without its CR. The actual output of
//! browsers and programs is accepted: names with `%22` or `\"`, a part without content and without
//! the line break that should come before its delimiter.

mod form_error;
mod parameters;
mod part_head;

use memchr::memmem::Finder;
use memchr::{memmem, memrchr};

use crate::limits::{PART_HEAD_MAX_BYTES, PARTS_MAX};

pub use form_error::FormFault;
pub use parameters::boundary;
pub use part_head::PartHead;

/// An event of a reader.
#[derive(Debug, PartialEq, Eq)]
pub enum FormEvent<'a> {
    /// A part begins.
    Part(PartHead),
    /// Some content of the part, never empty.
    Data(&'a [u8]),
    /// The content of the part is complete.
    PartEnd,
    /// The form is complete. All further bytes are ignored (RFC 2046 §5.1.1, the epilogue).
    End,
}

/// Reads one form.
#[derive(Debug)]
pub struct FormReader {
    /// Finds CRLF, two hyphens and the boundary.
    delimiter: Finder<'static>,
    state: State,
    /// The head of the part that begins, as far as it has arrived, after the CRLF of its delimiter.
    head: Vec<u8>,
    /// Parts that have begun.
    parts: usize,
}

/// The position of a reader in the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first delimiter, or in the content of a part.
    Content {
        is_preamble: bool,
        /// Bytes of the delimiter that the content so far ends with.
        matched: usize,
        /// The bytes among them that come before the content, so that they are no part of it.
        before: usize,
    },
    /// Behind a delimiter.
    Delimiter,
    /// Behind a delimiter and one hyphen.
    Hyphen,
    /// In the padding after a delimiter (RFC 2046 §5.1.1), or after the last one.
    Padding {
        is_last: bool,
    },
    /// Behind the CR that ends the line of a delimiter.
    LineEnd {
        is_last: bool,
    },
    Head,
    /// Behind the last delimiter: all further bytes are ignored.
    Epilogue,
    /// An earlier step has failed with this error.
    Failed(FormFault),
}

/// The length of CRLF, which separates a delimiter from the content, and which the first delimiter
/// need not have.
const LINE_BREAK_BYTES: usize = 2;

impl FormReader {
    /// Creates a reader of a form with this [`boundary`].
    #[must_use]
    pub fn new(boundary: &[u8]) -> Self {
        let delimiter = [b"\r\n--", boundary].concat();
        Self {
            delimiter: Finder::new(&delimiter).into_owned(),
            state: State::Content {
                is_preamble: true,
                matched: LINE_BREAK_BYTES,
                before: LINE_BREAK_BYTES,
            },
            head: Vec::new(),
            parts: 0,
        }
    }

    /// Reads the next piece, and passes on its events.
    ///
    /// # Errors
    /// Returns the error of the form, in this call and in each one after it.
    pub fn push(
        &mut self,
        piece: &[u8],
        found: &mut impl FnMut(FormEvent<'_>),
    ) -> Result<(), FormFault> {
        let mut rest = piece;
        while !rest.is_empty() {
            match self.step(rest, found) {
                Ok((behind, state)) => (rest, self.state) = (behind, state),
                Err(fault) => {
                    self.state = State::Failed(fault);
                    return Err(fault);
                }
            }
        }
        Ok(())
    }

    /// Checks that the form is complete when there are no more bytes.
    ///
    /// # Errors
    /// The form is not complete, or was wrong already.
    pub fn finish(&self) -> Result<(), FormFault> {
        match self.state {
            State::Epilogue
            | State::Padding { is_last: true }
            | State::LineEnd { is_last: true } => Ok(()),
            State::Failed(fault) => Err(fault),
            _ => Err(FormFault::Incomplete),
        }
    }

    /// Reads some of the bytes; returns the rest, and the state of the reader after them.
    fn step<'a>(
        &mut self,
        input: &'a [u8],
        found: &mut impl FnMut(FormEvent<'_>),
    ) -> Result<(&'a [u8], State), FormFault> {
        let [first, rest @ ..] = input else { return Ok((input, self.state)) };
        let state = match (self.state, first) {
            (State::Content { is_preamble, matched, before }, _) => {
                let emit = &mut |bytes: &[u8]| {
                    if !is_preamble && !bytes.is_empty() {
                        found(FormEvent::Data(bytes));
                    }
                };
                let (rest, matched, before) =
                    content(&self.delimiter, input, (matched, before), emit);
                if matched < self.delimiter.needle().len() {
                    return Ok((rest, State::Content { is_preamble, matched, before }));
                }
                if !is_preamble {
                    found(FormEvent::PartEnd);
                }
                return Ok((rest, State::Delimiter));
            }
            (State::Head, _) => return self.head(input, found),
            (State::Delimiter, b'-') => State::Hyphen,
            (State::Hyphen, b'-') => {
                found(FormEvent::End);
                State::Padding { is_last: true }
            }
            (State::Delimiter, b' ' | b'\t') => State::Padding { is_last: false },
            (State::Delimiter, b'\r') => State::LineEnd { is_last: false },
            (State::Padding { is_last }, b' ' | b'\t') => State::Padding { is_last },
            (State::Padding { is_last }, b'\r') => State::LineEnd { is_last },
            (State::LineEnd { is_last: true }, b'\n') => State::Epilogue,
            (State::LineEnd { is_last: false }, b'\n') => self.begin_part()?,
            (State::Epilogue, _) => return Ok((&[], State::Epilogue)),
            (State::Failed(fault), _) => return Err(fault),
            _ => return Err(FormFault::Delimiter),
        };
        Ok((rest, state))
    }

    fn begin_part(&mut self) -> Result<State, FormFault> {
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return Err(FormFault::TooManyParts);
        }
        self.head.clear();
        self.head.extend_from_slice(b"\r\n");
        Ok(State::Head)
    }

    /// Reads the bytes that belong to the head of a part.
    fn head<'a>(
        &mut self,
        input: &'a [u8],
        found: &mut impl FnMut(FormEvent<'_>),
    ) -> Result<(&'a [u8], State), FormFault> {
        const END: &[u8] = b"\r\n\r\n";
        let had = self.head.len();
        let room = (PART_HEAD_MAX_BYTES + LINE_BREAK_BYTES).saturating_sub(had);
        let (taken, _) = input.split_at(room.min(input.len()));
        self.head.extend_from_slice(taken);
        let from = had.saturating_sub(END.len() - 1);
        let Some(at) = memmem::find(&self.head[from..], END) else {
            if taken.len() == room {
                return Err(FormFault::PartHeadTooLarge);
            }
            return Ok((&input[taken.len()..], State::Head));
        };
        let end = from + at + END.len();
        let lines = self.head.get(LINE_BREAK_BYTES..end - LINE_BREAK_BYTES).unwrap_or_default();
        found(FormEvent::Part(part_head::read(lines)?));
        // The empty line may be the only one between the head and the next delimiter.
        let (matched, before) = (LINE_BREAK_BYTES, LINE_BREAK_BYTES);
        let state = State::Content { is_preamble: false, matched, before };
        Ok((&input[end - had..], state))
    }
}

/// Searches for the delimiter, of which `matched` bytes came before the input, the first `before`
/// of them before the content. Returns the rest behind it, or none when all bytes are read, with
/// the number of bytes that are matched now.
///
/// A CR is only at the front of a delimiter. So a match that fails can begin again with a CR that
/// has not been read, and with nothing before it.
fn content<'a>(
    delimiter: &Finder<'_>,
    input: &'a [u8],
    (matched, before): (usize, usize),
    emit: &mut impl FnMut(&[u8]),
) -> (&'a [u8], usize, usize) {
    let needle = delimiter.needle();
    let mut input = input;
    if matched > 0 {
        let left = needle.get(matched..).unwrap_or_default();
        let same = left.iter().zip(input).take_while(|(one, other)| one == other).count();
        if same == left.len() || same == input.len() {
            return (&input[same..], matched + same, before);
        }
        emit(&needle[before..matched + same]);
        input = &input[same..];
    }
    if let Some(at) = delimiter.find(input) {
        emit(&input[..at]);
        return (&input[at + needle.len()..], needle.len(), 0);
    }
    let tail = input.len().saturating_sub(needle.len() - 1);
    let begun = memrchr(b'\r', &input[tail..]).map(|at| tail + at);
    match begun.filter(|&at| needle.starts_with(&input[at..])) {
        Some(at) => {
            emit(&input[..at]);
            (&[], input.len() - at, 0)
        }
        None => {
            emit(input);
            (&[], 0, 0)
        }
    }
}

#[cfg(test)]
mod tests;
