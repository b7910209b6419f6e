//! Limits of the command line of a Python process. Those of the program are in `frames.py`.

/// The longest text of the program in bytes. Each process reads all of it when it starts.
pub const PROGRAM_MAX_BYTES: usize = 192 * 1024;
