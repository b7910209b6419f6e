//! The metadata of files in a folder: their identity, and whether they are files or folders at all.

use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use crate::error::Reason;

/// Device and inode.
pub(crate) type FileId = (u64, u64);

/// Returns the device and the inode of a file with this metadata.
pub(super) fn id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

/// Returns the device and the inode of a file that may exist.
pub(crate) fn id_of(path: &Path) -> Option<FileId> {
    fs::metadata(path).ok().map(|metadata| id(&metadata))
}

/// Returns the device and the inode of each folder that holds a folder, as far as they can be
/// looked at.
pub(super) fn ids_above(folder: &Path) -> Vec<FileId> {
    let Ok(real) = folder.canonicalize() else { return Vec::new() };
    real.ancestors().skip(1).filter_map(id_of).collect()
}

/// Returns whether a folder is one of proc(5) or sysfs(5): its files are made up as they are read,
/// and links in it lead around without end.
pub(super) fn is_of_kernel(folder: &Path) -> bool {
    /// The number from linux/magic.h.
    const SYSFS_MAGIC: u64 = 0x6265_6572;
    let kind = rustix::fs::statfs(folder).map_or(0, |found| found.f_type as u64);
    kind == rustix::fs::PROC_SUPER_MAGIC as u64 || kind == SYSFS_MAGIC
}

/// Returns the metadata of a file or folder, at the end of its links.
pub(super) fn followed(entry: &DirEntry) -> Result<Metadata, Reason> {
    // On a name that is no link this needs no path, only the open folder.
    let mut metadata = entry.metadata().map_err(Reason::Unreadable)?;
    if metadata.is_symlink() {
        metadata = fs::metadata(entry.path()).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Reason::DanglingLink,
            _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                Reason::CircularLink
            }
            _ => Reason::Unreadable(error),
        })?;
    }
    file_or_folder(metadata)
}

/// Accepts files and folders alone, since only they have content that can be read again.
pub(crate) fn file_or_folder(metadata: Metadata) -> Result<Metadata, Reason> {
    let kind = metadata.file_type();
    if kind.is_file() || kind.is_dir() {
        Ok(metadata)
    } else if kind.is_socket() {
        Err(Reason::Socket)
    } else if kind.is_fifo() {
        Err(Reason::Pipe)
    } else {
        Err(Reason::Device)
    }
}
