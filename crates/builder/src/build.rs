//! A build: its steps, in their order.

use std::fs::File;
use std::io::{Seek, Write};
use std::mem;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use pinion_archive::WriteError;

use crate::assemble::{Assembly, Earlier};
use crate::body_reuse::ReusableArchives;
use crate::code_or_content::CodeFile;
use crate::coding_rules::CodingRules;
use crate::error::BuildError;
use crate::file_batches::process_files;
use crate::kernel_body_copy::KernelCopier;
use crate::name_warnings::name_warnings;
use crate::options::Options;
use crate::precompressed::PrecompressedFiles;
use crate::process_file::{BuildState, EncodingClaims};
use crate::progress::{Progress, WorkMeter};
use crate::rules::Rules;
use crate::separate_code::arrange;
use crate::site_code::{self, SiteCode};
use crate::site_layout_guard::{MainScript, PublishGuard, SiteLayout, WalkedSite};
use crate::site_rules::read_rules;
use crate::summary::Summary;
use crate::walk::file_metadata::FileId;
use crate::walk::found_files::{FoundFiles, SourceFile};
use crate::walk::name_filter::NameFilter;
use crate::walk::stat_cache::{KnownFile, StatCache, StatCacheWriter};
use crate::walk::{FileSelection, walk};
use crate::warning::Warning;

/// An archive that was built.
#[derive(Debug)]
pub struct Built<W> {
    /// The summary of the build.
    pub summary: Summary,
    /// The output with the archive on it: flushed, not synced, position anywhere.
    pub out: W,
    /// The files that stayed outside, by their number in the archive. Only with
    /// [`Options::external_min_bytes`].
    pub externals: Vec<File>,
}

/// Builds the folder `source` into an archive on `out`, which is empty and at its start. After an
/// error `out` holds no archive (its first page is zeros or missing) or, when the very last call
/// failed, all of it.
///
/// # Errors
/// [`BuildError::Problems`] names every file that cannot become a resource, after all have been
/// tried; the other errors come at once.
pub fn build<W: Write + Seek>(
    source: &Path,
    options: &Options,
    out: W,
    progress: &dyn Progress,
) -> Result<Built<W>, BuildError> {
    build_reusing(source, options, &[], ReusableParts::default, out, progress)
        .map(|(built, _)| built)
}

/// Builds an archive without any file, for a site whose responses come from scripts alone.
///
/// # Errors
/// The output cannot be written, or an option is wrong.
pub fn build_nothing<W: Write + Seek>(options: &Options, out: W) -> Result<Built<W>, BuildError> {
    let names = NameFilter::of(options)?;
    let coding_rules = CodingRules::new(options)?;
    let rules = Rules::default();
    let assembly = Assembly::new(options, &coding_rules, &[], &rules, None, None, out)?;
    let (summary, out, externals) = assembly.finish(&Earlier::default(), &names)?;
    Ok(Built { summary, out, externals })
}

/// The parts of earlier builds that help this one, and the files that help the next one.
#[derive(Default)]
pub(crate) struct ReusableParts<'a> {
    /// The archives whose assets are carried over.
    pub(crate) earlier: Earlier<'a>,
    pub(crate) reuse: ReusableArchives,
    /// Copies bodies from the first of the archives that are reused to the output.
    pub(crate) kernel_copier: Option<KernelCopier>,
    /// The stamps of the files at the last build.
    pub(crate) stat_cache: Option<StatCache>,
    /// Records their stamps of now.
    pub(crate) stat_cache_writer: Option<StatCacheWriter>,
    pub(crate) warnings: Vec<Warning>,
}

