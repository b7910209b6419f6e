//! The memory that scripts may take beyond the allowance of a request, chosen once at the start of
//! the server: where memory is small, all of it is smaller.

use pinion_client::limits::{
    BROTLI_DECODERS_MAX, REQUEST_MEMORY_MAX_BYTES, REQUEST_MEMORY_SMALL_BYTES,
};
use pinion_jobs::job_queue::JobLimits;
use pinion_jobs::limits::{
    JOB_RESULTS_MAX_BYTES, JOB_THREADS_MAX, JOBS_MAX_BYTES, PASSWORD_THREADS_MAX,
};

use crate::library::passwords::PasswordLimits;
use crate::limits::{
    CONTENT_MEMORY_MAX_BYTES, FETCH_BODIES_MAX_BYTES, KEPT_MAX_BYTES, MEMORY_MAX_BYTES,
    MESSAGES_MAX_BYTES, REQUEST_MEMORY_MIN_BYTES, REQUESTS_PER_VM, SMALL_CONTENT_BYTES,
    SMALL_FETCH_BODIES_BYTES, SMALL_KEPT_BYTES, SMALL_RESULTS_BYTES, SMALL_TASKS_MAX,
    SMALL_VM_BYTES, SMALL_WAITING_BYTES, TASKS_MAX, VM_MEMORY_MAX_BYTES,
};

/// The memory that scripts may take, for sites that do not set their own limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptMemory {
    /// The memory of one VM, in bytes.
    pub vm_bytes: usize,
    /// The memory of one request, in bytes.
    pub request_bytes: usize,
    /// The tasks of one VM, which decide the size of their table outside of it.
    pub tasks_max: usize,
    /// The memory of the values that a site keeps across reloads in one worker, in bytes.
    pub kept_bytes: usize,
    /// The memory of the request bodies of one worker, in bytes.
    pub content_bytes: usize,
    /// The memory of the messages that wait, in all workers, in bytes.
    pub messages_bytes: usize,
    /// The limits of jobs, in all workers.
    pub jobs: JobLimits,
    /// The cost limits of password hashes, on each thread for passwords.
    pub passwords: PasswordLimits,
    /// The memory of the requests of one worker to other servers, in bytes
    /// ([`REQUEST_MEMORY_MAX_BYTES`]).
    pub fetch_bytes: usize,
    /// The memory of the bodies of these requests, in bytes.
    pub fetch_bodies_bytes: usize,
    /// Responses of other servers to one worker that may be in brotli at the same time.
    pub brotli_decoders: usize,
}

impl Default for ScriptMemory {
    fn default() -> Self {
        Self::scaled(Self::WHOLE)
    }
}

impl ScriptMemory {
    /// The scale at which scripts have all that they may have by default.
    pub const WHOLE: u32 = 1024;

    /// Returns the limits at a scale between 0, with which small sites still work, and
    /// [`Self::WHOLE`].
    #[must_use]
    pub fn scaled(scale: u32) -> Self {
        debug_assert!(scale <= Self::WHOLE, "a part of the whole");
        let part = |least: usize, whole: usize| {
            least + (whole - least) * scale as usize / Self::WHOLE as usize
        };
        let vm_bytes = part(SMALL_VM_BYTES, VM_MEMORY_MAX_BYTES);
        Self {
            vm_bytes,
            request_bytes: (vm_bytes / REQUESTS_PER_VM)
                .clamp(REQUEST_MEMORY_MIN_BYTES, MEMORY_MAX_BYTES),
            tasks_max: part(SMALL_TASKS_MAX, TASKS_MAX),
            kept_bytes: part(SMALL_KEPT_BYTES, KEPT_MAX_BYTES),
            content_bytes: part(SMALL_CONTENT_BYTES, CONTENT_MEMORY_MAX_BYTES),
            messages_bytes: part(SMALL_WAITING_BYTES, MESSAGES_MAX_BYTES),
            jobs: JobLimits {
                waiting_bytes: part(SMALL_WAITING_BYTES, JOBS_MAX_BYTES),
                results_bytes: part(SMALL_RESULTS_BYTES, JOB_RESULTS_MAX_BYTES),
                file_threads: part(1, JOB_THREADS_MAX),
                password_threads: part(1, PASSWORD_THREADS_MAX),
            },
            passwords: PasswordLimits::scaled(scale),
            fetch_bytes: part(REQUEST_MEMORY_SMALL_BYTES, REQUEST_MEMORY_MAX_BYTES),
            fetch_bodies_bytes: part(SMALL_FETCH_BODIES_BYTES, FETCH_BODIES_MAX_BYTES),
            brotli_decoders: part(0, BROTLI_DECODERS_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_scale_memory_equals_the_limits_and_grows_with_the_scale() {
        let whole = ScriptMemory::default();
        assert_eq!(
            (whole.vm_bytes, whole.request_bytes, whole.kept_bytes),
            (VM_MEMORY_MAX_BYTES, MEMORY_MAX_BYTES, KEPT_MAX_BYTES)
        );
        assert_eq!(
            (whole.content_bytes, whole.messages_bytes),
            (CONTENT_MEMORY_MAX_BYTES, MESSAGES_MAX_BYTES)
        );
        assert_eq!(whole.jobs, JobLimits::default());
        assert_eq!((whole.tasks_max, whole.passwords), (TASKS_MAX, PasswordLimits::default()));
        assert_eq!(
            (whole.fetch_bytes, whole.fetch_bodies_bytes, whole.brotli_decoders),
            (REQUEST_MEMORY_MAX_BYTES, FETCH_BODIES_MAX_BYTES, BROTLI_DECODERS_MAX)
        );
        for scale in 1..=ScriptMemory::WHOLE {
            let (less, more) = (ScriptMemory::scaled(scale - 1), ScriptMemory::scaled(scale));
            assert!(less.vm_bytes < more.vm_bytes && less.request_bytes <= more.request_bytes);
            assert!(more.request_bytes <= more.vm_bytes);
            assert!(less.kept_bytes < more.kept_bytes && less.content_bytes < more.content_bytes);
            assert!(less.messages_bytes < more.messages_bytes);
            assert!(less.tasks_max < more.tasks_max);
            assert!(less.passwords.cost.bytes() <= more.passwords.cost.bytes());
            assert!(less.jobs.waiting_bytes < more.jobs.waiting_bytes);
            assert!(less.jobs.file_threads <= more.jobs.file_threads);
            assert!(less.fetch_bytes < more.fetch_bytes);
            assert!(less.fetch_bodies_bytes < more.fetch_bodies_bytes);
            assert!(less.brotli_decoders <= more.brotli_decoders);
        }
    }
}
