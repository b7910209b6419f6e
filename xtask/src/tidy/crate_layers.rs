//! Rules: imports only go to lower layers, only the engine's backends depend on the system, and a
//! `lib.rs` is a map.

use super::Rule;
use super::project::{Finding, Project};
use super::rust_source::positions;

/// The file with the table of crates, which defines the layers.
const TABLE: &str = "docs/ARCHITECTURE.md";

/// The only folder whose code may depend on the target system.
const BACKENDS: &str = "crates/engine/src/backend";

pub(super) const IMPORTS: Rule = Rule { name: "imports", check: imports, canary: unlisted_import };
pub(super) const SYSTEMS: Rule = Rule { name: "systems", check: systems, canary: system_outside };
pub(super) const MODULES: Rule =
    Rule { name: "module maps", check: modules, canary: unnamed_module };
pub(super) const MAPS: Rule = Rule { name: "maps", check: maps, canary: logic_in_a_map };

/// One row of the table.
struct CrateRow<'a> {
    layer: Option<u32>,
    name: &'a str,
    may_import: Vec<&'a str>,
    line: usize,
}

/// Compares cargo's dependencies with the table.
fn imports(project: &Project) -> Vec<Finding> {
    let Some(table) = project.file(TABLE) else {
        let needed = !project.packages.is_empty();
        return needed
            .then(|| Finding::at(TABLE, 0, "the table of crates is missing"))
            .into_iter()
            .collect();
    };
    let rows = rows(&table.text);
    let find = |name: &str| rows.iter().find(|row| row.name == name);
    let mut findings = Vec::new();
    for package in &project.packages {
        let Some(row) = find(&package.name) else {
            let reason = format!("`{}` is a package but not in the table of crates", package.name);
            findings.push(Finding::new(table, 0, reason));
            continue;
        };
        for import in &package.imports {
            let listed = row.may_import.iter().any(|name| *name == import || *name == "all");
            if !listed {
                let reason =
                    format!("`{}` imports `{import}`, which its row does not list", row.name);
                findings.push(Finding::new(table, row.line, reason));
            }
        }
    }
    for row in &rows {
        for import in row.may_import.iter().filter_map(|name| find(name)) {
            let down = row.layer.is_none() || import.layer < row.layer;
            if !down {
                let reason =
                    format!("`{}` may not import `{}`: not below it", row.name, import.name);
                findings.push(Finding::new(table, row.line, reason));
            }
        }
        if !project.packages.iter().any(|package| package.name == row.name) {
            let reason = format!("`{}` has a row but is no package", row.name);
            findings.push(Finding::new(table, row.line, reason));
        }
    }
    findings
}

/// Returns the rows of the table whose head is `Layer | Crate | … | May import`.
fn rows(text: &str) -> Vec<CrateRow<'_>> {
    let mut rows = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [layer, name, .., imports] = cells.as_slice() else {
            inside = false;
            continue;
        };
        if !line.starts_with('|') || line.starts_with("|-") {
            continue;
        }
        if *name == "Crate" && *imports == "May import" {
            inside = true;
        } else if inside {
            rows.push(CrateRow {
                layer: layer.parse().ok(),
                name: name.trim_matches('`'),
                may_import: imports.split(',').map(|name| name.trim().trim_matches('`')).collect(),
                line: index + 1,
            });
        }
    }
    rows
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
            let reason =
                format!("`{}`: the lib.rs of a crate is its map and holds no logic", function.name);
            Finding::new(file, function.first_line, reason)
        }));
        if !source.comments.trim_start().starts_with("//!") {
            findings.push(Finding::new(file, 1, "the map does not say the purpose of the crate"));
        }
    }
    findings
}

/// The map of a crate names each of its modules, so that a reader finds it.
fn modules(project: &Project) -> Vec<Finding> {
    let is_map = |path: &str| path.starts_with("crates/") && path.ends_with("/src/lib.rs");
    let mut findings = Vec::new();
    for (file, source) in project.rust().filter(|(file, _)| is_map(&file.path)) {
        let declared = source.words("mod").filter(|at| !source.is_test(*at)).filter_map(|at| {
            let rest = source.code[at + "mod".len()..].trim_start();
            let name = &rest[..rest.find(';')?];
            name.chars().all(|c| c.is_alphanumeric() || c == '_').then_some((at, name))
        });
        for (at, name) in declared.filter(|(_, name)| *name != "tests") {
            if positions(&source.comments, name).next().is_none() {
                let reason = format!("the map of the crate does not name the module `{name}`");
                findings.push(Finding::new(file, source.line(at), reason));
            }
        }
    }
    findings
}

fn unnamed_module() -> Project {
    Project::of(&[
        ("crates/http/src/lib.rs", "//! Words.\n#![forbid(unsafe_code)]\nmod date;\n"),
        ("crates/http/src/date.rs", ""),
    ])
}

fn unlisted_import() -> Project {
    let table = "| Layer | Crate | Holds | May import |\n|---|---|---|---|\n\
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
    let map = "//! The crate.\n#![forbid(unsafe_code)]\nfn clever() {}\n";
    Project::of(&[("crates/http/src/lib.rs", map)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(project: &Project) -> Vec<String> {
        imports(project).iter().map(ToString::to_string).collect()
    }

    fn table(rows: &str) -> String {
        format!("# Crates\n\n| Layer | Crate | Holds | May import |\n|---|---|---|---|\n{rows}\n")
    }

    #[test]
    fn a_listed_import_passes() {
        let text =
            table("| 1 | `http` | x | – |\n| 2 | `site` | x | `http` |\n| – | `tests` | x | all |");
        let project = Project::of(&[(TABLE, &text)])
            .with_package("http", &[], &[])
            .with_package("site", &["http"], &[])
            .with_package("tests", &["site"], &[]);
        assert_eq!(said(&project), [""; 0]);
    }

    #[test]
    fn each_disagreement_with_the_table_of_layers_is_reported() {
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
                format!("{path}: `new` is a package but not in the table of crates"),
                format!("{path}:5: `site` may not import `http`: not below it"),
                format!("{path}:7: `gone` has a row but is no package"),
            ]
        );
    }

    #[test]
    fn backends_may_use_target_os_conditions() {
        let path = "crates/engine/src/backend/mod.rs";
        let project = Project::of(&[(path, "#[cfg(target_os = \"linux\")]\nmod uring;\n")]);
        assert!(systems(&project).is_empty());
    }
}
