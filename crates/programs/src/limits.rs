//! All limits of running programs. Each name ends with the unit, and each comment has the reason of
//! the value.

/// Default time in which a program has to end, in milliseconds: as long as `pinion.fetch` waits for
/// a server without progress.
pub const RUN_TIMEOUT_MS: u64 = 30_000;

/// Bytes of output that are received from a program before the caller has read them: as much as a
/// pipe holds by default. At this limit the program has to wait.
pub const OUTPUT_BUFFER_BYTES: u64 = 64 * 1024;

/// Bytes of output that are read at once from a script that has ended: more than most scripts
/// write.
pub const HELD_PIECE_BYTES: usize = 8 * 1024;

/// How long the output of a script is left in its socket, in milliseconds. A script that has ended
/// by then is read once, and costs its worker half as much. If a script writes early and goes on,
/// its client sees the output later by this time at most. Until then the socket does not count
/// among the outgoing connections of the server; a worker has no more than it runs programs.
pub const OUTPUT_DELAY_MS: u64 = 2;

/// Bytes of input that wait in the worker until the engine takes them. At this limit the caller has
/// to wait.
pub const INPUT_BUFFER_BYTES: usize = 64 * 1024;

/// Most programs of one worker that run at the same time: a quarter of the limit of the spawner, so
/// that one worker cannot use it up.
pub const RUNS_PER_WORKER_MAX: usize = 64;

/// Time until a request is retried for which the spawner had no space, in milliseconds: the spawner
/// reads a whole socket buffer of requests in less. Each further attempt waits for twice as long.
pub const BUSY_RETRY_MS: u64 = 5;

/// Longest time between two attempts, in milliseconds. A spawner that hangs does not keep a worker
/// busy, and one that makes progress again is noticed soon enough.
pub const BUSY_RETRY_MAX_MS: u64 = 320;

/// Time between the end of a supervised program and its first restart, in milliseconds: short for
/// visitors, and long enough that a program which fails at once takes little of a core.
pub const RESTART_DELAY_MS: u64 = 100;

/// Longest time until a restart, in milliseconds; each further restart waits for twice as long as
/// the one before. A person who repairs the cause does not wait for long, and the log gets a few
/// lines a minute meanwhile.
pub const RESTART_DELAY_MAX_MS: u64 = 30_000;

/// The part of the time until a restart that is added at random at most, as a divisor. Programs
/// that end together, because they lose the same database, are not restarted all at once.
pub const RESTART_JITTER_DIVISOR: u64 = 4;

/// The run time of a supervised program after which its next restart has the shortest delay again,
/// in milliseconds: as long as the longest delay, so that a program which fails soon after each
/// start still slows down.
pub const STABLE_RUN_MS: u64 = RESTART_DELAY_MAX_MS;

/// Time until a request of the supervisor is retried for which the spawner had no space, in
/// milliseconds.
pub const SUPERVISOR_RETRY_MS: u64 = 100;

/// Time between the end of the supervisor's connection and the line of the log about it, in
/// milliseconds. The kernel closes the sockets of a spawner that has ended one after the other, so
/// its end is known soon after that of a connection, and has a line of its own.
pub const CLOSED_REPORT_DELAY_MS: u64 = 500;

/// How long a start request waits for space in the socket of the spawner, in milliseconds. After
/// that the spawner is taken to hang, and the caller gets an error.
pub const BUSY_TIMEOUT_MS: u64 = 5_000;
