//! The programs of all sites, as the spawner has them.

use super::notifier::Notifier;
use crate::failure::Failure;
use crate::settings::ProgramFile;
use anyhow::anyhow;
use pinion_engine::stderr;
use pinion_lua::programs::{Programs, ProgramsUse};
use pinion_programs::signal_name;
use pinion_programs::spawner_access::{SpawnerAccess, UnexpectedEnd};
use pinion_spawner::spawner::{CgroupUse, ControlError, ForkError, Spawner};
use pinion_spawner::start_table::{ProgramStart, StartTable};
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

/// Where programs find others, without what the server has in its own environment.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The table of the spawner. Sites that are loaded again add rows. A row stays as long as a script
/// is left that may run its program, also one of an earlier version; then another program gets it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgramTable {
    access: SpawnerAccess,
    rows: Arc<Mutex<Vec<Row>>>,
}

#[derive(Clone, Debug)]
struct Row {
    /// What the log calls it: the name that a script calls it, with a number where scripts of
    /// several sites call different programs by one name.
    name: String,
    path: PathBuf,
    /// The sites that have it; `None` before the first one does.
    uses: Option<Vec<ProgramsUse>>,
}

impl Row {
    /// Returns whether no script is left that may run the program.
    fn is_free(&self) -> bool {
        self.uses.as_ref().is_some_and(|uses| uses.iter().all(ProgramsUse::has_ended))
    }

    fn is_program(&self, other: &Self) -> bool {
        (&self.name, &self.path) == (&other.name, &other.path)
    }
}

impl ProgramTable {
    /// Forks the spawner if any site has a program. This process has no other thread yet.
    ///
    /// # Errors
    /// [`Failure`]: a program cannot be run, or the system allows no further process.
    pub(crate) fn fork<'p>(
        programs: impl Iterator<Item = &'p ProgramFile>,
    ) -> Result<Self, Failure> {
        let mut rows = Vec::new();
        programs.for_each(|program| {
            add_row(&mut rows, program);
        });
        if rows.is_empty() {
            return Ok(Self::default());
        }
        let spawner = Spawner::fork(&table(&rows), CgroupUse::IfDelegated);
        let spawner = spawner.map_err(|error| match error {
            ForkError::Table(error) => Failure::usage(format!("--lua-program: {error}")),
            error => anyhow!("{error}").into(),
        })?;
        Ok(Self { access: SpawnerAccess::new(spawner), rows: Arc::new(Mutex::new(rows)) })
    }

    /// Returns the programs of a site, by the names that its scripts call them.
    ///
    /// # Errors
    /// [`Failure`]: one cannot be run, or there is no spawner.
    pub(crate) fn programs(&self, named: &[ProgramFile]) -> Result<Programs, Failure> {
        if named.is_empty() {
            return Ok(Programs::default());
        }
        if !self.access.is_there() {
            return Err(anyhow!(
                "--lua-program: the server was started without programs; restart needed"
            )
            .into());
        }
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = rows.clone();
        let numbers: Vec<u16> = named.iter().map(|program| add_row(&mut next, program)).collect();
        let names = named.iter().map(|program| program.name.clone());
        let programs: Programs = names.zip(numbers.iter().copied()).collect();
        let is_same = |(row, next): (&Row, &Row)| row.is_program(next);
        if next.len() > rows.len() || !rows.iter().zip(&next).all(is_same) {
            self.access.replace_table(&table(&next)).map_err(|error| match error {
                ControlError::Table(error) => Failure::usage(format!("--lua-program: {error}")),
                error => anyhow!("--lua-program: {error}").into(),
            })?;
        }
        for number in numbers {
            let uses = next[usize::from(number)].uses.get_or_insert_default();
            uses.retain(|usage| !usage.has_ended());
            uses.push(programs.usage());
        }
        *rows = next;
        Ok(programs)
    }

    /// Returns how many programs there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns what workers connect to.
    pub(crate) fn access(&self) -> SpawnerAccess {
        self.access.clone()
    }

    /// Starts a thread that waits for the end of the spawner, if there is one. If nothing has
    /// stopped it, the thread logs that and kills what is left of its programs.
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

    /// Stops all programs and the spawner. Returns a message if something is left.
    pub(crate) fn stop(&self, grace: Duration) -> Option<String> {
        let spawner = self.access.take_spawner()?;
        spawner.stop(grace).err().map(|survivors| survivors.to_string())
    }
}

