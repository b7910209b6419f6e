//! `cargo xtask bench build`: the cost of a build, compared with kawipiko's archiver.
//!
//! The benchmark measures CPU time, user and system, of the whole process, and the size of the data
//! for clients: of each content its coded form, or the content itself if no coded form is stored.
//! The sizes of the archives themselves cannot be compared: an archive of Pinion has the plain form
//! of every content in addition to the coded one, one of kawipiko only one of them. Both programs
//! take turns; only ratios within a round count.
//!
//! | Module | Contents |
//! |---|---|
//! | `kawipiko_archive` | the archives of kawipiko, as far as their sizes can be compared |
//! | `rebuild` | a rebuild after one change, the use of two cores, and the memory of a build |
//! | `compressed_sizes` | sizes of contents for clients, by the archives that compress them |
//! | `report` | the results of one site, as tables and as data |

mod compressed_sizes;
mod kawipiko_archive;
mod rebuild;
mod report;

use super::process_cost::{self, Cost};
use super::runs::Run;
use super::{release_binary, sample_sites};
use crate::debian_packages::{self, Need, Proof};
use crate::process;
use anyhow::{Context, Result, bail};
use compressed_sizes::Split;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "\
usage: cargo xtask bench build [OPTIONS]
  --only PART    only this: python-docs, pages, rebuild, or memory, which needs 50 GB of disk and
                 is not measured unless it is named
  --cores WHICH  only on one core, or only on all
  --rounds N     how often the programs take turns [python-docs 5, pages 1, rebuild 3]
  --name NAME    the run's name [the host's]";

/// The folder of python3.11-doc.
const DOCS: &str = "/usr/share/doc/python3.11/html";
const NEEDS: &[Need] = &[Need {
    package: "python3.11-doc",
    proof: Proof::File("/usr/share/doc/python3.11/html/index.html"),
}];

/// One coding with its names in both programs, and the goal: the ratio of Pinion's CPU time to that
/// of kawipiko. Pinion uses its default level and kawipiko its own, which is 6 for both codings.
struct Coding {
    ours: &'static str,
    theirs: &'static str,
    goal: f64,
}

/// kawipiko's level.
const THEIR_LEVEL: &str = "6";

const CODINGS: [Coding; 2] = [
    Coding { ours: "gzip", theirs: "gzip", goal: 0.4 },
    Coding { ours: "br", theirs: "brotli", goal: 1.0 },
];

/// A site to build, and the number of rounds that are worth their time.
struct Site {
    name: &'static str,
    about: &'static str,
    rounds: usize,
}

const SITES: [Site; 2] = [
    Site {
        name: "python-docs",
        about: "Debian's `python3.11-doc`: 1 065 files, 67 MB.",
        rounds: 5,
    },
    Site {
        name: "pages",
        about: "100 000 generated pages in 1 000 folders, median 1.5 KiB.",
        rounds: 1,
    },
];

/// The cores on which the programs run.
#[derive(Clone, Copy, PartialEq)]
enum Cores {
    One,
    All,
}

/// The rounds of one coding.
struct Case {
    coding: &'static Coding,
    /// The coding and its level in Pinion, such as `br:6`.
    level: String,
    ours: Vec<Made>,
    /// Empty if kawipiko is not installed.
    theirs: Vec<Made>,
    /// `None` if kawipiko is not installed.
    split: Option<Split>,
}

/// One archive.
#[derive(Clone, Copy)]
struct Made {
    cost: Cost,
    /// The size of the data for clients, in bytes.
    sent_bytes: u64,
    /// The length of the file.
    archive_bytes: u64,
    /// The bytes that are no stored form of a content: paths, fields, index, padding.
    other_bytes: u64,
}

