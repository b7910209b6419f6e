//! The parts of a response, queued in the form of the protocol that carries its exchange.

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

/// The protocol that carries an exchange.
enum Route {
    Http1,
    /// With the number of the stream.
    Http2(u32),
    /// With the number of the stream.
    Http3(u32),
}

/// Returns what carries an exchange.
///
/// # Errors
/// When its connection has ended: nothing can be sent any more.
#[inline]
fn route(core: &mut Core, slot: Slot, carrier: Carrier) -> Result<Route, Gone> {
    match (&core.conns.get(slot).protocol, carrier) {
        (Protocol::Http1(_), Carrier::Connection) => Ok(Route::Http1),
        (Protocol::Many(Many::Http2(_)), Carrier::Stream(id)) => Ok(Route::Http2(id)),
        (Protocol::Many(Many::Http3(_)), Carrier::Stream(id)) => Ok(Route::Http3(id)),
        (protocol, _) => {
            let has_ended = matches!(protocol, Protocol::Linger(_) | Protocol::Closing);
            debug_assert!(has_ended, "a protocol carries its own exchanges alone");
            Err(Gone::Peer)
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
    response: &Prepared<'_>,
    mapping: Option<MappingId>,
) -> Result<(), Gone> {
    match route(core, slot, carrier)? {
        Route::Http1 => http1::response::prepared(core, slot, response, mapping),
        Route::Http2(id) => http2::response::prepared(core, slot, id, response, mapping),
        Route::Http3(id) => http3::response::prepared(core, slot, id, response, mapping),
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
    match route(core, slot, carrier)? {
        Route::Http1 => http1::response::interim(core, slot, status, fields),
        Route::Http2(id) => http2::response::interim(core, slot, id, status, fields),
        Route::Http3(id) => http3::response::interim(core, slot, id, status, fields),
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
    match route(core, slot, carrier)? {
        Route::Http1 => http1::response::head(core, slot, status, fields, length),
        Route::Http2(id) => http2::response::head(core, slot, id, status, fields, length),
        Route::Http3(id) => http3::response::head(core, slot, id, status, fields, length),
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
    match route(core, slot, carrier)? {
        Route::Http1 => http1::response::content(core, slot, slice),
        Route::Http2(id) => http2::response::content(core, slot, id, slice),
        Route::Http3(id) => http3::response::content(core, slot, id, slice),
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
    match route(core, slot, carrier)? {
        Route::Http1 => http1::response::end(core, slot, trailers),
        Route::Http2(id) => http2::response::end(core, slot, id, trailers),
        Route::Http3(id) => http3::response::end(core, slot, id, trailers),
    }
}
