//! The steps in their order.

use std::fs::File;
use std::io::{Seek, Write};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use pinion_archive::WriteError;

use crate::assemble::{Assembly, Earlier};
use crate::coding_rules::CodingRules;
use crate::dynamic_site::CodeFile;
use crate::encode::Encoders;
use crate::error::BuildError;
use crate::limits::{BATCH_BYTES_MAX, BATCH_FILES_MAX, WINDOW_MAX_BYTES, WINDOW_MIN_BYTES};
use crate::name_warnings::name_warnings;
use crate::options::Options;
use crate::pipeline;
use crate::precompressed::Precompressed;
use crate::process_file::{BuildState, EncodingClaims};
use crate::progress::{Progress, WorkMeter};
use crate::reuse::Reuse;
use crate::reuse_in_kernel::KernelCopier;
use crate::rules::{Rules, SitePaths};
use crate::site_code::{self, SiteCode};
use crate::site_layout::{MainScript, PublishGuard, SiteLayout, WalkedSite};
use crate::summary::Summary;
use crate::url_plan;
use crate::walk::file_metadata::FileId;
use crate::walk::found_files::{FoundFiles, SourceFile};
use crate::walk::name_filter::NameFilter;
use crate::walk::stat_cache::{KnownFile, StatCache, StatCacheWriter};
use crate::walk::{Selection, walk};
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
    build_beside(source, options, &[], Beside::default, out, progress).map(|(built, _)| built)
}

/// Builds an archive without any file, for a site whose responses come from scripts alone.
///
/// # Errors
/// The output cannot be written, or an option is wrong.
pub fn build_nothing<W: Write + Seek>(options: &Options, out: W) -> Result<Built<W>, BuildError> {
    let names = NameFilter::of(options)?;
    let lists = CodingRules::new(options)?;
    let rules = Rules::default();
    let assembly = Assembly::new(options, &lists, &[], &rules, None, None, out)?;
    let (summary, out, externals) = assembly.finish(&Earlier::default(), &names)?;
    Ok(Built { summary, out, externals })
}

/// The files at the place that an archive goes to, and other files that help the build.
#[derive(Default)]
pub(crate) struct Beside<'a> {
    /// The archives whose assets are carried over.
    pub(crate) earlier: Earlier<'a>,
    pub(crate) reuse: Reuse,
    /// Copies from that archive to the output; it has to be the first of those that are reused.
    pub(crate) carrier: Option<KernelCopier>,
    /// The stamps of the files at the last build.
    pub(crate) stamps: Option<StatCache>,
    /// Records their stamps of now.
    pub(crate) notes: Option<StatCacheWriter>,
    pub(crate) warnings: Vec<Warning>,
}

