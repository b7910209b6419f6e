//! Where the files of an upload lie until its request is over: little in memory, more in a file
//! without a name, so that nothing of it is left behind whatever happens. Where the system has no
//! folder for temporary files, as in a container that was made from scratch, the file is one in
//! memory, and counts as such.
//!
//! The worker writes the file itself, and waits for it. That is a copy into the page cache (or into
//! memory, where the folder is a tmpfs) and takes about as long as reading from the socket did; a
//! kernel that must write back first can hold it up for longer. The limit of the form bounds this,
//! and for all uploads together their quota ([`crate::upload_quota`]).

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Once};

use pinion_engine::stderr;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::limits::SPOOL_MEMORY_MAX_BYTES;
use crate::upload_quota::{UploadQuota, UploadShare};

/// Bytes that are added at the end and read anywhere.
#[derive(Debug, Default)]
pub struct UploadSpool {
    /// The bytes in the file.
    stored_bytes: u64,
    file: Option<File>,
    /// The file is a memfd.
    is_in_memory: bool,
    /// The bytes after those of the file.
    memory: Vec<u8>,
    /// Its share of the quota of all uploads.
    share: UploadShare,
}

/// Why bytes of an upload cannot be kept.
#[derive(Debug)]
pub enum StoreError {
    /// All uploads together have taken what they may, or the system has no room or no descriptor
    /// at the moment: later there may be room again.
    Full(String),
    /// The file cannot be made or written.
    Io(io::Error),
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        let is_temporary = matches!(
            error.raw_os_error(),
            Some(libc::ENOSPC | libc::EDQUOT | libc::EMFILE | libc::ENFILE | libc::ENOMEM)
        );
        if is_temporary { Self::Full(error.to_string()) } else { Self::Io(error) }
    }
}

impl UploadSpool {
    /// Returns how many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.stored_bytes + self.memory.len() as u64
    }

    /// Returns how much memory it takes, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let stored_bytes = if self.is_in_memory { self.stored_bytes as usize } else { 0 };
        self.memory.capacity() + stored_bytes
    }

    /// Takes from this quota from now on.
    pub fn belong_to(&mut self, quota: &Arc<UploadQuota>) {
        self.share.belong_to(quota);
    }

    /// Returns whether it takes some of the quota of all uploads.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.share.is_holding()
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Why they cannot be kept.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.memory.extend_from_slice(bytes);
        if self.memory.len() <= SPOOL_MEMORY_MAX_BYTES {
            return Ok(());
        }
        self.store()
    }

    /// Ends the upload: nothing is appended any more.
    ///
    /// # Errors
    /// Why its bytes cannot be kept.
    pub fn finish(&mut self) -> Result<(), StoreError> {
        if self.file.is_some() {
            self.store()?;
            self.memory = Vec::new();
        }
        Ok(())
    }

    /// Reads so many bytes at a position of a finished upload.
    ///
    /// # Errors
    /// They are not all there, or cannot be read.
    pub fn read(&self, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let end = at.checked_add(bytes).filter(|&end| end <= self.bytes()).ok_or_else(short)?;
        match &self.file {
            Some(file) => {
                let mut read = vec![0; usize::try_from(bytes).map_err(|_| short())?];
                file.read_exact_at(&mut read, at)?;
                Ok(read)
            }
            None => {
                self.memory.get(at as usize..end as usize).map(<[u8]>::to_vec).ok_or_else(short)
            }
        }
    }

    fn store(&mut self) -> Result<(), StoreError> {
        if !self.share.take_bytes(self.memory.len() as u64) {
            return Err(StoreError::Full(format!(
                "the uploads of all requests take {}, the most that --upload-space allows; raise \
                 it, or try again later",
                self.share.space()
            )));
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                if !self.share.take_file() {
                    return Err(StoreError::Full(format!(
                        "{} uploads are open, the most that the limit on open files allows; raise \
                         that (ulimit -n), or try again later",
                        self.share.files_max()
                    )));
                }
                let (file, is_in_memory) = temporary(&std::env::temp_dir())?;
                self.is_in_memory = is_in_memory;
                self.file.insert(file)
            }
        };
        file.write_all(&self.memory)?;
        self.stored_bytes += self.memory.len() as u64;
        self.memory.clear();
        Ok(())
    }
}

/// A new file that no path leads to, and whether it is one in memory because the folder takes none.
fn temporary(folder: &Path) -> io::Result<(File, bool)> {
    static LOGGED: Once = Once::new();
    match without_name(folder) {
        Ok(file) => Ok((file, false)),
        // A full disk or a missing descriptor is trouble of another kind, and passes.
        Err(error) if is_lasting(&error) => {
            LOGGED.call_once(|| {
                let shown = folder.display();
                stderr::line(format_args!(
                    "pinion: cannot store uploads in {shown} ({error}), keeping them in memory; \
                     TMPDIR names another folder"
                ));
            });
            let file = memfd_create(c"pinion-upload", MemfdFlags::CLOEXEC)?;
            Ok((file.into(), true))
        }
        Err(error) => Err(error),
    }
}

/// Whether a folder will take no file later either.
fn is_lasting(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem)
}

/// A new file that no path leads to.
fn without_name(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
        // Not every file system has them: then a name that nobody guesses, for a moment.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
            named_for_a_moment(&options, folder)
        }
        opened => opened,
    }
}

fn named_for_a_moment(options: &OpenOptions, folder: &Path) -> io::Result<File> {
    let path = folder.join(format!(".pinion-upload-{:016x}", RandomState::new().hash_one(0)));
    let file = options.clone().create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_folder_it_is_memory_and_counts() {
        let (file, is_in_memory) = temporary(Path::new("/no/such/folder")).expect("memory");
        assert!(is_in_memory);
        let mut spool = UploadSpool { file: Some(file), is_in_memory, ..UploadSpool::default() };
        let content = vec![b'x'; SPOOL_MEMORY_MAX_BYTES + 1];
        spool.append(&content).expect("added");
        spool.finish().expect("finished");
        assert_eq!(spool.held_bytes(), content.len());
        assert_eq!(spool.read(0, spool.bytes()).expect("all"), content);
    }

    #[test]
    fn what_was_added_is_read_wherever_it_lies() {
        for count in [1, 10, 100, 1000] {
            let mut spool = UploadSpool::default();
            let mut expected = Vec::new();
            for number in 0..count {
                let piece = [number as u8; 1013];
                spool.append(&piece).expect("added");
                expected.extend_from_slice(&piece);
                assert!(spool.memory.len() <= SPOOL_MEMORY_MAX_BYTES);
            }
            spool.finish().expect("finished");
            assert_eq!(spool.file.is_some(), expected.len() > SPOOL_MEMORY_MAX_BYTES);
            assert_eq!(spool.bytes(), expected.len() as u64);
            assert_eq!(spool.read(0, spool.bytes()).expect("all"), expected);
            assert_eq!(spool.read(1000, 13).expect("some"), expected[1000..1013]);
            assert!(spool.read(1, spool.bytes()).is_err());
            assert!(spool.read(u64::MAX, 2).is_err());
        }
    }

    #[test]
    fn a_file_leaves_no_name() {
        let folder = std::env::temp_dir().join(format!("pinion-spool-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        let files = [without_name(&folder), named_for_a_moment(&options, &folder)];
        for file in files {
            let mut file = file.expect("a file");
            file.write_all(b"content").expect("written");
            let mut read = [0; 7];
            file.read_exact_at(&mut read, 0).expect("read");
            assert_eq!(&read, b"content");
        }
        assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 0);
        fs::remove_dir(&folder).expect("it is empty");
    }
}
