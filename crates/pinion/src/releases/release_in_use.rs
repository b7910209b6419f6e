//! Shows whether a server has a release in use. A server that serves a release folder holds a
//! shared lock on the file it serves; a process that switches sees by it that the server has loaded
//! the new release, and needs no other way to talk to the server.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long a switch waits until a running server has loaded the new release: the watch sees it
/// within a fifth of a second, and after two seconds at the latest.
const TAKEN_UP_MAX: Duration = Duration::from_secs(5);

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// How often a server tries to get its lock: a process that tests the lock holds it for an instant.
const HOLD_TRIES: u32 = 50;

/// Marks a file as served, for as long as it is open. Where a file system knows no locks there is
/// no mark, and only the process that switches misses it.
pub(crate) fn hold(file: impl AsFd) {
    for _ in 0..HOLD_TRIES {
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => thread::sleep(Duration::from_millis(1)),
            _ => return,
        }
    }
}

/// Returns whether a process holds a file in this way.
pub(super) fn is_held(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
}

/// Waits until a process holds a file; returns false when none does in time.
pub(super) fn wait_until_held(path: &Path) -> bool {
    let until = Instant::now() + TAKEN_UP_MAX;
    loop {
        if is_held(path) {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::super::folder::tests::Scratch;
    use super::*;
    use std::fs;

    #[test]
    fn a_file_counts_as_used_while_it_is_open() {
        let scratch = Scratch::new();
        let path = scratch.0.join("release");
        assert!(!is_held(&path));
        fs::write(&path, "x").expect("written");
        assert!(!is_held(&path));
        let files = [(); 2].map(|()| File::open(&path).expect("open"));
        files.iter().for_each(hold);
        assert!(is_held(&path) && wait_until_held(&path));
        let [first, second] = files;
        drop(first);
        assert!(is_held(&path));
        drop(second);
        assert!(!is_held(&path));
    }
}
