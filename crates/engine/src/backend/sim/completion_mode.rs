//! The shape of io_uring: the kernel works on submitted requests while the engine goes on,
//! continues receives until their cancel takes effect, and holds the memory of sends.
//!
//! Results of the kernel wait in the queue until the engine takes them. In between the slot still
//! counts as busy, and the engine may close it: both orders of every race happen.

use std::collections::VecDeque;
use std::io::IoSlice;

use rustix::io::Errno;

use super::faults::Fallible;
use super::network::State;
use super::ready_entries::{ReadyEntry, delay_at_random};
use super::send_memory_check::Held;
use super::{Buffers, Client, Completion, Lent, Sending, Sim, SimSocket, Slot};

/// The number of buffers that one receive fills before the engine sees the first.
const BUFFERS_AT_ONCE: u64 = 6;

/// The requests that the kernel works on for one slot.
#[derive(Default)]
pub(super) struct Flight {
    /// Whether the kernel will bring more input.
    pub(super) receive_armed: bool,
    /// Whether the engine has not seen the last result of the receive.
    pub(super) receiving: bool,
    cancelling: bool,
    /// Results of the receive that were not taken: input (or the end), and whether more follows.
    results: VecDeque<(Result<Option<Lent>, Errno>, bool)>,
    pub(super) send: Option<InFlight>,
    /// The wait of the kernel for room to write; `Done` if the engine has yet to take the result.
    poll: Option<Poll>,
}

#[derive(PartialEq, Eq)]
enum Poll {
    Waits,
    Done,
}

/// A send in flight.
pub(super) struct InFlight {
    held: Held,
    /// Bytes that have left.
    done: usize,
    /// The result of the send, until the engine takes it.
    result: Option<Result<usize, Errno>>,
}

impl Flight {
    /// Returns whether nothing is in flight and no result waits.
    pub(super) fn is_quiet(&self) -> bool {
        !self.receiving && self.send.is_none() && self.poll.is_none()
    }

    /// Creates the state of a new slot, with its receive `armed` or not.
    pub(super) fn new(armed: bool) -> Self {
        Self { receive_armed: armed, receiving: armed, ..Self::default() }
    }

    fn arm(&mut self) {
        self.receive_armed = true;
        self.receiving = true;
    }
}

impl<const READINESS: bool> Sim<READINESS> {
    /// Lets the kernel work on the requests of one slot.
    pub(super) fn progress_operations(&mut self, slot: Slot, due: &mut Option<u64>) {
        let Self { network, entries, buffers, ready, .. } = self;
        let entry = &mut entries[slot as usize];
        let Some(socket) = &entry.socket else { return };
        let (client, generation) = (socket.client, entry.generation);
        let mut state = network.0.borrow_mut();
        let state = &mut *state;
        let ending = entry.closing || entry.flight.cancelling;
        let has_work = ending || state.connections[client.0].has_input();
        if entry.flight.receive_armed
            && has_work
            && !delay_at_random(state, &mut entry.input_after_ms, due)
        {
            let before = entry.flight.results.len();
            receive(state, client, &mut entry.flight, buffers, ending);
            for _ in before..entry.flight.results.len() {
                ready.push(ReadyEntry::Received { slot, generation });
            }
        }
        let connection = &state.connections[client.0];
        let writable = connection.room() > 0 || connection.broken.is_some() || entry.closing;
        if entry.flight.poll == Some(Poll::Waits)
            && writable
            && !delay_at_random(state, &mut entry.output_after_ms, due)
        {
            entry.flight.poll = Some(Poll::Done);
            ready.push(ReadyEntry::Polled { slot, generation });
        }
        if let Some(send) = &mut entry.flight.send
            && send.result.is_none()
            && writable
            && !delay_at_random(state, &mut entry.output_after_ms, due)
        {
            send.work(state, client, entry.closing);
            if send.result.is_some() {
                ready.push(ReadyEntry::Sent { slot, generation });
            } else if state.connections[client.0].room() > 0 {
                let soon = state.now.monotonic_ms + 1;
                *due = Some(due.map_or(soon, |at| at.min(soon)));
            }
        }
    }

    /// Requests a report when there is room to write.
    pub(super) fn poll(&mut self, slot: Slot) {
        self.entries[slot as usize].flight.poll.get_or_insert(Poll::Waits);
    }

    pub(super) fn polled(&mut self, slot: Slot, generation: u32) -> Option<Completion<SimSocket>> {
        if !self.is_current(slot, generation) {
            return None;
        }
        let entry = &mut self.entries[slot as usize];
        entry.flight.poll = None;
        if entry.closing {
            return self.release_if_done(slot);
        }
        Some(Completion::Writable { slot })
    }

    /// Turns the receive on or off as the engine wants it.
    pub(super) fn steer_receive(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        if entry.connecting {
            return;
        }
        if entry.wanted && !entry.flight.receiving {
            entry.flight.arm();
        } else if !entry.wanted && entry.flight.receiving {
            entry.flight.cancelling = true;
        }
    }

    /// Repeats receives that found no buffer.
    pub(super) fn feed_the_starved(&mut self) {
        for slot in std::mem::take(&mut self.starved) {
            let entry = &mut self.entries[slot as usize];
            if entry.socket.is_some() && !entry.closing {
                self.steer_receive(slot);
            }
        }
    }

