//! Finds the file that an entry becomes, below the folder.

use std::fmt;
use std::path::Path;

use pinion_archive::layout::{
    ERROR_PREFIX, FALLBACK_PREFIX, FILE_PREFIX, SINGLE_PAGE_KEY, VARIANT_PREFIX,
};
use pinion_archive::{
    Archive, BodyDigests, CodeSection, Damage, Entry, EntryKind, PreviousAssets, Scratch,
};
use pinion_http::request_target;
use pinion_template::file_name::main_script;

use crate::assemble::{COMPAT_80S, COMPAT_FACT, INCLUDE_FACT};
use crate::code_or_content;
use crate::extract::code_paths::CodePlaces;
use crate::legacy_80s_server::{is_page_below_static, loads_module};
use crate::limits::{FILE_NAME_MAX_BYTES, FILE_PATH_MAX_BYTES};
use crate::media_type::{self, MediaType};
use crate::path_aliases;
use crate::walk::file_kinds_by_name::{RulesFile, is_code, is_script, path_and_name, rules_file};
use crate::walk::found_files::relative;
use crate::walk::name_filter::NameFilter;

/// An entry that cannot become a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractRefusal {
    /// The path of the entry, escaped.
    pub path: String,
    /// Why.
    pub reason: RefusalReason,
}

/// The reason why an entry cannot become a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// A name that is empty, `.` or `..`, or has a NUL in it.
    NoName,
    /// A path that ends in a slash, whose content is not that of an index file.
    FolderContent,
    /// A name of more than [`FILE_NAME_MAX_BYTES`].
    LongName,
    /// A path of more than [`FILE_PATH_MAX_BYTES`].
    LongPath,
    /// Another entry would be a file where this one needs a folder.
    FileAndFolder,
    /// A build would leave it out because of its name.
    LeftOut,
    /// A build would respond with it in place of others, because of its name, and not under it.
    Special,
    /// Its content is in a file outside of the archive.
    External,
    /// It is neither content nor a redirect.
    Kind,
    /// No line of `_redirects` can express it.
    Line(&'static str),
    /// More lines of `_redirects` than a build takes.
    TooManyLines,
}

impl fmt::Display for ExtractRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problem = match self.reason {
            RefusalReason::NoName => "not a path that a file can have",
            RefusalReason::FolderContent => {
                "content at the path of a folder, which no index file gives"
            }
            RefusalReason::LongName => "a name too long for a file",
            RefusalReason::LongPath => "a path too long for a file",
            RefusalReason::FileAndFolder => "needs a folder where another path is a file",
            RefusalReason::LeftOut => "a build leaves files with this name out",
            RefusalReason::Special => "a build uses files with this name as pages for errors",
            RefusalReason::External => "its content is in a file outside of the archive",
            RefusalReason::Kind => "neither content nor a redirect",
            RefusalReason::Line(problem) => problem,
            RefusalReason::TooManyLines => "more lines than the limit of a rules file",
        };
        write!(f, "{}: {problem}", self.path)
    }
}

/// The paths of the folder that an archive becomes.
pub(super) struct ExtractLayout<'a> {
    reader: EntryReader<'a>,
    names: NameFilter,
    /// Whether a build takes the folder for a dynamic site.
    is_dynamic: bool,
    /// Whether it takes it for a site of 80s.
    is_80s: bool,
    previous: PreviousAssets<'a>,
    scratch: Scratch,
    above: Scratch,
}

/// Reads other entries.
#[derive(Clone, Copy)]
struct EntryReader<'a> {
    archive: Archive<'a>,
    digests: BodyDigests<'a>,
}

/// Returns whether the entry is content under a path that can be asked for.
pub(super) fn is_page(entry: &Entry<'_>) -> bool {
    entry.kind() == EntryKind::Resource && entry.path().first() == Some(&b'/')
}

/// Returns whether the entry is a page for paths that do not exist.
pub(super) fn is_fallback(entry: &Entry<'_>) -> bool {
    entry.path().starts_with(FALLBACK_PREFIX)
}

/// Returns whether the entry is a page of an error.
pub(super) fn is_error_page(entry: &Entry<'_>) -> bool {
    entry.path().starts_with(ERROR_PREFIX)
}

/// Returns whether the entry is a file of rules as it was written.
pub(super) fn is_rules_file(entry: &Entry<'_>) -> bool {
    entry.path().starts_with(FILE_PREFIX)
}

/// Returns whether the entry is a `_redirects`, or one of another folder.
pub(super) fn is_redirects_file(entry: &Entry<'_>) -> bool {
    is_rules_file(entry) && kind_of_rules(entry.path()) == Some(RulesFile::Redirects)
}

