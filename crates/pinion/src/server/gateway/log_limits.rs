//! The limits of the log lines of gateways, unit last in the name, the reason beside the value.

/// Bytes of a target that are kept for messages: enough to recognise a request.
pub(super) const TARGET_SHOWN_BYTES: usize = 256;

/// Most of a line of an application's error stream that is logged, in bytes: as much as of a line
/// of a program that the server has started.
pub(super) const MESSAGE_LINE_MAX_BYTES: usize = 1024;

/// How many kinds of failures have lines of their own in
/// [`BETWEEN_LINES_MS`](crate::server::log_throttle::BETWEEN_LINES_MS); all others share one. The
/// log grows by so many lines at most in that time, while a site has a handful of scripts and
/// servers that fail in a handful of ways.
pub(super) const FAILURE_KINDS_MAX: usize = 64;
