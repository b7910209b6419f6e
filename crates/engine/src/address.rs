//! Where a message goes: one exchange or stream of one connection of one worker, never a later one
//! in its place.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

/// A table of exchanges or streams. Its hash has no secret: of an address a client chooses the
/// number of its stream at most, and so many streams are not open at once that their places in a
/// table could slow it down.
pub type AddressMap<V> = HashMap<Address, V, FxBuildHasher>;

/// Names one exchange or stream for as long as it lives. A message posted to one that is over is
/// dropped, because its place has moved on. The addresses of one connection are the same but for
/// `exchange`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// Index of the worker.
    pub worker: u16,
    /// Index of the connection within the worker.
    pub slot: u32,
    /// Which tenant of the slot: no two have the same number, and neither have those of a worker
    /// and of the one that takes its place after a panic.
    pub generation: u64,
    /// Which exchange or stream of the connection. It counts on behind the largest number, after
    /// more requests than a message can be late.
    pub exchange: u32,
}
