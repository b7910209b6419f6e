//! What the operator of a server lets the scripts of a site take.

use crate::limits::{
    CPU_MAX_MS, ENDLESS_MS, MEMORY_MAX_BYTES, SPAWNED_MAX, VM_MEMORY_MAX_BYTES, WALL_MAX_MS,
};
use crate::pattern::limits::DEFAULT_STEPS;

/// What a script may take, and whether it is kept from the machine. The defaults are the limits of
/// [`crate::limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// CPU of a request.
    pub cpu_ms: u64,
    /// Memory of a request, beside what its VM had before.
    pub memory_bytes: usize,
    /// Memory of a VM, for all its requests and what its script keeps.
    pub vm_memory_bytes: usize,
    /// How long a request may take in all, whatever it waits for.
    pub wall_ms: u64,
    /// Steps of searches in strings, of a request.
    pub steps: u64,
    /// Pieces of work that may come of one request, or of one run of what is repeated.
    pub spawned_max: u32,
    /// All libraries are open: files, programs, foreign functions and bytecode.
    pub is_unsafe: bool,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            cpu_ms: CPU_MAX_MS,
            memory_bytes: MEMORY_MAX_BYTES,
            vm_memory_bytes: VM_MEMORY_MAX_BYTES,
            wall_ms: WALL_MAX_MS,
            steps: DEFAULT_STEPS,
            spawned_max: SPAWNED_MAX,
            is_unsafe: false,
        }
    }
}

impl Allowance {
    /// Of a program at the command line: it holds up nobody but the one who has started it.
    #[must_use]
    pub fn endless() -> Self {
        Self {
            cpu_ms: ENDLESS_MS,
            memory_bytes: usize::MAX / 2,
            vm_memory_bytes: usize::MAX / 2,
            wall_ms: ENDLESS_MS,
            steps: u64::MAX / 2,
            spawned_max: u32::MAX,
            is_unsafe: false,
        }
    }
}
