//! Requests for pages of the store that wait for a job: their key is in a shard that a command has
//! locked which takes long. A look at the key waits among the jobs, so its turn comes as that of a
//! client of the store would.

use super::jobs::{JobOwner, StoreJobs};
use super::pages::{FoundValue, StoreMount};
use crate::server::request_log::Beginning;
use crate::server::site_roster::SiteId;
use pinion_engine::Poster;
use pinion_engine::app::Event;
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;
use pinion_http::owned_head::OwnedRequestHead;
use std::collections::HashMap;
use std::sync::Arc;

/// How long a request waits, in milliseconds: commands that take longer are rare, and a client that
/// waits so long is better off with status 503 and its `Retry-After`.
pub(super) const WAIT_MAX_MS: u64 = 10_000;

/// Requests of one worker that wait: as many as wait for passwords.
const WAITING_MAX: usize = 1024;

/// Bytes of the heads of these requests: heads have a KiB as a rule, and 16 KiB at most.
const WAITING_MAX_BYTES: usize = 4 << 20;

/// Looks of all workers that wait among the jobs, also those whose requests have waited too long:
/// each has a key, which is at most as long as a head, so all have 16 MiB at most.
pub(super) const LOOKS_MAX: usize = 1024;

/// A request that waits.
pub(crate) struct WaitingPage {
    pub(crate) head: OwnedRequestHead,
    pub(crate) site: SiteId,
    pub(crate) mount: StoreMount,
    pub(crate) began: Option<Beginning>,
}

/// The message for a request after a look at its key; `None` if the look has failed because of a
/// fault in the program.
pub(super) struct LookEnd(pub(super) Option<FoundValue>);

/// The reason why a request waits no longer.
pub(crate) enum WaitEnd {
    /// Its key was looked at.
    Found(FoundValue),
    /// It has waited for too long.
    TimedOut,
    /// Its client has left.
    ClientLeft,
}

/// The waiting requests of one worker.
pub(crate) struct WaitingPages {
    jobs: Arc<StoreJobs>,
    poster: Poster,
    waiting: HashMap<Address, WaitingPage>,
    /// Bytes of their heads.
    bytes: usize,
}

impl WaitingPages {
    pub(super) fn new(jobs: Arc<StoreJobs>, poster: Poster) -> Self {
        Self { jobs, poster, waiting: HashMap::new(), bytes: 0 }
    }

    /// Makes a request wait until its key was looked at. Returns false if too many wait already.
    #[must_use]
    pub(crate) fn hold(
        &mut self,
        key: Vec<u8>,
        page: impl FnOnce() -> WaitingPage,
        exchange: &mut Exchange<'_>,
    ) -> bool {
        if self.waiting.len() >= WAITING_MAX || self.bytes >= WAITING_MAX_BYTES {
            return false;
        }
        let address = exchange.address();
        let owner = JobOwner { poster: self.poster.clone(), address };
        if !self.jobs.push_look(key, owner) {
            return false;
        }
        let page = page();
        self.bytes += page.head.held_bytes();
        self.waiting.insert(address, page);
        exchange.wait(Some(WAIT_MAX_MS));
        true
    }

    /// Handles an event of an exchange. Returns `None` if its request does not wait for a page; and
    /// else the request, if it waits no longer.
    pub(crate) fn event(
        &mut self,
        event: &Event<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Option<Option<(WaitingPage, WaitEnd)>> {
        if self.waiting.is_empty() {
            return None;
        }
        let address = exchange.address();
        if !self.waiting.contains_key(&address) {
            return None;
        }
        let end = match event {
            Event::Posted(message) => match message.downcast_ref::<LookEnd>() {
                Some(LookEnd(Some(found))) => WaitEnd::Found(found.clone()),
                Some(LookEnd(None)) => WaitEnd::TimedOut,
                None => return Some(None),
            },
            Event::Deadline => WaitEnd::TimedOut,
            Event::Gone(_) | Event::Refused(_) => WaitEnd::ClientLeft,
            _ => return Some(None),
        };
        let page = self.waiting.remove(&address)?;
        self.bytes -= page.head.held_bytes();
        Some(Some((page, end)))
    }
}
