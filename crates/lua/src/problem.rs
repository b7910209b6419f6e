//! What is wrong with a script before it answers anything.

use crate::source_names::Sources;
use mlua::Error;
use std::fmt;

/// One line that names file and line, and what there is to say behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    text: String,
}

impl Problem {
    pub(crate) fn new(error: &Error) -> Self {
        let text = match error {
            Error::SyntaxError { message, .. } => message.clone(),
            other => other.to_string(),
        };
        Self::of_text(&text)
    }

    /// Only what went wrong and where; how it came there is for whoever looks at a running site.
    pub(crate) fn of_text(text: &str) -> Self {
        let text = text.strip_prefix("runtime error: ").unwrap_or(text);
        let text = text.strip_prefix("syntax error: ").unwrap_or(text);
        let text = text.split("\nstack traceback:").next().unwrap_or_default();
        Self { text: text.trim_end().to_owned() }
    }

    /// By the names of the files that are meant.
    pub(crate) fn explained(self, sources: &Sources) -> Self {
        Self { text: sources.explained(&self.text) }
    }

    pub(crate) fn bytecode(name: &str) -> Self {
        Self {
            text: format!(
                "{name}: the file is bytecode, which only --lua-unsafe runs; use its source"
            ),
        }
    }

    /// The main script calls a function that waits, at this place.
    pub(crate) fn waits_at_start(place: &str, function: &str) -> Self {
        Self {
            text: format!(
                "{place}: the main script cannot wait while it starts, and calls {function} here: \
                 call it in a handler or in a function for pinion.spawn"
            ),
        }
    }
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        Self { text: format!("cannot start the thread that watches the scripts: {error}") }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Problem {}
