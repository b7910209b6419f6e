//! A file → its pieces.

use crate::compile_error::{FileFault, quoted};
use crate::escaping::Trust;
use crate::limits::FILE_MAX_BYTES;
use crate::lua::{Gap, Kind, Lexer};
use crate::source_pieces::{PieceKind, Show, SourcePiece, TemplateSource};
use crate::value_suffix;

/// Splits a file.
pub(crate) fn split<'a>(path: &str, bytes: &'a [u8]) -> Result<TemplateSource<'a>, FileFault> {
    if bytes.len() > FILE_MAX_BYTES {
        let most = FILE_MAX_BYTES >> 20;
        return Err(FileFault::new(
            1,
            format!("the file is larger than {most} MiB, the most of a template"),
        ));
    }
    let source = TemplateSource {
        path: path.to_owned(),
        bytes,
        tokens: Vec::new(),
        shows: Vec::new(),
        pieces: Vec::new(),
        parallel: false,
    };
    let mut splitter = Splitter { lexer: Lexer { file: bytes, at: 0, line: 1 }, source };
    splitter.first_line();
    splitter.page()?;
    Ok(splitter.source)
}

/// The end of a stretch of text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The next tag, or the end of the file.
    Tag,
    /// After the end of the line, or before `?>`.
    Line,
    /// Three backticks.
    Ticks,
}

struct Splitter<'a> {
    lexer: Lexer<'a>,
    source: TemplateSource<'a>,
}

const TICKS: &[u8] = b"```";

/// The byte order mark that some editors write at the begin of a file.
const MARK: &[u8] = "\u{feff}".as_bytes();

