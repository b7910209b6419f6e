//! Messages that documents quote together with a remedy: the program must contain their words.

use super::documents;
use pinion_tests::binary::source_root;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// The first column of tables of messages.
const HEADS: [&str; 2] = ["| Message |", "| Symptom |"];

/// Texts of the system in messages.
const OF_THE_SYSTEM: [&str; 2] = ["No such file or directory", "Permission denied"];

/// The mark of an omission at the end of a quoted message.
const CUT: &str = "…";

/// The texts of the program. Each consists of the parts between its placeholders, for which values
/// and other texts are inserted: `cannot listen on {address}: {why}`.
struct Texts(Vec<Vec<String>>);

/// The known results for parts of a message: by the text, and whether it is cut at its end.
type Explained<'m> = HashMap<(&'m str, bool), bool>;

impl Texts {
    fn of_the_program() -> Self {
        let mut texts = Vec::new();
        collect(&source_root().join("crates"), &mut texts);
        texts.sort_unstable();
        texts.dedup();
        // A document omits the file or the program at the front; advice is added to other texts.
        let rests: Vec<String> = texts.iter().filter_map(|text| rest(text)).collect();
        Self::of(texts.iter().chain(&rests))
    }

    fn of<'t>(texts: impl Iterator<Item = &'t String>) -> Self {
        let parts = texts.map(|text| parts(text)).filter(|parts| says_something(parts));
        let joints = JOINTS.map(|sign| ["", sign, ""].map(str::to_owned).into());
        Self(parts.chain(joints).collect())
    }

    /// Returns whether texts of the program, with values in their placeholders, can form this
    /// message.
    fn explain(&self, message: &str) -> bool {
        let (shown, is_cut) = match message.strip_suffix(CUT) {
            Some(shown) => (shown.trim_end(), true),
            None => (message, false),
        };
        // Only some texts share a word with it.
        let may_be_cut_in = |part: &String| {
            let ends = part.char_indices().map(|(at, _)| at).skip(1);
            shown.contains(&**part) || ends.into_iter().any(|end| shown.ends_with(&part[..end]))
        };
        let is_candidate = |parts: &&Vec<String>| {
            let mut fixed = parts.iter().filter(|part| !part.is_empty());
            parts.iter().all(|part| shown.contains(&**part))
                || is_cut && fixed.next().is_some_and(may_be_cut_in)
        };
        let candidates = Self(self.0.iter().filter(is_candidate).cloned().collect());
        candidates.explains(shown, is_cut, &mut Explained::new())
    }

    fn explains<'m>(&self, text: &'m str, is_cut: bool, known: &mut Explained<'m>) -> bool {
        if let Some(&is_explained) = known.get(&(text, is_cut)) {
            return is_explained;
        }
        // A text that begins with a placeholder must not explain itself.
        known.insert((text, is_cut), false);
        let is_value = !text.trim().contains(' ') || OF_THE_SYSTEM.contains(&text);
        let is_explained = is_value
            || self.0.iter().any(|parts| {
                let (first, behind) = parts.split_first().expect("never empty");
                let is_begun = is_cut && first.starts_with(text) && letters(text) >= LETTERS_MIN;
                let is_joint = matches!(&parts[..], [_, sign, _] if JOINTS.contains(&&**sign));
                let seen = if is_joint { LETTERS_MIN } else { letters(first) };
                let rest = text.strip_prefix(&**first);
                let fits = |rest| self.fits(behind, rest, is_cut.then_some(seen), known);
                is_begun || rest.is_some_and(fits)
            });
        known.insert((text, is_cut), is_explained);
        is_explained
    }

    /// Returns whether a text is a value with the first part after it, and so on to the last part.
    /// A cut text may end in any of them, if enough letters were `seen` before or are in that part.
    fn fits<'m>(
        &self,
        parts: &[String],
        text: &'m str,
        seen: Option<usize>,
        known: &mut Explained<'m>,
    ) -> bool {
        let Some((part, behind)) = parts.split_first() else { return text.is_empty() };
        let mut ends = text.match_indices(&**part).map(|(at, found)| (at, at + found.len()));
        let is_whole = ends.any(|(hole, end)| {
            let rest = &text[end..];
            // The value of a placeholder may be empty as well.
            (hole == 0 || self.explains(&text[..hole], false, known))
                && (rest.is_empty() || !behind.is_empty())
                && self.fits(behind, rest, seen.map(|seen| seen + letters(part)), known)
        });
        let Some(seen) = seen.filter(|_| !is_whole) else { return is_whole };
        let cuts = text.char_indices().map(|(at, _)| at).skip(1);
        let mut cuts = cuts.filter(|&at| part.starts_with(&text[at..]));
        let is_enough = |at: usize| seen + letters(&text[at..]) >= LETTERS_MIN;
        cuts.any(|at| is_enough(at) && self.explains(&text[..at], false, known))
            || seen >= LETTERS_MIN && (text.is_empty() || self.explains(text, true, known))
    }
}

/// The least letters of a text itself: a text of a word or two would explain every message.
const LETTERS_MIN: usize = 8;

fn letters(text: &str) -> usize {
    text.chars().filter(|character| character.is_alphabetic()).count()
}

/// The separators between two joined texts.
const JOINTS: [&str; 4] = [": ", "; ", ", ", ", found "];

