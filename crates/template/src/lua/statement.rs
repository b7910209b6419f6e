//! The parser of statements.

use super::output_functions::Callee;
use super::parser::{Done, Parser};
use super::parser_input::{Item, TokenStream};
use super::scope::{Meaning, Refused};
use super::syntax_hints;
use super::token::{Kind, LuaToken};
use crate::compile_error::{FileFault, quoted};
use crate::escaping::PageContext;

/// The way in which a block ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// It ended at its end.
    Through,
    /// It ended by `return`, `break` or `goto`.
    Left,
}

impl<'a> Parser<'a> {
    /// Parses the statements of a block, up to a token that cannot begin one.
    pub(super) fn statements(&mut self) -> Done<Flow> {
        loop {
            match self.stream.now() {
                Item::End | Item::AsyncClose => return Ok(Flow::Through),
                Item::Token(token) if is_end(token.kind) => return Ok(Flow::Through),
                Item::Token(LuaToken { kind: Kind::Fixed("return"), line, .. }) => {
                    self.stream.advance();
                    self.left_by_return(line)?;
                    let is_token = matches!(self.stream.now(), Item::Token(_));
                    if is_token && !self.is_block_end() && !self.is_next(";") {
                        self.expressions()?;
                    }
                    self.take(";");
                    if !self.is_block_end() {
                        let message = "`return` is the last statement of its block; `do return \
                                       end` may stand anywhere";
                        return self.fail(message);
                    }
                    return Ok(Flow::Left);
                }
                Item::Token(LuaToken { kind: Kind::Fixed(word @ ("break" | "goto")), .. }) => {
                    self.jump(word)?;
                    self.take(";");
                    if self.is_block_end() {
                        return Ok(Flow::Left);
                    } else if word == "break" {
                        let message = "`break` is the last statement of its block; `do break \
                                       end` may stand anywhere";
                        return self.fail(message);
                    }
                }
                _ => self.nested(Self::statement)?,
            }
        }
    }

    fn jump(&mut self, word: &str) -> Done {
        let line = self.stream.line();
        if word == "break" && !self.scopes.is_in_loop() {
            return self.fail("`break` outside of a loop");
        }
        self.stream.advance();
        if word == "goto" {
            let name = self.name()?;
            let gone = self.scopes.goto(name, line, &self.place);
            return self.allowed(gone);
        }
        if let Some(exit) = self.breaks.last_mut() {
            let earlier = exit.take();
            let joined =
                earlier.as_ref().map_or(Some(self.place.clone()), |p| p.joined(&self.place));
            if let (None, Some(earlier)) = (&joined, earlier) {
                return self.torn("break", line, (&earlier, &self.place));
            }
            *exit = joined;
        }
        Ok(())
    }

    fn statement(&mut self) -> Done {
        match self.stream.now() {
            Item::Text(bytes) => {
                self.place.text(bytes);
                if let Some(why) = self.place.fault() {
                    return self.fail(why);
                }
                // White space between blocks has no effect in any context.
                if !bytes.trim_ascii().is_empty() {
                    self.functions.write();
                }
                // These are the two variables of the block.
                let hidden = self.scopes.hide(2);
                self.allowed(hidden)?;
                self.scopes.unhide(2);
                self.own("__o")?;
                self.own("__s")?;
                self.stream.advance();
                Ok(())
            }
            Item::Show(show) => self.show(show),
            Item::AsyncOpen => self.asynchronous(),
            Item::Token(token) => match token.kind {
                Kind::Fixed(word) => self.statement_of(word),
                _ => self.assignment(),
            },
            Item::AsyncClose | Item::End => Ok(()),
        }
    }

    fn statement_of(&mut self, word: &'static str) -> Done {
        match word {
            ";" => self.stream.advance(),
            "if" => return self.conditional(),
            "while" => {
                let line = self.stream.line();
                self.stream.advance();
                self.expression()?;
                self.expect("do")?;
                self.looping("while", line, Ok(()))?;
            }
            "do" => {
                let line = self.stream.line();
                self.stream.advance();
                self.scopes.open_block(false);
                self.statements()?;
                self.end("end", "do", line)?;
            }
            "for" => return self.counting(),
            "repeat" => return self.repeating(),
            "function" => return self.named_function(),
            "local" => return self.local(),
            "::" => return self.label(),
            _ => return self.assignment(),
        }
        Ok(())
    }

