//! Reads the frames of a Python process from pieces of any size.

use super::child_frame::{ChildFrame, FrameStep, RequestNumbers};
use super::error::ChildFrameError;
use super::frame_header::{
    ChildFrameKind, FRAME_HEADER_BYTES, MESSAGE_CONTINUES, MESSAGE_IS_BINARY, PythonFrameHeader,
};
use super::limits::{
    CLOSE_MAX_BYTES, FAILURE_TEXT_MAX_BYTES, FRAME_CONTENT_MAX_BYTES, KEPT_BUFFER_MAX_BYTES,
    READY_MAX_BYTES, SKIPPED_HEAD_MAX_BYTES, TAKEN_BACK_MAX,
};
use super::response_head::{read_accept, read_head, read_hints};
use crate::cgi::error::CgiError;
use crate::h1::client::limits::{RESPONSE_HEAD_MAX_BYTES, ResponseLimits};
use crate::h1::head_parser::HeadStorage;

/// Bytes of a number in a frame.
const NUMBER_BYTES: u32 = size_of::<u32>() as u32;

/// Reads the frames of one connection. Content is never copied or collected. A head in one piece is
/// read from the input; only a head in several pieces is copied.
///
/// The same bytes give the same frames, content and errors however they are cut.
#[derive(Clone, Debug)]
pub struct ChildFrameReader {
    head_max_bytes: usize,
    fields_max: usize,
    /// The pieces of something that is not whole yet, or was whole in the step before.
    buffer: Vec<u8>,
    /// Whether the buffer was used by the step before.
    is_buffer_spent: bool,
    is_ready: bool,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The header of a frame.
    Header,
    /// The length of the head of a response.
    HeadLength(PythonFrameHeader),
    /// A part of so many bytes that is read whole, and the length of the content after it in the
    /// frame.
    Whole { header: PythonFrameHeader, bytes: usize, content_bytes: u32 },
    /// Content; so many bytes are missing, never 0.
    Content { request: u32, missing: u32, is_last: bool },
    /// The flags of a piece of a message.
    MessageFlags(PythonFrameHeader),
    /// A piece of a message; so many bytes are missing.
    Message { request: u32, flags: u8, missing: u32, is_begun: bool },
    /// The rest of a frame that is skipped; so many bytes are missing.
    Skipped(u32),
    /// An earlier step has failed with this error, which is final.
    Failed(ChildFrameError),
}

/// The meaning of the bytes that were read last.
enum FrameFound {
    /// A part of something.
    Nothing,
    /// Bytes that are whole, in the input or in the buffer.
    Whole { header: PythonFrameHeader, content_bytes: u32 },
    /// A head that is over the limit.
    HeadTooLarge(PythonFrameHeader),
    /// A piece of content.
    Content { request: u32, is_end: bool },
    /// A piece of a message.
    Message { request: u32, flags: u8, is_first: bool, is_last: bool },
}

impl ChildFrameReader {
    /// Makes the reader of a connection. It uses only the limits of heads.
    #[must_use]
    pub fn new(limits: &ResponseLimits) -> ChildFrameReader {
        ChildFrameReader {
            head_max_bytes: limits.head_bytes.min(RESPONSE_HEAD_MAX_BYTES),
            fields_max: limits.fields,
            buffer: Vec::new(),
            is_buffer_spent: false,
            is_ready: false,
            state: State::Header,
        }
    }

    /// Returns whether the process has sent `READY`.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Checks that the connection may end here.
    ///
    /// # Errors
    /// Returns [`ChildFrameError::Incomplete`] within a frame, and the error of a step before.
    pub const fn end(&self) -> Result<(), ChildFrameError> {
        match self.state {
            State::Failed(error) => Err(error),
            State::Header if self.buffer.is_empty() || self.is_buffer_spent => Ok(()),
            _ => Err(ChildFrameError::Incomplete),
        }
    }

