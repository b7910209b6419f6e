//! The output of a program as a response: the part that CGI, FastCGI and SCGI share (RFC 3875 §6).

use super::error::CgiError;
use super::head_end::HeadEnd;
use super::limits::SKIPPED_OUTPUT_MAX_BYTES;
use super::response_event::GatewayEvent;
use super::response_head::{CgiHead, DocumentHead, check_partial, malformed_line, read_head};
use crate::h1::client::limits::{RESPONSE_HEAD_MAX_BYTES, ResponseLimits};
use crate::h1::client::request_writer::SentRequest;
use crate::h1::client::response_framing::ResponseFraming;
use crate::h1::client::response_head::ResponseHead;
use crate::h1::client::response_parser::ResponseEvent;
use crate::h1::head_parser::HeadStorage;
use crate::method::Method;
use crate::status::never_has_content;
use crate::version::Version;

/// Reads the output of one program, in any pieces.
///
/// A head that arrives in one piece is read from the input. A head in several pieces is collected,
/// so the memory is at most that of a head, and is freed after it.
#[derive(Clone, Debug)]
pub(crate) struct CgiOutput {
    request: SentRequest,
    limits: ResponseLimits,
    /// The pieces of a head that is not whole yet.
    head: Vec<u8>,
    /// Content bytes that were given.
    content_bytes: u64,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Head(HeadEnd),
    /// A whole head, in [`CgiOutput::head`] or in the last piece.
    WholeHead,
    /// Content; so many bytes are missing, if that is known.
    Content(Option<u64>),
    /// Output that is no content; so many bytes were thrown away.
    Skipped(u64),
}

/// The meaning of a part of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputPart {
    /// A part of a head, or bytes that were thrown away. If no byte was used, content needs room.
    Nothing,
    /// The end of a head, for [`CgiOutput::head_event`].
    Head,
    /// The bytes are content.
    Content,
    /// The response is complete, and its program writes without end: the connection is not worth
    /// keeping.
    TooMuch,
}

impl CgiOutput {
    pub(crate) const fn new(request: SentRequest, limits: &ResponseLimits) -> CgiOutput {
        let state = State::Head(HeadEnd::new());
        CgiOutput { request, limits: *limits, head: Vec::new(), content_bytes: 0, state }
    }

    /// Returns whether the program's connection closes after the response.
    pub(crate) const fn is_last(&self) -> bool {
        self.request.close
    }

    /// Uses bytes at the front of `output`, which must not be empty. Returns their number and their
    /// meaning.
    pub(crate) fn take(
        &mut self,
        output: &[u8],
        room: u64,
    ) -> Result<(usize, OutputPart), CgiError> {
        match self.state {
            State::Head(end) => self.take_head(output, end),
            State::Content(missing) => self.take_content(output, room, missing),
            State::Skipped(bytes) => {
                let allowed = SKIPPED_OUTPUT_MAX_BYTES - bytes;
                let used = usize::try_from(allowed).unwrap_or(usize::MAX).min(output.len());
                self.state = State::Skipped(bytes + used as u64);
                let is_full = used == 0;
                Ok((used, if is_full { OutputPart::TooMuch } else { OutputPart::Nothing }))
            }
            State::WholeHead => unreachable!("the event of a head is made when it is whole"),
        }
    }

    /// Checks that the output may end here.
    pub(crate) fn end(&self) -> Result<(), CgiError> {
        match self.state {
            State::Head(_) => Err(check_partial(&self.head)),
            State::Content(Some(missing_bytes @ 1..)) => {
                Err(CgiError::ContentTooShort { missing_bytes })
            }
            State::WholeHead | State::Content(_) | State::Skipped(_) => Ok(()),
        }
    }

    /// Returns the line of the head that is no field line, if there is one. `piece` is the last
    /// output.
    pub(crate) fn malformed_line<'a>(&'a self, piece: &'a [u8]) -> Option<&'a [u8]> {
        malformed_line(if self.head.is_empty() { piece } else { &self.head })
    }

    fn take_head(
        &mut self,
        output: &[u8],
        mut end: HeadEnd,
    ) -> Result<(usize, OutputPart), CgiError> {
        let max_bytes = self.limits.head_bytes.min(RESPONSE_HEAD_MAX_BYTES);
        let allowed = max_bytes.saturating_sub(self.head.len());
        let piece = output.get(..allowed).unwrap_or(output);
        let found = end.find(piece)?;
        let piece = piece.get(..found.unwrap_or(piece.len())).unwrap_or(piece);
        if found.is_none() && self.head.len() + piece.len() >= max_bytes {
            return Err(CgiError::HeadTooLarge { max_bytes });
        }
        if found.is_none() || !self.head.is_empty() {
            self.head.extend_from_slice(piece);
        }
        let (state, part) = match found {
            Some(_) => (State::WholeHead, OutputPart::Head),
            None => (State::Head(end), OutputPart::Nothing),
        };
        self.state = state;
        Ok((piece.len(), part))
    }

    /// Makes the event of a whole head whose last piece is `piece`.
    pub(crate) fn head_event<'a>(
        &'a mut self,
        piece: &'a [u8],
        storage: &'a mut HeadStorage,
    ) -> Result<GatewayEvent<'a>, CgiError> {
        let text = if self.head.is_empty() { piece } else { &self.head };
        match read_head(text, storage, self.limits.fields)? {
            CgiHead::LocalRedirect(target) => {
                self.state = State::Skipped(0);
                Ok(GatewayEvent::LocalRedirect(target))
            }
            CgiHead::Document(head) => {
                let has_content =
                    self.request.method != Method::Head && !never_has_content(head.status);
                self.state = match (has_content, head.content_length) {
                    (true, length) => State::Content(length),
                    (false, _) => State::Skipped(0),
                };
                let keep_alive = !self.request.close;
                let head = response_head(&head, has_content, keep_alive);
                Ok(GatewayEvent::Response(ResponseEvent::Head(head)))
            }
        }
    }

    fn take_content(
        &mut self,
        output: &[u8],
        room: u64,
        missing: Option<u64>,
    ) -> Result<(usize, OutputPart), CgiError> {
        self.head = Vec::new();
        let max_bytes = self.limits.content_bytes;
        let allowed = max_bytes - self.content_bytes;
        match missing {
            Some(0) => return Err(CgiError::ContentTooLong),
            _ if allowed == 0 => return Err(CgiError::ContentTooLarge { max_bytes }),
            _ => {}
        }
        let most = room.min(allowed).min(missing.unwrap_or(u64::MAX));
        let bytes = usize::try_from(most).map_or(output.len(), |most| most.min(output.len()));
        if bytes == 0 {
            return Ok((0, OutputPart::Nothing));
        }
        self.content_bytes += bytes as u64;
        self.state = State::Content(missing.map(|missing| missing - bytes as u64));
        Ok((bytes, OutputPart::Content))
    }
}

/// Makes the head that a response over HTTP/1 would have.
fn response_head<'h>(
    head: &DocumentHead<'h>,
    has_content: bool,
    keep_alive: bool,
) -> ResponseHead<'h> {
    let framing = match (has_content, head.content_length) {
        (false, _) | (true, Some(0)) => ResponseFraming::None,
        (true, Some(bytes)) => ResponseFraming::Length(bytes),
        (true, None) => ResponseFraming::UntilClose,
    };
    ResponseHead {
        version: Version::Http11,
        status: head.status,
        reason: head.reason,
        fields: head.fields,
        known: head.known,
        framing,
        content_length: head.content_length,
        keep_alive,
    }
}
