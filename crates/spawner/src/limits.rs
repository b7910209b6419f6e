//! All limits of the spawner. Each name ends with the unit, and each comment has the reason of the
//! value.

/// Most rows of a table. A server has a few kinds of programs; more are a mistake of a generator.
pub const STARTS_MAX: usize = 64;

/// Most bytes of a table as it is sent to the spawner. The spawner keeps two tables, and may have
/// 1 MiB of memory in all.
pub const TABLE_MAX_BYTES: usize = 64 * 1024;

/// Longest name of a program, in bytes: it begins each line of the log.
pub const NAME_MAX_BYTES: usize = 32;

/// Longest path, in bytes: `PATH_MAX` of the kernel without the final zero.
pub const PATH_MAX_BYTES: usize = 4095;

/// Most arguments of a row of the table, and most that a worker may add: command lines that people
/// write are shorter, and a list of files belongs on standard input.
pub const ARGUMENTS_MAX: usize = 64;

/// Most bytes of all arguments together that a worker may add. It bounds a request; the kernel
/// allows a single argument of 128 KiB.
pub const ARGUMENTS_MAX_BYTES: usize = 16 * 1024;

/// Most variables of the environment of a program, the spawner's own not counted.
pub const ENVIRONMENT_MAX: usize = 128;

/// Most bytes of one row of a table as it is sent: a record of the control connection.
pub const START_MAX_BYTES: usize = 32 * 1024;

/// Most supplementary groups of a program. The kernel allows 65536, NFS with AUTH_SYS uses 16.
pub const GROUPS_MAX: usize = 64;

/// Longest grace period in milliseconds: a program that needs longer to stop delays the end of the
/// server. `TimeoutStopSec` of systemd is 90 s by default.
pub const GRACE_MAX_MS: u32 = 600_000;

/// Longest path of a CGI script below the folder of its row, in bytes. Servers refuse longer paths
/// in URLs, and with the folder it fits into [`PATH_MAX_BYTES`].
pub const SCRIPT_PATH_MAX_BYTES: usize = 1024;

/// Most variables that a worker may set for a CGI script: one for each field of a request, of which
/// there are at most 100, and those of the request itself.
pub const CGI_VARIABLES_MAX: usize = 256;

/// Most bytes of all variables that a worker may set for a CGI script. The head of a request has at
/// most 16 KiB, of which each byte is in at most three variables; the rest is for names and for the
/// variables of the server.
pub const CGI_VARIABLES_MAX_BYTES: usize = 64 * 1024;

/// Most names of variables that a row may allow workers besides those of CGI.
pub const CGI_NAMES_MAX: usize = 64;

/// Most programs that run at the same time, of all workers. Each has up to three descriptors in the
/// spawner once it runs, and a process has 1024 by default. Those that are started on demand leave
/// room for all supervised ones.
pub const RUNNING_MAX: usize = 256;

/// Most connections of workers. More workers than cores have no benefit, and the descriptors of all
/// programs and connections together have to stay below 1024.
pub const WORKERS_MAX: usize = 192;

/// Most descriptors of a request: a socket for standard input, and one for standard output or a
/// file.
pub const DESCRIPTORS_MAX: usize = 2;

/// Most bytes of a record that the spawner reads, from a worker or from the server: the longest is
/// the start of a CGI script with its header.
pub const RECORD_MAX_BYTES: usize = CGI_VARIABLES_MAX_BYTES + SCRIPT_PATH_MAX_BYTES + 64;

const _: () = assert!(RECORD_MAX_BYTES >= START_MAX_BYTES + 64, "a row fits, too");

/// Most requests of one connection that are read before other connections are served.
pub const REQUESTS_PER_TURN: usize = 16;

/// Most bytes of a line of a program that are logged; the rest of a longer line is left out.
pub const LINE_MAX_BYTES: usize = 1024;

/// Most bytes of a whole line of the log. With all bytes escaped a line would be longer, and a pipe
/// takes 4096 bytes in one piece (`PIPE_BUF`).
pub const LOG_LINE_MAX_BYTES: usize = 4096;

/// Lines that a program may log in a second on average. Text that people read has fewer.
pub const LINES_PER_SECOND: u64 = 50;

/// Lines that a program may log at once: the stack trace of a large application.
pub const LINES_BURST: u64 = 500;

/// Most bytes that are read from standard error of one program before others are served: as much as
/// a pipe holds by default.
pub const STDERR_TURN_BYTES: usize = 64 * 1024;

/// Time between two checks of an orphan whose environment cannot be read, in milliseconds. A
/// process in execve(2) has no environment for a moment, and is checked until it has one.
pub const ORPHAN_LOOK_MS: u64 = 20;

/// Longest time for which the server waits for a reply on the control connection, in
/// milliseconds. Meanwhile the spawner checks the program files of the table, which may be on a
/// slow file system.
pub const CONTROL_TIMEOUT_MS: u64 = 10_000;

/// How long the end of the spawner waits for processes after SIGKILL, in milliseconds. Only a
/// process in an uninterruptible wait for a device (state D) needs longer, and it cannot be killed.
pub const KILL_WAIT_MS: u64 = 5_000;

/// Most bytes of the environment of a process that are searched for the marker: more than a row of
/// a table and a worker together can set.
pub const ENVIRONMENT_READ_MAX_BYTES: u64 = (2 * START_MAX_BYTES + CGI_VARIABLES_MAX_BYTES) as u64;

/// How long a new process waits before it tries again to set the nice value of its autogroup, in
/// nanoseconds: the kernel allows that once each 100 ms.
pub const AUTOGROUP_PAUSE_NANOS: i64 = 20_000_000;

/// Most attempts to set the nice value of an autogroup, over 7 seconds: programs that a server
/// starts at the same time wait for each other, and [`STARTS_MAX`] of them need 6.4 seconds.
pub const AUTOGROUP_ATTEMPTS_MAX: u32 = 350;
