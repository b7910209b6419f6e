//! Closes connections when permits for new ones run short, so that no client can lock out others by
//! holding connections that it does not use.
//!
//! Connections that have sent their last response and whose clients still send are closed before
//! all others. Then the connections of the client that holds most are closed, until it holds as
//! many as the next client. For each client, those that have been idle longest are closed first. A
//! client may lose the connections that it does not use: a connection between two requests at any
//! time, and one whose handshake or request has not arrived completely after [`RELIEF_STALL_MS`]. A
//! client that holds most connections of a worker also loses those on which a response or an upload
//! has stalled for that time. Any other client does after [`RELIEF_LONG_STALL_MS`], so that several
//! clients together cannot do more than one.

use std::cmp::Reverse;

use crate::app::App;
use crate::backend::{Backend, Slot};
use crate::client_connection_limit::ClientKey;
use crate::deadline::DeadlineKind;
use crate::drain_state::WorkerEnding;
use crate::end_reason::Gone;
use crate::limits::{PERMIT_RELIEF_PAUSE_MS, RELIEF_LONG_STALL_MS, RELIEF_STALL_MS};
use crate::worker::Worker;

/// The reason why a worker is to close connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// Few permits are left. Other workers are asked as well if this one cannot close enough.
    Permits,
    /// Another worker could not close enough.
    Elsewhere,
    /// The process or the system has no descriptor for one more connection.
    Descriptors,
}

/// The use of a connection, which decides whether it may be closed; the first are closed before the
/// others of the same client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    /// Its last response has left some time ago, and its input is dropped.
    Lingering,
    /// It has had a request and waits for the next.
    Idle,
    /// Its handshake or its request head has not arrived completely for a while.
    Silent,
    /// A response or an upload has stalled: of a client that holds most connections, or for long.
    Stalled,
    /// It may become silent or stalled soon: it stays, but until then no other client loses an idle
    /// connection in its place.
    Fresh,
    /// The connection waits for its client, and has not stalled yet.
    InProgress,
    /// It is in use and stays.
    Busy,
}

/// One connection of the survey.
struct Holding {
    client: Option<ClientKey>,
    used: Use,
    stalled_ms: u64,
    slot: Slot,
    /// The number of connections that its client holds, less those that are closed before this one.
    rank: usize,
}

impl<B: Backend, A: App> Worker<B, A> {
    /// Notes that permits may run short; [`Self::relieve_permits`] checks at the end of the pass,
    /// when all input that has arrived was used.
    pub(crate) fn check_permits(&mut self) {
        if self.shared.permits.wanted() == 0 {
            self.permit_shortage_since_ms = None;
        } else {
            self.permit_shortage.get_or_insert(Shortage::Permits);
        }
    }

    /// Closes connections if permits run short.
    #[inline]
    pub(crate) fn relieve_permits(&mut self) {
        if let Some(shortage) = self.permit_shortage {
            self.close_unused(shortage);
        }
    }

    /// Closes unused connections. A worker that was held up has not seen its clients' latest input
    /// yet, and one that stops closes idle connections anyway, so both skip this.
    #[cold]
    fn close_unused(&mut self, shortage: Shortage) {
        let now_ms = self.core.now.monotonic_ms;
        let delay_at_random =
            self.punctuality.is_catching_up() || now_ms < self.permit_relief_after_ms;
        if delay_at_random || self.core.ending != WorkerEnding::No {
            return;
        }
        self.permit_shortage = None;
        let wanted = match shortage {
            Shortage::Descriptors => 1 + self.shared.permits.batch(),
            Shortage::Permits | Shortage::Elsewhere => self.shared.permits.wanted(),
        };
        let Some((mut unused, leaving)) = self.survey_permits() else { return };
        let wanted = wanted.saturating_sub(leaving);
        if wanted == 0 {
            return;
        }
        let is_enough = unused.len() >= wanted;
        if unused.len() > wanted {
            // A lingering connection is of no use to its client, regardless of the client's others.
            let order = |holding: &Holding| {
                let is_used = holding.used != Use::Lingering;
                (is_used, Reverse(holding.rank), holding.used, Reverse(holding.stalled_ms))
            };
            unused.select_nth_unstable_by_key(wanted, order);
            unused.truncate(wanted);
        }
        if !is_enough || unused.iter().any(|holding| holding.used == Use::Fresh) {
            self.permit_relief_after_ms = now_ms + PERMIT_RELIEF_PAUSE_MS;
        }
        if !is_enough && shortage == Shortage::Permits {
            let shared = &self.shared;
            shared.permits.ask_for_relief(self.core.worker, |other| shared.inboxes[other].wake());
        }
        for Holding { slot, used, .. } in unused {
            if used != Use::Fresh {
                self.close_holding(slot, used);
            }
        }
    }

