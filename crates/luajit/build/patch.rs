//! Unified diffs. They apply without tolerance: a line that is not where the patch has it ends the
//! build, so that no other version of LuaJIT is built with half of a patch.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The lines of a hunk, each with its sign, and the line of the file that the hunk begins at.
struct Hunk<'p> {
    first_line: usize,
    lines: Vec<(char, &'p str)>,
}

/// The hunks for one file, by the order of their lines.
struct FilePatch<'p> {
    path: &'p str,
    hunks: Vec<Hunk<'p>>,
}

/// Applies a patch to the files below a folder.
///
/// # Errors
/// The text is no patch, or it does not match a file: what, and where.
pub(crate) fn apply(patch: &str, folder: &Path) -> Result<(), String> {
    let files = parse(patch)?;
    if files.is_empty() {
        return Err("the patch names no file".into());
    }
    for file in files {
        let path = folder.join(file.path);
        let described = |error| format!("{}: {error}", path.display());
        let text = fs::read_to_string(&path).map_err(|error| described(error.to_string()))?;
        let patched = patched(&text, &file.hunks).map_err(described)?;
        // The copy of a file that is read-only is read-only, too.
        let written = fs::remove_file(&path).and_then(|()| fs::write(&path, patched));
        written.map_err(|error| described(error.to_string()))?;
    }
    Ok(())
}

fn parse(patch: &str) -> Result<Vec<FilePatch<'_>>, String> {
    let mut files: Vec<FilePatch<'_>> = Vec::new();
    // How many lines of the file before and after the patch the current hunk still has.
    let mut left = (0, 0);
    for line in patch.lines() {
        if left != (0, 0) {
            let hunk = files.last_mut().and_then(|file| file.hunks.last_mut());
            let hunk = hunk.expect("lines are only left within a hunk");
            // Some programs leave out the space of an empty line.
            let (sign, text) = match line.chars().next() {
                Some(sign) => (sign, &line[sign.len_utf8()..]),
                None => (' ', ""),
            };
            let taken = match sign {
                ' ' => (1, 1),
                '-' => (1, 0),
                '+' => (0, 1),
                _ => return Err(format!("not a line of a hunk: {line:?}")),
            };
            if taken.0 > left.0 || taken.1 > left.1 {
                return Err(format!("more lines than the hunk has: {line:?}"));
            }
            left = (left.0 - taken.0, left.1 - taken.1);
            hunk.lines.push((sign, text));
        } else if let Some(path) = line.strip_prefix("+++ ") {
            files.push(FilePatch { path, hunks: Vec::new() });
        } else if let Some(numbers) = line.strip_prefix("@@ ") {
            let (first_line, before, after) =
                header(numbers).ok_or_else(|| format!("not the head of a hunk: {line:?}"))?;
            let file = files.last_mut().ok_or("a hunk before the name of its file")?;
            file.hunks.push(Hunk { first_line, lines: Vec::new() });
            left = (before, after);
        } else if !line.is_empty() && !line.starts_with("--- ") {
            return Err(format!("not a line of a patch: {line:?}"));
        }
    }
    if left == (0, 0) { Ok(files) } else { Err("the last hunk is not complete".into()) }
}

/// Reads `-12,5 +12,6 @@`: the first line, and how many lines there are before and after.
fn header(text: &str) -> Option<(usize, usize, usize)> {
    let (before, rest) = text.strip_prefix('-')?.split_once(" +")?;
    let (after, _) = rest.split_once(" @@")?;
    let numbers = |text: &str| match text.split_once(',') {
        Some((first, count)) => Some((first.parse().ok()?, count.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    };
    let (first_line, before): (usize, usize) = numbers(before)?;
    let (_, after): (usize, usize) = numbers(after)?;
    Some((first_line, before, after))
}

fn patched(text: &str, hunks: &[Hunk<'_>]) -> Result<String, String> {
    let mut lines = text.lines();
    // The number of the line that comes next.
    let mut at = 1;
    let mut result = String::with_capacity(text.len());
    let end = |line: usize| format!("line {line}: the file ends before it");
    for hunk in hunks {
        while at < hunk.first_line {
            let line = lines.next().ok_or_else(|| end(at))?;
            at += 1;
            let _always = writeln!(result, "{line}");
        }
        for &(sign, expected) in &hunk.lines {
            if sign == '+' {
                let _always = writeln!(result, "{expected}");
                continue;
            }
            let line = lines.next().ok_or_else(|| end(at))?;
            if line != expected {
                return Err(format!(
                    "line {at} is {line:?}, and the patch is made for {expected:?}"
                ));
            }
            at += 1;
            if sign == ' ' {
                let _always = writeln!(result, "{line}");
            }
        }
    }
    for line in lines {
        let _always = writeln!(result, "{line}");
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "--- a/f\n+++ a/f\n@@ -2,3 +2,4 @@ near here\n two\n-three\n+3\n+3.5\n \n\
                         @@ -7 +8,0 @@\n-seven\n";

    fn try_on(text: &str, patch: &str) -> Result<String, String> {
        let files = parse(patch)?;
        assert_eq!(files.len(), 1);
        patched(text, &files[0].hunks)
    }

    #[test]
    fn a_patch_changes_only_the_lines_that_it_names() {
        let text = "one\ntwo\nthree\n\nfive\nsix\nseven\neight\n";
        let expected = "one\ntwo\n3\n3.5\n\nfive\nsix\neight\n";
        assert_eq!(try_on(text, PATCH).as_deref(), Ok(expected));
    }

    #[test]
    fn a_patch_does_not_apply_to_another_file() {
        for text in [
            "one\ntwo\n3\n\nfive\nsix\nseven\n",
            "zero\none\ntwo\nthree\n\nfive\nsix\nseven\n",
            "one\ntwo\nthree\n\nfive\nsix\n",
            "one\n",
            "",
        ] {
            let why = try_on(text, PATCH).expect_err(text);
            assert!(why.starts_with("line "), "{why}");
        }
    }

    #[test]
    fn malformed_patches_are_refused() {
        for patch in [
            "+++ f\n@@ -1,2 +1,2 @@\n one\n",
            "+++ f\n@@ -1 +1 @@\n one\n-two\n",
            "+++ f\n@@ -1 +1 @@\n?one\n",
            "+++ f\n@@ one @@\n one\n",
            "@@ -1 +1 @@\n one\n",
            "one\n",
        ] {
            assert!(parse(patch).is_err(), "{patch}");
        }
        let folder = std::env::temp_dir();
        assert!(apply("", &folder).is_err());
        assert!(apply("+++ not/there.c\n@@ -1 +1 @@\n one\n", &folder).is_err());
    }
}
