//! The ready entries of one wait: the listeners, sockets and datagrams that have something for the
//! engine, their delays and order, and the completion of each.

use std::sync::atomic::Ordering;

use rustix::io::Errno;

use super::faults::{Fallible, loses_client};
use super::network::{Network, State};
use super::{Completion, Sim, SimSocket, Slot};
use crate::limits::ACCEPTS_PER_PASS;

/// Something that [`Backend::next`](super::Backend::next) will look at.
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
    /// There is room to write (io_uring).
    Polled {
        slot: Slot,
        generation: u32,
    },
    /// The last result of a closed slot was reported (io_uring).
    Quiet {
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
                self.work_on(slot as Slot, &mut due);
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
                || is_late(&mut state, &mut self.accept_after_ms, due)
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
            if !is_late(&mut state, &mut socket.after_ms, due) && !self.ready.contains(&ready) {
                self.ready.push(ready);
            }
        }
    }

    /// Leaves the entries beyond a batch to the next wait, which brings them first; `kept` of the
    /// ready entries were left by the last wait.
    pub(super) fn shuffle_batch(&mut self, kept: usize) {
        let mut state = self.network.0.borrow_mut();
        state.random.shuffle(&mut self.ready[kept..]);
        let batch = usize::from(state.dice.faults.batch);
        if batch > 0 && self.ready.len() > batch {
            self.later = self.ready.split_off(batch);
        }
        state.random.shuffle(&mut self.ready);
    }

    /// Makes the result of [`Backend::next`](super::Backend::next) from one ready entry; it may put
    /// a rest back.
    pub(super) fn look(&mut self, ready: ReadyEntry) -> Option<Completion<SimSocket>> {
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
                if !self.tenant(slot, generation) {
                    return None;
                }
                self.look_at_socket(slot, generation, output)
            }
            ReadyEntry::Received { slot, generation } => self.received(slot, generation),
            ReadyEntry::Connected { slot, generation } => self.connected(slot, generation),
            ReadyEntry::Sent { slot, generation } => self.sent(slot, generation),
            ReadyEntry::Polled { slot, generation } => self.polled(slot, generation),
            ReadyEntry::Quiet { slot, generation } => {
                if self.tenant(slot, generation) {
                    self.release_if_quiet(slot)
                } else {
                    None
                }
            }
            ReadyEntry::Datagrams { number } => {
                // A poller goes on watching; a request to io_uring is done.
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
        Some(Ok(SimSocket { network: network.clone(), client: first, abruptly: false }))
    }
}

/// Returns whether an event is delayed; otherwise it may happen now. `after_ms` keeps the time
/// until which it is.
pub(super) fn is_late(state: &mut State, after_ms: &mut u64, due: &mut Option<u64>) -> bool {
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
