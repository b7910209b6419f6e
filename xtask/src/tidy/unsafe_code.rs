//! `unsafe` is allowed in few named places, and each use has an argument for its soundness.

use super::Rule;
use super::project::{File, Finding, Project};
use super::rust_source::Source;

/// The crates and files that may contain unsafe code. Tests may too: a counting allocator is unsafe
/// by nature.
const UNSAFE_HOMES: &[&str] = &[
    "crates/engine/",
    "crates/lua/src/cpu_watchdog.rs",
    "crates/lua/src/cpu_watchdog/coroutines.rs",
    "crates/lua/src/jit_code_memory.rs",
    "crates/lua/src/pages/escape_free_text.rs",
    "crates/lua/src/unsandboxed_vm.rs",
    "crates/lua/src/vm/response_pieces.rs",
    "crates/spawner/examples/spawn_cost.rs",
    "crates/spawner/src/fork_exec.rs",
    "crates/spawner/src/process_state.rs",
    "crates/store/src/prefetch.rs",
];

/// The number of lines of a statement that may be between the argument and the keyword.
const STATEMENT_LINES: usize = 6;

pub(super) const HOMES: Rule = Rule { name: "unsafe homes", check: homes, canary: unsafe_outside };
pub(super) const ARGUMENTS: Rule =
    Rule { name: "unsafe arguments", check: arguments, canary: no_argument };

fn homes(project: &Project) -> Vec<Finding> {
    let at_home = |path: &str| UNSAFE_HOMES.iter().any(|home| path.starts_with(home));
    let mut findings = Vec::new();
    for (file, source) in project.rust().filter(|(file, _)| !at_home(&file.path)) {
        // A crate that may have it in one of its files cannot forbid it in the whole crate.
        let has_home = UNSAFE_HOMES.iter().any(|home| is_in_room_of(home, &file.path));
        let word = if has_home { "#![deny(unsafe_code)]" } else { "#![forbid(unsafe_code)]" };
        if is_root(&file.path) && !source.code.contains(word) {
            findings.push(Finding::new(file, 1, format!("no `{word}`")));
        }
        if !file.is_test() {
            let message = format!("`unsafe` outside of {}", UNSAFE_HOMES.join(", "));
            findings.extend(sites(source).map(|at| Finding::new(file, source.line(at), &message)));
        }
    }
    findings
}

/// Returns whether a file is in the source folder of the crate that has this file.
fn is_in_room_of(home: &str, file: &str) -> bool {
    let folder = |path: &str| path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    home.ends_with(".rs") && folder(home).is_some_and(|home| folder(file) == Some(home))
}

fn arguments(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in project.rust() {
        let lines = Lines::of(file, source);
        let bare = sites(source).map(|at| source.line(at)).filter(|line| !lines.argued(*line));
        let message = "`unsafe` without a SAFETY comment (a `# Safety` section for a function)";
        findings.extend(bare.map(|line| Finding::new(file, line, message)));
    }
    findings
}

/// Places where the word makes something unsafe; function pointer types do not.
fn sites(source: &Source) -> impl Iterator<Item = usize> + '_ {
    source.words("unsafe").filter(|at| {
        let after = source.code[at + "unsafe".len()..].trim_start();
        let after = after.strip_prefix("extern").map_or(after, |abi| {
            abi.trim_start_matches(|c: char| c.is_whitespace() || c == '"' || c == 'C')
        });
        !after.strip_prefix("fn").is_some_and(|rest| rest.trim_start().starts_with('('))
    })
}

/// Returns whether a path is that of the first file of a library or of the binary.
fn is_root(path: &str) -> bool {
    let in_crate = path.starts_with("crates/") || path.starts_with("xtask/");
    in_crate && (path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs"))
}

struct Lines<'a> {
    code: Vec<&'a str>,
    comments: Vec<&'a str>,
}

impl<'a> Lines<'a> {
    fn of(file: &'a File, source: &'a Source) -> Self {
        debug_assert_eq!(file.text.len(), source.code.len());
        Self { code: source.code.lines().collect(), comments: source.comments.lines().collect() }
    }

    /// Returns whether the statement on `line` (from 1) has its argument: on the line itself, or in
    /// the comment above the statement.
    fn argued(&self, line: usize) -> bool {
        let speaks = |index: usize| {
            let comment = self.comments[index];
            comment.contains("SAFETY:") || comment.contains("# Safety")
        };
        let mut index = line - 1;
        if speaks(index) {
            return true;
        }
        let mut statement_lines = 0;
        while index > 0 {
            index -= 1;
            let (code, comment) = (self.code[index].trim(), self.comments[index].trim());
            if !comment.is_empty() && speaks(index) {
                return true;
            }
            if code.is_empty() && comment.is_empty() {
                return false;
            }
            if code.is_empty() || code.starts_with("#[") {
                continue;
            }
            statement_lines += 1;
            if code.ends_with([';', '{', '}']) || statement_lines > STATEMENT_LINES {
                return false;
            }
        }
        false
    }
}

fn unsafe_outside() -> Project {
    let code = "// SAFETY: none is needed to be found here.\nunsafe fn careless() {}\n";
    Project::of(&[("crates/http/src/date.rs", code)])
}

fn no_argument() -> Project {
    Project::of(&[("crates/engine/src/file_mapping.rs", "fn f() {\n    unsafe { g() }\n}\n")])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unargued(code: &str) -> usize {
        arguments(&Project::of(&[("crates/engine/src/file_mapping.rs", code)])).len()
    }

    #[test]
    fn safety_comments_are_found_in_all_usual_positions() {
        assert_eq!(unargued("// SAFETY: mapped above.\nunsafe { g() }\n"), 0);
        assert_eq!(
            unargued("// SAFETY: long,\n// of two lines.\nlet x =\n    unsafe { g() };\n"),
            0
        );
        assert_eq!(
            unargued("/// Reads.\n///\n/// # Safety\n/// Alive.\n#[inline]\nunsafe fn g() {}\n"),
            0
        );
        assert_eq!(unargued("type Hook = unsafe extern \"C\" fn(u8);\n"), 0);
        assert_eq!(unargued("// `unsafe` is only named here\nlet s = \"unsafe\";\n"), 0);
    }

    #[test]
    fn a_safety_comment_does_not_cover_the_next_statement() {
        assert_eq!(unargued("// SAFETY: this one.\nunsafe { g() };\nunsafe { h() };\n"), 1);
        assert_eq!(unargued("// SAFETY: far away.\n\nunsafe impl Send for X {}\n"), 1);
    }

    #[test]
    fn crates_without_unsafe_code_must_forbid_it() {
        let project = Project::of(&[("crates/site/src/lib.rs", "//! Map.\n")]);
        assert_eq!(homes(&project).len(), 1);
        let project = Project::of(&[("crates/engine/src/lib.rs", "//! Map.\n")]);
        assert!(homes(&project).is_empty());
    }
}
