//! The folder as a list of files, in the order of their paths.
//!
//! Links are followed, also out of the folder; their targets have the path of the link. A folder
//! that is reached again below itself is not entered again: it is known by device and inode, for
//! the folders between it and the source, and for those that hold the source. Folders that the
//! kernel makes up, such as /proc, are not entered. Links beside each other can lead to one folder
//! by any number of paths, twice as many with each level: their number is bounded. Everything that
//! cannot be a resource is recorded, and the walk continues.

pub(crate) mod names;
pub(crate) mod open_source;
mod read_ahead;
pub(crate) mod stat_cache;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::compat_80s::{is_page_below_static, main_is_of_80s};
use crate::draft_file::draft_of;
use crate::dynamic_site::{self, CodeFile, arrange};
use crate::error::{BuildError, FileProblem, Reason};
use crate::limits::{FILES_MAX, FOLDERS_AHEAD, NAMES_UNASKED, REPEATED_FOLDERS_MAX};
use crate::progress::Progress;
use crate::walk::names::{FileVerdict, NameFilter, is_code, rules_file};
use crate::walk::open_source::FileStamp;
use crate::walk::read_ahead::{Ahead, Waiting, with_readers};

/// Device and inode.
pub(crate) type FileId = (u64, u64);

/// A regular file of the site.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SourceFile {
    /// Path below the source with a slash in front: its key in the archive.
    pub(crate) key: Box<[u8]>,
    /// Its length during the walk, by which memory is reserved.
    pub(crate) bytes: u64,
}

/// A file that is a page by its name and lies below a folder `static/`: its key, and its stamp
/// during the walk.
pub(crate) type PageBelowStatic = (Box<[u8]>, Result<FileStamp, Reason>);

/// The result of a walk.
#[derive(Debug, Default)]
pub(crate) struct FoundFiles {
    /// Sorted by key.
    pub(crate) files: Vec<SourceFile>,
    /// The stamp of each of them during the walk.
    pub(crate) stamps: Vec<FileStamp>,
    /// Folders entered.
    pub(crate) folders: u64,
    pub(crate) skipped: Vec<PathBuf>,
    /// Of these, the paths that the options leave out.
    pub(crate) excluded: Vec<PathBuf>,
    pub(crate) special: Vec<PathBuf>,
    /// Keys of the files with rules, sorted.
    pub(crate) rules: Vec<Box<[u8]>>,
    pub(crate) below_static: Vec<PageBelowStatic>,
    /// The code of a dynamic site, sorted.
    pub(crate) code: Vec<CodeFile>,
    /// Whether there is code.
    pub(crate) is_dynamic: bool,
    /// Whether the site is one of 80s.
    pub(crate) is_80s: bool,
    /// Whether there is a folder that holds the content, if the site is dynamic.
    pub(crate) has_content_folder: bool,
    /// Whether something at the top has the name of that folder, of any kind.
    pub(crate) names_content_folder: bool,
    /// The prefix of the keys of files, below the source: nothing, or that folder.
    pub(crate) content: &'static str,
    /// Links that may be part of the site, wherever they lead; in no order.
    pub(crate) links: Vec<PathBuf>,
    /// Links to a folder that holds them.
    pub(crate) loops: Vec<PathBuf>,
    pub(crate) problems: Vec<FileProblem>,
}

/// Returns the path of a key below the source.
pub(crate) fn relative(key: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(key.strip_prefix(b"/").unwrap_or(key)))
}

/// Returns whether a folder, with slashes on both ends, holds the content of a dynamic site.
fn is_content_folder(key: &[u8]) -> bool {
    dynamic_site::is_content_folder(without_slash(key))
}

/// Returns the device and the inode of a file that may exist.
pub(crate) fn id_of(path: &Path) -> Option<FileId> {
    fs::metadata(path).ok().map(|metadata| id(&metadata))
}

/// Returns the device and the inode of each folder that holds a folder, as far as they can be
/// looked at.
fn ids_above(folder: &Path) -> Vec<FileId> {
    let Ok(real) = folder.canonicalize() else { return Vec::new() };
    real.ancestors().skip(1).filter_map(id_of).collect()
}

