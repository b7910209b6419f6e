//! DATA (RFC 9113 §6.1) and the windows of what the client sends (§5.2, §6.9).

use super::event::{Event, Fault, Step};
use super::frame::{self, ErrorCode, FRAME_HEADER_BYTES, Header, flag};
use super::session::{Ignored, Session, Whereabouts, need_more};
use super::streams::Stream;
use crate::budget::Budget;

/// What is to come of a DATA frame. Its length was taken from the windows when it began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    stream: u32,
    /// Bytes of content.
    content: u32,
    /// Bytes of padding behind it.
    padding: u32,
    /// The content ends with it, and nobody was told yet.
    end: bool,
}

impl Part {
    /// Itself, as long as bytes of it are to come: behind one that has none another frame stands.
    fn is_to_come(self) -> Option<Self> {
        (self.content + self.padding > 0).then_some(self)
    }
}

/// The consumed part of the connection's window, as one in so many, from which on it is given back:
/// seldom enough to cost nothing, and at least three quarters are always open.
const RETURN_DIVISOR: u32 = 4;

impl<S: Default> Session<S> {
    /// The application waits for so many bytes of content on a stream, beyond those that have come:
    /// the client gets leave to send them, as far as the limit of a window goes, and for the rest
    /// as they come. Said again, the last number counts.
    pub fn want(&mut self, stream: u32, bytes: u64, out: &mut Vec<u8>) {
        let window_max = self.settings.stream_window_max_bytes;
        if let Some(open) = self.streams.get_mut(stream) {
            open.wanted = bytes;
            renew(stream, open, window_max, out);
        }
    }

    /// So many bytes of content need no memory any more, whatever became of them or their stream.
    #[inline]
    pub fn consumed(&mut self, bytes: usize, out: &mut Vec<u8>) {
        self.unreturned += bytes as u32;
        if self.unreturned >= self.settings.connection_window_bytes / RETURN_DIVISOR {
            self.receive_window += self.unreturned as i32;
            frame::window_update(out, 0, self.unreturned);
            self.unreturned = 0;
        }
    }

    /// A DATA frame begins.
    pub(super) fn received_data<'a>(
        &mut self,
        header: &Header,
        input: &'a [u8],
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Step<'a>, Fault> {
        let behind = input.get(FRAME_HEADER_BYTES..).unwrap_or_default();
        let (front, padding) = match (header.has(flag::PADDED), header.bytes, behind) {
            (false, ..) => (0, 0),
            (true, 0, _) => return Err(ErrorCode::FrameSizeError.into()),
            (true, _, []) => return Ok(need_more()),
            (true, _, [padding, ..]) => (1, u32::from(*padding)),
        };
        // RFC 9113 §6.1: padding "is the length of the frame payload or greater".
        let content = header.bytes.checked_sub(front + padding).ok_or(ErrorCode::ProtocolError)?;
        let stream = header.stream;
        let whereabouts = self.whereabouts(stream);
        match whereabouts {
            Whereabouts::Idle => return Err(ErrorCode::ProtocolError.into()),
            Whereabouts::Closed => return Err(ErrorCode::StreamClosed.into()),
            Whereabouts::Ignored => self.pass_over(header, now_ms)?,
            Whereabouts::Open => {}
        }
        if i64::from(header.bytes) > i64::from(self.receive_window) {
            return Err(ErrorCode::FlowControlError.into());
        }
        self.receive_window -= header.bytes as i32;
        self.consumed((front + padding) as usize, out);
        let used = FRAME_HEADER_BYTES + front as usize;
        let mut part = Part { stream, content, padding, end: header.has(flag::END_STREAM) };
        if whereabouts == Whereabouts::Open {
            if let Err(code) = self.admit(&part, header.bytes, out) {
                part.end = false;
                self.part = part.is_to_come();
                let event = self.stream_error(stream, code, now_ms, out)?;
                return Ok(Step { used, event });
            }
            if content == 0 && !part.end {
                self.budgets.spend(Budget::Trifles, now_ms)?;
            }
        } else {
            part.end = false;
        }
        Ok(self.data_part(part, used, input, out))
    }

    /// Counts a DATA frame of a stream that this side has ended. What was on its way is within the
    /// window that the stream had; more, or nothing, is work without end.
    #[cold]
    fn pass_over(&mut self, header: &Header, now_ms: u64) -> Result<(), Fault> {
        if header.has(flag::END_STREAM) {
            self.settled(header.stream);
        }
        match self.ignored.iter_mut().find(|entry| entry.stream == header.stream) {
            Some(Ignored { window, .. }) if header.bytes > 0 => {
                let left = i64::from(*window) - i64::from(header.bytes);
                *window = i32::try_from(left.max(0)).unwrap_or(i32::MAX);
                if left < 0 { Err(ErrorCode::StreamClosed.into()) } else { Ok(()) }
            }
            _ => Ok(self.budgets.spend(Budget::Trifles, now_ms)?),
        }
    }

    /// Counts a DATA frame of an open stream against what the stream may have.
    fn admit(&mut self, part: &Part, bytes: u32, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        let window_max = self.settings.stream_window_max_bytes;
        let Some(stream) = self.streams.get_mut(part.stream) else { return Ok(()) };
        if stream.peer_ended {
            return Err(ErrorCode::StreamClosed);
        }
        if i64::from(bytes) > i64::from(stream.receive_window) {
            return Err(ErrorCode::FlowControlError);
        }
        // RFC 9113 §8.1.1: all DATA together is what `Content-Length` said.
        if let Some(left) = &mut stream.content_left {
            match left.checked_sub(u64::from(part.content)) {
                Some(rest) if rest == 0 || !part.end => *left = rest,
                _ => return Err(ErrorCode::ProtocolError),
            }
        }
        stream.receive_window -= bytes as i32;
        stream.wanted = stream.wanted.saturating_sub(u64::from(part.content));
        stream.peer_ended = part.end;
        renew(part.stream, stream, window_max, out);
        Ok(())
    }

    /// What there is of a DATA frame, behind the first `used` bytes of the input.
    #[inline]
    pub(super) fn data_part<'a>(
        &mut self,
        mut part: Part,
        mut used: usize,
        input: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Step<'a> {
        let rest = input.get(used..).unwrap_or_default();
        let (bytes, rest) = rest.split_at(rest.len().min(part.content as usize));
        part.content -= bytes.len() as u32;
        let padding = if part.content == 0 { rest.len().min(part.padding as usize) } else { 0 };
        part.padding -= padding as u32;
        used += bytes.len() + padding;
        let end = part.end && part.content == 0;
        part.end &= !end;
        self.part = part.is_to_come();
        let Part { stream, .. } = part;
        if used == 0 {
            return need_more();
        }
        if self.streams.get(stream).is_none() {
            self.consumed(bytes.len(), out);
            return Step { used, event: Event::Nothing };
        }
        let event = match (bytes, end) {
            ([], false) => Event::Nothing,
            _ => Event::Data { stream, bytes, end },
        };
        Step { used, event }
    }
}

/// Opens the window of a stream to what the application waits for, if less than half of that is
/// open: one WINDOW_UPDATE for many frames, and what is waited for can always come.
pub(super) fn renew<S>(id: u32, stream: &mut Stream<S>, window_max: u32, out: &mut Vec<u8>) {
    let target = stream.wanted.min(u64::from(window_max)) as i32;
    if stream.peer_ended || target == 0 || stream.receive_window > target / 2 {
        return;
    }
    let increment = target - stream.receive_window;
    frame::window_update(out, id, increment as u32);
    stream.receive_window = target;
}
