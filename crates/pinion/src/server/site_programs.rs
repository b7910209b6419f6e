//! Programs that the server starts on behalf of its sites: PHP-FPM, and the processes of Python
//! applications. The supervisor keeps them running, as it does those of `[[program]]`.

use super::php::limits::UNUSED_MAX;
use super::php::php_pools::{PhpPool, PhpPools};
use super::python::python_apps::PythonApps;
use crate::failure::Failure;
use crate::plan::PlannedSite;
use pinion_programs::supervisor_link::ProgramDescriptors;
use pinion_spawner::start_table::ProgramStart;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// The programs of all sites. A copy has the same files.
#[derive(Clone, Debug, Default)]
pub(crate) struct SitePrograms {
    php: PhpPools,
    pub(super) python: PythonApps,
}

/// Programs that no site uses any more, but perhaps earlier requests.
#[derive(Debug)]
pub(crate) struct LeftPrograms {
    since: Instant,
    pools: Vec<Arc<PhpPool>>,
    pub(super) python: PythonApps,
}

/// Programs that are kept running.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptPrograms {
    pub(crate) starts: Vec<ProgramStart>,
    /// The descriptors of programs that have some, by their names.
    pub(crate) descriptors: BTreeMap<String, ProgramDescriptors>,
}

impl SitePrograms {
    /// Returns the programs for these sites: the running ones if their settings are the same, and
    /// new ones. Python applications have new processes in any case. The sites get their mounts.
    /// `programs` are programs whose names are taken.
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
        self.kept_with(programs, &[])
    }

    /// Returns the programs to keep running, as [`Self::kept`] does, and left ones.
    pub(crate) fn kept_with(
        &self,
        programs: &[ProgramStart],
        left: &[&LeftPrograms],
    ) -> KeptPrograms {
        let pools: Vec<Arc<PhpPool>> = left.iter().flat_map(|left| left.pools.clone()).collect();
        let mut starts = self.php.starts_with(programs, &pools);
        let mut descriptors = BTreeMap::new();
        let apps = [&self.python].into_iter().chain(left.iter().map(|left| &left.python));
        for (start, of_start) in apps.flat_map(PythonApps::starts) {
            descriptors.insert(start.name.clone(), of_start);
            starts.push(start);
        }
        KeptPrograms { starts, descriptors }
    }

    /// Returns the programs that `next` lacks.
    pub(crate) fn left_out_of(&self, next: &Self) -> LeftPrograms {
        LeftPrograms {
            since: Instant::now(),
            pools: self.php.left_out_of(&next.php),
            python: self.python.left_out_of(&next.python),
        }
    }

    /// Returns whether a program is one of them.
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
    /// Returns Python applications alone.
    pub(crate) fn of_python(python: PythonApps) -> Self {
        Self { since: Instant::now(), pools: Vec::new(), python }
    }

    /// Returns whether nothing of it runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.pools.is_empty() && self.python.is_empty()
    }

    /// Forgets the programs that have no requests any more, or whose time is over. `is_there`
    /// returns whether a program has not ended yet. Returns whether the programs are others now.
    pub(crate) fn stop_unused(&mut self, is_there: impl Fn(&str) -> bool) -> bool {
        let before = self.pools.len();
        let has_time = self.since.elapsed() < UNUSED_MAX;
        self.pools.retain(|pool| has_time && pool.is_used());
        self.python.stop_unused(is_there) || self.pools.len() != before
    }
}