/// Returns whether a folder is one of proc(5) or sysfs(5): its files are made up as they are read,
/// and links in it lead around without end.
fn is_of_kernel(folder: &Path) -> bool {
    /// The number from linux/magic.h.
    const SYSFS_MAGIC: u64 = 0x6265_6572;
    let kind = rustix::fs::statfs(folder).map_or(0, |found| found.f_type as u64);
    kind == rustix::fs::PROC_SUPER_MAGIC as u64 || kind == SYSFS_MAGIC
}

/// The selection of a folder's files that belong to its site.
#[derive(Clone, Copy)]
pub(crate) struct Selection<'a> {
    pub(crate) names: &'a NameFilter,
    /// Files that are no part of the site, under any name in the source.
    pub(crate) left_out: &'a [FileId],
    /// Whether the site is one of 80s, regardless of the modules that its main script loads.
    pub(crate) is_80s: bool,
}

/// Walks `source` with the help of some threads. `progress` is asked whether to cancel.
pub(crate) fn walk(
    source: &Path,
    selection: Selection<'_>,
    threads: usize,
    progress: &dyn Progress,
) -> Result<FoundFiles, BuildError> {
    let Selection { names, left_out, is_80s } = selection;
    let cannot = |error| BuildError::Source { path: source.to_owned(), error };
    let metadata = fs::metadata(source).map_err(cannot)?;
    if !metadata.is_dir() {
        return Err(cannot(io::ErrorKind::NotADirectory.into()));
    }
    let (above, device) = (ids_above(source), metadata.dev());
    let reader = FolderReader { source, names, left_out, above, device, progress };
    let read = |folder: &[u8]| reader.read(folder);
    let found = with_readers(threads, read, |ahead| {
        let (entered, found) = (HashSet::new(), FoundFiles::default());
        let mut walk = FolderWalk { ahead, seen: 0, entered, repeated: 0, found };
        let root = reader.read(b"/").map_err(cannot)?;
        walk.all(id(&metadata), root, &reader)?;
        Ok::<_, BuildError>(walk.found)
    })?;
    let is_80s = is_80s || main_is_of_80s(source, &found);
    let mut found = arrange(FoundFiles { is_80s, ..found });
    if found.is_dynamic && found.names_content_folder && !found.has_content_folder {
        return Err(BuildError::ContentFolder);
    }
    found.rules.sort_unstable();
    let FoundFiles { skipped, excluded, special, loops, .. } = &mut found;
    for paths in [skipped, excluded, special, loops] {
        paths.sort_unstable();
    }
    Ok(found)
}

/// A folder whose names are being gone through.
struct Folder {
    id: FileId,
    /// The key with a slash at its end.
    key: Vec<u8>,
    names: std::vec::IntoIter<SiteName>,
    /// The next of the folders in it.
    waiting: Waiting<Listing>,
}

/// The content of a folder.
#[derive(Default)]
struct Listing {
    /// The names, in their order.
    names: Vec<SiteName>,
    /// All that were seen, but no more than there may be in a whole site.
    seen: usize,
    /// Whether the build was cancelled before all were seen.
    given_up: bool,
    names_content_folder: bool,
    skipped: Vec<PathBuf>,
    excluded: Vec<PathBuf>,
    special: Vec<PathBuf>,
    rules: Vec<Box<[u8]>>,
    code: Vec<CodeFile>,
    below_static: Vec<PageBelowStatic>,
    links: Vec<PathBuf>,
    loops: Vec<PathBuf>,
    problems: Vec<FileProblem>,
}

/// A name that is part of the site.
struct SiteName {
    /// The name; a folder's with a slash, so that names sort as the keys of what is below them.
    sorted_as: Vec<u8>,
    what: What,
}

enum What {
    File(FileStamp),
    Folder(FileId),
}

struct FolderWalk {
    ahead: Ahead<Listing>,
    /// The number of names seen, which bounds the walk.
    seen: usize,
    /// Folders entered, each once.
    entered: HashSet<FileId>,
    /// The number of times that a folder was entered that was entered before, by another path.
    repeated: usize,
    found: FoundFiles,
}

