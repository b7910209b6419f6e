//! Documents and messages are written in plain English: these phrases have made them hard to read.

use super::Rule;
use super::project::{File, Finding, Project};
use super::source::positions;

pub(super) const PHRASES: Rule = Rule { name: "phrases", check: phrases, canary: riddle };

/// A phrase, in small letters, and what to write instead.
const AVOIDED: &[(&str, &str)] = &[
    ("whoever", "name the client, the reader or the program"),
    ("nobody", "name who does not: no client, no other program"),
    ("somebody", "name the person or the program"),
    ("what stands", "name the thing"),
    ("what was there", "name the thing, such as the previous version"),
    ("is told", "is logged, is printed, is sent"),
    ("are told", "are logged, are printed, are sent"),
    ("takes up", "loads, reads"),
    ("take up", "load, read"),
    ("by itself", "automatically"),
    ("in a bad way", "say what fails"),
    ("put away", "remove, close"),
];

/// Looks at documents, and at the strings of the crates, which are messages.
fn phrases(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &project.files {
        let Some(prose) = prose(file) else { continue };
        let prose = prose.to_lowercase();
        for (phrase, instead) in AVOIDED {
            let found = positions(&prose, phrase).map(|at| {
                let line = prose[..at].matches('\n').count() + 1;
                Finding::new(file, line, format!("`{phrase}` in plain English: {instead}"))
            });
            findings.extend(found);
        }
    }
    findings
}

/// What users of the project read in a file, with the line breaks in place.
fn prose(file: &File) -> Option<String> {
    match &file.rust {
        None if file.extension() == "md" && !file.path.starts_with("bench/") => {
            Some(file.text.clone())
        }
        Some(source) if file.path.starts_with("crates/") && !file.is_test() => {
            Some(source.literals(&file.text))
        }
        _ => None,
    }
}

fn riddle() -> Project {
    Project::of(&[("docs/serving.md", "Whoever asks gets a page.\n")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_messages_count_and_comments_do_not() {
        let count = |path, text| phrases(&Project::of(&[(path, text)])).len();
        assert_eq!(count("README.md", "The server takes up\nit by itself.\n"), 2);
        assert_eq!(count("README.md", "Nobodys\n"), 0);
        assert_eq!(count("bench/runs/a.md", "nobody\n"), 0);
        let source = "// nobody\nfn f() { say(\"nobody\"); }\n";
        assert_eq!(count("crates/http/src/date.rs", source), 1);
        assert_eq!(count("crates/http/tests/date.rs", source), 0);
        let test = "#[cfg(test)]\nmod tests {\n    fn f() { say(\"nobody\"); }\n}\n";
        assert_eq!(count("crates/http/src/date.rs", test), 0);
    }
}
