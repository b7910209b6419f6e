//! A file that appears under its name complete, or not at all, and the file of fingerprints beside
//! it.
//!
//! It is written under another name in the same folder, synced, renamed, and the folder synced: a
//! reader, a crash or a full disk sees the old file or the new one. On an error the file under the
//! other name is removed. After a crash it may stay, hidden, until a later build to the same place
//! removes it. A link is switched in the same way.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Instant;

use pinion_archive::WriteError;

use crate::assemble::Earlier;
use crate::body_reuse::{NotReusable, OwnArchive};
use crate::build::{ReusableParts, build_reusing};
use crate::error::{BuildError, Reason};
use crate::kernel_body_copy::KernelCopier;
use crate::options::Options;
use crate::output_path::OutputPath;
use crate::progress::Progress;
use crate::summary::Summary;
use crate::temporary_file::{DraftFile, folder_of, remove_left_drafts, under_another_name};
use crate::walk::consistent_file_read::OpenSource;
use crate::walk::file_metadata::{FileId, id_of};
use crate::walk::source_stamp::SourceStamp;
use crate::walk::stat_cache::{self, StatCache, StatCacheWriter};
use crate::warning::Warning;

/// Builds the folder `source` into the archive file `out`. An older archive there stays in use,
/// whole, until the new one takes its place; it is not part of the new one even if it lies in the
/// folder. A link stays, and the archive goes to where it leads. A file that is neither an archive
/// nor empty is not replaced; see [`Options::force`].
///
/// # Errors
/// The errors of [`build`](crate::build()), [`BuildError::Occupied`] and [`BuildError::Output`].
/// After an error `out` is as it was, but for one: if the folder cannot be synced, the new archive
/// is in place and may be lost in a crash.
pub fn build_file(
    source: &Path,
    options: &Options,
    out: &Path,
    progress: &dyn Progress,
) -> Result<Summary, BuildError> {
    build_file_after(Earlier::default(), source, options, out, progress)
}

/// Works like [`build_file`], and carries over the assets of earlier archives that the folder no
/// longer has, as they were: files whose names change with their content, and those of
/// [`Earlier::also`].
///
/// # Errors
/// The errors of [`build_file`], and [`BuildError::Previous`].
pub fn build_file_after(
    earlier: Earlier<'_>,
    source: &Path,
    options: &Options,
    out: &Path,
    progress: &dyn Progress,
) -> Result<Summary, BuildError> {
    let begin = Instant::now();
    let build = |file: &File, out: &Path| {
        let stat_cache = stat_cache::path_for(out).filter(|_| options.reuse);
        let is_foreign = stat_cache.as_deref().is_some_and(stat_cache::is_foreign);
        let stat_cache = stat_cache.filter(|_| !is_foreign);
        let cache_draft = stat_cache.as_deref().and_then(|path| DraftFile::create(path).ok());
        let reusable_parts = || {
            let mut reusable = find_reusable(options, out, stat_cache.as_deref());
            let cache = cache_draft.as_ref().and_then(|draft| draft.file().try_clone().ok());
            reusable.stat_cache_writer =
                cache.and_then(|cache| StatCacheWriter::new(cache, options.now).ok());
            reusable.warnings.extend(is_foreign.then_some(Warning::StatCacheNotWritten));
            let kernel_copier = kernel_copier(&reusable, file);
            ReusableParts { earlier, kernel_copier, ..reusable }
        };
        let own = [Some(out), stat_cache.as_deref()];
        let own: Vec<FileId> = own.into_iter().flatten().filter_map(id_of).collect();
        let (built, cache_writer) =
            build_reusing(source, options, &own, reusable_parts, file, progress)?;
        // The last archive's room that this one did not need.
        file.set_len(built.summary.archive_bytes).map_err(WriteError::Output)?;
        let summary = Summary { elapsed: begin.elapsed(), ..built.summary };
        Ok::<_, BuildError>((summary, cache_writer, cache_draft))
    };
    let ((mut summary, cache_writer, cache_draft), stamp) =
        write_and_rename(out, options.force, build)?;
    if let Some(mut draft) = cache_draft {
        let own = OwnArchive { digest: summary.digest, stamp };
        let finished = cache_writer.is_some_and(|writer| writer.finish(&own).is_ok());
        // Not synced: a file that is lost in a crash costs the next build time and nothing else.
        if !finished || draft.rename().is_err() {
            summary.warnings.push(Warning::StatCacheNotWritten);
        }
    }
    Ok(summary)
}