/// Runs the measurements of the command line and records each site as a part of today's run.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let options = Options::parse(arguments)?;
    debian_packages::install(NEEDS)?;
    let bench = Bench {
        pinion: release_binary::binary()?,
        state: release_binary::state()?,
        archiver: kawipiko_archive::archiver(),
    };
    let is_wanted = |part: &str| options.only.is_none_or(|only| only == part);
    let mut run = Run::open(options.name.as_deref())?;
    if options.only == Some("memory") {
        rebuild::memory(&bench.pinion, &bench.state, &mut run)?;
    }
    if is_wanted("rebuild") {
        rebuild::rebuild(&bench.pinion, &bench.state, options.rounds.unwrap_or(3), &mut run)?;
    }
    if bench.archiver.is_none() && SITES.iter().any(|site| is_wanted(site.name)) {
        eprintln!(
            "kawipiko's archiver is not here, so nothing is compared with it; \
             KAWIPIKO_ARCHIVER or PATH can name it"
        );
    }
    for site in SITES.iter().filter(|site| is_wanted(site.name)) {
        for cores in [Cores::One, Cores::All] {
            if options.cores.is_some_and(|only| only != cores) {
                continue;
            }
            let cases = bench.site(site, cores, options.rounds.unwrap_or(site.rounds))?;
            let text = report::markdown(site, &cases);
            let part = format!("build {}, {}", site.name, cores.shown());
            println!("\n== {part}\n\n{text}");
            run.record(&part, &text, &report::data(&cases))?;
        }
    }
    eprintln!("recorded in {}", run.shown());
    Ok(())
}

/// The programs and the folder for their output.
struct Bench {
    pinion: PathBuf,
    state: PathBuf,
    archiver: Option<PathBuf>,
}

impl Bench {
    fn site(&self, site: &Site, cores: Cores, rounds: usize) -> Result<Vec<Case>> {
        let root = match site.name {
            "pages" => sample_sites::pages(&self.state)?.root,
            _ => PathBuf::from(DOCS),
        };
        // Both programs read the same files; the first reading is not counted.
        self.ours(&root, &CODINGS[0], cores)?;
        let mut cases: Vec<Case> = CODINGS.iter().map(Case::new).collect();
        for round in 0..rounds {
            for case in &mut cases {
                // The programs take turns in being first.
                let ours_first = round % 2 == 0;
                if ours_first {
                    case.ours.push(self.ours(&root, case.coding, cores)?);
                }
                if let Some(archiver) = &self.archiver {
                    case.theirs.push(self.theirs(archiver, &root, case.coding, cores)?);
                }
                if !ours_first {
                    case.ours.push(self.ours(&root, case.coding, cores)?);
                }
                if round == 0 {
                    self.look_into(case)?;
                }
                let last = |made: &[Made]| made.last().map_or(f64::NAN, |m| m.cost.cpu_seconds);
                let (ours, theirs) = (last(&case.ours), last(&case.theirs));
                let (name, coding) = (site.name, &case.level);
                let done = round + 1;
                eprintln!("  {name} {coding} {done}/{rounds}: {ours:.2} s, kawipiko {theirs:.2} s");
            }
        }
        for archive in [self.our_archive(), self.their_archive()] {
            remove(&archive)?;
        }
        Ok(cases)
    }

    /// Records data about the archives of a case, which are the same in all rounds.
    fn look_into(&self, case: &mut Case) -> Result<()> {
        let figures: Value = serde_json::from_str(&self.asked("inspect")?)?;
        if let Some(level) = figures["build"]["codings"].as_str() {
            level.clone_into(&mut case.level);
        }
        if self.archiver.is_some() {
            let theirs = kawipiko_archive::Archive::read(&self.their_archive())?;
            case.split = Some(Split::of(&self.asked("ls")?, case.coding.ours, &theirs.files)?);
        }
        Ok(())
    }

    fn ours(&self, root: &Path, coding: &Coding, cores: Cores) -> Result<Made> {
        let archive = self.our_archive();
        let mut build = Command::new(&self.pinion);
        build.arg("build").arg(root).arg("-o").arg(&archive).args(["--codings", coding.ours]);
        let cost = self.cost(&build, cores, &archive)?;
        let (stored_bytes, sent_bytes) = stored_and_sent(&self.asked("inspect")?, coding.ours)?;
        let archive_bytes = fs::metadata(archive)?.len();
        let other_bytes = archive_bytes.saturating_sub(stored_bytes);
        Ok(Made { cost, sent_bytes, archive_bytes, other_bytes })
    }

    fn theirs(&self, archiver: &Path, root: &Path, coding: &Coding, cores: Cores) -> Result<Made> {
        let archive = self.their_archive();
        let mut build = Command::new(archiver);
        build.arg("--sources").arg(root).arg("--archive").arg(&archive);
        build.args(["--compress", coding.theirs, "--compress-level", THEIR_LEVEL]);
        let cost = self.cost(&build, cores, &archive)?;
        let sent_bytes = kawipiko_archive::Archive::read(&archive)?.content_bytes;
        let archive_bytes = fs::metadata(archive)?.len();
        let other_bytes = archive_bytes.saturating_sub(sent_bytes);
        Ok(Made { cost, sent_bytes, archive_bytes, other_bytes })
    }

