//! One switch after the other: a lock on the folder, that goes with its process however it ends.

use super::folder::ReleaseFolder;
use super::history;
use crate::failure::Failure;
use crate::terminal::shown;
use anyhow::{Context as _, anyhow};
use pinion_engine::stderr;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The time between two attempts at a lock that another process holds.
const RETRY: Duration = Duration::from_millis(20);

/// Bytes of the note that a holder leaves for waiting processes.
const NOTE_MAX_BYTES: usize = 200;

/// The lock of a release folder, held.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, and reports the holder that it waits for if it has to.
    ///
    /// # Errors
    /// It cannot be locked, or `cancelled` became true.
    pub(super) fn take(folder: &ReleaseFolder, cancelled: &AtomicBool) -> Result<Self, Failure> {
        let path = folder.lock();
        let cannot = || format!("cannot lock {}", path.display());
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).with_context(cannot)?;
        let mut is_reported = false;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => return Err(anyhow!(error).context(cannot()).into()),
            }
            if !is_reported {
                let (shown, who) = (folder.path().display(), note(&path));
                stderr::line(format_args!("waiting: {shown} is being switched by {who}"));
                is_reported = true;
            }
            if cancelled.load(Ordering::Relaxed) {
                return Err(anyhow!("cancelled; nothing was switched").into());
            }
            thread::sleep(RETRY);
        }
        // The note is only a courtesy to waiting processes: a disk may be full, and a rollback must
        // work then.
        let note = format!("process {} of {}\n", std::process::id(), history::who());
        let _missed = file.set_len(0).and_then(|()| file.write_all(note.as_bytes()));
        Ok(Self { _file: file })
    }
}

/// Returns a note about the holder of the lock.
fn note(path: &Path) -> String {
    let mut note = fs::read(path).unwrap_or_default();
    note.truncate(NOTE_MAX_BYTES);
    match shown(note.trim_ascii()) {
        nobody if nobody.is_empty() => "another process".to_owned(),
        who => who,
    }
}
