//! Files that scripts read and write: below folders that the operator has named, and nowhere else.
//!
//! A script says `NAME/some/path`. The folder of that name was opened when the program was made,
//! and the kernel looks the rest up below it (`openat2`, Linux 5.6):
//!
//! - `RESOLVE_BENEATH`: nothing leads out of the folder, whatever others rename meanwhile.
//! - `RESOLVE_NO_SYMLINKS`, and with it no magic links: a file has one name. A link inside of the
//!   folder that leads inside would do no harm; but who puts links there (an archive that is
//!   unpacked, another program) seldom means to rename files for the script, and a link that is
//!   refused is easier to find than one that works until its target moves.
//!
//! What could mean something else on the way is refused before: empty segments, `.`, `..`, NUL.
//! Only regular files are read and written, so that no pipe and no device holds a thread.

mod operations;
pub(crate) mod sending;

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::limits::{FILE_PATH_MAX_BYTES, FILE_SEGMENT_MAX_BYTES};

/// A folder that scripts may use, as the operator names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderAt {
    /// What paths of scripts begin with.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Nothing in it can be changed.
    pub is_read_only: bool,
}

/// The value of `Content-Type` for a file of that name, if it is known.
pub type MediaTypeOf = fn(&str) -> Option<String>;

/// The folders of a program, open. Copies share them.
#[derive(Clone, Default)]
pub struct Folders(Arc<Opened>);

#[derive(Default)]
struct Opened {
    folders: Vec<Folder>,
    media_type: Option<MediaTypeOf>,
}

struct Folder {
    name: String,
    root: OwnedFd,
    is_read_only: bool,
}

impl fmt::Debug for Folders {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.folders.iter().map(|folder| &folder.name)).finish()
    }
}

/// The same ones, not the like of them.
impl PartialEq for Folders {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Folders {}

/// What a script names: one of the folders, and a path in it.
struct Spot<'f, 'n> {
    folder: &'f Folder,
    /// Below the folder; `.` for the folder itself.
    path: &'n [u8],
}

/// What it is named for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Look,
    Change,
}

/// What is wrong with every file of a program that has no folders.
pub(crate) const NO_FOLDERS: &str =
    "the site has no folders for files; name one with --lua-folder NAME=PATH";

/// The folder itself, as a path below it.
const ITSELF: &[u8] = b".";

impl Folders {
    /// Opens them. Files get their types by `media_type`.
    ///
    /// # Errors
    /// The one that cannot be opened, and why.
    pub fn open(named: &[FolderAt], media_type: MediaTypeOf) -> Result<Self, String> {
        let mut folders = Vec::new();
        for FolderAt { name, path, is_read_only } in named {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let root = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| {
                let why = match error {
                    Errno::NOENT => match suffix(path) {
                        Some(suffix) => format!(
                            "does not exist; only `:ro` may follow the path, not `{suffix}`"
                        ),
                        None => "does not exist; create it, or remove the setting".to_owned(),
                    },
                    Errno::NOTDIR => "is not a folder".to_owned(),
                    error => format!("cannot be opened: {}", what(error)),
                };
                format!("the folder {} {why}", path.display())
            })?;
            folders.push(Folder { name: name.clone(), root, is_read_only: *is_read_only });
        }
        Ok(Self(Arc::new(Opened { folders, media_type: Some(media_type) })))
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.folders.is_empty()
    }

    /// What a script means by a name.
    fn spot<'n>(&self, name: &'n [u8], purpose: Use) -> Result<Spot<'_, 'n>, String> {
        let folders = &self.0.folders;
        if self.is_empty() {
            return Err(NO_FOLDERS.to_owned());
        }
        let names = || folders.iter().map(|folder| &*folder.name).collect::<Vec<_>>().join(", ");
        let (first, path) = split(name, names)?;
        let found = folders.iter().find(|folder| folder.name.as_bytes() == first);
        let folder = found.ok_or_else(|| {
            let first = String::from_utf8_lossy(first);
            format!(
                "there is no folder of the name {first:?}; a path begins with a name of \
                 --lua-folder: {}",
                names()
            )
        })?;
        if purpose == Use::Change && folder.is_read_only {
            return Err(format!(
                "the folder {} is read-only; remove `:ro` from its --lua-folder to change it",
                folder.name
            ));
        }
        if purpose == Use::Change && path == ITSELF {
            return Err("this is the folder itself; name something in it".to_owned());
        }
        Ok(Spot { folder, path })
    }
}

