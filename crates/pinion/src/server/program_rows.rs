//! The rows of the table of the spawner: those of programs that scripts run, those of programs that
//! the server keeps running, and those of CGI scripts.

use crate::settings::{ProgramFile, default_variables};
use pinion_gateway::cgi::cgi_scripts::CgiScripts;
use pinion_lua::external_programs::ProgramsUse;
use pinion_programs::supervisor::SupervisedProgram;
use pinion_spawner::start_table::{ProgramStart, StartTable};
use std::path::Path;
use std::sync::{Arc, Weak};

/// The rows, by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgramRows {
    rows: Vec<ProgramRow>,
    /// The programs that are kept running, in the order of the configuration.
    supervised: Vec<SupervisedProgram>,
    last_revision: u64,
}

#[derive(Clone, Debug)]
struct ProgramRow {
    /// The program. Its name is that in the log: the one that it was given, with a number where
    /// several programs have the same.
    start: ProgramStart,
    user: RowUser,
}

/// Who starts the program of a row.
#[derive(Clone, Debug)]
enum RowUser {
    /// The scripts of these sites; `None` before the first site has it.
    Scripts(Option<Vec<ProgramsUse>>),
    /// The server keeps it running.
    Supervisor,
    /// Mounts with these CGI scripts; `None` before the first one has it.
    Cgi(Option<Vec<Weak<CgiScripts>>>),
}

impl ProgramRow {
    /// Returns whether nothing is left that may start the program.
    fn is_free(&self) -> bool {
        match &self.user {
            RowUser::Scripts(Some(uses)) => uses.iter().all(ProgramsUse::has_ended),
            RowUser::Cgi(Some(uses)) => uses.iter().all(|scripts| scripts.strong_count() == 0),
            RowUser::Scripts(None) | RowUser::Supervisor | RowUser::Cgi(None) => false,
        }
    }

    /// Makes the row of a removed program free. The number of the row stays, so it keeps a program
    /// that nothing starts, without the settings of the removed one: its environment may have
    /// secrets.
    fn release(&mut self) {
        let ProgramStart { name, program, kind, .. } = &self.start;
        let unused = ProgramStart::new(name, program);
        self.start = ProgramStart { kind: *kind, grace_ms: 0, ..unused };
        self.user = RowUser::Scripts(Some(Vec::new()));
    }
}

impl ProgramRows {
    /// Returns the table of the spawner with these rows.
    pub(super) fn table(&self) -> StartTable {
        StartTable { starts: self.rows.iter().map(|row| row.start.clone()).collect() }
    }

    /// Returns whether the spawner needs another table for `next`.
    pub(super) fn differ_from(&self, next: &Self) -> bool {
        self.rows.len() != next.rows.len()
            || self.rows.iter().zip(&next.rows).any(|(row, next)| row.start != next.start)
    }

    /// Returns how many programs scripts run.
    pub(super) fn script_count(&self) -> usize {
        self.rows.iter().filter(|row| matches!(row.user, RowUser::Scripts(_))).count()
    }

    /// Returns the names of the programs that are kept running, each with the number of its user;
    /// `None` for that of the server.
    pub(super) fn users(&self) -> impl Iterator<Item = (&str, Option<u32>)> {
        self.supervised.iter().map(|program| {
            let identity = &self.rows[usize::from(program.start)].start.identity;
            let other = identity.as_ref().filter(|identity| !identity.is_own());
            (&*program.name, other.map(|identity| identity.uid))
        })
    }

    /// Returns the programs that are kept running.
    pub(super) fn supervised(&self) -> &[SupervisedProgram] {
        &self.supervised
    }

    /// Returns the longest time that a program has to stop, in milliseconds.
    pub(super) fn longest_grace_ms(&self) -> u32 {
        self.rows.iter().map(|row| row.start.grace_ms).max().unwrap_or(0)
    }

    /// Makes these the programs that are kept running. A program that is there already keeps its
    /// row; the rows of removed ones become free.
    pub(super) fn set_supervised(&mut self, programs: &[ProgramStart]) {
        let old = std::mem::take(&mut self.supervised);
        let is_named = |name: &str| programs.iter().any(|program| program.name == name);
        for removed in old.iter().filter(|program| !is_named(&program.name)) {
            self.rows[usize::from(removed.start)].release();
        }
        for program in programs {
            let known = old.iter().find(|known| *known.name == program.name);
            let (number, mut revision) = match known {
                Some(known) => (known.start, known.revision),
                None => (self.take_row(program), 0),
            };
            let row = &mut self.rows[usize::from(number)];
            let start = ProgramStart { name: row.start.name.clone(), ..program.clone() };
            if revision == 0 || row.start != start {
                self.last_revision += 1;
                revision = self.last_revision;
            }
            *row = ProgramRow { start, user: RowUser::Supervisor };
            let name = program.name.as_str().into();
            self.supervised.push(SupervisedProgram { name, start: number, revision });
        }
    }