    /// Measures the cost of a build without an older archive to replace.
    fn cost(&self, build: &Command, cores: Cores, archive: &Path) -> Result<Cost> {
        remove(archive)?;
        remove(&self.state.join(".build.pinion.stat"))?;
        process_cost::of(build, cores.pinned(), &self.state.join("build.log"))
    }

    /// Returns the output of a verb of Pinion about the last archive.
    fn asked(&self, verb: &str) -> Result<String> {
        process::output(Command::new(&self.pinion).arg(verb).arg(self.our_archive()).arg("--json"))
    }

    fn our_archive(&self) -> PathBuf {
        self.state.join("build.pinion")
    }

    fn their_archive(&self) -> PathBuf {
        self.state.join("build.cdb")
    }
}

/// Removes a file if it exists.
fn remove(path: &Path) -> Result<()> {
    if path.exists() {
        fs::remove_file(path).with_context(|| path.display().to_string())
    } else {
        Ok(())
    }
}

/// Returns the bytes of all stored bodies, and the same without the plain forms of contents that
/// have a coded one: the data for clients. Content that several resources share is stored once, and
/// the figures count its forms once, too.
fn stored_and_sent(figures: &str, coding: &str) -> Result<(u64, u64)> {
    let figures: Value = serde_json::from_str(figures)?;
    let stored = figures["bodies"]["stored_bytes"].as_u64();
    let plain = figures["codings"][coding]["identity_bytes"].as_u64();
    let (Some(stored), Some(plain)) = (stored, plain) else {
        bail!("pinion inspect tells no sizes: {figures}");
    };
    Ok((stored, stored.saturating_sub(plain)))
}

impl Case {
    fn new(coding: &'static Coding) -> Self {
        let level = coding.ours.to_owned();
        Self { coding, level, ours: Vec::new(), theirs: Vec::new(), split: None }
    }
}

impl Cores {
    fn shown(self) -> &'static str {
        match self {
            Self::One => "one core",
            Self::All => "all cores",
        }
    }

    /// Returns the core to run on, if there is only one.
    fn pinned(self) -> Option<u32> {
        (self == Self::One).then_some(0)
    }
}

struct Options<'w> {
    only: Option<&'w str>,
    cores: Option<Cores>,
    rounds: Option<usize>,
    name: Option<String>,
}

impl<'w> Options<'w> {
    fn parse(arguments: &[&'w str]) -> Result<Self> {
        let mut options = Self { only: None, cores: None, rounds: None, name: None };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let value = *words.next().with_context(|| format!("{word} needs a value\n{USAGE}"))?;
            match *word {
                "--only"
                    if ["rebuild", "memory"].contains(&value)
                        || SITES.iter().any(|site| site.name == value) =>
                {
                    options.only = Some(value);
                }
                "--cores" if value == "one" => options.cores = Some(Cores::One),
                "--cores" if value == "all" => options.cores = Some(Cores::All),
                "--rounds" => {
                    let count = value.parse().ok().filter(|&count| count > 0);
                    options.rounds = Some(count.with_context(|| format!("not a count: {value}"))?);
                }
                "--name" => options.name = Some(value.to_owned()),
                _ => bail!("not an option: {word} {value}\n{USAGE}"),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_bytes_are_stored_bytes_without_the_coded_identity_bodies() {
        let figures = r#"{"bodies":{"stored_bytes":1100},"codings":{"br":{"identity_bytes":900}}}"#;
        assert_eq!(stored_and_sent(figures, "br").unwrap(), (1100, 200));
        assert!(stored_and_sent(figures, "gzip").is_err());
    }

    #[test]
    fn invalid_options_of_the_build_bench_are_refused() {
        let options = Options::parse(&["--only", "pages", "--rounds", "2"]).unwrap();
        assert_eq!((options.only, options.rounds), (Some("pages"), Some(2)));
        for wrong in
            [&["--only", "nothing"][..], &["--rounds", "0"], &["--name"], &["--cores", "2"]]
        {
            assert!(Options::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
