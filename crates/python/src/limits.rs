//! Limits of the command line of a Python process. Those of the program are in `frames.py`.

/// The longest text of the program in bytes. Linux takes at most 128 KiB in one argument, and each
/// process keeps its command line.
pub const PROGRAM_MAX_BYTES: usize = 112 * 1024;
