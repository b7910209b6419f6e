//! `pinion rollback DIR [N]`: makes an earlier release the served one again.

use crate::failure::Failure;
use crate::json_failure_document::text;
use crate::progress::{Bar, hear_signals};
use crate::releases::folder::ReleaseFolder;
use crate::releases::history::Act;
use crate::releases::id::Id;
use crate::releases::release_location::ReleaseLocation;
use crate::releases::release_store;
use crate::releases::remote::Remote;
use crate::settings::Rollback;
use crate::terminal::TerminalStyle;
use pinion_engine::stderr;
use serde::{Deserialize, Serialize};
use std::io::{self, Write as _};
use std::path::Path;

/// The result of a rollback. The member names are part of the `--json` contract.
#[derive(Debug, Serialize, Deserialize)]
struct RolledBack {
    /// The text as written.
    folder: String,
    /// The digest of the current release.
    digest: String,
    /// It was current before, and nothing was switched.
    already_current: bool,
    /// The digest of the release before.
    previous: Option<String>,
    /// Whether a running server has it; null when none had the one before in use.
    taken_up: Option<bool>,
}

/// Rolls back, and reports the current release.
pub(crate) fn run(rollback: &Rollback) -> Result<(), Failure> {
    let done = match &rollback.folder {
        ReleaseLocation::Here(path) => here(rollback, path)?,
        ReleaseLocation::There(remote) => there(rollback, remote)?,
    };
    if rollback.json {
        let document = serde_json::to_string(&done).map_err(io::Error::from)?;
        writeln!(io::stdout().lock(), "{document}")?;
    } else {
        print_report(&done, TerminalStyle::of_stderr());
    }
    Ok(())
}

/// Rolls back in a folder of this machine.
fn here(rollback: &Rollback, path: &Path) -> Result<RolledBack, Failure> {
    let folder = ReleaseFolder::open(path)?;
    let cancelled = hear_signals()?;
    let mut turn = folder.turn(&cancelled)?;
    let id = turn.find(&rollback.back)?;
    let mut done = RolledBack {
        folder: text(path),
        digest: id.to_string(),
        already_current: turn.current() == Some(&id),
        previous: turn.current().map(Id::to_string),
        taken_up: None,
    };
    if !done.already_current {
        // It was verified when it came. A release that no server could open is refused here.
        release_store::look(&folder, &id)?;
        let switched = turn.switch_to(&id, Act::Rollback)?;
        drop(turn);
        done.taken_up = switched.is_taken_up();
    }
    Ok(done)
}

/// Rolls back in a folder of another machine.
fn there(rollback: &Rollback, remote: &Remote) -> Result<RolledBack, Failure> {
    let (before, back) = (["rollback", "--json", "--"], rollback.back.to_string());
    let bar = Bar::new(true);
    let response = remote.ask(&rollback.remote_pinion, &before, Some(&back), None, &bar)?;
    Ok(RolledBack { folder: rollback.folder.text(), ..response })
}

fn print_report(done: &RolledBack, style: TerminalStyle) {
    let (id, folder) = (short(&done.digest), style.bold(&done.folder));
    if done.already_current {
        stderr::line(format_args!("{folder}: {id} is current already"));
        return;
    }
    stderr::line(format_args!("{folder}: {} to {id}", style.green("rolled back")));
    print_switch(done.previous.as_deref(), done.taken_up, style);
}

/// Returns enough of a digest for people.
pub(super) fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// Reports the release before a switch, and whether a server has loaded the new one.
pub(super) fn print_switch(previous: Option<&str>, taken_up: Option<bool>, style: TerminalStyle) {
    if let Some(previous) = previous {
        stderr::line(format_args!("before: {}", short(previous)));
    }
    match taken_up {
        Some(true) => stderr::line(format_args!("the running server has taken it up")),
        Some(false) => stderr::line(format_args!(
            "{}: the running server has not taken it up yet; its messages may say why",
            style.yellow("warning")
        )),
        None => {}
    }
}
