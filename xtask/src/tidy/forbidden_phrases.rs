//! Documents, messages and comments are written in plain English: these phrases have made them hard
//! to read.

use super::Rule;
use super::comment_extraction::comments;
use super::project::{File, Finding, PACKAGING, Project};
use super::rust_source::positions;

pub(super) const PHRASES: Rule = Rule { name: "phrases", check: phrases, canary: riddle };

/// A phrase in lower case, and its replacement.
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
    ("in the clear", "without encryption, over HTTP"),
    ("yardstick", "reference, benchmark"),
    ("given up", "closed, dropped, cancelled"),
    ("comes of", "is derived from, results from"),
    ("is whose", "name what belongs to it: which site serves which host"),
    ("tells of", "announces, reports, lists"),
    ("work beside", "background work, in parallel with"),
];

/// Looks at documents and pages, at the files of packages, at the strings of the crates, which are
/// messages, and at the comments of all code. A phrase may go on in the next line.
fn phrases(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, prose) in project.files.iter().flat_map(|file| {
        prose(file).into_iter().chain(comments(file)).map(move |prose| (file, prose))
    }) {
        let Folded { text, lines } = Folded::of(&prose);
        for (phrase, instead) in AVOIDED {
            let found = positions(&text, phrase).map(|at| {
                let line = lines.get(at).copied().unwrap_or(0);
                Finding::new(file, line, format!("`{phrase}` in plain English: {instead}"))
            });
            findings.extend(found);
        }
    }
    findings
}

/// Returns the texts for users in a file, with the line breaks at their positions.
fn prose(file: &File) -> Option<String> {
    let is_of_crate = file.path.starts_with("crates/") && !file.is_test();
    if let Some(source) = &file.rust {
        return is_of_crate.then(|| source.literals(&file.text));
    }
    let is_read = match file.extension() {
        "md" => true,
        "html" => !file.is_test(),
        "lua" => return is_of_crate.then(|| without_comments(&file.text)),
        _ => file.path.starts_with(PACKAGING),
    };
    (is_read && !file.path.starts_with("bench/")).then(|| file.text.clone())
}

/// Blanks the lines of Lua that are comments.
fn without_comments(text: &str) -> String {
    let is_comment = |line: &str| line.trim_start().starts_with("--");
    let lines = text.split_inclusive('\n');
    lines.map(|line| if is_comment(line) { "\n" } else { line }).collect()
}

/// A text in lower case with one space between its words; its paragraphs are separated.
struct Folded {
    text: String,
    /// The line of each byte, counted from 1.
    lines: Vec<usize>,
}

impl Folded {
    fn of(prose: &str) -> Self {
        let mut folded = Self { text: String::with_capacity(prose.len()), lines: Vec::new() };
        let (mut line, mut breaks, mut is_after_space) = (1, 0, true);
        let mut rest = prose.chars().peekable();
        while let Some(c) = rest.next() {
            // In a literal the text continues after a backslash at the end of a line.
            if c.is_whitespace() || (c == '\\' && rest.peek() == Some(&'\n')) {
                let is_break = c == '\n';
                (line, breaks) = (line + usize::from(is_break), breaks + usize::from(is_break));
                is_after_space = true;
                continue;
            }
            if is_after_space {
                folded.push(if breaks > 1 { '\n' } else { ' ' }, line);
                (is_after_space, breaks) = (false, 0);
            }
            c.to_lowercase().for_each(|small| folded.push(small, line));
        }
        folded
    }

    fn push(&mut self, c: char, line: usize) {
        self.text.push(c);
        self.lines.resize(self.text.len(), line);
    }
}

fn riddle() -> Project {
    Project::of(&[("docs/serving.md", "Whoever asks gets a page.\n")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_in_documents_messages_and_comments_are_found() {
        let count = |path, text| phrases(&Project::of(&[(path, text)])).len();
        assert_eq!(count("README.md", "The server takes up\nit by itself.\n"), 2);
        assert_eq!(count("README.md", "Nobodys\n"), 0);
        assert_eq!(count("examples/site/index.html", "<p>Nobody\n"), 1);
        assert_eq!(count("packaging/pinion.service", "# It is told.\n"), 1);
        assert_eq!(
            count("crates/lua/src/background_work.lua", "error('nobody')\n  -- nobody\n"),
            2
        );
        assert_eq!(count("crates/python/program/frames.py", "# It is\n# told.\n"), 1);
        assert_eq!(count("examples/guestbook/main.lua", "error('nobody')\n"), 0);
        assert_eq!(count("bench/runs/a.md", "nobody\n"), 0);
        let source = "/// The work\n/// beside it.\nfn f() { say(\"nobody\"); }\n";
        assert_eq!(count("crates/http/src/date.rs", source), 2);
        assert_eq!(count("crates/http/tests/date.rs", source), 1);
        let test = "#[cfg(test)]\nmod tests {\n    fn f() { say(\"nobody\"); }\n}\n";
        assert_eq!(count("crates/http/src/date.rs", test), 0);
    }

    #[test]
    fn a_phrase_may_span_lines_but_not_separate_texts() {
        let said = |path, text| {
            let found = phrases(&Project::of(&[(path, text)]));
            found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        assert!(
            said("README.md", "\nIt runs by\n  itself.\n").starts_with("README.md:2: `by itself`")
        );
        assert_eq!(said("README.md", "What it runs by\n\nItself.\n"), "");
        let literal = "fn f() { say(\"It is \\\n    told\"); }\n";
        assert!(said("crates/http/src/date.rs", literal).contains("is told"));
        let two = "fn f() { say(\"it is\", \"told\"); }\n";
        assert_eq!(said("crates/http/src/date.rs", two), "");
    }
}
