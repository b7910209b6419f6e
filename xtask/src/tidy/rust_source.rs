//! A Rust file split into code for the compiler and text for people.
//!
//! This is no parser: it only needs to distinguish words in strings and comments from code.

use std::ops::Range;

/// Two views of one file, each as long as the file, with line breaks at their positions: an offset
/// or a line number means the same in both and in the text.
pub(crate) struct Source {
    /// Comments and the insides of literals are blank.
    pub(crate) code: String,
    /// Everything but comments is blank.
    pub(crate) comments: String,
    tests: Vec<Range<usize>>,
}

const TEST_ATTRIBUTE: &str = "#[cfg(test)]";

/// A function with a body.
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    /// From the line with `fn` to the one with the closing brace, counted from 1.
    pub(crate) first_line: usize,
    pub(crate) last_line: usize,
}

impl Source {
    pub(crate) fn of(text: &str) -> Self {
        let (code, comments) = Splitter::new(text).split();
        let mut source = Self { code, comments, tests: Vec::new() };
        source.tests = source.test_modules();
        source
    }

    /// Returns whether an offset is in a `#[cfg(test)]` module.
    pub(crate) fn is_test(&self, offset: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&offset))
    }

    /// Returns the line of an offset, counted from 1.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.code.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// Returns the insides of literals outside of tests and the quotes around them, with everything
    /// else blank; `text` is the source file.
    pub(crate) fn literals(&self, text: &str) -> String {
        let views = self.code.bytes().zip(self.comments.bytes());
        let bytes = text.bytes().zip(views).enumerate().map(|(at, (byte, (code, comment)))| {
            let is_quote = code == b'"' && byte == b'"';
            let is_literal = (code == b' ' || is_quote) && comment == b' ' && !self.is_test(at);
            if byte == b'\n' || is_literal { byte } else { b' ' }
        });
        String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
    }

    /// Returns the offsets of `word` as a whole word in the code.
    pub(crate) fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        positions(&self.code, word)
    }

    /// Returns the functions outside of test modules, in the order of the file.
    pub(crate) fn functions(&self) -> Vec<Function<'_>> {
        let mut found = Vec::new();
        for offset in self.words("fn").filter(|offset| !self.is_test(*offset)) {
            let rest = self.code[offset + 2..].trim_start();
            let name = &rest[..rest.find(|c: char| !is_word(c)).unwrap_or(rest.len())];
            let Some(body) = self.body(offset).filter(|_| !name.is_empty()) else { continue };
            let (first_line, last_line) = (self.line(offset), self.line(body.end - 1));
            found.push(Function { name, first_line, last_line });
        }
        found
    }

    /// Returns the next `{…}` after `from` that is not inside brackets, unless a `;` comes first.
    fn body(&self, from: usize) -> Option<Range<usize>> {
        let mut depth = 0usize;
        for (index, byte) in self.code.bytes().enumerate().skip(from) {
            match byte {
                b'(' | b'[' => depth += 1,
                b')' | b']' => depth = depth.saturating_sub(1),
                b';' if depth == 0 => return None,
                b'{' if depth == 0 => return Some(index..self.closing(index)?),
                _ => {}
            }
        }
        None
    }

    /// Returns the offset after the brace that closes the one at `open`.
    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0usize;
        for (index, byte) in self.code.bytes().enumerate().skip(open) {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(index + 1);
            }
        }
        None
    }

    /// Returns the number of lines of test modules, with their attribute.
    pub(crate) fn test_lines(&self) -> usize {
        let lines = |range: &Range<usize>| {
            self.line(range.end - 1) - self.line(self.test_attribute(range)) + 1
        };
        self.tests.iter().map(lines).sum()
    }

    fn test_attribute(&self, tests: &Range<usize>) -> usize {
        self.code[..tests.start].rfind(TEST_ATTRIBUTE).unwrap_or(tests.start)
    }

    /// Returns the bodies behind `#[cfg(test)]` that are in no other one.
    fn test_modules(&self) -> Vec<Range<usize>> {
        let marks = self.code.match_indices(TEST_ATTRIBUTE);
        let bodies = marks.filter_map(|(at, mark)| self.body(at + mark.len()));
        let mut outer: Vec<Range<usize>> = Vec::new();
        for body in bodies {
            if !outer.last().is_some_and(|last| last.contains(&body.start)) {
                outer.push(body);
            }
        }
        outer
    }
}

