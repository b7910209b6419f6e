//! Converts text to roff with the `man` macros. Backquotes make literal text bold, and underscores
//! around a whole word make a placeholder.

use std::fmt::Write as _;

/// A page that is being written.
pub(super) struct ManualPage(String);

impl ManualPage {
    /// Begins a page with its name, section of the manual, and one phrase.
    pub(super) fn new(name: &str, section: u8, brief: &str) -> Self {
        let mut page = Self(String::new());
        let version = env!("CARGO_PKG_VERSION");
        page.line(&format!(
            ".TH \"{}\" {section} \"\" \"pinion {version}\" \"Pinion\"",
            escaped(&name.to_uppercase())
        ));
        page.section("NAME");
        page.line(&format!("{} \\- {}", escaped(name), escaped(brief)));
        page
    }

    pub(super) fn section(&mut self, title: &str) {
        self.line(&format!(".SH \"{}\"", escaped(title)));
    }

    pub(super) fn subsection(&mut self, title: &str) {
        self.line(&format!(".SS \"{}\"", escaped(title)));
    }

    /// Writes the words of a command that are literal, and those that are not.
    pub(super) fn usage(&mut self, command: &str, rest: &str) {
        self.line(&format!("\\fB{}\\fR {}", escaped(command), escaped(rest)));
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        self.line(".PP");
        self.line(&protected(&marked(text)));
    }

    /// Writes an item: its name `entry`, and the text about it.
    pub(super) fn item(&mut self, entry: &str, text: &str) {
        self.line(".TP");
        self.line(&protected(&marked(entry)));
        self.line(&protected(&marked(text)));
    }

    /// Writes lines as they are.
    pub(super) fn example(&mut self, text: &str) {
        self.line(".nf");
        for line in text.lines() {
            // roff takes an empty line for a break of its own kind.
            let line = if line.is_empty() { ".sp".to_owned() } else { protected(&escaped(line)) };
            self.line(&line);
        }
        self.line(".fi");
    }

    pub(super) fn see_also(&mut self, pages: impl IntoIterator<Item = (String, u8)>) {
        self.section("SEE ALSO");
        let page = |(name, section): (String, u8)| format!("\\fB{}\\fR({section})", escaped(&name));
        let pages: Vec<String> = pages.into_iter().map(page).collect();
        self.line(&pages.join(", "));
    }

    pub(super) fn text(self) -> String {
        self.0
    }

    fn line(&mut self, line: &str) {
        let _infallible = writeln!(self.0, "{line}");
    }
}

/// Returns a text with bold and slanted words.
fn marked(text: &str) -> String {
    let mut out = String::new();
    for (at, part) in text.split('`').enumerate() {
        match at % 2 {
            0 => out.push_str(&slanted(part)),
            _ => out.push_str(&format!("\\fB{}\\fR", escaped(part))),
        }
    }
    out
}

fn slanted(text: &str) -> String {
    let word = |word: &str| match word.strip_prefix('_').and_then(|rest| rest.strip_suffix('_')) {
        Some(name) => format!("\\fI{}\\fR", escaped(name)),
        None => escaped(word),
    };
    let words: Vec<String> = text.split(' ').map(word).collect();
    words.join(" ")
}

/// Escapes a text, so that every character stands for itself; a hyphen can be copied into a
/// terminal.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace('"', "\\(dq")
}

/// Returns a line that is no request of roff.
fn protected(line: &str) -> String {
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_a_roff_request() {
        let mut page = ManualPage::new("a-b", 1, "x \\ y");
        page.paragraph(".so /etc/passwd");
        page.item("`--flag` _N_", "'tis `a-b` and a_b.");
        page.example("a = \"b\"\n\n.c");
        let text = page.text();
        for line in [
            "a\\-b \\- x \\e y",
            "\\&.so /etc/passwd",
            "\\fB\\-\\-flag\\fR \\fIN\\fR",
            "\\&'tis \\fBa\\-b\\fR and a_b.",
            "a = \\(dqb\\(dq",
            ".sp",
            "\\&.c",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
