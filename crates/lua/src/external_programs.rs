//! Programs that scripts run: the programs of a site, and the runner of a worker.
//!
//! A script calls `pinion.process.run` (`process.lua`), which starts a program by the worker's
//! [`ProgramRunner`] and waits to be woken.
//! [`Scripts::flush`](crate::worker_scripts::Scripts::flush) does the work on its streams, and
//! wakes the tasks whose programs have news.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use pinion_programs::program_runner::ProgramRunner;
use pinion_programs::spawner_access::SpawnerAccess;

/// The programs that the scripts of a site may run, by the names that scripts call them: rows of
/// the spawner's table. Copies share them. The default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Programs(Arc<BTreeMap<String, u16>>);

impl Programs {
    /// Returns the row of a program.
    ///
    /// # Errors
    /// Fails if there is none of this name; the message lists the programs, and names the
    /// correction.
    pub(crate) fn get(&self, name: &str) -> Result<u16, String> {
        self.0.get(name).copied().ok_or_else(|| {
            let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            format!(
                "there is no program {name:?} (there is {has}); start Pinion with --lua-program \
                 {name}=PATH, or add it to `lua-program` of the site"
            )
        })
    }
}

/// A weak reference to the programs of a site, which tells whether they are still in use.
#[derive(Clone, Debug)]
pub struct ProgramsUse(Weak<BTreeMap<String, u16>>);

impl ProgramsUse {
    /// Returns whether neither the site nor any of its scripts is left.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl Programs {
    /// Returns a weak reference that tells whether these programs are still in use.
    #[must_use]
    pub fn usage(&self) -> ProgramsUse {
        ProgramsUse(Arc::downgrade(&self.0))
    }
}

impl FromIterator<(String, u16)> for Programs {
    fn from_iter<I: IntoIterator<Item = (String, u16)>>(rows: I) -> Self {
        Self(Arc::new(rows.into_iter().collect()))
    }
}

/// The runner of a worker, which all VMs of the worker share. It is made when a script runs its
/// first program.
#[derive(Debug)]
pub(crate) struct WorkerPrograms {
    access: SpawnerAccess,
    runner: OnceCell<RefCell<ProgramRunner>>,
    is_stopping: Cell<bool>,
}

impl WorkerPrograms {
    pub(crate) fn new(access: SpawnerAccess) -> Self {
        Self { access, runner: OnceCell::new(), is_stopping: Cell::new(false) }
    }

    /// Returns the runner, if a script has run a program.
    #[inline]
    pub(crate) fn used(&self) -> Option<&RefCell<ProgramRunner>> {
        self.runner.get()
    }

    /// Records that the server stops.
    pub(crate) fn stop(&self) {
        self.is_stopping.set(true);
        if let Some(runner) = self.used() {
            runner.borrow_mut().stop();
        }
    }

    /// Returns the runner; `None` where the server has no spawner.
    pub(crate) fn get(&self) -> Option<&RefCell<ProgramRunner>> {
        let make = || {
            let mut runner = ProgramRunner::new(self.access.clone());
            if self.is_stopping.get() {
                runner.stop();
            }
            RefCell::new(runner)
        };
        self.access.is_there().then(|| self.runner.get_or_init(make))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_name_and_an_unknown_one_names_the_option() {
        let programs = [("convert".to_owned(), 5)].into_iter().collect::<Programs>();
        assert_eq!(programs.get("convert"), Ok(5));
        let why = programs.get("sh").expect_err("there is none");
        assert!(why.contains("there is convert") && why.contains("--lua-program sh=PATH"), "{why}");
        let usage = programs.usage();
        let copy = programs.clone();
        drop(programs);
        assert!(!usage.has_ended(), "a copy is left");
        drop(copy);
        assert!(usage.has_ended());
        let why = Programs::default().get("sh").expect_err("there is none");
        assert!(why.contains("there is none"), "{why}");
    }
}
