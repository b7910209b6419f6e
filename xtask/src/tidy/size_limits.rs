//! Lines, files and functions that fit on a screen.

use super::Rule;
use super::project::{File, Finding, Project};
use super::rust_source::Source;

const LINE_MAX_COLUMNS: usize = 100;
/// Test modules do not count. A typical file has 150 to 350 lines; a longer one has several jobs.
const FILE_MAX_LINES: usize = 500;
/// A style sheet has one declaration in each line, and a second file costs browsers a request.
const STYLE_SHEET_MAX_LINES: usize = 1000;
const FUNCTION_MAX_LINES: usize = 70;

pub(super) const WIDTH: Rule = Rule { name: "width", check: width, canary: wide_line };
pub(super) const FILES: Rule = Rule { name: "file length", check: files, canary: long_file };
pub(super) const FUNCTIONS: Rule =
    Rule { name: "function length", check: functions, canary: long_function };

fn width(project: &Project) -> Vec<Finding> {
    let kinds = ["c", "css", "js", "lua", "md", "py", "rs", "sh", "toml"];
    let mut findings = Vec::new();
    for file in project.files.iter().filter(|file| kinds.contains(&file.extension())) {
        if file.is_generated() {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > LINE_MAX_COLUMNS && !cannot_break(file, line) {
                let message = format!("{columns} columns, at most {LINE_MAX_COLUMNS}");
                findings.push(Finding::new(file, index + 1, message));
            }
        }
    }
    findings
}

/// Returns whether a line cannot be broken: a row of a table, or a line with an address that
/// extends over the limit.
fn cannot_break(file: &File, line: &str) -> bool {
    (file.extension() == "md" && line.starts_with('|')) || address_at_edge(line)
}

fn address_at_edge(line: &str) -> bool {
    let mut begin = 0;
    line.split_inclusive(char::is_whitespace).any(|word| {
        let end = begin + word.trim_end().chars().count();
        begin += word.chars().count();
        word.contains("://") && end > LINE_MAX_COLUMNS
    })
}

fn files(project: &Project) -> Vec<Finding> {
    let code = ["c", "css", "js", "lua", "py", "rs", "sh"];
    let by_hand =
        |file: &&File| code.contains(&file.extension()) && !file.is_test() && !file.is_generated();
    let counted = project.files.iter().filter(by_hand).map(|file| (file, lines(file)));
    let limited = counted.map(|(file, lines)| (file, lines, file_max_lines(file)));
    let long = limited.filter(|(_, lines, max)| lines > max);
    long.map(|(file, lines, max)| {
        Finding::new(file, 0, format!("{lines} lines without tests, at most {max}"))
    })
    .collect()
}

fn file_max_lines(file: &File) -> usize {
    if file.extension() == "css" { STYLE_SHEET_MAX_LINES } else { FILE_MAX_LINES }
}

/// Returns the number of lines of a file without those of its test modules.
fn lines(file: &File) -> usize {
    let tests = file.rust.as_ref().map_or(0, Source::test_lines);
    file.text.lines().count() - tests
}

fn functions(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in project.rust() {
        if file.is_test() || file.is_generated() {
            continue;
        }
        for function in source.functions() {
            let lines = function.last_line - function.first_line + 1;
            if lines > FUNCTION_MAX_LINES {
                let message =
                    format!("`{}`: {lines} lines, at most {FUNCTION_MAX_LINES}", function.name);
                findings.push(Finding::new(file, function.first_line, message));
            }
        }
    }
    findings
}

fn wide_line() -> Project {
    Project::of(&[("docs/wide.md", &"word ".repeat(21))])
}

fn long_file() -> Project {
    Project::of(&[(
        "crates/http/src/media_type.rs",
        &"const A: u8 = 1;\n".repeat(FILE_MAX_LINES + 1),
    )])
}

fn long_function() -> Project {
    let body = "    step();\n".repeat(FUNCTION_MAX_LINES - 1);
    Project::of(&[("crates/http/src/media_type.rs", &format!("fn long() {{\n{body}}}\n"))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_at_the_limit_is_fine() {
        let line = "x".repeat(LINE_MAX_COLUMNS);
        assert!(width(&Project::of(&[("a.md", &line)])).is_empty());
        assert_eq!(width(&Project::of(&[("a.md", &format!("{line}x"))])).len(), 1);
        let body = "    step();\n".repeat(FUNCTION_MAX_LINES - 2);
        let fits = format!("fn fits() {{\n{body}}}\n");
        assert!(functions(&Project::of(&[("a.rs", &fits)])).is_empty());
        let file = "const A: u8 = 1;\n".repeat(FILE_MAX_LINES);
        assert!(files(&Project::of(&[("a.rs", &file)])).is_empty());
        let module = "#[cfg(test)]\nmod tests {\n    use super::*;\n}\n";
        let tested = format!("{file}{module}");
        assert!(files(&Project::of(&[("a.rs", &tested)])).is_empty(), "tests do not count");
        let long = format!("{tested}const A: u8 = 1;\n");
        assert_eq!(files(&Project::of(&[("a.rs", &long)])).len(), 1);
    }

    #[test]
    fn tables_addresses_and_generated_files_may_be_wide() {
        let long = "x".repeat(200);
        let files = [
            ("a.md", format!("| {long} |")),
            ("b.rs", format!("// https://example.org/{long}")),
            ("c.rs", format!("// @generated by a table\n// {long}")),
        ];
        for (path, text) in files {
            assert!(width(&Project::of(&[(path, &text)])).is_empty(), "{path}");
        }
        let behind = format!("// https://example.org/ {}", "word ".repeat(20));
        assert_eq!(width(&Project::of(&[("d.rs", &behind)])).len(), 1, "can break behind it");
    }
}
