//! Limits the number of live files that are open at once: a client that reads slowly keeps one open
//! for as long as its response lasts, and descriptors are for connections as well.

use super::limits::{LIVE_FILES_DIVISOR, LIVE_FILES_OPEN_MAX, LIVE_FILES_OPEN_MIN};
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// The files of one site or mount that responses of all workers are sent from.
pub(crate) struct OpenLiveFiles {
    files: Mutex<Vec<Weak<File>>>,
    max: usize,
    /// The open files of the whole process; `None` where these are counted.
    all: Option<&'static Self>,
}

/// The files of all sites, also of those before a reload: half of all descriptors is for others.
static ALL: LazyLock<OpenLiveFiles> = LazyLock::new(|| {
    let max = usize::try_from(descriptors() / 2).unwrap_or(usize::MAX);
    OpenLiveFiles { all: None, ..OpenLiveFiles::at_most(max) }
});

fn descriptors() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

impl Default for OpenLiveFiles {
    /// Allows as many files as this process may have, by its limit of descriptors.
    fn default() -> Self {
        Self { all: Some(&ALL), ..Self::at_most(live_files_max(descriptors())) }
    }
}

/// Returns how many live files of one site may be open in a process with so many descriptors.
pub(crate) fn live_files_max(descriptors: u64) -> usize {
    let max = usize::try_from(descriptors / LIVE_FILES_DIVISOR).unwrap_or(usize::MAX);
    max.clamp(LIVE_FILES_OPEN_MIN, LIVE_FILES_OPEN_MAX)
}

impl OpenLiveFiles {
    fn at_most(max: usize) -> Self {
        Self { files: Mutex::default(), max, all: None }
    }

    /// Counts a file until its last reference is dropped. Returns false if there are too many.
    pub(crate) fn admit(&self, file: &Arc<File>) -> bool {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= files.capacity().min(self.max) {
            files.retain(|file| file.strong_count() > 0);
            if files.len() > files.capacity() / 2 {
                // As many files may come before the list is checked again.
                let more = files.len();
                files.reserve(more);
            }
        }
        if files.len() >= self.max || !self.all.is_none_or(|all| all.admit(file)) {
            return false;
        }
        files.push(Arc::downgrade(file));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_all_sites_have_a_bound_too() {
        let all: &'static OpenLiveFiles = Box::leak(Box::new(OpenLiveFiles::at_most(3)));
        let site = || OpenLiveFiles { all: Some(all), ..OpenLiveFiles::at_most(2) };
        let file = || Arc::new(File::open("/dev/null").expect("a file"));
        let (one, other) = (site(), site());
        let files = [file(), file(), file()];
        assert!(one.admit(&files[0]) && one.admit(&files[1]) && other.admit(&files[2]));
        assert!(!other.admit(&file()));
        drop(files);
        assert!(other.admit(&file()));
    }

    #[test]
    fn a_file_counts_as_long_as_it_is_open() {
        let open = OpenLiveFiles::at_most(2);
        let file = || Arc::new(File::open("/dev/null").expect("a file"));
        let [one, two, three] = [file(), file(), file()];
        assert!(open.admit(&one) && open.admit(&two));
        for _ in 0..3 {
            assert!(!open.admit(&three));
        }
        drop(one);
        assert!(open.admit(&three) && !open.admit(&file()));
        drop((two, three));
        for _ in 0..5 {
            assert!(open.admit(&file()));
        }
    }
}
