//! A folder, looked at as a build would, without building it.

use std::path::{Path, PathBuf};

use crate::build::find_files;
use crate::error::{BuildError, FileProblem};
use crate::fingerprint::{self, NamedFile};
use crate::media_type;
use crate::name_warnings::name_warnings;
use crate::options::Options;
use crate::site_code;
use crate::site_rules::read_rules;
use crate::summary::Fingerprinted;
use crate::walk::consistent_file_read::OpenSource;
use crate::walk::file_kinds_by_name::{is_script, path_and_name};
use crate::walk::file_metadata::FileId;
use crate::walk::found_files::{FoundFiles, SourceFile, relative};
use crate::walk::name_filter::NameFilter;
use crate::walk::name_globs::Globs;
use crate::warning::Warning;
use pinion_archive::limits::CODE_FILE_MAX_BYTES;

/// A folder that a build would take.
#[derive(Debug)]
pub struct Examined {
    /// Warnings for the author, sorted.
    pub warnings: Vec<Warning>,
    /// Left out by the skip rules or an exclude pattern; a folder stands for all below it.
    pub skipped: Vec<PathBuf>,
    /// Of these, the paths that the options leave out: the author knows about them.
    pub excluded: Vec<PathBuf>,
    /// Never resources: scripts and private files of a static site.
    pub special: Vec<PathBuf>,
    /// Files whose names change with their content, as far as the names show: a build finds those
    /// too that their content proves.
    pub fingerprinted: Fingerprinted,
    /// The code that the archive would have: paths and contents, by rising path.
    pub code: Vec<(Box<[u8]>, Vec<u8>)>,
    /// The files that a build would leave out because of [`Options::keep_going`].
    pub problems: Vec<FileProblem>,
}

/// Checks the names of a folder, its rules and its templates. Every file is opened, but no content
/// is read except that of rules files, code, and files that templates include.
///
/// # Errors
/// [`BuildError`], as a build would fail before it reads content, with all problems and all errors
/// in rules at once.
pub fn examine(source: &Path, options: &Options) -> Result<Examined, BuildError> {
    let names = NameFilter::of(options)?;
    let immutable = Globs::of("immutable", &options.immutable)?;
    let left_out: Vec<FileId> = options.named_files().collect();
    let mut found = find_files(source, options, &names, &left_out, 0, &())?;
    let mut rules = read_rules(source, options, &found, &left_out)?;
    let unreadable = unreadable(&source.join(found.content), &found);
    found.problems.extend(unreadable);
    found.problems.sort_by(|one, other| one.path.cmp(&other.path));
    if !found.problems.is_empty() && !options.keep_going {
        return Err(BuildError::Problems(found.problems));
    }
    let code = site_code::read(source, &found)?;
    rules.warnings.extend(name_warnings(&found, options));
    rules.warnings.extend(site_code::tag_warnings(&found, &code));
    rules.warnings.extend(found.loops.iter().cloned().map(Warning::FolderLoop));
    rules.warnings.sort_unstable();
    let fingerprinted = fingerprinted(&found, &immutable);
    let FoundFiles { skipped, excluded, special, problems, .. } = found;
    let (warnings, code) = (rules.warnings, code.into_iter().collect());
    Ok(Examined { warnings, skipped, excluded, special, fingerprinted, code, problems })
}

/// Returns the Lua files of a folder and their contents, by their paths in the archive, as far as
/// they can be read: for a look at them where a page keeps the folder from being built.
#[must_use]
pub fn scripts(source: &Path, options: &Options) -> Vec<(Box<[u8]>, Vec<u8>)> {
    let Ok(names) = NameFilter::of(options) else { return Vec::new() };
    let left_out: Vec<FileId> = options.named_files().collect();
    let Ok(found) = find_files(source, options, &names, &left_out, 0, &()) else {
        return Vec::new();
    };
    let is_script = |path: &[u8]| is_script(path_and_name(path).1);
    let scripts = found.code.iter().filter(|file| is_script(&file.path));
    let read = scripts.filter_map(|file| {
        let opened = OpenSource::open(&source.join(file.relative())).ok()?;
        let is_small = opened.stamp().bytes <= CODE_FILE_MAX_BYTES;
        let content = is_small.then(|| opened.read().ok()).flatten()?;
        Some((file.path.clone(), content))
    });
    read.collect()
}

/// Opens each file of the content, as a build does, and returns those that cannot be read.
fn unreadable(content: &Path, found: &FoundFiles) -> Vec<FileProblem> {
    let problem = |file: &SourceFile| {
        let opened = OpenSource::open(&content.join(relative(&file.key)));
        let reason = opened.and_then(|source| source.check_end()).err()?;
        let path = Path::new(found.content).join(relative(&file.key));
        Some(FileProblem { path, reason })
    };
    found.files.iter().filter_map(problem).collect()
}

/// Decides whose names change with their content.
fn fingerprinted(found: &FoundFiles, immutable: &Globs) -> Fingerprinted {
    let keys: Vec<&[u8]> = found.files.iter().map(|file| &*file.key).collect();
    let named = keys.iter().map(|key| {
        let essence = media_type::by_extension(key).unwrap_or_default();
        NamedFile { key, essence }
    });
    let decided = fingerprint::decide(named, immutable);
    Fingerprinted::of(found.content, &decided, &keys)
}
