//! The cost of a rebuild after one change, the use of two cores by a build, and the memory of a
//! build of very many files.

use super::super::figure_table::{self, Figure};
use super::super::process_cost::{self, Cost};
use super::super::runs::Run;
use super::super::sample_sites::{self, Tree};
use super::super::statistics::Spread;
use super::{Cores, remove};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// The goal for a rebuild, without the final wait for the disk.
const REBUILD_GOAL_SECONDS: f64 = 1.0;
/// The goal for the CPU time of a build on all cores, relative to a single core.
const CORES_GOAL_RATIO: f64 = 1.1;
/// The goal for the share of the CPU time of all cores that a build uses.
const BUSY_GOAL: f64 = 0.9;
/// The goal for the memory of a build for each file, besides the largest file on each core.
const MEMORY_GOAL_BYTES: f64 = 512.0;

/// A build with its summary.
struct Build {
    cost: Cost,
    summary: Value,
}

/// Builds a site of 100 000 files on one core and on all, then repeatedly after one change.
pub(super) fn rebuild(pinion: &Path, state: &Path, rounds: usize, run: &mut Run) -> Result<()> {
    let tree = sample_sites::files(state)?;
    let archive = Place::new(state, "rebuild")?;
    // The first reading of the files is not counted.
    archive.build(pinion, &tree, &["--codings", "identity"], Cores::All)?;
    let measured: Vec<Round> = (0..rounds)
        .map(|round| {
            let measured = Round::run(&archive, pinion, &tree, round)?;
            let Round { rebuild, copy, build, .. } = &measured;
            eprintln!(
                "  rebuild {}/{rounds}: {rebuild:.2} s, cp {copy:.2} s, a build {build:.1} s",
                round + 1
            );
            Ok(measured)
        })
        .collect::<Result<_>>()?;
    let figure = |name, of: fn(&Round) -> f64| -> Result<(Figure, Value)> {
        let spread = Spread::of(measured.iter().map(of).collect::<Vec<_>>())
            .context("at least one round")?;
        let figure = Figure { shown: spread.shown(3), ..Figure::of(name, spread.median) };
        Ok((figure, spread.data()))
    };
    let (rebuilds, rebuild_data) = figure("rebuild after one change, s", |round| round.rebuild)?;
    let (cpu, cpu_data) = figure("CPU of that, s", |round| round.cpu)?;
    let (copies, copy_data) = figure("`cp` of the archive, s", |round| round.copy)?;
    let (ratios, ratio_data) =
        figure("CPU of a build on all cores over that on one", |round| round.ratio)?;
    let (busy, busy_data) = figure("how busy the cores are in a build", |round| round.busy)?;
    let figures = [
        rebuilds.at_most(REBUILD_GOAL_SECONDS),
        cpu,
        copies,
        ratios.at_most(CORES_GOAL_RATIO),
        busy.at_least(BUSY_GOAL),
    ];
    let text = format!(
        "100 000 generated files of 256 B to 16 KiB, evenly spread, in 1 000 folders, all in the \
         page cache; the default codings; times without the wait for the disk at the end. What \
         `cp` takes is how fast the machine has memory for as many bytes: a rebuild copies them \
         too. {rounds} rounds: the median, in brackets the least and the most.\n\n{}",
        figure_table::table(&figures)
    );
    println!("\n== rebuild\n\n{text}");
    let data = json!({
        "rebuild_seconds": rebuild_data, "rebuild_cpu_seconds": cpu_data,
        "copy_seconds": copy_data, "cores_cpu_ratio": ratio_data, "busy": busy_data,
    });
    run.record("rebuild", &text, &data)?;
    archive.remove()
}

/// The measurements of one round of [`rebuild`]; times are in seconds.
struct Round {
    /// The time after one change, without the wait for the disk.
    rebuild: f64,
    /// The CPU time of that rebuild.
    cpu: f64,
    /// The time of copying the same bytes by `cp`.
    copy: f64,
    /// The time of a build from nothing, on all cores, without the wait for the disk.
    build: f64,
    /// The CPU time of that build, relative to a build on one core.
    ratio: f64,
    /// The CPU time of that build, relative to that of all cores.
    busy: f64,
}

impl Round {
    fn run(archive: &Place, pinion: &Path, tree: &Tree, round: usize) -> Result<Self> {
        let cores = thread::available_parallelism()?.get() as f64;
        let one = archive.anew(pinion, tree, Cores::One)?;
        let all = archive.anew(pinion, tree, Cores::All)?;
        let copy = archive.copy()?;
        change(tree, round)?;
        let after = archive.build(pinion, tree, &[], Cores::All)?;
        after.check(tree.files)?;
        let anew = archive.anew(pinion, tree, Cores::All)?;
        if anew.summary["digest"] != after.summary["digest"] {
            bail!("a rebuild gives another archive than a build from nothing");
        }
        let build = all.seconds()?;
        Ok(Self {
            rebuild: after.seconds()?,
            cpu: after.cost.cpu_seconds,
            copy: copy.wall_seconds,
            build,
            ratio: all.cost.cpu_seconds / one.cost.cpu_seconds,
            busy: all.cost.cpu_seconds / (build * cores),
        })
    }
}

