//! Errors of a script that are found before it answers a request.

use crate::source_names::Sources;
use mlua::Error;
use std::fmt;

/// An error in one line with file and line, and its stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptProblem {
    text: String,
    /// The lines of the stack where it happened; none for code that has not run.
    stack: Vec<String>,
}

impl ScriptProblem {
    pub(crate) fn new(error: &Error) -> Self {
        let text = match error {
            Error::SyntaxError { message, .. } => message.clone(),
            other => other.to_string(),
        };
        Self { stack: Vec::new(), ..Self::of_text(&text) }
    }

    /// Parses a text that may end with a stack.
    pub(crate) fn of_text(text: &str) -> Self {
        let text = text.strip_prefix("runtime error: ").unwrap_or(text);
        let text = text.strip_prefix("syntax error: ").unwrap_or(text);
        let (text, stack) = text.split_once("\nstack traceback:").unwrap_or((text, ""));
        let stack = stack.lines().map(str::trim).filter(|line| !line.is_empty());
        Self { text: text.trim_end().to_owned(), stack: stack.map(str::to_owned).collect() }
    }

    /// Replaces the names of chunks by the names of the files.
    pub(crate) fn explained(self, sources: &Sources) -> Self {
        let stack = self.stack.iter().map(|line| sources.explained(line)).collect();
        Self { text: sources.explained(&self.text), stack }
    }

    /// Adds the name of a file at the beginning.
    pub(crate) fn of_file(self, name: &str) -> Self {
        Self { text: format!("{name}: {}", self.text), ..self }
    }

    /// Returns the lines of the stack as logs and terminals show them below the problem, with their
    /// heading; none for code that has not run.
    pub fn stack(&self) -> impl Iterator<Item = &str> {
        let heading = (!self.stack.is_empty()).then_some("stack traceback:");
        heading.into_iter().chain(self.stack.iter().map(String::as_str))
    }

    /// Returns the problem and the lines of its stack, one below the other.
    #[must_use]
    pub fn report(&self) -> String {
        let lines = [self.text.as_str()].into_iter().chain(self.stack());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Creates a problem of one line.
    fn of_line(text: String) -> Self {
        Self { text, stack: Vec::new() }
    }

    pub(crate) fn bytecode(name: &str) -> Self {
        Self::of_line(format!(
            "{name}: the file is bytecode, which only --lua-unsafe runs; use its source"
        ))
    }

    /// Creates the problem that the main script calls a function that waits, at this position.
    pub(crate) fn waits_at_start(place: &str, function: &str) -> Self {
        Self::of_line(format!(
            "{place}: the main script cannot wait while it starts, and calls {function} here: call \
             it in a handler or in a function for pinion.spawn"
        ))
    }
}

impl From<std::io::Error> for ScriptProblem {
    fn from(error: std::io::Error) -> Self {
        Self::of_line(format!("cannot start the thread that watches the scripts: {error}"))
    }
}

impl fmt::Display for ScriptProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ScriptProblem {}
