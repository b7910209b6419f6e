//! Sends that found no memory in the kernel. Their sockets may well have room, so no event reports
//! when to try again: a timer does. A send that has waited for as long as a stalled one ends its
//! connection like one.

use rustix::io::Errno;

use crate::app::App;
use crate::backend::Backend;
use crate::backend::Slot;
use crate::limits::ENOBUFS_RETRY_MS;
use crate::transport_link::Blocked;
use crate::worker::Worker;
use crate::worker_core::WorkerCore;

/// Returns whether a send failed only because the system lacks memory at the moment.
pub(crate) fn is_shortage(error: Errno) -> bool {
    matches!(error, Errno::NOBUFS | Errno::NOMEM)
}

impl WorkerCore {
    /// Makes the output of a connection wait for memory.
    #[cold]
    pub(crate) fn await_memory(&mut self, slot: Slot) {
        self.connections.get(slot).link.blocked = Some(Blocked::NoMemory);
        let again_ms = self.now.monotonic_ms + ENOBUFS_RETRY_MS;
        self.enobufs_retry_at_ms.get_or_insert(again_ms);
    }
}

impl<B: Backend, A: App> Worker<B, A> {
    /// Tries sends again that have waited for memory long enough.
    pub(crate) fn try_short_sends(&mut self) {
        if self.core.enobufs_retry_at_ms.is_none_or(|until| until > self.core.now.monotonic_ms) {
            return;
        }
        self.core.enobufs_retry_at_ms = None;
        let mut from = 0;
        while let Some(slot) = self.core.connections.next_in_use(from) {
            from = slot + 1;
            let connection = self.core.connections.get(slot);
            if connection.link.blocked == Some(Blocked::NoMemory) {
                connection.link.blocked = None;
                self.settle(slot);
            }
        }
    }
}
