//! The unidirectional streams of the client (RFC 9114 §6.2): its control stream (§7.2), and those
//! of QPACK (RFC 9204 §4.2).

use super::event::{Fatal, UniEvent, UniStep};
use super::frame::{ErrorCode, FRAME_HEADER_MAX_BYTES, FrameHeader, Kind, setting, stream};
use super::limits::CONTROL_FRAME_MAX_BYTES;
use super::request_stream::spend_skipped;
use super::session::{REQUEST_STEP, Session};
use super::varint;
use crate::flood_budget::Budget;
use crate::priority::Priority;
use crate::qpack::instruction_streams::{DecoderStream, encoder_stream};

/// The state that the caller keeps with a unidirectional stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct UniState(State);

#[derive(Clone, Copy, Debug)]
enum State {
    /// The received bytes of its type, and their number.
    Begin([u8; 8], u8),
    Control,
    Encoder,
    Decoder(DecoderStream),
    Stopped,
}

impl Default for State {
    fn default() -> State {
        State::Begin([0; 8], 0)
    }
}

/// The facts that a connection has learned on such streams.
#[derive(Debug, Default)]
pub(super) struct Heard {
    control: bool,
    encoder: bool,
    decoder: bool,
    settings: bool,
    /// The front of a control frame.
    kept: Vec<u8>,
    /// Bytes of a control frame that are still to be skipped.
    skip: u64,
    push_max: Option<u64>,
    go_away: Option<u64>,
}

impl Heard {
    pub(super) fn memory_bytes(&self) -> usize {
        self.kept.capacity()
    }
}

impl Session {
    /// Uses the front of the received bytes of a unidirectional stream, at most one frame of it; an
    /// incomplete frame is kept here. Call it until all bytes are used; `fin` says that the stream
    /// ends behind them.
    ///
    /// # Errors
    /// Returns the error that ends the connection.
    pub fn uni(
        &mut self,
        state: &mut UniState,
        bytes: &[u8],
        fin: bool,
        now_ms: u64,
    ) -> Result<UniStep, Fatal> {
        let step = match &mut state.0 {
            State::Begin(front, count) => {
                let (front, count) = (*front, *count);
                self.stream_type(state, front, count, bytes, now_ms)?
            }
            State::Control => self.control(bytes, now_ms)?,
            State::Encoder => {
                if !encoder_stream(bytes) {
                    return Err(ErrorCode::QpackEncoderStreamError.into());
                }
                nothing(bytes.len())
            }
            State::Decoder(reader) => {
                if !reader.read(bytes, &mut self.encoder) {
                    return Err(ErrorCode::QpackDecoderStreamError.into());
                }
                nothing(bytes.len())
            }
            State::Stopped => nothing(bytes.len()),
        };
        if fin && step.used == bytes.len() {
            self.uni_reset(state, now_ms)?;
            return Ok(UniStep { event: UniEvent::End, ..step });
        }
        Ok(step)
    }

    /// Handles the reset of a unidirectional stream by the client.
    ///
    /// # Errors
    /// Handles the reset of a stream. It fails if the stream must not end before the connection
    /// (RFC 9114 §6.2.1, RFC 9204 §4.2), or if there were too many resets.
    pub fn uni_reset(&mut self, state: &UniState, now_ms: u64) -> Result<(), Fatal> {
        match state.0 {
            // RFC 9114 §6.2: a stream may end before its type has arrived. Such a stream has not
            // been counted yet.
            State::Begin(..) => Ok(self.budgets.spend(Budget::Trifles, now_ms)?),
            State::Stopped => Ok(()),
            State::Control | State::Encoder | State::Decoder(_) => {
                Err(ErrorCode::ClosedCriticalStream.into())
            }
        }
    }

