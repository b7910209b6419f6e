//! The ends of exchanges, for applications that request reports of them
//! ([`Exchange::notify_end`](crate::exchange::Exchange::notify_end)).

use std::num::NonZeroU32;

use crate::app::App;
use crate::backend::{Backend, Slot};
use crate::connection::Protocol;
use crate::http1::Http1;
use crate::limits::FRAMED_MAX_BYTES;
use crate::worker::Worker;
use crate::worker_core::WorkerCore;

/// Reports the exchanges on streams that have ended to the application, if it requested that. It
/// must be called before the client can know of the end.
#[inline]
pub(crate) fn report_exchange_ends<A: App>(app: &mut A, core: &mut WorkerCore) {
    while let Some(number) = core.buffers.ended.pop() {
        app.ended(number);
    }
}

/// Takes the number of a connection's HTTP/1 exchange whose end has yet to be reported to the
/// application, if there is one.
#[inline]
pub(crate) fn take_http1_end(core: &mut WorkerCore, slot: Slot) -> Option<NonZeroU32> {
    let is_owed = std::mem::take(&mut core.connections.get(slot).link.exchange_end_pending);
    if is_owed { core.http1_ends.remove(&slot) } else { None }
}

impl<B: Backend, A: App> Worker<B, A> {
    /// Reports the exchanges of a connection that have ended to the application, if it requested
    /// that: those on streams, and one of HTTP/1 of whose response little waits.
    #[inline]
    pub(crate) fn report_exchange_ends(&mut self, slot: Slot) {
        let Self { app, core, .. } = self;
        report_exchange_ends(app, core);
        if core.connections.get(slot).link.exchange_end_pending && has_ended(core, slot) {
            let number = take_http1_end(core, slot);
            number.into_iter().for_each(|number| app.ended(number));
        }
    }
}

/// Returns whether the last exchange of an HTTP/1 connection has ended.
#[cold]
fn has_ended(core: &mut WorkerCore, slot: Slot) -> bool {
    let is_over = match &core.connections.get(slot).protocol {
        Protocol::Http1(Http1::Exchange(open)) => !open.state.stage.is_open(),
        Protocol::Http1(Http1::Upgraded) | Protocol::ByteStream(_) => false,
        _ => true,
    };
    is_over && core.queued_bytes(slot) <= FRAMED_MAX_BYTES
}
