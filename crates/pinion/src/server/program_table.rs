//! The programs of all sites, as the spawner has them.

use crate::failure::Failure;
use crate::settings::ProgramFile;
use anyhow::anyhow;
use pinion_lua::programs::Programs;
use pinion_programs::spawner_access::SpawnerAccess;
use pinion_spawner::spawner::{CgroupUse, ControlError, ForkError, Spawner};
use pinion_spawner::start_table::{ProgramStart, StartTable};
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where programs find others, without what the server has in its own environment.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The table of the spawner. Sites that are loaded again add rows; none is ever removed, so that
/// scripts of earlier versions find theirs.
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
        let numbers: Vec<_> = named
            .iter()
            .map(|program| (program.name.clone(), add_row(&mut next, program)))
            .collect();
        if next.len() > rows.len() {
            self.access.extend_table(&table(&next)).map_err(|error| match error {
                ControlError::Table(error) => Failure::usage(format!("--lua-program: {error}")),
                error => anyhow!("--lua-program: {error}").into(),
            })?;
            *rows = next;
        }
        Ok(numbers.into_iter().collect())
    }

    /// Returns what workers connect to.
    pub(crate) fn access(&self) -> SpawnerAccess {
        self.access.clone()
    }

    /// Stops all programs and the spawner. Returns a message if something is left.
    pub(crate) fn stop(&self, grace: Duration) -> Option<String> {
        let spawner = self.access.take_spawner()?;
        spawner.stop(grace).err().map(|survivors| survivors.to_string())
    }
}

/// Returns the number of the row of a program, which is added if there is none.
fn add_row(rows: &mut Vec<Row>, program: &ProgramFile) -> u16 {
    let ProgramFile { name, path } = program;
    let is_of = |row: &Row, name: &str| row.path == *path && row.name == *name;
    let mut shown = name.clone();
    let mut number = 1;
    loop {
        if let Some(found) = rows.iter().position(|row| is_of(row, &shown)) {
            return found as u16;
        }
        if !rows.iter().any(|row| row.name == shown) {
            rows.push(Row { name: shown, path: path.clone() });
            return (rows.len() - 1) as u16;
        }
        number += 1;
        shown = format!("{name}.{number}");
    }
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
        let names: Vec<&str> = rows.iter().map(|row| &*row.name).collect();
        assert_eq!(names, ["sh", "sh.2", "cat"]);
    }
}
