//! Responses of HTTP/3: frames in the queue of their stream, from there to QUIC. Each function
//! returns the reason if it cannot queue its output.

use pinion_http::field::Field;
use pinion_http::h3::send;
use pinion_http::prepared_response::{Piece, Prepared, PreparedBody};
use pinion_http::qpack::dynamic_encoder::Encoder;
use pinion_http::qpack::static_encoder;

use super::Http3;
use crate::end_reason::Gone;
use crate::exchange::slice::{RangeSource, Slice};
use crate::http1::response::{HEAD_FIXED_BYTES, fields_bytes};
use crate::multiplexed::no_stream;
use crate::protocol_dispatch::Sink;
use crate::worker_buffers::{Buffers, or_overload};

/// Queues a complete response.
///
/// # Errors
/// Returns the reason if that is not possible.
pub(crate) fn prepared(
    http3: &mut Http3,
    number: u32,
    sink: &mut Sink<'_>,
    response: &Prepared<'_>,
    source: RangeSource<'_>,
) -> Result<(), Gone> {
    let tail = sink.tails.qpack(sink.listener);
    on_stream(http3, number, sink, |buffers, (index, head_only), (encoder, stream)| {
        let content_bytes = match response.body {
            _ if head_only => 0,
            PreparedBody::None => 0,
            PreparedBody::Bytes(bytes) => bytes.len() as u64,
            PreparedBody::Archive(pieces) => pieces.iter().map(Piece::bytes).sum(),
        };
        let room = HEAD_FIXED_BYTES + static_encoder::prepared_bytes(response) + tail.all.len();
        append(buffers, index, room, |out| {
            send::head(out, |section| encoder.prepared(stream, section, response, tail));
            if content_bytes > 0 {
                send::data(out, content_bytes);
            }
        })?;
        if content_bytes == 0 { Ok(()) } else { buffers.queue_body(index, response.body, source) }
    })
}

/// Queues an interim response.
///
/// # Errors
/// Returns the reason if that is not possible.
pub(crate) fn interim<'f>(
    http3: &mut Http3,
    number: u32,
    sink: &mut Sink<'_>,
    status: u16,
    fields: impl Iterator<Item = Field<'f>> + Clone,
) -> Result<(), Gone> {
    let room = HEAD_FIXED_BYTES + fields_bytes(fields.clone());
    on_stream(http3, number, sink, |buffers, (index, _), _| {
        append(buffers, index, room, |out| {
            send::head(out, |section| static_encoder::interim(section, status, fields));
        })
    })
}

/// Queues the head of a response whose content follows.
///
/// # Errors
/// Returns the reason if that is not possible.
pub(crate) fn head<'f>(
    http3: &mut Http3,
    number: u32,
    sink: &mut Sink<'_>,
    status: u16,
    fields: impl Iterator<Item = Field<'f>> + Clone,
    length: Option<u64>,
) -> Result<(), Gone> {
    let tail = sink.tails.qpack(sink.listener);
    let room = HEAD_FIXED_BYTES + fields_bytes(fields.clone()) + tail.all.len();
    on_stream(http3, number, sink, |buffers, (index, _), (encoder, stream)| {
        append(buffers, index, room, |out| {
            send::head(out, |section| {
                encoder.head(stream, section, (status, length), fields, tail);
            });
        })
    })
}

/// Queues content; at least one byte.
///
/// # Errors
/// Returns the reason if that is not possible.
pub(crate) fn content(
    http3: &mut Http3,
    number: u32,
    sink: &mut Sink<'_>,
    slice: Slice<'_>,
) -> Result<(), Gone> {
    let bytes = slice.bytes();
    on_stream(http3, number, sink, |buffers, (index, _), _| {
        let Buffers { outputs, pool, .. } = &mut *buffers;
        let framed = outputs.of(index).append_small(pool, 16, |out| send::data(out, bytes));
        or_overload(framed)?;
        buffers.queue(index, slice)
    })
}

/// Queues the trailers after the content, if there are any.
///
/// # Errors
/// Returns the reason if that is not possible.
pub(crate) fn end<'f>(
    http3: &mut Http3,
    number: u32,
    sink: &mut Sink<'_>,
    trailers: impl Iterator<Item = Field<'f>> + Clone,
) -> Result<(), Gone> {
    if trailers.clone().next().is_none() {
        return Ok(());
    }
    let room = HEAD_FIXED_BYTES + fields_bytes(trailers.clone());
    on_stream(http3, number, sink, |buffers, (index, head_only), _| {
        // There is no content after which they could be sent (RFC 9110 §6.5).
        if head_only {
            return Ok(());
        }
        append(buffers, index, room, |out| {
            send::trailers(out, |section| static_encoder::trailers(section, trailers));
        })
    })
}

fn append(
    buffers: &mut Buffers,
    index: &mut u32,
    room: usize,
    write: impl FnOnce(&mut Vec<u8>),
) -> Result<(), Gone> {
    let Buffers { outputs, pool, .. } = buffers;
    or_overload(outputs.of(index).append(pool, room, write))
}

/// Queues output on a stream; `queue` gets its queue, whether the request was HEAD, the encoder of
/// the connection, and the number that QUIC has for the stream.
///
/// # Errors
/// Returns the reason if that is not possible.
fn on_stream(
    http3: &mut Http3,
    number: u32,
    sink: &mut Sink<'_>,
    queue: impl FnOnce(&mut Buffers, (&mut u32, bool), (&mut Encoder, u64)) -> Result<(), Gone>,
) -> Result<(), Gone> {
    let Http3 { streams, queued_bytes, session, .. } = http3;
    let open = streams.get(number).ok_or_else(no_stream)?;
    let (id, stream) = (u64::from(open.id), &mut open.own);
    let before = sink.buffers.outputs.bytes(stream.output);
    let place = (&mut stream.output, stream.state.head_only);
    let queued = queue(sink.buffers, place, (session.encoder(), id));
    let bytes = sink.buffers.outputs.bytes(stream.output);
    sink.link.owes_sent |= bytes > before;
    *queued_bytes = *queued_bytes + bytes - before;
    queued
}