fn says_something(parts: &[String]) -> bool {
    let between = parts.get(1..parts.len() - 1).unwrap_or_default();
    let is_clear = between.iter().all(|part| !part.trim().is_empty());
    let sum: usize = parts.iter().map(|part| letters(part)).sum();
    is_clear && sum >= LETTERS_MIN
}

/// Returns a text without the placeholder in front of a colon, or without its separator.
fn rest(text: &str) -> Option<String> {
    let behind = text.strip_prefix('{').and_then(|text| text.split_once('}')?.1.strip_prefix(": "));
    let joined = || ["; ", "pinion: "].iter().find_map(|front| text.strip_prefix(front));
    behind.or_else(joined).map(str::to_owned)
}

/// Returns the parts of a text between its placeholders: `{name}`, with `{{` for a brace.
fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let last = parts.last_mut().expect("never empty");
        last.push_str(&rest[..at]);
        let is_brace = ["{{", "}}"].iter().any(|double| rest[at..].starts_with(double));
        let end = if is_brace { Some(at + 1) } else { rest[at..].find('}').map(|end| at + end) };
        let Some(end) = end else { break };
        if is_brace {
            last.push_str(&rest[at..=at]);
        } else {
            parts.push(String::new());
        }
        rest = &rest[end + 1..];
    }
    parts.last_mut().expect("never empty").push_str(rest);
    parts
}

/// Collects the texts of all sources below a folder except those of tests.
fn collect(folder: &Path, texts: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let path = entry.path();
        let is_of_tests = ["tests", "tests.rs", "fuzz"].iter().any(|name| path.ends_with(name));
        if path.is_dir() && !is_of_tests {
            collect(&path, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_of_tests {
            literals(&fs::read_to_string(&path).expect("a source file"), texts);
        }
    }
}

/// Collects the string literals of a source file, up to its tests.
fn literals(source: &str, texts: &mut Vec<String>) {
    let source = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut rest = source;
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let (before, found) = rest.split_at(at);
        rest = &found[1..];
        if found.starts_with("//") {
            rest = found.split_once('\n').map_or("", |(_, behind)| behind);
        } else if let Some(behind) = found.strip_prefix("'\"'").or(found.strip_prefix("'\\\"'")) {
            rest = behind;
        } else if found.starts_with('"') {
            let is_raw = before.ends_with("r#");
            let (text, behind) = if is_raw { raw(rest) } else { quoted(rest) };
            texts.push(text);
            rest = behind;
        }
    }
}

/// Returns the text of a raw literal, and the rest after it.
fn raw(rest: &str) -> (String, &str) {
    let (text, behind) = rest.split_once("\"#").unwrap_or((rest, ""));
    (text.to_owned(), behind)
}

/// Returns the text of a literal, and the rest after it. A backslash at the end of a line joins the
/// next one.
fn quoted(rest: &str) -> (String, &str) {
    let mut text = String::new();
    let mut characters = rest.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => match characters.next() {
                Some('\n') => characters = characters.as_str().trim_start().chars(),
                Some('n') => text.push('\n'),
                other => text.extend(other),
            },
            other => text.push(other),
        }
    }
    (text, characters.as_str())
}

/// Returns the messages in the first column of the tables of a document that have one for messages.
fn quoted_messages(document: &str) -> Vec<&str> {
    let mut messages = Vec::new();
    let mut is_table = false;
    for line in document.lines() {
        is_table = line.starts_with('|') && (is_table || HEADS.iter().any(|h| line.starts_with(h)));
        if !is_table {
            continue;
        }
        let cell = line.split('|').nth(1).unwrap_or_default();
        let codes = cell.split('`').skip(1).step_by(2);
        messages.extend(codes.filter(|code| code.contains(' ')));
    }
    messages
}

#[test]
fn messages_in_documents_are_those_of_the_program() {
    let texts = Texts::of_the_program();
    let (mut found, mut wrong) = (0, Vec::new());
    for path in documents() {
        let document = fs::read_to_string(&path).expect("a document");
        for message in quoted_messages(&document) {
            found += 1;
            if !texts.explain(message) {
                wrong.push(format!("{}: {message}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "the program has no such text:\n{}", wrong.join("\n"));
    assert!(found >= 25, "only {found} messages: have the tables other heads?");
}

/// Without this test the other could miss all errors.
#[test]
fn messages_that_the_program_does_not_have_are_found() {
    let source = r#"
        // A remark with a " in it.
        let quote = '"';
        format!("cannot listen on {address}: {why}");
        format!("{what}; {advice}");
        "another program listens there already, \
         find it with {command}"
    "#;
    let mut literals = Vec::new();
    self::literals(source, &mut literals);
    assert_eq!(literals.len(), 3, "{literals:?}");
    let texts = Texts::of(literals.iter());
    for (message, is_explained) in [
        ("cannot listen on :80: another program listens there already, …", true),
        ("cannot listen on :80: another program listens there already, find it with ss", true),
        ("cannot listen on :80: Permission denied; another program lis…", true),
        ("cannot listen on :80: another program listens there now, …", false),
        ("cannot listen at :80: another program listens there already, …", false),
        ("cannot listen on all ports: Permission denied", false),
    ] {
        assert_eq!(texts.explain(message), is_explained, "{message}");
    }
}
