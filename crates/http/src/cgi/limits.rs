//! Every limit of CGI, FastCGI and SCGI, unit last in the name, the reason beside the value. The
//! head and the content of a response have the limits of
//! [`ResponseLimits`](crate::h1::client::limits::ResponseLimits).

/// Most bytes of the variables of one request, with their lengths or separators. A request head has
/// at most 16 KiB, of which each byte is in at most two variables; the rest is for variables that
/// the owner of the site adds. Linux takes 128 KiB for one string and 2 MiB for all of them.
pub const VARIABLES_MAX_BYTES: usize = 128 * 1024;

/// Most bytes of output that are dropped because the response has no content: to HEAD, with 204 and
/// 304, and after a local redirect. Programs that ignore HEAD write a page, and reading it keeps
/// the connection usable. Beyond this a new connection costs less.
pub const SKIPPED_OUTPUT_MAX_BYTES: u64 = 1024 * 1024;
