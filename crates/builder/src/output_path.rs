//! The place an archive goes to: the file that stands there, and whether an archive may replace it.

use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use pinion_archive::layout::MAGIC;

use crate::error::{BuildError, Occupant, Reason};
use crate::limits::LINKS_MAX;
use crate::walk::consistent_file_read::OpenSource;

/// A name for an archive, and where it leads.
pub(crate) struct OutputPath {
    /// The path as the caller wrote it, for messages.
    named: PathBuf,
    path: PathBuf,
    force: bool,
}

impl OutputPath {
    /// Returns the place that `out` names. Links are followed, also one that leads to nothing yet:
    /// the archive goes to where the link leads, and the link stays.
    ///
    /// # Errors
    /// The errors of [`OutputPath::check`].
    pub(crate) fn find(out: &Path, force: bool) -> Result<OutputPath, BuildError> {
        let mut place = OutputPath { named: out.to_owned(), path: out.to_owned(), force };
        // Before links are followed by hand: the text of a link below /proc is no path.
        place.check()?;
        place.path = end_of_links(out).map_err(|error| place.cannot(error))?;
        place.check()?;
        Ok(place)
    }

    /// Returns where the archive goes; no link.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that an archive may be put here now: there is nothing yet, an archive, or an empty
    /// file. By force any other file may go too, and nothing else.
    ///
    /// # Errors
    /// [`BuildError::Occupied`], and [`BuildError::Output`] when the file cannot be examined.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let metadata = match fs::metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(self.cannot(error)),
        };
        let by = match special(metadata.file_type()) {
            Some(special) => special,
            None if self.force || metadata.len() == 0 || self.holds_archive()? => return Ok(()),
            None => Occupant::OtherFile,
        };
        Err(BuildError::Occupied { path: self.named.clone(), by })
    }

    /// Returns an error of the system about this place.
    pub(crate) fn cannot(&self, error: io::Error) -> BuildError {
        BuildError::Output { path: self.named.clone(), error }
    }

    /// Returns whether the file begins as an archive of any version does, whole or damaged.
    fn holds_archive(&self) -> Result<bool, BuildError> {
        let mut head = Vec::new();
        let read =
            OpenSource::open(&self.path).and_then(|mut file| file.head(&mut head, MAGIC.len()));
        match read {
            Ok(()) => Ok(head == MAGIC),
            Err(Reason::Unreadable(error)) => Err(self.cannot(error)),
            Err(reason) => Err(self.cannot(io::Error::other(reason.to_string()))),
        }
    }
}

/// Returns the kind of an obstacle for an archive that is no file.
fn special(kind: FileType) -> Option<Occupant> {
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some(Occupant::Folder)
    } else if kind.is_socket() {
        Some(Occupant::Socket)
    } else if kind.is_fifo() {
        Some(Occupant::Pipe)
    } else {
        Some(Occupant::Device)
    }
}

/// Returns where `path` leads when it is a link, and the links after it.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => {
                let target = fs::read_link(&path)?;
                // A relative target begins in the folder of the link; an absolute one is all of it.
                path = path.parent().unwrap_or(Path::new("")).join(target);
            }
            _ => return Ok(path),
        }
    }
    Err(rustix::io::Errno::LOOP.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only looked at: nothing here writes.
    #[test]
    fn a_device_is_not_replaced_even_by_force() {
        for force in [false, true] {
            let place = OutputPath::find(Path::new("/dev/null"), force);
            let by = Occupant::Device;
            assert!(matches!(place, Err(BuildError::Occupied { by: found, .. }) if found == by));
        }
    }
}
