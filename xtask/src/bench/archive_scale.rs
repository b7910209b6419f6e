//! `cargo xtask bench scale`: the cost of an archive of very many files: bytes, memory of its
//! build, and the time from the start of a server to its first response from it, compared with a
//! small site, a script, and verbs that print something.

use super::figure_table::{self, Figure};
use super::runs::Run;
use super::sample_sites::{self, Tree};
use super::started_server::Started;
use super::statistics::Spread;
use super::{process_cost, release_binary};
use crate::{process, workspace_paths};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const USAGE: &str = "\
usage: cargo xtask bench scale [OPTIONS]
  --rounds N     how often the server is started [15]
  --name NAME    the run's name [the host's]";

/// The goal for the size of 1 000 000 notes.
const NOTES_GOAL_MB: f64 = 300.0;
/// The goal for the time from the start of a server to its first response.
const START_GOAL_MS: f64 = 10.0;
/// The same goal if a script starts first.
const SCRIPT_START_GOAL_MS: f64 = 20.0;
/// The goal for the time of a verb that prints something and ends.
const VERB_GOAL_MS: f64 = 10.0;
/// The goal for the bytes of an archive besides its bodies, for each path.
const PATH_GOAL_BYTES: f64 = 256.0;

/// An archive that was built.
struct Archive {
    path: PathBuf,
    bytes: u64,
    body_bytes: u64,
    paths: u64,
    build_peak_bytes: u64,
}

/// Measures and records both sites as one part of today's run.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (rounds, name) = super::rounds_and_name(arguments, 15, USAGE)?;
    let (pinion, state) = (release_binary::binary()?, release_binary::state()?);
    let mut figures = Vec::new();

    let notes = build(&pinion, &state, &sample_sites::notes(&state)?)?;
    let starts = starts(&pinion, &notes.path, rounds)?;
    figures.push(
        Figure::of("1 000 000 notes: archive, MB", notes.bytes as f64 / 1e6).at_most(NOTES_GOAL_MB),
    );
    let notes_start = "1 000 000 notes: ms from start to the first answer";
    figures.push(Figure::spread(notes_start, &starts).at_most(START_GOAL_MS));
    let small = small_starts(&pinion, &state, rounds)?;
    for (name, spread, goal) in &small {
        figures.push(Figure::spread(*name, spread).at_most(*goal));
    }
    figures.push(notes.build_peak("1 000 000 notes: most memory of the build, MB"));
    let [at_first, later] = own_bytes(&pinion, &notes.path)?.map(|bytes| bytes as f64 / 1e6);
    figures.push(Figure::of("1 000 000 notes: memory of the server's own, MB", at_first));
    figures.push(Figure::of("the same after 10 000 look-ups, MB", later));

    let tiles = build(&pinion, &state, &sample_sites::tiles(&state)?)?;
    figures.push(
        Figure::of("250 000 tiles: bytes for each path beside the bodies", tiles.each())
            .at_most(PATH_GOAL_BYTES),
    );
    figures.push(tiles.build_peak("250 000 tiles: most memory of the build, MB"));

    let report = markdown(&figures, rounds);
    let mut run = Run::open(name)?;
    let data = json!({
        "start_ms": starts.data(), "notes": notes.data(), "tiles": tiles.data(),
        "server_mb": at_first, "server_after_lookups_mb": later,
        "small": small.iter().map(|(name, spread, _)| json!({ "name": name, "ms": spread.data() }))
            .collect::<Vec<_>>(),
    });
    run.record("scale", &report, &data)?;
    println!("\n== scale\n\n{report}");
    eprintln!("recorded in {}", run.shown());
    fs::remove_file(notes.path)?;
    fs::remove_file(tiles.path)?;
    Ok(())
}

/// Builds a site with the default codings.
fn build(pinion: &Path, state: &Path, tree: &Tree) -> Result<Archive> {
    let path = state.join(format!("scale-{}.pinion", tree.files));
    let mut command = Command::new(pinion);
    let build_peak_bytes =
        process_cost::peak_bytes(command.arg("build").arg(&tree.root).arg("-o").arg(&path))?;
    let mut inspect = Command::new(pinion);
    let figures = process::output(inspect.arg("inspect").arg(&path).arg("--json"))?;
    let figures: Value = serde_json::from_str(&figures)?;
    let figure = |part: &Value| part.as_u64().context("pinion inspect tells no such figure");
    Ok(Archive {
        bytes: figure(&figures["bytes"])?,
        body_bytes: figure(&figures["bodies"]["stored_bytes"])?,
        paths: figure(&figures["paths"]["total"])?,
        path,
        build_peak_bytes,
    })
}

