//! The tables of modules at the head of files: each module that a table names exists.

use super::project::Project;
use super::{Finding, Rule};

pub(super) const MODULE_TABLES: Rule =
    Rule { name: "module tables", check: named_modules, canary: renamed_module };

fn named_modules(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in project.rust() {
        let declared: Vec<&str> = source
            .words("mod")
            .map(|at| source.code[at + "mod".len()..].trim_start())
            .map(|rest| rest.split(|c: char| !is_of_name(c)).next().unwrap_or_default())
            .collect();
        for (line, name) in names(&file.text) {
            if !declared.contains(&name) {
                let reason = format!("the table names the module `{name}`, which is not declared");
                findings.push(Finding::new(file, line, reason));
            }
        }
    }
    findings
}

/// Returns the names in the column `Module` of the tables at the head of a file, with their lines.
fn names(text: &str) -> Vec<(usize, &str)> {
    let mut names = Vec::new();
    let mut column = None;
    for (index, line) in text.lines().enumerate() {
        let Some(row) = line.strip_prefix("//! |") else {
            column = None;
            continue;
        };
        let mut cells = row.split('|').map(str::trim);
        let Some(column) = column else {
            column = cells.position(|cell| cell.eq_ignore_ascii_case("module"));
            continue;
        };
        let quoted = cells.nth(column).unwrap_or_default().split('`').skip(1).step_by(2);
        let quoted = quoted.map(|name| name.trim_start_matches("mod@"));
        let modules = quoted.filter(|name| name.chars().all(is_of_name) && !name.is_empty());
        names.extend(modules.map(|name| (index + 1, name)));
    }
    names
}

/// Returns whether names of modules have this character.
fn is_of_name(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'
}

fn renamed_module() -> Project {
    let map = "//! Words.\n//!\n//! | Module | Contents |\n//! |---|---|\n//! | `day` | a date |\n\
               mod date;\n";
    Project::of(&[("crates/http/src/words/mod.rs", map), ("crates/http/src/words/date.rs", "")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_module_column_of_a_table_is_read() {
        let text = "//! | In | Module | Out |\n//! |---|---|---|\n\
                    //! | `bytes` | [`parse`], [`mod@date`], `h1::head` | [`Head`] |\n\
                    //! text\n//! | `other` | table |\n";
        assert_eq!(names(text), [(3, "parse"), (3, "date")]);
    }
}
