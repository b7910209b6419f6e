//! The index of the decisions has the title of each of them.

use super::Rule;
use super::project::{Finding, Project};

pub(super) const DECISIONS: Rule =
    Rule { name: "index of decisions", check: decisions, canary: other_title };

/// The folder of decisions, and the file that shows how to write one.
const FOLDER: &str = "docs/decisions/";
const TEMPLATE: &str = "0001-template.md";

/// Finds decisions without a row in the index that has their number, their file and their title.
fn decisions(project: &Project) -> Vec<Finding> {
    let index = project.file(&format!("{FOLDER}README.md")).map_or("", |file| &file.text);
    let mut findings = Vec::new();
    for file in &project.files {
        let Some(name) = file.path.strip_prefix(FOLDER) else { continue };
        if !name.starts_with(|c: char| c.is_ascii_digit()) || name == TEMPLATE {
            continue;
        }
        let number = name.split('-').next().unwrap_or_default();
        let first = file.text.lines().next().unwrap_or_default();
        match first.strip_prefix(&format!("# {number}: ")) {
            None => findings.push(Finding::new(file, 1, format!("no title `# {number}: …`"))),
            Some(title) => {
                let row = format!("| [{number}]({name}) | {title} |");
                if !index.lines().any(|line| line.starts_with(&row)) {
                    let message = format!("{FOLDER}README.md has no row `{row}`");
                    findings.push(Finding::new(file, 1, message));
                }
            }
        }
    }
    findings
}

fn other_title() -> Project {
    Project::of(&[
        ("docs/decisions/README.md", "| [0002](0002-a.md) | Bodies are shared | so |\n"),
        ("docs/decisions/0002-a.md", "# 0002: Bodies are copied\n"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_the_decision_index_has_number_file_and_title() {
        let count = |index, text| {
            let files = [
                ("docs/decisions/README.md", index),
                ("docs/decisions/0001-template.md", "# Title\n"),
                ("docs/decisions/0002-a.md", text),
            ];
            decisions(&Project::of(&files)).len()
        };
        let row = "| [0002](0002-a.md) | Bodies are copied | so |\n";
        assert_eq!(count(row, "# 0002: Bodies are copied\n"), 0);
        assert_eq!(count(row, "# 0003: Bodies are copied\n"), 1);
        assert_eq!(count(row, "# 0002: Bodies\n"), 1);
        assert_eq!(count("", "# 0002: Bodies are copied\n"), 1);
    }
}
