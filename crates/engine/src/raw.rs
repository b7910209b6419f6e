//! What an application can do with a byte stream.

use std::net::SocketAddr;

use crate::address::Address;
use crate::backend::Slot;
use crate::clock::Now;
use crate::core::Core;
use crate::drain::Ending;
use crate::exchange::{Room, Slice, Stage};
use crate::limits::OUTPUT_HIGH_WATER_BYTES;

/// One byte stream, lent to the application for one event.
pub struct RawStream<'w> {
    pub(crate) core: &'w mut Core,
    pub(crate) slot: Slot,
}

impl RawStream<'_> {
    /// Where to post to, from any thread or any event.
    pub fn address(&mut self) -> Address {
        self.core.address(self.slot)
    }

    /// The time of this pass.
    pub fn now(&self) -> Now {
        self.core.now
    }

    /// Whether the server has begun to stop. What never ends by itself should not begin then.
    pub fn is_stopping(&self) -> bool {
        self.core.ending != Ending::No
    }

    /// The client's address; `None` on a Unix socket.
    pub fn peer(&mut self) -> Option<SocketAddr> {
        self.core.conns.get(self.slot).peer
    }

    /// Sends bytes.
    pub fn write(&mut self, slice: Slice<'_>) -> Room {
        if let Err(why) = self.core.queue_on(self.slot, slice) {
            self.core.give_up(self.slot, why);
            return Room::Gone;
        }
        if self.core.queued_bytes(self.slot) < OUTPUT_HIGH_WATER_BYTES {
            return Room::Free;
        }
        self.core.conns.get(self.slot).exchange.owes_writable = true;
        Room::Full
    }

    /// Takes `bytes` more from the peer. Nothing is read before.
    pub fn want(&mut self, bytes: u64) {
        let state = &mut self.core.conns.get(self.slot).exchange;
        state.wanted = state.wanted.saturating_add(bytes);
    }

    /// Asks for a `Deadline` event `after_ms` from now; `None` takes it back.
    pub fn wait(&mut self, after_ms: Option<u64>) {
        let now = self.core.now.monotonic_ms;
        let state = &mut self.core.conns.get(self.slot).exchange;
        state.deadline_ms = after_ms.map_or(0, |after| now.saturating_add(after.max(1)));
    }

    /// Closes the connection once everything written has left. The stream is over for the
    /// application.
    pub fn close(&mut self) {
        let state = &mut self.core.conns.get(self.slot).exchange;
        state.stage = Stage::Done;
        state.open = false;
    }

    /// Cuts the connection now. The stream is over for the application.
    pub fn abort(&mut self) {
        let state = &mut self.core.conns.get(self.slot).exchange;
        state.stage = Stage::Aborted;
        state.open = false;
    }
}