    pub(super) fn received(
        &mut self,
        slot: Slot,
        generation: u32,
    ) -> Option<Completion<SimSocket>> {
        if !self.is_current(slot, generation) {
            return None;
        }
        let entry = &mut self.entries[slot as usize];
        let (result, more) = entry.flight.results.pop_front().expect("one for each report");
        if !more {
            entry.flight.receiving = false;
            entry.flight.cancelling = false;
        }
        if entry.closing {
            if let Ok(Some(lent)) = result {
                self.buffers.discard(lent);
            }
            return self.release_if_done(slot);
        }
        match result {
            Ok(None) => entry.wanted = false,
            Err(Errno::NOBUFS) => {
                self.starved.push(slot);
                return None;
            }
            _ if entry.wanted && !entry.flight.receiving => entry.flight.arm(),
            _ => {}
        }
        match result {
            Ok(Some(lent)) => {
                self.buffers.hand_over(&lent);
                Some(Completion::Received { slot, lent })
            }
            Ok(None) => Some(Completion::Ended { slot }),
            Err(Errno::CANCELED | Errno::INTR) => None,
            Err(error) => Some(Completion::Failed { slot, error }),
        }
    }

    /// Begins a send.
    ///
    /// # Safety
    /// The memory of `parts` must stay in place until `Sent` or `Released`.
    pub(super) unsafe fn begin_send(&mut self, slot: Slot, parts: &[IoSlice<'_>]) -> Sending {
        let entry = &mut self.entries[slot as usize];
        assert!(entry.flight.send.is_none(), "one send in flight per connection");
        // SAFETY: the caller keeps the contract of this function.
        let held = unsafe { Held::new(parts) };
        entry.flight.send = Some(InFlight { held, done: 0, result: None });
        Sending::Pending
    }

    pub(super) fn sent(&mut self, slot: Slot, generation: u32) -> Option<Completion<SimSocket>> {
        if !self.is_current(slot, generation) {
            return None;
        }
        let entry = &mut self.entries[slot as usize];
        let send = entry.flight.send.take().expect("one for each report");
        send.held.check();
        if entry.closing && entry.flight.is_quiet() {
            self.ready.push(ReadyEntry::OperationsDone { slot, generation });
        }
        let result = match send.result.expect("a result was reported") {
            Err(Errno::INTR | Errno::CANCELED) => Ok(0),
            result => result,
        };
        Some(Completion::Sent { slot, result })
    }

    pub(super) fn release_if_done(&mut self, slot: Slot) -> Option<Completion<SimSocket>> {
        let entry = &mut self.entries[slot as usize];
        if !entry.flight.is_quiet() || entry.connecting {
            return None;
        }
        entry.socket = None;
        Some(Completion::Released { slot })
    }
}

/// Completes as much of a receive as possible; `ending` is whether its cancel is under way.
fn receive(
    state: &mut State,
    client: Client,
    flight: &mut Flight,
    buffers: &mut Buffers,
    ending: bool,
) {
    let times = if ending && state.random.chance(500) {
        0
    } else {
        state.random.between(1, BUFFERS_AT_ONCE)
    };
    for _ in 0..times {
        let Some((result, more)) = receive_once(state, client, buffers) else { break };
        flight.results.push_back((result, more));
        flight.receive_armed = more;
        if !more {
            return;
        }
    }
    if ending {
        flight.results.push_back((Err(Errno::CANCELED), false));
        flight.receive_armed = false;
    }
}

/// Returns one result of a receive and whether more follow without a request; `None` if there is
/// none.
fn receive_once(
    state: &mut State,
    client: Client,
    buffers: &mut Buffers,
) -> Option<(Result<Option<Lent>, Errno>, bool)> {
    if !state.connections[client.0].has_input() {
        return None;
    }
    let faults = &state.dice.faults;
    let (interrupt, short, disarm) = (faults.interrupt, faults.short, faults.disarm);
    if state.random.chance(interrupt) {
        return Some((Err(Errno::INTR), false));
    }
    if let Some(error) = state.connections[client.0].broken {
        return Some((Err(error), false));
    }
    if let Some(error) = state.fails(Fallible::Receive, Some(client)) {
        state.connections[client.0].fail(error);
        return Some((Err(error), false));
    }
    let waiting = state.connections[client.0].to_server.len();
    if waiting == 0 {
        return Some((Ok(None), false));
    }
    if buffers.is_exhausted() {
        return Some((Err(Errno::NOBUFS), false));
    }
    let bytes = state.random.part_of(waiting.min(buffers.capacity()), short);
    let lent = buffers.fill(state.take_input(client, bytes));
    Some((Ok(Some(lent)), !state.random.chance(disarm)))
}

impl InFlight {
    /// Lets the kernel go on with the send.
    fn work(&mut self, state: &mut State, client: Client, closing: bool) {
        let so_far = |done: usize, error| if done > 0 { Ok(done) } else { Err(error) };
        if let Some(error) = state.connections[client.0].broken {
            self.result = Some(so_far(self.done, error));
            return;
        }
        let faults = &state.dice.faults;
        let (interrupt, short, disarm) = (faults.interrupt, faults.short, faults.disarm);
        if closing && state.random.chance(500) || state.random.chance(interrupt) {
            self.result = Some(so_far(self.done, Errno::CANCELED));
            return;
        }
        let room = state.connections[client.0].room();
        if room > 0 {
            if let Some(error) = state.fails(Fallible::Send, Some(client)) {
                state.connections[client.0].fail(error);
                self.result = Some(so_far(self.done, error));
                return;
            }
            if let Some(error) = state.lacks_memory() {
                self.result = Some(so_far(self.done, error));
                return;
            }
            let left = self.held.bytes() - self.done;
            let sent = state.random.part_of(room.min(left), short);
            state.put_output(client, self.held.read(self.done, self.done + sent));
            self.done += sent;
        }
        let done = self.done;
        let short = state.connections[client.0].options.local || state.random.chance(disarm);
        if done == self.held.bytes() || closing || done > 0 && short {
            self.result = Some(so_far(done, Errno::CANCELED));
        }
    }
}
