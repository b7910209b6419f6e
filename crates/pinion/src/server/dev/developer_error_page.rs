//! The page about an error, for a developer: the error, its position, and the lines of the source.
//!
//! Everything that it shows is text, with any content of a message or a source.

use super::source_lines::{SourceLines, positions};
use pinion_http::html_escape;
use std::fmt::{self, Write as _};

/// The most errors of one build that are shown: a developer corrects the first ones first.
const ERRORS_MAX: usize = 20;

/// Fields of the page. It loads nothing but the script that reloads it.
pub(crate) const FIELDS: &str = "Content-Type: text/html; charset=utf-8\r\n\
Cache-Control: no-store\r\n\
X-Content-Type-Options: nosniff\r\n\
Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; \
connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'\r\n";

const STYLE: &str = "\
:root{color-scheme:light dark;--back:#fff;--text:#1c1b1f;--soft:#5f5c66;--code:#f5f4f6;\
--edge:#dcdade;--bad:#b3261e;--mark:#fde7e5}\
@media(prefers-color-scheme:dark){:root{--back:#17161a;--text:#e9e7ec;--soft:#a6a2ad;\
--code:#211f25;--edge:#3a3740;--bad:#ff8a80;--mark:#4a2422}}\
*{box-sizing:border-box}\
body{margin:0;background:var(--back);color:var(--text);font:1rem/1.5 system-ui,sans-serif}\
main{max-width:60rem;margin:0 auto;padding:2.5rem 1.25rem}\
.kind{margin:0 0 2rem;color:var(--soft)}\
.kind b{color:var(--bad)}\
section{margin:0 0 2rem}\
h1{margin:0 0 .25rem;font-size:1.25rem;line-height:1.4;overflow-wrap:anywhere}\
.at{margin:0 0 .75rem;font-family:ui-monospace,monospace;font-size:.875rem;color:var(--soft);\
overflow-wrap:anywhere}\
pre{margin:0;padding:.75rem 0;border:1px solid var(--edge);border-radius:.5rem;\
background:var(--code);font:.875rem/1.6 ui-monospace,monospace;overflow-x:auto;tab-size:4}\
pre span{display:block;width:max-content;min-width:100%;padding:0 1rem 0 0;\
border-left:.25rem solid transparent}\
pre i{display:inline-block;width:3.5rem;padding-right:1rem;text-align:right;font-style:normal;\
color:var(--soft);user-select:none}\
pre .on{background:var(--mark);border-left-color:var(--bad)}\
pre .on i,.caret{color:var(--bad)}\
.text{padding:.75rem 1rem;white-space:pre-wrap;overflow-wrap:anywhere}\
summary{margin:0 0 .5rem;cursor:pointer;color:var(--soft)}\
footer{color:var(--soft);font-size:.875rem}";

/// An error with the lines of the source that it is about, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceError {
    /// The error, without the position.
    pub(crate) message: String,
    /// `file:line` or `file:line:column`.
    pub(crate) position: Option<String>,
    column: Option<usize>,
    lines: Option<SourceLines>,
}

/// The content of a page.
#[derive(Debug)]
pub(crate) struct DeveloperPage<'e> {
    /// The kind of the failure, in two or three words.
    pub(crate) kind: &'e str,
    /// Which site, or which request of it.
    pub(crate) subject: &'e str,
    /// The errors; never empty.
    pub(crate) errors: &'e [SourceError],
    /// Everything that is known, such as a stack; empty for none.
    pub(crate) details: &'e str,
    /// A note below.
    pub(crate) note: &'e str,
}

impl SourceError {
    /// Returns an error by its message, which names perhaps where it is. `read` returns the text of
    /// a file of the site by the name that the message has for it.
    pub(crate) fn new(message: &str, read: impl Fn(&str) -> Option<String>) -> Self {
        let first = message.lines().next().unwrap_or_default();
        let in_first = positions(first).len();
        for (number, found) in positions(message).into_iter().enumerate() {
            let Some(lines) =
                read(found.file).and_then(|text| SourceLines::around(&text, found.line))
            else {
                continue;
            };
            let has_own_message = number < in_first && !found.behind.is_empty();
            let column = found.column.map_or_else(String::new, |column| format!(":{column}"));
            return Self {
                message: if has_own_message { found.behind } else { first }.to_owned(),
                position: Some(format!("{}:{}{column}", found.file, found.line)),
                column: found.column,
                lines: Some(lines),
            };
        }
        Self { message: first.to_owned(), position: None, column: None, lines: None }
    }
}

impl DeveloperPage<'_> {
    /// Returns the page without its end, for which the browser needs nothing.
    pub(crate) fn html(&self) -> Vec<u8> {
        self.to_string().into_bytes()
    }
}

impl fmt::Display for DeveloperPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = self.errors.first().map_or("", |error| &error.message);
        write!(
            f,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{}: {}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <p class=\"kind\"><b>{}</b> · {}</p>\n",
            Escaped(self.kind),
            Escaped(title),
            Escaped(self.kind),
            Escaped(self.subject),
        )?;
        self.errors.iter().take(ERRORS_MAX).try_for_each(|error| section(f, error))?;
        if let Some(more) = self.errors.len().checked_sub(ERRORS_MAX).filter(|&more| more > 0) {
            writeln!(f, "<p>… and {more} more, which stderr lists.</p>")?;
        }
        if !self.details.is_empty() {
            writeln!(
                f,
                "<details open><summary>The entry in the log</summary>\
                 <pre class=\"text\">{}</pre></details>",
                Escaped(self.details)
            )?;
        }
        writeln!(f, "<footer><p>{}</p></footer>\n</main>", Escaped(self.note))
    }
}

