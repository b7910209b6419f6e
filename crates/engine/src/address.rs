//! Where a message goes: one connection of one worker, never a later tenant of the same slot.

/// Names one connection for as long as it lives. A message posted to an address whose connection
/// is gone is dropped, because the slot's generation has moved on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// Index of the worker.
    pub worker: u16,
    /// Index of the connection within the worker.
    pub slot: u32,
    /// How many connections had the slot before.
    pub generation: u32,
}
