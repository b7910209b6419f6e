//! All limits of the store, each with its unit and its reason.

/// Number of databases for `SELECT`, the default of Redis.
pub const DATABASES: usize = 16;

/// Number of shards, each with a lock: many more than workers, so that two workers seldom need the
/// same one, and few enough to lock all of them for one command. It is a power of two.
pub const SHARDS: usize = 64;

/// Bytes by which the memory of a shard may differ from its last report: so few that all shards
/// together are within 1 MiB, and enough that workers seldom write to the shared total.
pub const REPORTED_STEP_BYTES: usize = 16 * 1024;

/// Most keys that are evicted for one command: some microseconds. A command seldom needs more
/// memory than these keys free.
pub const EVICTIONS_MAX: usize = 32;

/// The version of Redis whose commands and replies the store implements, as reported to clients.
pub const REDIS_VERSION: &str = "7.4.0";

/// Longest string, and longest argument of a command, in bytes: `proto-max-bulk-len` of Redis.
pub const STRING_MAX_BYTES: usize = 512 * 1024 * 1024;

/// Most arguments of a command, as in Redis.
pub const ARGUMENTS_MAX: usize = 1024 * 1024;

/// Longest command in the form of a line, and longest line that announces a length, in bytes, as
/// Redis has it (`PROTO_INLINE_MAX_SIZE`).
pub const LINE_MAX_BYTES: usize = 64 * 1024;

/// Most bytes of an incomplete command, as in Redis (`client-query-buffer-limit`).
pub const COMMAND_MAX_BYTES: usize = 1024 * 1024 * 1024;

/// Most bytes of incomplete and waiting commands of all clients together, if keys and values have
/// no limit: two of the longest commands.
pub const CLIENTS_MAX_BYTES: usize = 2 * COMMAND_MAX_BYTES;

/// Least such limit that follows from the limit of keys and values, in bytes: some thousands of
/// ordinary commands.
pub const CLIENTS_MIN_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of a client up to which its commands are not counted: as much as a connection may send
/// before the server has processed it.
pub const UNCOUNTED_CLIENT_BYTES: usize = 64 * 1024;

/// Most arguments of a command of a client that has not authenticated, as in Redis.
pub const UNAUTHENTICATED_ARGUMENTS_MAX: usize = 10;

/// Longest argument of a client that has not authenticated, in bytes, as in Redis.
pub const UNAUTHENTICATED_ARGUMENT_MAX_BYTES: usize = 16 * 1024;

/// Most keys of a [`ReadSet`](crate::read_set::ReadSet): far more than a page shows, and dropping
/// the set takes about a millisecond.
pub const READ_SET_MAX_KEYS: usize = 10_000;

/// Most elements that one `HRANDFIELD` or `SRANDMEMBER` may repeat: as many as a command may have
/// arguments, since a reply waits in memory as a whole.
pub const RANDOM_REPEATED_MAX: usize = ARGUMENTS_MAX;

/// Most pairs of bytes that `LCS` compares: its table has 4 bytes for each, 256 MiB then, and takes
/// some tenths of a second.
pub const LCS_CELLS_MAX: usize = 64 * 1024 * 1024;

/// Most work of a command that a worker executes itself, in elements: about a millisecond, since an
/// element costs between 50 and 250 nanoseconds. A command with more is a job.
pub const WORK_MAX: usize = 4096;

/// Bytes that are copied, compared or cleared as fast as one element is handled, about.
pub const WORK_UNIT_BYTES: usize = 256;

/// Most bytes of a command that is copied when it is stored. A longer one keeps its buffer.
pub const COPIED_COMMAND_MAX_BYTES: usize = 64 * 1024;

/// Bytes of a string from which on no worker frees it: giving back the pages takes more than some
/// ten microseconds.
pub const LONG_STRING_MIN_BYTES: usize = 1024 * 1024;

/// Least bytes of a command that is always timed for the slow log: copying such a command takes
/// some microseconds.
pub const TIMED_MIN_BYTES: usize = 64 * 1024;

/// Below this threshold of the slow log, in microseconds, short commands are timed, too. They never
/// take so long unless the system interrupts them.
pub const TIMED_MIN_US: i64 = 1000;

/// Below this threshold of the slow log, in microseconds, commands that workers execute are timed,
/// too. They are less than about a millisecond of work ([`WORK_MAX`]), so they take five only if
/// the system interrupts them. Jobs are always timed.
pub const TIMED_LIMITED_MIN_US: i64 = 5000;

/// Most arguments of a command that the slow log records, as in Redis.
pub const SLOW_ARGUMENTS_MAX: usize = 32;

/// Most bytes of an argument that the slow log records, as in Redis.
pub const SLOW_ARGUMENT_BYTES_MAX: usize = 128;

/// The version of the format of dumped values (RDB): that of Redis 7.0, so that every later one
/// restores them.
pub const RDB_VERSION: u16 = 10;

/// The version of a dumped hash of which fields expire, and the latest one that is restored: that
/// of Redis 7.4, which is the first one that has such hashes.
pub const RDB_VERSION_FIELD_EXPIRY: u16 = 12;

/// Most keys that one `SCAN` looks at: about a tenth of a millisecond.
pub const SCANNED_MAX: usize = 1000;

/// Most elements that a byte of a payload of `RESTORE` can stand for: compressed bytes can be those
/// of 88, and an element takes 2.
pub const RESTORED_ELEMENTS_PER_BYTE: usize = 44;
