//! Files below one folder: with any names and any existing files, nothing is written outside of it.
//! Folders are opened one below the other, and no link is followed.

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

use crate::extract::{ExtractError, entry_files};
use crate::temporary_file::under_another_name;

/// A folder that is being filled.
pub(super) struct Tree {
    /// The path as the caller wrote it.
    out: PathBuf,
    folder: OwnedFd,
    /// The folder that was written to last.
    last: Option<(Vec<u8>, OwnedFd)>,
    /// The draft in which it is filled, and its final path. `None`: the folder was there, and files
    /// are replaced in it.
    draft: Option<FolderDraft>,
}

/// A folder under another name, removed unless it is published.
struct FolderDraft {
    path: PathBuf,
    goes_to: PathBuf,
    published: bool,
}

/// The name of a file that is not whole, in a folder that was there before.
const UNFINISHED: &str = ".pinion-extract.tmp";

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const NEW_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Tree {
    /// Makes a tree that becomes the folder `out`.
    ///
    /// # Errors
    /// [`ExtractError::Occupied`] for anything but an empty folder, unless `force` is given and it
    /// is a folder; [`ExtractError::Output`].
    pub(super) fn create(out: &Path, force: bool) -> Result<Tree, ExtractError> {
        let occupied = |what| ExtractError::Occupied { path: out.to_owned(), what };
        let cannot = |error| ExtractError::Output { path: out.to_owned(), error };
        let exists = match fs::metadata(out) {
            Ok(metadata) if !metadata.is_dir() => return Err(occupied("no folder")),
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(cannot(error)),
        };
        let is_empty = !exists || fs::read_dir(out).map_err(cannot)?.next().is_none();
        if !is_empty && !force {
            return Err(occupied("the folder is not empty"));
        }
        if !is_empty {
            let folder = openat(CWD, out, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty());
            let folder = folder.map_err(|error| cannot(error.into()))?;
            return Ok(Tree { out: out.to_owned(), folder, last: None, draft: None });
        }
        let goes_to = if exists { fs::canonicalize(out).map_err(cannot)? } else { out.to_owned() };
        if exists && std::env::current_dir().is_ok_and(|here| here.starts_with(&goes_to)) {
            return Err(occupied("the folder one is in; name one that is not there yet"));
        }
        let draft = FolderDraft::create(goes_to, exists).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => cannot(io::Error::new(error.kind(), "no such folder")),
            _ => cannot(error),
        })?;
        let folder = openat(CWD, &draft.path, FOLDER, Mode::empty());
        let folder = folder.map_err(|error| cannot(error.into()))?;
        Ok(Tree { out: out.to_owned(), folder, last: None, draft: Some(draft) })
    }

    /// Writes a file. `path` begins with a slash, and each of its names is one.
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
            path: entry_files::shown(&self.out, path),
            error,
        })
    }

    /// Makes a folder. `path` begins with a slash and does not end with one.
    ///
    /// # Errors
    /// [`ExtractError::Output`] with its path.
    pub(super) fn folder(&mut self, path: &[u8]) -> Result<(), ExtractError> {
        let made = self.enter(path).map(drop);
        made.map_err(|error| ExtractError::Output {
            path: entry_files::shown(&self.out, path),
            error,
        })
    }

    /// Publishes the folder under its name.
    ///
    /// # Errors
    /// [`ExtractError::Output`].
    pub(super) fn publish(mut self) -> Result<(), ExtractError> {
        let published = self.try_publish();
        published.map_err(|error| ExtractError::Output { path: self.out.clone(), error })
    }

    fn try_publish(&mut self) -> io::Result<()> {
        // One call for all of them: a name that leads to a folder with empty files is not whole.
        syncfs(&self.folder)?;
        let Some(draft) = &mut self.draft else { return Ok(()) };
        fs::rename(&draft.path, &draft.goes_to)?;
        draft.published = true;
        Ok(())
    }

    fn try_write(
        &mut self,
        path: &[u8],
        content: &[u8],
        modified: Option<UnixSeconds>,
    ) -> io::Result<()> {
        let replaces = self.draft.is_none();
        let slash =
            path.iter().rposition(|&byte| byte == b'/').ok_or(io::ErrorKind::InvalidInput)?;
        let (folder, name) = path.split_at(slash);
        let name = OsStr::from_bytes(name.get(1..).unwrap_or_default());
        let folder = self.enter(folder)?;
        let first = if replaces { OsStr::new(UNFINISHED) } else { name };
        if replaces {
            // Left behind by an extraction that was ended.
            let _may_not_be_there = unlinkat(folder, first, AtFlags::empty());
        }
        let mut file = File::from(openat(folder, first, NEW_FILE, Mode::from_raw_mode(0o666))?);
        let written = file.write_all(content).and_then(|()| set_modified(&file, modified));
        let written = if replaces {
            written.and_then(|()| Ok(renameat(folder, first, folder, name)?))
        } else {
            written
        };
        if replaces && written.is_err() {
            let _may_not_be_there = unlinkat(folder, first, AtFlags::empty());
        }
        written
    }

    /// Returns the folder of that path below the root, made if it is not there.
    fn enter(&mut self, path: &[u8]) -> io::Result<&OwnedFd> {
        if path.is_empty() {
            return Ok(&self.folder);
        }
        if self.last.as_ref().is_none_or(|(last, _)| last != path) {
            let mut inner: Option<OwnedFd> = None;
            for name in path.split(|&byte| byte == b'/').skip(1) {
                let above = inner.as_ref().unwrap_or(&self.folder);
                let name = OsStr::from_bytes(name);
                match mkdirat(above, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                inner = Some(openat(above, name, FOLDER, Mode::empty())?);
            }
            self.last = inner.map(|folder| (path.to_vec(), folder));
        }
        Ok(self.last.as_ref().map_or(&self.folder, |(_, folder)| folder))
    }
}

impl FolderDraft {
    /// Creates the draft of the folder `goes_to`, beside it. Other processes cannot see whether its
    /// process still runs, so one that is killed leaves it behind for good.
    fn create(goes_to: PathBuf, exists: bool) -> io::Result<FolderDraft> {
        let ((), path) = under_another_name(&goes_to, |path| fs::create_dir(path))?;
        let draft = FolderDraft { path, goes_to, published: false };
        if exists {
            let permissions = fs::metadata(&draft.goes_to)?.permissions();
            fs::set_permissions(&draft.path, permissions)?;
        }
        Ok(draft)
    }
}

impl Drop for FolderDraft {
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
