//! The limits that the operator of a server sets for the scripts of a site.

use crate::limits::{
    CPU_MAX_MS, ENDLESS_MS, MEMORY_MAX_BYTES, SPAWNED_MAX, VM_MEMORY_MAX_BYTES, WALL_MAX_MS,
};
use crate::pattern::limits::DEFAULT_STEPS;
use crate::script_memory_limits::ScriptMemory;

/// The limits of a script, and whether it runs in the sandbox. The defaults are the limits of
/// [`crate::limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// CPU of a request.
    pub cpu_ms: u64,
    /// Memory of a request, in addition to the memory that its VM used before.
    pub memory_bytes: usize,
    /// Whether the operator has set this memory.
    pub is_memory_set: bool,
    /// Memory of a VM, for all its requests and the values that its script keeps.
    pub vm_memory_bytes: usize,
    /// Whether the operator has set this memory.
    pub is_vm_memory_set: bool,
    /// The longest time that a request may take in all, including its waits.
    pub wall_ms: u64,
    /// Steps of searches in strings, of a request.
    pub steps: u64,
    /// Pieces of work that one request, or one run of a schedule, may start in all.
    pub spawned_max: u32,
    /// Whether all libraries are open: files, programs, foreign functions and bytecode.
    pub is_unsafe: bool,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            cpu_ms: CPU_MAX_MS,
            memory_bytes: MEMORY_MAX_BYTES,
            is_memory_set: false,
            vm_memory_bytes: VM_MEMORY_MAX_BYTES,
            is_vm_memory_set: false,
            wall_ms: WALL_MAX_MS,
            steps: DEFAULT_STEPS,
            spawned_max: SPAWNED_MAX,
            is_unsafe: false,
        }
    }
}

impl Allowance {
    /// Returns these limits with the memory that scripts have on this machine, where the operator
    /// has set none.
    #[must_use]
    pub fn with_machine_defaults(self, memory: &ScriptMemory) -> Self {
        let vm_memory_bytes = match (self.is_vm_memory_set, self.is_memory_set) {
            (true, _) => self.vm_memory_bytes,
            (false, true) => memory.vm_bytes.max(self.memory_bytes),
            (false, false) => memory.vm_bytes,
        };
        let memory_bytes = if self.is_memory_set || self.is_vm_memory_set {
            self.memory_bytes
        } else {
            memory.request_bytes.min(self.memory_bytes)
        };
        Self { memory_bytes, vm_memory_bytes, ..self }
    }

    /// Returns the limits of a program at the command line, which can block only its own user.
    #[must_use]
    pub fn endless() -> Self {
        Self {
            cpu_ms: ENDLESS_MS,
            memory_bytes: usize::MAX / 2,
            is_memory_set: true,
            vm_memory_bytes: usize::MAX / 2,
            is_vm_memory_set: true,
            wall_ms: ENDLESS_MS,
            steps: u64::MAX / 2,
            spawned_max: u32::MAX,
            is_unsafe: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_memory_limit_is_not_scaled_down() {
        let small = ScriptMemory::scaled(0);
        let none = Allowance::default().with_machine_defaults(&small);
        assert_eq!(none.vm_memory_bytes, small.vm_bytes);
        assert_eq!(none.memory_bytes, small.request_bytes);
        let set = Allowance { is_vm_memory_set: true, ..Allowance::default() };
        assert_eq!(set.with_machine_defaults(&small), set);
        let memory = 40 << 20;
        let set = Allowance { memory_bytes: memory, is_memory_set: true, ..Allowance::default() };
        let limits = set.with_machine_defaults(&small);
        assert_eq!((limits.memory_bytes, limits.vm_memory_bytes), (memory, memory));
        assert_eq!(set.with_machine_defaults(&ScriptMemory::default()), set);
        let endless = Allowance::endless();
        assert_eq!(endless.with_machine_defaults(&small), endless);
    }
}