/// Returns whether an import has made the archive, not a build: only its responses show its fields.
pub(super) fn is_imported(archive: &Archive<'_>) -> Result<bool, Damage> {
    Ok(archive.meta()?.any(|(key, _)| key == "imported-from"))
}

/// Returns the patterns by which the build of the archive has published files that a build leaves
/// out.
fn included<'a>(archive: &Archive<'a>) -> Result<impl Iterator<Item = &'a str> + use<'a>, Damage> {
    let is_pattern = |(key, pattern): (&str, &'a str)| (key == INCLUDE_FACT).then_some(pattern);
    Ok(archive.meta()?.filter_map(is_pattern))
}

/// Returns whether the archive was built as one of a site of 80s, regardless of the modules that
/// its main script loads.
fn is_of_80s(archive: &Archive<'_>) -> Result<bool, Damage> {
    Ok(archive.meta()?.any(|fact| fact == (COMPAT_FACT, COMPAT_80S)))
}

/// Returns the flags without which a build would leave out files of the folder.
pub(super) fn flags(archive: &Archive<'_>) -> Result<Vec<String>, Damage> {
    let compat = is_of_80s(archive)?.then(|| "--compat=80s".to_owned());
    let include = included(archive)?.map(|pattern| format!("--include={pattern}"));
    Ok(compat.into_iter().chain(include).collect())
}

/// Returns whether the main script loads the module of 80s.
fn main_is_of_80s(code: &CodeSection) -> bool {
    let text = |path: &str| code.iter().find(|(key, _)| *key == path.as_bytes());
    main_script(text).is_some_and(|(_, (_, text))| loads_module(text))
}

/// Returns the kind of rules file that a key has.
fn kind_of_rules(key: &[u8]) -> Option<RulesFile> {
    key.rsplit(|&byte| byte == b'/').next().and_then(rules_file)
}

/// Returns whether a build makes the entry because of a flag: folder listings and the single page.
fn is_of_flags(entry: &Entry<'_>) -> bool {
    entry.path().starts_with(VARIANT_PREFIX)
        || entry.path() == SINGLE_PAGE_KEY
        || (entry.has_variant() && entry.path().ends_with(b"/"))
}

impl<'a> ExtractLayout<'a> {
    pub(super) fn new(
        archive: Archive<'a>,
        code: &CodeSection,
    ) -> Result<ExtractLayout<'a>, Damage> {
        let is_80s = is_of_80s(&archive)? || main_is_of_80s(code);
        let include: Vec<String> = included(&archive)?.map(str::to_owned).collect();
        Ok(ExtractLayout {
            reader: EntryReader { archive, digests: archive.digests()? },
            names: NameFilter::including(&include),
            is_dynamic: !code.is_empty(),
            is_80s,
            previous: archive.previous()?,
            scratch: Scratch::new(),
            above: Scratch::new(),
        })
    }

    /// Returns whether the entry is no file of the site: an earlier release has left it.
    pub(super) fn is_previous(&self, entry: &Entry<'_>) -> bool {
        self.previous.age(entry.path()).is_some()
    }

    /// Returns the path of its file, with a slash in front; `None` for an entry that a build makes
    /// of other files.
    pub(super) fn file_of(
        &mut self,
        entry: &Entry<'_>,
    ) -> Result<Result<Option<Vec<u8>>, ExtractRefusal>, Damage> {
        if self.is_previous(entry) {
            return Ok(Ok(None));
        }
        let ExtractLayout { reader, names, is_dynamic, is_80s, scratch, above, .. } = self;
        let refuse = |reason| {
            let path = entry.path().escape_ascii().to_string();
            Ok(Err(ExtractRefusal { path, reason }))
        };
        let path = if is_fallback(entry) {
            match reader.fallback(entry, scratch)? {
                Some(path) => path,
                None => return Ok(Ok(None)),
            }
        } else if is_error_page(entry) {
            [b"/", reader.name_of(entry)?.as_bytes()].concat()
        } else if is_of_flags(entry) {
            return Ok(Ok(None));
        } else if is_rules_file(entry) && kind_of_rules(entry.path()).is_some() {
            entry.path().strip_prefix(FILE_PREFIX).unwrap_or_default().to_vec()
        } else if !is_page(entry) {
            return refuse(RefusalReason::Kind);
        } else if reader.is_alias(entry, scratch)? {
            return Ok(Ok(None));
        } else {
            entry.path().to_vec()
        };
        let Some(form) = entry.representation(0) else { return refuse(RefusalReason::Kind) };
        if reader.digests.of(&reader.archive, &form)?.is_none() {
            return refuse(RefusalReason::External);
        }
        if let Some(reason) = wrong_name(&path) {
            return refuse(reason);
        }
        let is_read = match entry.path().first() {
            Some(b'/') => names.may_be_part(&relative(&path)),
            // Named by the build, or kept because it was read.
            _ => {
                is_fallback(entry)
                    || is_error_page(entry)
                    || names.may_matter(&relative(&path), true)
            }
        };
        let is_static = *is_80s && is_page_below_static(&path) && {
            // Its folders have to be ones that a build enters.
            let folder = path.get(..path.len() - path_and_name(&path).1.len()).unwrap_or_default();
            names.may_be_part(&relative(folder))
        };
        let is_left_out = !is_read || (*is_dynamic && code_or_content::is_left_out(&path));
        if is_left_out && !is_static {
            return refuse(RefusalReason::LeftOut);
        }
        if is_page(entry) && path_aliases::is_hidden(&path) {
            return refuse(RefusalReason::Special);
        }
        if reader.lies_in_file(&path, above, scratch)? {
            return refuse(RefusalReason::FileAndFolder);
        }
        Ok(Ok(Some(path)))
    }
}

