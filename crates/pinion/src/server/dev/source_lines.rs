//! Positions in error messages (`_redirects:3:7: …`, `main.lua:12: …`), and the lines of the source
//! around them.

/// The number of lines that are shown on each side of the marked one.
const AROUND_LINES: usize = 5;

/// Characters of a line that are shown. Minified files have one line of megabytes.
const LINE_MAX_CHARS: usize = 240;

/// Positions in one message that are looked up at most: a stack has some tens of lines.
const POSITIONS_MAX: usize = 64;

/// A position in a file that a message names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourcePosition<'m> {
    /// The file as the message names it.
    pub(crate) file: &'m str,
    /// The number of the line, from 1.
    pub(crate) line: usize,
    /// The column, in characters, from 1.
    pub(crate) column: Option<usize>,
    /// The text before the position in its line of the message.
    pub(crate) before: &'m str,
    /// The text after it.
    pub(crate) behind: &'m str,
}

/// Lines of a source, one of which is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceLines {
    /// The number of the first one.
    pub(crate) first: usize,
    /// The lines without their ends.
    pub(crate) lines: Vec<String>,
    /// The number of the marked line.
    pub(crate) marked: usize,
}

/// Returns the positions that a message names perhaps, in the order of the message. A name may have
/// spaces in it, so one that begins in the middle of a line is tried from there and from its start.
pub(crate) fn positions(message: &str) -> Vec<SourcePosition<'_>> {
    let mut found = Vec::new();
    for text in message.lines() {
        for (at, _) in text.match_indices(':') {
            let Some((line, column, behind)) = numbers(text.get(at + 1..).unwrap_or_default())
            else {
                continue;
            };
            let before = text.get(..at).unwrap_or_default();
            let whole = before.trim_start();
            let last = before.rsplit([' ', '\t', '"', '\'', '(']).next().unwrap_or_default();
            for file in [whole, last] {
                let before = before.strip_suffix(file).unwrap_or_default();
                if !file.is_empty() {
                    found.push(SourcePosition { file, line, column, before, behind });
                }
                if found.len() >= POSITIONS_MAX {
                    return found;
                }
                if whole == last {
                    break;
                }
            }
        }
    }
    found
}

/// Reads `LINE` or `LINE:COLUMN`, and returns the rest.
fn numbers(text: &str) -> Option<(usize, Option<usize>, &str)> {
    let (line, rest) = number(text)?;
    let column = rest.strip_prefix(':').and_then(number);
    let (column, rest) = column.map_or((None, rest), |(column, rest)| (Some(column), rest));
    let behind = rest.strip_prefix(':').unwrap_or(rest);
    Some((line, column, behind.trim()))
}

/// Reads a number that no digit or letter follows.
fn number(text: &str) -> Option<(usize, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let number = digits.parse().ok().filter(|&number| number > 0)?;
    let is_over = !rest.starts_with(|c: char| c.is_alphanumeric() || c == '.' || c == '/');
    is_over.then_some((number, rest))
}

impl SourceLines {
    /// Returns the lines around one of a source; `None` if the source has no such line. An error at
    /// the end of a file may have the line after its last one.
    pub(crate) fn around(source: &str, marked: usize) -> Option<Self> {
        let count = source.lines().count();
        let marked = if marked == count + 1 { count } else { marked };
        if marked == 0 || marked > count {
            return None;
        }
        let first = marked.saturating_sub(AROUND_LINES).max(1);
        let lines = source.lines().skip(first - 1).take(marked - first + 1 + AROUND_LINES);
        let lines: Vec<String> = lines.map(shortened).collect();
        // A blank line at either end shows nothing.
        Some(Self { first, lines, marked })
    }
}

fn shortened(line: &str) -> String {
    let mut shown: String = line.chars().take(LINE_MAX_CHARS).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(message: &str) -> Vec<(String, usize, Option<usize>)> {
        let positions = positions(message).into_iter();
        positions.map(|found| (found.file.to_owned(), found.line, found.column)).collect()
    }

    #[test]
    fn positions_of_every_kind_of_message_are_found() {
        for (message, file, line, column) in [
            ("_redirects:3:7: expected a target", "_redirects", 3, Some(7)),
            ("blog posts/_headers:12:1: expected", "blog posts/_headers", 12, Some(1)),
            ("a.dyn.html:2: unexpected symbol", "a.dyn.html", 2, None),
            ("GET /a: site/main.lua:14: bad", "site/main.lua", 14, None),
            ("stack traceback:\n\tlib/x.lua:5: in function <lib/x.lua:4>", "lib/x.lua", 5, None),
            ("...long/path/site.lua:9: bad", "...long/path/site.lua", 9, None),
            ("[string \"page.lua:3\"]", "page.lua", 3, None),
        ] {
            let found = named(message);
            assert!(found.contains(&(file.to_owned(), line, column)), "{message}: {found:?}");
        }
        for message in ["", ":1", "no position", "12:34pm", "at 10:30.5", "a:0: b"] {
            assert!(named(message).iter().all(|(file, ..)| file != "a"), "{message}");
        }
        let found = positions("GET /a: site/main.lua:14: bad").pop().expect("a position");
        assert_eq!((found.before, found.behind), ("GET /a: ", "bad"));
    }

    #[test]
    fn the_lines_around_one_are_shown() {
        let source = (1..=20).map(|line| format!("line {line}\n")).collect::<String>();
        let around = |marked| SourceLines::around(&source, marked);
        let middle = around(10).expect("lines");
        assert_eq!((middle.first, middle.lines.len(), middle.marked), (5, 11, 10));
        assert_eq!(middle.lines.get(5).map(String::as_str), Some("line 10"));
        assert_eq!(around(1).map(|lines| (lines.first, lines.lines.len())), Some((1, 6)));
        assert_eq!(around(20).map(|lines| (lines.first, lines.lines.len())), Some((15, 6)));
        assert_eq!(around(21).map(|lines| lines.marked), Some(20));
        assert_eq!((around(0), around(22)), (None, None));
        assert_eq!(SourceLines::around("", 1), None);
        let long = SourceLines::around(&"x".repeat(1 << 20), 1).expect("a line");
        assert_eq!(long.lines[0].chars().count(), LINE_MAX_CHARS + 1);
    }

    proptest! {
        /// This holds for any message and any source.
        #[test]
        fn nothing_panics(message in ".{0,80}", source in ".{0,80}", line in 0usize..9) {
            for found in positions(&message) {
                prop_assert!(found.line > 0 && message.contains(found.file));
                prop_assert!(found.before.len() + found.file.len() < message.len());
            }
            if let Some(lines) = SourceLines::around(&source, line) {
                let range = lines.first..lines.first + lines.lines.len();
                prop_assert!(range.contains(&lines.marked));
            }
        }
    }
}
