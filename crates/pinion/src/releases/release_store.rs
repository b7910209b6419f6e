//! The releases in the folder `releases`: they are stored in whole or not at all, listed, removed.

use super::folder::ReleaseFolder;
use super::history::History;
use super::id::Id;
use super::release_switch::way_back;
use crate::failure::Failure;
use crate::lua_program_loader;
use crate::progress::Bar;
use crate::terminal::counted;
use anyhow::{Context as _, anyhow};
use pinion_archive::Layout;
use pinion_archive::layout::MAGIC;
use pinion_archive::verify::verify;
use pinion_builder::{DraftFile, remove_left_drafts};
use pinion_engine::file_mapping::{self, Mapping};
use pinion_engine::stderr;
use pinion_lua::script_quotas::Allowance;
use pinion_lua::shared_site_state::ScriptSite;
use std::fs::{self, File};
use std::io::{self, Read, Seek as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// Bytes that are copied between two checks for a cancellation.
const STEP_BYTES: u64 = 16 << 20;

/// The name that the drafts of arrivals are made from; none gets this name.
const ARRIVING: &str = "arriving";

/// An arriving archive: copied, verified, not stored as a release yet. It is locked for as long as
/// its process lives; an unlocked draft was left behind.
#[derive(Debug)]
pub(crate) struct Arrival {
    draft: DraftFile,
    /// Its digest.
    pub(crate) id: Id,
    /// Its size.
    pub(crate) bytes: u64,
    /// Its entries.
    pub(crate) paths: u64,
}

/// The origin of an archive.
pub(crate) struct ArchiveOrigin<'a> {
    /// The name in messages.
    pub(crate) shown: &'a str,
    /// Its bytes; copied within the kernel when it is a file.
    pub(crate) file: File,
    /// Their number, if it is known.
    pub(crate) bytes: Option<u64>,
}

/// Copies an archive into the folder and verifies the copy, which is the file that will be served.
///
/// # Errors
/// It is no archive, damaged or of another version, the disk is full, or `cancelled` became true.
pub(crate) fn take_in(
    folder: &ReleaseFolder,
    origin: &ArchiveOrigin<'_>,
    bar: &Bar,
    cancelled: &AtomicBool,
) -> Result<Arrival, Failure> {
    let releases = folder.releases();
    let arriving = releases.join(ARRIVING);
    remove_left_drafts(&arriving);
    let cannot = || format!("cannot copy {} to {}", origin.shown, releases.display());
    let draft = DraftFile::create(&arriving).with_context(cannot)?;
    let copied = copy(origin, draft.file(), bar, cancelled)?;
    copied.with_context(cannot)?;
    let file = draft.file().try_clone().with_context(cannot)?;
    let (id, bytes, paths) = verified(file, origin.shown, bar)?;
    bar.clear();
    Ok(Arrival { draft, id, bytes, paths })
}

impl Arrival {
    /// Runs its code once, as a server will; a static site has none.
    ///
    /// # Errors
    /// The first mistake, with file and line.
    pub(crate) fn prove(&self, shown: &str) -> Result<(), Failure> {
        let cannot = || format!("cannot read {shown}");
        let file = self.draft.file().try_clone().with_context(cannot)?;
        let mapping = Mapping::new(file, Vec::new()).with_context(cannot)?;
        let layout = Layout::open(mapping.bytes()).map_err(|error| anyhow!("{shown}: {error}"))?;
        let archive = layout.view(mapping.bytes());
        let (shown, site) = (Path::new(shown), ScriptSite::default());
        let proven = lua_program_loader::of_archive(&archive, shown, Allowance::default(), &site);
        let Some(reason) = proven.err().and_then(|failure| failure.reason()) else { return Ok(()) };
        Err(anyhow!(
            "{reason}; nothing was switched (--unproven switches without running the code)"
        )
        .into())
    }

    /// Stores it as a release; returns false when a whole one is there already. A damaged one is
    /// replaced.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn put(self, folder: &ReleaseFolder) -> Result<bool, Failure> {
        let file = folder.file(&self.id);
        let known = File::open(&file).ok();
        let is_whole = known.is_some_and(|known| {
            let checked = verified(known, "", &Bar::new(true));
            checked.is_ok_and(|(id, ..)| id == self.id)
        });
        if !is_whole {
            let cannot = || format!("cannot write {}", file.display());
            self.draft.publish_as(&file).with_context(cannot)?;
        }
        Ok(!is_whole)
    }
}

/// Returns the releases that are there, in no order.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn ids(folder: &ReleaseFolder) -> Result<Vec<Id>, Failure> {
    let releases = folder.releases();
    let cannot = || format!("cannot read {}", releases.display());
    let mut ids = Vec::new();
    for entry in fs::read_dir(&releases).with_context(cannot)? {
        ids.extend(Id::of_file(&entry.with_context(cannot)?.file_name()));
    }
    Ok(ids)
}

/// Returns the releases that are there, in the order in which they are kept: the current one, those
/// on the way back from it, the others by the time they were last current.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn in_order(
    folder: &ReleaseFolder,
    history: &History,
    current: Option<&Id>,
) -> Result<Vec<Id>, Failure> {
    let stored = ids(folder)?;
    let way = way_back(history, current, &stored);
    let mut order: Vec<Id> =
        current.filter(|id| stored.contains(id)).cloned().into_iter().collect();
    order.extend(way);
    let mut others: Vec<Id> = stored.into_iter().filter(|id| !order.contains(id)).collect();
    // Times in the log compare as texts; a release that was never current is as old as its file.
    let last_time = |id: &Id| match history.last_about(id) {
        Some(line) => line.time.clone(),
        None => super::history::rfc3339(modified(&folder.file(id))),
    };
    others.sort_by_cached_key(|id| std::cmp::Reverse((last_time(id), id.clone())));
    order.extend(others);
    Ok(order)
}

