//! The parser of a program: a page, a value in it, or plain Lua; and the functions that all of its
//! parts need.
//!
//! The parser also follows the HTML, along the branches and loops of Lua: the text after an `if`
//! has one context in the page whichever branch ran, or the page is refused.

use super::output_functions::{Callee, Functions};
use super::parser_input::{Item, TokenStream};
use super::scope::{Meaning, Refused, Scopes};
use super::slot_variables::SlotNames;
use super::statement::{Flow, is_end};
use super::syntax_hints;
use super::token::{Kind, LuaToken};
use crate::compile_error::{FileFault, TemplateProblem, quoted};
use crate::escaping::{Context, PageContext};
use crate::include_expansion::ExpandedPage;
use crate::limits::NESTING_MAX;
use crate::source_pieces::Show;

/// The prefix of names in generated code.
const RESERVED: &[u8] = b"__";
/// The names that a block that waits gets as its own.
pub(crate) const ASYNC_NAMES: [&str; 3] = ["done", "__o", "write"];

/// The facts that the generator needs.
#[derive(Debug, Default)]
pub(crate) struct ChunkReport {
    /// For each value, in the order of the page: its escaping, and whether it calls a function.
    pub(crate) shown: Vec<(Context, bool)>,
    /// The names of [`PAGE_VALUES`](crate::PAGE_VALUES) that are used, by rank.
    pub(crate) used_values: Vec<bool>,
    pub(crate) has_async: bool,
}

/// A parser of a program.
pub(crate) struct Parser<'a> {
    pub(super) stream: TokenStream<'a>,
    pub(super) scopes: Scopes<'a>,
    pub(super) nesting: usize,
    /// The number of calls that were read.
    pub(super) calls: usize,
    pub(super) place: PageContext,
    pub(super) functions: Functions<'a>,
    /// For each loop around, the context at its `break`s, if there was one.
    pub(super) breaks: Vec<Option<PageContext>>,
    /// For each function around, the context at its begin.
    pub(super) begun: Vec<PageContext>,
    pub(super) report: ChunkReport,
    /// The serial number of the first name that the server lends.
    first_value: u32,
    pub(super) may_set_globals: bool,
    /// The names for the check of slots, of a page with a layout.
    slot_names: Option<SlotNames<'a>>,
    /// The rank of the piece of the value that is being read.
    value_at: Option<usize>,
}

pub(super) type Done<T = ()> = Result<T, TemplateProblem>;

impl<'a> Parser<'a> {
    fn new(stream: TokenStream<'a>, place: PageContext, may_set_globals: bool) -> Self {
        let scopes = Scopes::default();
        let report = ChunkReport::default();
        let (nesting, calls, first_value) = (0, 0, 0);
        Self {
            stream,
            scopes,
            nesting,
            calls,
            place,
            functions: Functions::default(),
            breaks: Vec::new(),
            begun: Vec::new(),
            report,
            first_value,
            may_set_globals,
            slot_names: None,
            value_at: None,
        }
    }