    fn conditional(&mut self) -> Done {
        let line = self.stream.line();
        let before = self.place.clone();
        let mut after: Option<PageContext> = None;
        let mut has_else = false;
        loop {
            self.stream.advance();
            if !has_else {
                self.expression()?;
                self.expect("then")?;
            }
            self.scopes.open_block(false);
            self.place = before.clone();
            let flow = self.statements()?;
            self.close_block()?;
            if flow == Flow::Through {
                after = match after {
                    None => Some(self.place.clone()),
                    Some(after) => match after.joined(&self.place) {
                        None => return self.torn("if", line, (&after, &self.place)),
                        joined => joined,
                    },
                };
            }
            match self.stream.now() {
                Item::Token(LuaToken { kind: Kind::Fixed("elseif"), .. }) if !has_else => {}
                Item::Token(LuaToken { kind: Kind::Fixed("else"), .. }) if !has_else => {
                    has_else = true;
                }
                _ => break,
            }
        }
        self.expect_end("end", "if", line)?;
        if !has_else {
            after = match after {
                None => Some(before.clone()),
                Some(after) => match after.joined(&before) {
                    None => return self.torn("if", line, (&after, &before)),
                    joined => joined,
                },
            };
        }
        self.place = after.unwrap_or(before);
        Ok(())
    }

    /// Parses the body of a loop that ends with `end`. `declared` is the result of the declaration
    /// of its variables.
    fn looping(&mut self, word: &str, line: u32, declared: Result<(), Refused>) -> Done {
        self.allowed(declared)?;
        let before = self.place.clone();
        self.scopes.open_block(true);
        self.breaks.push(None);
        let flow = self.statements()?;
        self.end("end", word, line)?;
        self.settle(flow, before, (word, line))
    }

    /// Joins the contexts of a loop, which may have run any number of times, and have been left by
    /// a `break`.
    fn settle(&mut self, flow: Flow, before: PageContext, (word, line): (&str, u32)) -> Done {
        let exit = self.breaks.pop().flatten();
        let through = (flow == Flow::Through).then(|| self.place.clone());
        let mut after = before;
        for way in through.into_iter().chain(exit) {
            match after.joined(&way) {
                Some(place) => after = place,
                None => return self.torn(word, line, (&after, &way)),
            }
        }
        self.place = after;
        Ok(())
    }

    fn counting(&mut self) -> Done {
        let line = self.stream.line();
        self.stream.advance();
        let mut names = vec![self.name()?];
        while self.take(",") {
            names.push(self.name()?);
        }
        let is_numeric = names.len() == 1 && self.take("=");
        if !is_numeric {
            self.expect("in")?;
        }
        let count = self.expressions()?.len();
        if is_numeric && !(2..=3).contains(&count) {
            return self.fail("`for` counts by two or three numbers: first, last and step");
        }
        self.expect("do")?;
        self.scopes.open_block(false);
        let mut declared = self.scopes.hide(if is_numeric { 3 } else { 4 });
        for name in names {
            declared = declared.and(self.scopes.declare(name, false));
        }
        self.looping("for", line, declared)?;
        self.close_block()
    }

    fn repeating(&mut self) -> Done {
        let line = self.stream.line();
        let before = self.place.clone();
        self.stream.advance();
        self.scopes.open_block(true);
        self.breaks.push(None);
        let flow = self.statements()?;
        self.expect_end("until", "repeat", line)?;
        // The condition sees the variables of the loop.
        self.expression()?;
        self.close_block()?;
        self.settle(flow, before, ("repeat", line))
    }

    fn named_function(&mut self) -> Done {
        let line = self.stream.line();
        self.stream.advance();
        let at = self.stream.clone();
        let name = self.name()?;
        let meaning = self.resolve(name)?;
        let mut callee = self.variable(meaning);
        let (mut is_field, mut is_method) = (false, false);
        while !is_method && (self.is_next(".") || self.is_next(":")) {
            is_method = self.is_next(":");
            is_field = true;
            self.stream.advance();
            callee = Some(Callee::Field(self.field_name()?));
        }
        if !is_field {
            self.refuse_setting(meaning, name, &at, true)?;
        }
        let rank = self.functions.next();
        self.body(is_method, line)?;
        self.functions.name(rank, callee);
        Ok(())
    }

    /// Parses the parameters and the body of a function.
    pub(super) fn body(&mut self, is_method: bool, line: u32) -> Done {
        self.expect("(")?;
        let mut names: Vec<&'a [u8]> = Vec::new();
        let mut is_vararg = false;
        while !self.is_next(")") && !is_vararg {
            if self.take("...") {
                is_vararg = true;
            } else {
                names.push(self.name()?);
            }
            if is_vararg || !self.take(",") {
                break;
            } else if self.is_next(")") {
                return self.unexpected("a name");
            }
        }
        self.expect(")")?;
        self.scopes.open_function(is_vararg);
        if is_method {
            self.declare_all(&["self"])?;
        }
        for name in names {
            let declared = self.scopes.declare(name, false);
            self.allowed(declared)?;
        }
        self.returning("end", line)
    }

