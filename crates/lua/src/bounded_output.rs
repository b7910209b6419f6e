//! Texts that the host makes of others, as it escapes or encodes them. Until Lua receives them they
//! are outside of the memory of the VM, and some are six times as long as their source. So they
//! have a bound of their own, and their length is computed before memory is reserved.

use std::fmt;

use mlua::Error;
use pinion_http::request_target;

use crate::pattern::limits::RESULT_MAX_BYTES;

/// The error of a text that would have more than [`RESULT_MAX_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The result text, unless it is too long.
pub(crate) type BoundedResult<T = Vec<u8>> = Result<T, TooLong>;

impl TooLong {
    /// Returns it as the error of a function.
    pub(crate) fn of(self, function: &str) -> Error {
        Error::runtime(format!("{function}: {self}"))
    }
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = RESULT_MAX_BYTES >> 20;
        write!(f, "the text or the result is longer than {mib} MiB; convert it in pieces")
    }
}

/// Checks that a text may have so many bytes.
pub(crate) fn check(bytes: usize) -> BoundedResult<()> {
    if bytes > RESULT_MAX_BYTES { Err(TooLong) } else { Ok(()) }
}

/// Reserves memory for a text of so many bytes.
pub(crate) fn room(bytes: usize) -> BoundedResult {
    check(bytes)?;
    Ok(Vec::with_capacity(bytes))
}

/// Appends a text, with its bytes that are not plain as percent escapes (RFC 3986 §2.1).
pub(crate) fn percent(
    out: &mut Vec<u8>,
    text: &[u8],
    is_plain: impl Fn(u8) -> bool,
) -> BoundedResult<()> {
    let bytes: usize = text.iter().map(|&byte| if is_plain(byte) { 1 } else { 3 }).sum();
    check(out.len() + bytes)?;
    out.reserve(bytes);
    request_target::escape(out, text.iter().copied(), is_plain);
    Ok(())
}