    /// Returns the number of the row of a program of scripts. If there is none, a free row becomes
    /// that, or one is added.
    pub(super) fn add_script_program(&mut self, program: &ProgramFile) -> u16 {
        let ProgramFile { name, path } = program;
        let is_of = |row: &ProgramRow| {
            let numbers = 1..=self.rows.len();
            matches!(row.user, RowUser::Scripts(_))
                && row.start == script_start(&row.start.name, path)
                && numbers.into_iter().any(|number| row.start.name == numbered(name, number))
        };
        if let Some(found) = self.rows.iter().position(is_of) {
            // It may have been free: it is not any more before it has its next use.
            if self.rows[found].is_free() {
                self.rows[found].user = RowUser::Scripts(None);
            }
            return found as u16;
        }
        self.take_row(&script_start(name, path))
    }

    /// Returns the number of the row of CGI scripts. If there is none, a free row becomes that, or
    /// one is added.
    pub(super) fn add_cgi(&mut self, start: &ProgramStart) -> u16 {
        let is_of = |row: &ProgramRow| {
            let own = ProgramStart { name: row.start.name.clone(), ..start.clone() };
            matches!(row.user, RowUser::Cgi(_)) && row.start == own
        };
        if let Some(found) = self.rows.iter().position(is_of) {
            if self.rows[found].is_free() {
                self.rows[found].user = RowUser::Cgi(None);
            }
            return found as u16;
        }
        let number = self.take_row(start);
        self.rows[usize::from(number)].user = RowUser::Cgi(None);
        number
    }

    /// Adds a mount to those whose CGI scripts have a row.
    pub(super) fn add_cgi_use(&mut self, number: u16, scripts: &Arc<CgiScripts>) {
        if let RowUser::Cgi(uses) = &mut self.rows[usize::from(number)].user {
            let uses = uses.get_or_insert_default();
            uses.retain(|scripts| scripts.strong_count() > 0);
            uses.push(Arc::downgrade(scripts));
        }
    }

    /// Returns whether the row of a name has CGI scripts.
    pub(super) fn is_cgi(&self, name: &str) -> bool {
        let is_named = |row: &&ProgramRow| row.start.name == name;
        let row = self.rows.iter().find(is_named);
        row.is_some_and(|row| matches!(row.user, RowUser::Cgi(_)))
    }

    /// Adds a site to those whose scripts run the program of a row.
    pub(super) fn add_use(&mut self, number: u16, usage: ProgramsUse) {
        if let RowUser::Scripts(uses) = &mut self.rows[usize::from(number)].user {
            let uses = uses.get_or_insert_default();
            uses.retain(|usage| !usage.has_ended());
            uses.push(usage);
        }
    }

    /// Assigns a program a free row, or else a new one, and a name that no other row has.
    fn take_row(&mut self, program: &ProgramStart) -> u16 {
        let free = |row: &ProgramRow| row.is_free() && row.start.name == program.name;
        let free = self.rows.iter().position(free);
        let free = free.or_else(|| self.rows.iter().position(ProgramRow::is_free));
        let free = free.unwrap_or(self.rows.len());
        let is_taken = |name: &String| {
            let mut rows = self.rows.iter().enumerate();
            rows.any(|(number, row)| number != free && row.start.name == *name)
        };
        let names = (1..).map(|number| numbered(&program.name, number));
        let name = names.into_iter().find(|name| !is_taken(name)).unwrap_or_default();
        let start = ProgramStart { name, ..program.clone() };
        let row = ProgramRow { start, user: RowUser::Scripts(None) };
        match self.rows.get_mut(free) {
            Some(found) => *found = row,
            None => self.rows.push(row),
        }
        free as u16
    }
}

/// Returns the row of a program that scripts run.
fn script_start(name: &str, path: &Path) -> ProgramStart {
    ProgramStart {
        allows_arguments: true,
        environment: default_variables(false),
        ..ProgramStart::new(name, path)
    }
}