    /// Returns the type of a stream, as far as it has arrived.
    fn stream_type(
        &mut self,
        state: &mut UniState,
        mut front: [u8; 8],
        mut count: u8,
        bytes: &[u8],
        now_ms: u64,
    ) -> Result<UniStep, Fatal> {
        for (index, &byte) in bytes.iter().enumerate() {
            if let Some(place) = front.get_mut(usize::from(count)) {
                *place = byte;
            }
            count += 1;
            let mut number = front.get(..usize::from(count)).unwrap_or_default();
            if let Some(kind) = varint::read(&mut number) {
                state.0 = self.opened(kind, now_ms)?;
                let stopped = matches!(state.0, State::Stopped);
                let event = if stopped { UniEvent::Stop } else { UniEvent::Nothing };
                return Ok(UniStep { used: index + 1, event });
            }
        }
        state.0 = State::Begin(front, count);
        Ok(nothing(bytes.len()))
    }

    /// Handles a stream of a known type.
    fn opened(&mut self, kind: u64, now_ms: u64) -> Result<State, Fatal> {
        let (heard, state) = match kind {
            stream::CONTROL => (&mut self.heard.control, State::Control),
            stream::ENCODER => (&mut self.heard.encoder, State::Encoder),
            stream::DECODER => (&mut self.heard.decoder, State::Decoder(DecoderStream::default())),
            // RFC 9114 §6.2.2: "Only servers can push".
            stream::PUSH => return Err(ErrorCode::StreamCreationError.into()),
            _ => {
                self.budgets.spend(Budget::Trifles, now_ms)?;
                return Ok(State::Stopped);
            }
        };
        // RFC 9114 §6.2.1, RFC 9204 §4.2: a second one.
        if std::mem::replace(heard, true) {
            return Err(ErrorCode::StreamCreationError.into());
        }
        Ok(state)
    }

    /// Bytes of the control stream. Its frames are few and small, so each is put together here.
    fn control(&mut self, bytes: &[u8], now_ms: u64) -> Result<UniStep, Fatal> {
        let heard = &mut self.heard;
        if heard.skip > 0 {
            let used = heard.skip.min(bytes.len() as u64);
            spend_skipped(&mut self.budgets, &mut heard.skip, used, now_ms)?;
            return Ok(nothing(used as usize));
        }
        let mut used = 0;
        let header = loop {
            if let Some(header) = FrameHeader::read(&heard.kept) {
                break header;
            }
            let Some(&byte) = bytes.get(used) else { return Ok(nothing(used)) };
            heard.kept.push(byte);
            used += 1;
        };
        debug_assert!(header.own_bytes <= FRAME_HEADER_MAX_BYTES);
        check(&header, heard.settings)?;
        if header.kind == Kind::Unknown {
            heard.kept.clear();
            heard.skip = header.bytes;
            self.budgets.spend(Budget::Trifles, now_ms)?;
            return Ok(nothing(used));
        }
        let missing = header.own_bytes + header.bytes as usize - heard.kept.len();
        let rest = bytes.get(used..).unwrap_or_default();
        let part = rest.get(..missing).unwrap_or(rest);
        heard.kept.extend_from_slice(part);
        used += part.len();
        if part.len() < missing {
            return Ok(nothing(used));
        }
        let mut kept = std::mem::take(&mut heard.kept);
        let payload = kept.get(header.own_bytes..).unwrap_or_default();
        let event = self.control_frame(header.kind, payload, now_ms);
        kept.clear();
        self.heard.kept = kept;
        Ok(UniStep { used, event: event? })
    }