/// Creates a file, has it written by `write`, and renames it to `out`. `write` gets the empty file
/// and its later path. Returns the stamp of the file under its final name.
pub(crate) fn write_and_rename<T, E: From<BuildError>>(
    out: &Path,
    force: bool,
    write: impl FnOnce(&File, &Path) -> Result<T, E>,
) -> Result<(T, SourceStamp), E> {
    let place = OutputPath::find(out, force)?;
    let out = place.path();
    // First: drafts that were left behind may have filled the disk.
    remove_left_drafts(out);
    if let Some(stat_cache) = stat_cache::path_for(out) {
        remove_left_drafts(&stat_cache);
    }
    let draft = DraftFile::create(out).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            place.cannot(io::Error::new(error.kind(), "no such folder; create it first"))
        }
        _ => place.cannot(error),
    })?;
    let result = write(draft.file(), out)?;
    // Once more: a build can take long enough for others to put something here.
    place.check()?;
    let stamp = draft.publish().map_err(|error| place.cannot(error))?;
    Ok((result, stamp))
}

/// Finds the parts that a build can reuse from the last one in the same place, and from others.
/// `stat_cache` is the path of the stat cache of the last one.
fn find_reusable(
    options: &Options,
    out: &Path,
    stat_cache: Option<&Path>,
) -> ReusableParts<'static> {
    let stat_cache = stat_cache.and_then(StatCache::read);
    let mut reusable = ReusableParts { stat_cache, ..ReusableParts::default() };
    if options.reuse
        && let Ok(file) = open_regular(out)
    {
        let own = reusable.stat_cache.as_ref().map(|cache| cache.archive);
        // An error does not matter: the archive is about to be replaced.
        let _ = reusable.reuse.add(file, own);
    }
    for path in &options.reuse_from {
        // It may come from anywhere: its bodies have to prove themselves.
        let added = open_regular(path).map_err(NotReusable::Unreadable);
        if let Err(why) = added.and_then(|file| reusable.reuse.add(file, None)) {
            reusable.warnings.push(Warning::NotReused(path.clone(), why.to_string()));
        }
        // An operator who gives each archive a name of its own has the fingerprints beside the last
        // one. They are believed: no other program writes there (docs/building.md).
        if options.reuse && reusable.stat_cache.is_none() {
            reusable.stat_cache = stat_cache_of(path);
        }
    }
    reusable
}

/// Returns the stat cache beside another archive, at the end of its links.
fn stat_cache_of(archive: &Path) -> Option<StatCache> {
    let archive = fs::canonicalize(archive).ok()?;
    StatCache::read(&stat_cache::path_for(&archive)?)
}

/// Returns the copier of bodies, if the kernel can copy them from the archive that is replaced to
/// `out`.
fn kernel_copier(reusable: &ReusableParts<'_>, out: &File) -> Option<KernelCopier> {
    let (from, stamp) = reusable.reuse.carries()?;
    KernelCopier::start(from, stamp, out.try_clone().ok()?)
}

/// Opens a file for reading, and nothing that is none: a pipe would make the build wait.
fn open_regular(path: &Path) -> io::Result<File> {
    match OpenSource::open(path) {
        Ok(source) => Ok(source.into_file()),
        Err(Reason::Unreadable(error)) => Err(error),
        Err(reason) => Err(io::Error::other(reason.to_string())),
    }
}

/// Lets the link `link` lead to `target`, which is synced: a reader or a crash sees the old link or
/// the new one. After a crash `.NAME.draft-PROCESS-NUMBER.tmp` may stay beside it.
///
/// # Errors
/// The error of the system. If only the folder cannot be synced, the link is switched and may be
/// the old one again after a crash.
pub fn switch_link(link: &Path, target: &Path) -> io::Result<()> {
    let ((), draft) = under_another_name(link, |path| symlink(target, path))?;
    if let Err(error) = fs::rename(&draft, link) {
        // The first error is the one to be reported.
        let _ = fs::remove_file(&draft);
        return Err(error);
    }
    File::open(folder_of(link))?.sync_all()
}