impl FolderWalk {
    /// Goes through the root and all that is below it.
    fn all(
        &mut self,
        id: FileId,
        root: Listing,
        reader: &FolderReader<'_>,
    ) -> Result<(), BuildError> {
        let mut active = vec![self.enter(id, b"/".to_vec(), root)?];
        while let Some(folder) = active.last_mut() {
            if reader.progress.cancelled() {
                return Err(BuildError::Cancelled);
            }
            let Some(name) = folder.names.next() else {
                active.pop();
                continue;
            };
            let key = [folder.key.as_slice(), &name.sorted_as].concat();
            let id = match name.what {
                What::File(stamp) => {
                    let key = key.into_boxed_slice();
                    self.found.files.push(SourceFile { key, bytes: stamp.bytes });
                    self.found.stamps.push(stamp);
                    continue;
                }
                What::Folder(id) => id,
            };
            let waiting = folder.waiting.pop_front();
            self.read_ahead(folder);
            if active.iter().any(|above| above.id == id) {
                self.found.loops.push(relative(without_slash(&key)));
                continue;
            }
            match waiting
                .and_then(|waiting| waiting.recv().ok())
                .unwrap_or_else(|| reader.read(&key))
            {
                Ok(listing) => {
                    self.found.has_content_folder |= is_content_folder(&key);
                    active.push(self.enter(id, key, listing)?);
                }
                Err(error) => self.found.problems.push(FileProblem {
                    path: relative(without_slash(&key)),
                    reason: Reason::Unreadable(error),
                }),
            }
        }
        Ok(())
    }

    /// Takes the content of a folder.
    fn enter(&mut self, id: FileId, key: Vec<u8>, listing: Listing) -> Result<Folder, BuildError> {
        let Listing { names, skipped, special, rules, code, links, problems, .. } = listing;
        let (below_static, excluded) = (listing.below_static, listing.excluded);
        if listing.given_up {
            return Err(BuildError::Cancelled);
        }
        self.seen += listing.seen;
        if self.seen > FILES_MAX {
            return Err(BuildError::TooManyFiles);
        }
        self.repeated += usize::from(!self.entered.insert(id));
        if self.repeated > REPEATED_FOLDERS_MAX {
            return Err(BuildError::RepeatedFolders(relative(without_slash(&key))));
        }
        let found = &mut self.found;
        found.folders += 1;
        found.names_content_folder |= listing.names_content_folder;
        found.skipped.extend(skipped);
        found.excluded.extend(excluded);
        found.special.extend(special);
        found.rules.extend(rules);
        found.code.extend(code);
        found.below_static.extend(below_static);
        found.links.extend(links);
        found.loops.extend(listing.loops);
        found.problems.extend(problems);
        let mut folder = Folder { id, key, names: names.into_iter(), waiting: Waiting::default() };
        self.read_ahead(&mut folder);
        Ok(folder)
    }

    /// Has the next folders in a folder read.
    fn read_ahead(&self, folder: &mut Folder) {
        let Folder { key, names, waiting, .. } = folder;
        let folders = names.as_slice().iter().filter(|name| matches!(name.what, What::Folder(_)));
        for name in folders.take(FOLDERS_AHEAD).skip(waiting.len()) {
            if !self.ahead.ask([key.as_slice(), &name.sorted_as].concat(), waiting) {
                break;
            }
        }
    }
}

/// The settings for reading a folder.
struct FolderReader<'a> {
    source: &'a Path,
    names: &'a NameFilter,
    left_out: &'a [FileId],
    /// The folders that hold the source.
    above: Vec<FileId>,
    /// That of the source.
    device: u64,
    progress: &'a dyn Progress,
}

