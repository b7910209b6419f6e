//! The content of a message: `Content-Length` or the chunked coding (RFC 9112 §6.2, §7.1), strict,
//! and the same however the bytes are cut. [`client`](super::client) uses it for responses.
//!
//! The output has two parts: content, never more than there is room for, and at the end the trailer
//! section in one piece. The framing of the content needs no room.

use crate::grammar::{hex_digit, is_token_byte, is_value_byte};
use crate::limits::{CHUNK_LINE_MAX_BYTES, TRAILER_MAX_BYTES};
use crate::refusal::Refusal;
use crate::request_head::Framing;

/// Reads the content of one message. It does not buffer: the caller may drop consumed bytes.
#[derive(Clone, Debug)]
pub struct BodyReader {
    /// Content bytes to come: of the whole, or of the current chunk.
    remaining: u64,
    /// Content bytes that a `Content-Length`, or that further chunks, may have.
    allowance: u64,
    /// Bytes of the current chunk line so far; in the trailer section, the bytes that were scanned.
    line_bytes: u16,
    state: State,
}

const _: () = assert!(size_of::<BodyReader>() <= 24, "one per connection");
const _: () = assert!(CHUNK_LINE_MAX_BYTES <= u16::MAX as usize);
const _: () = assert!(TRAILER_MAX_BYTES < u16::MAX as usize);

