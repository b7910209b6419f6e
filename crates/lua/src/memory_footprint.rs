//! An upper bound of the memory of scripts: their VMs, and their data outside of the VMs. The
//! memory of the engine is not included.

use pinion_client::memory_footprint::BROTLI_DECODER_BYTES;
use pinion_jobs::limits::FILE_READ_MAX_BYTES;

use crate::limits::{
    CONTENT_RESERVE_DIVISOR, CONTENT_TEXT_MAX_BYTES, PLAIN_MAX_BYTES, VM_ALLOCATOR_OVERHEAD_DIVISOR,
};
use crate::script_memory_limits::ScriptMemory;
use crate::script_quotas::Allowance;
use crate::task::TASK_BYTES;

/// The most memory that the scripts of all sites take in all workers, as long as no reload replaces
/// a script: during a reload both versions exist. All parts are in bytes, and 0 without scripts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScriptFootprint {
    /// The memory that VMs count of their values: one VM of each script in each worker.
    pub vm_bytes: u64,
    /// The overhead of the allocator for these values.
    pub vm_allocator_overhead_bytes: u64,
    /// The tables of tasks, which are outside of the VMs.
    pub task_bytes: u64,
    /// Values that are kept across reloads.
    pub kept_bytes: u64,
    /// Request bodies. A body that becomes one string of Lua exists twice while it is copied, so
    /// the largest such string is counted twice.
    pub content_bytes: u64,
    /// Requests to other servers that have not ended: waiting requests, unread responses, the
    /// bodies that are sent, and decoders for brotli. Connections are not included.
    pub fetch_bytes: u64,
    /// The arguments of queued jobs, the results of jobs, and the data that each thread reads.
    pub job_bytes: u64,
    /// Messages that wait to be delivered, and commands of the store.
    pub message_bytes: u64,
    /// The memory in which each thread hashes passwords. It is mapped directly and is not part of a
    /// heap.
    pub password_bytes: u64,
}

impl ScriptFootprint {
    /// Computes the memory of these scripts. Each of the `workers` runs all of them.
    #[must_use]
    pub fn new(workers: usize, scripts: &[Allowance], memory: &ScriptMemory) -> Self {
        if scripts.is_empty() {
            return Self::default();
        }
        let (mut vm_bytes, mut largest_request_bytes) = (0, 0);
        for script in scripts.iter().map(|script| script.with_machine_defaults(memory)) {
            vm_bytes += script.vm_memory_bytes;
            largest_request_bytes = largest_request_bytes.max(script.memory_bytes);
        }
        // One string can be as large as all content that large requests may keep: the memory of
        // content without the part that is reserved for small requests.
        let large_content_bytes =
            memory.content_bytes - memory.content_bytes / CONTENT_RESERVE_DIVISOR;
        let content_bytes =
            memory.content_bytes + large_content_bytes.min(CONTENT_TEXT_MAX_BYTES as usize);
        let brotli_bytes = memory.brotli_decoders * BROTLI_DECODER_BYTES;
        let jobs = &memory.jobs;
        // A job whose arguments alone exceed the limit of queued arguments is accepted while no
        // other job is queued. They are at most as long as the memory of a request.
        let waiting_bytes = jobs.waiting_bytes.max(largest_request_bytes);
        let read_bytes =
            jobs.file_threads * largest_request_bytes.min(FILE_READ_MAX_BYTES as usize);
        let for_all_workers = |bytes: usize| (workers * bytes) as u64;
        Self {
            vm_bytes: for_all_workers(vm_bytes),
            vm_allocator_overhead_bytes: for_all_workers(vm_bytes / VM_ALLOCATOR_OVERHEAD_DIVISOR),
            task_bytes: for_all_workers(scripts.len() * memory.tasks_max * TASK_BYTES),
            kept_bytes: for_all_workers(scripts.len() * memory.kept_bytes),
            content_bytes: for_all_workers(content_bytes),
            fetch_bytes: for_all_workers(
                memory.fetch_bytes + memory.fetch_bodies_bytes + brotli_bytes,
            ),
            job_bytes: (waiting_bytes + jobs.results_bytes + read_bytes) as u64,
            message_bytes: memory.messages_bytes.max(PLAIN_MAX_BYTES) as u64,
            password_bytes: (jobs.password_threads * memory.passwords.cost.bytes()) as u64,
        }
    }

    /// Returns the sum of all parts, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        let vm_total_bytes =
            self.vm_bytes + self.vm_allocator_overhead_bytes + self.task_bytes + self.kept_bytes;
        let request_total_bytes = self.content_bytes + self.fetch_bytes + self.job_bytes;
        vm_total_bytes + request_total_bytes + self.message_bytes + self.password_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job whose arguments exceed the limit of queued arguments is accepted while the queue is
    /// empty.
    #[test]
    fn job_memory_holds_the_largest_string_of_a_request_twice() {
        let small = ScriptMemory::scaled(0);
        let job_bytes_for =
            |script: Allowance| ScriptFootprint::new(1, &[script], &small).job_bytes;
        let least = job_bytes_for(Allowance::default());
        let largest_strings_bytes = 2 * small.request_bytes as u64;
        assert_eq!(least, largest_strings_bytes + small.jobs.results_bytes as u64);
        let memory_bytes = 3 * small.request_bytes;
        let with_set_memory =
            Allowance { memory_bytes, is_memory_set: true, ..Allowance::default() };
        assert_eq!(job_bytes_for(with_set_memory) - least, 2 * largest_strings_bytes);
    }

    #[test]
    fn the_footprint_counts_a_vm_per_worker_and_script() {
        let (script, memory) = (Allowance::default(), ScriptMemory::default());
        let script_bytes = |workers, scripts: &[Allowance], memory: &ScriptMemory| {
            ScriptFootprint::new(workers, scripts, memory).bytes()
        };
        assert_eq!(ScriptFootprint::new(2, &[], &memory), ScriptFootprint::default());
        let one = script_bytes(1, &[script], &memory);
        let least = (memory.vm_bytes + memory.content_bytes) as u64;
        assert!(one > least);
        assert!(script_bytes(2, &[script], &memory) >= one + least);
        let two = script_bytes(1, &[script; 2], &memory);
        let tasks_bytes = memory.tasks_max * TASK_BYTES;
        let vm_bytes = memory.vm_bytes + memory.vm_bytes / VM_ALLOCATOR_OVERHEAD_DIVISOR;
        assert_eq!(two - one, (vm_bytes + memory.kept_bytes + tasks_bytes) as u64);
        let small = ScriptMemory::scaled(0);
        assert!(script_bytes(1, &[script], &small) < one / 4);
        let without = ScriptMemory { brotli_decoders: memory.brotli_decoders - 1, ..memory };
        let more = script_bytes(2, &[script], &memory) - script_bytes(2, &[script], &without);
        assert_eq!(more, 2 * BROTLI_DECODER_BYTES as u64);
        let without = ScriptMemory { fetch_bytes: memory.fetch_bytes - 100, ..memory };
        let without = ScriptMemory { fetch_bodies_bytes: 0, ..without };
        let more = script_bytes(2, &[script], &memory) - script_bytes(2, &[script], &without);
        assert_eq!(more, 2 * (memory.fetch_bodies_bytes + 100) as u64);
        let with_set_vm_memory = Allowance { is_vm_memory_set: true, ..script };
        let more =
            script_bytes(1, &[with_set_vm_memory], &small) - script_bytes(1, &[script], &small);
        assert!(more >= (script.vm_memory_bytes - small.vm_bytes) as u64);
    }
}
