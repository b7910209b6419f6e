//! What a worker does when its buffers run low: connections that hold many and do not get on give
//! them up, so that those which do get on are answered.
//!
//! Connections that linger behind their last response come first. Before any other is closed,
//! requests over HTTP/3 are given up whose content waits in QUIC because it is not wanted, those
//! with most of it first. The other requests of their connections go on.
//!
//! A client that is slow costs little: large files of a site are slices of their archive, and take
//! no buffers. What fills them is heads that never end and answers that nobody reads.

use crate::app::App;
use crate::backend::{Backend, Slot};
use crate::deadline::Watch;
use crate::gone::Gone;
use crate::http3;
use crate::limits::{QUIC_UNREAD_MIN_BYTES, RELIEF_STALL_MS};
use crate::service::{self, requests};
use crate::worker::Worker;

/// Who is asked next, when those before were not enough.
#[derive(Clone, Copy)]
enum Holders {
    /// Connections behind their last response.
    Lingering,
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
        self.close_holders(Holders::Lingering);
        self.give_up_unread();
        for holders in [Holders::Stalled, Holders::Heads, Holders::All] {
            self.close_holders(holders);
        }
        self.core.buffers.pool.silence();
    }

    /// Closes some of these holders, the largest first, until the reserve of the pool is whole.
    fn close_holders(&mut self, holders: Holders) {
        loop {
            let (most_bytes, wanted_bytes) = self.survey(holders);
            if wanted_bytes == 0 || most_bytes == 0 {
                return;
            }
            self.cut_holders(holders, most_bytes.div_ceil(2), wanted_bytes);
        }
    }

    /// Gives up requests over HTTP/3 whose content is not wanted, until the reserve of the pool is
    /// whole again; first those of which nothing was wanted for a while.
    fn give_up_unread(&mut self) {
        for idle_ms in [RELIEF_STALL_MS, 0] {
            loop {
                let (_, wanted_bytes) = self.survey(Holders::All);
                let most_bytes = self.most_unwanted(idle_ms);
                if wanted_bytes == 0 || most_bytes < QUIC_UNREAD_MIN_BYTES {
                    break;
                }
                let least_bytes = most_bytes.div_ceil(2).max(QUIC_UNREAD_MIN_BYTES);
                self.give_up_unwanted(least_bytes, idle_ms, wanted_bytes);
            }
        }
    }

    /// Returns the most that waits unread of one request and was not wanted for so long.
    fn most_unwanted(&mut self, idle_ms: u64) -> usize {
        let now_ms = self.core.now.monotonic_ms;
        let (mut most_bytes, mut next) = (0, 0);
        while let Some(slot) = self.core.conns.next_live(next) {
            next = slot + 1;
            if let Some(http3) = self.core.conns.get(slot).http3() {
                let unwanted = http3.unwanted(0, now_ms, idle_ms);
                most_bytes = unwanted.map(|(_, bytes)| bytes).fold(most_bytes, usize::max);
            }
        }
        most_bytes
    }

    /// Gives up requests of which `least_bytes` and more wait, until they have had `wanted_bytes`
    /// together.
    fn give_up_unwanted(&mut self, least_bytes: usize, idle_ms: u64, wanted_bytes: usize) {
        let now_ms = self.core.now.monotonic_ms;
        let (mut given_bytes, mut next) = (0, 0);
        while let Some(slot) = self.core.conns.next_live(next) {
            next = slot + 1;
            let Some(http3) = self.core.conns.get(slot).http3() else { continue };
            let unwanted: Vec<_> = http3.unwanted(least_bytes, now_ms, idle_ms).collect();
            for (id, bytes) in unwanted {
                if given_bytes >= wanted_bytes {
                    break;
                }
                given_bytes += bytes;
                let Self { app, core, .. } = self;
                requests::give_up_unread(app, core, slot, http3::number(id));
                // What waits of it is not wanted any more, and is passed over.
                service::http3::read(app, core, slot, id);
                self.settle(slot);
            }
        }
    }

    /// Returns the most that one of the holders has, and what must still come back beside what
    /// closed connections will give back.
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
        (most_bytes, self.core.buffers.pool.missing_bytes().saturating_sub(leaving_bytes))
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
            Holders::Lingering => self.core.conns.get(slot).lingers(),
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
