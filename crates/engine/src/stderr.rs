//! Lines on standard error, that nobody has to read.

use std::fmt::Display;
use std::io::{self, Write};

/// Writes one line in one piece. A reader that has gone, or a full disk, must not end the thread
/// that has something to say, as `eprintln!` would: a server could not be stopped any more.
pub fn line(text: impl Display) {
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}