/// Removes the releases beyond the first `keep`, but never the current one and the one before. A
/// failed removal is reported, and the release stays until the next time.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn remove_old(
    folder: &ReleaseFolder,
    history: &History,
    current: &Id,
    keep: usize,
) -> Result<Vec<Id>, Failure> {
    let order = in_order(folder, history, Some(current))?;
    let mut removed = Vec::new();
    for id in order.into_iter().skip(keep.max(2)) {
        match fs::remove_file(folder.file(&id)) {
            Ok(()) => removed.push(id),
            Err(error) => {
                let short = id.short();
                stderr::line(format_args!("pinion: cannot remove the release {short}: {error}"));
            }
        }
    }
    Ok(removed)
}

fn modified(file: &Path) -> SystemTime {
    let modified = file.metadata().and_then(|metadata| metadata.modified());
    modified.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Copies all of it. The outer error is about where it comes from.
fn copy(
    origin: &ArchiveOrigin<'_>,
    to: &File,
    bar: &Bar,
    cancelled: &AtomicBool,
) -> Result<io::Result<()>, Failure> {
    let (mut from, mut to) = (&origin.file, to);
    let mut head = Vec::new();
    let read = from.take(MAGIC.len() as u64).read_to_end(&mut head);
    read.with_context(|| format!("cannot read {}", origin.shown))?;
    // Before a stream of anything else fills the disk.
    if head != MAGIC {
        return Err(anyhow!("{}: not a Pinion archive", origin.shown).into());
    }
    if let Err(error) = to.write_all(&head) {
        return Ok(Err(error));
    }
    let mut done = head.len() as u64;
    loop {
        if cancelled.load(Ordering::Relaxed) {
            return Err(anyhow!("cancelled; nothing was switched").into());
        }
        match io::copy(&mut from.take(STEP_BYTES), &mut to) {
            Ok(0) => return Ok(Ok(())),
            Ok(bytes) => done += bytes,
            Err(error) => return Ok(Err(error)),
        }
        bar.set(done, origin.bytes.unwrap_or(done).max(done), "copied");
        from = &origin.file;
    }
}

/// Checks every byte of an archive; returns its digest, its size and its number of entries.
///
/// # Errors
/// It is none, or damaged; `shown` names it.
pub(crate) fn verified(mut file: File, shown: &str, bar: &Bar) -> Result<(Id, u64, u64), Failure> {
    file_mapping::guard_lost_pages().context("cannot watch over mapped files")?;
    let cannot = || format!("cannot read {shown}");
    file.rewind().with_context(cannot)?;
    let bytes = file.metadata().with_context(cannot)?.len();
    let mapping = Mapping::new(file, Vec::new()).with_context(|| format!("cannot map {shown}"))?;
    let report = verify(mapping.bytes(), &mut |done, total| bar.set(done, total, "verified"));
    let report = report.map_err(|error| anyhow!("{shown}: {error}"))?;
    if let Some(damage) = report.damages.first() {
        let more = report.damages.len() as u64 - 1 + report.more_damages;
        let more =
            if more == 0 { String::new() } else { format!(" and {}", counted(more, "more place")) };
        return Err(anyhow!("{shown} is damaged: {damage}{more}; nothing was switched").into());
    }
    Ok((Id::from(report.digest), bytes, report.entries))
}

/// Returns the size and the number of entries of a release, without a look at its contents.
///
/// # Errors
/// It is no archive any more.
pub(crate) fn look(folder: &ReleaseFolder, id: &Id) -> Result<(u64, u64), Failure> {
    let mapping = crate::archive_file::map(&folder.file(id))?;
    let layout = Layout::open(mapping.bytes());
    let layout = layout.map_err(|error| anyhow!("release {}: {error}", id.short()))?;
    if Id::from(layout.digest()) != *id {
        let short = id.short();
        return Err(anyhow!("release {short} holds another archive than its name says").into());
    }
    Ok((layout.total_bytes(), layout.entry_count()))
}

#[cfg(test)]
mod tests {
    use super::super::folder::tests::{Scratch, id};
    use super::super::history::{Act, HistoryLine};
    use super::*;

    fn kept(acts: &str, keep: usize) -> String {
        let scratch = Scratch::new();
        let folder = ReleaseFolder::open_or_make(&scratch.0).expect("a folder");
        let mut history = History::default();
        let mut current = None;
        for (second, word) in (0..).zip(acts.split(' ')) {
            let (act, digit) = word.split_at(1);
            let act = if act == "+" { Act::Publish } else { Act::Rollback };
            let id = id(digit.chars().next().expect("a digit"));
            fs::write(folder.file(&id), "").expect("written");
            let time = crate::timestamp_format::rfc3339(second);
            let line = HistoryLine { time, id: id.clone(), act, who: "-".to_owned() };
            history.append(&folder, line).expect("written");
            current = Some(id);
        }
        let current = current.expect("a release");
        remove_old(&folder, &history, &current, keep).expect("removed");
        let order = in_order(&folder, &history, Some(&current)).expect("an order");
        order.iter().map(|id| &id.as_str()[..1]).collect()
    }

    #[test]
    fn the_newest_and_the_previous_release_are_kept() {
        assert_eq!(kept("+a +b +c +d +e +f", 5), "fedcb");
        assert_eq!(kept("+a +b +c", 5), "cba");
        // The current release and the previous one are never removed.
        assert_eq!(kept("+a +b +c", 1), "cb");
        // The previous release is the one that a step back leads to, whatever is newer.
        assert_eq!(kept("+a +b +c +d -a +e", 2), "ea");
        assert_eq!(kept("+a +b +c +d -a +e", 3), "ead");
    }
}
