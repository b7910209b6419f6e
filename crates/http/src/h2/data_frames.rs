//! DATA (RFC 9113 §6.1), and its use of the windows.

use super::event::{Event, Step, StepFault};
use super::frame::{
    self, ErrorCode, FRAME_DEFAULT_BYTES, FRAME_HEADER_BYTES, FrameHeader, WINDOW_DEFAULT_BYTES,
    flag,
};
use super::session::{Session, Whereabouts, need_more};
use crate::flood_budget::Budget;

/// The part of a DATA frame that is still to come. Its length was taken from the windows when it
/// began.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataRest {
    stream: u32,
    /// Bytes of content.
    content: u32,
    /// Bytes of padding after it.
    padding: u32,
    /// Whether the content ends with it, which has not been reported yet.
    end: bool,
}

impl DataRest {
    /// Returns it as long as bytes of it are to come: an empty one is over, and another frame
    /// follows.
    fn is_to_come(self) -> Option<Self> {
        (self.content + self.padding > 0).then_some(self)
    }
}

/// The part of the connection's window that has arrived, as one in so many, from which on it is
/// returned: seldom enough to cost nothing, and at least three quarters are always open.
const RETURN_DIVISOR: u32 = 4;

// So no frame can be too long for the window of the connection.
const _: () = assert!(FRAME_DEFAULT_BYTES <= WINDOW_DEFAULT_BYTES / RETURN_DIVISOR * 3);

impl<S: Default> Session<S> {
    /// Records that the application has consumed so many bytes of the content of a stream: the
    /// client may send as many more.
    #[inline]
    pub fn consumed(&mut self, stream: u32, bytes: usize, out: &mut Vec<u8>) {
        let Some(open) = self.streams.get_mut(stream) else { return };
        debug_assert!(open.unread as usize >= bytes, "it has come before");
        open.unread = open.unread.saturating_sub(bytes as u32);
        open.is_read = true;
        self.stream_window.consumes(bytes as u32);
        self.stream_window.renew(stream, open, out);
    }

    /// Opens windows no further than a new connection does, because memory is short.
    #[cold]
    pub fn shrink_windows(&mut self) {
        self.stream_window.shrink();
    }

    /// Returns arrived bytes to the window of the connection, as soon as there are enough of them.
    #[inline]
    fn arrived(&mut self, bytes: u32, out: &mut Vec<u8>) {
        self.unreturned += bytes;
        if self.unreturned >= self.settings.connection_window_bytes / RETURN_DIVISOR {
            frame::window_update(out, 0, self.unreturned);
            self.unreturned = 0;
        }
    }

    /// Begins a DATA frame.
    pub(super) fn received_data<'a>(
        &mut self,
        header: &FrameHeader,
        input: &'a [u8],
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Step<'a>, StepFault> {
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
            Whereabouts::Ignored => self.pass_over(header, content, now_ms, out)?,
            Whereabouts::Open => {}
        }
        self.arrived(header.bytes, out);
        let used = FRAME_HEADER_BYTES + front as usize;
        let mut part = DataRest { stream, content, padding, end: header.has(flag::END_STREAM) };
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
        Ok(self.data_part(part, used, input))
    }

    /// Counts a DATA frame of a stream that this side has ended. Data that was under way is within
    /// the window that the stream had; more data, or empty frames, would be work without end.
    #[cold]
    fn pass_over(
        &mut self,
        header: &FrameHeader,
        content: u32,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), StepFault> {
        if header.has(flag::END_STREAM) {
            self.settled(header.stream);
        }
        let entry = self.ignored.iter_mut().find(|entry| entry.stream == header.stream);
        if content == 0 || entry.is_none() {
            self.budgets.spend(Budget::Trifles, now_ms)?;
        }
        entry.map_or(Ok(()), |entry| entry.pass_over(header.bytes, out))
    }

    /// Counts a DATA frame of an open stream against the limits of the stream.
    fn admit(&mut self, part: &DataRest, bytes: u32, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        let Some(stream) = self.streams.get_mut(part.stream) else { return Ok(()) };
        if stream.peer_ended {
            return Err(ErrorCode::StreamClosed);
        }
        if i64::from(bytes) > i64::from(stream.receive_window) {
            return Err(ErrorCode::FlowControlError);
        }
        // RFC 9113 §8.1.1: the length of all DATA together is that of `Content-Length`.
        if let Some(left) = &mut stream.content_left {
            match left.checked_sub(u64::from(part.content)) {
                Some(rest) if rest == 0 || !part.end => *left = rest,
                _ => return Err(ErrorCode::ProtocolError),
            }
        }
        stream.receive_window -= bytes as i32;
        stream.unread += part.content;
        stream.peer_ended = part.end;
        self.stream_window.arrives(stream, out);
        // Padding is consumed already.
        self.stream_window.renew(part.stream, stream, out);
        Ok(())
    }

    /// Returns the present part of a DATA frame, after the first `used` bytes of the input.
    #[inline]
    pub(super) fn data_part<'a>(
        &mut self,
        mut part: DataRest,
        mut used: usize,
        input: &'a [u8],
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
        let DataRest { stream, .. } = part;
        if used == 0 {
            return need_more();
        }
        if self.streams.get(stream).is_none() {
            return Step { used, event: Event::Nothing };
        }
        let event = match (bytes, end) {
            ([], false) => Event::Nothing,
            _ => Event::Data { stream, bytes, end },
        };
        Step { used, event }
    }
}
