//! Programs that the server starts for its sites by itself: PHP-FPM, and the processes of Python
//! applications. The supervisor keeps them running, as it does those of `[[program]]`.

use super::php::php_pools::{PhpPool, PhpPools};
use super::python::python_apps::{PythonApps, RunningApp};
use crate::failure::Failure;
use crate::plan::PlannedSite;
use pinion_programs::supervisor_link::ProgramDescriptors;
use pinion_spawner::start_table::ProgramStart;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The programs of all sites. A copy has the same files.
#[derive(Clone, Debug, Default)]
pub(crate) struct SitePrograms {
    php: PhpPools,
    python: PythonApps,
}

/// Those that no site uses any more, but perhaps requests of before.
#[derive(Debug, Default)]
pub(crate) struct LeftPrograms {
    pools: Vec<Arc<PhpPool>>,
    apps: Vec<Arc<RunningApp>>,
}

/// Programs that are kept running.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptPrograms {
    pub(crate) starts: Vec<ProgramStart>,
    /// The descriptors of those that have some, by their names.
    pub(crate) descriptors: BTreeMap<String, ProgramDescriptors>,
}

impl SitePrograms {
    /// Returns the programs for these sites: those that there are if their settings are the same,
    /// and new ones. The sites get their mounts. `programs` are those with names that are taken.
    ///
    /// # Errors
    /// One is not there, or cannot run as asked.
    pub(crate) fn next(
        &self,
        sites: &mut [PlannedSite],
        programs: &[ProgramStart],
    ) -> Result<Self, Failure> {
        let php = self.php.next(sites, programs)?;
        Ok(Self { php, python: self.python.next(sites, programs)? })
    }

    /// Returns the programs to keep running: those of `[[program]]`, and these.
    pub(crate) fn kept(&self, programs: &[ProgramStart]) -> KeptPrograms {
        self.kept_with(programs, &LeftPrograms::default())
    }

    /// Returns the programs to keep running, as [`Self::kept`] does, and left ones.
    pub(crate) fn kept_with(&self, programs: &[ProgramStart], left: &LeftPrograms) -> KeptPrograms {
        let programs = self.php.starts_with(programs, &left.pools);
        KeptPrograms {
            starts: self.python.starts_with(programs, &left.apps),
            descriptors: self.python.descriptors(&left.apps),
        }
    }

    /// Returns those that `next` has not.
    pub(crate) fn left_out_of(&self, next: &Self) -> LeftPrograms {
        LeftPrograms {
            pools: self.php.left_out_of(&next.php),
            apps: self.python.left_out_of(&next.python),
        }
    }

    /// Whether a program is one of them.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.php.has(name) || self.python.has(name)
    }

    /// Returns a line about each for the start.
    pub(crate) fn in_words(&self) -> impl Iterator<Item = String> {
        self.php.in_words().chain(self.python.in_words())
    }

    /// Removes all files. Nothing of it is used any more.
    pub(crate) fn remove_files(&self) {
        self.php.remove_files();
        self.python.remove_files();
    }
}

impl LeftPrograms {
    pub(crate) fn is_empty(&self) -> bool {
        self.pools.is_empty() && self.apps.is_empty()
    }

    /// Waits until requests that were sent to them have ended, or for a limited time.
    pub(crate) fn wait_until_unused(&self) {
        self.pools.iter().for_each(|pool| pool.wait_until_unused());
        self.apps.iter().for_each(|app| app.wait_until_unused());
    }
}
