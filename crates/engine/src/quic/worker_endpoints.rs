//! The QUIC state of one worker: its endpoints, and the timers and entries of its connections.

use super::config::QuicConfig;
use super::endpoint::ListenerEndpoint;
use super::socket::{Inlet, UdpSocket};
use crate::backend::Slot;
use quinn_proto::{ConnectionEvent, ConnectionHandle, Incoming};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// The plan for the endpoints of a listener, one for each worker.
pub(crate) struct EndpointPlan {
    /// The sockets: at least one, and at most one for each worker.
    pub(crate) sockets: Vec<Arc<OwnedFd>>,
    pub(crate) config: QuicConfig,
    /// The index of the listener's settings.
    pub(crate) listener: u16,
}

impl EndpointPlan {
    /// Returns the socket of a worker, and whether the worker reads it. A worker without one gets
    /// the first, so that its endpoint has the same index as those of the others: it never gets a
    /// connection, so it never sends.
    fn socket(&self, worker: u16) -> (Option<&Arc<OwnedFd>>, bool) {
        let own = self.sockets.get(usize::from(worker));
        (own.or(self.sockets.first()), own.is_some())
    }

    /// Returns whether a worker reads a socket of this listener.
    pub(crate) fn is_read_by(&self, worker: u16) -> bool {
        self.socket(worker).1
    }
}

/// Nanoseconds of a millisecond.
const NANOSECONDS_PER_MS: u128 = 1_000_000;

/// The QUIC state of one worker.
pub(crate) struct Quic {
    pub(crate) endpoints: Vec<ListenerEndpoint>,
    pub(crate) inlet: Inlet,
    /// The times at which connections are to be processed.
    pub(crate) timers: BTreeSet<(Instant, Slot)>,
    /// Connections whose time has come, in this pass.
    pub(crate) due: Vec<Slot>,
    /// The entries of the connections by slot: the timer, and the handle of the endpoint.
    pub(crate) places: Vec<Option<ConnectionSlot>>,
    /// Connections to be driven after a batch.
    pub(crate) dirty: Vec<Slot>,
    /// Steps of handshakes that wait until others have had their turn.
    pub(crate) steps: VecDeque<HandshakeWork>,
    pub(crate) handshakes: usize,
}

#[derive(Clone, Copy)]
pub(crate) struct ConnectionSlot {
    pub(crate) endpoint: usize,
    pub(crate) handle: ConnectionHandle,
    pub(crate) timer: Option<Instant>,
    pub(crate) is_dirty: bool,
    pub(crate) is_handshaking: bool,
    /// Datagrams that have arrived since it was last driven.
    pub(crate) brought: u32,
}

/// A step of a handshake. It takes as long as many requests, and cannot be divided.
pub(crate) enum HandshakeWork {
    /// A client wants to connect by this endpoint.
    Begin(usize, Incoming),
    /// An event for a connection, by slot and generation, from a datagram of so many bytes.
    GoOn(Slot, u64, ConnectionEvent, usize),
}

impl Quic {
    /// Creates the state with an endpoint for each listener; `None` if there is none.
    ///
    /// # Errors
    /// Fails if a socket cannot be used.
    pub(crate) fn new(plans: &[EndpointPlan], worker: u16) -> io::Result<Option<Box<Self>>> {
        let endpoint = |plan: &EndpointPlan| {
            let (socket, _) = plan.socket(worker);
            let socket = socket.ok_or_else(|| io::Error::other("a QUIC listener has no socket"))?;
            let socket = UdpSocket::new(Arc::clone(socket))?;
            Ok(ListenerEndpoint::new(Box::new(socket), &plan.config, worker, plan.listener))
        };
        Ok(Self::with_endpoints(plans.iter().map(endpoint).collect::<io::Result<_>>()?))
    }

    /// Returns the state of a worker with these endpoints, or `None` if there are none.
    pub(crate) fn with_endpoints(endpoints: Vec<ListenerEndpoint>) -> Option<Box<Self>> {
        let is_needed = !endpoints.is_empty();
        let quic = Self {
            endpoints,
            inlet: Inlet::new(),
            timers: BTreeSet::new(),
            due: Vec::new(),
            places: Vec::new(),
            dirty: Vec::new(),
            steps: VecDeque::new(),
            handshakes: 0,
        };
        is_needed.then(|| Box::new(quic))
    }

    /// Returns how long until the next work, in milliseconds, rounded up.
    pub(crate) fn wait_ms(&self, now: Instant) -> Option<u64> {
        if !self.steps.is_empty() {
            return Some(0);
        }
        let (next, _) = self.timers.first()?;
        Some(ms_until(*next, now))
    }

    /// Returns the number of entries besides its connections; 0 if the last of them is gone.
    #[cfg(feature = "sim")]
    pub(crate) fn holdings(&self) -> usize {
        let known: usize = self.endpoints.iter().map(ListenerEndpoint::holdings).sum();
        let places = self.places.iter().flatten().count();
        self.timers.len() + self.steps.len() + self.handshakes + places + known
    }

    pub(crate) fn is_handshaking(&self, slot: Slot) -> bool {
        let place = self.places.get(slot as usize).copied().flatten();
        place.is_some_and(|place| place.is_handshaking)
    }

    pub(crate) fn mark_dirty(&mut self, slot: Slot) {
        let Some(Some(place)) = self.places.get_mut(slot as usize) else { return };
        place.brought = place.brought.saturating_add(1);
        if !std::mem::replace(&mut place.is_dirty, true) {
            self.dirty.push(slot);
        }
    }

    /// Orders the connections so that those with the fewest datagrams come first: they do not wait
    /// for a client that floods.
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

/// Returns the milliseconds from `now` until a time, rounded up: a wait of 0 ms would come back
/// before it, and begin again.
fn ms_until(at: Instant, now: Instant) -> u64 {
    at.saturating_duration_since(now).as_nanos().div_ceil(NANOSECONDS_PER_MS) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::bind_udp;
    use crate::quic::config::QuicKeys;
    use crate::quic::congestion::CongestionControl;
    use crate::quic::made_settings;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    /// A service manager may pass fewer sockets than there are workers.
    #[test]
    fn a_worker_without_a_socket_reads_none_and_has_the_endpoints_of_the_others() {
        let (tls, _) = made_settings();
        let plan = |count: usize| {
            let sockets = bind_udp((Ipv4Addr::LOCALHOST, 0).into(), count).expect("bound");
            let sockets = sockets.into_iter().map(Arc::new).collect();
            let config = QuicConfig::new(&tls, QuicKeys::random(), 1000, CongestionControl::Cubic)
                .expect("a cipher suite");
            EndpointPlan { sockets, config, listener: 0 }
        };
        let plans = [plan(2), plan(1)];
        for (worker, expected) in [(0, [true, true]), (1, [true, false]), (2, [false, false])] {
            assert_eq!([0, 1].map(|at: usize| plans[at].is_read_by(worker)), expected);
            let quic = Quic::new(&plans, worker).expect("sockets").expect("endpoints");
            assert_eq!(quic.endpoints.len(), 2, "worker {worker}");
        }
    }

    #[test]
    fn wait_times_are_rounded_up_to_milliseconds() {
        let now = Instant::now();
        for (nanoseconds, ms) in [(0, 0), (1, 1), (999_999, 1), (1_000_000, 1), (1_000_001, 2)] {
            let at = now + Duration::from_nanos(nanoseconds);
            assert_eq!(ms_until(at, now), ms, "{nanoseconds}");
        }
        assert_eq!(ms_until(now, now + Duration::from_secs(1)), 0);
    }
}
