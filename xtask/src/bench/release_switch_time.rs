//! `cargo xtask bench releases`: the time from the command until clients get another release, of a
//! large site and under load; no request may fail meanwhile.

use super::figure_table::{self, Figure};
use super::runs::Run;
use super::started_server::Started;
use super::statistics::Spread;
use super::{release_binary, sample_sites};
use crate::process;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: cargo xtask bench releases [OPTIONS]
  --rounds N     how often a release is published and taken back [15]
  --name NAME    the run's name [the host's]";

/// The goal for the time from `pinion rollback` to the first response of the previous release.
const ROLLBACK_GOAL_SECONDS: f64 = 1.0;

/// The longest wait for a response of a release: a large archive is copied and synced first.
const RELEASE_MAX: Duration = Duration::from_secs(120);

/// Measures and records.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (rounds, name) = super::rounds_and_name(arguments, 15, USAGE)?;
    let (pinion, state) = (release_binary::binary()?, release_binary::state()?);
    let site = Site::make(&pinion, &state)?;
    site.publish("1")?;
    let (server, _) = Started::start(&pinion, &site.live, &site.path)?;
    let (mut published, mut taken_back) = (Vec::new(), Vec::new());
    let load = Load::default();
    thread::scope(|scope| -> Result<()> {
        scope.spawn(|| load.run(&server, &site.path));
        let _ends = Ends(&load);
        (0..rounds).try_for_each(|_| {
            published.push(seconds(&server, &site.path, "2", || site.publish("2"))?);
            taken_back.push(seconds(&server, &site.path, "1", || site.roll_back())?);
            Ok(())
        })
    })?;
    let (asked, failed) = (load.asked.into_inner(), load.failed.into_inner());
    let spread = |values: Vec<f64>| Spread::of(values).context("at least one round");
    let (published, taken_back) = (spread(published)?, spread(taken_back)?);
    let figures = [
        Figure { shown: taken_back.shown(3), ..Figure::of("rollback, s", taken_back.median) }
            .at_most(ROLLBACK_GOAL_SECONDS),
        Figure { shown: published.shown(3), ..Figure::of("publish, s", published.median) },
        Figure::of("requests that failed meanwhile", failed as f64).at_most(0.0),
        Figure::of("requests meanwhile", asked as f64),
    ];
    let report = format!(
        "100 000 pages, an archive of {:.0} MB; from the start of the command to the first answer \
         of the other release, while one client asks without a pause. {rounds} rounds: the median, \
         in brackets the least and the most.\n\n{}",
        site.archive_bytes as f64 / 1e6,
        figure_table::table(&figures)
    );
    let mut run = Run::open(name)?;
    let data = json!({
        "rollback_seconds": taken_back.data(), "publish_seconds": published.data(),
        "asked": asked, "failed": failed, "archive_bytes": site.archive_bytes,
    });
    run.record("releases", &report, &data)?;
    println!("\n== releases\n\n{report}");
    eprintln!("recorded in {}", run.shown());
    drop(server);
    Ok(fs::remove_dir_all(site.folder)?)
}

/// Two releases of one site, which differ in a field, and the folder to which they are published.
struct Site {
    pinion: PathBuf,
    folder: PathBuf,
    live: PathBuf,
    /// A page of both releases.
    path: String,
    archive_bytes: u64,
}

impl Site {
    fn make(pinion: &Path, state: &Path) -> Result<Self> {
        let tree = sample_sites::pages(state)?;
        let folder = state.join("releases");
        fs::create_dir_all(&folder)?;
        for release in ["1", "2"] {
            let fields = folder.join(format!("fields-{release}"));
            fs::write(&fields, format!("/*\n  X-Release: {release}\n"))?;
            let mut build = Command::new(pinion);
            build.arg("build").arg(&tree.root).args(["--level", "fast", "--fields"]).arg(&fields);
            process::output(build.arg("-o").arg(folder.join(format!("{release}.pinion"))))?;
        }
        let first =
            fs::read_dir(tree.root.join("000"))?.next().context("a folder with files")??;
        Ok(Self {
            pinion: pinion.to_owned(),
            live: folder.join("live"),
            path: format!("/000/{}", first.file_name().to_string_lossy()),
            archive_bytes: fs::metadata(folder.join("1.pinion"))?.len(),
            folder,
        })
    }

    fn publish(&self, release: &str) -> Result<()> {
        let archive = self.folder.join(format!("{release}.pinion"));
        process::output(Command::new(&self.pinion).arg("publish").arg(archive).arg(&self.live))?;
        Ok(())
    }

    fn roll_back(&self) -> Result<()> {
        process::output(Command::new(&self.pinion).arg("rollback").arg(&self.live))?;
        Ok(())
    }
}

/// One client that sends requests without pause.
#[derive(Default)]
struct Load {
    ends: AtomicBool,
    asked: AtomicU64,
    failed: AtomicU64,
}

impl Load {
    fn run(&self, server: &Started, path: &str) {
        while !self.ends.load(Ordering::Relaxed) {
            let is_right = server.ask(path).is_ok_and(|response| of_release(&response).is_some());
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.failed.fetch_add(u64::from(!is_right), Ordering::Relaxed);
        }
    }
}

/// Ends the load when it is dropped, even if the measurement fails.
struct Ends<'a>(&'a Load);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.ends.store(true, Ordering::Relaxed);
    }
}

/// Returns the time from a command to a response of `release`.
fn seconds(
    server: &Started,
    path: &str,
    release: &str,
    command: impl FnOnce() -> Result<()> + Send,
) -> Result<f64> {
    let began = Instant::now();
    thread::scope(|scope| {
        let command = scope.spawn(command);
        loop {
            let response = server.ask(path)?;
            if of_release(&response) == Some(release) {
                break;
            }
            if began.elapsed() > RELEASE_MAX {
                bail!("release {release} does not answer");
            }
        }
        let took = began.elapsed().as_secs_f64();
        match command.join() {
            Ok(done) => done.map(|()| took),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Returns the release of a complete response.
fn of_release(response: &[u8]) -> Option<&str> {
    let head = response.strip_prefix(b"HTTP/1.1 200 ")?;
    let end = head.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let head = std::str::from_utf8(head.get(..end)?).ok()?;
    head.lines().find_map(|line| line.strip_prefix("X-Release: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_names_its_release() {
        let response = b"HTTP/1.1 200 OK\r\nDate: x\r\nX-Release: 2\r\n\r\nX-Release: 1";
        assert_eq!(of_release(response), Some("2"));
        assert_eq!(of_release(b"HTTP/1.1 404 Not Found\r\nX-Release: 2\r\n\r\n"), None);
        assert_eq!(of_release(b"HTTP/1.1 200 OK\r\nX-Release: 2"), None);
    }
}
