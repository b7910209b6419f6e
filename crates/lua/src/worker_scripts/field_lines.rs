//! Field lines as the engine receives them when content follows.

use pinion_http::field::Field;
use pinion_http::grammar::trim;

/// Returns the fields of whole lines.
pub(super) fn of(lines: &[u8]) -> impl Iterator<Item = Field<'_>> + Clone {
    lines.split(|&byte| byte == b'\n').filter_map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let at = memchr::memchr(b':', line)?;
        Some(Field { name: &line[..at], value: trim(&line[at + 1..]) })
    })
}