    fn local(&mut self) -> Done {
        let (line, at) = (self.stream.line(), self.stream.ahead());
        self.stream.advance();
        if self.take("function") {
            let name = self.name()?;
            let declared = self.scopes.declare(name, false);
            self.allowed(declared)?;
            self.note_declared(name, at);
            let meaning = self.resolve(name)?;
            let (rank, callee) = (self.functions.next(), self.variable(meaning));
            self.body(false, line)?;
            self.functions.name(rank, callee);
            return Ok(());
        }
        let mut names = Vec::new();
        loop {
            let name = self.name()?;
            names.push((name, self.attribute()?));
            if !self.take(",") {
                break;
            }
        }
        let values = if self.take("=") { self.expressions()? } else { Vec::new() };
        let functions = values.into_iter().chain(std::iter::repeat(None));
        for ((name, constant), function) in names.into_iter().zip(functions) {
            let declared = self.scopes.declare(name, constant);
            self.allowed(declared)?;
            self.note_declared(name, at);
            if let Some(rank) = function {
                let meaning = self.resolve(name)?;
                self.functions.name(rank, self.variable(meaning));
            }
        }
        Ok(())
    }

    /// Parses `<const>` or `<close>` of Lua 5.4.
    fn attribute(&mut self) -> Done<bool> {
        if !self.take("<") {
            return Ok(false);
        }
        let name = self.name()?;
        if !matches!(name, b"const" | b"close") {
            return self.fail("only `<const>` or `<close>` can follow the name of a variable");
        }
        self.expect(">")?;
        Ok(true)
    }

    fn label(&mut self) -> Done {
        self.stream.advance();
        let name = self.name()?;
        self.expect("::")?;
        // Labels that follow are no statements yet.
        while self.is_next("::") {
            self.nested(Self::label)?;
        }
        let is_last = self.is_block_end() && !self.is_next("until");
        let labelled = self.scopes.label(name, is_last, &self.place);
        self.place = self.allowed(labelled)?;
        Ok(())
    }

    /// Parses a call, or the assignment of one or more variables.
    fn assignment(&mut self) -> Done {
        let mut at = self.stream.clone();
        let mut target = self.suffixed()?;
        if !self.is_next("=") && !self.is_next(",") {
            if target.is_call {
                return Ok(());
            }
            let word = target.name.map(|(name, _)| name);
            if let Some((word, instead)) =
                word.and_then(|word| Some((word, syntax_hints::for_word(word)?)))
            {
                let word = quoted(word);
                return self.fail(format!("Lua has no `{word}`; write {instead}"));
            }
            return self.unexpected("`=` or a call");
        }
        let mut callees = Vec::new();
        loop {
            callees.push(self.callee(&target));
            match target.name {
                Some((name, meaning)) => self.refuse_setting(meaning, name, &at, false)?,
                None if !target.is_place => {
                    return self.fail("only variables, fields and indexes can be assigned to");
                }
                None => {}
            }
            if !self.take(",") {
                break;
            }
            at = self.stream.clone();
            target = self.nested(Self::suffixed)?;
        }
        self.expect("=")?;
        let values = self.expressions()?;
        for (callee, function) in callees.into_iter().zip(values) {
            if let Some(rank) = function {
                self.functions.name(rank, callee);
            }
        }
        Ok(())
    }

    /// Fails if a name cannot be set; `at` is its position.
    fn refuse_setting(
        &self,
        meaning: Meaning,
        name: &[u8],
        at: &TokenStream<'a>,
        is_function: bool,
    ) -> Done {
        let shown = quoted(name);
        let message = match meaning {
            Meaning::Global if !self.may_set_globals && is_function => format!(
                "`function {shown}` would be global, and seen by all other pages and requests; \
                 write `local function {shown}`"
            ),
            Meaning::Global if !self.may_set_globals => format!(
                "`{shown}` would be global, and seen by all other pages and requests; \
                 write `local {shown}`, here or before"
            ),
            Meaning::Local { constant: true, .. } => format!("`{shown}` is constant"),
            _ => return Ok(()),
        };
        Err(FileFault::new(at.line(), message).in_file(at.path()))
    }
}

/// Returns whether a token ends a block.
pub(super) fn is_end(kind: Kind) -> bool {
    matches!(kind, Kind::Fixed("end" | "else" | "elseif" | "until"))
}
