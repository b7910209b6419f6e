//! Responses of HTTP/1: a head, content after it, chunks if it has no length. Each function returns
//! the reason if it cannot queue its output.

use pinion_http::field::Field;
use pinion_http::h1::response_encoder::{self, BodyLength, ConnectionFields};
use pinion_http::prepared_response::{ArchiveRange, Piece, Prepared, PreparedBody};
use pinion_http::status::never_has_content;

use crate::end_reason::Gone;
use crate::exchange::slice::{RangeSource, Slice};
use crate::file_mapping::MappingId;
use crate::http1::OpenExchange;
use crate::limits::COPY_BODY_MAX_BYTES;
use crate::protocol_dispatch::Sink;
use crate::worker_buffers::{Buffers, or_overload};

/// Bytes that a response head may need besides its variable parts: status line, lengths, dates, the
/// connection's own fields. A test checks them against the longest head.
pub(crate) const HEAD_FIXED_BYTES: usize = 512;

/// Queues a complete response.
///
/// # Errors
/// Returns the reason if that is not possible.
#[inline]
pub(crate) fn prepared(
    open: &OpenExchange,
    sink: &mut Sink<'_>,
    response: &Prepared<'_>,
    source: RangeSource<'_>,
) -> Result<(), Gone> {
    let connection = connection_fields(open, sink);
    match (response.body, source) {
        _ if open.state.head_only => prepared_head(sink, response, connection, None),
        (PreparedBody::Archive([Piece::Archive(range)]), RangeSource::Mapping(mapping))
            if range.bytes <= COPY_BODY_MAX_BYTES =>
        {
            prepared_head(sink, response, connection, Some((mapping, *range)))
        }
        _ => {
            prepared_head(sink, response, connection, None)?;
            sink.buffers.queue_body(&mut sink.link.output, response.body, source)
        }
    }
}

/// Queues an interim response, or the one that turns the connection into a byte stream.
///
/// # Errors
/// Returns the reason if that is not possible.
pub(crate) fn interim<'f>(
    sink: &mut Sink<'_>,
    status: u16,
    fields: impl Iterator<Item = Field<'f>> + Clone,
) -> Result<(), Gone> {
    let room = HEAD_FIXED_BYTES + fields_bytes(fields.clone());
    append(sink, room, |out| response_encoder::interim(out, status, fields))
}

/// Queues the head of a response whose content follows.
///
/// # Errors
/// Returns the reason if that is not possible.
pub(crate) fn head<'f>(
    open: &mut OpenExchange,
    sink: &mut Sink<'_>,
    status: u16,
    fields: impl Iterator<Item = Field<'f>> + Clone,
    length: Option<u64>,
) -> Result<(), Gone> {
    let bodiless = never_has_content(status);
    let http10 = open.state.http10;
    open.is_chunked = length.is_none() && !http10 && !bodiless;
    open.keep_alive &= length.is_some() || !http10;
    let body = match length {
        _ if bodiless => BodyLength::None,
        Some(bytes) => BodyLength::Length(bytes),
        None if open.is_chunked => BodyLength::Chunked,
        None => BodyLength::UntilClose,
    };
    let connection = connection_fields(open, sink);
    let tail = sink.tails.line(sink.listener);
    let room = HEAD_FIXED_BYTES + fields_bytes(fields.clone()) + tail.len();
    append(sink, room, |out| response_encoder::head(out, status, fields, body, connection, tail))
}

/// Queues content; at least one byte.
///
/// # Errors
/// Returns the reason if that is not possible.
pub(crate) fn content(
    open: &OpenExchange,
    sink: &mut Sink<'_>,
    slice: Slice<'_>,
) -> Result<(), Gone> {
    if !open.is_chunked {
        return sink.buffers.queue(&mut sink.link.output, slice);
    }
    let bytes = slice.bytes();
    append(sink, 32, |out| response_encoder::chunk_prefix(out, bytes))?;
    sink.buffers.queue(&mut sink.link.output, slice)?;
    append(sink, 2, |out| out.extend_from_slice(response_encoder::CHUNK_END))
}

/// Queues the end of a response.
///
/// # Errors
/// Returns the reason if that is not possible.
pub(crate) fn end<'f>(
    open: &OpenExchange,
    sink: &mut Sink<'_>,
    trailers: impl Iterator<Item = Field<'f>> + Clone,
) -> Result<(), Gone> {
    if !open.is_chunked || open.state.head_only {
        return Ok(());
    }
    let room = HEAD_FIXED_BYTES + fields_bytes(trailers.clone());
    append(sink, room, |out| response_encoder::last_chunk(out, trailers))
}

#[inline]
fn append(sink: &mut Sink<'_>, room: usize, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Gone> {
    let Buffers { outputs, pool, .. } = &mut *sink.buffers;
    or_overload(outputs.of(&mut sink.link.output).append(pool, room, write))
}

/// Returns the fields of the head about the connection (RFC 9112 §9.3).
#[inline]
fn connection_fields(open: &OpenExchange, sink: &Sink<'_>) -> ConnectionFields {
    if !open.keep_alive || open.must_end_behind_content() {
        return ConnectionFields::Close;
    }
    if !open.state.http10 {
        return ConnectionFields::Stay;
    }
    let left = |max: u32| max.saturating_sub(sink.exchanges_begun);
    let max_requests = sink.settings.requests_per_connection.map(left);
    let timeout_seconds = (sink.settings.idle_ms / 1000) as u32;
    ConnectionFields::KeepAlive { timeout_seconds, max_requests }
}

/// Queues the head and, in the same chunk, the `content` that is copied after it.
#[inline]
fn prepared_head(
    sink: &mut Sink<'_>,
    response: &Prepared<'_>,
    connection: ConnectionFields,
    content: Option<(MappingId, ArchiveRange)>,
) -> Result<(), Gone> {
    let Buffers { outputs, pool, mappings, .. } = &mut *sink.buffers;
    let tail = sink.tails.line(sink.listener);
    let content = match content {
        None => Some(&b""[..]),
        Some((mapping, range)) => {
            mappings.get(mapping).and_then(|held| held.range(range.offset, range.bytes))
        }
    };
    let Some(content) = content else { return Err(Gone::Broken) };
    let room =
        HEAD_FIXED_BYTES + response_encoder::prepared_bytes(response) + tail.len() + content.len();
    or_overload(outputs.of(&mut sink.link.output).append(pool, room, |out| {
        response_encoder::prepared(out, response, connection, tail);
        out.extend_from_slice(content);
    }))
}

/// Returns the maximum number of bytes that fields take.
pub(crate) fn fields_bytes<'f>(fields: impl Iterator<Item = Field<'f>>) -> usize {
    fields.map(|field| field.name.len() + field.value.len() + 4).sum()
}
