//! Writes the files of an extraction below one folder. If the folder is new or empty, it appears
//! under its name complete or not at all.
//!
//! Whatever the names are and whatever exists already, nothing is written outside of the folder:
//! each folder of a path is opened relative to the one above (`openat`), and symbolic links are not
//! followed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pinion_http::date::UnixSeconds;
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, futimens, mkdirat, openat,
    renameat, syncfs, unlinkat,
};
use rustix::io::Errno;

use crate::extract::{ExtractError, entry_paths};
use crate::temporary_file::under_another_name;

/// The folder to which an extraction writes.
pub(super) struct OutputFolder {
    /// The path as the caller wrote it.
    out: PathBuf,
    folder: OwnedFd,
    /// The open folder of the last file, with its path, so that further files of the same folder
    /// need no openat.
    last_folder: Option<(Vec<u8>, OwnedFd)>,
    /// The temporary folder that is filled and then renamed. `None`: the folder existed and had
    /// files, which are replaced one by one.
    temporary: Option<TemporaryFolder>,
}

/// A temporary folder. It is removed unless it gets its final name.
struct TemporaryFolder {
    path: PathBuf,
    final_path: PathBuf,
    published: bool,
}

/// The temporary name of a file while it is written, if the output folder existed with files.
const TEMPORARY_NAME: &str = ".pinion-extract.tmp";