    /// Parses a page. `own` are names of the generated code, `page_values` the names that the
    /// server lends.
    pub(crate) fn page(
        page: &'a ExpandedPage<'a>,
        place: PageContext,
        own: &[&'a str],
        page_values: &[&'a str],
    ) -> Done<ChunkReport> {
        let mut parser = Self::new(TokenStream::of_page(page), place, false);
        // The chunk, whose variables all belong to the generated code, contains the function of the
        // page.
        parser.scopes.open_function(false);
        parser.declare_all(own)?;
        parser.scopes.open_function(false);
        parser.first_value = (own.len() + 3) as u32;
        parser.declare_all(page_values)?;
        parser.declare_all(&["__p", "__o"])?;
        parser.report.used_values = vec![false; page_values.len()];
        parser.slot_names = page.with_layout.then(SlotNames::default);
        parser.statements()?;
        if !matches!(parser.stream.now(), Item::End) {
            return parser.unexpected("the end of the page");
        }
        let closed = parser.scopes.close_function();
        parser.allowed(closed)?;
        parser.functions.check()?;
        if let Some(names) = &parser.slot_names {
            names.check(page)?;
        }
        Ok(parser.report)
    }

    /// Returns whether a block is a complete program, which could be placed elsewhere.
    pub(crate) fn is_whole(bytes: &'a [u8], tokens: &'a [LuaToken]) -> bool {
        Self::chunk(TokenStream::of_tokens(bytes, "", tokens), false).is_ok()
    }

    /// Parses a chunk of plain Lua, which may set globals.
    pub(super) fn chunk(stream: TokenStream<'a>, is_vararg: bool) -> Done {
        let mut parser = Self::new(stream, PageContext::plain(), true);
        parser.scopes.open_function(is_vararg);
        parser.statements()?;
        if !matches!(parser.stream.now(), Item::End) {
            return parser.unexpected("the end");
        }
        let closed = parser.scopes.close_function();
        parser.allowed(closed)
    }

    pub(super) fn declare_all(&mut self, names: &[&'a str]) -> Done {
        for name in names {
            let declared = self.scopes.declare(name.as_bytes(), false);
            self.allowed(declared)?;
        }
        Ok(())
    }

    /// Parses a value in the text.
    pub(super) fn show(&mut self, show: &'a Show) -> Done {
        let calls = self.calls;
        let within = self.stream.of_show(show);
        self.value_at = Some(self.stream.ahead().0);
        let outer = std::mem::replace(&mut self.stream, within);
        self.expression()?;
        if !matches!(self.stream.now(), Item::End) {
            return self.unexpected("`]]` or an operator");
        }
        self.stream = outer;
        self.value_at = None;
        // A function that it calls may write before it.
        let context = match self.place.value(show.trust) {
            Ok(context) => context,
            Err(message) => return self.fail(message),
        };
        self.functions.write();
        self.own("__o")?;
        self.own(context.variable())?;
        if let Some(conversion) = &show.conversion {
            self.own("__format")?;
            if conversion.is_text {
                self.own(Context::Raw.variable())?;
            }
        }
        self.report.shown.push((context, self.calls > calls));
        self.stream.advance();
        Ok(())
    }

    /// Records that a name of generated code is used here.
    pub(super) fn own(&mut self, name: &str) -> Done {
        let meaning = self.scopes.resolve(name.as_bytes());
        self.allowed(meaning).map(|_| ())
    }

    /// Parses a block that waits, as a function of its own.
    pub(super) fn asynchronous(&mut self) -> Done {
        self.report.has_async = true;
        let line = self.stream.line();
        self.stream.advance();
        self.own("__p")?;
        self.scopes.open_function(false);
        self.declare_all(&ASYNC_NAMES)?;
        self.returning("?>", line)?;
        Ok(())
    }

    /// Parses the body of a function, whose text begins and ends in one context; the caller reads
    /// `end`.
    pub(super) fn returning(&mut self, end: &'static str, line: u32) -> Done {
        let before = self.place.clone();
        self.functions.open(&before);
        self.begun.push(before.clone());
        let flow = self.statements()?;
        self.begun.pop();
        self.functions.close();
        if end == "?>" {
            match self.stream.now() {
                Item::AsyncClose => self.stream.advance(),
                _ => return self.unexpected("the end of the block"),
            }
        } else {
            self.expect_end(end, "function", line)?;
        }
        if flow == Flow::Through && before.joined(&self.place).is_none() {
            return self.torn("function", line, (&before, &self.place));
        }
        self.place = before;
        let closed = self.scopes.close_function();
        self.allowed(closed)
    }

    /// Checks that the text of a function that is left by `return` has the context of its begin.
    pub(super) fn left_by_return(&self, line: u32) -> Done {
        match self.begun.last() {
            Some(before) if before.joined(&self.place).is_none() => {
                self.torn("return", line, (before, &self.place))
            }
            _ => Ok(()),
        }
    }

    /// Fails because the text after `word` would have one of two contexts.
    pub(super) fn torn<T>(
        &self,
        word: &str,
        line: u32,
        (one, other): (&PageContext, &PageContext),
    ) -> Done<T> {
        let both = one.both_described(other);
        let message = match word {
            "if" => format!(
                "the branches of the `if` of line {line} end in different contexts{both}: open \
                 and close a tag or attribute in the same branch"
            ),
            "break" | "return" => format!(
                "the `{word}` of line {line} leaves the page in another context than the other \
                 ways{both}: close each tag and attribute before the `{word}`"
            ),
            _ => format!(
                "the text of the `{word}` of line {line} begins and ends in different \
                 contexts{both}: open and close a tag or attribute within it"
            ),
        };
        self.fail(message)
    }

    /// Returns the meaning of a name, and records its use if the server lends it.
    pub(super) fn resolve(&mut self, name: &'a [u8]) -> Done<Meaning> {
        let meaning = self.scopes.resolve(name);
        let meaning = self.allowed(meaning)?;
        if let (Meaning::Global, Some(names)) = (meaning, &mut self.slot_names) {
            let (piece, line) = self.stream.behind();
            names.read(name, self.value_at.unwrap_or(piece), line);
        }
        if let Meaning::Local { serial, .. } = meaning {
            let rank = serial.wrapping_sub(self.first_value) as usize;
            if let Some(is_used) = self.report.used_values.get_mut(rank) {
                *is_used = true;
            }
        }
        Ok(meaning)
    }

    /// Records a variable that the page declares by a statement in a piece, on a line.
    pub(super) fn note_declared(&mut self, name: &'a [u8], (piece, line): (usize, u32)) {
        if let Some(names) = &mut self.slot_names
            && self.scopes.is_outside_of_blocks()
        {
            names.declare(name, piece, line);
        }
    }

    /// Returns the name by which the function in a variable is called, if the page can have stored
    /// it there.
    pub(super) fn variable(&self, meaning: Meaning) -> Option<Callee<'a>> {
        let Meaning::Local { serial, .. } = meaning else { return None };
        let rank = serial.wrapping_sub(self.first_value) as usize;
        (rank >= self.report.used_values.len()).then_some(Callee::Local(serial))
    }

    /// Parses a name that is a variable.
    pub(super) fn name(&mut self) -> Done<&'a [u8]> {
        if let Item::Token(token) = self.stream.now() {
            let name = self.stream.text(token);
            if token.kind == Kind::Name && name.starts_with(RESERVED) && !self.may_set_globals {
                return self.fail("names that begin with `__` belong to generated code");
            }
        }
        self.field_name()
    }

    /// Parses a name after a dot or a colon.
    pub(super) fn field_name(&mut self) -> Done<&'a [u8]> {
        match self.stream.now() {
            Item::Token(token) if token.kind == Kind::Name => {
                let name = self.stream.text(token);
                self.stream.advance();
                Ok(name)
            }
            _ => self.unexpected("a name"),
        }
    }