/// Returns the offsets of `word` in `text` without a letter, digit or `_` on either side.
pub(crate) fn positions<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(offset, _)| offset).filter(move |offset| {
        let before = text[..*offset].chars().next_back();
        let after = text[offset + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Splitter<'a> {
    text: &'a str,
    at: usize,
    code: Vec<u8>,
    comments: Vec<u8>,
}

impl<'a> Splitter<'a> {
    fn new(text: &'a str) -> Self {
        let blank: Vec<u8> = text.bytes().map(|b| if b == b'\n' { b } else { b' ' }).collect();
        Self { text, at: 0, code: blank.clone(), comments: blank }
    }

    fn split(mut self) -> (String, String) {
        while let Some(next) = self.rest().chars().next() {
            let length = match next {
                '/' if self.rest().starts_with("//") => self.comment(line_comment(self.rest())),
                '/' if self.rest().starts_with("/*") => self.comment(block_comment(self.rest())),
                '"' => self.literal(0, string(self.rest())),
                '\'' => self.literal(0, character(self.rest())),
                c if is_word(c) => self.word(),
                c => self.keep(c.len_utf8()),
            };
            self.at += length;
        }
        let own = |bytes| String::from_utf8(bytes).expect("whole characters are copied or blanked");
        (own(self.code), own(self.comments))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn keep(&mut self, length: usize) -> usize {
        let range = self.at..self.at + length;
        self.code[range.clone()].copy_from_slice(&self.text.as_bytes()[range]);
        length
    }

    fn comment(&mut self, length: usize) -> usize {
        let range = self.at..self.at + length;
        self.comments[range.clone()].copy_from_slice(&self.text.as_bytes()[range]);
        length
    }

    /// Processes a literal after `prefix` bytes: its first and last byte stay, to show that it is
    /// there.
    fn literal(&mut self, prefix: usize, length: usize) -> usize {
        self.keep(prefix);
        let (first, last) = (self.at + prefix, self.at + prefix + length - 1);
        for edge in [first, last].into_iter().filter(|edge| self.text.is_char_boundary(edge + 1)) {
            self.code[edge] = self.text.as_bytes()[edge];
        }
        prefix + length
    }

    /// Processes an identifier, a number, or the prefix of a literal.
    fn word(&mut self) -> usize {
        let rest = self.rest();
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let after = &rest[length..];
        match &rest[..length] {
            "r" | "br" | "cr" if after.trim_start_matches('#').starts_with('"') => {
                self.literal(length, raw_string(after))
            }
            "b" | "c" if after.starts_with('"') => self.literal(length, string(after)),
            "b" if after.starts_with('\'') => self.literal(length, character(after)),
            _ => self.keep(length),
        }
    }
}

fn line_comment(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
        } else {
            at += 1;
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

fn string(text: &str) -> usize {
    quoted(text, '"')
}

/// Processes a character literal, or only the quote when it starts a lifetime or a label.
fn character(text: &str) -> usize {
    let mut inside = text[1..].chars();
    match (inside.next(), inside.next()) {
        (Some('\\'), _) => quoted(text, '\''),
        (Some(c), Some('\'')) => 1 + c.len_utf8() + 1,
        _ => 1,
    }
}

fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (index, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return index + 1,
            _ => {}
        }
    }
    text.len()
}

fn raw_string(text: &str) -> usize {
    let hashes = text.len() - text.trim_start_matches('#').len();
    let end = format!("\"{}", "#".repeat(hashes));
    let inside = hashes + 1;
    text[inside..].find(&end).map_or(text.len(), |at| inside + at + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_strings_and_comments_are_not_code() {
        let source = Source::of(concat!(
            "let a = \"unsafe \\\" unsafe\"; // unsafe\n",
            "/* unsafe /* unsafe */ unsafe */ let b = r#\"unsafe \" unsafe\"#;\n",
            "let c = b\"unsafe\"; let d: &'unsafe str = x; let e = '\"'; unsafe {}\n",
        ));
        let found: Vec<_> = source.words("unsafe").map(|at| source.line(at)).collect();
        assert_eq!(found, [3, 3], "the lifetime's name and the block: {}", source.code);
        assert_eq!(positions(&source.comments, "unsafe").count(), 4);
    }

    #[test]
    fn views_of_a_source_keep_its_length_and_lines() {
        let text = "fn ä() { 'ß'; \"ü\n\" } // ö\n";
        let source = Source::of(text);
        assert_eq!(source.code.len(), text.len());
        assert_eq!(source.comments.len(), text.len());
        assert_eq!(source.code.lines().count(), text.lines().count());
    }

    #[test]
    fn functions_are_measured_and_tests_left_out() {
        let source = Source::of(concat!(
            "trait T { fn promised(&self) -> [u8; 4]; }\n",
            "fn short() {}\n",
            "pub(crate) fn long(a: [u8; 2]) -> Result<(), fn(u8)>\nwhere\n{\n    if a {}\n}\n",
            "#[cfg(test)]\nmod tests {\n    fn left_out() {}\n}\n",
        ));
        let found: Vec<_> = source
            .functions()
            .iter()
            .map(|f| (f.name.to_owned(), f.last_line - f.first_line + 1))
            .collect();
        assert_eq!(found, [("short".to_owned(), 1), ("long".to_owned(), 5)]);
    }

    #[test]
    fn a_test_attribute_on_a_file_module_hides_no_other_code() {
        let source = Source::of("#[cfg(test)]\nmod tests;\nfn seen() {}\n");
        assert_eq!(source.functions().len(), 1);
    }
}
