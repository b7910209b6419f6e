//! Responses of HTTP/2: a head, and content after it in frames as the windows allow. Each function
//! returns the reason if it cannot queue its output.

use pinion_http::field::Field;
use pinion_http::hpack::static_encoder;
use pinion_http::prepared_response::{Piece, Prepared, PreparedBody};

use super::Http2;
use crate::end_reason::Gone;
use crate::exchange::slice::{RangeSource, Slice};
use crate::file_mapping::{Mapping, Mappings};
use crate::http1::response::{HEAD_FIXED_BYTES, fields_bytes};
use crate::limits::{COPY_BODY_MAX_BYTES, FRAMED_MAX_BYTES};
use crate::multiplexed::no_stream;
use crate::protocol_dispatch::Sink;
use crate::worker_buffers::{Buffers, or_overload};

/// Queues a complete response.
///
/// # Errors
/// Returns the reason if that is not possible.
#[inline]
pub(crate) fn prepared(
    http2: &mut Http2,
    id: u32,
    sink: &mut Sink<'_>,
    response: &Prepared<'_>,
    source: RangeSource<'_>,
) -> Result<(), Gone> {
    let Buffers { outputs, pool, mappings, .. } = &mut *sink.buffers;
    let tail = sink.tails.hpack(sink.listener);
    let session = &mut http2.session;
    let stream = session.own(id).ok_or_else(no_stream)?;
    let bodiless = stream.state.head_only || matches!(response.body, PreparedBody::None);
    let content = if bodiless { Some(&b""[..]) } else { short(response.body, source, mappings) };
    let output = outputs.of(&mut sink.link.output);
    // Output that waits on other streams may be more urgent.
    let fits =
        |bytes: usize| bytes == 0 || bytes <= session.room(id) && output.bytes < FRAMED_MAX_BYTES;
    let content = content.filter(|content| fits(content.len()));
    let fixed_bytes = HEAD_FIXED_BYTES + static_encoder::prepared_bytes(response) + tail.all.len();
    let room = fixed_bytes + content.map_or(0, <[u8]>::len);
    let head_ends = content.is_some_and(<[u8]>::is_empty);
    let wrote = output.append(pool, room, |out| {
        session.head(id, head_ends, out, |encoder, block| {
            encoder.prepared(block, response, tail);
        });
        if let Some(content) = content.filter(|content| !content.is_empty()) {
            session.data(id, content.len(), true, out);
            out.extend_from_slice(content);
        }
    });
    or_overload(wrote)?;
    if content.is_some() {
        return Ok(());
    }
    on_stream(http2, id, sink, |buffers, index| buffers.queue_body(index, response.body, source))
}

/// Returns content that is cheaper to copy than to queue, if it is contiguous.
fn short<'a>(
    body: PreparedBody<'a>,
    source: RangeSource<'_>,
    mappings: &'a Mappings,
) -> Option<&'a [u8]> {
    let content = match body {
        PreparedBody::None => b"",
        PreparedBody::Bytes(bytes) => bytes,
        PreparedBody::Archive([Piece::Archive(range)]) if range.bytes <= COPY_BODY_MAX_BYTES => {
            let RangeSource::Mapping(mapping) = source else { return None };
            let held: &Mapping = mappings.get(mapping)?;
            held.range(range.offset, range.bytes)?
        }
        PreparedBody::Archive(_) => return None,
    };
    (content.len() as u64 <= COPY_BODY_MAX_BYTES).then_some(content)
}

/// Queues output on a stream.
///
/// # Errors
/// Returns the reason if that is not possible.
fn on_stream(
    http2: &mut Http2,
    id: u32,
    sink: &mut Sink<'_>,
    queue: impl FnOnce(&mut Buffers, &mut u32) -> Result<(), Gone>,
) -> Result<(), Gone> {
    let Http2 { session, queued_bytes, .. } = http2;
    let stream = session.own(id).ok_or_else(no_stream)?;
    let before = sink.buffers.outputs.bytes(stream.output);
    let queued = queue(sink.buffers, &mut stream.output);
    let bytes = sink.buffers.outputs.bytes(stream.output);
    *queued_bytes = *queued_bytes + bytes - before;
    session.set_ready(id, bytes > 0);
    queued
}

/// Queues an interim response.
///
/// # Errors
/// Returns the reason if that is not possible.
pub(crate) fn interim<'f>(
    http2: &mut Http2,
    id: u32,
    sink: &mut Sink<'_>,
    status: u16,
    fields: impl Iterator<Item = Field<'f>> + Clone,
) -> Result<(), Gone> {
    let Buffers { outputs, pool, .. } = &mut *sink.buffers;
    let room = HEAD_FIXED_BYTES + fields_bytes(fields.clone());
    or_overload(outputs.of(&mut sink.link.output).append(pool, room, |out| {
        http2
            .session
            .head(id, false, out, |_, block| static_encoder::interim(block, status, fields));
    }))
}

/// Queues the head of a response whose content follows.
///
/// # Errors
/// Returns the reason if that is not possible.
pub(crate) fn head<'f>(
    http2: &mut Http2,
    id: u32,
    sink: &mut Sink<'_>,
    status: u16,
    fields: impl Iterator<Item = Field<'f>> + Clone,
    length: Option<u64>,
) -> Result<(), Gone> {
    let Buffers { outputs, pool, .. } = &mut *sink.buffers;
    let tail = sink.tails.hpack(sink.listener);
    let room = HEAD_FIXED_BYTES + fields_bytes(fields.clone()) + tail.all.len();
    or_overload(outputs.of(&mut sink.link.output).append(pool, room, |out| {
        http2.session.head(id, false, out, |encoder, block| {
            encoder.head(block, status, fields, length, tail);
        });
    }))
}

/// Queues content; at least one byte.
///
/// # Errors
/// Returns the reason if that is not possible.
pub(crate) fn content(
    http2: &mut Http2,
    id: u32,
    sink: &mut Sink<'_>,
    slice: Slice<'_>,
) -> Result<(), Gone> {
    on_stream(http2, id, sink, |buffers, index| buffers.queue(index, slice))
}

/// Marks the end of a response, after its queued part.
///
/// # Errors
/// Returns the reason if that is not possible.
pub(crate) fn end<'f>(
    http2: &mut Http2,
    id: u32,
    trailers: impl Iterator<Item = Field<'f>> + Clone,
) -> Result<(), Gone> {
    let stream = http2.session.own(id).ok_or_else(no_stream)?;
    if !stream.state.head_only && trailers.clone().next().is_some() {
        let mut block = Vec::new();
        static_encoder::trailers(&mut block, trailers);
        stream.trailers = (!block.is_empty()).then_some(block);
    }
    Ok(())
}
