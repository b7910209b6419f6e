//! Files outside of the archive: those of a served folder that were too large to be copied in.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use pinion_http::prepared_response::ExternalRange;

/// An external file of an archive. It is never mapped: reading it cannot raise SIGBUS, and there
/// may be any number of them.
#[derive(Debug)]
pub struct ExternalFile {
    file: File,
}

impl ExternalFile {
    pub(super) fn new(file: File) -> Self {
        Self { file }
    }

    /// Returns the file itself, for `sendfile`.
    #[inline]
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns whether the file still has the size and the modification time that `range` was made
    /// for.
    pub fn is_unchanged(&self, range: &ExternalRange) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|stat| {
            let modified = stat.st_mtime.saturating_mul(1_000_000_000);
            stat.st_size as u64 == range.size
                && modified.saturating_add(stat.st_mtime_nsec as i64) == range.modified_ns
        })
    }

    /// Fills `into` from the start of `range`. The bytes are those that the archive was made of:
    /// the file is checked after they were read, and a write to a file changes its time first.
    ///
    /// # Errors
    /// Fails if the file is shorter, has changed, or cannot be read.
    pub(crate) fn read_unchanged(&self, range: &ExternalRange, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, range.offset)?;
        if self.is_unchanged(range) {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, "the file has changed"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file() -> (File, ExternalRange) {
        let fd = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
        let mut file = File::from(fd);
        file.write_all(&[7; 100]).expect("written");
        let stat = rustix::fs::fstat(&file).expect("stat");
        let modified_ns = stat.st_mtime * 1_000_000_000 + stat.st_mtime_nsec as i64;
        (file, ExternalRange { file: 0, offset: 10, bytes: 50, size: 100, modified_ns })
    }

    #[test]
    fn an_unchanged_file_can_be_read() {
        let (file, range) = file();
        let mut bytes = [0; 50];
        ExternalFile::new(file).read_unchanged(&range, &mut bytes).expect("unchanged");
        assert_eq!(bytes, [7; 50]);
    }

    #[test]
    fn a_shorter_a_longer_and_a_touched_file_are_refused() {
        for (size, seconds) in [(20, None), (99, None), (101, None), (100, Some(1))] {
            let (file, range) = file();
            let external = ExternalFile::new(file.try_clone().expect("a second handle"));
            file.set_len(size).expect("resized");
            if let Some(seconds) = seconds {
                let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
                file.set_modified(time).expect("touched");
            }
            assert!(!external.is_unchanged(&range), "{size}");
            assert!(external.read_unchanged(&range, &mut [0; 50]).is_err(), "{size}");
        }
    }
}
