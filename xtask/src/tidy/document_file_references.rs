//! Rules: documents for contributors refer to files of the source tree, and nothing refers to a
//! document outside of it.

use super::Rule;
use super::project::{Finding, Project};

pub(super) const NAMED_PATHS: Rule =
    Rule { name: "named paths", check: named_paths, canary: moved_file };

pub(super) const OUTSIDE_DOCUMENTS: Rule =
    Rule { name: "outside documents", check: outside_documents, canary: section_of_a_design };

/// Kinds of files that documents name with their paths.
const SOURCES: [&str; 3] = [".rs", ".lua", ".py"];

/// Finds paths in backquotes that no file of the tree ends with.
fn named_paths(project: &Project) -> Vec<Finding> {
    let is_for_contributors = |path: &str| {
        ["CONTRIBUTING.md", "docs/ARCHITECTURE.md"].contains(&path)
            || path.starts_with("docs/decisions/")
    };
    let mut findings = Vec::new();
    for file in project.files.iter().filter(|file| is_for_contributors(&file.path)) {
        let mut is_fenced = false;
        for (index, line) in file.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                is_fenced = !is_fenced;
            } else if !is_fenced {
                let codes = line.split('`').skip(1).step_by(2);
                let lost = codes.filter(|code| is_path(code) && !exists(project, code));
                findings.extend(lost.map(|path| {
                    Finding::new(file, index + 1, format!("no file of the tree ends in `{path}`"))
                }));
            }
        }
    }
    findings
}

/// Returns whether some code is the path of a source file, not a pattern for several.
fn is_path(code: &str) -> bool {
    let in_path = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    code.chars().all(in_path) && SOURCES.iter().any(|end| code.len() > 3 && code.ends_with(end))
}

fn exists(project: &Project, path: &str) -> bool {
    project.paths.iter().any(|known| {
        known.strip_suffix(path).is_some_and(|front| front.is_empty() || front.ends_with('/'))
    })
}

/// The text in front of the number of a section of the design, which is not part of the source
/// tree.
const SECTION: &str = "design \u{a7}";

/// Finds references to sections of the design: `docs/ARCHITECTURE.md` and the decisions are
/// authoritative.
fn outside_documents(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &project.files {
        let lines = file.text.lines().enumerate();
        let found = lines.filter(|(_, line)| line.to_lowercase().contains(SECTION));
        findings.extend(found.map(|(index, _)| {
            Finding::new(file, index + 1, "refer to docs/ARCHITECTURE.md or to a decision instead")
        }));
    }
    findings
}

fn moved_file() -> Project {
    Project::of(&[("CONTRIBUTING.md", "Change `engine/src/many/stream.rs`.\n")])
}

fn section_of_a_design() -> Project {
    Project::of(&[("crates/http/src/date.rs", &format!("// See {SECTION}7.\n"))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(text: &str) -> usize {
        let project = Project::of(&[("CONTRIBUTING.md", text), ("crates/http/src/date.rs", "")]);
        named_paths(&project).len()
    }

    #[test]
    fn only_paths_of_existing_files_pass() {
        assert_eq!(lost("`http/src/date.rs`, `date.rs` and `crates/*/src/lib.rs`\n"), 0);
        assert_eq!(lost("`src/dates.rs` and `ate.rs`\n"), 2);
        assert_eq!(lost("```\n`none.rs`\n```\nnone.rs, `cargo run none.rs`, `.rs`\n"), 0);
    }

    #[test]
    fn only_paths_in_documents_for_contributors_are_checked() {
        let text = "`mine.lua`\n";
        let count = |path| named_paths(&Project::of(&[(path, text)])).len();
        assert_eq!(
            ["docs/lua.md", "docs/ARCHITECTURE.md", "docs/decisions/0002-a.md"].map(count),
            [0, 1, 1]
        );
    }

    #[test]
    fn references_to_sections_of_rfcs_pass() {
        let text = "// RFC 9110 \u{a7}5, the design of it\n";
        assert!(outside_documents(&Project::of(&[("crates/http/src/date.rs", text)])).is_empty());
    }
}
