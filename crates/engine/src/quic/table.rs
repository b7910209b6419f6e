//! What one worker has of QUIC: its doors, and the timers and places of its connections.

use super::config::QuicConfig;
use super::door::Door;
use super::socket::Inlet;
use crate::backend::Slot;
use quinn_proto::{ConnectionEvent, ConnectionHandle, Incoming};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// What the doors of a listener are made of, one for each worker.
pub(crate) struct DoorPlan {
    pub(crate) sockets: Vec<Arc<OwnedFd>>,
    pub(crate) config: QuicConfig,
    /// Index of its settings.
    pub(crate) listener: u16,
}

/// QUIC of one worker.
pub(crate) struct Quic {
    pub(crate) doors: Vec<Door>,
    pub(crate) inlet: Inlet,
    /// When connections are to be looked at.
    pub(crate) timers: BTreeSet<(Instant, Slot)>,
    /// Connections whose time has come, in this pass.
    pub(crate) due: Vec<Slot>,
    /// By slot: where its timer stands, and how its door knows it.
    pub(crate) places: Vec<Option<Place>>,
    /// Connections to be driven behind a batch.
    pub(crate) dirty: Vec<Slot>,
    /// Steps of handshakes that wait until others have had their turn.
    pub(crate) steps: VecDeque<Step>,
    pub(crate) handshakes: usize,
}

#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) door: usize,
    pub(crate) handle: ConnectionHandle,
    pub(crate) timer: Option<Instant>,
    pub(crate) is_dirty: bool,
    pub(crate) is_handshaking: bool,
    /// Datagrams that have come since it was driven last.
    pub(crate) brought: u32,
}

/// A step of a handshake. It takes as long as many requests, and cannot be divided.
pub(crate) enum Step {
    /// Somebody wants to connect by this door.
    Begin(usize, Incoming),
    /// For a connection, by slot and generation.
    GoOn(Slot, u64, ConnectionEvent),
}

impl Quic {
    /// With a door for each listener; `None` when there is none.
    ///
    /// # Errors
    /// When a socket cannot be used.
    pub(crate) fn new(plans: &[DoorPlan], worker: u16) -> io::Result<Option<Box<Self>>> {
        if plans.is_empty() {
            return Ok(None);
        }
        let door = |plan: &DoorPlan| {
            let socket = plan.sockets[usize::from(worker)].clone();
            Door::new(socket, &plan.config, worker, plan.listener)
        };
        Ok(Some(Box::new(Self {
            doors: plans.iter().map(door).collect::<io::Result<_>>()?,
            inlet: Inlet::new(),
            timers: BTreeSet::new(),
            due: Vec::new(),
            places: Vec::new(),
            dirty: Vec::new(),
            steps: VecDeque::new(),
            handshakes: 0,
        })))
    }

    /// How long until there is something to do, in milliseconds, rounded up.
    pub(crate) fn wait_ms(&self, now: Instant) -> Option<u64> {
        if !self.steps.is_empty() {
            return Some(0);
        }
        let (next, _) = self.timers.first()?;
        let left = next.saturating_duration_since(now);
        Some(left.as_micros().div_ceil(1000) as u64)
    }

    pub(crate) fn is_handshaking(&self, slot: Slot) -> bool {
        let place = self.places.get(slot as usize).copied().flatten();
        place.is_some_and(|place| place.is_handshaking)
    }

    pub(crate) fn soil(&mut self, slot: Slot) {
        let Some(Some(place)) = self.places.get_mut(slot as usize) else { return };
        place.brought = place.brought.saturating_add(1);
        if !std::mem::replace(&mut place.is_dirty, true) {
            self.dirty.push(slot);
        }
    }

    /// Has those come first who have brought least: whoever floods is not waited for.
    pub(crate) fn order_dirty(&mut self) {
        let brought = |slot: &Slot| self.places[*slot as usize].map_or(0, |place| place.brought);
        self.dirty.sort_unstable_by_key(|slot| std::cmp::Reverse(brought(slot)));
    }

    pub(crate) fn set_timer(&mut self, slot: Slot, timer: Option<Instant>) {
        let Some(Some(place)) = self.places.get_mut(slot as usize) else { return };
        let before = std::mem::replace(&mut place.timer, timer);
        if before == timer {
            return;
        }
        if let Some(before) = before {
            self.timers.remove(&(before, slot));
        }
        if let Some(timer) = timer {
            self.timers.insert((timer, slot));
        }
    }
}
