//! The source of a site's scripts, as each worker makes a VM of it.

/// A main script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    name: String,
    main: Vec<u8>,
}

impl Program {
    /// From the text of the main script; errors call it `name`.
    #[must_use]
    pub fn new(name: &str, main: Vec<u8>) -> Self {
        // Lua takes names as C does, and the first line of a script may be meant for a shell.
        let name = name.replace('\0', "");
        Self { name, main: without_shebang(main) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn main(&self) -> &[u8] {
        &self.main
    }
}

/// The line stays, so that those behind it keep their numbers.
fn without_shebang(mut text: Vec<u8>) -> Vec<u8> {
    if text.starts_with(b"#") {
        let end = memchr::memchr(b'\n', &text).unwrap_or(text.len());
        text.drain(..end);
    }
    text
}
