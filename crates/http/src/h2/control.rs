//! The frames beside requests and their content (RFC 9113 §6.3 to §6.9, RFC 9218 §7.1).

use super::event::{Event, StepFault};
use super::frame::{
    self, ErrorCode, FRAME_DEFAULT_BYTES, FRAME_MAX_BYTES, FrameHeader, Kind, STREAM_MAX, flag,
    number, setting,
};
use super::send::{LEAVING_PING, stream_answered};
use super::session::{Phase, Session, Whereabouts};
use super::stream_window_tuning::ROUND_TRIP_PING;
use crate::flood_budget::Budget;
use crate::goaway_state::Leaving;
use crate::priority::Priority;

type Handled = Result<Event<'static>, StepFault>;

impl<S: Default> Session<S> {
    /// Handles a whole frame that is neither DATA nor part of a field block.
    pub(super) fn control(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Handled {
        match header.kind {
            Kind::Settings => self.settings(header, payload, now_ms, out),
            Kind::WindowUpdate => self.window_update(header, payload, now_ms, out),
            Kind::ResetStream => self.reset_by_peer(header, payload, now_ms),
            Kind::Ping => self.ping(header, payload, now_ms, out),
            Kind::GoAway => self.go_away_of_peer(header, payload, now_ms),
            Kind::Priority => self.priority(header, payload, now_ms, out),
            Kind::PriorityUpdate => self.priority_update(header, payload, now_ms),
            // RFC 9113 §8.4: "A client cannot push."
            Kind::PushPromise => Err(ErrorCode::ProtocolError.into()),
            Kind::Data | Kind::Headers | Kind::Continuation | Kind::Unknown => {
                self.budgets.spend(Budget::Trifles, now_ms)?;
                Ok(Event::Nothing)
            }
        }
    }

    /// Handles SETTINGS (RFC 9113 §6.5).
    fn settings(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Handled {
        if header.stream != 0 {
            return Err(ErrorCode::ProtocolError.into());
        }
        self.budgets.spend(Budget::Replies, now_ms)?;
        if header.has(flag::ACK) {
            return match payload {
                [] => Ok(Event::Nothing),
                _ => Err(ErrorCode::FrameSizeError.into()),
            };
        }
        let (values, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(ErrorCode::FrameSizeError.into());
        }
        // Between two values of one setting nothing happens, so only the last one counts.
        let mut window = self.peer.stream_window as u32;
        for &[a, b, c, d, e, f] in values {
            let value = u32::from_be_bytes([c, d, e, f]);
            self.setting(u16::from_be_bytes([a, b]), value, &mut window)?;
        }
        let opened = self.set_stream_window(window)?;
        self.phase = Phase::Open;
        frame::settings_ack(out);
        Ok(if opened { Event::Opened } else { Event::Nothing })
    }

    /// Applies a setting (RFC 9113 §6.5.2). Unknown settings, and those that allow a server an
    /// action that this one never takes, are ignored.
    fn setting(&mut self, name: u16, value: u32, window: &mut u32) -> Result<(), ErrorCode> {
        match name {
            setting::HEADER_TABLE_SIZE => self.encoder.limit_table(value),
            setting::ENABLE_PUSH | setting::NO_RFC7540_PRIORITIES if value > 1 => {
                return Err(ErrorCode::ProtocolError);
            }
            setting::INITIAL_WINDOW_SIZE if value > STREAM_MAX => {
                return Err(ErrorCode::FlowControlError);
            }
            setting::INITIAL_WINDOW_SIZE => *window = value,
            setting::MAX_FRAME_SIZE => {
                if !(FRAME_DEFAULT_BYTES..=FRAME_MAX_BYTES).contains(&value) {
                    return Err(ErrorCode::ProtocolError);
                }
                self.peer.frame_bytes = value;
            }
            _ => {}
        }
        Ok(())
    }

    /// Moves the windows of all open streams with the first window (RFC 9113 §6.9.2). Returns
    /// whether one opened.
    fn set_stream_window(&mut self, window: u32) -> Result<bool, ErrorCode> {
        let window = window as i32;
        let change = window - self.peer.stream_window;
        let mut opened = false;
        if change != 0 {
            for (_, stream) in self.streams.each() {
                let moved = stream.send_window.checked_add(change);
                let moved = moved.ok_or(ErrorCode::FlowControlError)?;
                opened |= stream.send_window <= 0 && moved > 0;
                stream.send_window = moved;
            }
            self.peer.stream_window = window;
        }
        Ok(opened)
    }

    /// Handles WINDOW_UPDATE (RFC 9113 §6.9).
    #[inline]
    fn window_update(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Handled {
        if payload.len() != 4 {
            return Err(ErrorCode::FrameSizeError.into());
        }
        let increment = (number(payload) & STREAM_MAX) as i32;
        if header.stream == 0 {
            if increment == 0 {
                return Err(ErrorCode::ProtocolError.into());
            }
            self.budgets.spend(Budget::Windows, now_ms)?;
            let opened = self.send_window <= 0;
            let moved = self.send_window.checked_add(increment);
            self.send_window = moved.ok_or(ErrorCode::FlowControlError)?;
            return Ok(if opened { Event::Opened } else { Event::Nothing });
        }
        let Some(stream) = self.streams.get_mut(header.stream) else {
            return self.beside_open_streams(header, now_ms);
        };
        let code = match (increment, stream.send_window.checked_add(increment)) {
            (0, _) => ErrorCode::ProtocolError,
            (_, None) => ErrorCode::FlowControlError,
            (_, Some(moved)) => {
                let opened = stream.send_window <= 0 && moved > 0;
                stream.send_window = moved;
                self.budgets.spend(Budget::Windows, now_ms)?;
                return Ok(if opened { Event::Opened } else { Event::Nothing });
            }
        };
        self.stream_error(header.stream, code, now_ms, out)
    }

    /// Handles RST_STREAM of the client (RFC 9113 §6.4).
    fn reset_by_peer(&mut self, header: &FrameHeader, payload: &[u8], now_ms: u64) -> Handled {
        if payload.len() != 4 {
            return Err(ErrorCode::FrameSizeError.into());
        }
        let stream = header.stream;
        if self.streams.get(stream).is_none() {
            self.settled(stream);
            return self.beside_open_streams(header, now_ms);
        }
        // The budget is spent before the stream is removed: an error that ends the connection
        // leaves the stream to the code that ends all open streams.
        self.budgets.spend(Budget::Resets, now_ms)?;
        self.streams.remove(stream);
        let code = ErrorCode::of(number(payload));
        Ok(Event::Reset { stream, code, by_peer: true })
    }

    /// Handles a frame that changes nothing when its stream is not open any more, and is an error
    /// when it never was.
    #[cold]
    fn beside_open_streams(&mut self, header: &FrameHeader, now_ms: u64) -> Handled {
        if self.whereabouts(header.stream) == Whereabouts::Idle {
            return Err(ErrorCode::ProtocolError.into());
        }
        // Clients go on opening the window of a response that has left already.
        let is_window = header.kind == Kind::WindowUpdate;
        let budget = if is_window { Budget::Windows } else { Budget::Trifles };
        self.budgets.spend(budget, now_ms)?;
        Ok(Event::Nothing)
    }

    /// Handles PING (RFC 9113 §6.7).
    fn ping(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Handled {
        if header.stream != 0 {
            return Err(ErrorCode::ProtocolError.into());
        }
        let payload = *payload.as_array::<8>().ok_or(ErrorCode::FrameSizeError)?;
        let is_ack = header.has(flag::ACK);
        // One answer to a PING of ours is no work that the client makes.
        if is_ack && self.ping_answered(payload, out) {
            return Ok(Event::Nothing);
        }
        self.budgets.spend(Budget::Replies, now_ms)?;
        if !is_ack {
            frame::ping(out, flag::ACK, payload);
        }
        Ok(Event::Nothing)
    }

    /// Acts upon the response to a PING. Says whether one of ours was still to be answered by it.
    #[cold]
    fn ping_answered(&mut self, payload: [u8; 8], out: &mut Vec<u8>) -> bool {
        if payload == LEAVING_PING && self.leaving == Leaving::Announced {
            self.go_away(out);
            return true;
        }
        if payload == ROUND_TRIP_PING {
            return self.round_trip_ended(out);
        }
        stream_answered(payload).is_some_and(|stream| self.has_read(stream, out))
    }

    /// Handles GOAWAY of the client (RFC 9113 §6.8), which may go on to send frames that are no
    /// requests. An unknown code "MUST NOT trigger any special behavior" (§7), and neither does any
    /// other one.
    fn go_away_of_peer(&mut self, header: &FrameHeader, payload: &[u8], now_ms: u64) -> Handled {
        if header.stream != 0 {
            return Err(ErrorCode::ProtocolError.into());
        }
        // The last stream and the code.
        if payload.len() < 8 {
            return Err(ErrorCode::FrameSizeError.into());
        }
        self.budgets.spend(Budget::Trifles, now_ms)?;
        Ok(Event::Nothing)
    }

    /// Handles PRIORITY, which has no meaning any more (RFC 9113 §5.3.2, §6.3).
    fn priority(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Handled {
        if header.stream == 0 {
            return Err(ErrorCode::ProtocolError.into());
        }
        if header.bytes != 5 {
            // "MUST be treated as a stream error", which only an open stream can have.
            return match self.whereabouts(header.stream) {
                Whereabouts::Open => {
                    self.stream_error(header.stream, ErrorCode::FrameSizeError, now_ms, out)
                }
                _ => Err(ErrorCode::FrameSizeError.into()),
            };
        }
        self.budgets.spend(Budget::Trifles, now_ms)?;
        if depends_on_itself(header.stream, payload) {
            return match self.whereabouts(header.stream) {
                Whereabouts::Open => {
                    self.stream_error(header.stream, ErrorCode::ProtocolError, now_ms, out)
                }
                _ => Err(ErrorCode::ProtocolError.into()),
            };
        }
        Ok(Event::Nothing)
    }

    /// Handles PRIORITY_UPDATE (RFC 9218 §7.1).
    fn priority_update(&mut self, header: &FrameHeader, payload: &[u8], now_ms: u64) -> Handled {
        let Some((_, value)) = payload.split_at_checked(4) else {
            return Err(ErrorCode::FrameSizeError.into());
        };
        let stream = number(payload) & STREAM_MAX;
        // Even numbers are pushed streams, of which there are none.
        if header.stream != 0 || stream.is_multiple_of(2) {
            return Err(ErrorCode::ProtocolError.into());
        }
        self.budgets.spend(Budget::Trifles, now_ms)?;
        let priority = Priority::parse(value);
        match self.whereabouts(stream) {
            Whereabouts::Open => self.streams.set_priority(stream, priority),
            Whereabouts::Idle => {
                // RFC 9218 §7.1: streams that are prioritized in idle state, and active ones,
                // together "MUST NOT exceed" the number of streams that may be open.
                let open_max = usize::from(self.settings.streams);
                let early_max = open_max.saturating_sub(self.streams.len());
                if !self.early.set(stream, priority, early_max) {
                    return Err(ErrorCode::ProtocolError.into());
                }
            }
            Whereabouts::Ignored | Whereabouts::Closed => {}
        }
        Ok(Event::Nothing)
    }
}

/// Returns whether the priority of RFC 7540 that a payload begins with makes a stream depend on
/// itself, which was an error of that stream (§5.3.1 there) and is a sign of a broken client still.
pub(super) fn depends_on_itself(stream: u32, payload: &[u8]) -> bool {
    payload.len() >= 5 && number(payload) & STREAM_MAX == stream
}
