//! All limits of FastCGI, each with its unit in the name and its reason. The parameters
//! (`FCGI_PARAMS`) have the limit of CGI variables,
//! [`VARIABLES_MAX_BYTES`](crate::cgi::limits::VARIABLES_MAX_BYTES). Response heads and content
//! have the limits of [`ResponseLimits`](crate::h1::client::limits::ResponseLimits).

/// Most bytes of content in one record that is written: the largest multiple of 8 that fits into
/// the 16 bits of `contentLength` (§3.3), so that full records need no padding.
pub const RECORD_CONTENT_MAX_BYTES: usize = 65_528;

/// Most bytes of the error stream (`FCGI_STDERR`) of one response that are passed on to the log.
/// Warnings of a page have some KiB. Further bytes are read and dropped, so that an application
/// cannot fill the log.
pub const STDERR_MAX_BYTES: u64 = 64 * 1024;

/// Most bytes of the error stream of one response, including those that are dropped. If there are
/// more, the application is assumed to write without end, and the response fails.
pub const STDERR_READ_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Most records that are ignored in one response: management records, which belong to no request,
/// and repeated ends of streams. Applications send at most one or two. If there are more, the
/// response fails.
pub const IGNORED_RECORDS_MAX: u32 = 32;