/// Builds a site of a million files and 10 GiB to measure its memory.
pub(super) fn memory(pinion: &Path, state: &Path, run: &mut Run) -> Result<()> {
    let (tree, largest) = sample_sites::million(state)?;
    let archive = Place::new(state, "million")?;
    archive.clear()?;
    let mut command = archive.command(pinion, &tree, &["--level", "fast"]);
    let peak = process_cost::peak_bytes(&mut command)?;
    let cores = thread::available_parallelism()?.get() as u64;
    let each = peak.saturating_sub(largest * cores) as f64 / tree.files as f64;
    let mut again = archive.command(pinion, &tree, &["--level", "fast"]);
    let rebuild = process_cost::peak_bytes(&mut again)?;
    let rebuild_each = rebuild.saturating_sub(largest * cores) as f64 / tree.files as f64;
    let figures = [
        Figure::of("most memory of a build, bytes for each file", each).at_most(MEMORY_GOAL_BYTES),
        Figure::of("the same when everything is unchanged", rebuild_each),
        Figure::of("largest file, KiB", largest as f64 / 1024.0),
    ];
    let text = format!(
        "1 000 000 generated files, 10 GiB, `--level fast`. The largest file is taken off once for \
         each core.\n\n{}",
        figure_table::table(&figures)
    );
    println!("\n== memory\n\n{text}");
    let data = json!({
        "peak_bytes": peak, "unchanged_peak_bytes": rebuild, "largest_bytes": largest,
    });
    run.record("build memory", &text, &data)?;
    archive.remove()
}

/// The paths of an archive, and of the files that a build leaves next to it.
struct Place {
    archive: PathBuf,
    folder: PathBuf,
    log: PathBuf,
}

impl Place {
    fn new(state: &Path, name: &str) -> Result<Self> {
        let folder = state.join(name.to_owned() + "-out");
        fs::create_dir_all(&folder)?;
        Ok(Self { archive: folder.join("site.pinion"), log: folder.join("log"), folder })
    }

    /// Builds without anything to reuse.
    fn anew(&self, pinion: &Path, tree: &Tree, cores: Cores) -> Result<Build> {
        self.clear()?;
        self.build(pinion, tree, &[], cores)
    }

    fn build(&self, pinion: &Path, tree: &Tree, flags: &[&str], cores: Cores) -> Result<Build> {
        let command = self.command(pinion, tree, flags);
        let cost = process_cost::of(&command, cores.pinned(), &self.log)?;
        let summary = serde_json::from_str(&fs::read_to_string(&self.log)?)?;
        Ok(Build { cost, summary })
    }

    fn command(&self, pinion: &Path, tree: &Tree, flags: &[&str]) -> Command {
        let mut command = Command::new(pinion);
        command.arg("build").arg(&tree.root).arg("-o").arg(&self.archive).arg("--json").args(flags);
        command
    }

    /// Copies the archive and removes the copy.
    fn copy(&self) -> Result<Cost> {
        let copy = self.folder.join("copy");
        let mut command = Command::new("cp");
        command.arg("--reflink=never").arg(&self.archive).arg(&copy);
        let cost = process_cost::of(&command, Cores::All.pinned(), &self.log)?;
        remove(&copy)?;
        Ok(cost)
    }

    fn clear(&self) -> Result<()> {
        remove(&self.archive)?;
        remove(&self.folder.join(".site.pinion.stat"))
    }

    fn remove(&self) -> Result<()> {
        Ok(fs::remove_dir_all(&self.folder)?)
    }
}

impl Build {
    /// Returns the seconds without the wait for the disk.
    fn seconds(&self) -> Result<f64> {
        self.summary["seconds"].as_f64().context("pinion build tells no time")
    }

    /// Checks that only the changed file was read.
    fn check(&self, files: u64) -> Result<()> {
        match self.summary["unread_files"].as_u64() {
            Some(unread) if unread == files - 1 => Ok(()),
            unread => bail!("{unread:?} of {files} files were not read"),
        }
    }
}

/// Gives one file in the middle of the site other content.
fn change(tree: &Tree, round: usize) -> Result<()> {
    let folder = tree.root.join("500");
    let first = fs::read_dir(&folder)?.next().context("a folder with files")??.path();
    let text = format!("<p>changed in round {round}</p>\n").repeat(100);
    Ok(fs::write(first, text)?)
}
