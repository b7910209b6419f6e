//! The ready entries of one wait: the listeners, sockets and datagrams that have something for the
//! engine, their delays and order, and the completion of each.

use std::sync::atomic::Ordering;

use rustix::io::Errno;

use super::faults::{Fallible, loses_client};
use super::network::{Network, State};
use super::{Completion, Sim, SimSocket, Slot};
use crate::limits::ACCEPTS_PER_PASS;

/// An event that [`Backend::next`](super::Backend::next) turns into a completion.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadyEntry {
    /// A listener has clients.
    Listener {
        listener: usize,
        left: u32,
    },
    /// A socket is ready (readiness).
    Socket {
        slot: Slot,
        generation: u32,
        output: bool,
    },
    /// A receive has one more result; they are taken in order (io_uring).
    Received {
        slot: Slot,
        generation: u32,
    },
    /// A connection that is opened has its result.
    Connected {
        slot: Slot,
        generation: u32,
    },
    /// A send has its result (io_uring).
    Sent {
        slot: Slot,
        generation: u32,
    },
    /// A socket has become writable (io_uring).
    Polled {
        slot: Slot,
        generation: u32,
    },
    /// The last result of a closed slot was reported (io_uring).
    OperationsDone {
        slot: Slot,
        generation: u32,
    },
    /// Datagrams have arrived at a socket.
    Datagrams {
        number: u32,
    },
    Woken,
}

impl<const READINESS: bool> Sim<READINESS> {
    /// Finds the ready entries; returns the earliest due time of the delayed ones, in milliseconds.
    pub(super) fn collect(&mut self) -> Option<u64> {
        let mut due = None;
        if self.wake.swap(false, Ordering::Acquire) {
            self.ready.push(ReadyEntry::Woken);
        }
        for slot in 0..self.entries.len() {
            if self.entries[slot].connecting {
                self.collect_connected(slot as Slot, &mut due);
            } else if READINESS {
                self.collect_ready(slot as Slot, &mut due);
            } else {
                self.progress_operations(slot as Slot, &mut due);
            }
        }
        self.collect_clients(&mut due);
        self.collect_datagrams(&mut due);
        due
    }

    fn collect_clients(&mut self, due: &mut Option<u64>) {
        let listeners = self.network.0.borrow().waiting.len();
        for listener in 0..listeners {
            let mut state = self.network.0.borrow_mut();
            if state.waiting[listener].is_empty()
                || !self.accepting
                || delay_at_random(&mut state, &mut self.accept_after_ms, due)
            {
                continue;
            }
            drop(state);
            let clients = ReadyEntry::Listener { listener, left: ACCEPTS_PER_PASS };
            if !self.ready.contains(&clients) {
                self.ready.push(clients);
            }
        }
    }

    fn collect_datagrams(&mut self, due: &mut Option<u64>) {
        let mut state = self.network.0.borrow_mut();
        for (number, socket) in self.datagram_sockets.iter_mut().enumerate() {
            let Some(at_ms) = state.datagrams.next_arrival_ms(number) else { continue };
            if !socket.wanted {
                continue;
            }
            if at_ms > state.now.monotonic_ms {
                *due = Some(due.map_or(at_ms, |due| due.min(at_ms)));
                continue;
            }
            let ready = ReadyEntry::Datagrams { number: number as u32 };
            if !delay_at_random(&mut state, &mut socket.after_ms, due)
                && !self.ready.contains(&ready)
            {
                self.ready.push(ready);
            }
        }
    }

    /// Shuffles the ready entries and cuts them to a batch. The rest is deferred to the next wait,
    /// in which it comes first. The first `carried_over` entries were deferred by the last wait.
    pub(super) fn shuffle_batch(&mut self, carried_over: usize) {
        let mut state = self.network.0.borrow_mut();
        state.random.shuffle(&mut self.ready[carried_over..]);
        let batch = usize::from(state.dice.faults.batch);
        if batch > 0 && self.ready.len() > batch {
            self.deferred = self.ready.split_off(batch);
        }
        state.random.shuffle(&mut self.ready);
    }

    /// Turns one ready entry into a completion; `None` if there is nothing left to report. A
    /// listener with further clients becomes a ready entry again.
    pub(super) fn complete(&mut self, ready: ReadyEntry) -> Option<Completion<SimSocket>> {
        match ready {
            ReadyEntry::Listener { listener, left } => {
                if !self.accepting || left == 0 {
                    return None;
                }
                let outcome = Self::take_client(&self.network, listener)?;
                self.ready.push(ReadyEntry::Listener { listener, left: left - 1 });
                Some(match outcome {
                    Ok(socket) => Completion::Accepted { listener, socket, peer: None },
                    Err(error) => Completion::AcceptFailed { error },
                })
            }
            ReadyEntry::Socket { slot, generation, output } => {
                if !self.is_current(slot, generation) {
                    return None;
                }
                self.look_at_socket(slot, generation, output)
            }
            ReadyEntry::Received { slot, generation } => self.received(slot, generation),
            ReadyEntry::Connected { slot, generation } => self.connected(slot, generation),
            ReadyEntry::Sent { slot, generation } => self.sent(slot, generation),
            ReadyEntry::Polled { slot, generation } => self.polled(slot, generation),
            ReadyEntry::OperationsDone { slot, generation } => {
                if self.is_current(slot, generation) { self.release_if_done(slot) } else { None }
            }
            ReadyEntry::Datagrams { number } => {
                // epoll continues to watch the socket; the request to io_uring is complete.
                self.datagram_sockets[number as usize].wanted = READINESS;
                Some(Completion::Datagrams { number })
            }
            ReadyEntry::Woken => Some(Completion::Woken),
        }
    }

    /// Takes a client off a listener's queue, or rolls that this fails.
    fn take_client(network: &Network, listener: usize) -> Option<Result<SimSocket, Errno>> {
        let mut state = network.0.borrow_mut();
        let first = *state.waiting[listener].front()?;
        if let Some(error) = state.fails(Fallible::Accept, Some(first)) {
            state.ran_out_of_descriptors |= matches!(error, Errno::MFILE | Errno::NFILE);
            if loses_client(error) {
                state.waiting[listener].pop_front();
                let now_ms = state.now.monotonic_ms;
                let gone = &mut state.connections[first.0];
                gone.fail(error);
                gone.facts.closed_at_ms = Some(now_ms);
            }
            return Some(Err(error));
        }
        state.waiting[listener].pop_front();
        state.note(format_args!("{first:?} accepted"));
        Some(Ok(SimSocket { network: network.clone(), client: first, reset: false }))
    }
}

/// May delay an event, as the faults say. Returns whether it is delayed. `after_ms` has the time at
/// which the delay ends, and `due` the earliest of these times.
pub(super) fn delay_at_random(
    state: &mut State,
    after_ms: &mut u64,
    due: &mut Option<u64>,
) -> bool {
    let now_ms = state.now.monotonic_ms;
    if *after_ms <= now_ms && state.random.chance(state.dice.faults.late) {
        *after_ms = now_ms + 1 + state.random.below(state.dice.faults.late_ms.max(1));
    }
    if *after_ms > now_ms {
        *due = Some(due.map_or(*after_ms, |at| at.min(*after_ms)));
        return true;
    }
    false
}
