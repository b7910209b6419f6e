//! The thread that loads the next generation of a site: on SIGHUP, and when a watched source has
//! changed. Loading may take long (a folder is built), so nobody else waits for it, no other site
//! either; what is asked for meanwhile is one more load, however often it is asked.

use super::generation::Generation;
use super::loader::Loader;
use super::published::{Published, SiteId};
use crate::log_lines;
use crate::terminal::counted;
use anyhow::anyhow;
use pinion_engine::residency;
use pinion_engine::server::Control;
use pinion_engine::stderr;
use pinion_lua::program::Program;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Asks for a reload, from any thread.
#[derive(Clone)]
pub(crate) struct Reloader {
    asked: SyncSender<()>,
}

impl Reloader {
    /// Starts the thread of a site. It ends when nobody is left who could ask.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn start(
        id: SiteId,
        loader: Loader,
        published: Arc<Published>,
        control: Control,
    ) -> io::Result<Self> {
        // Room for one: a load that was asked for and has not begun answers every later wish too.
        let (asked, wishes) = sync_channel(1);
        let run = move || run(id, &wishes, &loader, &published, &control);
        thread::Builder::new().name("reload".to_owned()).spawn(run)?;
        Ok(Self { asked })
    }

    /// Asks.
    pub(crate) fn ask(&self) {
        match self.asked.try_send(()) {
            // Full: the load that waits will see what we saw.
            Ok(()) | Err(TrySendError::Full(())) => {}
            Err(TrySendError::Disconnected(())) => {
                stderr::line(format_args!("pinion: reloading has ended"));
            }
        }
    }
}

/// How long a site that has lost most of its paths is given to get them back, each time that
/// something of it changes: generators remove the old site before they write the new one.
const SHRUNK_WAIT: Duration = Duration::from_secs(2);

/// How long that goes on at most, for what never comes to an end.
const SHRUNK_WAIT_MAX: Duration = Duration::from_secs(30);

/// Paths from which on a site that has lost more than half of them counts as one that is being
/// written anew: in a smaller one a person may well delete as many.
const SHRUNK_MIN_PATHS: u64 = 8;

/// Whether a site with so many paths is perhaps one that is being written anew.
fn has_shrunk(paths: u64, served_paths: u64) -> bool {
    paths == 0 && served_paths > 0 || served_paths >= SHRUNK_MIN_PATHS && paths < served_paths / 2
}

fn path_count(generation: &Generation) -> u64 {
    generation.archive().layout().entry_count()
}

fn run(
    id: SiteId,
    wishes: &Receiver<()>,
    loader: &Loader,
    published: &Published,
    control: &Control,
) {
    let load = || {
        // A mistake of ours in one load must not be the end of all later ones.
        let loaded = catch_unwind(AssertUnwindSafe(|| loader.load()));
        let loaded = loaded.unwrap_or_else(|_| Err(anyhow!("loading panicked").into()));
        residency::release_heap();
        loaded
    };
    let mut served_paths = loader.path_count();
    while wishes.recv().is_ok() {
        let mut loaded = load();
        let until = Instant::now() + SHRUNK_WAIT_MAX;
        while let Ok(next) = &loaded
            && has_shrunk(path_count(next), served_paths)
            && Instant::now() < until
        {
            match wishes.recv_timeout(SHRUNK_WAIT) {
                Ok(()) => loaded = load(),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        let what = loader.source().path().display();
        match loaded {
            Ok(next) => {
                let paths = path_count(&next);
                let code = next.program().map_or(0, Program::file_count);
                if !published.publish(id, next) {
                    // The site was taken out of the configuration meanwhile.
                    continue;
                }
                control.wake_all();
                report_reloaded(&what, paths, served_paths, code);
                served_paths = paths;
            }
            Err(failure) => {
                stderr::line(format_args!(
                    "pinion: cannot reload {what}, keeping the previous version"
                ));
                if let Some(failure) = loader.shown(&failure) {
                    published.fail(id, failure);
                    control.wake_all();
                }
                failure.report();
            }
        }
    }
}

fn report_reloaded(what: &dyn fmt::Display, paths: u64, served_paths: u64, code: u64) {
    stderr::line(format_args!("reloaded {what}: {}", content_in_words(paths, code)));
    if has_shrunk(paths, served_paths) {
        log_lines::warning(format_args!(
            "{what} had {} before this reload; if that is not what you wanted, \
             bring the files back and they are served again",
            counted(served_paths, "path")
        ));
    }
}

/// Returns how much is in a site: paths, files of code, or both. A site that has only pages or a
/// script has no paths.
pub(super) fn content_in_words(paths: u64, code: u64) -> String {
    let code_files = format!("{} of code", counted(code, "file"));
    match (paths, code) {
        (_, 0) => counted(paths, "path"),
        (0, _) => code_files,
        _ => format!("{}, {code_files}", counted(paths, "path")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_of_code_alone_has_no_paths_in_words() {
        for (paths, code, expected) in [
            (0, 0, "0 paths"),
            (1, 0, "1 path"),
            (0, 1, "1 file of code"),
            (3, 2, "3 paths, 2 files of code"),
        ] {
            assert_eq!(content_in_words(paths, code), expected);
        }
    }

    #[test]
    fn a_site_has_shrunk_that_lost_everything_or_more_than_half_of_much() {
        for (paths, served_paths, expected) in
            [(0, 0, false), (0, 1, true), (1, 7, false), (3, 8, true), (4, 8, false), (9, 8, false)]
        {
            assert_eq!(has_shrunk(paths, served_paths), expected, "{paths} of {served_paths}");
        }
    }
}
