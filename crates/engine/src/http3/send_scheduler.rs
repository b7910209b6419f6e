//! From the queues of streams to QUIC: the most urgent first, and the incremental ones of the same
//! urgency in turn (RFC 9218 §10), as far as the windows of the client and of the path have room.

use std::os::unix::fs::FileExt as _;

use pinion_http::h3::frame::ErrorCode;
use quinn_proto::{Connection, WriteError};

use super::{Http3, Open};
use crate::deadline::DeadlineKind;
use crate::end_reason::Gone;
use crate::exchange::state::ExchangeStage;
use crate::file_mapping::Mappings;
use crate::limits::QUIC_TURN_BYTES;
use crate::multiplexed::{MultiplexedStream, release};
use crate::output_queue::{Next, OutputQueue, Outputs};
use crate::quic::stream_priority::stream_priority;
use crate::send::piece;
use crate::transport_link::TransportLink;
use crate::worker_buffers::Buffers;

/// The outcome of a stream's turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PumpOutcome {
    /// It waits for the application, or for QUIC.
    Waits,
    /// Its turn is over.
    Turn,
    /// QUIC has all of the response.
    Whole,
    /// The response cannot be completed: its queued data has changed, or the client does not read
    /// on.
    Lost(Gone),
}

/// A stream whose response cannot be completed, with its number and the reason.
pub(crate) type Lost = (u32, MultiplexedStream, Gone);

/// The bit position, in the sort key of a stream, above which are its urgency and whether it is
/// incremental.
const CLASS_SHIFT: u32 = 40;

impl Http3 {
    /// Hands the queues of streams to QUIC; returns the streams that were lost during that.
    /// `external` is the buffer in which bytes of files are checked first, `turns` the one in which
    /// streams are sorted.
    pub(crate) fn pump(
        &mut self,
        link: &mut TransportLink,
        buffers: &mut Buffers,
        external: &mut Vec<u8>,
        turns: &mut Vec<(u64, u32)>,
        now_ms: u64,
    ) -> Vec<Lost> {
        self.write_encoder();
        let mut lost = Vec::new();
        let before = self.queued_bytes;
        loop {
            turns.clear();
            self.waiting(&buffers.outputs, turns);
            // Less urgent streams wait until the ones before have no output, or no window.
            let mut again = None;
            for &(order, number) in turns.iter() {
                if again.is_some_and(|class| class != order >> CLASS_SHIFT) {
                    break;
                }
                if self.serve(number, buffers, external, now_ms, &mut lost) {
                    again = Some(order >> CLASS_SHIFT);
                }
            }
            if again.is_none() {
                break;
            }
        }
        if self.queued_bytes < before {
            link.deadline.end(DeadlineKind::Window);
        }
        lost
    }

    /// Collects the streams with something to hand over, in the order of their turns, each with its
    /// sort key.
    fn waiting(&mut self, outputs: &Outputs, waiting: &mut Vec<(u64, u32)>) {
        let turn = self.turn;
        for (number, open) in self.streams.numbered() {
            let is_done = open.own.state.stage == ExchangeStage::Done;
            let has_nothing = outputs.bytes(open.own.output) == 0 && !open.is_fin_pending(outputs);
            if !is_done && has_nothing {
                continue;
            }
            let priority = open.request.priority();
            // Streams that are not incremental have the order of their requests.
            let is_behind = priority.incremental && number <= turn;
            let class = [priority.urgency, priority.incremental.into(), is_behind.into()];
            let class = class.iter().fold(0, |class, part| class << 8 | u64::from(*part));
            waiting.push((class << 32 | u64::from(number), number));
        }
        waiting.sort_unstable();
    }

