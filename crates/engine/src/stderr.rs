//! Lines on standard error, that nobody has to read.

use std::fmt::{self, Display, Write as _};
use std::io::{self, Write as _};

/// Writes one line in one piece. A reader that has gone, or a full disk, must not end the thread
/// that has something to say, as `eprintln!` would: a server could not be stopped any more. Without
/// memory for the line its beginning is written.
pub fn line(text: impl Display) {
    let mut line = Line(Vec::new());
    let _beginning = writeln!(line, "{text}");
    let _ = io::stderr().write_all(&line.0);
}

/// Text as far as there is memory for it.
struct Line(Vec<u8>);

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.try_reserve(text.len()).map_err(|_| fmt::Error)?;
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