/// Works like [`build`], and reuses parts of earlier builds. `output` are files of the output,
/// which are not part of the site although they may lie in the folder. `find_reusable` is called
/// while the folder is walked. Returns the writer of the stat cache, if all stamps were recorded.
pub(crate) fn build_reusing<'a, W: Write + Seek>(
    source: &Path,
    options: &Options,
    output: &[FileId],
    find_reusable: impl FnOnce() -> ReusableParts<'a>,
    out: W,
    progress: &dyn Progress,
) -> Result<(Built<W>, Option<StatCacheWriter>), BuildError> {
    let begin = Instant::now();
    let names = NameFilter::of(options)?;
    let coding_rules = CodingRules::new(options)?;
    let workers = workers(options);
    let left_out: Vec<_> = output.iter().copied().chain(options.named_files()).collect();

    let find = || find_files(source, options, &names, &left_out, workers, progress);
    let (found, reusable) = at_the_same_time(find, find_reusable);
    let mut found = found?;
    report_found(&found, progress);
    let (code, guard) = read_code(source, &found, options)?;
    let rules = read_rules(source, options, &found, &left_out)?;

    let ReusableParts { earlier, reuse, kernel_copier, stat_cache, stat_cache_writer, warnings } =
        reusable;
    let known = unchanged_files(stat_cache, &found, &reuse);
    let copies_in_kernel = kernel_copier.is_some();
    if let Some(copier) = &kernel_copier {
        copier.make_room(most_bytes(&known, &found.files, &coding_rules));
    }
    let (files, copier) = (&found.files, kernel_copier);
    let mut assembly =
        Assembly::new(options, &coding_rules, files, &rules, copier, stat_cache_writer, out)?;
    assembly.content = found.content;
    assembly.expect(&reuse, &coding_rules);
    assembly.summary.guard = guard;
    assembly.summary.warnings = warnings;
    assembly.summary.warnings.extend(early_warnings(&found, options, &names, &rules, &code));
    let is_lost = !found.problems.is_empty() && !options.keep_going;
    assembly.summary.problems = mem::take(&mut found.problems);

    let state = BuildState {
        source: source.join(found.content),
        options,
        coding_rules: &coding_rules,
        reuse,
        stamps: mem::take(&mut found.stamps),
        known,
        copies_in_kernel,
        is_lost: is_lost.into(),
        claims: EncodingClaims::default(),
        precompressed: PrecompressedFiles::of(files, &rules.fields),
        meter: WorkMeter::new(progress),
    };
    process_files(&state, workers, files, &mut assembly, progress)?;
    assembly.list_folders(&state, workers, progress)?;
    // The rest of the build needs only the names.
    drop(state);
    check_problems(&mut assembly.summary, options)?;

    assembly.summary.warnings.extend(unused_codings(&coding_rules));
    assembly.code(&code)?;
    let (copier, stat_cache_writer) = assembly.take_writers();
    let (summary, out, externals) = assembly.finish(&earlier, &names)?;
    copier.map_or(Ok(()), KernelCopier::finish).map_err(WriteError::Output)?;
    let summary = Summary { elapsed: begin.elapsed(), ..with_paths(summary, found) };
    Ok((Built { summary, out, externals }, stat_cache_writer))
}

/// Finds the files of a site in the folder `source`: walks it, and arranges them. `left_out` are
/// files that are no part of the site.
pub(crate) fn find_files(
    source: &Path,
    options: &Options,
    names: &NameFilter,
    left_out: &[FileId],
    threads: usize,
    progress: &dyn Progress,
) -> Result<FoundFiles, BuildError> {
    let found = walk(source, FileSelection { names, left_out }, threads, progress)?;
    arrange(source, found, options.compat_80s)
}

/// Checks that every file was read, if that is necessary.
fn check_problems(summary: &mut Summary, options: &Options) -> Result<(), BuildError> {
    summary.problems.sort_by(|a, b| a.path.cmp(&b.path));
    if summary.problems.is_empty() || options.keep_going {
        return Ok(());
    }
    Err(BuildError::Problems(mem::take(&mut summary.problems)))
}

/// Adds the paths that a walk has met to a summary.
fn with_paths(summary: Summary, found: FoundFiles) -> Summary {
    Summary {
        folders: found.folders,
        skipped: found.skipped,
        excluded: found.excluded,
        special: found.special,
        code: code_paths(&found.code),
        ..summary
    }
}

/// Returns warnings for the author before any file is read.
fn early_warnings(
    found: &FoundFiles,
    options: &Options,
    names: &NameFilter,
    rules: &Rules,
    code: &SiteCode,
) -> Vec<Warning> {
    let mut warnings = name_warnings(found, options);
    warnings.extend(site_code::tag_warnings(found, code));
    warnings.extend(unused_patterns(names, options));
    warnings.extend(found.loops.iter().cloned().map(Warning::FolderLoop));
    warnings.extend(rules.warnings.iter().cloned());
    warnings
}

