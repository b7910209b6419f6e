//! Watches the source code of a Python application, for `--dev`.

use super::limits::{CODE_BURST_MAX, CODE_FOLDERS_MAX, CODE_QUIET};
use crate::panics;
use notify::{Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

/// Folders that have no code of the application: virtual environments, caches, packages.
const SKIPPED: [&str; 4] = ["__pycache__", "venv", "node_modules", "site-packages"];

/// Calls `changed` after each burst of changes of files `*.py` below a folder, on a thread of its
/// own, until it returns false.
///
/// # Errors
/// The folder cannot be watched, or there is no thread.
pub(crate) fn watch(
    folder: &Path,
    changed: impl Fn() -> bool + Send + 'static,
) -> notify::Result<()> {
    let (sender, events) = channel();
    let mut watcher = RecommendedWatcher::new(sender, Config::default())?;
    watch_below(&mut watcher, folder.to_owned())?;
    let run = move || {
        panics::survive(|| {
            while let Some(is_code) = next_change(&mut watcher, &events)
                && (!is_code || changed())
            {}
        });
    };
    thread::Builder::new().name("python-watch".to_owned()).spawn(run).map_err(notify::Error::io)?;
    Ok(())
}

/// Waits for a burst of changes and its end. Returns whether code has changed; `None` when nothing
/// comes any more.
fn next_change(
    watcher: &mut RecommendedWatcher,
    events: &Receiver<notify::Result<Event>>,
) -> Option<bool> {
    let mut is_code = is_of_code(watcher, events.recv().ok()?);
    let begin = Instant::now();
    while begin.elapsed() < CODE_BURST_MAX {
        match events.recv_timeout(CODE_QUIET) {
            Ok(event) => is_code |= is_of_code(watcher, event),
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
    Some(is_code)
}

/// Returns whether a notice is about code. Folders that have come are watched, too.
fn is_of_code(watcher: &mut RecommendedWatcher, event: notify::Result<Event>) -> bool {
    let Ok(event) = event else { return false };
    if matches!(event.kind, EventKind::Access(_)) {
        return false;
    }
    let mut is_code = false;
    for path in event.paths {
        if path.extension().is_some_and(|extension| extension == "py") {
            is_code = true;
        } else if matches!(event.kind, EventKind::Create(_) | EventKind::Modify(_)) && path.is_dir()
        {
            // One that cannot be watched has no code that is loaded.
            let _watched = watch_below(watcher, path);
            is_code |= matches!(event.kind, EventKind::Create(_));
        }
    }
    is_code
}

/// Watches a folder and those below it.
fn watch_below(watcher: &mut RecommendedWatcher, folder: PathBuf) -> notify::Result<()> {
    watcher.watch(&folder, RecursiveMode::NonRecursive)?;
    let mut folders = VecDeque::from([folder]);
    let mut count = 1;
    while let Some(folder) = folders.pop_front() {
        let Ok(entries) = folder.read_dir() else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_skipped = name.as_encoded_bytes().starts_with(b".")
                || SKIPPED.iter().any(|skipped| name == *skipped);
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && !is_skipped && count < CODE_FOLDERS_MAX {
                count += 1;
                if watcher.watch(&entry.path(), RecursiveMode::NonRecursive).is_ok() {
                    folders.push_back(entry.path());
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn code_changes_are_reported_also_in_new_folders() {
        let id = std::process::id();
        let folder = std::env::temp_dir().join(format!("pinion-code-watch-{id}"));
        fs::create_dir_all(folder.join("shop/venv")).expect("made");
        let (sender, changes) = channel();
        watch(&folder, move || sender.send(()).is_ok()).expect("watched");
        let next = || changes.recv().expect("a change");
        fs::write(folder.join("shop/a.py"), "a = 1").expect("written");
        next();
        fs::create_dir(folder.join("new")).expect("made");
        next();
        fs::write(folder.join("new/b.py"), "b = 1").expect("written");
        next();
        fs::write(folder.join("shop/notes.txt"), "text").expect("written");
        fs::write(folder.join("shop/venv/c.py"), "c = 1").expect("written");
        // Neither of these files counts as code of the application, so no further change is
        // reported.
        thread::sleep(CODE_QUIET * 3);
        assert!(changes.try_recv().is_err());
        fs::remove_file(folder.join("shop/a.py")).expect("removed");
        next();
        fs::remove_dir_all(&folder).expect("removed");
    }
}
