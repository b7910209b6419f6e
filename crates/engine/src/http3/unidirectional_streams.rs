//! Input of the client's unidirectional streams: its control stream, those of QPACK, and streams of
//! unknown types (RFC 9114 §6.2).

use bytes::Bytes;
use pinion_http::h3::event::{Fatal, UniEvent};
use pinion_http::h3::frame::ErrorCode;
use pinion_http::h3::unidirectional_streams::UniState;
use quinn_proto::{ReadError, StreamId};

use super::unread_content::Unread;
use super::{Http3, number, var_int};

/// A unidirectional stream.
pub(crate) struct Uni {
    pub(super) id: StreamId,
    state: UniState,
    /// The count of its bytes that QUIC holds.
    pub(super) unread: Unread,
}

impl Uni {
    /// Creates the state of a stream that the client has opened.
    pub(crate) fn opened(id: StreamId) -> Self {
        Self { id, state: UniState::default(), unread: Unread::opened() }
    }
}

/// Reads a stream as far as it has input.
///
/// # Errors
/// Fails if the client breaks a rule that ends the connection.
pub(crate) fn read(http3: &mut Http3, id: StreamId, now_ms: u64) -> Result<(), Fatal> {
    loop {
        let Some(at) = http3.unis.iter().position(|uni| uni.id == id) else { return Ok(()) };
        let mut stream = http3.quic.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return Ok(()) };
        let next = chunks.next(usize::MAX);
        // Frames that have to be sent leave after all events.
        let _transmit = chunks.finalize();
        match next {
            Ok(Some(chunk)) => {
                http3.unis[at].unread.read(chunk.bytes.len());
                if take(http3, at, &chunk.bytes, false, now_ms)? {
                    // QUIC reports no more events of a stream that was stopped.
                    http3.unis.swap_remove(at);
                    return Ok(());
                }
            }
            Ok(None) => {
                take(http3, at, &Bytes::new(), true, now_ms)?;
                http3.unis.swap_remove(at);
            }
            Err(ReadError::Reset(_)) => {
                let uni = http3.unis.swap_remove(at);
                http3.session.uni_reset(&uni.state, now_ms)?;
            }
            Err(ReadError::Blocked) => {
                http3.unis[at].unread.drained();
                return Ok(());
            }
        }
    }
}

/// Uses all input. Returns true if no more of the stream is wanted.
fn take(
    http3: &mut Http3,
    at: usize,
    mut bytes: &[u8],
    fin: bool,
    now_ms: u64,
) -> Result<bool, Fatal> {
    let Http3 { session, unis, streams, quic, .. } = http3;
    let Some(Uni { id, state, .. }) = unis.get_mut(at) else { return Ok(true) };
    loop {
        let step = session.uni(state, bytes, fin, now_ms)?;
        bytes = bytes.get(step.used..).unwrap_or_default();
        match step.event {
            UniEvent::Nothing | UniEvent::End => {}
            UniEvent::Priority { stream, priority } => {
                let open =
                    StreamId::from(quinn_proto::VarInt::from_u64(stream).unwrap_or_default());
                if let Some(open) = streams.get(number(open)) {
                    open.request.set_priority(priority);
                }
            }
            UniEvent::Stop => {
                // It may have been reset meanwhile.
                let _gone = quic.recv_stream(*id).stop(var_int(ErrorCode::StreamCreationError));
                return Ok(true);
            }
        }
        if bytes.is_empty() {
            return Ok(false);
        }
    }
}
