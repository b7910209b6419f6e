//! The Python applications of all sites.

use super::limits::RETIRED_MAX;
use super::process_files::ProcessFiles;
use super::running_app::{NewProcess, RunningApp};
use crate::failure::Failure;
use crate::plan::PlannedSite;
use pinion_engine::Poster;
use pinion_programs::supervisor_link::ProgramDescriptors;
use pinion_spawner::start_table::ProgramStart;
use std::sync::Arc;

/// The Python applications of all sites. A copy has the same files.
#[derive(Clone, Debug, Default)]
pub(crate) struct PythonApps {
    files: ProcessFiles,
    apps: Vec<Arc<RunningApp>>,
}

impl PythonApps {
    /// Returns the applications for these sites: the running ones if their settings are the same,
    /// and new ones. Each has new processes, which are not started yet. `programs` are programs
    /// whose names are taken.
    ///
    /// # Errors
    /// There is no Python, or it cannot run as asked. No application has new processes.
    pub(crate) fn next(
        &self,
        sites: &[PlannedSite],
        programs: &[ProgramStart],
    ) -> Result<Self, Failure> {
        let mut next = Self { apps: Vec::new(), files: self.files.clone() };
        let mounts = sites.iter().flat_map(|site| {
            let is_watched = site.settings.low.given("dev");
            site.settings.mounts.python().map(move |mount| (mount, is_watched))
        });
        for (mount, is_watched) in mounts {
            let is_match = |app: &&Arc<RunningApp>| {
                app.settings == mount.settings && app.is_watched() == is_watched
            };
            let known = self.apps.iter().chain(&next.apps).find(is_match).cloned();
            let app = match known {
                Some(app) => app,
                None => Arc::new(RunningApp::new(&mount.settings, is_watched, &self.files)?),
            };
            // The mount was made for this plan.
            let _first = mount.app.set(Arc::clone(&app.app));
            if !next.apps.iter().any(|known| Arc::ptr_eq(known, &app)) {
                next.apps.push(app);
            }
        }
        next.add_new(programs).inspect_err(|_| next.drop_new())?;
        Ok(next)
    }

    /// Adds new processes to each application, as many as it is to have.
    ///
    /// # Errors
    /// A socket cannot be made.
    pub(crate) fn add_new(&self, programs: &[ProgramStart]) -> Result<(), Failure> {
        let is_taken = |name: &str| programs.iter().any(|program| program.name == name);
        self.apps.iter().try_for_each(|app| app.add_new(app.settings.processes, is_taken))
    }

    /// Returns the processes that get no requests yet.
    pub(crate) fn new_processes(&self) -> Vec<NewProcess> {
        self.apps.iter().flat_map(|app| app.new_processes()).collect()
    }

    /// Sends requests to the new processes in place of the earlier ones.
    pub(crate) fn use_new(&self, poster: &Poster) {
        self.apps.iter().for_each(|app| app.use_new(None, Some(poster)));
    }

    /// Stops the processes that get no requests yet.
    pub(crate) fn drop_new(&self) {
        self.apps.iter().for_each(|app| app.drop_new());
    }

    /// Stops the processes that get no requests yet. Requests do not wait for others.
    pub(crate) fn refuse_until_loaded(&self) {
        self.drop_new();
        self.apps.iter().for_each(|app| app.app.refuse_until_loaded());
    }

    /// Sends requests to none of the processes.
    pub(crate) fn retire(&self) {
        self.apps.iter().for_each(|app| app.retire());
    }

    /// Stops replaced processes that have no requests any more, or that have had long enough.
    /// `is_there` says whether a program has not ended yet. Returns whether the programs are others
    /// now.
    pub(crate) fn stop_unused(&self, is_there: impl Fn(&str) -> bool) -> bool {
        let stopped = self.apps.iter().filter(|app| app.stop_unused(RETIRED_MAX, &is_there));
        stopped.count() > 0
    }

    /// Returns whether a process is there that was replaced.
    pub(crate) fn has_retired(&self) -> bool {
        self.apps.iter().any(|app| app.has_retired())
    }

    /// Returns whether no application has a process.
    pub(crate) fn is_empty(&self) -> bool {
        self.apps.iter().all(|app| app.is_empty())
    }

    /// Returns the programs to keep running, with their descriptors.
    pub(crate) fn starts(&self) -> impl Iterator<Item = (ProgramStart, ProgramDescriptors)> {
        self.apps.iter().flat_map(|app| app.starts())
    }

    /// Returns the applications that `next` lacks.
    pub(crate) fn left_out_of(&self, next: &Self) -> Self {
        let is_left = |app: &&Arc<RunningApp>| !next.apps.iter().any(|one| Arc::ptr_eq(one, app));
        let apps = self.apps.iter().filter(is_left).cloned().collect();
        Self { apps, files: self.files.clone() }
    }

    /// Returns whether a program is a process of one of them.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.apps.iter().any(|app| app.has(name))
    }

    /// Returns a line about each for the start.
    pub(crate) fn in_words(&self) -> impl Iterator<Item = String> {
        self.apps.iter().map(|app| app.in_words())
    }

    /// Returns whether processes of one have limits.
    pub(crate) fn have_limits(&self) -> bool {
        self.apps.iter().any(|app| app.has_limits())
    }

    /// Returns the applications.
    pub(crate) fn apps(&self) -> &[Arc<RunningApp>] {
        &self.apps
    }

    /// Removes all files. Nothing of it is used any more.
    pub(crate) fn remove_files(&self) {
        self.files.remove();
    }
}