impl ExtractLayout<'_> {
    /// Returns the path of the file that code becomes, with a slash in front; `None` for code that
    /// is a file of the content too, which a page includes.
    pub(super) fn code_of(
        &mut self,
        places: &CodePlaces,
        path: &[u8],
        content: &[u8],
    ) -> Result<Result<Option<Vec<u8>>, ExtractRefusal>, Damage> {
        let ExtractLayout { reader, names, scratch, above, .. } = self;
        let refuse = |reason| {
            let path = path.escape_ascii().to_string();
            Ok(Err(ExtractRefusal { path, reason }))
        };
        let Some(file) = places.code(path) else { return refuse(RefusalReason::LeftOut) };
        if let Some(reason) = wrong_name(&file) {
            return refuse(reason);
        }
        let (is_beside, name) = (path.starts_with(b"//"), path_and_name(path).1);
        if !is_beside && !is_code(name) {
            return match reader.is_content(path, content, scratch)? {
                Some(true) => Ok(Ok(None)),
                // A rule responds for it, so that no entry has it.
                Some(false) if names.may_be_part(&relative(path)) => Ok(Ok(Some(file.into()))),
                _ => refuse(RefusalReason::LeftOut),
            };
        }
        if (is_beside && !is_script(name))
            || code_or_content::is_left_out(path)
            || !names.may_matter(&relative(&file), true)
        {
            return refuse(RefusalReason::LeftOut);
        }
        if !is_beside && reader.lies_in_file(path, above, scratch)? {
            return refuse(RefusalReason::FileAndFolder);
        }
        Ok(Ok(Some(file.into_owned())))
    }
}

