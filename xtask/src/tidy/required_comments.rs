//! Rules about required comments, and about leftovers.

use super::Rule;
use super::project::{File, Finding, Project};
use super::rust_source::{Source, positions};

pub(super) const LEFTOVERS: Rule = Rule { name: "leftovers", check: leftovers, canary: leftover };
pub(super) const LIMITS: Rule = Rule { name: "limits", check: limits, canary: bare_limit };
pub(super) const OPENINGS: Rule =
    Rule { name: "comment openings", check: openings, canary: riddle };
pub(super) const EXCUSES: Rule = Rule { name: "excuses", check: excuses, canary: bare_excuse };

/// Such notes belong into an issue before the change is merged.
const NOTES: &[&str] = &["TODO", "FIXME", "XXX", "HACK"];
const MACROS: &[&str] = &["dbg!", "todo!", "unimplemented!"];

fn leftovers(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &project.files {
        let prose = file.rust.as_ref().map_or(file.text.as_str(), |source| &source.comments);
        for note in NOTES {
            let lines = positions(prose, note).map(|at| prose[..at].matches('\n').count() + 1);
            findings.extend(lines.map(|line| Finding::new(file, line, format!("a {note} note"))));
        }
    }
    for (file, source) in project.rust() {
        for name in MACROS {
            let sites = positions(&source.code, name.trim_end_matches('!'))
                .filter(|at| source.code[*at..].starts_with(name));
            findings
                .extend(sites.map(|at| Finding::new(file, source.line(at), format!("a {name}"))));
        }
        let ignored = source.code.match_indices("#[ignore");
        findings.extend(ignored.map(|(at, _)| {
            Finding::new(file, source.line(at), "an ignored test: run it or remove it")
        }));
    }
    findings
}

/// Checks that limits have reasons: a limit without its reason is a magic number; tests of limits
/// may have their own.
fn limits(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_home = |file: &File| file.path.ends_with("/limits.rs") && !file.is_test();
    for (file, source) in project.rust().filter(|(file, _)| is_home(file)) {
        let bare = source.words("const").filter(|at| {
            let named =
                source.code[at + "const".len()..].trim_start().starts_with(char::is_uppercase);
            named && !source.is_test(*at) && !above(source, *at).starts_with("///")
        });
        let message = "a limit without a comment that gives its reason";
        findings.extend(bare.map(|at| Finding::new(file, source.line(at), message)));
    }
    findings
}

/// The openings of doc comments that cannot be read alone.
const OPENINGS_AVOIDED: [&str; 3] = ["…", "...", "See the module"];

/// A doc comment can be read alone, in the documentation of another module.
fn openings(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in project.rust() {
        let mut is_inside = false;
        for (index, line) in source.comments.lines().enumerate() {
            let line = line.trim_start();
            let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            let opening = text.filter(|_| !is_inside).map(str::trim_start);
            let avoided = opening.and_then(|opening| {
                OPENINGS_AVOIDED.into_iter().find(|avoided| opening.starts_with(avoided))
            });
            if let Some(avoided) = avoided {
                let reason = format!("a doc comment that begins with `{avoided}`: say all of it");
                findings.push(Finding::new(file, index + 1, reason));
            }
            is_inside = text.is_some();
        }
    }
    findings
}

/// Checks that a disabled lint has a reason: `reason = "…"`, or a comment next to or above it.
fn excuses(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in project.rust() {
        for opening in ["#[allow(", "#![allow(", "#[expect(", "#![expect("] {
            for (at, _) in source.code.match_indices(opening) {
                let attribute = &source.code[at..];
                let attribute = &attribute[..attribute.find(']').unwrap_or(attribute.len())];
                let line = source.line(at);
                let beside = source.comments.lines().nth(line - 1).unwrap_or_default();
                let argued = attribute.contains("reason")
                    || beside.contains("//")
                    || above(source, at).starts_with("// ");
                if !argued {
                    findings.push(Finding::new(file, line, "a lint switched off without a reason"));
                }
            }
        }
    }
    findings
}

/// Returns the comment right above the line of an offset, without attributes; empty if there is
/// none.
fn above(source: &Source, offset: usize) -> &str {
    let line = source.line(offset);
    let code: Vec<&str> = source.code.lines().take(line - 1).collect();
    let comments: Vec<&str> = source.comments.lines().take(line - 1).collect();
    let is_attribute = |index: &usize| code[*index].trim_start().starts_with('#');
    let mut above = (0..line - 1).rev().skip_while(is_attribute);
    above.next().map_or("", |index| comments[index].trim())
}

fn leftover() -> Project {
    Project::of(&[("crates/http/src/date.rs", "// TODO: leap seconds\nfn f() {}\n")])
}

fn bare_limit() -> Project {
    Project::of(&[("crates/http/src/limits.rs", "pub const FIELDS_MAX: usize = 100;\n")])
}

fn riddle() -> Project {
    Project::of(&[("crates/http/src/date.rs", "/// … and its length.\nfn f() {}\n")])
}

fn bare_excuse() -> Project {
    Project::of(&[("crates/http/src/date.rs", "#[allow(dead_code)]\nfn f() {}\n")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_found_in_comments_and_code_only() {
        let text =
            "// a FIXME note\nlet s = \"TODO\"; dbg!(s);\n#[ignore = \"slow\"]\nfn todo() {}\n";
        let found = leftovers(&Project::of(&[("a.rs", text)]));
        let said: Vec<_> = found.iter().map(ToString::to_string).collect();
        let ignored = "a.rs:3: an ignored test: run it or remove it";
        assert_eq!(said, ["a.rs:1: a FIXME note", "a.rs:2: a dbg!", ignored]);
        assert_eq!(leftovers(&Project::of(&[("a.md", "left TODO\n")])).len(), 1);
        assert_eq!(leftovers(&Project::of(&[("a.md", "MASTODON and TODOS\n")])).len(), 0);
    }

    #[test]
    fn documented_limits_pass() {
        let text = "/// 100: what browsers send is below 40.\n#[rustfmt::skip]\n\
                    pub const FIELDS_MAX: usize = 100;\npub const fn of() {}\n";
        assert!(limits(&Project::of(&[("crates/http/src/limits.rs", text)])).is_empty());
        let test = "const CONNECTIONS: usize = 400;\n";
        assert!(
            limits(&Project::of(&[("tests/tests/black_box/client_limits.rs", test)])).is_empty()
        );
    }

    #[test]
    fn only_the_opening_of_a_doc_comment_is_checked() {
        let count = |text| openings(&Project::of(&[("a.rs", text)])).len();
        assert_eq!(count("/// See the module.\nfn f() {}\n/// ... more\nfn g() {}\n"), 2);
        assert_eq!(count("/// Sends the head,\n/// … and the rest.\nfn f() {}\n"), 0);
        assert_eq!(count("// … as above\nlet text = \"/// …\";\n"), 0);
    }

    #[test]
    fn lint_exceptions_with_a_reason_pass() {
        for text in [
            "#[expect(dead_code, reason = \"used by the fuzzer\")]\nfn f() {}\n",
            "// The table is clearer in one piece.\n#[allow(clippy::too_many_lines)]\nfn f() {}\n",
            "#[allow(dead_code)] // used by the fuzzer\nfn f() {}\n",
        ] {
            assert!(excuses(&Project::of(&[("a.rs", text)])).is_empty(), "{text}");
        }
    }
}
