//! Reads a file that other processes may change meanwhile: the read content is one state of it, or
//! it is a problem with a name.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use pinion_archive::Digest;
use rustix::buffer::spare_capacity;
use rustix::fs::OFlags;

use crate::error::Reason;
use crate::limits::PIECE_BYTES;
use crate::walk::source_stamp::SourceStamp;

/// An open regular file and its stamp when it was opened.
pub(crate) struct OpenSource {
    file: File,
    stamp: SourceStamp,
}

impl OpenSource {
    /// Opens a file for reading. A path that was a file when the folder was walked may be a pipe
    /// now: opening must not wait for a writer.
    pub(crate) fn open(path: &Path) -> Result<OpenSource, Reason> {
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(path)
            .map_err(Reason::Unreadable)?;
        let stamp = stamp(&file)?;
        Ok(OpenSource { file, stamp })
    }

    pub(crate) fn stamp(&self) -> SourceStamp {
        self.stamp
    }

    /// Reads all of the content.
    pub(crate) fn read(self) -> Result<Vec<u8>, Reason> {
        let length = usize::try_from(self.stamp.bytes).map_err(|_| Reason::Changed)?;
        // Room for one byte more shows the end without a call that asks for it: a read that leaves
        // room has come to it. A file that the kernel generates on reading has content, but no
        // size.
        let mut content = Vec::with_capacity(length.saturating_add(1));
        loop {
            let read = || rustix::io::read(&self.file, spare_capacity(&mut content));
            match rustix::io::retry_on_intr(read) {
                Ok(0) => break,
                Ok(_) if content.len() >= length => break,
                Ok(_) => {}
                Err(error) => return Err(Reason::Unreadable(error.into())),
            }
        }
        self.check_unchanged()?;
        if content.len() == length { Ok(content) } else { Err(Reason::WrongSize) }
    }

    /// Reads the first bytes, as many as fit into `head` and are there.
    pub(crate) fn head(&mut self, head: &mut Vec<u8>, bytes: usize) -> Result<(), Reason> {
        head.clear();
        self.rewind()?;
        (&mut self.file).take(bytes as u64).read_to_end(head).map_err(Reason::Unreadable)?;
        Ok(())
    }

    /// Passes all of the content on piece by piece.
    pub(crate) fn pieces(&mut self, mut take: impl FnMut(&[u8])) -> Result<(), Reason> {
        self.rewind()?;
        let mut piece = vec![0; PIECE_BYTES];
        let mut bytes_read = 0;
        loop {
            match self.file.read(&mut piece) {
                Ok(0) => break,
                Ok(bytes) => {
                    bytes_read += bytes as u64;
                    take(piece.get(..bytes).unwrap_or_default());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Reason::Unreadable(error)),
            }
        }
        self.check_unchanged()?;
        if bytes_read == self.stamp.bytes { Ok(()) } else { Err(Reason::WrongSize) }
    }

    /// Checks that the content ends where the size says, for a file that is not read.
    pub(crate) fn check_end(&self) -> Result<(), Reason> {
        let beyond = self.file.read_at(&mut [0], self.stamp.bytes).map_err(Reason::Unreadable)?;
        self.check_unchanged()?;
        if beyond == 0 { Ok(()) } else { Err(Reason::WrongSize) }
    }

    /// Checks that the file has not changed since it was opened.
    pub(crate) fn check_unchanged(&self) -> Result<(), Reason> {
        if stamp(&self.file)?.is_content_of(&self.stamp) { Ok(()) } else { Err(Reason::Changed) }
    }

    /// Returns the file, positioned at its start.
    pub(crate) fn rewind(&mut self) -> Result<&mut File, Reason> {
        self.file.rewind().map_err(Reason::Unreadable)?;
        Ok(&mut self.file)
    }

    /// Returns the file, to be sent from where it is.
    pub(crate) fn into_file(self) -> File {
        self.file
    }

    /// Returns a digest that stands for the content of a file that is not read: any change of the
    /// content changes inode, size, modification or status change time.
    pub(crate) fn digest_of_state(&self) -> Result<Digest, Reason> {
        let metadata = self.file.metadata().map_err(Reason::Unreadable)?;
        let numbers = [
            metadata.dev().cast_signed(),
            metadata.ino().cast_signed(),
            metadata.size().cast_signed(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
        ];
        let mut state = b"state of a file:".to_vec();
        numbers.iter().for_each(|number| state.extend_from_slice(&number.to_le_bytes()));
        Ok(Digest::of(&state))
    }
}

fn stamp(file: &File) -> Result<SourceStamp, Reason> {
    let metadata = file.metadata().map_err(Reason::Unreadable)?;
    if !metadata.is_file() {
        return Err(Reason::Changed);
    }
    Ok(SourceStamp::of(&metadata))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("pinion-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_file_that_grows_or_shrinks_is_a_problem() {
        let folder = folder("source");
        let path = folder.join("a");
        for (after, expected) in [("1234", true), ("12345", false), ("123", false), ("", false)] {
            fs::write(&path, "1234").unwrap();
            let source = OpenSource::open(&path).unwrap();
            if after != "1234" {
                fs::write(&path, after).unwrap();
            }
            let read = source.read();
            assert_eq!(read.is_ok(), expected, "{after:?}");
            assert!(read.is_ok() || matches!(read, Err(Reason::Changed)));
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_new_modification_time_is_a_change() {
        let folder = folder("stamp");
        let path = folder.join("a");
        fs::write(&path, "1234").unwrap();
        let mut source = OpenSource::open(&path).unwrap();
        assert!(source.pieces(|_| {}).is_ok());
        let other = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(1);
        File::options().write(true).open(&path).unwrap().set_modified(other).unwrap();
        assert!(matches!(source.pieces(|_| {}), Err(Reason::Changed)));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn content_of_another_length_than_its_size_is_a_problem() {
        let open = || OpenSource::open(Path::new("/proc/version")).unwrap();
        assert_eq!(open().stamp().bytes, 0);
        assert!(matches!(open().read(), Err(Reason::WrongSize)));
        assert!(matches!(open().pieces(|_| {}), Err(Reason::WrongSize)));
        assert!(matches!(open().check_end(), Err(Reason::WrongSize)));
        let folder = folder("size");
        let path = folder.join("a");
        for content in ["", "1234"] {
            fs::write(&path, content).unwrap();
            assert_eq!(OpenSource::open(&path).unwrap().read().unwrap(), content.as_bytes());
            assert!(OpenSource::open(&path).unwrap().pieces(|_| {}).is_ok());
            assert!(OpenSource::open(&path).unwrap().check_end().is_ok());
        }
        fs::remove_dir_all(folder).unwrap();
    }

    /// A pipe in the place of a file neither blocks nor is read.
    #[test]
    fn a_file_replaced_by_a_pipe_or_folder_has_changed() {
        let folder = folder("pipe");
        let pipe = folder.join("pipe");
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(matches!(OpenSource::open(&pipe), Err(Reason::Changed)));
        assert!(matches!(OpenSource::open(&folder), Err(Reason::Changed)));
        fs::remove_dir_all(folder).unwrap();
    }
}
