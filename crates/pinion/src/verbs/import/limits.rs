//! The limits of a conversion.

/// MiB of a file that is converted: configurations have some KiB, and more is another kind of file.
pub(super) const FILE_MAX_MIB: u64 = 4;

/// Steps that the routes of a listener lead to, those counted again that several routes pass to. A
/// route that passes to itself would have no end.
pub(super) const STEPS_MAX: usize = 1000;

/// Routes that pass to each other, one in another.
pub(super) const ROUTE_DEPTH_MAX: usize = 16;

/// Actions with a fallback, one in another.
pub(super) const FALLBACK_DEPTH_MAX: usize = 8;

/// Sections of an ini file that name each other, one in another.
pub(super) const SECTION_DEPTH_MAX: usize = 16;

/// Reasons that an error names, of those for which nothing of a file was carried.
pub(super) const REASONS_MAX: usize = 3;

/// Bytes of a value whose placeholders have been replaced: twenty lines that each name the one
/// above twice make a megabyte of one byte.
pub(super) const EXPANDED_MAX_BYTES: usize = 4096;

/// Characters of a text of the other file that a message repeats.
pub(super) const SHOWN_MAX_CHARS: usize = 160;

/// The most processes that `python-processes` takes.
pub(super) const PYTHON_PROCESSES_MAX: u64 = 32;

/// Rounds in which keys that are refused become comments. Each round takes out at least one.
pub(super) const SETTLE_ROUNDS_MAX: usize = 64;
