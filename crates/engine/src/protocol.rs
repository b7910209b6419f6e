//! What every protocol does, and which one does it: input that is used, and the parts of a response
//! that are queued. Everywhere else a protocol is one of several.

use pinion_http::field::Field;
use pinion_http::prepared::Prepared;

use crate::app::App;
use crate::backend::Slot;
use crate::conn::Protocol;
use crate::core::Core;
use crate::exchange::{Carrier, Slice};
use crate::gone::Gone;
use crate::http1::{self, Http1};
use crate::http2;
use crate::http3;
use crate::linger;
use crate::many::Many;
use crate::mapping::MappingId;
use crate::preface;
use crate::raw;

/// Uses as much of `input` as the connection can take now; returns how many bytes that was. The
/// rest waits in the stash: an incomplete head, or what comes behind an answer that is not ready.
#[inline]
pub(crate) fn drive<A: App>(app: &mut A, core: &mut Core, slot: Slot, input: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let rest = &input[at..];
        let protocol = &core.conns.get(slot).protocol;
        let before = protocol.phase();
        let used = match protocol {
            Protocol::Http1(Http1::Head { .. }) => http1::request(app, core, slot, rest),
            Protocol::Http1(_) => http1::body(app, core, slot, rest),
            Protocol::Preface => {
                preface::look(app, core, slot, rest);
                0
            }
            Protocol::Many(Many::Http2(_)) => http2::drive(app, core, slot, rest),
            Protocol::Raw(_) => raw::input(app, core, slot, rest),
            Protocol::Linger(_) => {
                linger::drop_input(core, slot, rest.len());
                return input.len();
            }
            Protocol::Handshake | Protocol::Many(Many::Http3(_)) => return at,
            Protocol::Closing => return input.len(),
        };
        at += used;
        let conn = core.conns.get(slot);
        if conn.link.cut.is_some() {
            return input.len();
        }
        if used == 0 && conn.protocol.phase() == before {
            return at;
        }
    }
}

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
            http1::answer::prepared(core, slot, answer, mapping)
        }
        (Protocol::Many(Many::Http2(_)), Carrier::Stream(id)) => {
            http2::answer::prepared(core, slot, id, answer, mapping)
        }
        (Protocol::Many(Many::Http3(_)), Carrier::Stream(id)) => {
            http3::answer::prepared(core, slot, id, answer, mapping)
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
            http1::answer::interim(core, slot, status, fields)
        }
        (Protocol::Many(Many::Http2(_)), Carrier::Stream(id)) => {
            http2::answer::interim(core, slot, id, status, fields)
        }
        (Protocol::Many(Many::Http3(_)), Carrier::Stream(id)) => {
            http3::answer::interim(core, slot, id, status, fields)
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
            http1::answer::head(core, slot, status, fields, length)
        }
        (Protocol::Many(Many::Http2(_)), Carrier::Stream(id)) => {
            http2::answer::head(core, slot, id, status, fields, length)
        }
        (Protocol::Many(Many::Http3(_)), Carrier::Stream(id)) => {
            http3::answer::head(core, slot, id, status, fields, length)
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
        (Protocol::Http1(_), Carrier::Connection) => http1::answer::content(core, slot, slice),
        (Protocol::Many(Many::Http2(_)), Carrier::Stream(id)) => {
            http2::answer::content(core, slot, id, slice)
        }
        (Protocol::Many(Many::Http3(_)), Carrier::Stream(id)) => {
            http3::answer::content(core, slot, id, slice)
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
        (Protocol::Http1(_), Carrier::Connection) => http1::answer::end(core, slot, trailers),
        (Protocol::Many(Many::Http2(_)), Carrier::Stream(id)) => {
            http2::answer::end(core, slot, id, trailers)
        }
        (Protocol::Many(Many::Http3(_)), Carrier::Stream(id)) => {
            http3::answer::end(core, slot, id, trailers)
        }
        _ => Ok(()),
    }
}
