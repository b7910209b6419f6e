//! `pinion publish FILE DIR`: makes an archive the one that is served.

use super::rollback;
use crate::archive_file::{self, ArchiveFile};
use crate::failure::Failure;
use crate::json_failure_document::text;
use crate::progress::{Bar, hear_signals};
use crate::releases::folder::ReleaseFolder;
use crate::releases::history::Act;
use crate::releases::id::Id;
use crate::releases::release_location::ReleaseLocation;
use crate::releases::release_store::{self, ArchiveOrigin};
use crate::releases::remote::{Load, Remote};
use crate::settings::Publish;
use crate::terminal::{TerminalStyle, counted, size};
use anyhow::Context as _;
use pinion_engine::stderr;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// FILE for an archive that comes on stdin.
pub(crate) const STDIN: &str = "-";

/// The result for an archive. The member names are part of the `--json` contract: members are
/// added, never renamed or removed.
#[derive(Debug, Serialize, Deserialize)]
struct Published {
    /// The text as written.
    archive: String,
    /// The text as written.
    folder: String,
    /// The digest of the current release.
    digest: String,
    /// It was current before, and nothing was switched.
    already_current: bool,
    /// It was current before and damaged, and is whole again.
    mended: bool,
    /// The digest of the release before; null for the first.
    previous: Option<String>,
    /// Size of the archive.
    bytes: u64,
    /// Its entries.
    paths: u64,
    /// The digests of old releases that were removed.
    removed: Vec<String>,
    /// Whether a running server has it; null when none had a release of the folder in use.
    taken_up: Option<bool>,
    seconds: f64,
}

/// Publishes, and reports the result.
pub(crate) fn run(publish: &Publish) -> Result<(), Failure> {
    let published = match &publish.folder {
        ReleaseLocation::Here(path) => here(publish, path)?,
        ReleaseLocation::There(remote) => there(publish, remote)?,
    };
    if publish.json {
        let document = serde_json::to_string(&published).map_err(io::Error::from)?;
        writeln!(io::stdout().lock(), "{document}")?;
    } else {
        print_report(&published, TerminalStyle::of_stderr());
    }
    Ok(())
}

/// Publishes into a folder of this machine.
fn here(publish: &Publish, path: &Path) -> Result<Published, Failure> {
    let began = Instant::now();
    let shown = shown(&publish.file);
    let (origin, cancelled) = origin(&publish.file, &shown)?;
    let folder = ReleaseFolder::open_or_make(path)?;
    let bar = Bar::new(publish.json);
    let arrival = release_store::take_in(&folder, &origin, &bar, &cancelled);
    bar.clear();
    let arrival = arrival?;
    if !publish.unproven {
        arrival.prove(&shown)?;
    }
    let (id, bytes, paths) = (arrival.id.clone(), arrival.bytes, arrival.paths);
    let mut turn = folder.turn(&cancelled)?;
    let is_new = arrival.put(&folder)?;
    let is_current = turn.current() == Some(&id);
    let mut published = Published {
        archive: text(&publish.file),
        folder: text(path),
        digest: id.to_string(),
        already_current: is_current,
        mended: is_current && is_new,
        previous: turn.current().map(Id::to_string),
        bytes,
        paths,
        removed: Vec::new(),
        taken_up: None,
        seconds: 0.0,
    };
    if !published.already_current {
        let switched = turn.switch_to(&id, Act::Publish)?;
        let removed = release_store::remove_old(&folder, turn.history(), &id, publish.keep)?;
        published.removed = removed.iter().map(Id::to_string).collect();
        // A process that waits for the folder need not wait for the server too.
        drop(turn);
        published.taken_up = switched.is_taken_up();
    }
    published.seconds = began.elapsed().as_secs_f64();
    Ok(published)
}

/// Publishes into a folder of another machine.
fn there(publish: &Publish, remote: &Remote) -> Result<Published, Failure> {
    let began = Instant::now();
    let shown = shown(&publish.file);
    let bar = Bar::new(publish.json);
    let (file, bytes) = if publish.file == Path::new(STDIN) {
        (stdin()?, None)
    } else {
        // Verified on this side already: a damaged archive need not be sent.
        let (_, bytes, _) =
            release_store::verified(archive_file::open(&publish.file)?, &shown, &bar)?;
        (archive_file::open(&publish.file)?, Some(bytes))
    };
    let keep = publish.keep.to_string();
    let mut before = vec!["publish", "--json", "--keep", &keep];
    before.extend(publish.unproven.then_some("--unproven"));
    before.extend(["--", STDIN]);
    let load = Load { file: &file, bytes };
    let response = remote.ask(&publish.remote_pinion, &before, None, Some(&load), &bar)?;
    Ok(Published {
        archive: text(&publish.file),
        folder: publish.folder.text(),
        seconds: began.elapsed().as_secs_f64(),
        ..response
    })
}

/// Opens FILE; a file that is no archive at all is refused before anything is copied. Ctrl-C leaves
/// nothing behind; while stdin is read it ends the program as it ends any other.
fn origin<'a>(
    file: &Path,
    shown: &'a str,
) -> Result<(ArchiveOrigin<'a>, Arc<AtomicBool>), Failure> {
    if file == Path::new(STDIN) {
        return Ok((ArchiveOrigin { shown, file: stdin()?, bytes: None }, Arc::default()));
    }
    let bytes = ArchiveFile::open(file)?.view().layout().total_bytes();
    let origin = ArchiveOrigin { shown, file: archive_file::open(file)?, bytes: Some(bytes) };
    Ok((origin, hear_signals()?))
}

fn stdin() -> Result<File, Failure> {
    if io::stdin().is_terminal() {
        return Err(Failure::usage("FILE is -, but stdin is a terminal and no archive"));
    }
    let stdin = io::stdin().as_fd().try_clone_to_owned().context("cannot read stdin")?;
    Ok(File::from(stdin))
}

/// Returns FILE for messages.
fn shown(file: &Path) -> String {
    if file == Path::new(STDIN) { "stdin".to_owned() } else { file.display().to_string() }
}

fn print_report(published: &Published, style: TerminalStyle) {
    let (id, folder) = (rollback::short(&published.digest), style.bold(&published.folder));
    if published.already_current {
        let mended = if published.mended { "; it was damaged, and is whole again" } else { "" };
        stderr::line(format_args!("{folder}: {id} is current already{mended}"));
        return;
    }
    let (size, paths) = (size(published.bytes), counted(published.paths, "path"));
    stderr::line(format_args!("{folder}: {} {id}, {size}, {paths}", style.green("published")));
    rollback::print_switch(published.previous.as_deref(), published.taken_up, style);
    if !published.removed.is_empty() {
        let removed: Vec<&str> = published.removed.iter().map(|id| rollback::short(id)).collect();
        stderr::line(format_args!("removed {}", removed.join(", ")));
    }
}
