//! A program at the command line: one script that runs to its end, and no requests.

use std::rc::Rc;

use pinion_engine::clock::Now;
use pinion_engine::stderr;

use super::{Scripts, SiteScript};
use crate::script_load_error::ScriptProblem;
use crate::shared_site_state::ScriptSite;
use crate::site_program::SiteProgram;
use crate::task::TaskId;
use crate::vm::Vm;

/// A running program.
pub(super) struct StandaloneProgram {
    vm: Rc<Vm>,
    main: TaskId,
    /// The number of its schedules that have begun.
    schedules: usize,
    has_failed: bool,
    /// Whether its main script has failed, so that nothing else counts any more.
    is_lost: bool,
    quiet: Quiet,
}

/// Whether messages may be under way that begin new work.
#[derive(PartialEq)]
enum Quiet {
    /// It has not been checked.
    Unknown,
    /// A message to this worker itself is queued after all of them.
    Asked,
    /// That message has arrived.
    Known,
}

/// The message of [`Quiet::Asked`].
pub(super) struct NothingBefore;

impl Scripts {
    /// Begins a program [with arguments](SiteProgram::with_arguments). It runs in [`Self::pass`];
    /// after each, and after [`Self::posted`], check whether it [has ended](Self::ending).
    ///
    /// # Errors
    /// Returns the error of the script, or fails if there is no thread to watch it.
    pub fn run_alone(
        &mut self,
        program: &SiteProgram,
        site: &ScriptSite,
        now: Now,
    ) -> Result<(), ScriptProblem> {
        let SiteScript(vm) = self.start(program, site, now)?;
        let main = vm.begin_main(program)?;
        self.settle(&vm);
        let (schedules, quiet) = (0, Quiet::Unknown);
        let (has_failed, is_lost) = (false, false);
        self.alone = Some(StandaloneProgram { vm, main, schedules, has_failed, is_lost, quiet });
        Ok(())
    }

    /// Returns whether all tasks of the program succeeded if it has ended; none while it runs.
    pub fn ending(&mut self, now: Now) -> Option<bool> {
        let alone = self.alone.as_mut()?;
        if alone.is_lost {
            return Some(false);
        }
        let vm = Rc::clone(&alone.vm);
        let begun =
            std::mem::replace(&mut alone.schedules, vm.host().work.schedules.borrow().len());
        self.begin_schedules(&vm, begun, now);
        let is_stopping = self.background.is_stopping();
        let alone = self.alone.as_mut()?;
        if alone.schedules > 0 && !is_stopping || vm.tasks().background() > 0 {
            if alone.quiet == Quiet::Known {
                alone.quiet = Quiet::Unknown;
            }
            return None;
        }
        match alone.quiet {
            Quiet::Known => Some(!alone.has_failed),
            Quiet::Asked => None,
            Quiet::Unknown => {
                alone.quiet = Quiet::Asked;
                let posted = self.poster.post_to_app(self.worker, Box::new(NothingBefore));
                posted.is_err().then_some(!alone.has_failed)
            }
        }
    }

    /// Records that all messages that were under way have arrived.
    pub(super) fn is_quiet(&mut self) {
        if let Some(alone) = &mut self.alone {
            alone.quiet = Quiet::Known;
        }
    }

    /// Records that a task of the program has failed, and prints the error for the user; returns
    /// false if there is no program.
    pub(super) fn has_failed_alone(&mut self, id: TaskId, text: &str) -> bool {
        let Some(alone) = &mut self.alone else { return false };
        alone.has_failed = true;
        alone.is_lost |= id == alone.main;
        stderr::line(format_args!("pinion: {text}"));
        true
    }
}
