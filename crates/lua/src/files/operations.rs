//! What scripts do with files. All of it blocks, and is done by the threads for that.

use std::fs::{File, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Folders, NEW_FILE, NOT_REGULAR, Use, of, unread, what};
use crate::job::Finished;
use crate::limits::{FILE_READ_MAX_BYTES, FILES_LISTED_MAX};
use crate::plain::Plain;

/// What the name of a file begins with while it is written.
const DRAFT: &str = ".pinion-draft-";

/// What folders have that are made.
const NEW_FOLDER: Mode = Mode::from_raw_mode(0o755);

fn io(error: &std::io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(error) => what(error),
        None => error.to_string(),
    }
}

/// What an error means to whoever wants the names in a folder.
fn unlisted(error: Errno) -> String {
    match error {
        Errno::NOENT => "no such folder".to_owned(),
        Errno::NOTDIR => "it is not a folder".to_owned(),
        error => what(error),
    }
}

impl Folders {
    /// The content of a file: all of it, or `bytes` from `from` on, as far as there are some.
    pub(crate) fn read(&self, name: &[u8], from: Option<u64>, bytes: Option<u64>) -> Finished {
        self.read_part(name, from.unwrap_or(0), bytes).map_err(|why| of("read", name, &why))
    }

    fn read_part(&self, name: &[u8], from: u64, bytes: Option<u64>) -> Result<Plain, String> {
        let mut file = self.regular(name)?;
        let size = file.metadata().map_err(|error| io(&error))?.len();
        let wanted = bytes.unwrap_or(u64::MAX).min(size.saturating_sub(from));
        if wanted > FILE_READ_MAX_BYTES {
            return Err(format!(
                "at most {} MiB are read at once; read the file in parts, with the options `from` \
                 and `bytes`",
                FILE_READ_MAX_BYTES >> 20
            ));
        }
        let mut content = Vec::with_capacity(wanted as usize);
        if wanted > 0 {
            file.seek(SeekFrom::Start(from)).map_err(|error| io(&error))?;
            file.take(wanted).read_to_end(&mut content).map_err(|error| io(&error))?;
        }
        Ok(Plain::Bytes(content))
    }

    /// A regular file, open for reading.
    pub(super) fn regular(&self, name: &[u8]) -> Result<File, String> {
        let file = File::from(self.spot(name, Use::Look)?.open(OFlags::RDONLY).map_err(unread)?);
        regular(&file)?;
        Ok(file)
    }

    /// Puts a file of this content in the place of the one that is there, in one step: others see
    /// the old content or the new one, also behind a crash.
    pub(crate) fn write(&self, name: &[u8], content: &[u8]) -> Finished {
        self.replace(name, content).map_err(|why| of("write", name, &why))
    }

    /// Makes a file of this content, in one step. Of several that try it at once, one succeeds; the
    /// others hear that there is a file of that name.
    pub(crate) fn create(&self, name: &[u8], content: &[u8]) -> Finished {
        self.make(name, content).map_err(|why| of("create", name, &why))
    }

    fn replace(&self, name: &[u8], content: &[u8]) -> Result<Plain, String> {
        let spot = self.spot(name, Use::Change)?;
        let (folder, last) = spot.parent().map_err(|error| spot.not_made(error))?;
        // Who may read the file stays as it is.
        let mode = match rustix::fs::statat(&folder, last, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_file() => Some(stat.st_mode),
            _ => None,
        };
        let mode = mode.map(|mode| Permissions::from_mode(mode & 0o777));
        with_draft(&folder, mode, content, |draft| {
            rustix::fs::renameat(&folder, draft, &folder, last).map_err(what)
        })
    }

    fn make(&self, name: &[u8], content: &[u8]) -> Result<Plain, String> {
        let spot = self.spot(name, Use::Change)?;
        let (folder, last) = spot.parent().map_err(|error| spot.not_made(error))?;
        with_draft(&folder, None, content, |draft| {
            // Linking fails if there is a file of that name, on every file system (link(2)).
            let linked = rustix::fs::linkat(&folder, draft, &folder, last, AtFlags::empty());
            linked
                .and_then(|()| rustix::fs::unlinkat(&folder, draft, AtFlags::empty()))
                .map_err(what)
        })
    }

    /// Adds to the end of a file, which is made if there is none.
    pub(crate) fn append(&self, name: &[u8], content: &[u8]) -> Finished {
        let append = || {
            let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
            let spot = self.spot(name, Use::Change)?;
            let opened = spot.open(flags).map_err(|error| spot.not_made(error))?;
            let mut file = File::from(opened);
            regular(&file)?;
            file.write_all(content).map_err(|error| io(&error))?;
            Ok(Plain::Boolean(true))
        };
        append().map_err(|why: String| of("append to", name, &why))
    }

    /// The names in a folder, sorted.
    pub(crate) fn list(&self, name: &[u8]) -> Finished {
        self.names(name).map_err(|why| of("list", name, &why))
    }