/// The result of [`BodyReader::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyStep<'a> {
    /// Some content, never empty and never more than there was room for.
    Data(&'a [u8]),
    /// The rest of the input can only be used with more input, or with room for content: a trailer
    /// section stays in the input until it is whole.
    NeedMore,
    /// The content is at its end. With the chunked coding comes the trailer section, checked line
    /// by line, blank line included, for [`trailers::read`](super::trailers::read).
    End(&'a [u8]),
}

impl BodyReader {
    /// Creates a reader of content with this framing and at most `content_max` bytes.
    #[inline]
    #[must_use]
    pub fn new(framing: Framing, content_max: u64) -> BodyReader {
        let (remaining, state) = match framing {
            Framing::None => (0, State::End),
            Framing::Length(bytes) => (bytes, State::Length),
            Framing::Chunked => (0, State::SizeFirst),
            // Frames are taken apart by another machine.
            Framing::Frames => (0, State::End),
        };
        BodyReader { remaining, allowance: content_max, line_bytes: 0, state }
    }

    /// Allows so many bytes of content instead. For a reader that has not read anything.
    pub fn set_content_max(&mut self, bytes: u64) {
        self.allowance = bytes;
    }

    /// Returns whether a `Content-Length` announces no more than is allowed. Chunks announce
    /// nothing; they are refused when their sum is larger.
    #[inline]
    #[must_use]
    pub fn fits(&self) -> bool {
        self.state != State::Length || self.remaining <= self.allowance
    }

    /// Returns whether the content is at its end.
    #[inline]
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        matches!(self.state, State::End) || (self.state == State::Length && self.remaining == 0)
    }

    /// Returns whether the next byte is content, which needs room.
    #[inline]
    #[must_use]
    pub fn is_in_content(&self) -> bool {
        matches!(self.state, State::Length | State::Data) && self.remaining > 0
    }

    /// Returns how many content bytes are known to be still to come: exact for a `Content-Length`,
    /// those of the current chunk otherwise.
    #[inline]
    #[must_use]
    pub fn known_remaining(&self) -> u64 {
        self.remaining
    }

    /// Returns how many content bytes further chunks may have, those of extensions included.
    #[inline]
    pub(super) fn allowance(&self) -> u64 {
        self.allowance
    }

    /// Consumes bytes at the front of `input`, of content at most `room`. Returns the number of
    /// consumed bytes, and their meaning. The rest stays at the front of the next input.
    ///
    /// After [`BodyStep::End`] it consumes nothing more.
    ///
    /// # Errors
    /// Returns the error of the bytes; the connection must close.
    #[inline]
    pub fn step<'a>(
        &mut self,
        input: &'a [u8],
        room: u64,
    ) -> Result<(usize, BodyStep<'a>), Refusal> {
        match self.state {
            State::End => Ok((0, BodyStep::End(&[]))),
            State::Length if self.remaining == 0 => {
                self.state = State::End;
                Ok((0, BodyStep::End(&[])))
            }
            State::Length => Ok(self.data(input, room)),
            _ => self.chunked(input, room),
        }
    }

    /// Returns as much of `remaining` as the input has, and as there is room for.
    #[inline]
    fn data<'a>(&mut self, input: &'a [u8], room: u64) -> (usize, BodyStep<'a>) {
        let most = self.remaining.min(room);
        let bytes = usize::try_from(most).map_or(input.len(), |most| most.min(input.len()));
        let data = input.get(..bytes).unwrap_or_default();
        if data.is_empty() {
            return (0, BodyStep::NeedMore);
        }
        self.remaining -= data.len() as u64;
        (data.len(), BodyStep::Data(data))
    }

    fn chunked<'a>(
        &mut self,
        input: &'a [u8],
        room: u64,
    ) -> Result<(usize, BodyStep<'a>), Refusal> {
        let mut consumed = 0;
        while let Some(rest @ [byte, ..]) = input.get(consumed..) {
            if self.state >= State::TrailerLine {
                let (bytes, step) = self.trailers(rest)?;
                return Ok((consumed + bytes, step));
            }
            if self.state == State::Data {
                let (bytes, step) = self.data(rest, room);
                if self.remaining == 0 {
                    self.state = State::DataCr;
                }
                return Ok((consumed + bytes, step));
            }
            consumed += 1;
            self.line_byte(*byte)?;
        }
        Ok((consumed, BodyStep::NeedMore))
    }

    /// Reads the trailer section at the front of `input`, in one piece. Each byte is checked once,
    /// and an invalid one is refused as soon as it arrives.
    fn trailers<'a>(&mut self, input: &'a [u8]) -> Result<(usize, BodyStep<'a>), Refusal> {
        let scanned = usize::from(self.line_bytes);
        for (at, byte) in input.iter().enumerate().skip(scanned) {
            if at == TRAILER_MAX_BYTES {
                return Err(Refusal::HeadTooLarge);
            }
            self.line_bytes += 1;
            self.state = self.state.after_trailer_byte(*byte).ok_or(Refusal::Trailer)?;
            if self.state == State::End {
                let bytes = at + 1;
                return Ok((bytes, BodyStep::End(input.get(..bytes).unwrap_or_default())));
            }
        }
        Ok((0, BodyStep::NeedMore))
    }

    /// Reads one byte of a chunk line, or of the end of a chunk.
    fn line_byte(&mut self, byte: u8) -> Result<(), Refusal> {
        self.line_bytes += 1;
        if usize::from(self.line_bytes) > CHUNK_LINE_MAX_BYTES {
            return Err(Refusal::Chunk);
        }
        self.state = match (self.state, byte) {
            (State::SizeFirst | State::Size, _) if hex_digit(byte).is_some() => {
                self.size_digit(byte)?
            }
            (State::SizeLf, b'\n') => self.end_of_size_line()?,
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => {
                self.line_bytes = 0;
                State::SizeFirst
            }
            (state, _) => state.after_extension_byte(byte).ok_or(Refusal::Chunk)?,
        };
        Ok(())
    }

    /// Reads a digit of `chunk-size = 1*HEXDIG`; leading zeros are bounded by the length of the
    /// line.
    fn size_digit(&mut self, byte: u8) -> Result<State, Refusal> {
        let digit = hex_digit(byte).ok_or(Refusal::Chunk)?;
        if self.remaining > u64::MAX >> 4 {
            return Err(Refusal::Chunk);
        }
        self.remaining = self.remaining << 4 | u64::from(digit);
        Ok(State::Size)
    }

    /// Ends the size of a chunk. Bytes of extensions are charged like content, so that a body
    /// cannot consist of them (RFC 9112 §7.1.1 asks for a limit on their total).
    fn end_of_size_line(&mut self) -> Result<State, Refusal> {
        let charge = self.remaining.saturating_add(u64::from(self.line_bytes).saturating_sub(18));
        self.line_bytes = 0;
        self.allowance = self.allowance.checked_sub(charge).ok_or(Refusal::ContentTooLarge)?;
        Ok(if self.remaining == 0 { State::TrailerLine } else { State::Data })
    }
}

