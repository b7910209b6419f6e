//! Rules: imports only go to lower layers, only the engine's backends depend on the system, and a
//! `lib.rs` is a map.

use super::Rule;
use super::project::{Finding, Project};

/// The file with the table of crates, which defines the layers.
const TABLE: &str = "docs/ARCHITECTURE.md";

/// The only folder whose code may depend on the target system.
const BACKENDS: &str = "crates/engine/src/backend";

pub(super) const IMPORTS: Rule = Rule { name: "imports", check: imports, canary: unlisted_import };
pub(super) const SYSTEMS: Rule = Rule { name: "systems", check: systems, canary: system_outside };
pub(super) const MAPS: Rule = Rule { name: "maps", check: maps, canary: logic_in_a_map };

/// One row of the table.
struct Room<'a> {
    floor: Option<u32>,
    name: &'a str,
    may_import: Vec<&'a str>,
    line: usize,
}

/// Compares cargo's dependencies with the table.
fn imports(project: &Project) -> Vec<Finding> {
    let Some(table) = project.file(TABLE) else {
        let needed = !project.packages.is_empty();
        return needed
            .then(|| Finding::at(TABLE, 0, "the table of rooms is missing"))
            .into_iter()
            .collect();
    };
    let rooms = rooms(&table.text);
    let find = |name: &str| rooms.iter().find(|room| room.name == name);
    let mut findings = Vec::new();
    for package in &project.packages {
        let Some(room) = find(&package.room) else {
            let what = format!("`{}` is a package but not in the table of rooms", package.room);
            findings.push(Finding::new(table, 0, what));
            continue;
        };
        for import in &package.imports {
            let listed = room.may_import.iter().any(|name| *name == import || *name == "all");
            if !listed {
                let what =
                    format!("`{}` imports `{import}`, which its row does not list", room.name);
                findings.push(Finding::new(table, room.line, what));
            }
        }
    }
    for room in &rooms {
        for import in room.may_import.iter().filter_map(|name| find(name)) {
            let down = room.floor.is_none() || import.floor < room.floor;
            if !down {
                let what =
                    format!("`{}` may not import `{}`: not below it", room.name, import.name);
                findings.push(Finding::new(table, room.line, what));
            }
        }
        if !project.packages.iter().any(|package| package.room == room.name) {
            let what = format!("`{}` has a row but is no package", room.name);
            findings.push(Finding::new(table, room.line, what));
        }
    }
    findings
}

/// Returns the rows of the table whose head is `Layer | Crate | … | May import`.
fn rooms(text: &str) -> Vec<Room<'_>> {
    let mut rooms = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [floor, name, .., imports] = cells.as_slice() else {
            inside = false;
            continue;
        };
        if !line.starts_with('|') || line.starts_with("|-") {
            continue;
        }
        if *name == "Crate" && *imports == "May import" {
            inside = true;
        } else if inside {
            rooms.push(Room {
                floor: floor.parse().ok(),
                name: name.trim_matches('`'),
                may_import: imports.split(',').map(|name| name.trim().trim_matches('`')).collect(),
                line: index + 1,
            });
        }
    }
    rooms
}

fn systems(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in project.rust().filter(|(file, _)| !file.path.starts_with(BACKENDS)) {
        for word in ["target_os", "target_family", "target_vendor"] {
            findings.extend(source.words(word).map(|at| {
                Finding::new(file, source.line(at), format!("`{word}` outside of {BACKENDS}"))
            }));
        }
    }
    findings
}

fn maps(project: &Project) -> Vec<Finding> {
    let is_map = |path: &str| path.starts_with("crates/") && path.ends_with("/src/lib.rs");
    let mut findings = Vec::new();
    for (file, source) in project.rust().filter(|(file, _)| is_map(&file.path)) {
        findings.extend(source.functions().iter().map(|function| {
            let what =
                format!("`{}`: a room's lib.rs is its map and holds no logic", function.name);
            Finding::new(file, function.first_line, what)
        }));
        if !source.comments.trim_start().starts_with("//!") {
            findings.push(Finding::new(file, 1, "the map does not say what the room is for"));
        }
    }
    findings
}

fn unlisted_import() -> Project {
    let table = "| Floor | Crate | Holds | May import |\n|---|---|---|---|\n\
                 | 1 | `http` | words | – |\n| 2 | `archive` | files | – |\n";
    Project::of(&[(TABLE, table)]).with_package("http", &[], &[]).with_package(
        "archive",
        &["http"],
        &[],
    )
}

fn system_outside() -> Project {
    Project::of(&[("crates/http/src/date.rs", "#[cfg(target_os = \"linux\")]\nfn clock() {}\n")])
}

fn logic_in_a_map() -> Project {
    let map = "//! The room.\n#![forbid(unsafe_code)]\nfn clever() {}\n";
    Project::of(&[("crates/http/src/lib.rs", map)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(project: &Project) -> Vec<String> {
        imports(project).iter().map(ToString::to_string).collect()
    }

    fn table(rows: &str) -> String {
        format!("# Rooms\n\n| Floor | Crate | Holds | May import |\n|---|---|---|---|\n{rows}\n")
    }

    #[test]
    fn a_listed_import_is_fine() {
        let text =
            table("| 1 | `http` | x | – |\n| 2 | `site` | x | `http` |\n| – | `tests` | x | all |");
        let project = Project::of(&[(TABLE, &text)])
            .with_package("http", &[], &[])
            .with_package("site", &["http"], &[])
            .with_package("tests", &["site"], &[]);
        assert_eq!(said(&project), [""; 0]);
    }

    #[test]
    fn each_disagreement_is_named() {
        let text =
            table("| 2 | `site` | x | `http` |\n| 3 | `http` | x | – |\n| 4 | `gone` | x | – |");
        let project = Project::of(&[(TABLE, &text)])
            .with_package("http", &["site"], &[])
            .with_package("site", &[], &[])
            .with_package("new", &[], &[]);
        let path = "docs/ARCHITECTURE.md";
        assert_eq!(
            said(&project),
            [
                format!("{path}:6: `http` imports `site`, which its row does not list"),
                format!("{path}: `new` is a package but not in the table of rooms"),
                format!("{path}:5: `site` may not import `http`: not below it"),
                format!("{path}:7: `gone` has a row but is no package"),
            ]
        );
    }

    #[test]
    fn backends_may_ask_for_the_system() {
        let path = "crates/engine/src/backend/mod.rs";
        let project = Project::of(&[(path, "#[cfg(target_os = \"linux\")]\nmod uring;\n")]);
        assert!(systems(&project).is_empty());
    }
}
