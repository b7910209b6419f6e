//! Something new under a name of its own, `.NAME.draft-PROCESS-NUMBER.tmp`, beside the name it is
//! to get.
//!
//! A process that is killed leaves its drafts behind, and a later one that writes to the same name
//! removes them. A lock shows whether their process has ended, since it ends with the process: the
//! same process number can be another process in another container, on the same folder. So a draft
//! is locked from its creation until it has its name. Another process may find it in the moment
//! between; then its owner, which checks once it is locked, makes another one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::walk::source_stamp::SourceStamp;

/// The part of a draft's name that marks it, and that no copy by a person has.
const MARK: &str = ".draft-";

/// The number of attempts to make a draft before the file system is taken for broken: other
/// processes take a new one for left behind in a moment of microseconds.
const TRIES_MAX: u32 = 100;

/// A file under another name, removed unless it is published.
#[derive(Debug)]
pub struct DraftFile {
    file: File,
    path: PathBuf,
    /// The name that it will get.
    name: PathBuf,
    published: bool,
}

impl DraftFile {
    /// Creates the draft of `out`, beside it: `.NAME.draft-PROCESS-NUMBER.tmp`, open for reading
    /// and writing, and locked where the file system has locks.
    ///
    /// # Errors
    /// The error of the system, and [`io::ErrorKind::InvalidInput`] for a path without a name.
    pub fn create(out: &Path) -> io::Result<DraftFile> {
        let open =
            |path: &Path| OpenOptions::new().read(true).write(true).create_new(true).open(path);
        for _ in 0..TRIES_MAX {
            let (file, path) = under_another_name(out, open)?;
            let is_taken =
                flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
            let draft = DraftFile { file, path, name: out.to_owned(), published: false };
            // A process that has taken it for left behind removes it, or has removed it already.
            if !is_taken && draft.is_ours()? {
                return Ok(draft);
            }
        }
        Err(io::Error::other("files in this folder do not stay what they are"))
    }

    /// Returns the file to write to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Publishes it under another name than it was the draft of, in the same folder.
    ///
    /// # Errors
    /// The error of the system. If only the folder cannot be synced, the file has its name and may
    /// lose it in a crash.
    pub fn publish_as(mut self, name: &Path) -> io::Result<()> {
        self.name = name.to_owned();
        self.publish().map(drop)
    }

    /// Renames it to its final name durably, and returns the stamp of the file then.
    pub(crate) fn publish(mut self) -> io::Result<SourceStamp> {
        self.file.sync_all()?;
        self.rename()?;
        File::open(folder_of(&self.path))?.sync_all()?;
        Ok(SourceStamp::of(&self.file.metadata()?))
    }

    /// Renames it to its final name, without waiting for the disk.
    pub(crate) fn rename(&mut self) -> io::Result<()> {
        // A file that another process has put there must not be published.
        if !self.is_ours()? {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "another program has removed the unfinished archive",
            ));
        }
        fs::rename(&self.path, &self.name)?;
        self.published = true;
        // Other processes lock published files for their own purposes. If this fails, they wait
        // until the file is closed.
        let _stays_locked = flock(&self.file, FlockOperation::Unlock);
        Ok(())
    }

    /// Returns whether its name still is that of its file.
    fn is_ours(&self) -> io::Result<bool> {
        leads_to(&self.path, &self.file)
    }
}

