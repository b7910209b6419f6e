//! The limits of the processes of Python applications.

use std::time::Duration;

/// How long a process may take until it has loaded its application: large ones take ten seconds on
/// a small machine.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The interval of checks whether a process that is waited for has ended.
pub(super) const START_PAUSE: Duration = Duration::from_millis(50);

/// How long a process that others have replaced may continue with its requests, such as streams,
/// uploads and downloads. After that it gets its stop signal.
pub(super) const RETIRED_MAX: Duration = Duration::from_secs(600);

/// Most replaced processes of an application that still have requests. Of more, the first ones get
/// their stop signal: each has as much memory as the application takes.
pub(super) const RETIRED_PROCESSES_MAX: usize = 32;

/// How long Django may take to load the settings of a project: it takes a quarter of a second.
pub(super) const DJANGO_TIMEOUT: Duration = Duration::from_secs(30);

/// Most bytes of its response, which is two paths; settings may print something, too.
pub(super) const DJANGO_RESPONSE_MAX_BYTES: u64 = 64 * 1024;

/// How long no code has changed when a burst of changes is over.
pub(super) const CODE_QUIET: Duration = Duration::from_millis(150);

/// A burst that never ends is interrupted after this time.
pub(super) const CODE_BURST_MAX: Duration = Duration::from_secs(5);

/// Most folders that are watched for changes of the code of an application. The kernel allows a
/// user 8192 watches by default on small machines.
pub(super) const CODE_FOLDERS_MAX: usize = 2048;

/// The interval of checks whether a process has reached a limit.
pub(crate) const LIMITS_PAUSE: Duration = Duration::from_millis(250);

/// How long no other process is tried in the place of one that has reached a limit, after one that
/// could not be started.
pub(crate) const REPLACE_RETRY: Duration = Duration::from_secs(60);