    fn names(&self, name: &[u8]) -> Result<Plain, String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let folder = self.spot(name, Use::Look)?.open(flags).map_err(unlisted)?;
        let mut names = Vec::new();
        for entry in Dir::new(folder).map_err(what)? {
            let entry = entry.map_err(what)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || name.starts_with(DRAFT.as_bytes()) {
                continue;
            }
            if names.len() == FILES_LISTED_MAX {
                return Err(format!(
                    "the folder has more than {FILES_LISTED_MAX} names, the most that \
                     pinion.fs.list returns; use folders below it"
                ));
            }
            names.push(name.to_vec());
        }
        names.sort_unstable();
        let numbered = (1..).map(Plain::Integer).zip(names.into_iter().map(Plain::Bytes));
        Ok(Plain::Table(numbered.collect()))
    }

    /// What is there: `type`, `size` in bytes, `modified` in seconds since 1970.
    pub(crate) fn stat(&self, name: &[u8]) -> Finished {
        let stat = || {
            let flags = OFlags::PATH | OFlags::NOFOLLOW;
            let file = File::from(self.spot(name, Use::Look)?.open(flags).map_err(what)?);
            let found = file.metadata().map_err(|error| io(&error))?;
            let kind = match () {
                () if found.is_file() => "file",
                () if found.is_dir() => "folder",
                () => "other",
            };
            let modified = found.mtime() as f64 + found.mtime_nsec() as f64 / 1e9;
            let field = |name: &str, value| (Plain::Bytes(name.into()), value);
            Ok(Plain::Table(vec![
                field("type", Plain::Bytes(kind.into())),
                field("size", Plain::Integer(found.len() as i64)),
                field("modified", Plain::Number(modified)),
            ]))
        };
        stat().map_err(|why: String| of("look up", name, &why))
    }

    /// Removes a file, or a folder with nothing in it.
    pub(crate) fn remove(&self, name: &[u8]) -> Finished {
        let remove = || {
            let (folder, last) = self.spot(name, Use::Change)?.parent().map_err(what)?;
            let removed = match rustix::fs::unlinkat(&folder, last, AtFlags::empty()) {
                Err(Errno::ISDIR) => rustix::fs::unlinkat(&folder, last, AtFlags::REMOVEDIR),
                other => other,
            };
            removed.map(|()| Plain::Boolean(true)).map_err(what)
        };
        remove().map_err(|why| of("remove", name, &why))
    }

    /// Makes a folder in one that is there.
    pub(crate) fn make_folder(&self, name: &[u8]) -> Finished {
        let make = || {
            let spot = self.spot(name, Use::Change)?;
            let (folder, last) = spot.parent().map_err(|error| spot.not_made(error))?;
            match rustix::fs::mkdirat(&folder, last, NEW_FOLDER) {
                Ok(()) => Ok(Plain::Boolean(true)),
                Err(Errno::EXIST) => Err("it exists already".to_owned()),
                Err(error) => Err(what(error)),
            }
        };
        make().map_err(|why: String| of("create the folder", name, &why))
    }

    /// Gives a file or a folder another name. A file of that name is replaced.
    pub(crate) fn rename(&self, from: &[u8], to: &[u8]) -> Finished {
        let rename = || {
            let (old, new) = (self.spot(from, Use::Change)?, self.spot(to, Use::Change)?);
            let (folder, last) = old.parent().map_err(what)?;
            let (new_folder, new_last) = new.parent().map_err(|error| new.not_made(error))?;
            let renamed = rustix::fs::renameat(&folder, last, &new_folder, new_last);
            renamed.map(|()| Plain::Boolean(true)).map_err(what)
        };
        rename().map_err(|why: String| {
            let [from, to] = [from, to].map(String::from_utf8_lossy);
            format!("cannot rename {from:?} to {to:?}: {why}")
        })
    }
}

/// Writes a draft into a folder and has `finish` give it its name. Nothing is left of it otherwise.
fn with_draft(
    folder: &OwnedFd,
    mode: Option<Permissions>,
    content: &[u8],
    finish: impl FnOnce(&str) -> Result<(), String>,
) -> Result<Plain, String> {
    let draft = format!("{DRAFT}{:016x}", RandomState::new().hash_one(0));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let made = rustix::fs::openat(folder, &draft, flags, NEW_FILE).map_err(what)?;
    let mut file = File::from(made);
    let written = mode.map_or(Ok(()), |mode| file.set_permissions(mode));
    let written = written.and_then(|()| file.write_all(content));
    let written = written.and_then(|()| file.sync_data()).map_err(|error| io(&error));
    if let Err(why) = written.and_then(|()| finish(&draft)) {
        let _gone = rustix::fs::unlinkat(folder, &draft, AtFlags::empty());
        return Err(why);
    }
    Ok(Plain::Boolean(true))
}

/// A pipe or a device would hold up whoever reads it.
fn regular(file: &File) -> Result<(), String> {
    let found = file.metadata().map_err(|error| io(&error))?;
    match found.is_file() {
        true => Ok(()),
        false if found.is_dir() => Err(what(Errno::ISDIR)),
        false => Err(NOT_REGULAR.to_owned()),
    }
}
