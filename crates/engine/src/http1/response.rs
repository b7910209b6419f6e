//! Answers of HTTP/1: a head, content behind it, chunks where it has no length. Each function says
//! why not, when something cannot be queued.

use pinion_http::field::Field;
use pinion_http::h1::encode::{self, BodyLength, ConnectionFields};
use pinion_http::prepared::{ArchiveRange, Piece, Prepared, PreparedBody};
use pinion_http::status::never_has_content;

use crate::backend::Slot;
use crate::core::{Core, or_overload};
use crate::exchange::slice::Slice;
use crate::gone::Gone;
use crate::http1::{Http1, OpenExchange};
use crate::limits::COPY_BODY_MAX_BYTES;
use crate::mapping::MappingId;

/// Bytes a response head may need beside its variable parts: status line, lengths, dates, the
/// connection's own fields. Checked by a test against the longest head.
pub(crate) const HEAD_FIXED_BYTES: usize = 512;

/// Queues a whole answer.
///
/// # Errors
/// Why that is not possible.
#[inline]
pub(crate) fn prepared(
    core: &mut Core,
    slot: Slot,
    answer: &Prepared<'_>,
    mapping: Option<MappingId>,
) -> Result<(), Gone> {
    let Some(open) = exchange(core, slot) else { return Ok(()) };
    let head_only = open.state.head_only;
    let connection = connection_fields(core, slot);
    match (answer.body, mapping) {
        (_, _) if head_only => prepared_head(core, slot, answer, connection, None),
        (PreparedBody::Archive([Piece::Archive(range)]), Some(mapping))
            if range.bytes <= COPY_BODY_MAX_BYTES =>
        {
            prepared_head(core, slot, answer, connection, Some((mapping, *range)))
        }
        _ => {
            prepared_head(core, slot, answer, connection, None)?;
            queue_body(core, slot, answer.body, mapping)
        }
    }
}

fn queue_body(
    core: &mut Core,
    slot: Slot,
    body: PreparedBody<'_>,
    mapping: Option<MappingId>,
) -> Result<(), Gone> {
    let mut index = core.conns.get(slot).link.output;
    let queued = core.queue_body(&mut index, body, mapping);
    core.conns.get(slot).link.output = index;
    queued
}

/// Queues an interim response.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn interim<'f>(
    core: &mut Core,
    slot: Slot,
    status: u16,
    fields: impl Iterator<Item = Field<'f>> + Clone,
) -> Result<(), Gone> {
    let room = HEAD_FIXED_BYTES + fields_bytes(fields.clone());
    append(core, slot, room, |out| encode::interim(out, status, fields))
}

/// Queues the answer that turns the connection into a byte stream.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn switch<'f>(
    core: &mut Core,
    slot: Slot,
    fields: impl Iterator<Item = Field<'f>> + Clone,
) -> Result<(), Gone> {
    interim(core, slot, 101, fields)
}

/// Queues the head of an answer whose content follows.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn head<'f>(
    core: &mut Core,
    slot: Slot,
    status: u16,
    fields: impl Iterator<Item = Field<'f>> + Clone,
    length: Option<u64>,
) -> Result<(), Gone> {
    let bodiless = never_has_content(status);
    let Some(open) = exchange(core, slot) else { return Ok(()) };
    let http10 = open.state.http10;
    open.is_chunked = length.is_none() && !http10 && !bodiless;
    open.keep_alive &= length.is_some() || !http10;
    let body = match length {
        _ if bodiless => BodyLength::None,
        Some(bytes) => BodyLength::Length(bytes),
        None if open.is_chunked => BodyLength::Chunked,
        None => BodyLength::UntilClose,
    };
    let connection = connection_fields(core, slot);
    let (output, pool, tail) = core.output_and_tail(slot);
    let room = HEAD_FIXED_BYTES + fields_bytes(fields.clone()) + tail.len();
    or_overload(output.append(pool, room, |out| {
        encode::head(out, status, fields, body, connection, tail);
    }))
}

/// Queues content; at least one byte.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn content(core: &mut Core, slot: Slot, slice: Slice<'_>) -> Result<(), Gone> {
    if !exchange(core, slot).is_some_and(|open| open.is_chunked) {
        return core.queue_on(slot, slice);
    }
    let bytes = slice.bytes();
    append(core, slot, 32, |out| encode::chunk_prefix(out, bytes))?;
    core.queue_on(slot, slice)?;
    append(core, slot, 2, |out| out.extend_from_slice(encode::CHUNK_END))
}

/// Queues the end of an answer.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn end<'f>(
    core: &mut Core,
    slot: Slot,
    trailers: impl Iterator<Item = Field<'f>> + Clone,
) -> Result<(), Gone> {
    let is_chunked =
        exchange(core, slot).is_some_and(|open| open.is_chunked && !open.state.head_only);
    if !is_chunked {
        return Ok(());
    }
    let room = HEAD_FIXED_BYTES + fields_bytes(trailers.clone());
    append(core, slot, room, |out| encode::last_chunk(out, trailers))
}

#[inline]
fn append(
    core: &mut Core,
    slot: Slot,
    room: usize,
    write: impl FnOnce(&mut Vec<u8>),
) -> Result<(), Gone> {
    let (output, pool) = core.output(slot);
    or_overload(output.append(pool, room, write))
}

/// The exchange that is open on a connection.
#[inline]
fn exchange(core: &mut Core, slot: Slot) -> Option<&mut OpenExchange> {
    core.conns.get(slot).protocol.http1()?.exchange()
}

/// What the head says about the connection (RFC 9112 §9.3).
#[inline]
fn connection_fields(core: &mut Core, slot: Slot) -> ConnectionFields {
    let conn = core.conns.get(slot);
    let Some(open) = conn.protocol.http1().and_then(Http1::exchange) else {
        return ConnectionFields::Close;
    };
    if !open.keep_alive || open.must_end_behind_content() {
        return ConnectionFields::Close;
    }
    if !open.state.http10 {
        return ConnectionFields::Stay;
    }
    let settings = &core.settings;
    let left = |max: u32| max.saturating_sub(conn.begun);
    let max_requests = settings.requests_per_connection.map(left);
    ConnectionFields::KeepAlive { timeout_seconds: (settings.idle_ms / 1000) as u32, max_requests }
}

/// Queues the head and, in the same go, the `content` that is copied behind it.
#[inline]
fn prepared_head(
    core: &mut Core,
    slot: Slot,
    answer: &Prepared<'_>,
    connection: ConnectionFields,
    content: Option<(MappingId, ArchiveRange)>,
) -> Result<(), Gone> {
    let Core { conns, outputs, pool, mappings, tails, .. } = core;
    let conn = conns.get(slot);
    let tail = tails.line(conn.listener);
    let content = match content {
        None => Some(&b""[..]),
        Some((mapping, range)) => {
            mappings.get(mapping).and_then(|held| held.range(range.offset, range.bytes))
        }
    };
    let Some(content) = content else { return Err(Gone::Broken) };
    let room = HEAD_FIXED_BYTES + encode::prepared_bytes(answer) + tail.len() + content.len();
    or_overload(outputs.of(&mut conn.link.output).append(pool, room, |out| {
        encode::prepared(out, answer, connection, tail);
        out.extend_from_slice(content);
    }))
}

/// Bytes that fields take at most.
pub(crate) fn fields_bytes<'f>(fields: impl Iterator<Item = Field<'f>>) -> usize {
    fields.map(|field| field.name.len() + field.value.len() + 4).sum()
}