/// Returns the files that have not changed since the last build.
fn unchanged_files(
    stat_cache: Option<StatCache>,
    found: &FoundFiles,
    reuse: &ReusableArchives,
) -> Vec<KnownFile> {
    stat_cache.map(|cache| cache.known(&found.files, &found.stamps, reuse)).unwrap_or_default()
}

/// Reports the files that were found.
fn report_found(found: &FoundFiles, progress: &dyn Progress) {
    let total_bytes = found.files.iter().map(|file| file.bytes).sum();
    progress.found(found.files.len() as u64, total_bytes);
    let (links, layout) = (found.links.clone(), SiteLayout::of(found));
    progress.walked(WalkedSite { links, code: code_paths(&found.code), layout });
}

/// Reads the code of a folder, and checks that a site that is served keeps its properties.
fn read_code(
    source: &Path,
    found: &FoundFiles,
    options: &Options,
) -> Result<(SiteCode, PublishGuard), BuildError> {
    let mut now = PublishGuard { layout: SiteLayout::of(found), main: MainScript::None };
    // The check comes first, so that no file is read in a role that it must not have.
    if let Some(before) = options.follows
        && !now.layout.may_follow(before.layout)
    {
        return Err(BuildError::Lost { before, now });
    }
    let code = site_code::read(source, found)?;
    let errors = options.check_code.map_or_else(Vec::new, |check| check(source, &code));
    if !errors.is_empty() {
        return Err(BuildError::Code(errors));
    }
    now.main = MainScript::of(&code);
    match options.follows {
        Some(before) if !before.may_become(now) => Err(BuildError::Lost { before, now }),
        _ => Ok((code, now)),
    }
}

/// Returns warnings about the patterns of codings that no file has matched.
fn unused_codings(coding_rules: &CodingRules<'_>) -> Vec<Warning> {
    coding_rules.unused().map(|pattern| Warning::UnusedCodings(pattern.into())).collect()
}

/// Returns warnings about the patterns that nothing matches. Those of a site with live folders are
/// for files that no build sees.
fn unused_patterns(names: &NameFilter, options: &Options) -> Vec<Warning> {
    if !options.live.is_empty() {
        return Vec::new();
    }
    let excludes = names.unused_excludes().map(|pattern| Warning::UnusedExclude(pattern.into()));
    let include = |pattern: &str| {
        if options.exclude.iter().any(|one| one == pattern) {
            Warning::IncludeExcluded(pattern.into())
        } else {
            Warning::UnusedInclude(pattern.into())
        }
    };
    let includes = names.unused_includes().map(include);
    excludes.chain(includes).collect()
}

/// Returns the paths of the code, below the source.
fn code_paths(code: &[CodeFile]) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = code.iter().map(CodeFile::relative).collect();
    paths.sort_unstable();
    paths
}

/// Returns the most bytes that unchanged files take: a content in a coding is no longer than
/// itself.
fn most_bytes(known: &[KnownFile], files: &[SourceFile], coding_rules: &CodingRules<'_>) -> u64 {
    let files = known.iter().filter_map(|known| files.get(known.file as usize));
    let bytes: u64 = files.map(|file| file.bytes).sum();
    bytes.saturating_mul(coding_rules.most_forms() as u64)
}

/// Calls both functions at the same time, or one after the other if no thread can be started.
fn at_the_same_time<A: Send, B>(a: impl Fn() -> A + Sync, b: impl FnOnce() -> B) -> (A, B) {
    thread::scope(|scope| {
        match thread::Builder::new().name("walk".to_owned()).spawn_scoped(scope, &a) {
            Ok(thread) => {
                let b = b();
                (thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), b)
            }
            Err(_) => (a(), b()),
        }
    })
}

/// Returns the number of workers: as many as were asked for, else one for each core.
fn workers(options: &Options) -> usize {
    let workers = options.threads.or_else(|| thread::available_parallelism().ok());
    workers.map_or(1, NonZeroUsize::get)
}
