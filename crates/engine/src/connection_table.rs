//! The connections of one worker: a slab whose slots carry a generation, so that a late message or
//! completion never reaches the next connection in a slot.

use std::net::SocketAddr;

use crate::backend::Slot;
use crate::connection::{Connection, Protocol};
use crate::connection_direction::ConnectionDirection;
use crate::output_queue::NO_OUTPUT;
use crate::table_capacity::has_places;
use crate::transport_link::TransportLink;

/// All connections of a worker.
pub(crate) struct ConnectionTable {
    /// The generation before the first of every slot.
    origin: u64,
    slots: Vec<Connection>,
    free: Vec<Slot>,
    in_use_count: usize,
}

impl ConnectionTable {
    /// Creates an empty slab. Its connections have other generations than those of another
    /// `incarnation` of the worker, whose addresses may still be known somewhere.
    pub(crate) fn new(incarnation: u32) -> Self {
        Self {
            origin: u64::from(incarnation) << 32,
            slots: Vec::new(),
            free: Vec::new(),
            in_use_count: 0,
        }
    }

    /// Makes room for one more connection and returns how many entries a table needs that has one
    /// for each; `None` if there is no memory for it.
    pub(crate) fn make_room(&mut self) -> Option<usize> {
        let places = if self.free.is_empty() { self.slots.len() + 1 } else { self.slots.len() };
        // Giving a slot back must never fail.
        (has_places(&mut self.slots, places) && has_places(&mut self.free, places))
            .then_some(places)
    }

    /// Opens a slot for a new connection, which is `receiving` on a socket of its own or not;
    /// [`Self::make_room`] has made room for it.
    pub(crate) fn open(
        &mut self,
        receiving: bool,
        direction: ConnectionDirection,
        peer: Option<SocketAddr>,
    ) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Connection::empty(self.origin));
            (self.slots.len() - 1) as Slot
        });
        let connection = &mut self.slots[slot as usize];
        *connection = Connection {
            direction,
            peer,
            in_use: true,
            link: TransportLink::new(receiving),
            protocol: Protocol::Handshake,
            ..Connection::empty(connection.generation + 1)
        };
        self.in_use_count += 1;
        slot
    }

    /// Gives a slot back for reuse. Its buffers must have been taken out before.
    pub(crate) fn release(&mut self, slot: Slot) {
        let connection = &mut self.slots[slot as usize];
        assert!(connection.in_use, "a slot is released once");
        debug_assert!(
            connection.link.input.held_bytes() == 0 && connection.link.output == NO_OUTPUT
        );
        connection.in_use = false;
        self.in_use_count -= 1;
        self.free.push(slot);
    }

    /// Returns the connection in a live slot.
    #[inline]
    pub(crate) fn get(&mut self, slot: Slot) -> &mut Connection {
        &mut self.slots[slot as usize]
    }

    /// Returns true while `slot` holds a connection with this generation.
    pub(crate) fn is(&self, slot: Slot, generation: u64) -> bool {
        self.slots
            .get(slot as usize)
            .is_some_and(|connection| connection.in_use && connection.generation == generation)
    }

    /// Returns how many connections there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.in_use_count
    }

    /// Returns the first slot in use from `from` on.
    pub(crate) fn next_in_use(&self, from: Slot) -> Option<Slot> {
        let rest = self.slots.get(from as usize..)?;
        rest.iter().position(|connection| connection.in_use).map(|at| from + at as Slot)
    }
}

/// Bytes of one slot, used or free, with its entry in the list of free ones.
pub(crate) const SLOT_BYTES: usize = size_of::<Connection>() + size_of::<Slot>();
