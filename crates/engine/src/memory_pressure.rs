//! What a worker does when its buffers run low: connections that hold many and do not get on give
//! them up, so that those which do get on are answered.
//!
//! A client that is slow costs little: large files of a site are slices of their archive, and take
//! no buffers. What fills them is heads that never end and answers that nobody reads.

use crate::app::App;
use crate::backend::{Backend, Slot};
use crate::deadline::Watch;
use crate::gone::Gone;
use crate::limits::RELIEF_STALL_MS;
use crate::worker::Worker;

/// Who is asked next, when those before were not enough.
#[derive(Clone, Copy)]
enum Holders {
    /// Whoever has not got on for a while.
    Stalled,
    /// Whoever is in the middle of a head.
    Heads,
    /// Everybody.
    All,
}

impl<B: Backend, A: App> Worker<B, A> {
    /// Closes connections, the largest holders first, until the reserve of the pool is whole again.
    #[cold]
    pub(crate) fn relieve(&mut self) {
        self.core.buffers.pool.drop_spares();
        for holders in [Holders::Stalled, Holders::Heads, Holders::All] {
            loop {
                let (most_bytes, leaving_bytes) = self.survey(holders);
                let wanted_bytes =
                    self.core.buffers.pool.missing_bytes().saturating_sub(leaving_bytes);
                if wanted_bytes == 0 {
                    return self.core.buffers.pool.silence();
                }
                if most_bytes == 0 {
                    break;
                }
                self.cut_holders(holders, most_bytes.div_ceil(2), wanted_bytes);
            }
        }
        self.core.buffers.pool.silence();
    }

    /// The most that one of the holders has, and what closed connections will give back.
    fn survey(&mut self, holders: Holders) -> (usize, usize) {
        let (mut most_bytes, mut leaving_bytes, mut next) = (0, 0, 0);
        while let Some(slot) = self.core.conns.next_live(next) {
            next = slot + 1;
            let bytes = self.core.held_bytes(slot);
            if self.core.conns.get(slot).is_closing() {
                leaving_bytes += bytes;
            } else if bytes > most_bytes && self.is_among(slot, holders) {
                most_bytes = bytes;
            }
        }
        (most_bytes, leaving_bytes)
    }

    /// Closes holders of `least_bytes` and more until they have had `wanted_bytes` together.
    fn cut_holders(&mut self, holders: Holders, least_bytes: usize, wanted_bytes: usize) {
        let (mut cut_bytes, mut next) = (0, 0);
        while let Some(slot) = self.core.conns.next_live(next) {
            if cut_bytes >= wanted_bytes {
                return;
            }
            next = slot + 1;
            let open = !self.core.conns.get(slot).is_closing();
            let bytes = self.core.held_bytes(slot);
            if open && bytes >= least_bytes && self.is_among(slot, holders) {
                cut_bytes += bytes;
                self.cut(slot, Gone::Overload);
            }
        }
    }

    fn is_among(&mut self, slot: Slot, holders: Holders) -> bool {
        match holders {
            Holders::Stalled => self.core.stalled_ms(slot) >= RELIEF_STALL_MS,
            Holders::Heads => {
                matches!(
                    self.core.conns.get(slot).link.deadline.watch(),
                    Watch::Head | Watch::Handshake
                )
            }
            Holders::All => true,
        }
    }
}