impl Splitter<'_> {
    fn first_line(&mut self) {
        let mark = if self.lexer.file.starts_with(MARK) { MARK.len() } else { 0 };
        let bytes = &self.lexer.file[mark..];
        let length = bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |at| at + 1);
        let word = bytes[..length].strip_prefix(b"#!").map(<[u8]>::trim_ascii);
        if word == Some(b"parallel") {
            self.source.parallel = true;
            // The mark belongs to the page: spreadsheets look for it.
            if mark > 0 {
                self.push(1, PieceKind::Text(0..mark));
            }
            self.lexer.skip(mark + length);
        }
    }

    fn push(&mut self, line: u32, kind: PieceKind) {
        self.source.pieces.push(SourcePiece { line, kind });
    }

    fn page(&mut self) -> Result<(), FileFault> {
        loop {
            self.text(Until::Tag)?;
            let (line, rest) = (self.lexer.line, self.lexer.rest());
            let Some(tag) = tag(rest) else { return Ok(()) };
            self.lexer.skip(2 + tag.len());
            match tag {
                "lu" => self.block(line)?,
                "lua" => {
                    self.push(line, PieceKind::AsyncOpen);
                    self.block(line)?;
                    self.push(self.lexer.line, PieceKind::AsyncClose);
                }
                _ => self.directive(tag, line)?,
            }
        }
    }

    /// Reads text and the values in it, up to its end. The end is not read, except for the end of a
    /// line, which belongs to the text.
    fn text(&mut self, until: Until) -> Result<(), FileFault> {
        let (mut start, mut line) = (self.lexer.at, self.lexer.line);
        loop {
            let rest = self.lexer.rest();
            let (length, is_value) = stretch(rest, until);
            self.lexer.skip(length);
            let mut end = self.lexer.at;
            if !is_value && until != Until::Tag {
                end = trimmed(self.lexer.file, start, end, until);
            }
            if end > start {
                self.push(line, PieceKind::Text(start..end));
            }
            if !is_value {
                return Ok(());
            }
            self.show()?;
            (start, line) = (self.lexer.at, self.lexer.line);
        }
    }

    /// Reads a value; the lexer is at its `#[[`.
    fn show(&mut self) -> Result<(), FileFault> {
        let line = self.lexer.line;
        self.lexer.skip(3);
        let is_raw = self.lexer.rest().first() == Some(&b'!');
        self.lexer.skip(usize::from(is_raw));
        let mut trust = if is_raw { Trust::Raw } else { Trust::Nothing };
        let first = self.source.tokens.len();
        let (mut squares, mut others) = (0_usize, 0_usize);
        let mut conversion = None;
        loop {
            self.lexer.space();
            let rest = self.lexer.rest();
            if rest.is_empty() {
                return Err(unclosed(line));
            }
            if rest.starts_with(b"--") {
                return Err(FileFault::new(self.lexer.line, "there are no comments in a `#[[ ]]`"));
            }
            if squares == 0 && rest.starts_with(b"]]") {
                self.lexer.skip(2);
                break;
            }
            if squares == 0
                && others == 0
                && rest.starts_with(b":")
                && let Some((found, length)) = value_suffix::conversion(&rest[1..])
            {
                conversion = Some(found);
                self.lexer.skip(1 + length);
                break;
            }
            if squares == 0
                && others == 0
                && trust == Trust::Nothing
                && rest.starts_with(b":")
                && let Some(length) = value_suffix::trusted(&rest[1..])
            {
                trust = Trust::Url;
                self.lexer.skip(1 + length);
                break;
            }
            // Where the end is missing, the rest of the page is read as Lua.
            let token = self
                .lexer
                .token()
                .map_err(|fault| if fault.line == line { fault } else { unclosed(line) })?;
            match token.kind {
                Kind::Fixed("[") => squares += 1,
                Kind::Fixed("]") => squares = squares.saturating_sub(1),
                Kind::Fixed("(" | "{") => others += 1,
                Kind::Fixed(")" | "}") => others = others.saturating_sub(1),
                _ => {}
            }
            self.source.tokens.push(token);
        }
        let tokens = first..self.source.tokens.len();
        if tokens.is_empty() {
            return Err(FileFault::new(line, "there is no expression in `#[[ ]]`"));
        }
        let rank = self.source.shows.len();
        self.source.shows.push(Show { tokens, conversion, trust });
        self.push(line, PieceKind::Show(rank));
        Ok(())
    }

    /// Reads Lua up to its `?>`, with the text that is written by sugar.
    fn block(&mut self, opened: u32) -> Result<(), FileFault> {
        // The begin of the block counts as the begin of a line.
        let mut is_front = true;
        let mut part = self.part();
        loop {
            is_front |= self.lexer.space() == Gap::NewLine;
            let rest = self.lexer.rest();
            if rest.is_empty() {
                return Err(FileFault::new(opened, NO_END));
            }
            if rest.starts_with(b"?>") {
                self.lua(&part);
                self.lexer.skip(2);
                return Ok(());
            }
            if is_front && is_line_sugar(rest) {
                self.lua(&part);
                let is_long = matches!(rest.get(1), Some(b' ' | b'\t'));
                self.lexer.skip(1 + usize::from(is_long));
                self.text(Until::Line)?;
                part = self.part();
            } else if rest.starts_with(TICKS) {
                self.lua(&part);
                self.ticks()?;
                (part, is_front) = (self.part(), false);
            } else if !self.lexer.comment()? {
                let token = self.lexer.token().map_err(|fault| self.within(opened, fault))?;
                self.source.tokens.push(token);
                is_front = false;
            }
        }
    }

    /// Explains an error of Lua in a block: if the end of the block is missing, the text of the
    /// page was read as Lua.
    fn within(&self, opened: u32, fault: FileFault) -> FileFault {
        if self.lexer.rest().windows(2).any(|pair| pair == b"?>") {
            let message = format!("{}; the block begins in line {opened}", fault.message);
            return if fault.line == opened { fault } else { FileFault { message, ..fault } };
        }
        FileFault::new(opened, NO_END)
    }

    /// Reads text between three backticks.
    fn ticks(&mut self) -> Result<(), FileFault> {
        let line = self.lexer.line;
        self.lexer.skip(TICKS.len());
        let rest = self.lexer.rest();
        // As with long strings of Lua, the end of the first line is not a part of the text.
        let blank = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
        if rest.get(blank) == Some(&b'\n') {
            self.lexer.skip(blank + 1);
        }
        self.text(Until::Ticks)?;
        if self.lexer.rest().is_empty() {
            return Err(FileFault::new(
                line,
                "``` without its second ```; write it after the text",
            ));
        }
        self.lexer.skip(TICKS.len());
        Ok(())
    }

    /// Returns the begin of a part of Lua: byte, token, line.
    fn part(&self) -> (usize, usize, u32) {
        (self.lexer.at, self.source.tokens.len(), self.lexer.line)
    }

    /// Ends a part of Lua.
    fn lua(&mut self, &(byte, token, line): &(usize, usize, u32)) {
        let tokens = token..self.source.tokens.len();
        if !tokens.is_empty() {
            self.push(line, PieceKind::Lua { bytes: byte..self.lexer.at, tokens });
        }
    }

    /// Reads a tag that is no block; the lexer is after its name.
    fn directive(&mut self, tag: &str, line: u32) -> Result<(), FileFault> {
        let rest = self.lexer.rest();
        let end = rest.windows(2).position(|pair| pair == b"?>").ok_or_else(|| {
            FileFault::new(line, format!("`<?{tag}` without its `?>`; write `?>` after it"))
        })?;
        let argument = unquoted(rest[..end].trim_ascii());
        self.lexer.skip(end + 2);
        let wrong = |message: &str| Err(FileFault::new(line, format!("`<?{tag}`: {message}")));
        let Ok(text) = str::from_utf8(argument) else {
            return wrong("its argument is not UTF-8");
        };
        let is_name = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        let kind = match tag {
            "include" | "layout" if text.is_empty() || text.contains(char::is_control) => {
                return wrong("write the path of a file after it");
            }
            "include" => PieceKind::Include(text.to_owned()),
            "layout" => PieceKind::Layout(text.to_owned()),
            "/slot" if text.is_empty() => PieceKind::SlotClose,
            "slot" if is_name && !text.is_empty() => PieceKind::SlotOpen(text.to_owned()),
            "yield" if is_name => PieceKind::Yield(text.to_owned()),
            "/slot" => return wrong("write nothing after it"),
            _ => {
                let shown = quoted(argument);
                return wrong(&format!(
                    "write a name of letters, digits, - and _ after it, not `{shown}`"
                ));
            }
        };
        self.push(line, kind);
        Ok(())
    }
}

