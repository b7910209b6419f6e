//! An open folder below which names are looked up; a lookup never leads out of it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, RawMode, ResolveFlags, fstat, lstat};
use rustix::io::Errno;

use crate::confined_folders::{FileKind, open_below};

/// An open folder. The kernel looks names up below it with the rules of
/// [`crate::confined_folders`]: nothing leads out of it, and links are not followed.
#[derive(Debug)]
pub struct FolderRoot(OwnedFd);

impl FolderRoot {
    /// Opens a folder. Symbolic links in the path of the folder are followed, because the operator
    /// chose that path.
    ///
    /// # Errors
    /// The error of open(2).
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Returns the kind of the file at a path below the folder. The path does not begin with a
    /// slash.
    ///
    /// # Errors
    /// The error of openat2(2): above all `ENOENT`, `ENOTDIR`, and `ELOOP` for a link.
    pub fn kind(&self, path: &[u8]) -> io::Result<FileKind> {
        kind_of(&open_below(&self.0, path, OFlags::PATH)?)
    }

    /// Opens the file at a path below the folder for reading. The file may be of any kind, which
    /// the caller checks. The path does not begin with a slash. Opening never waits for another
    /// process.
    ///
    /// # Errors
    /// The error of openat2(2): above all `ENOENT`, `ENOTDIR`, and `ELOOP` for a link.
    pub fn open_file(&self, path: &[u8]) -> io::Result<File> {
        Ok(open_below(&self.0, path, OFlags::RDONLY)?.into())
    }
}

/// Returns the kind of the file at a path below a folder, as [`FolderRoot::kind`] does. The path
/// below the folder must not have a segment `..`.
///
/// A name in the folder itself costs one system call. A longer path is looked up as a whole, and
/// the folder is opened only if there is a link in its own path.
///
/// # Errors
/// Those of [`FolderRoot::open`] and of [`FolderRoot::kind`].
pub fn kind_below(root: &Path, path: &[u8]) -> io::Result<FileKind> {
    debug_assert!(path.split(|byte| *byte == b'/').all(|name| name != b".."), "it stays below");
    let whole = [root.as_os_str().as_bytes(), path].join(&b'/');
    if !path.is_empty() && !path.contains(&b'/') {
        return file_kind(lstat(whole)?.st_mode).ok_or_else(|| Errno::LOOP.into());
    }
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match rustix::fs::openat2(CWD, whole, flags, Mode::empty(), resolve) {
        Ok(found) => kind_of(&found),
        // The symbolic link may be in the path of the folder, where links are allowed.
        Err(Errno::LOOP) => FolderRoot::open(root)?.kind(path),
        Err(error) => Err(error.into()),
    }
}

fn kind_of(found: &OwnedFd) -> io::Result<FileKind> {
    file_kind(fstat(found)?.st_mode).ok_or_else(|| Errno::LOOP.into())
}

/// Returns the kind of a file with this mode, or `None` for a symbolic link.
fn file_kind(mode: RawMode) -> Option<FileKind> {
    Some(match FileType::from_raw_mode(mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Folder,
        FileType::Symlink => return None,
        _ => FileKind::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    #[test]
    fn links_and_other_folders_are_not_found() {
        let name = format!("pinion-folder-root-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let root = folder.join("root");
        fs::create_dir_all(root.join("a")).expect("a folder");
        fs::write(root.join("a/b.php"), "").expect("a file");
        fs::write(folder.join("c.php"), "").expect("a file");
        symlink("a/b.php", root.join("link.php")).expect("a link");
        symlink("..", root.join("up")).expect("a link");
        let _socket = UnixListener::bind(root.join("s.php")).expect("a socket");
        let linked = folder.join("linked");
        symlink("root", &linked).expect("a link");
        let opened = FolderRoot::open(&linked).expect("links in its own path are followed");
        let straight = |path: &[u8]| kind_below(&root, path).ok();
        let over_link = |path: &[u8]| kind_below(&linked, path).ok();
        let in_opened = |path: &[u8]| opened.kind(path).ok();
        type LookUp<'l> = &'l dyn Fn(&[u8]) -> Option<FileKind>;
        let ways: [LookUp<'_>; 3] = [&straight, &over_link, &in_opened];
        for kind in ways {
            assert_eq!(kind(b"a"), Some(FileKind::Folder));
            assert_eq!(kind(b"a/"), Some(FileKind::Folder));
            assert_eq!(kind(b"a/b.php"), Some(FileKind::File));
            assert_eq!(kind(b"s.php"), Some(FileKind::Other));
            for path in [&b"link.php"[..], b"up", b"up/c.php", b"a/b.php/", b"none", b"a\0"] {
                assert_eq!(kind(path), None, "{}", path.escape_ascii());
                assert!(opened.open_file(path).is_err(), "{}", path.escape_ascii());
            }
        }
        for path in [&b"../c.php"[..], b"/etc/passwd", b""] {
            assert_eq!(in_opened(path), None, "{}", path.escape_ascii());
        }
        fs::remove_dir_all(&folder).expect("removed");
    }
}
