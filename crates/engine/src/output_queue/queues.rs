//! The output queues of one worker.

use super::OutputQueue;
use crate::buffer_pool::Pool;
use crate::file_mapping::Mappings;
use crate::table_capacity::has_places;

/// The output queues of one worker; a connection refers to its queue by index.
#[derive(Default)]
pub(crate) struct Outputs {
    queues: Vec<OutputQueue>,
    free: Vec<u32>,
}

/// Bytes of the queue of one connection, with its entry in the list of free ones.
pub(crate) const QUEUE_BYTES: usize = size_of::<OutputQueue>() + size_of::<u32>();

/// The index for "no queue": no output waits.
pub(crate) const NO_OUTPUT: u32 = u32::MAX;

impl Outputs {
    /// Makes room for the queues of so many connections; returns false if there is no memory for
    /// them.
    pub(crate) fn make_room(&mut self, connections: usize) -> bool {
        has_places(&mut self.queues, connections) && has_places(&mut self.free, connections)
    }

    /// Returns the queue of a connection, which is allocated if it has none yet.
    /// [`Self::make_room`] has made room for it.
    #[inline]
    pub(crate) fn of(&mut self, index: &mut u32) -> &mut OutputQueue {
        if *index == NO_OUTPUT {
            *index = self.free.pop().unwrap_or_else(|| {
                self.queues.push(OutputQueue::default());
                (self.queues.len() - 1) as u32
            });
        }
        &mut self.queues[*index as usize]
    }

    /// Returns the queue with this index, if it is one.
    #[inline]
    pub(crate) fn get(&mut self, index: u32) -> Option<&mut OutputQueue> {
        self.queues.get_mut(index as usize)
    }

    /// Returns the bytes that wait in the queue with this index.
    #[inline]
    pub(crate) fn bytes(&self, index: u32) -> u64 {
        self.queues.get(index as usize).map_or(0, |queue| queue.bytes)
    }

    /// Returns how many queues connections have.
    #[cfg(feature = "sim")]
    pub(crate) fn in_use(&self) -> usize {
        self.queues.len() - self.free.len()
    }

    /// Returns the bytes that are counted for the queues themselves.
    #[cfg(feature = "sim")]
    pub(crate) fn own_bytes(&self) -> usize {
        self.queues.iter().map(OutputQueue::own_bytes).sum()
    }

    /// Moves the first `bytes` of one queue to the end of another; an empty queue is given back.
    /// Returns false if the budget is spent.
    pub(crate) fn transfer(
        &mut self,
        from: &mut u32,
        to: u32,
        bytes: u64,
        pool: &mut Pool,
        mappings: &mut Mappings,
    ) -> bool {
        let pair = self.queues.get_disjoint_mut([*from as usize, to as usize]);
        let Ok([source, target]) = pair else { return bytes == 0 };
        let moved = source.move_to(target, bytes, pool, mappings);
        if source.bytes == 0 {
            source.clear(pool, mappings);
            self.free(from);
        }
        moved
    }

    /// Gives an empty queue back.
    #[inline]
    pub(crate) fn free(&mut self, index: &mut u32) {
        if *index != NO_OUTPUT {
            debug_assert_eq!(self.queues[*index as usize].bytes, 0, "a freed queue is empty");
            self.free.push(*index);
            *index = NO_OUTPUT;
        }
    }
}
