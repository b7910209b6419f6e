//! Lines on standard error that never block the server.

use std::fmt::{self, Display, Write as _};
use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Writes one line, in one piece up to 4 KiB. A reader that has gone, or a full disk, must not end
/// the thread that writes, as `eprintln!` would: a server could not be stopped any more. A reader
/// that has stopped reading must not block the thread either: output that is not taken within
/// `PATIENCE_MS` is lost. Of a line that is longer than `LINE_MAX_BYTES`, or without memory for it,
/// the beginning is written.
pub fn line(text: impl Display) {
    let mut line = StderrLine(Vec::new());
    let _beginning = writeln!(line, "{text}");
    write(&mut io::stderr().lock(), &line.0);
}

/// The maximum number of bytes of a line: several times the size of an error with its position.
const LINE_MAX_BYTES: usize = 16 * 1024;

/// Bytes that a ready pipe takes without waiting, at once and as a whole (POSIX: `PIPE_BUF`).
const PIECE_BYTES: usize = libc::PIPE_BUF;

/// Writes a line as far as the reader takes it.
fn write(out: &mut (impl Write + AsFd), line: &[u8]) {
    let (beginning, end) = match line.get(..LINE_MAX_BYTES) {
        Some(beginning) if line.len() > LINE_MAX_BYTES => (beginning, &b"\n"[..]),
        _ => (line, &b""[..]),
    };
    for piece in beginning.chunks(PIECE_BYTES).chain([end]) {
        let is_written = piece.is_empty() || takes(&*out) && out.write_all(piece).is_ok();
        if !is_written {
            return;
        }
    }
}

/// Milliseconds that a line waits for its reader: long for a busy reader, short for a worker whose
/// clients wait.
const PATIENCE_MS: i64 = 100;

/// Returns whether a line can be written without waiting. A pipe is ready while it has room for 4
/// KiB.
fn takes(out: &impl AsFd) -> bool {
    let patience = Timespec { tv_sec: 0, tv_nsec: PATIENCE_MS * 1_000_000 };
    let mut asked = [PollFd::new(out, PollFlags::OUT)];
    // If the poll was interrupted, or there is no such descriptor, the write will show that.
    !matches!(poll(&mut asked, Some(&patience)), Ok(0))
}

/// Text as far as there is memory for it.
struct StderrLine(Vec<u8>);

impl fmt::Write for StderrLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.try_reserve(text.len()).map_err(|_| fmt::Error)?;
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn a_line_of_any_length_waits_for_no_reader() {
        let (mut reader, mut writer) = io::pipe().expect("a pipe");
        let long = [&vec![b'x'; 100_000][..], b"\n"].concat();
        write(&mut writer, &long);
        // These are more lines than a pipe has room for.
        for _ in 0..20 {
            write(&mut writer, &long);
        }
        drop(writer);
        let mut taken = Vec::new();
        reader.read_to_end(&mut taken).expect("what was taken");
        let first = taken.split_inclusive(|&byte| byte == b'\n').next().expect("a line");
        assert_eq!(first.len(), LINE_MAX_BYTES + 1);
        assert!(taken.len() >= 2 * first.len());
    }

    #[test]
    fn a_line_that_is_read_is_whole() {
        let (mut reader, mut writer) = io::pipe().expect("a pipe");
        let line = [&vec![b'x'; LINE_MAX_BYTES - 1][..], b"\n"].concat();
        write(&mut writer, &line);
        write(&mut writer, b"next\n");
        drop(writer);
        let mut taken = Vec::new();
        reader.read_to_end(&mut taken).expect("what was taken");
        assert_eq!(taken, [&line[..], b"next\n"].concat());
    }
}