    /// Returns the connections that may be closed, and how many are being closed already; `None` if
    /// no memory is left for the list.
    fn survey_permits(&mut self) -> Option<(Vec<Holding>, usize)> {
        let mut holdings = Vec::new();
        holdings.try_reserve_exact(self.core.connections.len()).ok()?;
        let (mut leaving, mut next) = (0, 0);
        while let Some(slot) = self.core.connections.next_in_use(next) {
            next = slot + 1;
            let connection = self.core.connections.get(slot);
            if connection.is_closing() {
                leaving += 1;
                continue;
            }
            let client = connection.peer.map(ClientKey::of);
            let stalled_ms = self.core.stalled_ms(slot);
            let used = self.use_of(slot, stalled_ms);
            holdings.push(Holding { client, used, stalled_ms, slot, rank: 0 });
        }
        let order = |holding: &Holding| {
            (holding.client, holding.used, Reverse(holding.stalled_ms), holding.slot)
        };
        holdings.sort_unstable_by_key(order);
        let all = holdings.len();
        let now_ms = self.core.now.monotonic_ms;
        let since_ms = *self.permit_shortage_since_ms.get_or_insert(now_ms);
        // Connections in progress have had time to stall by then.
        let is_new = now_ms.saturating_sub(since_ms) <= RELIEF_STALL_MS + PERMIT_RELIEF_PAUSE_MS;
        for of_client in holdings.chunk_by_mut(|one, other| one.client == other.client) {
            let held = of_client.len();
            for (index, holding) in of_client.iter_mut().enumerate() {
                holding.rank = held - index;
                let is_majority = held > all / 2;
                holding.used = match holding.used {
                    Use::Stalled if !is_majority && holding.stalled_ms < RELIEF_LONG_STALL_MS => {
                        Use::Busy
                    }
                    Use::InProgress if is_majority && is_new => Use::Fresh,
                    Use::InProgress => Use::Busy,
                    used => used,
                };
            }
        }
        holdings.retain(|holding| holding.used != Use::Busy);
        Some((holdings, leaving))
    }

    fn use_of(&mut self, slot: Slot, stalled_ms: u64) -> Use {
        let queued_bytes = self.core.queued_bytes(slot);
        let connection = self.core.connections.get(slot);
        let has_stalled = stalled_ms >= RELIEF_STALL_MS;
        match connection.link.deadline.kind() {
            DeadlineKind::Idle if connection.exchanges_begun > 0 && queued_bytes == 0 => Use::Idle,
            DeadlineKind::Idle | DeadlineKind::Handshake | DeadlineKind::Head => {
                if has_stalled {
                    Use::Silent
                } else {
                    Use::Fresh
                }
            }
            // All its requests have their responses.
            DeadlineKind::Discard if connection.http3().is_some() => Use::Idle,
            DeadlineKind::Body
            | DeadlineKind::Discard
            | DeadlineKind::Send
            | DeadlineKind::Window => {
                if has_stalled {
                    Use::Stalled
                } else {
                    Use::InProgress
                }
            }
            DeadlineKind::Last if has_stalled => Use::Silent,
            // A client that reads has its response by then.
            DeadlineKind::Linger => match connection.lingered_ms(self.core.now.monotonic_ms) {
                RELIEF_STALL_MS.. => Use::Lingering,
                _ => Use::Fresh,
            },
            _ => Use::Busy,
        }
    }

    /// Closes a connection. An HTTP/2 client gets the number of the last processed request (RFC
    /// 9113 §6.8), as far as the kernel takes it at once.
    fn close_holding(&mut self, slot: Slot, used: Use) {
        if let Some((http2, link, buffers)) = self.core.http2(slot) {
            http2.finish_all(link, buffers);
            self.settle(slot);
        }
        let gone = if used == Use::Stalled { Gone::Overload } else { Gone::Stalled };
        self.cut(slot, gone);
    }
}