    /// Hands over the queue of one stream. Returns true if it waits for its next turn.
    fn serve(
        &mut self,
        number: u32,
        buffers: &mut Buffers,
        external: &mut Vec<u8>,
        now_ms: u64,
        lost: &mut Vec<Lost>,
    ) -> bool {
        let Self { quic, streams, queued_bytes, given_bytes, session, turn, .. } = self;
        let Some(open) = streams.get(number) else { return false };
        let id = open.id;
        let priority = open.request.priority();
        let quic_priority = stream_priority(number, priority);
        if open.quic_priority != quic_priority {
            open.quic_priority = quic_priority;
            // New data of a stream overtakes less urgent data that was given before.
            let _over = quic.send_stream(id).set_priority(quic_priority);
        }
        let room = if priority.incremental { QUIC_TURN_BYTES } else { u64::MAX };
        let before = buffers.outputs.bytes(open.own.output);
        let outcome = send_piece(quic, open, room, buffers, external);
        let given = before - buffers.outputs.bytes(open.own.output);
        if open.is_fin_pending(&buffers.outputs) {
            open.is_finished = true;
            let _stopped = quic.send_stream(id).finish();
        }
        *queued_bytes -= given;
        *given_bytes += given;
        if priority.incremental && given > 0 {
            *turn = number;
        }
        match outcome {
            PumpOutcome::Waits => {}
            PumpOutcome::Turn => return true,
            PumpOutcome::Lost(why) => {
                if let Some(stream) = self.end(id, ErrorCode::InternalError) {
                    lost.push((number, stream, why));
                }
            }
            PumpOutcome::Whole => {
                session.answered(&open.request);
                if let Some(open) = self.finish(id, now_ms) {
                    self.queued_bytes -= release(open.own, buffers);
                }
            }
        }
        false
    }
}

/// Hands the queue of a stream to QUIC as far as QUIC takes it, but hardly more than `room` bytes.
fn send_piece(
    quic: &mut Connection,
    open: &mut Open,
    room: u64,
    buffers: &mut Buffers,
    buffer: &mut Vec<u8>,
) -> PumpOutcome {
    let Buffers { outputs, pool, mappings, .. } = buffers;
    let is_done = open.own.state.stage == ExchangeStage::Done;
    let mut left = room;
    while let Some(output) = outputs.get(open.own.output) {
        if output.bytes == 0 {
            output.clear(pool, mappings);
            outputs.free(&mut open.own.output);
            break;
        }
        if left == 0 {
            return PumpOutcome::Turn;
        }
        // Reading and checking a file in vain has a cost each time that a stream waits.
        if output.has_files() {
            let room = quic.send_stream(open.id).write(&[]);
            if room == Err(WriteError::Blocked) {
                return PumpOutcome::Waits;
            }
        }
        let Some(written) = write(quic, open, output, left, mappings, buffer) else {
            return PumpOutcome::Lost(Gone::Broken);
        };
        if output.is_damaged(mappings) {
            return PumpOutcome::Lost(Gone::Broken);
        }
        match written {
            Ok(bytes) => {
                output.advance(bytes, pool, mappings);
                left -= (bytes as u64).min(left);
            }
            Err(WriteError::Blocked) => return PumpOutcome::Waits,
            Err(_) => return PumpOutcome::Lost(Gone::Peer),
        }
    }
    if is_done { PumpOutcome::Whole } else { PumpOutcome::Waits }
}

/// Gives QUIC the front of a queue, up to `room` bytes. Returns `None` if its data has changed.
fn write(
    quic: &mut Connection,
    open: &mut Open,
    output: &OutputQueue,
    room: u64,
    mappings: &Mappings,
    buffer: &mut Vec<u8>,
) -> Option<Result<usize, WriteError>> {
    let mut stream = quic.send_stream(open.id);
    let mut give = |bytes: &[u8]| {
        let bytes = &bytes[..room.min(bytes.len() as u64) as usize];
        Some(stream.write(bytes))
    };
    let piece = match output.next(mappings, false) {
        Next::Nothing | Next::Changed | Next::File { .. } => return None,
        Next::One(bytes) => return give(bytes),
        Next::Memory { parts, .. } => return give(parts.as_slice().first()?),
        Next::Read { file, offset, bytes } => {
            let piece = piece(buffer, bytes.min(room).min(open.read_bytes))?;
            file.read_exact_at(piece, offset).ok()?;
            piece
        }
        Next::External { file, range } => {
            let piece = piece(buffer, range.bytes.min(room).min(open.read_bytes))?;
            file.read_unchanged(&range, piece).ok()?;
            piece
        }
    };
    let written = give(piece);
    if let Some(Ok(bytes)) = written {
        open.has_taken(bytes, piece.len());
    }
    written
}
