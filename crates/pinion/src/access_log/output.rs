//! The destination of the lines: a file that can be reopened, or stdout.

use crate::failure::without_number;
use crate::settings::LogTarget;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// An open log.
#[derive(Debug)]
pub(crate) struct OpenLog {
    place: LogDestination,
    /// The last write stopped in the middle of a line.
    torn: bool,
}

/// The identity of a file: its device and its inode number there.
pub(super) type FileId = (u64, u64);

#[derive(Debug)]
enum LogDestination {
    File { path: PathBuf, file: File },
    Stdout,
}

impl OpenLog {
    /// Opens the target that `--access-log` names.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub(crate) fn open(target: LogTarget) -> io::Result<Self> {
        match target {
            LogTarget::File(path) => Self::file(path),
            LogTarget::Stdout => Ok(Self { place: LogDestination::Stdout, torn: false }),
        }
    }

    /// Opens or makes a file.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub(crate) fn file(path: PathBuf) -> io::Result<Self> {
        let file = append(&path)?;
        Ok(Self { place: LogDestination::File { path, file }, torn: false })
    }

    /// Returns which file it is; `None` for stdout.
    pub(super) fn file_id(&self) -> Option<FileId> {
        let LogDestination::File { file, .. } = &self.place else { return None };
        file.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
    }

    /// Returns its name, for messages.
    pub(super) fn name(&self) -> String {
        match &self.place {
            LogDestination::File { path, .. } => path.display().to_string(),
            LogDestination::Stdout => "stdout".to_owned(),
        }
    }

    /// Opens the file by its name again. On an error the old file stays.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        if let LogDestination::File { path, file } = &mut self.place {
            *file = append(path)?;
            self.torn = false;
        }
        Ok(())
    }

    /// Writes whole lines. The bytes that were not written before an error are lost; the next lines
    /// begin on a line of their own.
    ///
    /// # Errors
    /// The error of the write: a full disk, a closed pipe.
    pub(crate) fn write_lines(&mut self, mut lines: &[u8]) -> io::Result<()> {
        if self.torn {
            self.write_some(b"\n")?;
            self.torn = false;
        }
        while !lines.is_empty() {
            let written = self.write_some(lines)?;
            let (done, rest) = lines.split_at(written.min(lines.len()));
            self.torn = done.last() != Some(&b'\n');
            lines = rest;
        }
        Ok(())
    }

    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let written = match &mut self.place {
                LogDestination::File { file, .. } => file.write(bytes),
                // Opened by its descriptor: std's own handle would cut the lines apart to buffer
                // them.
                LogDestination::Stdout => {
                    rustix::io::write(io::stdout(), bytes).map_err(io::Error::from)
                }
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => return written,
            }
        }
    }
}

/// Opens or makes a file without waiting: a plain open of a named pipe would wait for a reader, and
/// with it the start of the server, a reload, or the lines of all logs. Its writes wait as usual.
fn append(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.append(true).create(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ENXIO) if is_named_pipe(path) => io::Error::other(NO_READER),
        _ => error,
    })?;
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

/// The reason why a named pipe cannot be opened, and the advice.
const NO_READER: &str = "no program reads this named pipe; start the one that does, or name a file";

fn is_named_pipe(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Returns the reason why a log cannot be opened, and the advice.
pub(super) fn cannot_open(error: &io::Error) -> String {
    let why = without_number(&error.to_string());
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "let the user that runs Pinion write the file and its folder"
        }
        io::ErrorKind::NotFound => "create its folder",
        io::ErrorKind::IsADirectory => return format!("{why}; name a file in it"),
        _ => return why,
    };
    format!("{why}; {advice}, or name another file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_opening_a_log_contain_advice() {
        for (number, expected) in [
            (libc::EACCES, "Permission denied; let the user that runs Pinion write the file and"),
            (libc::ENOENT, "No such file or directory; create its folder, or name another file"),
            (libc::EISDIR, "Is a directory; name a file in it"),
            (libc::ENOSPC, "No space left on device"),
        ] {
            let message = cannot_open(&io::Error::from_raw_os_error(number));
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
