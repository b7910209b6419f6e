//! The folder as a list of files, in the order of their paths.
//!
//! Links are followed, also out of the folder; their targets have the path of the link. A folder
//! that is reached again below itself is not entered again: it is known by device and inode, for
//! the folders between it and the source, and for those that hold the source. Folders that the
//! kernel makes up, such as /proc, are not entered. Links beside each other can lead to one folder
//! by any number of paths, twice as many with each level: their number is bounded. Everything that
//! cannot be a resource is recorded, and the walk continues.

pub(crate) mod consistent_file_read;
pub(crate) mod file_kinds_by_name;
pub(crate) mod file_metadata;
mod folder_read_ahead;
mod folder_reader;
pub(crate) mod found_files;
pub(crate) mod name_filter;
pub(crate) mod name_globs;
pub(crate) mod source_stamp;
pub(crate) mod stat_cache;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::{BuildError, FileProblem, Reason};
use crate::limits::{FILES_MAX, FOLDERS_AHEAD, REPEATED_FOLDERS_MAX};
use crate::progress::Progress;
use crate::walk::file_metadata::{FileId, id, ids_above};
use crate::walk::folder_read_ahead::{PendingFolders, ReadAhead, with_readers};
use crate::walk::folder_reader::{
    FolderContent, FolderReader, NameKind, SiteName, is_content_folder, without_slash,
};
use crate::walk::found_files::{FoundFiles, SourceFile, relative};
use crate::walk::name_filter::NameFilter;

/// The selection of a folder's files that belong to its site.
#[derive(Clone, Copy)]
pub(crate) struct FileSelection<'a> {
    pub(crate) names: &'a NameFilter,
    /// Files that are no part of the site, under any name in the source.
    pub(crate) left_out: &'a [FileId],
}

/// Walks `source` with the help of some threads, and returns the files in it as they lie there.
/// `progress` is asked whether to cancel.
pub(crate) fn walk(
    source: &Path,
    selection: FileSelection<'_>,
    threads: usize,
    progress: &dyn Progress,
) -> Result<FoundFiles, BuildError> {
    let FileSelection { names, left_out } = selection;
    let cannot = |error| BuildError::Source { path: source.to_owned(), error };
    let metadata = fs::metadata(source).map_err(cannot)?;
    if !metadata.is_dir() {
        return Err(cannot(io::ErrorKind::NotADirectory.into()));
    }
    let (above, device) = (ids_above(source), metadata.dev());
    let reader = FolderReader { source, names, left_out, above, device, progress };
    let read = |folder: &[u8]| reader.read(folder);
    with_readers(threads, read, |ahead| {
        let (entered, found) = (HashSet::new(), FoundFiles::default());
        let mut walk = FolderWalk { ahead, seen: 0, entered, repeated: 0, found };
        let root = reader.read(b"/").map_err(cannot)?;
        walk.all(id(&metadata), root, &reader)?;
        Ok(walk.found)
    })
}

/// A folder that the walk has entered and not left yet.
struct ActiveFolder {
    id: FileId,
    /// The key with a slash at its end.
    key: Vec<u8>,
    names: std::vec::IntoIter<SiteName>,
    /// The next of the folders in it.
    waiting: PendingFolders<FolderContent>,
}

struct FolderWalk {
    ahead: ReadAhead<FolderContent>,
    /// The number of names seen, which bounds the walk.
    seen: usize,
    /// Folders entered, each once.
    entered: HashSet<FileId>,
    /// The number of times that a folder was entered that was entered before, by another path.
    repeated: usize,
    found: FoundFiles,
}

impl FolderWalk {
    /// Visits the root and all folders below it.
    fn all(
        &mut self,
        id: FileId,
        root: FolderContent,
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
            let id = match name.kind {
                NameKind::File(stamp) => {
                    let key = key.into_boxed_slice();
                    self.found.files.push(SourceFile { key, bytes: stamp.bytes });
                    self.found.stamps.push(stamp);
                    continue;
                }
                NameKind::Folder(id) => id,
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
                Ok(content) => {
                    self.found.has_content_folder |= is_content_folder(&key);
                    active.push(self.enter(id, key, content)?);
                }
                Err(error) => self.found.problems.push(FileProblem {
                    path: relative(without_slash(&key)),
                    reason: Reason::Unreadable(error),
                }),
            }
        }
        Ok(())
    }

    /// Adds the content of a folder to the files found, and has the first folders in it read.
    fn enter(
        &mut self,
        id: FileId,
        key: Vec<u8>,
        content: FolderContent,
    ) -> Result<ActiveFolder, BuildError> {
        let FolderContent { names, skipped, special, rules, code, links, problems, .. } = content;
        let (below_static, excluded) = (content.below_static, content.excluded);
        if content.is_cancelled {
            return Err(BuildError::Cancelled);
        }
        self.seen += content.seen;
        if self.seen > FILES_MAX {
            return Err(BuildError::TooManyFiles);
        }
        self.repeated += usize::from(!self.entered.insert(id));
        if self.repeated > REPEATED_FOLDERS_MAX {
            return Err(BuildError::RepeatedFolders(relative(without_slash(&key))));
        }
        let found = &mut self.found;
        found.folders += 1;
        found.names_content_folder |= content.names_content_folder;
        found.skipped.extend(skipped);
        found.excluded.extend(excluded);
        found.special.extend(special);
        found.rules.extend(rules);
        found.code.extend(code);
        found.below_static.extend(below_static);
        found.links.extend(links);
        found.loops.extend(content.loops);
        found.problems.extend(problems);
        let mut folder =
            ActiveFolder { id, key, names: names.into_iter(), waiting: PendingFolders::default() };
        self.read_ahead(&mut folder);
        Ok(folder)
    }

    /// Has the next folders in a folder read.
    fn read_ahead(&self, folder: &mut ActiveFolder) {
        let ActiveFolder { key, names, waiting, .. } = folder;
        let folders =
            names.as_slice().iter().filter(|name| matches!(name.kind, NameKind::Folder(_)));
        for name in folders.take(FOLDERS_AHEAD).skip(waiting.len()) {
            if !self.ahead.ask([key.as_slice(), &name.sorted_as].concat(), waiting) {
                break;
            }
        }
    }
}