    /// Parses one level deeper.
    pub(super) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Done<T>) -> Done<T> {
        if self.nesting == NESTING_MAX {
            return self.fail(format!(
                "more than {NESTING_MAX} levels of blocks and brackets inside each other"
            ));
        }
        self.nesting += 1;
        let parsed = parse(self)?;
        self.nesting -= 1;
        Ok(parsed)
    }

    pub(super) fn is_next(&self, word: &str) -> bool {
        matches!(self.stream.now(), Item::Token(LuaToken { kind: Kind::Fixed(next), .. })
            if next == word)
    }

    pub(super) fn take(&mut self, word: &str) -> bool {
        let is_next = self.is_next(word);
        if is_next {
            self.stream.advance();
        }
        is_next
    }

    pub(super) fn expect(&mut self, word: &str) -> Done {
        if self.take(word) { Ok(()) } else { self.unexpected(&format!("`{word}`")) }
    }

    /// Parses the end of the block that `opener` opened on `line`.
    pub(super) fn expect_end(&mut self, word: &str, opener: &str, line: u32) -> Done {
        if self.take(word) {
            return Ok(());
        }
        self.unexpected(&format!("`{word}` for the `{opener}` of line {line}"))
    }

    pub(super) fn end(&mut self, word: &str, opener: &str, line: u32) -> Done {
        self.close_block()?;
        self.expect_end(word, opener, line)
    }

    pub(super) fn close_block(&mut self) -> Done {
        let closed = self.scopes.close_block();
        self.allowed(closed)
    }

    pub(super) fn is_block_end(&self) -> bool {
        match self.stream.now() {
            Item::End | Item::AsyncClose => true,
            Item::Token(token) => is_end(token.kind),
            _ => false,
        }
    }

    pub(super) fn allowed<T>(&self, result: Result<T, Refused>) -> Done<T> {
        result.map_err(|(message, line)| {
            FileFault::new(line.unwrap_or(self.stream.line()), message).in_file(self.stream.path())
        })
    }

    pub(super) fn fail<T>(&self, message: impl Into<String>) -> Done<T> {
        Err(FileFault::new(self.stream.line(), message).in_file(self.stream.path()))
    }

    pub(super) fn unexpected<T>(&self, wanted: &str) -> Done<T> {
        let found = match self.stream.now() {
            Item::Token(token) => format!("`{}`", quoted(self.stream.text(token))),
            Item::Text(_) => "the text of the page".to_owned(),
            Item::Show(_) => "a `#[[ ]]`".to_owned(),
            Item::AsyncOpen => "a `<?lua` block".to_owned(),
            Item::AsyncClose => "the end of the block".to_owned(),
            Item::End if self.stream.is_value() => "the end of the value".to_owned(),
            Item::End => "the end of the page".to_owned(),
        };
        let hint = match self.stream.now() {
            Item::Token(token) => {
                syntax_hints::for_unexpected_token(wanted, self.stream.text(token))
            }
            _ => None,
        };
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        self.fail(format!("expected {wanted}, found {found}{hint}"))
    }
}
