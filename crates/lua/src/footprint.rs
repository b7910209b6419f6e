//! What scripts take at most, beside the engine: their VMs, and what stands outside of them.

use pinion_client::footprint::BROTLI_DECODER_BYTES;
use pinion_jobs::limits::FILE_READ_MAX_BYTES;

use crate::allowance::Allowance;
use crate::library::passwords;
use crate::limits::CONTENT_TEXT_MAX_BYTES;
use crate::script_memory::ScriptMemory;

/// Returns the bytes of the scripts of these sites in so many workers, as long as none of them is
/// replaced. 0 without scripts.
#[must_use]
pub fn script_bytes(workers: usize, scripts: &[Allowance], memory: &ScriptMemory) -> u64 {
    if scripts.is_empty() {
        return 0;
    }
    let fitted = scripts.iter().map(|script| script.fitted(memory));
    let (mut vm_bytes, mut read_bytes) = (0, 0);
    for script in fitted {
        vm_bytes += (script.vm_memory_bytes + memory.kept_bytes) as u64;
        read_bytes = read_bytes.max(script.memory_bytes as u64);
    }
    // A text of content is there twice for a moment.
    let content_bytes = memory.content_bytes as u64;
    let content_bytes = content_bytes + content_bytes.min(CONTENT_TEXT_MAX_BYTES);
    let jobs = &memory.jobs;
    let passwords_bytes = (jobs.password_threads * passwords::THREAD_BYTES) as u64;
    let reads_bytes = jobs.file_threads as u64 * read_bytes.min(FILE_READ_MAX_BYTES);
    let waiting_bytes = (jobs.waiting_bytes + jobs.results_bytes + memory.messages_bytes) as u64;
    // Requests to other servers, beside those that have a connection.
    let brotli_bytes = memory.brotli_decoders * BROTLI_DECODER_BYTES;
    let fetch_bytes = (memory.fetch_bytes + memory.fetch_bodies_bytes + brotli_bytes) as u64;
    let worker_bytes = vm_bytes + content_bytes + fetch_bytes;
    workers as u64 * worker_bytes + passwords_bytes + reads_bytes + waiting_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_has_a_vm_of_each_script_and_content_of_its_own() {
        let (script, memory) = (Allowance::default(), ScriptMemory::default());
        assert_eq!(script_bytes(2, &[], &memory), 0);
        let one = script_bytes(1, &[script], &memory);
        let least = (memory.vm_bytes + memory.content_bytes) as u64;
        assert!(one > least);
        assert!(script_bytes(2, &[script], &memory) >= one + least);
        let two = script_bytes(1, &[script; 2], &memory);
        assert_eq!(two - one, (memory.vm_bytes + memory.kept_bytes) as u64);
        let small = ScriptMemory::scaled(0);
        assert!(script_bytes(1, &[script], &small) < one / 4);
        let without = ScriptMemory { brotli_decoders: memory.brotli_decoders - 1, ..memory };
        let more = script_bytes(2, &[script], &memory) - script_bytes(2, &[script], &without);
        assert_eq!(more, 2 * BROTLI_DECODER_BYTES as u64);
        let without = ScriptMemory { fetch_bytes: memory.fetch_bytes - 100, ..memory };
        let without = ScriptMemory { fetch_bodies_bytes: 0, ..without };
        let more = script_bytes(2, &[script], &memory) - script_bytes(2, &[script], &without);
        assert_eq!(more, 2 * (memory.fetch_bodies_bytes + 100) as u64);
        let set = Allowance { is_vm_memory_set: true, ..script };
        let more = script_bytes(1, &[set], &small) - script_bytes(1, &[script], &small);
        assert!(more >= (script.vm_memory_bytes - small.vm_bytes) as u64);
    }
}
