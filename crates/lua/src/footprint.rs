//! What scripts take at most, beside the engine: their VMs, and what stands outside of them.

use pinion_jobs::limits::{
    FILE_READ_MAX_BYTES, JOB_RESULTS_MAX_BYTES, JOB_THREADS_MAX, JOBS_MAX_BYTES,
    PASSWORD_THREADS_MAX,
};

use crate::allowance::Allowance;
use crate::library::passwords;
use crate::limits::{
    CONTENT_MEMORY_MAX_BYTES, CONTENT_TEXT_MAX_BYTES, KEPT_MAX_BYTES, MESSAGES_MAX_BYTES,
};

/// Bytes of the scripts of these sites in so many workers, as long as none of them is replaced. 0
/// without scripts.
#[must_use]
pub fn script_bytes<'a>(workers: usize, scripts: impl Iterator<Item = &'a Allowance>) -> u64 {
    let of_script = |script: &Allowance| (script.vm_memory_bytes + KEPT_MAX_BYTES) as u64;
    let sum_bytes: u64 = scripts.map(of_script).sum();
    if sum_bytes == 0 {
        return 0;
    }
    // A text of content is there twice for a moment.
    let content_bytes = CONTENT_MEMORY_MAX_BYTES as u64 + CONTENT_TEXT_MAX_BYTES;
    let passwords_bytes = (PASSWORD_THREADS_MAX * passwords::THREAD_BYTES) as u64;
    let jobs_bytes = JOB_THREADS_MAX as u64 * FILE_READ_MAX_BYTES + passwords_bytes;
    let waiting_bytes = (JOBS_MAX_BYTES + JOB_RESULTS_MAX_BYTES + MESSAGES_MAX_BYTES) as u64;
    workers as u64 * (sum_bytes + content_bytes) + jobs_bytes + waiting_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_has_a_vm_of_each_script_and_content_of_its_own() {
        let script = Allowance::default();
        assert_eq!(script_bytes(2, [].into_iter()), 0);
        let one = script_bytes(1, [&script].into_iter());
        let least = script.vm_memory_bytes + CONTENT_MEMORY_MAX_BYTES;
        assert!(one > least as u64);
        assert!(script_bytes(2, [&script].into_iter()) >= one + least as u64);
        let two = script_bytes(1, [&script, &script].into_iter());
        assert_eq!(two - one, (script.vm_memory_bytes + KEPT_MAX_BYTES) as u64);
    }
}