impl EntryReader<'_> {
    /// Returns whether an entry has the content of this path, or nothing of it; none if it has
    /// another.
    fn is_content(
        &self,
        path: &[u8],
        content: &[u8],
        scratch: &mut Scratch,
    ) -> Result<Option<bool>, Damage> {
        let Some(entry) = self.archive.find(path, scratch)? else {
            return Ok(path_aliases::is_hidden(path).then_some(true));
        };
        let form = entry.representation(0);
        let Some(form) = form.filter(|_| is_page(&entry)) else { return Ok(Some(false)) };
        let is_match = self.archive.body(&form)?.is_none_or(|body| body == content);
        Ok(is_match.then_some(true))
    }

    /// Returns whether the entry is a name that a build gives a file automatically.
    fn is_alias(&self, entry: &Entry<'_>, scratch: &mut Scratch) -> Result<bool, Damage> {
        let Some(location) = entry.target() else { return Ok(false) };
        let mut decoded = Vec::new();
        let Ok(file) = request_target::decode_path(location, &mut decoded) else {
            return Ok(false);
        };
        if !path_aliases::files_of(entry.path()).any(|name| name == file) {
            return Ok(false);
        }
        Ok(self.archive.load(file, scratch)? && self.is_same(scratch, entry)?)
    }

    /// Returns the file of a fallback page; `None` if a file of the folder becomes one by its name.
    fn fallback(
        &self,
        entry: &Entry<'_>,
        scratch: &mut Scratch,
    ) -> Result<Option<Vec<u8>>, Damage> {
        let folder = entry.path().strip_prefix(FALLBACK_PREFIX).unwrap_or_default();
        let usual = [folder, path_aliases::NOT_FOUND_NAME].concat();
        if entry.status() == 404
            && self.archive.load(&usual, scratch)?
            && self.is_same(scratch, entry)?
            && self.is_page_of(&usual, scratch, entry)?
        {
            return Ok(None);
        }
        Ok(Some([folder, self.name_of(entry)?.as_bytes()].concat()))
    }

    /// Returns whether a page for missing resources, with the content of the file in the scratch,
    /// is that very file: as old, and of a type that the file has by its name or its fields.
    fn is_page_of(&self, file: &[u8], scratch: &Scratch, page: &Entry<'_>) -> Result<bool, Damage> {
        let Some(found) = scratch.entry().filter(|found| found.modified() == page.modified())
        else {
            return Ok(false);
        };
        let (Some(of_file), Some(of_page)) = (found.representation(0), page.representation(0))
        else {
            return Ok(false);
        };
        let shown = self.archive.shared(of_page.shared())?.media_type();
        if self.archive.shared(of_file.shared())?.media_type() == shown {
            return Ok(true);
        }
        let body = self.archive.body(&of_page)?.unwrap_or_default();
        Ok(MediaType::of(file, body).field().as_bytes() == shown)
    }

    /// Returns the name of a page that is sent with its status in place of others: `_404.html`.
    fn name_of(&self, entry: &Entry<'_>) -> Result<String, Damage> {
        let media_type = match entry.representation(0) {
            Some(form) => self.archive.shared(form.shared())?.media_type(),
            None => b"",
        };
        Ok(format!("_{}.{}", entry.status(), media_type::extension(media_type)))
    }

    /// Returns whether the entry in the scratch is content of its own and equal to that of `entry`.
    fn is_same(&self, scratch: &Scratch, entry: &Entry<'_>) -> Result<bool, Damage> {
        let Some(found) = scratch.entry().filter(is_page) else { return Ok(false) };
        match (found.representation(0), entry.representation(0)) {
            (Some(found), Some(form)) => {
                let found = self.digests.of(&self.archive, &found)?;
                Ok(found == self.digests.of(&self.archive, &form)?)
            }
            _ => Ok(false),
        }
    }

    /// Returns whether one of the folders that `path` lies in is a file.
    fn lies_in_file(
        &self,
        path: &[u8],
        above: &mut Scratch,
        scratch: &mut Scratch,
    ) -> Result<bool, Damage> {
        let slashes = path.iter().enumerate().filter(|&(_, &byte)| byte == b'/');
        for (end, _) in slashes.skip(1) {
            let folder = path.get(..end).unwrap_or_default();
            if self.archive.load(folder, above)?
                && let Some(entry) = above.entry().filter(is_page)
                && !self.is_alias(&entry, scratch)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns why a path with a slash in front cannot be that of a file.
fn wrong_name(path: &[u8]) -> Option<RefusalReason> {
    if path.len() > FILE_PATH_MAX_BYTES {
        return Some(RefusalReason::LongPath);
    }
    let Some((b'/', below)) = path.split_first() else { return Some(RefusalReason::NoName) };
    if below.is_empty() || (below.ends_with(b"/") && !path.ends_with(b"//")) {
        return Some(RefusalReason::FolderContent);
    }
    below.split(|&byte| byte == b'/').find_map(|name| match name {
        b"" | b"." | b".." => Some(RefusalReason::NoName),
        name if name.contains(&0) => Some(RefusalReason::NoName),
        name if name.len() > FILE_NAME_MAX_BYTES => Some(RefusalReason::LongName),
        _ => None,
    })
}

/// Returns the path of a file for messages.
pub(super) fn shown(out: &Path, path: &[u8]) -> std::path::PathBuf {
    out.join(relative(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_cannot_be_files_are_refused() {
        for (path, reason) in [
            (&b"/a"[..], None),
            (b"/a/b.html", None),
            (b"/..a/b..", None),
            (b"/\xff\n", None),
            (b"/", Some(RefusalReason::FolderContent)),
            (b"/a/", Some(RefusalReason::FolderContent)),
            (b"a", Some(RefusalReason::NoName)),
            (b"", Some(RefusalReason::NoName)),
            (b"//", Some(RefusalReason::NoName)),
            (b"/a//b", Some(RefusalReason::NoName)),
            (b"/..", Some(RefusalReason::NoName)),
            (b"/../a", Some(RefusalReason::NoName)),
            (b"/a/./b", Some(RefusalReason::NoName)),
            (b"/a/..", Some(RefusalReason::NoName)),
            (b"/a\0b", Some(RefusalReason::NoName)),
        ] {
            assert_eq!(wrong_name(path), reason, "{}", path.escape_ascii());
        }
        let name = |bytes: usize| [b"/", "n".repeat(bytes).as_bytes()].concat();
        assert_eq!(wrong_name(&name(255)), None);
        assert_eq!(wrong_name(&name(256)), Some(RefusalReason::LongName));
        assert_eq!(wrong_name(&b"/n".repeat(1800)), None);
        assert_eq!(wrong_name(&b"/n".repeat(4000)), Some(RefusalReason::LongPath));
    }
}
