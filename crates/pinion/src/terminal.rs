//! The look of output: colours where a person reads along, columns that stand in line, sizes and
//! counts in a form people read.

use anstyle::{AnsiColor, Style};
pub(crate) use pinion_builder::number_format::{count, percent, size};
use std::fmt::Display;
use std::io::IsTerminal;

/// Whether to colour; worked out once for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TerminalStyle {
    colours: bool,
}

impl TerminalStyle {
    /// Returns the style for stdout: with colours when it is a terminal and `NO_COLOR` is unset or
    /// empty (no-color.org).
    pub(crate) fn of_stdout() -> Self {
        Self { colours: std::io::stdout().is_terminal() && wanted() }
    }

    /// Returns the style for stderr: with colours when it is a terminal and `NO_COLOR` is unset or
    /// empty.
    pub(crate) fn of_stderr() -> Self {
        Self { colours: std::io::stderr().is_terminal() && wanted() }
    }

    /// Marks the most important text.
    pub(crate) fn bold(self, text: impl Display) -> String {
        self.paint(Style::new().bold(), text)
    }

    /// Marks a text that may be skipped.
    pub(crate) fn dim(self, text: impl Display) -> String {
        self.paint(Style::new().dimmed(), text)
    }

    /// Marks a success.
    pub(crate) fn green(self, text: impl Display) -> String {
        self.paint(AnsiColor::Green.on_default(), text)
    }

    /// Marks an error.
    pub(crate) fn red(self, text: impl Display) -> String {
        self.paint(AnsiColor::Red.on_default(), text)
    }

    /// Marks a warning.
    pub(crate) fn yellow(self, text: impl Display) -> String {
        self.paint(AnsiColor::Yellow.on_default(), text)
    }

    fn paint(self, style: Style, text: impl Display) -> String {
        if self.colours { format!("{style}{text}{style:#}") } else { text.to_string() }
    }
}

fn wanted() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    !dumb && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The alignment of a column's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows whose columns stand in line, two spaces apart. Every row is measured first and printed
/// later, so that a list of any length needs no memory.
#[derive(Debug)]
pub(crate) struct Columns<const N: usize> {
    aligns: [Align; N],
    widths: [usize; N],
}

impl<const N: usize> Columns<N> {
    /// Makes a table with one column for each alignment.
    pub(crate) fn new(aligns: [Align; N]) -> Self {
        Self { aligns, widths: [0; N] }
    }

    /// Makes room for a row.
    pub(crate) fn measure(&mut self, row: &[String; N]) {
        for (width, cell) in self.widths.iter_mut().zip(row) {
            *width = columns(cell).max(*width);
        }
    }

    /// Returns a row as the beginning of a line: every column is filled up.
    pub(crate) fn line(&self, row: &[String; N]) -> String {
        let mut line = String::new();
        for ((cell, width), align) in row.iter().zip(self.widths).zip(self.aligns) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            let gap = " ".repeat(width.saturating_sub(columns(cell)));
            match align {
                Align::Left => line.extend([cell, gap.as_str()]),
                Align::Right => line.extend([gap.as_str(), cell]),
            }
        }
        line
    }

    /// Returns all rows of a short list as lines.
    pub(crate) fn lines(mut self, rows: &[[String; N]]) -> Vec<String> {
        rows.iter().for_each(|row| self.measure(row));
        rows.iter().map(|row| self.line(row).trim_end().to_owned()).collect()
    }
}

/// Returns the number of columns that a text takes, colour codes not counted.
fn columns(text: &str) -> usize {
    let mut columns = 0;
    let mut code = false;
    for c in text.chars() {
        match (code, c) {
            (false, '\x1b') => code = true,
            (true, 'm') => code = false,
            (true, _) => {}
            (false, _) => columns += 1,
        }
    }
    columns
}

/// Returns `1 file`, `2 files`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// Returns bytes as a person may see them: UTF-8 stays, everything else and every control character
/// becomes `\xHH`, so that a path cannot command the terminal.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let escape = |bytes: &[u8], text: &mut String| {
        for byte in bytes {
            text.push_str(&format!("\\x{byte:02X}"));
        }
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                c if c.is_control() => escape(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut text),
                c => text.push(c),
            }
        }
        escape(chunk.invalid(), &mut text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_despite_colours() {
        let colours = TerminalStyle { colours: true };
        let table = Columns::new([Align::Left, Align::Right, Align::Left]);
        let rows = [
            ["a".to_owned(), "1".to_owned(), "x".to_owned()],
            [colours.bold("bcd"), "234".to_owned(), String::new()],
        ];
        assert_eq!(table.lines(&rows), ["a      1  x", "\x1b[1mbcd\x1b[0m  234"]);
    }

    #[test]
    fn without_colours_text_is_plain() {
        let style = TerminalStyle { colours: false };
        for text in [style.bold(1), style.dim(1), style.green(1), style.red(1), style.yellow(1)] {
            assert_eq!(text, "1");
        }
    }

    #[test]
    fn nouns_have_a_plural() {
        assert_eq!((counted(1, "file"), counted(0, "file")), ("1 file".into(), "0 files".into()));
    }

    #[test]
    fn control_characters_in_a_path_are_escaped() {
        assert_eq!(shown("/ä b".as_bytes()), "/ä b");
        assert_eq!(shown(b"/\x1b[2J\xff\\\n"), "/\\x1B[2J\\xFF\\\\\\x0A");
        assert_eq!(shown("\u{9b}".as_bytes()), "\\xC2\\x9B");
    }
}
