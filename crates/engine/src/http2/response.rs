//! Answers of HTTP/2: a head, content behind it in frames as the windows allow. Each function says
//! why not, when something cannot be queued.

use pinion_http::field::Field;
use pinion_http::hpack::encode;
use pinion_http::prepared::{Piece, Prepared, PreparedBody};

use super::Http2;
use crate::backend::Slot;
use crate::conn::Conn;
use crate::core::{Core, or_overload};
use crate::exchange::slice::Slice;
use crate::gone::Gone;
use crate::http1::response::{HEAD_FIXED_BYTES, fields_bytes};
use crate::limits::{COPY_BODY_MAX_BYTES, FRAMED_MAX_BYTES};
use crate::mapping::{Mapping, MappingId, Mappings};

/// Queues a whole answer.
///
/// # Errors
/// Why that is not possible.
#[inline]
pub(crate) fn prepared(
    core: &mut Core,
    slot: Slot,
    id: u32,
    answer: &Prepared<'_>,
    mapping: Option<MappingId>,
) -> Result<(), Gone> {
    let Core { conns, outputs, pool, mappings, tails, .. } = core;
    let Conn { link, protocol, listener, .. } = conns.get(slot);
    let (index, Some(http2)) = (&mut link.output, protocol.http2()) else { return Ok(()) };
    let tail = tails.hpack(*listener);
    let Http2 { session, .. } = http2;
    let Some(stream) = session.own(id) else { return Ok(()) };
    let bodiless = stream.state.head_only || matches!(answer.body, PreparedBody::None);
    let content = if bodiless { Some(&b""[..]) } else { short(answer.body, mapping, mappings) };
    let output = outputs.of(index);
    // What waits on other streams may be more urgent.
    let fits =
        |bytes: usize| bytes == 0 || bytes <= session.room(id) && output.bytes < FRAMED_MAX_BYTES;
    let content = content.filter(|content| fits(content.len()));
    let fixed_bytes = HEAD_FIXED_BYTES + encode::prepared_bytes(answer) + tail.len();
    let room = fixed_bytes + content.map_or(0, <[u8]>::len);
    let head_ends = content.is_some_and(<[u8]>::is_empty);
    let wrote = output.append(pool, room, |out| {
        session.head(id, head_ends, out, |block| encode::prepared(block, answer, tail));
        if let Some(content) = content.filter(|content| !content.is_empty()) {
            session.data(id, content.len(), true, out);
            out.extend_from_slice(content);
        }
    });
    or_overload(wrote)?;
    match content {
        Some(_) => Ok(()),
        None => queue_body(core, slot, id, answer.body, mapping),
    }
}

/// Content that is cheaper to copy than to queue, if it is all in one place.
fn short<'a>(
    body: PreparedBody<'a>,
    mapping: Option<MappingId>,
    mappings: &'a Mappings,
) -> Option<&'a [u8]> {
    let content = match body {
        PreparedBody::None => b"",
        PreparedBody::Bytes(bytes) => bytes,
        PreparedBody::Archive([Piece::Archive(range)]) if range.bytes <= COPY_BODY_MAX_BYTES => {
            let held: &Mapping = mappings.get(mapping?)?;
            held.range(range.offset, range.bytes)?
        }
        PreparedBody::Archive(_) => return None,
    };
    (content.len() as u64 <= COPY_BODY_MAX_BYTES).then_some(content)
}

/// Queues the content of a prepared answer on its stream.
fn queue_body(
    core: &mut Core,
    slot: Slot,
    id: u32,
    body: PreparedBody<'_>,
    mapping: Option<MappingId>,
) -> Result<(), Gone> {
    on_stream(core, slot, id, |core, index| core.queue_body(index, body, mapping)).unwrap_or(Ok(()))
}

/// Does something with the queue of a stream; `None` when there is no such stream.
fn on_stream<R>(
    core: &mut Core,
    slot: Slot,
    id: u32,
    act: impl FnOnce(&mut Core, &mut u32) -> R,
) -> Option<R> {
    let mut index = core.conns.get(slot).http2()?.session.own(id)?.output;
    let before = core.outputs.bytes(index);
    let result = act(core, &mut index);
    let bytes = core.outputs.bytes(index);
    let http2 = core.conns.get(slot).http2()?;
    http2.queued_bytes = http2.queued_bytes + bytes - before;
    http2.session.own(id)?.output = index;
    http2.session.set_ready(id, bytes > 0);
    Some(result)
}

/// Queues an interim response.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn interim<'f>(
    core: &mut Core,
    slot: Slot,
    id: u32,
    status: u16,
    fields: impl Iterator<Item = Field<'f>> + Clone,
) -> Result<(), Gone> {
    let room = HEAD_FIXED_BYTES + fields_bytes(fields.clone());
    append(core, slot, room, |http2, out| {
        http2.session.head(id, false, out, |block| encode::interim(block, status, fields));
    })
}

/// Queues the head of an answer whose content follows.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn head<'f>(
    core: &mut Core,
    slot: Slot,
    id: u32,
    status: u16,
    fields: impl Iterator<Item = Field<'f>> + Clone,
    length: Option<u64>,
) -> Result<(), Gone> {
    let Core { conns, outputs, pool, tails, .. } = core;
    let Conn { link, protocol, listener, .. } = conns.get(slot);
    let (index, Some(http2)) = (&mut link.output, protocol.http2()) else { return Ok(()) };
    let tail = tails.hpack(*listener);
    let room = HEAD_FIXED_BYTES + fields_bytes(fields.clone()) + tail.len();
    or_overload(outputs.of(index).append(pool, room, |out| {
        http2.session.head(id, false, out, |block| {
            encode::head(block, status, fields, length, tail);
        });
    }))
}

/// Queues content; at least one byte.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn content(core: &mut Core, slot: Slot, id: u32, slice: Slice<'_>) -> Result<(), Gone> {
    on_stream(core, slot, id, |core, index| core.queue(index, slice)).unwrap_or(Ok(()))
}

/// Marks the end of an answer, behind what is queued.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn end<'f>(
    core: &mut Core,
    slot: Slot,
    id: u32,
    trailers: impl Iterator<Item = Field<'f>> + Clone,
) -> Result<(), Gone> {
    let Some(http2) = core.conns.get(slot).http2() else { return Ok(()) };
    let Some(stream) = http2.session.own(id) else { return Ok(()) };
    if !stream.state.head_only && trailers.clone().next().is_some() {
        let mut block = Vec::new();
        encode::trailers(&mut block, trailers);
        stream.trailers = (!block.is_empty()).then_some(block);
    }
    Ok(())
}

/// Queues frames.
///
/// # Errors
/// Why that is not possible.
pub(super) fn append(
    core: &mut Core,
    slot: Slot,
    room: usize,
    write: impl FnOnce(&mut Http2, &mut Vec<u8>),
) -> Result<(), Gone> {
    let Core { conns, outputs, pool, .. } = core;
    let Conn { link, protocol, .. } = conns.get(slot);
    let Some(http2) = protocol.http2() else { return Ok(()) };
    or_overload(outputs.of(&mut link.output).append(pool, room, |out| write(http2, out)))
}
