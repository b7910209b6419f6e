//! `pinion build SRC -o FILE`: a folder becomes an archive.

mod report;

use crate::build_options;
use crate::failure::Failure;
use crate::progress::Bar;
use crate::settings::Build;
use crate::terminal::{Style, count};
use anyhow::Context as _;
use pinion_build::{Options, Progress, build_file};
use pinion_engine::signals;
use std::cell::Cell;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Builds, and tells what was built.
pub(crate) fn run(build: &Build) -> Result<(), Failure> {
    let options = build_options::options(&build.content, Options::new)?;
    let options = Options { force: build.force, ..options };
    let watcher =
        Watcher { bar: Bar::new(build.json), cancelled: hear_signals()?, total: Cell::default() };
    let result = build_file(&build.source, &options, &build.output, &watcher);
    watcher.bar.clear();
    match result {
        Ok(summary) if build.json => {
            writeln!(io::stdout().lock(), "{}", report::document(&build.output, &summary))?;
            Ok(())
        }
        Ok(summary) => {
            report::tell(&build.output, &summary, Style::of_stderr());
            Ok(())
        }
        Err(error) => Err(build_options::failure(error)),
    }
}

/// Ctrl-C ends a build in good order: no file is left behind. A second one ends it at once.
fn hear_signals() -> Result<Arc<AtomicBool>, Failure> {
    let signals = signals::block().context("cannot block signals")?;
    let cancelled = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&cancelled);
    let ears = move || {
        signals.wait();
        set.store(true, Ordering::Relaxed);
        signals.wait();
        std::process::exit(1);
    };
    let thread = thread::Builder::new().name("signals".to_owned()).spawn(ears);
    thread.context("cannot start the thread for signals")?;
    Ok(cancelled)
}

/// Shows the bar and passes Ctrl-C on.
struct Watcher {
    bar: Bar,
    cancelled: Arc<AtomicBool>,
    /// Files and bytes that the walk has found.
    total: Cell<(u64, u64)>,
}

impl Progress for Watcher {
    fn found(&self, files: u64, bytes: u64) {
        self.total.set((files, bytes));
    }

    fn advanced(&self, files: u64, bytes: u64) {
        let (all_files, all_bytes) = self.total.get();
        let message = format!("{} of {} files", count(files), count(all_files));
        self.bar.set(bytes, all_bytes, &message);
    }

    fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}
