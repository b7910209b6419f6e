//! The shape of epoll: readiness is reported, and transfers are done at the request of the engine.

use rustix::io::Errno;

use super::faults::Fallible;
use super::ready_entries::{ReadyEntry, delay_at_random};
use super::{Completion, SENT_PER_PASS_MAX_BYTES, Sending, Sim, SimSocket, Slot};

impl<const READINESS: bool> Sim<READINESS> {
    /// Finds the readiness of one socket.
    pub(super) fn collect_ready(&mut self, slot: Slot, due: &mut Option<u64>) {
        let entry = &mut self.entries[slot as usize];
        let Some(socket) = &entry.socket else { return };
        let mut state = self.network.0.borrow_mut();
        let connection = &state.connections[socket.client.0];
        let broken = connection.broken.is_some();
        // Level-triggered pollers report a socket whose two directions have ended even without a
        // request.
        let hung_up = broken || connection.client_ended && entry.finished;
        let output = entry.writing && (connection.room() > 0 || broken);
        let input = if entry.wanted { connection.has_input() } else { hung_up };
        let output = output && !delay_at_random(&mut state, &mut entry.output_after_ms, due);
        let input = input && !delay_at_random(&mut state, &mut entry.input_after_ms, due);
        let socket = ReadyEntry::Socket { slot, generation: entry.generation, output };
        if (output || input) && !self.ready.contains(&socket) {
            self.ready.push(socket);
        }
    }

    pub(super) fn look_at_socket(
        &mut self,
        slot: Slot,
        generation: u32,
        output: bool,
    ) -> Option<Completion<SimSocket>> {
        let entry = &mut self.entries[slot as usize];
        if output && std::mem::take(&mut entry.writing) {
            self.ready.push(ReadyEntry::Socket { slot, generation, output: false });
            return Some(Completion::Writable { slot });
        }
        if entry.wanted {
            return self.receive_now(slot);
        }
        let client = entry.socket.as_ref()?.client;
        let state = self.network.0.borrow();
        let connection = &state.connections[client.0];
        let hung_up = connection.broken.is_some() || connection.client_ended && entry.finished;
        hung_up.then_some(Completion::Failed { slot, error: Errno::CONNRESET })
    }

    fn receive_now(&mut self, slot: Slot) -> Option<Completion<SimSocket>> {
        let entry = &mut self.entries[slot as usize];
        let client = entry.socket.as_ref()?.client;
        let mut state = self.network.0.borrow_mut();
        let (interrupt, short) = (state.dice.faults.interrupt, state.dice.faults.short);
        if !state.connections[client.0].has_input() || state.random.chance(interrupt) {
            return None;
        }
        if let Some(error) = state.connections[client.0].broken {
            return Some(Completion::Failed { slot, error });
        }
        if let Some(error) = state.fails(Fallible::Receive, Some(client)) {
            state.connections[client.0].fail(error);
            return Some(Completion::Failed { slot, error });
        }
        let waiting = state.connections[client.0].to_server.len();
        if waiting == 0 {
            entry.wanted = false;
            return Some(Completion::Ended { slot });
        }
        let bytes = state.random.part_of(waiting.min(self.buffers.capacity()), short);
        let lent = self.buffers.fill(state.take_input(client, bytes));
        self.buffers.hand_over(&lent);
        Some(Completion::Received { slot, lent })
    }

    pub(super) fn transfer(&mut self, slot: Slot, bytes: &[u8]) -> Sending {
        let entry = &mut self.entries[slot as usize];
        let client = entry.socket.as_ref().expect("open").client;
        let mut state = self.network.0.borrow_mut();
        if let Some(error) = state.connections[client.0].broken {
            return Sending::Failed(error);
        }
        let faults = &state.dice.faults;
        let (interrupt, short) = (faults.interrupt, faults.short);
        if state.random.chance(interrupt) {
            return Sending::Done(0);
        }
        if let Some(error) = state.fails(Fallible::Send, Some(client)) {
            state.connections[client.0].fail(error);
            return Sending::Failed(error);
        }
        let room = state.connections[client.0].room();
        if room > 0
            && let Some(error) = state.lacks_memory()
        {
            return Sending::Failed(error);
        }
        // A kernel may take nothing for a moment although there is room.
        if room == 0 || state.random.chance(interrupt) {
            drop(state);
            self.report_writable(slot);
            return Sending::Blocked;
        }
        let sent = state.random.part_of(room.min(bytes.len()), short);
        state.put_output(client, &bytes[..sent]);
        entry.turn_bytes += sent;
        assert!(
            entry.turn_bytes <= SENT_PER_PASS_MAX_BYTES,
            "slot {slot} keeps the others waiting"
        );
        Sending::Done(sent)
    }
}