const FOLDER_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const NEW_FILE_FLAGS: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl OutputFolder {
    /// Opens the folder `out` if it has files, or creates the temporary folder that replaces it.
    ///
    /// # Errors
    /// [`ExtractError::Occupied`] for anything but an empty folder, unless `force` is given and it
    /// is a folder; [`ExtractError::Output`].
    pub(super) fn create(out: &Path, force: bool) -> Result<OutputFolder, ExtractError> {
        let occupied = |obstacle| ExtractError::Occupied { path: out.to_owned(), obstacle };
        let cannot = |error| ExtractError::Output { path: out.to_owned(), error };
        let exists = match fs::metadata(out) {
            Ok(metadata) if !metadata.is_dir() => return Err(occupied("not a folder")),
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(cannot(error)),
        };
        let is_empty = !exists || fs::read_dir(out).map_err(cannot)?.next().is_none();
        if !is_empty && !force {
            return Err(occupied("the folder is not empty"));
        }
        if !is_empty {
            let folder = openat(CWD, out, FOLDER_FLAGS.difference(OFlags::NOFOLLOW), Mode::empty());
            let folder = folder.map_err(|error| cannot(error.into()))?;
            return Ok(OutputFolder {
                out: out.to_owned(),
                folder,
                last_folder: None,
                temporary: None,
            });
        }
        let final_path =
            if exists { fs::canonicalize(out).map_err(cannot)? } else { out.to_owned() };
        if exists && std::env::current_dir().is_ok_and(|here| here.starts_with(&final_path)) {
            return Err(occupied(
                "this is the current folder or contains it; name a folder that does not exist yet",
            ));
        }
        let temporary =
            TemporaryFolder::create(final_path, exists).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => cannot(io::Error::new(error.kind(), "no such folder")),
                _ => cannot(error),
            })?;
        let folder = openat(CWD, &temporary.path, FOLDER_FLAGS, Mode::empty());
        let folder = folder.map_err(|error| cannot(error.into()))?;
        Ok(OutputFolder {
            out: out.to_owned(),
            folder,
            last_folder: None,
            temporary: Some(temporary),
        })
    }

    /// Writes a file. `path` begins with a slash, and each part between slashes is a valid file
    /// name: not empty, `.` or `..`.
    ///
    /// # Errors
    /// [`ExtractError::Output`] with the path of the file.
    pub(super) fn write(
        &mut self,
        path: &[u8],
        content: &[u8],
        modified: Option<UnixSeconds>,
    ) -> Result<(), ExtractError> {
        self.try_write(path, content, modified).map_err(|error| ExtractError::Output {
            path: entry_paths::shown(&self.out, path),
            error,
        })
    }

    /// Creates a folder, if it does not exist. `path` begins with a slash and does not end with
    /// one.
    ///
    /// # Errors
    /// [`ExtractError::Output`] with its path.
    pub(super) fn create_folder(&mut self, path: &[u8]) -> Result<(), ExtractError> {
        let made = self.open_or_create(path).map(drop);
        made.map_err(|error| ExtractError::Output {
            path: entry_paths::shown(&self.out, path),
            error,
        })
    }

    /// Writes all files to the disk, and gives a temporary folder its final name.
    ///
    /// # Errors
    /// [`ExtractError::Output`].
    pub(super) fn publish(mut self) -> Result<(), ExtractError> {
        let published = self.try_publish();
        published.map_err(|error| ExtractError::Output { path: self.out.clone(), error })
    }

    fn try_publish(&mut self) -> io::Result<()> {
        // One syncfs instead of one fsync for each file. Without it, a crash could leave the
        // renamed folder with empty files.
        syncfs(&self.folder)?;
        let Some(temporary) = &mut self.temporary else { return Ok(()) };
        fs::rename(&temporary.path, &temporary.final_path)?;
        temporary.published = true;
        Ok(())
    }

    fn try_write(
        &mut self,
        path: &[u8],
        content: &[u8],
        modified: Option<UnixSeconds>,
    ) -> io::Result<()> {
        let replaces_files = self.temporary.is_none();
        let slash =
            path.iter().rposition(|&byte| byte == b'/').ok_or(io::ErrorKind::InvalidInput)?;
        let (folder, name) = path.split_at(slash);
        let name = OsStr::from_bytes(name.get(1..).unwrap_or_default());
        let folder = self.open_or_create(folder)?;
        let written_name = if replaces_files { OsStr::new(TEMPORARY_NAME) } else { name };
        if replaces_files {
            // An extraction that was killed has left it behind.
            let _may_not_be_there = unlinkat(folder, written_name, AtFlags::empty());
        }
        let mut file =
            File::from(openat(folder, written_name, NEW_FILE_FLAGS, Mode::from_raw_mode(0o666))?);
        let written = file.write_all(content).and_then(|()| set_modified(&file, modified));
        let written = if replaces_files {
            written.and_then(|()| Ok(renameat(folder, written_name, folder, name)?))
        } else {
            written
        };
        if replaces_files && written.is_err() {
            let _may_not_be_there = unlinkat(folder, written_name, AtFlags::empty());
        }
        written
    }

    /// Returns the open folder at `path` below the output folder. Creates the folders that are
    /// missing.
    fn open_or_create(&mut self, path: &[u8]) -> io::Result<&OwnedFd> {
        if path.is_empty() {
            return Ok(&self.folder);
        }
        if self.last_folder.as_ref().is_none_or(|(last_path, _)| last_path != path) {
            let mut inner: Option<OwnedFd> = None;
            for name in path.split(|&byte| byte == b'/').skip(1) {
                let above = inner.as_ref().unwrap_or(&self.folder);
                let name = OsStr::from_bytes(name);
                match mkdirat(above, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                inner = Some(openat(above, name, FOLDER_FLAGS, Mode::empty())?);
            }
            self.last_folder = inner.map(|folder| (path.to_vec(), folder));
        }
        Ok(self.last_folder.as_ref().map_or(&self.folder, |(_, folder)| folder))
    }
}

impl TemporaryFolder {
    /// Creates the temporary folder next to `final_path`. If this process is killed, the folder
    /// stays: another process could not tell whether it is still in use, so none removes it.
    fn create(final_path: PathBuf, exists: bool) -> io::Result<TemporaryFolder> {
        let ((), path) = under_another_name(&final_path, |path| fs::create_dir(path))?;
        let temporary = TemporaryFolder { path, final_path, published: false };
        if exists {
            let permissions = fs::metadata(&temporary.final_path)?.permissions();
            fs::set_permissions(&temporary.path, permissions)?;
        }
        Ok(temporary)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if !self.published {
            // The error cannot be reported here, and there is nothing else to try.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn set_modified(file: &File, modified: Option<UnixSeconds>) -> io::Result<()> {
    let Some(seconds) = modified else { return Ok(()) };
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: 0 },
    };
    Ok(futimens(file, &times)?)
}