/// The position of the reader in the framing. The trailer states come last; see `chunked`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// In content of a known length.
    Length,
    /// At the end.
    End,
    /// Before the first digit of a chunk size.
    SizeFirst,
    /// After a digit of a chunk size.
    Size,
    /// In white space that must lead to a semicolon.
    BeforeSemicolon,
    /// After a semicolon.
    ExtensionStart,
    /// In the name of an extension.
    ExtensionName,
    /// In white space after the name.
    AfterName,
    /// After the equals sign.
    ValueStart,
    /// In a value that is a token.
    ValueToken,
    /// In a value that is a quoted string.
    Quoted,
    /// After a backslash in a quoted string.
    QuotedPair,
    /// After the closing quote.
    AfterQuoted,
    /// After the CR of a chunk line.
    SizeLf,
    /// In the data of a chunk.
    Data,
    /// Before the CR that ends the data.
    DataCr,
    /// Before the LF that ends the data.
    DataLf,
    /// At the start of a line of the trailer section.
    TrailerLine,
    /// In the name of a trailer field.
    TrailerName,
    /// In the value of a trailer field.
    TrailerValue,
    /// After the CR of a trailer field line.
    TrailerLf,
    /// After the CR of the blank line.
    EndLf,
}

impl State {
    /// Returns the state after a byte of the chunk line after its size:
    /// `chunk-ext = *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )`.
    fn after_extension_byte(self, byte: u8) -> Option<State> {
        use State as S;
        let space = byte == b' ' || byte == b'\t';
        Some(match (self, byte) {
            (S::Size | S::ExtensionName | S::ValueToken | S::AfterQuoted, b'\r') => S::SizeLf,
            (S::Size | S::BeforeSemicolon | S::ExtensionName, b';')
            | (S::AfterName | S::ValueToken | S::AfterQuoted, b';') => S::ExtensionStart,
            (S::Size | S::BeforeSemicolon | S::ValueToken | S::AfterQuoted, _) if space => {
                S::BeforeSemicolon
            }
            (S::ExtensionStart, _) if space => S::ExtensionStart,
            (S::ExtensionStart | S::ExtensionName, _) if is_token_byte(byte) => S::ExtensionName,
            (S::ExtensionName | S::AfterName, b'=') => S::ValueStart,
            (S::ExtensionName | S::AfterName, _) if space => S::AfterName,
            (S::ValueStart, _) if space => S::ValueStart,
            (S::ValueStart, b'"') => S::Quoted,
            (S::ValueStart | S::ValueToken, _) if is_token_byte(byte) => S::ValueToken,
            (S::Quoted, b'"') => S::AfterQuoted,
            (S::Quoted, b'\\') => S::QuotedPair,
            (S::Quoted | S::QuotedPair, _) if is_value_byte(byte) => S::Quoted,
            _ => return None,
        })
    }

    /// Returns the state after a byte of `trailer-section = *( field-line CRLF )` and the blank
    /// line.
    fn after_trailer_byte(self, byte: u8) -> Option<State> {
        use State as S;
        Some(match (self, byte) {
            (S::TrailerLine, b'\r') => S::EndLf,
            (S::TrailerLine | S::TrailerName, _) if is_token_byte(byte) => S::TrailerName,
            (S::TrailerName, b':') => S::TrailerValue,
            (S::TrailerValue, b'\r') => S::TrailerLf,
            (S::TrailerValue, _) if is_value_byte(byte) => S::TrailerValue,
            (S::TrailerLf, b'\n') => S::TrailerLine,
            (S::EndLf, b'\n') => S::End,
            _ => return None,
        })
    }
}