/// What follows the last colon of a path, with the colon, if it looks like an option.
fn suffix(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let option = &text[text.rfind(':')?..];
    let is_word = option.len() > 1 && option[1..].bytes().all(|byte| byte.is_ascii_lowercase());
    is_word.then_some(option)
}

/// A path of a script as its folder and the path below it; `names` lists the folders.
fn split(path: &[u8], names: impl FnOnce() -> String) -> Result<(&[u8], &[u8]), String> {
    if path.len() > FILE_PATH_MAX_BYTES {
        return Err(format!("the path is longer than {FILE_PATH_MAX_BYTES} bytes"));
    }
    let mut segments = path.split(|&byte| byte == b'/');
    if segments.clone().any(|segment| segment.len() > FILE_SEGMENT_MAX_BYTES) {
        return Err(format!("a part of the path is longer than {FILE_SEGMENT_MAX_BYTES} bytes"));
    }
    if segments.any(|segment| matches!(segment, b"" | b"." | b"..") || segment.contains(&0)) {
        return Err(format!(
            "not a valid path: write NAME/path with a NAME of --lua-folder ({}), without a \
             leading /, empty parts, \".\", \"..\" or NUL",
            names()
        ));
    }
    match memchr::memchr(b'/', path) {
        Some(at) => Ok((&path[..at], &path[at + 1..])),
        None => Ok((path, ITSELF)),
    }
}

impl<'n> Spot<'_, 'n> {
    /// Opens what is there, or makes it. Nothing that is opened can keep anybody waiting.
    fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        open_below(&self.folder.root, self.path, flags)
    }

    /// The folder in which the last part of the path stands, and that part.
    fn parent(&self) -> Result<(OwnedFd, &'n [u8]), Errno> {
        let (parent, last) = match memchr::memrchr(b'/', self.path) {
            Some(at) => (&self.path[..at], &self.path[at + 1..]),
            None => (ITSELF, self.path),
        };
        Ok((open_below(&self.folder.root, parent, OFlags::PATH | OFlags::DIRECTORY)?, last))
    }

    /// Why nothing can be made at the path: mostly because its folder is missing.
    fn not_made(&self, error: Errno) -> String {
        if error != Errno::NOENT {
            return what(error);
        }
        let name = &self.folder.name;
        let parent = match memchr::memrchr(b'/', self.path) {
            Some(at) => format!("{name}/{}", String::from_utf8_lossy(&self.path[..at])),
            None => name.clone(),
        };
        format!("the folder {parent:?} does not exist; create it with pinion.fs.make_folder")
    }
}

/// What files have that are made: the umask takes away from it.
const NEW_FILE: Mode = Mode::from_raw_mode(0o644);

fn open_below(root: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // The kernel takes no mode where nothing is made, and little beside O_PATH.
    let mode = if flags.contains(OFlags::CREATE) { NEW_FILE } else { Mode::empty() };
    let common = match flags.contains(OFlags::PATH) {
        true => OFlags::CLOEXEC,
        false => OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY,
    };
    rustix::fs::openat2(root, path, flags | common, mode, resolve)
}

/// What an error means to whoever has named the file.
fn what(error: Errno) -> String {
    match error {
        Errno::NOENT => "no such file or folder",
        Errno::LOOP | Errno::XDEV => {
            "a symbolic link or another file system is in the way; name the folder that it leads \
             to with another --lua-folder"
        }
        Errno::NOTDIR => "a part of the path is not a folder",
        Errno::ISDIR => "it is a folder; pinion.fs.list has the names in it",
        Errno::EXIST => "it exists already; pinion.fs.write replaces a file",
        Errno::NOTEMPTY => "the folder is not empty; remove the files in it first",
        Errno::ACCESS | Errno::PERM | Errno::ROFS => {
            "the server has no permission for that; look at the owner and the mode of the file and \
             of its folder"
        }
        Errno::NOSPC | Errno::DQUOT => "there is no room left on the disk",
        Errno::NXIO => NOT_REGULAR,
        Errno::NOSYS => "the kernel cannot keep paths inside of a folder; Linux 5.6 can",
        other => return std::io::Error::from(other).to_string(),
    }
    .to_owned()
}

const NOT_REGULAR: &str = "it is neither a file nor a folder";

/// What an error means to whoever wants to read a file.
fn unread(error: Errno) -> String {
    if error == Errno::NOENT { "no such file".to_owned() } else { what(error) }
}

/// `cannot read "data/x": why`, as scripts get it. `action` is what was to be done.
fn of(action: &str, name: &[u8], why: &str) -> String {
    format!("cannot {action} {:?}: {why}", String::from_utf8_lossy(name))
}

#[cfg(test)]
mod tests;
