//! The reaction of a worker to buffers that run low: connections that hold many buffers without
//! progress are closed, so that those with progress get their responses.
//!
//! Connections that linger after their last response come first. Before any other is closed,
//! requests over HTTP/3 are ended whose content waits in QUIC because it is not wanted, those with
//! most of it first. The other requests of their connections go on.
//!
//! A slow client costs little: large files of a site are slices of their archive, and take no
//! buffers. Buffers are filled by heads that never end and responses that are not read.

use std::cmp::Reverse;

use quinn_proto::StreamId;

use crate::app::App;
use crate::backend::{Backend, Slot};
use crate::deadline::DeadlineKind;
use crate::driver;
use crate::driver::multiplexed_requests::request_content;
use crate::end_reason::Gone;
use crate::http3;
use crate::limits::{QUIC_UNREAD_MIN_BYTES, RELIEF_STALL_MS};
use crate::worker::Worker;
use crate::worker_core::WorkerCore;

/// The group of connections that is closed next, if the groups before were not enough.
#[derive(Clone, Copy)]
enum Holders {
    /// Connections that have sent their last response.
    Lingering,
    /// Connections without progress for a while.
    Stalled,
    /// Connections in the middle of a head.
    Heads,
    /// All connections.
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

    /// Ends requests over HTTP/3 whose content is not wanted, those with most of it first, until
    /// the reserve of the pool is whole again. Requests whose content was not wanted for a while
    /// come first.
    fn give_up_unread(&mut self) {
        for idle_ms in [RELIEF_STALL_MS, 0] {
            let (_, wanted_bytes) = self.survey(Holders::All);
            if wanted_bytes == 0 {
                return;
            }
            let mut unwanted = self.unwanted(idle_ms);
            unwanted.sort_unstable_by_key(|&(_, _, bytes)| Reverse(bytes));
            let mut given_bytes = 0;
            let is_needed = |&&(_, _, bytes): &&(Slot, StreamId, usize)| {
                let is_needed = given_bytes < wanted_bytes;
                given_bytes += bytes;
                is_needed
            };
            let count = unwanted.iter().take_while(is_needed).count();
            unwanted.truncate(count);
            // All of it is dropped. Their responses need some memory before that.
            for &(slot, id, _) in &unwanted {
                let WorkerCore { connections, buffers, .. } = &mut self.core;
                if let Some(http3) = connections.get(slot).http3() {
                    http3.release_unread(id, buffers);
                }
            }
            for (slot, id, _) in unwanted {
                let Self { app, core, .. } = self;
                // The end of another request may have ended its connection.
                if core.connections.get(slot).http3().is_none() {
                    continue;
                }
                request_content::give_up_unread(app, core, slot, http3::number(id));
                // The rest of its input is not wanted any more, and is skipped.
                driver::http3::read(app, core, slot, id);
                self.settle(slot);
            }
        }
    }

    /// Returns the requests with much unread content that was not wanted for `idle_ms`, each with
    /// the number of its bytes.
    fn unwanted(&mut self, idle_ms: u64) -> Vec<(Slot, StreamId, usize)> {
        let now_ms = self.core.now.monotonic_ms;
        let (mut all, mut next) = (Vec::new(), 0);
        while let Some(slot) = self.core.connections.next_in_use(next) {
            next = slot + 1;
            if let Some(http3) = self.core.connections.get(slot).http3() {
                let unwanted = http3.unwanted(QUIC_UNREAD_MIN_BYTES, now_ms, idle_ms);
                all.extend(unwanted.map(|(id, bytes)| (slot, id, bytes)));
            }
        }
        all
    }

    /// Returns the most bytes that one of the holders has, and the bytes that are missing besides
    /// those that closing connections will give back.
    fn survey(&mut self, holders: Holders) -> (usize, usize) {
        let (mut most_bytes, mut leaving_bytes, mut next) = (0, 0, 0);
        while let Some(slot) = self.core.connections.next_in_use(next) {
            next = slot + 1;
            let bytes = self.core.held_bytes(slot);
            if self.core.connections.get(slot).is_closing() {
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
        while let Some(slot) = self.core.connections.next_in_use(next) {
            if cut_bytes >= wanted_bytes {
                return;
            }
            next = slot + 1;
            let open = !self.core.connections.get(slot).is_closing();
            let bytes = self.core.held_bytes(slot);
            if open && bytes >= least_bytes && self.is_among(slot, holders) {
                cut_bytes += bytes;
                self.cut(slot, Gone::Overload);
            }
        }
    }

    fn is_among(&mut self, slot: Slot, holders: Holders) -> bool {
        match holders {
            Holders::Lingering => self.core.connections.get(slot).is_dropping_input(),
            Holders::Stalled => self.core.stalled_ms(slot) >= RELIEF_STALL_MS,
            Holders::Heads => {
                matches!(
                    self.core.connections.get(slot).link.deadline.kind(),
                    DeadlineKind::Head | DeadlineKind::Handshake
                )
            }
            Holders::All => true,
        }
    }
}
