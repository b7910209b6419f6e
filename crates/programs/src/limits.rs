//! Every limit of programs that run, unit last in the name, the reason in the comment.

/// Time in which a program has to end if the caller says nothing else, in milliseconds: as long as
/// `pinion.fetch` waits for a server without progress.
pub const RUN_TIMEOUT_MS: u64 = 30_000;

/// Bytes of output that are taken from a program before the caller has read them: as much as a pipe
/// holds by default. The program waits then.
pub const OUTPUT_BUFFER_BYTES: u64 = 64 * 1024;

/// Bytes of input that wait in the worker until the engine takes them. The caller waits then.
pub const INPUT_BUFFER_BYTES: usize = 64 * 1024;

/// Most programs of one worker that run at the same time: a quarter of what the spawner runs for
/// all, so that one worker cannot take it all.
pub const RUNS_PER_WORKER_MAX: usize = 64;

/// Time until a request is sent again that the spawner had no room for, in milliseconds: it reads
/// a whole socket buffer of requests in less. Each further attempt waits for twice as long.
pub const BUSY_RETRY_MS: u64 = 5;

/// Longest time between two attempts, in milliseconds. A spawner that hangs does not keep a worker
/// busy, and one that goes on is noticed soon enough.
pub const BUSY_RETRY_MAX_MS: u64 = 320;

/// How long a start waits for a spawner that has no room for it, in milliseconds. After that it
/// hangs, and the caller hears of it.
pub const BUSY_TIMEOUT_MS: u64 = 5_000;
