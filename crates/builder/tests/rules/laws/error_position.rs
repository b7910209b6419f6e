//! The positions that errors may have.

use std::path::Path;

use pinion_builder::RuleError;

/// Asserts that an error has a position in its file, at a character or just after the last one.
pub(crate) fn has_position(error: &RuleError, file: &Path, text: &[u8]) {
    assert_eq!(error.file, file);
    assert!(!error.expected.is_empty());
    let line = error.line.checked_sub(1).and_then(|rank| text.split(|&b| b == b'\n').nth(rank));
    let line = String::from_utf8_lossy(line.expect("a line of the file"));
    assert!((1..=line.chars().count() + 1).contains(&error.column), "{error}");
}
