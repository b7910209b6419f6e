//! The comments of Rust, Lua, Python and shell files.

use super::project::File;

const TRIPLE_QUOTE: &str = "\"\"\"";

/// Returns the comments of a Rust file, or the lines of a Lua, Python or shell file that are
/// comments or docstrings: at their positions, without the signs that begin them, and with
/// everything else blank. `None` for other files.
pub(super) fn comments(file: &File) -> Option<String> {
    if let Some(source) = &file.rust {
        return Some(without_marks(&source.comments, &['/', '!']));
    }
    match file.extension() {
        "lua" => Some(without_marks(&line_comments(&file.text, "--"), &['-'])),
        "py" => Some(without_marks(&python_comments(&file.text), &['#'])),
        "sh" => Some(without_marks(&line_comments(&file.text, "#"), &['#'])),
        _ => None,
    }
}

/// Blanks the signs at the front of comments, so that a phrase is found across their lines.
fn without_marks(comments: &str, marks: &[char]) -> String {
    let line = |line: &str| {
        let text = line.trim_start();
        let words = text.trim_start_matches(marks);
        let (front, signs) = (line.len() - text.len(), text.len() - words.len());
        [&line[..front], &" ".repeat(signs), words].concat()
    };
    comments.split_inclusive('\n').map(line).collect()
}

/// Keeps the lines that begin with the sign of a comment.
fn line_comments(text: &str, sign: &str) -> String {
    kept(text, |line| line.trim_start().starts_with(sign))
}

/// Keeps the lines that are comments or docstrings. Other strings with three quotes are code.
fn python_comments(text: &str) -> String {
    // Whether the string that continues in the next line is a docstring.
    let mut open: Option<bool> = None;
    kept(text, |line| {
        let begins = line.trim_start().trim_start_matches('r').starts_with(TRIPLE_QUOTE);
        let is_docstring = open.unwrap_or(begins);
        let is_comment = is_docstring || (open.is_none() && line.trim_start().starts_with('#'));
        if line.matches(TRIPLE_QUOTE).count() % 2 == 1 {
            open = if open.is_some() { None } else { Some(is_docstring) };
        }
        is_comment
    })
}

fn kept(text: &str, mut is_kept: impl FnMut(&str) -> bool) -> String {
    text.split_inclusive('\n').map(|line| if is_kept(line) { line } else { "\n" }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::project::Project;
    use super::*;

    #[test]
    fn each_language_has_its_own_comments() {
        let words = |path, text| {
            let project = Project::of(&[(path, text)]);
            let comments = comments(&project.files[0])?;
            assert_eq!(comments.lines().count(), text.lines().count(), "{comments}");
            Some(comments.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        let found = |text: &str| Some(text.to_owned());
        assert_eq!(words("a.rs", "/// One\n/// two\nfn f() {}\n"), found("One two"));
        assert_eq!(words("a.lua", "-- One\nlocal x = 1\n  -- two\n"), found("One two"));
        assert_eq!(words("a.sh", "#!/bin/sh\n# One\nls\n"), found("!/bin/sh One"));
        let python =
            "# One\nx = 1\n\"\"\"Two\n\nthree\n\"\"\"\ny = 2\n    \"\"\"Four\"\"\"\nz = 3\n";
        let assigned = "X = \"\"\"\n# no\n\"\"\"\ny = 1\n# One\n";
        assert_eq!(words("a.py", assigned), found("One"));
        let expected = "One \"\"\"Two three \"\"\" \"\"\"Four\"\"\"";
        assert_eq!(words("a.py", python), found(expected));
        assert_eq!(words("a.md", "One\n"), None);
    }
}
