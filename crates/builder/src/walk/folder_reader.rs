//! Reads the names in one folder, and decides about each of them.

use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::code_or_content::{self, CodeFile};
use crate::error::{FileProblem, Reason};
use crate::legacy_80s_server::is_page_below_static;
use crate::limits::{FILES_MAX, NAMES_UNASKED};
use crate::progress::Progress;
use crate::temporary_file::draft_of;
use crate::walk::file_kinds_by_name::{is_code, rules_file};
use crate::walk::file_metadata::{FileId, followed, id, is_of_kernel};
use crate::walk::found_files::{PageBelowStatic, relative};
use crate::walk::name_filter::{FileVerdict, NameFilter};
use crate::walk::source_stamp::SourceStamp;

/// The content of a folder.
#[derive(Default)]
pub(super) struct FolderContent {
    /// The names, in their order.
    pub(super) names: Vec<SiteName>,
    /// All that were seen, but no more than there may be in a whole site.
    pub(super) seen: usize,
    /// Whether the build was cancelled before all were seen.
    pub(super) is_cancelled: bool,
    pub(super) names_content_folder: bool,
    pub(super) skipped: Vec<PathBuf>,
    pub(super) excluded: Vec<PathBuf>,
    pub(super) special: Vec<PathBuf>,
    pub(super) rules: Vec<Box<[u8]>>,
    pub(super) code: Vec<CodeFile>,
    pub(super) below_static: Vec<PageBelowStatic>,
    pub(super) links: Vec<PathBuf>,
    pub(super) loops: Vec<PathBuf>,
    pub(super) problems: Vec<FileProblem>,
}

/// A name that is part of the site.
pub(super) struct SiteName {
    /// The name; a folder's with a slash, so that names sort as the keys of the files below them.
    pub(super) sorted_as: Vec<u8>,
    pub(super) kind: NameKind,
}

/// Whether a name is that of a file or of a folder.
pub(super) enum NameKind {
    File(SourceStamp),
    Folder(FileId),
}

/// The settings for reading a folder.
pub(super) struct FolderReader<'a> {
    pub(super) source: &'a Path,
    pub(super) names: &'a NameFilter,
    pub(super) left_out: &'a [FileId],
    /// The folders that hold the source.
    pub(super) above: Vec<FileId>,
    /// That of the source.
    pub(super) device: u64,
    pub(super) progress: &'a dyn Progress,
}

impl FolderReader<'_> {
    /// Reads the names of a folder; not all of them when the build is cancelled.
    pub(super) fn read(&self, key: &[u8]) -> io::Result<FolderContent> {
        let mut content = FolderContent::default();
        for entry in fs::read_dir(self.source.join(relative(key)))? {
            content.seen += 1;
            let asks = content.seen.is_multiple_of(NAMES_UNASKED);
            content.is_cancelled = asks && self.progress.cancelled();
            if content.seen > FILES_MAX || content.is_cancelled {
                break;
            }
            match entry {
                Ok(entry) => {
                    let name = self.decide(key, &entry, &mut content);
                    content.names.extend(name);
                }
                Err(error) => content.problem(without_slash(key), Reason::Unreadable(error)),
            }
        }
        content.names.sort_unstable_by(|a, b| a.sorted_as.cmp(&b.sorted_as));
        Ok(content)
    }

    /// Decides about one name; `None` when it is not part of the site.
    fn decide(
        &self,
        folder: &[u8],
        entry: &DirEntry,
        content: &mut FolderContent,
    ) -> Option<SiteName> {
        let name = entry.file_name();
        let key = [folder, name.as_bytes()].concat();
        content.names_content_folder |= is_content_folder(&key);
        let mut is_rules = false;
        match self.names.judge(&key, name.as_bytes()) {
            FileVerdict::Take => {}
            // That of a build, and gone when it has ended.
            FileVerdict::Skip if draft_of(&name).is_some() => return None,
            FileVerdict::Skip => {
                let excluded = self.names.excludes(&key).then(|| relative(&key));
                content.excluded.extend(excluded);
                content.skipped.push(relative(&key));
                return None;
            }
            FileVerdict::Special if rules_file(name.as_bytes()).is_none() => {
                content.special.push(relative(&key));
                if is_page_below_static(&key) {
                    self.record_below_static(&key, entry, content);
                }
                if is_code(name.as_bytes()) {
                    self.record_code(key, entry, content);
                }
                return None;
            }
            FileVerdict::Special => is_rules = true,
        }
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let metadata = match followed(entry) {
            Ok(metadata) => metadata,
            Err(reason) => {
                content.links.extend(is_link.then(|| relative(&key)));
                content.problem(&key, reason);
                return None;
            }
        };
        if metadata.is_dir() && self.is_out_of_reach(&key, entry, &metadata, content) {
            return None;
        }
        content.links.extend(is_link.then(|| relative(&key)));
        if is_rules {
            if metadata.is_dir() {
                content.special.push(relative(&key));
            } else {
                content.rules.push(key.into());
            }
            return None;
        }
        let mut sorted_as = name.as_bytes().to_vec();
        let kind = if metadata.is_dir() {
            sorted_as.push(b'/');
            NameKind::Folder(id(&metadata))
        } else if self.left_out.contains(&id(&metadata)) {
            content.excluded.push(relative(&key));
            content.skipped.push(relative(&key));
            return None;
        } else {
            NameKind::File(SourceStamp::of(&metadata))
        };
        Some(SiteName { sorted_as, kind })
    }

    /// Records a folder that must not be entered, since its walk would lead through the whole
    /// machine; returns whether it is one.
    fn is_out_of_reach(
        &self,
        key: &[u8],
        entry: &DirEntry,
        metadata: &Metadata,
        content: &mut FolderContent,
    ) -> bool {
        let holds_source = self.above.contains(&id(metadata));
        let is_of_kernel = metadata.dev() != self.device && is_of_kernel(&entry.path());
        if holds_source {
            content.loops.push(relative(key));
        } else if is_of_kernel {
            content.problem(key, Reason::KernelFolder);
        }
        holds_source || is_of_kernel
    }

    /// Records a file that is code if the site is dynamic. An error in it shows when it is read,
    /// and only then matters.
    fn record_code(&self, key: Vec<u8>, entry: &DirEntry, content: &mut FolderContent) {
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let metadata = followed(entry);
        let is_file = metadata
            .as_ref()
            .map_or(true, |found| !found.is_dir() && !self.left_out.contains(&id(found)));
        if is_file {
            content.links.extend(is_link.then(|| relative(&key)));
            let key = key.into_boxed_slice();
            content.code.push(CodeFile { path: key.clone(), key });
        }
    }

    /// Records a file of a site of 80s that is code in other sites: its stamp, or why it has none.
    fn record_below_static(&self, key: &[u8], entry: &DirEntry, content: &mut FolderContent) {
        match followed(entry) {
            Ok(metadata) if metadata.is_dir() || self.left_out.contains(&id(&metadata)) => {}
            found => {
                let stamp = found.map(|metadata| SourceStamp::of(&metadata));
                content.below_static.push((key.into(), stamp));
            }
        }
    }
}

impl FolderContent {
    fn problem(&mut self, key: &[u8], reason: Reason) {
        self.problems.push(FileProblem { path: relative(key), reason });
    }
}

/// Returns whether a folder, with slashes on both ends, holds the content of a dynamic site.
pub(super) fn is_content_folder(key: &[u8]) -> bool {
    code_or_content::is_content_folder(without_slash(key))
}

pub(super) fn without_slash(key: &[u8]) -> &[u8] {
    key.strip_suffix(b"/").unwrap_or(key)
}
