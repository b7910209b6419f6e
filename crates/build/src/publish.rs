//! A file that appears under its name complete, or not at all.
//!
//! It is written under another name in the same folder, synced, renamed, and the folder synced: a
//! reader, a crash or a full disk sees the old file or the new one. On an error the file under the
//! other name is removed. After a crash it may stay, hidden, and a later build skips it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::build::build_beside;
use crate::error::BuildError;
use crate::options::Options;
use crate::place::Place;
use crate::progress::Progress;
use crate::summary::Summary;
use crate::walk::id_of;

/// Builds the folder `source` into the archive file `out`. An older archive there stays in use,
/// whole, until the new one takes its place; it is not part of the new one even if it lies in the
/// folder. A link stays, and the archive goes to where it leads. Whatever is neither an archive nor
/// an empty file is not replaced; see [`Options::force`].
///
/// # Errors
/// As [`build`](crate::build()), [`BuildError::Occupied`] and [`BuildError::Output`]. After an
/// error `out` is as it was, but for one: if the folder cannot be synced, the new archive is in
/// place and may be lost in a crash.
pub fn build_file(
    source: &Path,
    options: &Options,
    out: &Path,
    progress: &dyn Progress,
) -> Result<Summary, BuildError> {
    published(out, options.force, |file, out| {
        Ok(build_beside(source, options, id_of(out), file, progress)?.summary)
    })
}

/// Has a file written and published as `out`. `write` gets the file, empty, and its later path.
pub(crate) fn published<T, E: From<BuildError>>(
    out: &Path,
    force: bool,
    write: impl FnOnce(&File, &Path) -> Result<T, E>,
) -> Result<T, E> {
    let place = Place::find(out, force)?;
    let out = place.path();
    let draft = Draft::create(out).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => place.cannot(io::Error::new(error.kind(), "no such folder")),
        _ => place.cannot(error),
    })?;
    let result = write(&draft.file, out)?;
    // Once more: a build can take long enough for others to put something here.
    place.check()?;
    draft.publish(out).map_err(|error| place.cannot(error))?;
    Ok(result)
}

/// A file under another name, removed unless it is published.
struct Draft {
    file: File,
    path: PathBuf,
    folder: PathBuf,
    published: bool,
}

impl Draft {
    /// Creates the draft of `out`, beside it.
    fn create(out: &Path) -> io::Result<Draft> {
        static DRAFTS: AtomicU32 = AtomicU32::new(0);
        let name = out.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let folder = match out.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        loop {
            // A dot in front: hidden, and skipped by a walk.
            let mut hidden = OsString::from(".");
            hidden.push(name);
            let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
            hidden.push(format!(".{}-{number}.tmp", process::id()));
            let path = folder.join(hidden);
            match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Draft { file, path, folder, published: false }),
                // Left behind by a process that had this number before.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn publish(mut self, out: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, out)?;
        self.published = true;
        File::open(&self.folder)?.sync_all()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.published {
            // Nobody can be told, and there is nothing else to try.
            let _ = fs::remove_file(&self.path);
        }
    }
}