    /// Handles a whole frame of the control stream.
    fn control_frame(
        &mut self,
        kind: Kind,
        payload: &[u8],
        now_ms: u64,
    ) -> Result<UniEvent, Fatal> {
        self.budgets.spend(Budget::Trifles, now_ms)?;
        match kind {
            Kind::Settings => {
                self.heard.settings = true;
                self.encoder.set_capacity_max(settings(payload)?);
                Ok(UniEvent::Nothing)
            }
            Kind::GoAway => {
                // The number is that of a push, of which there are none; that the client is about
                // to leave is its own affair.
                let id = number(payload)?;
                // RFC 9114 §5.2.
                if self.heard.go_away.replace(id).is_some_and(|before| id > before) {
                    return Err(ErrorCode::IdError.into());
                }
                Ok(UniEvent::Nothing)
            }
            Kind::MaxPushId => {
                let id = number(payload)?;
                // RFC 9114 §7.2.7: it "cannot reduce".
                if self.heard.push_max.replace(id).is_some_and(|before| id < before) {
                    return Err(ErrorCode::IdError.into());
                }
                Ok(UniEvent::Nothing)
            }
            Kind::PriorityUpdate => self.priority_update(payload),
            // RFC 9114 §7.2.3, RFC 9218 §7.2: no push was ever promised.
            Kind::CancelPush => number(payload).and(Err(ErrorCode::IdError.into())),
            Kind::PushPriorityUpdate => {
                let push = varint::read(&mut &*payload);
                Err(push.map_or(ErrorCode::FrameError, |_| ErrorCode::IdError).into())
            }
            _ => Err(ErrorCode::FrameUnexpected.into()),
        }
    }

    /// Handles PRIORITY_UPDATE (RFC 9218 §7.2).
    fn priority_update(&mut self, payload: &[u8]) -> Result<UniEvent, Fatal> {
        let mut value = payload;
        let stream = varint::read(&mut value).ok_or(ErrorCode::FrameError)?;
        if !stream.is_multiple_of(REQUEST_STEP) {
            return Err(ErrorCode::IdError.into());
        }
        let priority = Priority::parse(value);
        if stream >= self.next_request {
            self.keep_early_priority(stream, priority)?;
            return Ok(UniEvent::Nothing);
        }
        Ok(UniEvent::Priority { stream, priority })
    }
}

/// Checks all that the header of a control frame alone decides (RFC 9114 §6.2.1, §7.2).
fn check(header: &FrameHeader, had_settings: bool) -> Result<(), Fatal> {
    match (header.kind == Kind::Settings, had_settings) {
        (false, false) => return Err(ErrorCode::MissingSettings.into()),
        (true, true) => return Err(ErrorCode::FrameUnexpected.into()),
        _ => {}
    }
    match header.kind {
        Kind::Data | Kind::Headers | Kind::PushPromise | Kind::Forbidden => {
            Err(ErrorCode::FrameUnexpected.into())
        }
        Kind::Unknown => Ok(()),
        _ if header.bytes > CONTROL_FRAME_MAX_BYTES as u64 => Err(Budget::Block.into()),
        _ => Ok(()),
    }
}

/// Parses SETTINGS (RFC 9114 §7.2.4). Returns how large the client's table may be (RFC 9204 §5).
/// The other settings do not change the output of this side: it pushes nothing, and its heads are
/// short.
fn settings(mut payload: &[u8]) -> Result<u64, Fatal> {
    let (mut seen, mut capacity_max) = (0u64, 0);
    while !payload.is_empty() {
        let name = varint::read(&mut payload).ok_or(ErrorCode::FrameError)?;
        let value = varint::read(&mut payload).ok_or(ErrorCode::FrameError)?;
        if setting::is_forbidden(name) {
            return Err(ErrorCode::SettingsError.into());
        }
        // "The same setting identifier MUST NOT occur more than once": of those below 64, where all
        // stand that an RFC defines.
        let bit = u32::try_from(name).ok().and_then(|name| 1u64.checked_shl(name)).unwrap_or(0);
        if seen & bit != 0 {
            return Err(ErrorCode::SettingsError.into());
        }
        seen |= bit;
        if name == setting::QPACK_MAX_TABLE_CAPACITY {
            capacity_max = value;
        }
    }
    Ok(capacity_max)
}

/// Returns the number that is the whole payload.
fn number(mut payload: &[u8]) -> Result<u64, Fatal> {
    match varint::read(&mut payload) {
        Some(number) if payload.is_empty() => Ok(number),
        _ => Err(ErrorCode::FrameError.into()),
    }
}

const fn nothing(used: usize) -> UniStep {
    UniStep { used, event: UniEvent::Nothing }
}
