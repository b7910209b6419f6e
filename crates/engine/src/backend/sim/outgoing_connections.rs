//! The connections that the engine opens.

use rustix::io::Errno;

use super::completion_mode::Flight;
use super::faults::Fallible;
use super::ready_entries::{ReadyEntry, delay_at_random};
use super::{Completion, OpeningState, Sim, SimEntry, SimSocket, Slot};
use crate::outgoing_connect::RemoteAddress;

impl<const READINESS: bool> Sim<READINESS> {
    /// Opens a connection for [`super::Backend::connect`]. Those of Unix sockets are open at once,
    /// or later: the engine must not rely on either.
    pub(super) fn open_connection(
        &mut self,
        slot: Slot,
        remote: &RemoteAddress,
    ) -> Result<OpeningState, Errno> {
        self.begin_opening(slot, remote)?;
        let is_local = matches!(remote, RemoteAddress::Unix(_));
        let mut state = self.network.0.borrow_mut();
        let chance = state.dice.faults.open_at_once;
        if !is_local || !state.random.chance(chance) {
            return Ok(OpeningState::Pending);
        }
        drop(state);
        let entry = &mut self.entries[slot as usize];
        let client = entry.socket.as_ref().expect("it was made just now").client;
        self.network.0.borrow_mut().connections[client.0].established = true;
        (entry.connecting, entry.wanted) = (false, true);
        entry.flight = Flight::new(!READINESS);
        Ok(OpeningState::Done)
    }

    /// Begins to open a connection, which is reported later.
    pub(super) fn begin_opening(
        &mut self,
        slot: Slot,
        remote: &RemoteAddress,
    ) -> Result<(), Errno> {
        let index = slot as usize;
        if index >= self.entries.len() {
            self.entries.resize_with(index + 1, SimEntry::default);
        }
        let client = {
            let mut state = self.network.0.borrow_mut();
            if let Some(error) = state.fails(Fallible::Connect, None) {
                return Err(error);
            }
            state.open(remote)
        };
        self.network.note(format_args!("{client:?} is slot {slot}"));
        let socket = SimSocket { network: self.network.clone(), client, reset: false };
        let entry = &mut self.entries[index];
        assert!(entry.socket.is_none(), "a slot is attached once");
        *entry = SimEntry {
            socket: Some(socket),
            generation: entry.generation + 1,
            connecting: true,
            ..SimEntry::default()
        };
        Ok(())
    }

    /// Checks whether a connection that is opened has its result. io_uring cancels one that is
    /// closed meanwhile.
    pub(super) fn collect_connected(&mut self, slot: Slot, due: &mut Option<u64>) {
        let entry = &mut self.entries[slot as usize];
        let Some(socket) = &entry.socket else { return };
        let mut state = self.network.0.borrow_mut();
        let connection = &state.connections[socket.client.0];
        let is_over = connection.established || connection.broken.is_some() || entry.closing;
        let connected = ReadyEntry::Connected { slot, generation: entry.generation };
        if is_over
            && !delay_at_random(&mut state, &mut entry.output_after_ms, due)
            && !self.ready.contains(&connected)
        {
            self.ready.push(connected);
        }
    }

    pub(super) fn connected(
        &mut self,
        slot: Slot,
        generation: u32,
    ) -> Option<Completion<SimSocket>> {
        if !self.is_current(slot, generation) {
            return None;
        }
        let entry = &mut self.entries[slot as usize];
        entry.connecting = false;
        if entry.closing {
            return self.release_if_done(slot);
        }
        let client = entry.socket.as_ref()?.client;
        let broken = self.network.0.borrow().connections[client.0].broken;
        if broken.is_none() {
            entry.wanted = true;
            entry.flight = Flight::new(!READINESS);
        }
        Some(Completion::Connected { slot, result: broken.map_or(Ok(()), Err) })
    }
}