    /// Uses bytes at the front of `input`, up to the end of a frame or of a piece of content.
    /// Unused bytes must be at the front of the next input. If there is no frame, all of the input
    /// was used.
    ///
    /// `storage` may be shared with all other readers: it holds nothing between two calls.
    ///
    /// # Errors
    /// Returns the error of the frames, in this call and in each one after it. The connection must
    /// close.
    pub fn step<'a>(
        &'a mut self,
        input: &'a [u8],
        storage: &'a mut HeadStorage,
    ) -> Result<FrameStep<'a>, ChildFrameError> {
        self.release_buffer();
        let (start, used, found) =
            self.advance(input).inspect_err(|&error| self.state = State::Failed(error))?;
        let piece = input.get(start..used).unwrap_or_default();
        let frame = match found {
            FrameFound::Nothing => None,
            FrameFound::Content { request, is_end } => {
                Some(ChildFrame::Content { request, bytes: piece, is_end })
            }
            FrameFound::Message { request, flags, is_first, is_last } => {
                Some(ChildFrame::Message {
                    request,
                    is_binary: flags & MESSAGE_IS_BINARY != 0,
                    bytes: piece,
                    room_bytes: piece.len() as u32 + u32::from(is_first),
                    is_end: is_last && flags & MESSAGE_CONTINUES == 0,
                })
            }
            FrameFound::HeadTooLarge(header) => {
                let max_bytes = self.head_max_bytes;
                Some(malformed(header, CgiError::HeadTooLarge { max_bytes }))
            }
            FrameFound::Whole { header, content_bytes } => {
                let rest = input.get(used..).unwrap_or_default();
                return self.whole(header, content_bytes, piece, used, rest, storage);
            }
        };
        Ok(FrameStep { used, frame })
    }

    /// Empties the buffer if the step before has used it.
    fn release_buffer(&mut self) {
        if self.is_buffer_spent {
            self.is_buffer_spent = false;
            self.buffer.clear();
            self.buffer.shrink_to(KEPT_BUFFER_MAX_BYTES);
        }
    }

    /// Looks at bytes up to the next thing that is found. Returns where its last piece begins and
    /// ends.
    fn advance(&mut self, input: &[u8]) -> Result<(usize, usize, FrameFound), ChildFrameError> {
        let mut used = 0;
        loop {
            let rest = input.get(used..).unwrap_or_default();
            if rest.is_empty() && !self.is_whole() {
                return Ok((used, used, FrameFound::Nothing));
            }
            let start = used;
            let (bytes, found) = self.part(rest)?;
            used += bytes;
            if !matches!(found, FrameFound::Nothing) {
                return Ok((start, used, found));
            }
        }
    }

    /// Returns whether something is found without another byte.
    const fn is_whole(&self) -> bool {
        matches!(
            self.state,
            State::Whole { bytes: 0, .. } | State::Message { missing: 0, .. } | State::Failed(_)
        )
    }

    /// Uses bytes at the front of `input`, and returns how many.
    fn part(&mut self, input: &[u8]) -> Result<(usize, FrameFound), ChildFrameError> {
        match self.state {
            State::Header => {
                let (used, header) = self.array::<FRAME_HEADER_BYTES>(input);
                if let Some(header) = header {
                    let found = self.begin(PythonFrameHeader::parse(&header)?)?;
                    return Ok((used, found));
                }
                Ok((used, FrameFound::Nothing))
            }
            State::HeadLength(header) => {
                let (used, length) = self.array(input);
                if let Some(length) = length {
                    let found = self.begin_response(header, u32::from_le_bytes(length))?;
                    return Ok((used, found));
                }
                Ok((used, FrameFound::Nothing))
            }
            State::Whole { header, bytes, content_bytes } => {
                let used = input.len().min(bytes - self.buffer.len());
                if self.buffer.len() + used == bytes {
                    if !self.buffer.is_empty() {
                        self.collect(input, used);
                        self.is_buffer_spent = true;
                    }
                    self.state = State::Header;
                    return Ok((used, FrameFound::Whole { header, content_bytes }));
                }
                self.collect(input, used);
                Ok((used, FrameFound::Nothing))
            }
            State::Content { request, missing, is_last } => {
                let used = fitting(input, missing);
                self.state = State::content(request, missing - used as u32, is_last);
                let is_end = is_last && missing == used as u32;
                Ok((used, FrameFound::Content { request, is_end }))
            }
            State::MessageFlags(PythonFrameHeader { request, bytes, .. }) => {
                let (used, flags) = self.array(input);
                if let Some([flags]) = flags {
                    if flags & !(MESSAGE_IS_BINARY | MESSAGE_CONTINUES) != 0 {
                        return Err(ChildFrameError::MessageFlags { flags });
                    }
                    let missing = bytes - 1;
                    self.state = State::Message { request, flags, missing, is_begun: false };
                }
                Ok((used, FrameFound::Nothing))
            }
            State::Message { request, flags, missing, is_begun } => {
                let used = fitting(input, missing);
                let missing = missing - used as u32;
                self.state = match missing {
                    0 => State::Header,
                    _ => State::Message { request, flags, missing, is_begun: true },
                };
                let (is_first, is_last) = (!is_begun, missing == 0);
                Ok((used, FrameFound::Message { request, flags, is_first, is_last }))
            }
            State::Skipped(missing) => {
                let used = fitting(input, missing);
                self.state = State::skipped(missing - used as u32);
                Ok((used, FrameFound::Nothing))
            }
            State::Failed(error) => Err(error),
        }
    }

    /// Takes a number of bytes that were not cut, or collects them.
    fn array<const N: usize>(&mut self, input: &[u8]) -> (usize, Option<[u8; N]>) {
        if self.buffer.is_empty()
            && let Some((array, _)) = input.split_first_chunk()
        {
            return (N, Some(*array));
        }
        let used = input.len().min(N - self.buffer.len());
        self.collect(input, used);
        let array = self.buffer.first_chunk().copied();
        if array.is_some() {
            self.buffer.clear();
        }
        (used, array)
    }

    fn collect(&mut self, input: &[u8], bytes: usize) {
        self.buffer.extend_from_slice(input.get(..bytes).unwrap_or_default());
    }

    /// Begins a frame: checks that it may come, and its length.
    fn begin(&mut self, header: PythonFrameHeader) -> Result<FrameFound, ChildFrameError> {
        let PythonFrameHeader { kind, request, bytes } = header;
        match (kind, self.is_ready) {
            (ChildFrameKind::Ready, true) => return Err(ChildFrameError::ReadyAgain),
            (ChildFrameKind::Ready, false) | (_, true) => {}
            (_, false) => return Err(ChildFrameError::NotReady { kind }),
        }
        let has_length = match kind {
            ChildFrameKind::Ready => bytes <= READY_MAX_BYTES,
            ChildFrameKind::Response => {
                let most = SKIPPED_HEAD_MAX_BYTES + FRAME_CONTENT_MAX_BYTES;
                (NUMBER_BYTES..=NUMBER_BYTES + most).contains(&bytes)
            }
            ChildFrameKind::Head | ChildFrameKind::Hints | ChildFrameKind::Accept => {
                bytes <= SKIPPED_HEAD_MAX_BYTES
            }
            ChildFrameKind::Message => (1..=FRAME_CONTENT_MAX_BYTES).contains(&bytes),
            ChildFrameKind::Close => (2..=CLOSE_MAX_BYTES).contains(&bytes),
            ChildFrameKind::Content => bytes <= FRAME_CONTENT_MAX_BYTES,
            ChildFrameKind::End | ChildFrameKind::WantChannel => bytes == 0,
            ChildFrameKind::File => bytes == 2 * size_of::<u64>() as u32,
            ChildFrameKind::Abort | ChildFrameKind::Failed => bytes <= FAILURE_TEXT_MAX_BYTES,
            ChildFrameKind::Want => bytes == NUMBER_BYTES,
            ChildFrameKind::GivenBack => {
                bytes <= NUMBER_BYTES * TAKEN_BACK_MAX && bytes.is_multiple_of(NUMBER_BYTES)
            }
        };
        if !has_length {
            return Err(ChildFrameError::Length { kind, bytes });
        }
        match kind {
            ChildFrameKind::Content => {
                self.state = State::content(request, bytes, false);
                Ok(FrameFound::Nothing)
            }
            ChildFrameKind::Response => {
                self.state = State::HeadLength(header);
                Ok(FrameFound::Nothing)
            }
            ChildFrameKind::Message => {
                self.state = State::MessageFlags(header);
                Ok(FrameFound::Nothing)
            }
            ChildFrameKind::Head | ChildFrameKind::Hints | ChildFrameKind::Accept => {
                Ok(self.begin_head(header, bytes, 0))
            }
            _ => {
                self.state = State::Whole { header, bytes: bytes as usize, content_bytes: 0 };
                Ok(FrameFound::Nothing)
            }
        }
    }

    /// Begins the head of a whole response, whose length has come.
    fn begin_response(
        &mut self,
        header: PythonFrameHeader,
        head_bytes: u32,
    ) -> Result<FrameFound, ChildFrameError> {
        let PythonFrameHeader { kind, bytes, .. } = header;
        let content_bytes = (bytes - NUMBER_BYTES)
            .checked_sub(head_bytes)
            .ok_or(ChildFrameError::HeadLength { head_bytes, frame_bytes: bytes })?;
        if content_bytes > FRAME_CONTENT_MAX_BYTES || head_bytes > SKIPPED_HEAD_MAX_BYTES {
            return Err(ChildFrameError::Length { kind, bytes });
        }
        Ok(self.begin_head(header, head_bytes, content_bytes))
    }

    /// Begins a head, or skips it and the rest of its frame if it is over the limit.
    fn begin_head(
        &mut self,
        header: PythonFrameHeader,
        bytes: u32,
        content_bytes: u32,
    ) -> FrameFound {
        if bytes as usize > self.head_max_bytes {
            self.state = State::skipped(bytes + content_bytes);
            return FrameFound::HeadTooLarge(header);
        }
        self.state = State::Whole { header, bytes: bytes as usize, content_bytes };
        FrameFound::Nothing
    }

    /// Makes the step of bytes that are whole. Their last piece is `piece`, which ends at `used`;
    /// `rest` follows it.
    fn whole<'a>(
        &'a mut self,
        header: PythonFrameHeader,
        content_bytes: u32,
        piece: &'a [u8],
        used: usize,
        rest: &'a [u8],
        storage: &'a mut HeadStorage,
    ) -> Result<FrameStep<'a>, ChildFrameError> {
        let Self { buffer, state, is_ready, fields_max, is_buffer_spent, .. } = self;
        let text: &'a [u8] = if *is_buffer_spent { buffer } else { piece };
        let PythonFrameHeader { kind, request, .. } = header;
        let malformed = |error| malformed(header, error);
        let frame = match kind {
            ChildFrameKind::Ready => {
                *is_ready = true;
                let Ok(text) = core::str::from_utf8(text) else {
                    *state = State::Failed(ChildFrameError::ReadyText);
                    return Err(ChildFrameError::ReadyText);
                };
                ChildFrame::Ready(text)
            }
            ChildFrameKind::Response => match read_head(text, storage, *fields_max) {
                Ok(head) => {
                    let bytes = fitting(rest, content_bytes);
                    let missing_bytes = content_bytes - bytes as u32;
                    *state = State::content(request, missing_bytes, true);
                    let content = rest.get(..bytes).unwrap_or_default();
                    let frame = ChildFrame::Response { request, head, content, missing_bytes };
                    return Ok(FrameStep { used: used + bytes, frame: Some(frame) });
                }
                Err(error) => {
                    *state = State::skipped(content_bytes);
                    malformed(error)
                }
            },
            ChildFrameKind::Head => read_head(text, storage, *fields_max)
                .map_or_else(malformed, |head| ChildFrame::Head { request, head }),
            ChildFrameKind::Hints => read_hints(text, storage, *fields_max)
                .map_or_else(malformed, |hints| ChildFrame::Hints { request, hints }),
            ChildFrameKind::Accept => read_accept(text, storage, *fields_max)
                .map_or_else(malformed, |fields| ChildFrame::Accept { request, fields }),
            ChildFrameKind::Close => {
                let (code, reason) = text.split_first_chunk().unwrap_or((&[0; 2], &[]));
                ChildFrame::Close { request, code: u16::from_le_bytes(*code), reason }
            }
            ChildFrameKind::File => {
                let number = |bytes: &[u8]| bytes.first_chunk().copied().map(u64::from_le_bytes);
                let (offset, bytes) = text.split_at_checked(size_of::<u64>()).unwrap_or_default();
                let number = |bytes| number(bytes).unwrap_or_default();
                ChildFrame::File { request, offset: number(offset), bytes: number(bytes) }
            }
            ChildFrameKind::WantChannel => ChildFrame::WantChannel,
            ChildFrameKind::End => ChildFrame::End { request },
            ChildFrameKind::Abort => ChildFrame::Abort { request, text },
            ChildFrameKind::Failed => ChildFrame::Failed { request, text },
            ChildFrameKind::Want => {
                let bytes = text.first_chunk().copied().map_or(0, u32::from_le_bytes);
                ChildFrame::Want { request, bytes }
            }
            ChildFrameKind::GivenBack => ChildFrame::GivenBack(RequestNumbers::new(text)),
            ChildFrameKind::Content | ChildFrameKind::Message => {
                unreachable!("content and messages are given in pieces")
            }
        };
        Ok(FrameStep { used, frame: Some(frame) })
    }
}

impl State {
    /// Goes on with content, or with the next frame if no byte of it is missing.
    const fn content(request: u32, missing: u32, is_last: bool) -> State {
        if missing == 0 { State::Header } else { State::Content { request, missing, is_last } }
    }

    /// Skips the missing bytes, or goes on with the next frame if there are none.
    const fn skipped(missing: u32) -> State {
        if missing == 0 { State::Header } else { State::Skipped(missing) }
    }
}

fn malformed(header: PythonFrameHeader, error: CgiError) -> ChildFrame<'static> {
    let is_end = header.kind == ChildFrameKind::Response;
    ChildFrame::MalformedHead { request: header.request, error, is_end }
}

/// Returns how many bytes of the input belong to the so many that are missing.
fn fitting(input: &[u8], missing: u32) -> usize {
    input.len().min(missing as usize)
}
