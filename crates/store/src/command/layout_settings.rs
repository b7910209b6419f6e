//! Settings of Redis for the layout of values in memory, with their former names.
//!
//! `CONFIG SET` accepts any number for them, since programs that tune Redis set them when they
//! start, and no reply but that of `OBJECT ENCODING` depends on them. It has no effect: `CONFIG
//! GET` continues to return the values below, which are in force.

use crate::resp::number::parse_i64;

/// The names and the values that are in force.
pub(crate) const LAYOUT: [(&str, &str); 12] = [
    ("hash-max-listpack-entries", "128"),
    ("hash-max-listpack-value", "64"),
    ("hash-max-ziplist-entries", "128"),
    ("hash-max-ziplist-value", "64"),
    ("list-compress-depth", "0"),
    ("list-max-listpack-size", "-2"),
    ("list-max-ziplist-size", "-2"),
    ("set-max-intset-entries", "512"),
    ("zset-max-listpack-entries", "128"),
    ("zset-max-listpack-value", "64"),
    ("zset-max-ziplist-entries", "128"),
    ("zset-max-ziplist-value", "64"),
];

/// Returns whether this is the name of a setting for the layout, in lower case.
pub(crate) fn is_layout(name: &[u8]) -> bool {
    LAYOUT.iter().any(|(known, _)| known.as_bytes() == name)
}

/// Checks a value for such a setting.
///
/// # Errors
/// The error describes why the value is invalid.
pub(crate) fn check(value: &[u8]) -> Result<(), &'static str> {
    parse_i64(value).map(|_| ()).ok_or("argument couldn't be parsed into an integer")
}