/// Works like [`build`], beside the files of the last time: `output`, which are not part of the
/// site although they may lie in the folder. `look` finds the parts that can be reused. Returns the
/// notes, if all of them could be recorded.
pub(crate) fn build_beside<'a, W: Write + Seek>(
    source: &Path,
    options: &Options,
    output: &[FileId],
    look: impl FnOnce() -> Beside<'a>,
    out: W,
    progress: &dyn Progress,
) -> Result<(Built<W>, Option<StatCacheWriter>), BuildError> {
    let begin = Instant::now();
    let names = NameFilter::of(options)?;
    let (lists, workers) = (CodingRules::new(options)?, workers(options));
    let left_out: Vec<_> = output.iter().copied().chain(options.named_files()).collect();
    let selection = Selection { names: &names, left_out: &left_out, is_80s: options.compat_80s };
    let (found, beside) = at_the_same_time(|| walk(source, selection, workers, progress), look);
    let (found, Beside { earlier, reuse, carrier, stamps, notes, warnings }) = (found?, beside);
    tell_found(&found, progress);
    let (code, guard) = code_within_walls(source, &found, options)?;
    let rules = rules(source, options, &found, &left_out)?;
    let (known, carries) = (known(stamps, &found, &reuse), carrier.is_some());
    if let Some(carrier) = &carrier {
        carrier.make_room(most_bytes(&known, &found.files, &lists));
    }
    let mut assembly = Assembly::new(options, &lists, &found.files, &rules, carrier, notes, out)?;
    assembly.content = found.content;
    assembly.expect(&reuse, &lists);
    assembly.summary.warnings = warnings;
    assembly.summary.warnings.extend(early_warnings(&found, options, &names, &rules, &code));
    assembly.summary.guard = guard;
    let lost = !found.problems.is_empty() && !options.keep_going;
    assembly.summary.problems = found.problems;
    let source = source.join(found.content);
    let work = BuildState {
        source: &source,
        options,
        lists: &lists,
        reuse: &reuse,
        stamps: &found.stamps,
        known: &known,
        carries,
        lost: lost.into(),
        claims: EncodingClaims::default(),
        precompressed: Precompressed::of(&found.files, &rules.fields),
        meter: WorkMeter::new(progress),
    };
    read_all(&work, workers, &found.files, &mut assembly, progress)?;
    assembly.list_folders(&work, workers, progress)?;
    // The rest of the build needs only the names.
    drop(work);
    drop((known, reuse, found.stamps));
    assembly.summary.warnings.extend(unused_codings(&lists));
    assembly.summary.problems.sort_by(|a, b| a.path.cmp(&b.path));
    if !assembly.summary.problems.is_empty() && !options.keep_going {
        return Err(BuildError::Problems(assembly.summary.problems));
    }
    assembly.summary.warnings.extend(found.loops.into_iter().map(Warning::FolderLoop));
    assembly.code(&code)?;
    let (notes, carrier) = (assembly.notes.take(), assembly.carrier.take());
    let (summary, out, externals) = assembly.finish(&earlier, &names)?;
    carrier.map_or(Ok(()), KernelCopier::finish).map_err(WriteError::Output)?;
    let summary = Summary {
        folders: found.folders,
        skipped: found.skipped,
        excluded: found.excluded,
        special: found.special,
        code: code_paths(&found.code),
        elapsed: begin.elapsed(),
        ..summary
    };
    Ok((Built { summary, out, externals }, notes))
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
    warnings.extend(rules.warnings.iter().cloned());
    warnings
}

/// Returns the files that have not changed.
fn known(stamps: Option<StatCache>, found: &FoundFiles, reuse: &Reuse) -> Vec<KnownFile> {
    stamps.map(|old| old.known(&found.files, &found.stamps, reuse)).unwrap_or_default()
}

fn tell_found(found: &FoundFiles, progress: &dyn Progress) {
    let total_bytes = found.files.iter().map(|file| file.bytes).sum();
    progress.found(found.files.len() as u64, total_bytes);
    let (links, layout) = (found.links.clone(), SiteLayout::of(found));
    progress.walked(WalkedSite { links, code: code_paths(&found.code), layout });
}

/// Reads the code of a folder, and checks that the site keeps its properties.
fn code_within_walls(
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

fn unused_codings(lists: &CodingRules<'_>) -> Vec<Warning> {
    lists.unused().map(|pattern| Warning::UnusedCodings(pattern.into())).collect()
}

/// Returns the patterns that nothing matches. Those of a site with live folders are for files that
/// no build sees.
fn unused_patterns(names: &NameFilter, options: &Options) -> Vec<Warning> {
    if !options.live.is_empty() {
        return Vec::new();
    }
    let excludes = names.unused_excludes().map(|pattern| Warning::UnusedExclude(pattern.into()));
    let include = |pattern: &str| match options.exclude.iter().any(|one| one == pattern) {
        true => Warning::IncludeExcluded(pattern.into()),
        false => Warning::UnusedInclude(pattern.into()),
    };
    let includes = names.unused_includes().map(include);
    excludes.chain(includes).collect()
}

/// Returns where code lies, below the source.
fn code_paths(code: &[CodeFile]) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = code.iter().map(CodeFile::relative).collect();
    paths.sort_unstable();
    paths
}

/// Returns the most bytes that unchanged files take: a content in a coding is no longer than
/// itself.
fn most_bytes(known: &[KnownFile], files: &[SourceFile], lists: &CodingRules<'_>) -> u64 {
    let files = known.iter().filter_map(|known| files.get(known.file as usize));
    let bytes: u64 = files.map(|file| file.bytes).sum();
    bytes.saturating_mul(lists.most_forms() as u64)
}

/// Does both, one after the other unless the system gives a thread for it.
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

