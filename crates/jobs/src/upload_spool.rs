//! Stores the files of an upload until its request is over. A small upload stays in memory; a
//! larger one is in a file without a name, so that nothing of it is left behind even after a crash.
//! If the system has no folder for temporary files, as in a container that was made from scratch,
//! the file is a memfd and counts as memory.
//!
//! The worker writes the file itself, and blocks for the write. The write is a copy into the page
//! cache (or into memory, if the folder is a tmpfs) and takes about as long as reading from the
//! socket did; a kernel that must write back first can delay the worker for longer. The limit of
//! the form bounds this for one upload, and the quota of uploads ([`crate::upload_quota`]) for all
//! of them together.

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

/// A spool of bytes: bytes are appended at its end and read at any position.
#[derive(Debug, Default)]
pub struct UploadSpool {
    /// The number of bytes in the file.
    stored_bytes: u64,
    file: Option<File>,
    /// Whether the file is a memfd.
    is_in_memory: bool,
    /// The bytes that follow those of the file.
    memory: Vec<u8>,
    /// The share of this upload in the quota of all uploads.
    share: UploadShare,
}

/// The reason why bytes of an upload cannot be stored.
#[derive(Debug)]
pub enum StoreError {
    /// All uploads together have used up their quota, or the system has no space or no descriptor
    /// at the moment. A later attempt may succeed.
    Full(String),
    /// The file cannot be created or written.
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
    /// Returns the number of bytes of the upload.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.stored_bytes + self.memory.len() as u64
    }

    /// Returns the memory that the upload uses, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let stored_bytes = if self.is_in_memory { self.stored_bytes as usize } else { 0 };
        self.memory.capacity() + stored_bytes
    }

    /// Makes the upload count in this quota from now on.
    pub fn belong_to(&mut self, quota: &Arc<UploadQuota>) {
        self.share.belong_to(quota);
    }

    /// Returns whether the upload uses a part of the quota of all uploads.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.share.is_holding()
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// The bytes cannot be stored.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.memory.extend_from_slice(bytes);
        if self.memory.len() <= SPOOL_MEMORY_MAX_BYTES {
            return Ok(());
        }
        self.store()
    }

    /// Finishes the upload. Nothing may be appended afterwards.
    ///
    /// # Errors
    /// The remaining bytes cannot be stored.
    pub fn finish(&mut self) -> Result<(), StoreError> {
        if self.file.is_some() {
            self.store()?;
            self.memory = Vec::new();
        }
        Ok(())
    }

    /// Reads `bytes` bytes at the position `at` of a finished upload.
    ///
    /// # Errors
    /// The upload has fewer bytes than that, or they cannot be read.
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

/// Creates a file that has no path. Returns it, and whether it is a memfd because the folder cannot
/// hold files.
fn temporary(folder: &Path) -> io::Result<(File, bool)> {
    static LOGGED: Once = Once::new();
    match without_name(folder) {
        Ok(file) => Ok((file, false)),
        // A full disk or a lack of descriptors is a temporary error, so it does not lead to a
        // memfd.
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

/// Returns whether an error is permanent: no later attempt to create a file in the folder will
/// succeed either.
fn is_lasting(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem)
}

/// Creates a file that has no path.
fn without_name(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
        // Not every file system supports files without a name. Then the file has a random name that
        // cannot be guessed, and loses it at once.
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
    fn without_a_folder_the_spool_is_in_memory_and_counted() {
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
    fn spooled_bytes_are_read_back_from_memory_and_file() {
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
    fn a_temporary_file_has_no_name() {
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