impl Archive {
    /// Returns the bytes for each path besides the bodies.
    fn each(&self) -> f64 {
        (self.bytes - self.body_bytes) as f64 / self.paths as f64
    }

    fn build_peak(&self, name: &'static str) -> Figure {
        Figure::of(name, self.build_peak_bytes as f64 / 1e6)
    }

    fn data(&self) -> Value {
        json!({
            "archive_bytes": self.bytes,
            "body_bytes": self.body_bytes,
            "paths": self.paths,
            "build_peak_bytes": self.build_peak_bytes,
        })
    }
}

fn markdown(figures: &[Figure], rounds: usize) -> String {
    format!(
        "The server was started {rounds} times, its archive in the page cache; the median counts, \
         in brackets the least and the most.\n\n{}",
        figure_table::table(figures)
    )
}

/// Returns the anonymous memory of a server after its first response and after many: the part of
/// the cost of an index that is not a mapped file.
fn own_bytes(pinion: &Path, archive: &Path) -> Result<[u64; 2]> {
    const LOOK_UPS: u64 = 10_000;
    let (server, _) = Started::start(pinion, archive, &note(0))?;
    let at_first = server.own_bytes()?;
    for number in 0..LOOK_UPS {
        server.ask(&note(number))?;
    }
    Ok([at_first, server.own_bytes()?])
}

/// Returns the path of a note, a different one for each of many numbers.
fn note(number: u64) -> String {
    format!("/{:03}/{:03}.json", number * 67 % 1000, number * 389 / 1000 % 1000)
}

/// Measures the milliseconds of small starts, each with its goal: a site of a few files, one
/// script, and verbs.
fn small_starts(
    pinion: &Path,
    state: &Path,
    rounds: usize,
) -> Result<Vec<(&'static str, Spread, f64)>> {
    let archive = state.join("start.pinion");
    let example = workspace_paths::root().join("examples/site");
    process::output(Command::new(pinion).arg("build").arg(&example).arg("-o").arg(&archive))?;
    let script = state.join("start.lua");
    fs::write(&script, "pinion.get('/', function() return 'hello' end)\nprint('hello')\n")?;
    let guestbook = workspace_paths::root().join("examples/guestbook");
    let mut starts = Vec::new();
    for (name, site, goal) in [
        ("small archive: ms from start to the first answer", &archive, START_GOAL_MS),
        ("small folder: ms from start to the first answer", &example, START_GOAL_MS),
        ("small script: ms from start to the first answer", &script, SCRIPT_START_GOAL_MS),
        ("guestbook: ms from start to the first answer", &guestbook, SCRIPT_START_GOAL_MS),
    ] {
        let times =
            (0..rounds).map(|_| Ok(Started::start(pinion, site, "/")?.1.as_secs_f64() * 1e3));
        let times: Result<Vec<f64>> = times.collect();
        starts.push((name, Spread::of(times?).context("at least one start")?, goal));
    }
    let path = script.to_str().context("a path that is text")?;
    for (name, words) in [
        ("pinion version: ms", &["version"][..]),
        ("pinion check SCRIPT: ms", &["check", path]),
        ("pinion run SCRIPT: ms", &["run", path]),
    ] {
        let times = (0..rounds).map(|_| {
            let began = Instant::now();
            process::output(Command::new(pinion).args(words))?;
            Ok(began.elapsed().as_secs_f64() * 1e3)
        });
        let times: Result<Vec<f64>> = times.collect();
        starts.push((name, Spread::of(times?).context("at least one run")?, VERB_GOAL_MS));
    }
    Ok(starts)
}

/// Measures the milliseconds from the start of a server to its first response.
fn starts(pinion: &Path, archive: &Path, rounds: usize) -> Result<Spread> {
    let times: Result<Vec<f64>> = (0..rounds as u64)
        .map(|round| {
            // The file differs each time, because the pages of a single one would always be in the
            // cache.
            let (_server, took) = Started::start(pinion, archive, &note(round * 1031))?;
            Ok(took.as_secs_f64() * 1e3)
        })
        .collect();
    Spread::of(times?).context("at least one start")
}
