//! What every protocol does, and which one does it: input that is used, and the parts of a response
//! that are queued. Everywhere else a protocol is one of several.

use pinion_http::field::Field;
use pinion_http::prepared::Prepared;

use crate::backend::Slot;
use crate::conn::Protocol;
use crate::core::Core;
use crate::exchange::slice::Slice;
use crate::exchange::state::Carrier;
use crate::gone::Gone;
use crate::http1;
use crate::http2;
use crate::http3;
use crate::many::Many;
use crate::mapping::MappingId;

/// Queues a whole response.
///
/// # Errors
/// Why that is not possible.
#[inline]
pub(crate) fn prepared(
    core: &mut Core,
    slot: Slot,
    carrier: Carrier,
    answer: &Prepared<'_>,
    mapping: Option<MappingId>,
) -> Result<(), Gone> {
    match (&core.conns.get(slot).protocol, carrier) {
        (Protocol::Http1(_), Carrier::Connection) => {
            http1::response::prepared(core, slot, answer, mapping)
        }
        (Protocol::Many(Many::Http2(_)), Carrier::Stream(id)) => {
            http2::response::prepared(core, slot, id, answer, mapping)
        }
        (Protocol::Many(Many::Http3(_)), Carrier::Stream(id)) => {
            http3::response::prepared(core, slot, id, answer, mapping)
        }
        _ => Ok(()),
    }
}

/// Queues an interim response.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn interim<'f>(
    core: &mut Core,
    slot: Slot,
    carrier: Carrier,
    status: u16,
    fields: impl Iterator<Item = Field<'f>> + Clone,
) -> Result<(), Gone> {
    match (&core.conns.get(slot).protocol, carrier) {
        (Protocol::Http1(_), Carrier::Connection) => {
            http1::response::interim(core, slot, status, fields)
        }
        (Protocol::Many(Many::Http2(_)), Carrier::Stream(id)) => {
            http2::response::interim(core, slot, id, status, fields)
        }
        (Protocol::Many(Many::Http3(_)), Carrier::Stream(id)) => {
            http3::response::interim(core, slot, id, status, fields)
        }
        _ => Ok(()),
    }
}

/// Queues the head of a response whose content follows.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn head<'f>(
    core: &mut Core,
    slot: Slot,
    carrier: Carrier,
    status: u16,
    fields: impl Iterator<Item = Field<'f>> + Clone,
    length: Option<u64>,
) -> Result<(), Gone> {
    match (&core.conns.get(slot).protocol, carrier) {
        (Protocol::Http1(_), Carrier::Connection) => {
            http1::response::head(core, slot, status, fields, length)
        }
        (Protocol::Many(Many::Http2(_)), Carrier::Stream(id)) => {
            http2::response::head(core, slot, id, status, fields, length)
        }
        (Protocol::Many(Many::Http3(_)), Carrier::Stream(id)) => {
            http3::response::head(core, slot, id, status, fields, length)
        }
        _ => Ok(()),
    }
}

/// Queues content; at least one byte.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn content(
    core: &mut Core,
    slot: Slot,
    carrier: Carrier,
    slice: Slice<'_>,
) -> Result<(), Gone> {
    match (&core.conns.get(slot).protocol, carrier) {
        (Protocol::Http1(_), Carrier::Connection) => http1::response::content(core, slot, slice),
        (Protocol::Many(Many::Http2(_)), Carrier::Stream(id)) => {
            http2::response::content(core, slot, id, slice)
        }
        (Protocol::Many(Many::Http3(_)), Carrier::Stream(id)) => {
            http3::response::content(core, slot, id, slice)
        }
        _ => Ok(()),
    }
}

/// Marks the end of a response, behind what is queued.
///
/// # Errors
/// Why that is not possible.
pub(crate) fn end<'f>(
    core: &mut Core,
    slot: Slot,
    carrier: Carrier,
    trailers: impl Iterator<Item = Field<'f>> + Clone,
) -> Result<(), Gone> {
    match (&core.conns.get(slot).protocol, carrier) {
        (Protocol::Http1(_), Carrier::Connection) => http1::response::end(core, slot, trailers),
        (Protocol::Many(Many::Http2(_)), Carrier::Stream(id)) => {
            http2::response::end(core, slot, id, trailers)
        }
        (Protocol::Many(Many::Http3(_)), Carrier::Stream(id)) => {
            http3::response::end(core, slot, id, trailers)
        }
        _ => Ok(()),
    }
}
