//! The address of a message: one exchange or stream of one connection of one worker, never a later
//! one in its place.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

/// A table of exchanges or streams. Its hash has no secret: a client chooses at most the number of
/// its stream in an address, and the streams that are open at once are too few for collisions to
/// slow the table down.
pub type AddressMap<V> = HashMap<Address, V, FxBuildHasher>;

/// The address of one exchange or stream for as long as it lives. A message posted to one that is
/// over is dropped, because its generation has changed. The addresses of one connection differ only
/// in `exchange`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// The index of the worker.
    pub worker: u16,
    /// The index of the connection within the worker.
    pub slot: u32,
    /// The generation of the slot: no two connections have the same number, and neither have those
    /// of a worker and of the one that takes its place after a panic.
    pub generation: u64,
    /// The number of the exchange or stream on the connection. It wraps after the largest number,
    /// which takes more requests than a message can be late.
    pub exchange: u32,
}