impl Drop for DraftFile {
    fn drop(&mut self) {
        if !self.published && self.is_ours().is_ok_and(|ours| ours) {
            // The error cannot be reported here, and there is nothing else to try.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes the drafts of `out` whose processes have ended. A draft that cannot be checked or
/// removed stays: it does no harm, and the next call tries again.
pub fn remove_left_drafts(out: &Path) {
    let Some(hidden) = hidden(out) else { return };
    let Ok(entries) = fs::read_dir(folder_of(out)) else { return };
    for entry in entries.flatten() {
        // Links are drafts of links, which are never locked.
        if draft_of(&entry.file_name()) == Some(hidden.as_encoded_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_file())
        {
            remove_if_left(&entry.path());
        }
    }
}

fn remove_if_left(path: &Path) {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut open = OpenOptions::new();
    open.read(true).custom_flags(flags.bits().cast_signed());
    // NFS gives an exclusive lock only on a file that is open for writing.
    let opened = open.clone().write(true).open(path).or_else(|_| open.open(path));
    let Ok(file) = opened else { return };
    // Only its owner and the holder of its lock remove or rename it, so the name still belongs to
    // the file after the check.
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        && leads_to(path, &file).is_ok_and(|same| same)
    {
        let _stays = fs::remove_file(path);
    }
}

/// Returns whether the name still is that of the file.
fn leads_to(path: &Path, file: &File) -> io::Result<bool> {
    let of_file = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (of_file.dev(), of_file.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Has a new file made under a name of its own beside `out`.
pub(crate) fn under_another_name<T>(
    out: &Path,
    mut make: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<(T, PathBuf)> {
    static DRAFTS: AtomicU32 = AtomicU32::new(0);
    let hidden = hidden(out).ok_or(io::ErrorKind::InvalidInput)?;
    loop {
        let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
        let mut name = hidden.clone();
        name.push(format!("{MARK}{}-{number}.tmp", process::id()));
        let path = folder_of(out).join(name);
        match make(&path) {
            Ok(made) => return Ok((made, path)),
            // Left behind by a process that had this number before.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns the name with a dot in front: hidden, and skipped by a walk.
fn hidden(out: &Path) -> Option<OsString> {
    let name = out.file_name()?;
    let is_hidden = name.as_encoded_bytes().starts_with(b".");
    let mut hidden = OsString::from(if is_hidden { "" } else { "." });
    hidden.push(name);
    Some(hidden)
}

/// Returns the name that [`under_another_name`] has made this hidden one of: no other name that a
/// person may have given a file matches.
pub(crate) fn draft_of(name: &OsStr) -> Option<&[u8]> {
    let name = name.as_encoded_bytes();
    let mark = name.windows(MARK.len()).rposition(|bytes| bytes == MARK.as_bytes())?;
    let (hidden, rest) = name.split_at_checked(mark)?;
    let numbers = rest.strip_prefix(MARK.as_bytes())?.strip_suffix(b".tmp")?;
    let (process, number) = str::from_utf8(numbers).ok()?.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_draft = hidden.starts_with(b".") && is_number(process) && is_number(number);
    is_draft.then_some(hidden)
}

pub(crate) fn folder_of(out: &Path) -> PathBuf {
    match out.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    /// An empty folder, removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("pinion-draft-{}-{name}", process::id()));
            fs::create_dir(&path).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Sets its flag when it goes, by a panic too.
    struct Over<'a>(&'a AtomicBool);

    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn names_of_drafts_are_recognized() {
        let is_draft =
            |hidden: &str, name: &str| draft_of(OsStr::new(name)) == Some(hidden.as_bytes());
        for name in [".a.b.draft-1-0.tmp", ".a.b.draft-4194304-4294967295.tmp"] {
            assert!(is_draft(".a.b", name), "{name}");
        }
        for name in [
            ".a.b",
            ".a.b.tmp",
            ".a.b.1-2.tmp",
            ".a.b.2026-11.tmp",
            ".a.b.draft-1.tmp",
            ".a.b.draft-1-.tmp",
            ".a.b.draft--1.tmp",
            ".a.b.draft-1-2-3.tmp",
            ".a.b.draft-1-+2.tmp",
            ".a.b.draft-1-2.tmp~",
            ".a.b.draft-1-2",
            ".a.b.draft-1-2tmp",
            ".a.bdraft-1-2.tmp",
            ".a.b.stat.draft-1-2.tmp",
            ".x.b.draft-1-2.tmp",
            "a.b.draft-1-2.tmp",
        ] {
            assert!(!is_draft(".a.b", name), "{name}");
        }
        assert!(is_draft(".a.b.stat", ".a.b.stat.draft-1-2.tmp"));
    }

    /// While other processes remove the drafts that are left, no process loses its own draft, not
    /// even one that they have found before it was locked; and no draft without an owner stays.
    #[test]
    fn a_draft_belongs_to_its_process_until_it_is_renamed() {
        const DRAFTS: u32 = 2000;
        let folder = Scratch::new("owners");
        let out = folder.0.join("out");
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        remove_left_drafts(&out);
                    }
                });
            }
            let _over = Over(&over);
            for number in 0..DRAFTS {
                let mut draft = DraftFile::create(&out).unwrap();
                assert!(leads_to(&draft.path, &draft.file).unwrap(), "draft {number}");
                if number % 2 == 0 {
                    draft.rename().unwrap();
                }
            }
        });
        remove_left_drafts(&out);
        let left = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["out"]);
    }

    #[test]
    fn a_published_file_is_not_locked() {
        let folder = Scratch::new("published");
        let out = folder.0.join("out");
        let mut draft = DraftFile::create(&out).unwrap();
        let lock =
            |path: &Path| flock(File::open(path).unwrap(), FlockOperation::NonBlockingLockShared);
        assert_eq!(lock(&draft.path), Err(Errno::WOULDBLOCK));
        draft.rename().unwrap();
        assert_eq!(lock(&out), Ok(()));
    }

    /// Where locks do not hold for everybody, a name can have become another draft's.
    #[test]
    fn a_draft_of_another_process_is_neither_published_nor_removed() {
        let folder = Scratch::new("another");
        let out = folder.0.join("out");
        let mut draft = DraftFile::create(&out).unwrap();
        let path = draft.path.clone();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another").unwrap();
        assert_eq!(draft.rename().unwrap_err().kind(), io::ErrorKind::NotFound);
        drop(draft);
        assert_eq!(fs::read(&path).unwrap(), b"another");
        assert!(!out.exists());
    }
}
