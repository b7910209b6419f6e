//! Lines on standard error, that nobody has to read.

use std::fmt::{self, Display, Write as _};
use std::io::{self, Write as _};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Writes one line in one piece. A reader that has gone, or a full disk, must not end the thread
/// that has something to say, as `eprintln!` would: a server could not be stopped any more. Nor
/// must a reader who has stopped reading: what is not taken within `PATIENCE_MS` is lost. Without
/// memory for the line its beginning is written.
pub fn line(text: impl Display) {
    let mut line = Line(Vec::new());
    let _beginning = writeln!(line, "{text}");
    let mut stderr = io::stderr().lock();
    if takes(&stderr) {
        let _ = stderr.write_all(&line.0);
    }
}

/// Milliseconds that a line waits for its reader: long for a reader who is busy, short for a worker
/// whose clients wait.
const PATIENCE_MS: i64 = 100;

/// Whether a line can be written without waiting. A pipe says so while it has room for 4 KiB.
fn takes(stderr: &io::StderrLock<'_>) -> bool {
    let patience = Timespec { tv_sec: 0, tv_nsec: PATIENCE_MS * 1_000_000 };
    let mut asked = [PollFd::new(stderr, PollFlags::OUT)];
    // Interrupted, or no such descriptor: the write will tell.
    !matches!(poll(&mut asked, Some(&patience)), Ok(0))
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
