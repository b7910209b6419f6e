//! The programs of all sites and of the configuration, as the spawner has them.

use super::program_rows::ProgramRows;
use super::sd_notify::Notifier;
use super::site_programs::KeptPrograms;
use crate::failure::Failure;
use crate::settings::{CgiMount, ProgramFile};
use crate::terminal::counted;
use anyhow::{Context as _, anyhow};
use pinion_engine::{release_memory, stderr};
use pinion_lua::external_programs::Programs;
use pinion_programs::signal_name;
use pinion_programs::spawner_access::{SpawnerAccess, UnexpectedEnd};
use pinion_programs::supervisor::{ProgramStatus, SupervisedProgram};
use pinion_programs::supervisor_link::{
    ProgramDescriptors, SupervisedPrograms, SupervisorInbox, SupervisorLink,
};
use pinion_spawner::spawner_handle::{CgroupUse, ControlError, ForkError, Spawner};
use pinion_spawner::start_table::ProgramStart;
use pinion_spawner::table_check::TableError;
use rustix::process::geteuid;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, process, thread};

/// The additional time that the spawner has at the end: to kill programs that have not stopped in
/// time, and the processes that they leave.
const SPAWNER_GRACE: Duration = Duration::from_secs(2);

/// Programs that the line at the start names; 64 would make it unreadable.
const SHOWN_MAX: usize = 8;

/// The table of the spawner. Sites that are loaded again add rows. A row stays as long as a script
/// is left that may run its program, also one of an earlier version, or as long as the
/// configuration has it; then another program gets it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgramTable {
    access: SpawnerAccess,
    rows: Arc<Mutex<ProgramRows>>,
    /// The descriptors of programs that are kept running and have some, by their names.
    descriptors: Arc<Mutex<BTreeMap<String, ProgramDescriptors>>>,
    /// The inbox of the supervisor for news of its programs; `None` without a spawner.
    inbox: Option<SupervisorInbox>,
}

