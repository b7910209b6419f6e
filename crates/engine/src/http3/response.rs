//! Answers of HTTP/3: frames in the queue of their stream, from there to QUIC. Each function says
//! why not, when something cannot be queued.

use pinion_http::field::Field;
use pinion_http::h3::send;
use pinion_http::prepared::{Piece, Prepared, PreparedBody};
use pinion_http::qpack::encode;

use crate::backend::Slot;
use crate::core::{Core, or_overload};
use crate::exchange::slice::Slice;
use crate::gone::Gone;
use crate::http1::response::{HEAD_FIXED_BYTES, fields_bytes};
use crate::mapping::MappingId;

/// Queues a whole answer.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn prepared(
    core: &mut Core,
    slot: Slot,
    number: u32,
    answer: &Prepared<'_>,
    mapping: Option<MappingId>,
) -> Result<(), Gone> {
    let listener = core.conns.get(slot).listener;
    on_stream(core, slot, number, |core, index, head_only| {
        let tail = core.tails.qpack(listener);
        let content_bytes = match answer.body {
            _ if head_only => 0,
            PreparedBody::None => 0,
            PreparedBody::Bytes(bytes) => bytes.len() as u64,
            PreparedBody::Archive(pieces) => pieces.iter().map(Piece::bytes).sum(),
        };
        let room = HEAD_FIXED_BYTES + encode::prepared_bytes(answer) + tail.len();
        let wrote = core.outputs.of(index).append(&mut core.pool, room, |out| {
            send::head(out, |section| encode::prepared(section, answer, tail));
            if content_bytes > 0 {
                send::data(out, content_bytes);
            }
        });
        or_overload(wrote)?;
        if content_bytes == 0 { Ok(()) } else { core.queue_body(index, answer.body, mapping) }
    })
    .unwrap_or(Ok(()))
}

/// Queues an interim response.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn interim<'f>(
    core: &mut Core,
    slot: Slot,
    number: u32,
    status: u16,
    fields: impl Iterator<Item = Field<'f>> + Clone,
) -> Result<(), Gone> {
    let room = HEAD_FIXED_BYTES + fields_bytes(fields.clone());
    append(core, slot, number, room, |out| {
        send::head(out, |section| encode::interim(section, status, fields));
    })
}

/// Queues the head of an answer whose content follows.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn head<'f>(
    core: &mut Core,
    slot: Slot,
    number: u32,
    status: u16,
    fields: impl Iterator<Item = Field<'f>> + Clone,
    length: Option<u64>,
) -> Result<(), Gone> {
    let listener = core.conns.get(slot).listener;
    on_stream(core, slot, number, |core, index, _| {
        let tail = core.tails.qpack(listener);
        let room = HEAD_FIXED_BYTES + fields_bytes(fields.clone()) + tail.len();
        or_overload(core.outputs.of(index).append(&mut core.pool, room, |out| {
            send::head(out, |section| encode::head(section, status, fields, length, tail));
        }))
    })
    .unwrap_or(Ok(()))
}

/// Queues content; at least one byte.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn content(
    core: &mut Core,
    slot: Slot,
    number: u32,
    slice: Slice<'_>,
) -> Result<(), Gone> {
    let bytes = slice.bytes();
    on_stream(core, slot, number, |core, index, _| {
        let framed = core.outputs.of(index).append_small(&mut core.pool, 16, |out| {
            send::data(out, bytes);
        });
        or_overload(framed)?;
        core.queue(index, slice)
    })
    .unwrap_or(Ok(()))
}

/// Queues the fields behind the content, if there are any.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn end<'f>(
    core: &mut Core,
    slot: Slot,
    number: u32,
    trailers: impl Iterator<Item = Field<'f>> + Clone,
) -> Result<(), Gone> {
    if trailers.clone().next().is_none() {
        return Ok(());
    }
    let room = HEAD_FIXED_BYTES + fields_bytes(trailers.clone());
    append(core, slot, number, room, |out| {
        send::trailers(out, |section| encode::trailers(section, trailers));
    })
}

fn append(
    core: &mut Core,
    slot: Slot,
    number: u32,
    room: usize,
    write: impl FnOnce(&mut Vec<u8>),
) -> Result<(), Gone> {
    on_stream(core, slot, number, |core, index, _| {
        or_overload(core.outputs.of(index).append(&mut core.pool, room, write))
    })
    .unwrap_or(Ok(()))
}

/// Does something with the queue of a stream; `None` when there is no such stream.
fn on_stream<R>(
    core: &mut Core,
    slot: Slot,
    number: u32,
    act: impl FnOnce(&mut Core, &mut u32, bool) -> R,
) -> Option<R> {
    let own = &core.conns.get(slot).http3()?.streams.get(number)?.own;
    let (mut index, head_only) = (own.output, own.state.head_only);
    let before = core.outputs.bytes(index);
    let result = act(core, &mut index, head_only);
    let bytes = core.outputs.bytes(index);
    let conn = core.conns.get(slot);
    conn.link.owes_sent |= bytes > before;
    let http3 = conn.http3()?;
    http3.queued_bytes = http3.queued_bytes + bytes - before;
    http3.streams.get(number)?.own.output = index;
    Some(result)
}