/// Logs that the spawner has ended without being asked to.
fn log_unexpected_end(end: &UnexpectedEnd) {
    let how = end.signal.map_or_else(String::new, |signal| format!(" by {}", signal_name(signal)));
    stderr::line(format_args!(
        "pinion: the process that starts programs has ended{how}; scripts run no programs until \
         you restart the server, everything else goes on"
    ));
    if let Some(survivors) = &end.survivors {
        stderr::line(format_args!("pinion: {survivors}"));
    }
}

/// Returns the number of the row of a program. If there is none, a free row becomes that, or one is
/// added.
fn add_row(rows: &mut Vec<Row>, program: &ProgramFile) -> u16 {
    let ProgramFile { name, path } = program;
    let shown = |number: usize| match number {
        1 => name.clone(),
        number => format!("{name}.{number}"),
    };
    let is_of =
        |row: &Row| row.path == *path && (1..=rows.len()).any(|number| row.name == shown(number));
    if let Some(found) = rows.iter().position(is_of) {
        // It may have been free: it is not any more before it has its next use.
        if rows[found].is_free() {
            rows[found].uses = None;
        }
        return found as u16;
    }
    let free = rows.iter().position(Row::is_free).unwrap_or(rows.len());
    let is_taken = |name: &String| {
        rows.iter().enumerate().any(|(number, row)| number != free && row.name == *name)
    };
    let name = (1..).map(shown).find(|name| !is_taken(name)).unwrap_or_default();
    let row = Row { name, path: path.clone(), uses: None };
    match rows.get_mut(free) {
        Some(found) => *found = row,
        None => rows.push(row),
    }
    free as u16
}

/// The table with these rows.
fn table(rows: &[Row]) -> StartTable {
    let start = |row: &Row| ProgramStart {
        allows_arguments: true,
        environment: environment(),
        ..ProgramStart::new(&row.name, &row.path)
    };
    StartTable { starts: rows.iter().map(start).collect() }
}

/// The environment of every program.
fn environment() -> Vec<(OsString, OsString)> {
    let mut variables = vec![("PATH".into(), PATH.into()), ("LANG".into(), "C.UTF-8".into())];
    // Where files can be written that nothing else sees (PrivateTmp= of systemd).
    variables.extend(env::var_os("TMPDIR").map(|folder| ("TMPDIR".into(), folder)));
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_one_row_and_names_are_unique() {
        let program = |name: &str, path: &str| ProgramFile { name: name.into(), path: path.into() };
        let mut rows = Vec::new();
        let asked = [("sh", "/bin/sh"), ("sh", "/bin/bash"), ("cat", "/bin/cat")];
        let numbers = asked.map(|(name, path)| add_row(&mut rows, &program(name, path)));
        assert_eq!(numbers, [0, 1, 2]);
        let again = asked.map(|(name, path)| add_row(&mut rows, &program(name, path)));
        assert_eq!(again, numbers);
        let names = |rows: &[Row]| rows.iter().map(|row| row.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&rows), ["sh", "sh.2", "cat"]);
        // What no script is left for makes room for others, but not before.
        let programs: Programs =
            [("sh".to_owned(), 0), ("cat".to_owned(), 2)].into_iter().collect();
        rows[0].uses = Some(vec![programs.usage()]);
        rows[2].uses = Some(vec![programs.usage()]);
        assert_eq!(add_row(&mut rows, &program("ls", "/bin/ls")), 3);
        drop(programs);
        assert_eq!(add_row(&mut rows, &program("sh", "/bin/sh")), 0, "it is still there");
        assert_eq!(add_row(&mut rows, &program("sh", "/bin/dash")), 2);
        assert_eq!(add_row(&mut rows, &program("tr", "/bin/tr")), 4, "none is free");
        assert_eq!(names(&rows), ["sh", "sh.2", "sh.3", "ls", "tr"]);
    }
}