impl ProgramTable {
    /// Forks the spawner if there is a program: one that is kept running, one of scripts, or CGI
    /// scripts. This process has no other thread yet.
    ///
    /// # Errors
    /// [`Failure`]: a program cannot be run, or the system allows no further process.
    pub(crate) fn fork<'p>(
        kept: KeptPrograms,
        of_scripts: impl Iterator<Item = &'p ProgramFile>,
        cgi: impl Iterator<Item = &'p Arc<CgiMount>>,
    ) -> Result<Self, Failure> {
        let mut rows = ProgramRows::default();
        rows.set_supervised(&kept.starts);
        of_scripts.for_each(|program| {
            rows.add_script_program(program);
        });
        cgi.for_each(|mount| {
            rows.add_cgi(&mount.start);
        });
        let table = rows.table();
        if table.starts.is_empty() {
            return Ok(Self::default());
        }
        // Otherwise the spawner has a copy of the freed memory of the configuration.
        release_memory::release_heap();
        let spawner = Spawner::fork(&table, CgroupUse::IfDelegated, release_memory::release_code);
        let spawner = spawner.map_err(|error| match error {
            ForkError::Table(error) => wrong_table(&rows, &error),
            error => anyhow!("{error}").into(),
        })?;
        let inbox = SupervisorInbox::new().context("cannot open an event descriptor")?;
        let access = SpawnerAccess::new(spawner);
        let this = Self {
            access,
            rows: Arc::new(Mutex::new(rows)),
            descriptors: Arc::new(Mutex::new(kept.descriptors)),
            inbox: Some(inbox),
        };
        this.announce(&this.lock());
        Ok(this)
    }

    /// Returns the programs of a site, by the names that its scripts call them.
    ///
    /// # Errors
    /// [`Failure`]: one cannot be run, or there is no spawner.
    pub(crate) fn programs(&self, named: &[ProgramFile]) -> Result<Programs, Failure> {
        if named.is_empty() {
            return Ok(Programs::default());
        }
        self.needs_spawner("--lua-program")?;
        let mut rows = self.lock();
        let mut next = rows.clone();
        let numbers: Vec<u16> =
            named.iter().map(|program| next.add_script_program(program)).collect();
        let names = named.iter().map(|program| program.name.clone());
        let programs: Programs = names.zip(numbers.iter().copied()).collect();
        self.replace(&rows, &next, "--lua-program")?;
        numbers.into_iter().for_each(|number| next.add_use(number, programs.usage()));
        *rows = next;
        Ok(programs)
    }

    /// Assigns rows to the CGI scripts of a site that have none yet.
    ///
    /// # Errors
    /// [`Failure`]: they cannot be run, or there is no spawner.
    pub(crate) fn add_cgi<'m>(
        &self,
        mounts: impl Iterator<Item = &'m Arc<CgiMount>>,
    ) -> Result<(), Failure> {
        let new: Vec<_> = mounts.filter(|mount| mount.scripts.row.get().is_none()).collect();
        if new.is_empty() {
            return Ok(());
        }
        self.needs_spawner("[[site.mount]] cgi")?;
        let mut rows = self.lock();
        let mut next = rows.clone();
        let numbers: Vec<u16> = new.iter().map(|mount| next.add_cgi(&mount.start)).collect();
        self.replace(&rows, &next, "[[site.mount]] cgi")?;
        for (mount, number) in new.into_iter().zip(numbers) {
            next.add_cgi_use(number, &mount.scripts);
            // It had none, and the lock is held.
            let _ = mount.scripts.row.set(number);
        }
        *rows = next;
        Ok(())
    }

    /// Checks whether [`Self::set_supervised`] can make these the programs that are kept running.
    ///
    /// # Errors
    /// [`Failure`]: one cannot be run, or there is no spawner.
    pub(crate) fn check_supervised(&self, programs: &[ProgramStart]) -> Result<(), Failure> {
        if programs.is_empty() {
            return Ok(());
        }
        self.needs_spawner("[[program]]")?;
        let (rows, next) = self.with_supervised(programs);
        if rows.differ_from(&next) {
            if self.access.has_ended() {
                return Err(anyhow!("[[program]]: {}", ControlError::Gone).into());
            }
            let checked = next.table().check_changes(&rows.table());
            checked.map_err(|error| wrong_table(&next, &error))?;
        }
        Ok(())
    }

    /// Makes these the programs that are kept running.
    ///
    /// # Errors
    /// [`Failure`]: one cannot be run, or there is no spawner. The others stay.
    pub(crate) fn set_supervised(&self, kept: KeptPrograms) -> Result<(), Failure> {
        if self.inbox.is_none() {
            // It was checked that there is none.
            return Ok(());
        }
        let (mut rows, next) = self.with_supervised(&kept.starts);
        *self.descriptors.lock().unwrap_or_else(PoisonError::into_inner) = kept.descriptors;
        self.replace(&rows, &next, "[[program]]")?;
        *rows = next;
        self.announce(&rows);
        Ok(())
    }

    /// Returns the state of a program that is kept running; `None` if there is none with this name.
    pub(crate) fn status_of(&self, name: &str) -> Option<ProgramStatus> {
        self.inbox.as_ref()?.status_of(name)
    }

    /// Returns how many programs scripts run.
    pub(crate) fn script_count(&self) -> usize {
        self.lock().script_count()
    }

    /// Returns how many programs are kept running, and as which users; `None` if there are none.
    /// Those that `has_own_line` says have lines of their own.
    pub(crate) fn supervised_in_words(
        &self,
        has_own_line: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let (rows, own) = (self.lock(), geteuid().as_raw());
        let users = || rows.users().filter(|(name, _)| !has_own_line(name));
        let count = users().count();
        let shown = |(name, user): (&str, Option<u32>)| match user {
            Some(user) => format!("{name} as user {user}"),
            None => format!("{name} as the user of the server ({own})"),
        };
        let mut words: Vec<String> = users().take(SHOWN_MAX).map(shown).collect();
        if let Some(more @ 1..) = count.checked_sub(SHOWN_MAX) {
            words.push(format!("{more} more"));
        }
        let counted = counted(count as u64, "program");
        (count > 0).then(|| format!("{counted} to keep running: {}", words.join(", ")))
    }

    /// Returns the access that workers use to connect.
    pub(crate) fn access(&self) -> SpawnerAccess {
        self.access.clone()
    }

    /// Returns the link that keeps programs running, if there is a spawner. One thread has it.
    pub(crate) fn supervisor(&self) -> Option<SupervisorLink> {
        let inbox = self.inbox.clone()?;
        // Programs of several servers that lose the same database have different numbers.
        Some(SupervisorLink::new(self.access(), inbox, process::id().into()))
    }

    /// Starts a thread that waits for the end of the spawner, if there is one. If nothing has
    /// stopped it, the thread logs that and kills its remaining programs.
    ///
    /// # Errors
    /// The system allows no further thread.
    pub(crate) fn watch(&self, notifier: Notifier) -> io::Result<()> {
        if self.access.is_there() {
            let access = self.access();
            let thread = thread::Builder::new().name("spawner-end".to_owned());
            thread.spawn(move || {
                if let Some(end) = access.clean_up_after_end() {
                    log_unexpected_end(&end);
                    notifier.programs_ended();
                }
            })?;
        }
        Ok(())
    }

    /// Returns how long all programs have to stop: as long as the slowest of them may take.
    pub(crate) fn grace(&self) -> Duration {
        Duration::from_millis(self.lock().longest_grace_ms().into()) + SPAWNER_GRACE
    }

    /// Stops all programs and the spawner, and kills the remaining ones after `grace`. Returns a
    /// message if something cannot be killed.
    pub(crate) fn stop(&self, grace: Duration) -> Option<String> {
        if let Some(inbox) = &self.inbox {
            inbox.stop();
        }
        let spawner = self.access.take_spawner()?;
        let supervised = self.lock().supervised().len() as u64;
        if supervised > 0 {
            stderr::line(format_args!("stopping {}", counted(supervised, "program")));
        }
        spawner.stop(grace).err().map(|survivors| survivors.to_string())
    }

    fn needs_spawner(&self, of: &str) -> Result<(), Failure> {
        if self.access.is_there() {
            return Ok(());
        }
        Err(anyhow!("{of}: the server was started without programs; restart needed").into())
    }

    /// Returns the rows, and how they are with these programs.
    fn with_supervised(
        &self,
        programs: &[ProgramStart],
    ) -> (MutexGuard<'_, ProgramRows>, ProgramRows) {
        let rows = self.lock();
        let mut next = rows.clone();
        next.set_supervised(programs);
        (rows, next)
    }

    /// Puts the table with other rows into use. In errors, `of` names the origin of the change.
    fn replace(&self, rows: &ProgramRows, next: &ProgramRows, of: &str) -> Result<(), Failure> {
        if !rows.differ_from(next) {
            return Ok(());
        }
        self.access.replace_table(&next.table()).map_err(|error| match error {
            ControlError::Table(error) => Failure::usage(format!("{of}: {error}")),
            error => anyhow!("{of}: {error}").into(),
        })?;
        self.announce(next);
        Ok(())
    }

    /// Sends the supervisor its programs, and the generation of the table that is in use.
    fn announce(&self, rows: &ProgramRows) {
        if let Some(inbox) = &self.inbox {
            inbox.set_programs(SupervisedPrograms {
                generation: self.access.generation(),
                programs: rows.supervised().to_vec(),
                descriptors: self.descriptors_of(rows),
            });
        }
    }

    /// Returns the descriptors of programs by their rows.
    fn descriptors_of(&self, rows: &ProgramRows) -> BTreeMap<u16, ProgramDescriptors> {
        let descriptors = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        let of_row = |program: &SupervisedProgram| {
            Some((program.start, descriptors.get(&*program.name)?.clone()))
        };
        rows.supervised().iter().filter_map(of_row).collect()
    }

    fn lock(&self) -> MutexGuard<'_, ProgramRows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the failure of a table that is wrong.
fn wrong_table(rows: &ProgramRows, error: &TableError) -> Failure {
    let is_supervised = |name: &str| rows.supervised().iter().any(|known| *known.name == *name);
    let is_of_scripts = match error {
        TableError::Start { name, .. } => !is_supervised(name),
        _ => rows.supervised().is_empty(),
    };
    let of = if matches!(error, TableError::Start { name, .. } if rows.is_cgi(name)) {
        "[[site.mount]] cgi"
    } else if is_of_scripts {
        "--lua-program"
    } else {
        "[[program]]"
    };
    Failure::usage(format!("{of}: {error}"))
}

/// Logs that the spawner has ended without being asked to.
fn log_unexpected_end(end: &UnexpectedEnd) {
    let how = end.signal.map_or_else(String::new, |signal| format!(" by {}", signal_name(signal)));
    stderr::line(format_args!(
        "pinion: the process that starts programs has ended{how}; no programs run until you \
         restart the server, everything else goes on"
    ));
    if let Some(survivors) = &end.survivors {
        stderr::line(format_args!("pinion: {survivors}"));
    }
}