/// Returns a name with a number, if it is not the first of its kind.
fn numbered(name: &str, number: usize) -> String {
    match number {
        1 => name.to_owned(),
        number => format!("{name}.{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_lua::external_programs::Programs;
    use pinion_spawner::start_table::{Identity, ProgramKind};

    fn names(rows: &ProgramRows) -> Vec<String> {
        rows.table().starts.into_iter().map(|start| start.name).collect()
    }

    #[test]
    fn a_program_has_one_row_and_names_are_unique() {
        let program = |name: &str, path: &str| ProgramFile { name: name.into(), path: path.into() };
        let mut rows = ProgramRows::default();
        let asked = [("sh", "/bin/sh"), ("sh", "/bin/bash"), ("cat", "/bin/cat")];
        let numbers = asked.map(|(name, path)| rows.add_script_program(&program(name, path)));
        assert_eq!(numbers, [0, 1, 2]);
        let again = asked.map(|(name, path)| rows.add_script_program(&program(name, path)));
        assert_eq!(again, numbers);
        assert_eq!(names(&rows), ["sh", "sh.2", "cat"]);
        // A row becomes free when no script has its program any more, but not before.
        let programs: Programs =
            [("sh".to_owned(), 0), ("cat".to_owned(), 2)].into_iter().collect();
        rows.add_use(0, programs.usage());
        rows.add_use(2, programs.usage());
        assert_eq!(rows.add_script_program(&program("ls", "/bin/ls")), 3);
        drop(programs);
        let again = rows.add_script_program(&program("sh", "/bin/sh"));
        assert_eq!(again, 0, "it is still there");
        assert_eq!(rows.add_script_program(&program("sh", "/bin/dash")), 2);
        assert_eq!(rows.add_script_program(&program("tr", "/bin/tr")), 4, "none is free");
        assert_eq!(names(&rows), ["sh", "sh.2", "sh.3", "ls", "tr"]);
    }

    #[test]
    fn a_supervised_program_keeps_its_row_and_its_revision_until_it_changes() {
        let program = |name: &str, nice| ProgramStart {
            nice: Some(nice),
            ..ProgramStart::new(name, "/bin/sh")
        };
        let secret = ProgramStart {
            kind: ProgramKind::Supervised,
            environment: vec![("KEY".into(), "secret".into())],
            arguments: vec!["secret".into()],
            identity: Some(Identity { uid: 4, gid: 4, groups: vec![4] }),
            grace_ms: 60_000,
            ..program("b", 0)
        };
        let mut rows = ProgramRows::default();
        let state = |rows: &ProgramRows| -> Vec<(String, u16, u64)> {
            let supervised = rows.supervised().iter();
            supervised.map(|known| (known.name.to_string(), known.start, known.revision)).collect()
        };
        let row = |name: &str, start, revision| (name.to_owned(), start, revision);
        rows.set_supervised(&[program("a", 0), program("b", 0)]);
        assert_eq!(state(&rows), [row("a", 0, 1), row("b", 1, 2)]);
        rows.set_supervised(&[program("b", 0), program("a", 1)]);
        assert_eq!(state(&rows), [row("b", 1, 2), row("a", 0, 3)]);
        assert_eq!(rows.table().starts[0].nice, Some(1));
        // A removed program frees its row, and one that comes back is another one.
        rows.set_supervised(&[secret, program("a", 1)]);
        rows.set_supervised(&[program("c", 0)]);
        let unused = rows.table().starts.remove(1);
        assert_eq!((&*unused.name, unused.grace_ms, rows.longest_grace_ms()), ("b", 0, 10_000));
        assert!(unused.environment.is_empty() && unused.arguments.is_empty(), "{unused:?}");
        assert_eq!((&unused.identity, unused.kind), (&None, ProgramKind::Supervised));
        assert_eq!(
            (state(&rows), names(&rows)),
            (vec![row("c", 0, 5)], vec!["c".into(), "b".into()])
        );
        rows.set_supervised(&[program("c", 0), program("b", 0)]);
        assert_eq!(state(&rows), [row("c", 0, 5), row("b", 1, 6)]);
    }

    #[test]
    fn programs_of_scripts_do_not_share_rows_with_supervised_ones() {
        let mut rows = ProgramRows::default();
        rows.set_supervised(&[ProgramStart::new("sh", "/bin/sh")]);
        let script = ProgramFile { name: "sh".into(), path: "/bin/sh".into() };
        assert_eq!(rows.add_script_program(&script), 1);
        assert_eq!((names(&rows), rows.script_count()), (vec!["sh".into(), "sh.2".into()], 1));
        rows.set_supervised(&[]);
        assert_eq!(rows.add_script_program(&script), 1, "it has a row already");
    }
}
