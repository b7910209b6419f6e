//! `pinion releases DIR`: lists the stored releases, and the current one.

use crate::failure::Failure;
use crate::json_failure_document::text;
use crate::progress::Bar;
use crate::releases::folder::ReleaseFolder;
use crate::releases::history::History;
use crate::releases::id::Id;
use crate::releases::release_location::ReleaseLocation;
use crate::releases::release_store;
use crate::releases::release_switch::way_back;
use crate::releases::remote::Remote;
use crate::settings::Releases;
use crate::terminal::{Align, Columns, TerminalStyle, count, size};
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::Path;

/// The releases of a folder. The member names are part of the `--json` contract.
#[derive(Debug, Serialize, Deserialize)]
struct ReleaseList {
    /// The text as written.
    folder: String,
    /// The digest of the release that is served.
    current: Option<String>,
    /// The current one first, then in the order in which they are kept.
    releases: Vec<Release>,
}

/// One release.
#[derive(Debug, Serialize, Deserialize)]
struct Release {
    /// The digest of its archive.
    digest: String,
    /// Whether it is the one that is served.
    current: bool,
    /// The number of steps back to it; null when it is not on the way back.
    back: Option<u64>,
    /// The time when it was published, RFC 3339, UTC; null when unknown.
    published: Option<String>,
    /// The user who published it.
    by: Option<String>,
    /// Size of the archive; null when it is damaged.
    bytes: Option<u64>,
    /// Its entries.
    paths: Option<u64>,
    /// The damage of the release.
    error: Option<String>,
}

/// Lists them, for people or as JSON.
pub(crate) fn run(releases: &Releases) -> Result<(), Failure> {
    let listed = match &releases.folder {
        ReleaseLocation::Here(path) => here(path)?,
        ReleaseLocation::There(remote) => there(releases, remote)?,
    };
    let mut out = io::stdout().lock();
    if releases.json {
        let document = serde_json::to_string(&listed).map_err(io::Error::from)?;
        writeln!(out, "{document}")?;
    } else {
        write_text(&listed, &mut out, TerminalStyle::of_stdout())?;
    }
    Ok(())
}

/// Returns the list of a folder of this machine.
fn here(path: &Path) -> Result<ReleaseList, Failure> {
    let folder = ReleaseFolder::open(path)?;
    let history = History::read(&folder);
    let history = history.with_context(|| format!("cannot read {}", folder.log().display()))?;
    let current = folder.current();
    let order = release_store::in_order(&folder, &history, current.as_ref())?;
    let way = way_back(&history, current.as_ref(), &order);
    let releases = order.iter().map(|id| release(&folder, &history, current.as_ref(), &way, id));
    Ok(ReleaseList {
        folder: text(path),
        current: current.as_ref().map(Id::to_string),
        releases: releases.collect(),
    })
}

/// Returns the list of a folder of another machine.
fn there(releases: &Releases, remote: &Remote) -> Result<ReleaseList, Failure> {
    let before = ["releases", "--json", "--"];
    let response = remote.ask(&releases.remote_pinion, &before, None, None, &Bar::new(true))?;
    Ok(ReleaseList { folder: releases.folder.text(), ..response })
}

fn release(
    folder: &ReleaseFolder,
    history: &History,
    current: Option<&Id>,
    way: &[Id],
    id: &Id,
) -> Release {
    let line = history.published(id);
    let look = release_store::look(folder, id);
    let figures = look.as_ref().ok();
    let steps = way.iter().position(|other| other == id);
    Release {
        digest: id.to_string(),
        current: current == Some(id),
        back: steps.map(|steps| steps as u64 + 1),
        published: line.map(|line| line.time.clone()),
        by: line.map(|line| line.who.clone()).filter(|who| who != "-"),
        bytes: figures.map(|(bytes, _)| *bytes),
        paths: figures.map(|(_, paths)| *paths),
        error: look.as_ref().err().and_then(Failure::reason),
    }
}

fn write_text(listed: &ReleaseList, out: &mut impl Write, style: TerminalStyle) -> io::Result<()> {
    const ALIGNS: [Align; 7] = [
        Align::Left,
        Align::Left,
        Align::Right,
        Align::Left,
        Align::Left,
        Align::Right,
        Align::Right,
    ];
    let heads = ["", "release", "back", "published", "by", "size", "paths"];
    let mut rows = vec![heads.map(|head| style.dim(head))];
    rows.extend(listed.releases.iter().map(|release| cells(release, style)));
    for line in Columns::new(ALIGNS).lines(&rows) {
        writeln!(out, "{line}")?;
    }
    for release in &listed.releases {
        if let Some(error) = &release.error {
            writeln!(out, "{}: {error}", style.red("damaged"))?;
        }
    }
    Ok(())
}

fn cells(release: &Release, style: TerminalStyle) -> [String; 7] {
    let short = super::rollback::short(&release.digest);
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    [
        if release.current { "*".to_owned() } else { String::new() },
        if release.current { style.bold(short) } else { short.to_owned() },
        release.back.map(count).unwrap_or_default(),
        known(&release.published),
        known(&release.by),
        release.bytes.map_or_else(|| style.red("damaged"), size),
        release.paths.map(count).unwrap_or_default(),
    ]
}