impl FolderReader<'_> {
    /// Reads the names of a folder; not all of them when the build is cancelled.
    fn read(&self, key: &[u8]) -> io::Result<Listing> {
        let mut listing = Listing::default();
        for entry in fs::read_dir(self.source.join(relative(key)))? {
            listing.seen += 1;
            let asks = listing.seen.is_multiple_of(NAMES_UNASKED);
            listing.given_up = asks && self.progress.cancelled();
            if listing.seen > FILES_MAX || listing.given_up {
                break;
            }
            match entry {
                Ok(entry) => {
                    let name = self.look_at(key, &entry, &mut listing);
                    listing.names.extend(name);
                }
                Err(error) => listing.problem(without_slash(key), Reason::Unreadable(error)),
            }
        }
        listing.names.sort_unstable_by(|a, b| a.sorted_as.cmp(&b.sorted_as));
        Ok(listing)
    }

    /// Decides about one name; `None` when it is not part of the site.
    fn look_at(&self, folder: &[u8], entry: &DirEntry, listing: &mut Listing) -> Option<SiteName> {
        let name = entry.file_name();
        let key = [folder, name.as_bytes()].concat();
        listing.names_content_folder |= is_content_folder(&key);
        let mut is_rules = false;
        match self.names.judge(&key, name.as_bytes()) {
            FileVerdict::Take => {}
            // That of a build, and gone when it has ended.
            FileVerdict::Skip if draft_of(&name).is_some() => return None,
            FileVerdict::Skip => {
                let excluded = self.names.excludes(&key).then(|| relative(&key));
                listing.excluded.extend(excluded);
                listing.skipped.push(relative(&key));
                return None;
            }
            FileVerdict::Special if rules_file(name.as_bytes()).is_none() => {
                listing.special.push(relative(&key));
                if is_page_below_static(&key) {
                    self.note_below_static(&key, entry, listing);
                }
                if is_code(name.as_bytes()) {
                    self.note_code(key, entry, listing);
                }
                return None;
            }
            FileVerdict::Special => is_rules = true,
        }
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let metadata = match followed(entry) {
            Ok(metadata) => metadata,
            Err(reason) => {
                listing.links.extend(is_link.then(|| relative(&key)));
                listing.problem(&key, reason);
                return None;
            }
        };
        if metadata.is_dir() && self.is_out_of_reach(&key, entry, &metadata, listing) {
            return None;
        }
        listing.links.extend(is_link.then(|| relative(&key)));
        if is_rules {
            if metadata.is_dir() {
                listing.special.push(relative(&key));
            } else {
                listing.rules.push(key.into());
            }
            return None;
        }
        let mut sorted_as = name.as_bytes().to_vec();
        let what = if metadata.is_dir() {
            sorted_as.push(b'/');
            What::Folder(id(&metadata))
        } else if self.left_out.contains(&id(&metadata)) {
            listing.excluded.push(relative(&key));
            listing.skipped.push(relative(&key));
            return None;
        } else {
            What::File(FileStamp::of(&metadata))
        };
        Some(SiteName { sorted_as, what })
    }

    /// Records a folder that must not be entered, since its walk would lead through the whole
    /// machine; returns whether it is one.
    fn is_out_of_reach(
        &self,
        key: &[u8],
        entry: &DirEntry,
        metadata: &Metadata,
        listing: &mut Listing,
    ) -> bool {
        let holds_source = self.above.contains(&id(metadata));
        let is_of_kernel = metadata.dev() != self.device && is_of_kernel(&entry.path());
        if holds_source {
            listing.loops.push(relative(key));
        } else if is_of_kernel {
            listing.problem(key, Reason::KernelFolder);
        }
        holds_source || is_of_kernel
    }

    /// Records a file that is code if the site is dynamic. An error in it shows when it is read,
    /// and only then matters.
    fn note_code(&self, key: Vec<u8>, entry: &DirEntry, listing: &mut Listing) {
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let metadata = followed(entry);
        let is_file = metadata
            .as_ref()
            .map_or(true, |found| !found.is_dir() && !self.left_out.contains(&id(found)));
        if is_file {
            listing.links.extend(is_link.then(|| relative(&key)));
            let key = key.into_boxed_slice();
            listing.code.push(CodeFile { path: key.clone(), key });
        }
    }
}

impl FolderReader<'_> {
    /// Records a file of a site of 80s that is code in other sites: its stamp, or why it has none.
    fn note_below_static(&self, key: &[u8], entry: &DirEntry, listing: &mut Listing) {
        match followed(entry) {
            Ok(metadata) if metadata.is_dir() || self.left_out.contains(&id(&metadata)) => {}
            found => {
                let stamp = found.map(|metadata| FileStamp::of(&metadata));
                listing.below_static.push((key.into(), stamp));
            }
        }
    }
}

impl Listing {
    fn problem(&mut self, key: &[u8], reason: Reason) {
        self.problems.push(FileProblem { path: relative(key), reason });
    }
}

/// Returns the metadata of a file or folder, at the end of its links.
fn followed(entry: &DirEntry) -> Result<Metadata, Reason> {
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

fn id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

fn without_slash(key: &[u8]) -> &[u8] {
    key.strip_suffix(b"/").unwrap_or(key)
}
