//! Every limit of FastCGI, unit last in the name, the reason beside the value. Variables have the
//! limit [`VARIABLES_MAX_BYTES`](crate::cgi::limits::VARIABLES_MAX_BYTES); heads and content those
//! of [`ResponseLimits`](crate::h1::client::limits::ResponseLimits).

/// Most bytes of content of a record that is written: the largest multiple of 8 that its length of
/// 16 bits can say (§3.3), so that full records need no padding.
pub const RECORD_CONTENT_MAX_BYTES: usize = 65_528;

/// Most bytes of the error stream that the reader of one response returns. Warnings of a page have
/// some KiB; further output of an application is read and dropped, so that it cannot fill the log.
pub const STDERR_MAX_BYTES: u64 = 64 * 1024;

/// Most bytes of the error stream of one response, those that are dropped included. An application
/// that writes more than this writes without end.
pub const STDERR_READ_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Most records of one response without a meaning: records of management, which answer no request,
/// and repeated ends of streams. Applications send at most one or two.
pub const IGNORED_RECORDS_MAX: u32 = 32;
