//! Writes log lines to standard error of the spawner without ever blocking: a stopped terminal or a
//! hanging log service must not stop the programs.

use std::io::stderr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::{Errno, write};
use rustix::net::{SendFlags, send};

use crate::limits::LOG_LINE_MAX_BYTES;
use crate::stderr_lines::{LineBucket, escape};

/// The error for a line that was not written because the reader of the log does not keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineLost;

/// The destination of log lines.
#[derive(Debug)]
pub(crate) struct LogOutput {
    kind: OutputKind,
    /// The rate limit for the lines of the spawner itself: a program that fails can be started
    /// again and again.
    notices: LineBucket,
    lost_notices: u64,
}

#[derive(Debug)]
enum OutputKind {
    /// A socket, such as the one that systemd connects to the journal. A flag of each call prevents
    /// blocking.
    Socket,
    /// The same pipe or terminal as standard error, opened again: `O_NONBLOCK` belongs to an open
    /// file description, and other processes share that of standard error.
    Reopened(OwnedFd),
    /// A file, on which calls do not block, or a pipe that cannot be opened again. The spawner
    /// writes to such a pipe only if it has space for a whole line.
    Shared,
}

impl LogOutput {
    pub(crate) fn open() -> Self {
        let kind = match fstat(stderr()).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Socket) => OutputKind::Socket,
            Ok(FileType::Fifo | FileType::CharacterDevice) => {
                let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                match open("/proc/self/fd/2", flags, Mode::empty()) {
                    Ok(reopened) => OutputKind::Reopened(reopened),
                    Err(_) => OutputKind::Shared,
                }
            }
            _ => OutputKind::Shared,
        };
        Self { kind, notices: LineBucket::default(), lost_notices: 0 }
    }

    /// Writes a line, which ends with a line feed and has at most [`LOG_LINE_MAX_BYTES`].
    ///
    /// # Errors
    /// The line cannot be written now. A line is written whole or, on a terminal, possibly in part.
    pub(crate) fn write_line(&mut self, line: &[u8]) -> Result<(), LineLost> {
        debug_assert!(line.len() <= LOG_LINE_MAX_BYTES, "the maker of the line bounds it");
        let written = match &self.kind {
            OutputKind::Socket => send(stderr(), line, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            OutputKind::Reopened(reopened) => write(reopened, line),
            OutputKind::Shared => write_if_writable(line),
        };
        written.map(drop).map_err(|_| LineLost)
    }

    /// Writes a line of the spawner itself. If there are too many, the line is left out, and the
    /// next one has the number of lines that were left out.
    pub(crate) fn notice(&mut self, now_ms: u64, text: &str) {
        if !self.notices.take(now_ms) {
            self.lost_notices += 1;
            return;
        }
        if self.lost_notices > 0 {
            let line = format!("pinion: spawner: {} lines were left out\n", self.lost_notices);
            if self.write_line(line.as_bytes()).is_ok() {
                self.lost_notices = 0;
            }
        }
        let mut line = b"pinion: ".to_vec();
        escape(text.as_bytes(), LOG_LINE_MAX_BYTES - 1, &mut line);
        line.push(b'\n');
        if self.write_line(&line).is_err() {
            self.lost_notices += 1;
        }
    }
}

/// Writes to standard error if it is ready. A pipe is ready when a page is free, so a write of at
/// most one page does not block, unless another process writes at the same moment.
fn write_if_writable(line: &[u8]) -> Result<usize, Errno> {
    let stderr = stderr();
    let mut polled = [PollFd::from_borrowed_fd(stderr.as_fd(), PollFlags::OUT)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    if !polled[0].revents().contains(PollFlags::OUT) {
        return Err(Errno::AGAIN);
    }
    write(&stderr, line)
}
