//! The limits of PHP that the server starts.

use std::time::Duration;

/// Processes for each core by default: requests wait for a database most of their time.
pub(super) const PROCESSES_PER_CORE: u64 = 8;

/// The memory for which there is one process by default, in bytes: `memory_limit` of PHP is 128 MiB
/// by default, which a request may take.
pub(super) const PROCESS_MEMORY_BYTES: u64 = 128 << 20;

/// The fewest processes by default: one alone would let a request wait for itself that asks its own
/// site, as the scheduled tasks of WordPress do.
pub(super) const PROCESSES_MIN: u64 = 2;

/// The number of requests after which a process is replaced, so that leaks of an extension do not
/// add up.
pub(super) const REQUESTS_PER_PROCESS: u32 = 1_000;

/// How long a process may have nothing to do before it ends, in seconds: the default of PHP-FPM.
pub(super) const IDLE_SECONDS: u32 = 10;

/// How long the requests in flight have when PHP-FPM is to stop, in seconds: as long as a program
/// of `[[program]]` by default. The remaining ones are killed.
pub(super) const STOP_SECONDS: u32 = 10;

/// How long `php-fpm -v` may take: it reads no configuration, and takes a tenth of a second.
pub(super) const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// The most of the output of `php-fpm -v` that is read, in bytes: it is three lines.
pub(super) const VERSION_MAX_BYTES: u64 = 4 * 1024;

/// How long a PHP-FPM that no site uses any more may continue with requests in flight and those
/// that wait for it. After that it gets its stop signal.
pub(crate) const UNUSED_MAX: Duration = Duration::from_secs(10);

/// The longest path of a Unix socket, in bytes: `sun_path` of unix(7) without the zero at its end.
pub(super) const SOCKET_PATH_MAX_BYTES: usize = 107;

/// The additional time that PHP-FPM has itself to stop, in seconds: it kills its remaining
/// processes, and waits for them.
pub(super) const STOP_MARGIN_SECONDS: u32 = 2;

/// The least `php-upload-limit`, in bytes: a smaller one refuses forms, and most likely its unit is
/// missing.
pub(crate) const UPLOAD_LIMIT_MIN_BYTES: u64 = 1024;