fn section(f: &mut fmt::Formatter<'_>, error: &SourceError) -> fmt::Result {
    writeln!(f, "<section>\n<h1>{}</h1>", Escaped(&error.message))?;
    if let Some(position) = &error.position {
        writeln!(f, "<p class=\"at\">{}</p>", Escaped(position))?;
    }
    if let Some(lines) = &error.lines {
        source(f, lines, error.column)?;
    }
    f.write_str("</section>\n")
}

/// Writes lines with their numbers. They are blocks, so nothing stands between them.
fn source(f: &mut fmt::Formatter<'_>, lines: &SourceLines, column: Option<usize>) -> fmt::Result {
    f.write_str("<pre>")?;
    for (number, line) in (lines.first..).zip(&lines.lines) {
        if number != lines.marked {
            write!(f, "<span><i>{number}</i>{}\n</span>", Escaped(line))?;
            continue;
        }
        write!(
            f,
            "<span class=\"on\" aria-current=\"true\"><i>{number}</i>{}\n</span>",
            Escaped(line)
        )?;
        let Some(before) = column.and_then(|column| column.checked_sub(1)) else { continue };
        if before <= line.chars().count() {
            // Tabs stay, so that the caret stands below its character.
            let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
            let blanks: String = line.chars().take(before).map(blank).collect();
            write!(f, "<span class=\"on\"><i></i>{blanks}<b class=\"caret\">^</b>\n</span>")?;
        }
    }
    f.write_str("</pre>\n")
}

/// Text as HTML shows it. Control characters and other characters that are not allowed in HTML are
/// shown as U+FFFD.
struct Escaped<'t>(&'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\n' | '\t' => f.write_char(c),
            c if c.is_control() => f.write_char('\u{fffd}'),
            c => f.write_str(&html_escape::escape(c.encode_utf8(&mut [0; 4]))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(name: &str) -> Option<String> {
        (name == "main.lua").then(|| "one\n\ttwo <b>\nthree\n".to_owned())
    }

    fn page(message: &str) -> String {
        let errors = [SourceError::new(message, read)];
        let page =
            DeveloperPage { kind: "K", subject: "S", errors: &errors, details: "", note: "N" };
        String::from_utf8(page.html()).expect("text")
    }

    #[test]
    fn the_line_is_shown_and_marked() {
        let page = page("main.lua:2:3: expected <x>");
        assert!(page.contains("<h1>expected &lt;x&gt;</h1>"), "{page}");
        assert!(page.contains("<p class=\"at\">main.lua:2:3</p>"), "{page}");
        let marked = "<span class=\"on\" aria-current=\"true\"><i>2</i>\ttwo &lt;b&gt;\n</span>";
        assert!(page.contains(marked), "{page}");
        assert!(page.contains("<i></i>\t <b class=\"caret\">^</b>"), "{page}");
        assert!(page.contains("<span><i>1</i>one\n</span>"), "{page}");
    }

    #[test]
    fn a_message_without_a_known_position_is_shown_unchanged() {
        for message in ["nothing to see", "other.lua:3: bad", "main.lua:9: bad"] {
            let error = SourceError::new(message, read);
            assert_eq!((&*error.message, error.position), (message, None));
        }
        // The stack shows the origin of a message without a position.
        let error = SourceError::new("too bad\nstack traceback:\n\tmain.lua:3: in x", read);
        assert_eq!((&*error.message, error.position.as_deref()), ("too bad", Some("main.lua:3")));
        let error = SourceError::new("GET /a: main.lua:1: bad\nstack", read);
        assert_eq!((&*error.message, error.position.as_deref()), ("bad", Some("main.lua:1")));
    }

    #[test]
    fn many_errors_are_counted() {
        let errors = vec![SourceError::new("bad", read); ERRORS_MAX + 3];
        let page = DeveloperPage { kind: "", subject: "", errors: &errors, details: "d", note: "" };
        let page = page.to_string();
        assert_eq!(page.matches("<h1>").count(), ERRORS_MAX);
        assert!(page.contains("and 3 more") && page.contains(">d</pre>"), "{page}");
    }

    proptest! {
        /// Whatever a message and a source contain, the page has the same elements.
        #[test]
        fn hostile_text_adds_no_elements_to_the_page(
            message in "(?s).{0,60}", source in "(?s).{0,60}",
        ) {
            let open = |text: &str| text.matches('<').count();
            let message = message.replace(['\n', ':'], "");
            let error = SourceError::new(&format!("a:1:1: {message}"), |_| Some(source.clone()));
            let number = error.lines.as_ref().map_or(0, |lines| lines.lines.len());
            let caret = error.lines.as_ref().map_or(0, |_| 1);
            let errors = [error];
            let page = DeveloperPage {
                kind: &message, subject: &source, errors: &errors, details: &source, note: &message,
            };
            let lines = number * 4 + caret * 6;
            let position = if number > 0 { 4 } else { 0 };
            let details = if source.is_empty() { 0 } else { 6 };
            let frame = page.to_string();
            let plain = DeveloperPage {
                kind: "", subject: "", errors: &[], details: "", note: "",
            };
            let own = 4 + lines + position + details;
            prop_assert_eq!(open(&frame), open(&plain.to_string()) + own);
        }
    }
}