const NO_END: &str = "a block without its `?>`; write `?>` after its Lua";

fn unclosed(line: u32) -> FileFault {
    FileFault::new(
        line,
        "`#[[` without its `]]`; write `#[[expression]]`, and `#[[\"#[[\"]]` for the \
        signs themselves",
    )
}

const TAGS: &[&str] = &["lua", "lu", "include", "layout", "slot", "/slot", "yield"];

/// Returns the tag at the beginning; `<?xml` and its like are text.
fn tag(rest: &[u8]) -> Option<&'static str> {
    let name = rest.strip_prefix(b"<?")?;
    let length = name
        .iter()
        .take_while(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'-' | b':')
        })
        .count();
    TAGS.iter().find(|tag| tag.as_bytes() == &name[..length]).copied()
}

/// Returns the longest possible length of text, and whether a value ends it.
fn stretch(rest: &[u8], until: Until) -> (usize, bool) {
    for (at, &byte) in rest.iter().enumerate() {
        let here = &rest[at..];
        match byte {
            b'#' if here.starts_with(b"#[[") => return (at, true),
            b'<' if until == Until::Tag && tag(here).is_some() => return (at, false),
            b'\n' if until == Until::Line => return (at + 1, false),
            b'?' if until == Until::Line && here.starts_with(b"?>") => return (at, false),
            b'`' if until == Until::Ticks && here.starts_with(TICKS) => return (at, false),
            _ => {}
        }
    }
    (rest.len(), false)
}

/// Returns the end of text without white space that only formats the template: white space before
/// `?>`, the indentation of the closing backticks.
fn trimmed(file: &[u8], start: usize, end: usize, until: Until) -> usize {
    let blank = file[start..end].iter().rev().take_while(|b| matches!(b, b' ' | b'\t')).count();
    let is_alone = end - blank == start || file[end - blank - 1] == b'\n';
    if until == Until::Line || is_alone { end - blank } else { end }
}

/// Returns whether the text begins with `| `, or with `|` at the end of its line or block.
fn is_line_sugar(rest: &[u8]) -> bool {
    matches!(rest, [b'|', b' ' | b'\t' | b'\n' | b'\r', ..] | [b'|', b'?', b'>', ..])
}

fn unquoted(argument: &[u8]) -> &[u8] {
    match argument {
        [b'"', inner @ .., b'"'] | [b'\'', inner @ .., b'\''] => inner,
        _ => argument,
    }
}