/// Reads the rules files and checks them against the paths of the files found: before anything is
/// encoded, which takes its time.
pub(crate) fn rules(
    source: &Path,
    options: &Options,
    found: &FoundFiles,
    left_out: &[FileId],
) -> Result<Rules, BuildError> {
    let mut rules = Rules::read(source, found.content, &found.rules, options, left_out)?;
    let keys = || found.files.iter().map(|file| &*file.key);
    if let Some(page) = &options.single_page
        && !keys().any(|key| key == url_plan::of_path(page))
    {
        return Err(BuildError::SinglePage(page.clone()));
    }
    if !rules.redirects.is_empty() {
        let keys: Vec<&[u8]> = keys().collect();
        let plan = url_plan::plan(&keys, options.conventions(&rules));
        let site = SitePaths::of(&keys, &plan, options);
        if options.has_fallback_server {
            rules.check_rewrites_of_everything(options.lax_rules)?;
        }
        rules.check(&site, options.lax_rules)?;
        rules.check_fallbacks(found.content, &keys, &plan, &site);
    }
    Ok(rules)
}

fn read_all<W: Write + Seek>(
    work: &BuildState<'_>,
    workers: usize,
    files: &[SourceFile],
    assembly: &mut Assembly<'_, W>,
    progress: &dyn Progress,
) -> Result<(), BuildError> {
    let batches = batches(files);
    let of = |batch: usize| batches.get(batch).cloned().unwrap_or_default();
    let cost = |batch: usize| {
        let files = of(batch).zip(files.get(of(batch)).unwrap_or_default());
        files.map(|(rank, file)| work.cost(rank, file)).sum()
    };
    let costs: Vec<u64> = (0..batches.len()).map(cost).collect();
    let (mut files_done, mut bytes_done) = (0, 0);
    pipeline::in_order(
        &costs,
        window(&costs, workers),
        workers,
        Encoders::default,
        |encoders, batch| {
            let range = of(batch);
            let files = files.get(range.clone()).unwrap_or_default();
            let stock = work.stock(range.start, files);
            let read = range.zip(files).map(|(rank, file)| work.file(encoders, &stock, rank, file));
            read.collect::<Vec<_>>()
        },
        |batch, products| {
            let range = of(batch);
            let files = files.get(range.clone()).unwrap_or_default();
            files_done += range.len() as u64;
            bytes_done += files.iter().map(|file| file.bytes).sum::<u64>();
            range.zip(products).try_for_each(|(file, product)| assembly.take(file, product))?;
            progress.advanced(files_done, bytes_done);
            if progress.cancelled() { Err(BuildError::Cancelled) } else { Ok(()) }
        },
    )
}

/// Returns the room for the largest batch on each worker, and for as much that waits after it.
fn window(costs: &[u64], workers: usize) -> u64 {
    let largest = costs.iter().max().copied().unwrap_or_default();
    let room = largest.saturating_mul(2 * workers as u64);
    room.clamp(WINDOW_MIN_BYTES, WINDOW_MAX_BYTES)
}

/// Cuts the list into the batches that one worker processes at once.
fn batches(files: &[SourceFile]) -> Vec<Range<usize>> {
    let mut batches = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (number, file) in files.iter().enumerate() {
        let full = number - start == BATCH_FILES_MAX || bytes + file.bytes > BATCH_BYTES_MAX;
        if full && number > start {
            batches.push(start..number);
            (start, bytes) = (number, 0);
        }
        bytes += file.bytes;
    }
    if start < files.len() {
        batches.push(start..files.len());
    }
    batches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn batches_hold_every_file_once(
            sizes in prop::collection::vec(0..2 * BATCH_BYTES_MAX, 0..300),
        ) {
            let files: Vec<SourceFile> =
                sizes.iter().map(|&bytes| SourceFile { key: Box::default(), bytes }).collect();
            let batches = batches(&files);
            let all: Vec<usize> = batches.iter().cloned().flatten().collect();
            prop_assert_eq!(all, (0..files.len()).collect::<Vec<_>>());
            for batch in batches {
                let bytes: u64 = sizes[batch.clone()].iter().sum();
                prop_assert!(batch.len() == 1 || bytes <= BATCH_BYTES_MAX);
                prop_assert!((1..=BATCH_FILES_MAX).contains(&batch.len()));
            }
        }
    }
}
