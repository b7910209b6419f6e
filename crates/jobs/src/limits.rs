//! All limits of this crate. Each name ends with the unit, and each comment has the reason of the
//! value.

/// Most jobs with files that wait for a thread, of all workers: at a millisecond each they take
/// seconds.
pub const JOBS_MAX: usize = 4096;

/// Most bytes of arguments of these jobs, of all workers, such as the content of files to be
/// written: the texts are copies outside of the memory of their VMs. A job that alone exceeds the
/// limit is queued while no other waits.
pub const JOBS_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Most bytes of results that no worker has received, of all workers. At this limit no further job
/// is begun until a worker receives a result. Each thread may make one more result, of
/// [`FILE_READ_MAX_BYTES`] at most.
pub const JOB_RESULTS_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Most threads for files: enough for a disk that serves several requests at once.
pub const JOB_THREADS_MAX: usize = 4;

/// Most passwords that wait for a thread, of all workers: at some thirty milliseconds each they
/// take half of the time of a request.
pub const PASSWORDS_MAX: usize = 1000;

/// Most threads for passwords: each takes a core and 19 MiB while it hashes, and the workers need
/// cores for requests, too.
pub const PASSWORD_THREADS_MAX: usize = 2;

/// Most asynchronous tasks of one library at the same time, of all workers. There may be 1024
/// lookups of names (`LOOKUPS_MAX` of the client), and a task takes some hundred bytes in addition
/// to the memory of its library.
pub const TASKS_MAX: usize = 4096;

/// Most bytes of the results of one task that its receiver has not dropped: a piece of a body, or
/// some hundred rows of a table.
pub const TASK_RESULTS_MAX_BYTES: u32 = 64 * 1024;

/// Most bytes of such results of all tasks of one library together: those of 64 tasks whose
/// receivers drop none.
pub const ALL_TASK_RESULTS_MAX_BYTES: u32 = 64 * TASK_RESULTS_MAX_BYTES;

/// Most threads on which the libraries of asynchronous tasks may block, such as for the names of
/// the system; tokio allows 512. They start when they are needed, and end after ten seconds.
pub const BLOCKING_THREADS_MAX: usize = 2;

/// Most bytes of the files of a form that stay in memory; with more, all of them go to a file.
pub const SPOOL_MEMORY_MAX_BYTES: usize = 64 * 1024;

/// The part of the quota of all uploads, as a divisor, that is reserved for uploads that make
/// progress. It applies to bytes and to open files. When more than the rest is used, uploads whose
/// clients have stalled are aborted.
pub(crate) const UPLOAD_RESERVE_DIVISOR: u64 = 4;

/// Bytes that the uploads of all workers may take in temporary files, unless the operator says
/// otherwise: thirty-two of the largest forms at once.
pub const UPLOADS_MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// Most bytes of the name of an uploaded file: file systems take 255, and scripts put something in
/// front of it.
pub const FILE_NAME_MAX_BYTES: usize = 200;

/// Most bytes of a file that are read as one string: half of the memory of a request, because they
/// are there twice for a moment.
pub const FILE_READ_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Most names in the listing of a folder for a script: the listing holds all of them, and sorts
/// them.
pub const FILES_LISTED_MAX: usize = 10_000;

/// Most bytes of the name by which a script calls a file, folders and all.
pub const FILE_PATH_MAX_BYTES: usize = 1024;

/// Most bytes of one segment of such a name: file systems take no more.
pub const FILE_SEGMENT_MAX_BYTES: usize = 255;
