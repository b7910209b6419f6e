//! The parser of expressions.

use super::output_functions::Callee;
use super::parser::Parser;
use super::parser_input::Item;
use super::scope::Meaning;
use super::token::{Kind, LuaToken};
use crate::compile_error::TemplateProblem;

/// The result of a chain of fields, indexes and calls.
pub(super) struct Chain<'a> {
    /// The name, if the chain is a plain name.
    pub(super) name: Option<(&'a [u8], Meaning)>,
    /// The field that it ends with.
    field: Option<&'a [u8]>,
    pub(super) is_call: bool,
    /// Whether it is a field or an index, which can be set.
    pub(super) is_place: bool,
}

/// The binding power of binary operators, on the left and on the right (Lua 5.4 §3.4.8).
const BINARY: &[(&str, u8, u8)] = &[
    ("or", 1, 1),
    ("and", 2, 2),
    ("<", 3, 3),
    (">", 3, 3),
    ("<=", 3, 3),
    (">=", 3, 3),
    ("~=", 3, 3),
    ("==", 3, 3),
    ("|", 4, 4),
    ("~", 5, 5),
    ("&", 6, 6),
    ("<<", 7, 7),
    (">>", 7, 7),
    ("..", 9, 8),
    ("+", 10, 10),
    ("-", 10, 10),
    ("*", 11, 11),
    ("/", 11, 11),
    ("//", 11, 11),
    ("%", 11, 11),
    ("^", 14, 13),
];

/// The binding power of unary operators.
const UNARY: u8 = 12;

impl<'a> Parser<'a> {
    /// Parses one or more expressions, with commas; returns for each the rank of its function, if
    /// it is one.
    pub(super) fn expressions(&mut self) -> Result<Vec<Option<usize>>, TemplateProblem> {
        let mut found = vec![self.maybe_function()?];
        while self.take(",") {
            found.push(self.maybe_function()?);
        }
        Ok(found)
    }

    /// Parses an expression; returns the rank of its function, if it is one.
    fn maybe_function(&mut self) -> Result<Option<usize>, TemplateProblem> {
        let function = self.is_next("function").then(|| self.functions.next());
        self.expression()?;
        Ok(function)
    }

    pub(super) fn expression(&mut self) -> Result<(), TemplateProblem> {
        self.operation(0)
    }

    /// Parses an expression of operators that bind more strongly than `floor`.
    fn operation(&mut self, floor: u8) -> Result<(), TemplateProblem> {
        self.nested(|parser| {
            if parser.is_unary() {
                parser.stream.advance();
                parser.operation(UNARY)?;
            } else {
                parser.simple()?;
            }
            while let Some(right) = parser.binary(floor) {
                parser.stream.advance();
                parser.operation(right)?;
            }
            Ok(())
        })
    }

    fn is_unary(&self) -> bool {
        ["not", "-", "#", "~"].iter().any(|sign| self.is_next(sign))
    }

    fn binary(&self, floor: u8) -> Option<u8> {
        let Item::Token(LuaToken { kind: Kind::Fixed(sign), .. }) = self.stream.now() else {
            return None;
        };
        let (_, left, right) = BINARY.iter().find(|row| row.0 == sign)?;
        (*left > floor).then_some(*right)
    }

    fn simple(&mut self) -> Result<(), TemplateProblem> {
        let Item::Token(token) = self.stream.now() else {
            return self.unexpected("an expression");
        };
        match token.kind {
            Kind::Number | Kind::String | Kind::Fixed("nil" | "true" | "false") => {
                self.stream.advance();
                Ok(())
            }
            Kind::Fixed("...") if !self.scopes.is_vararg() => {
                self.fail("`...` outside of a function that has it as its last parameter")
            }
            Kind::Fixed("...") => {
                self.stream.advance();
                Ok(())
            }
            Kind::Fixed("{") => self.table(),
            Kind::Fixed("function") => {
                let line = self.stream.line();
                self.stream.advance();
                self.body(false, line)
            }
            _ => self.suffixed().map(|_| ()),
        }
    }

    /// Parses a name or an expression in brackets, with the fields, indexes and calls that follow.
    pub(super) fn suffixed(&mut self) -> Result<Chain<'a>, TemplateProblem> {
        let mut chain = Chain { name: None, field: None, is_call: false, is_place: false };
        if self.is_next("(") {
            let line = self.stream.line();
            self.stream.advance();
            self.expression()?;
            self.expect_end(")", "(", line)?;
        } else if let Item::Token(LuaToken { kind: Kind::Name, .. }) = self.stream.now() {
            let name = self.name()?;
            chain.name = Some((name, self.resolve(name)?));
        } else {
            return self.unexpected("an expression");
        }
        let mut last = self.stream.behind();
        while let Item::Token(token) = self.stream.now() {
            let (mut is_call, mut is_place, mut field) = (false, false, None);
            match token.kind {
                Kind::Fixed(".") => {
                    self.stream.advance();
                    field = Some(self.field_name()?);
                    is_place = true;
                }
                Kind::Fixed("[") => {
                    self.stream.advance();
                    self.expression()?;
                    self.expect("]")?;
                    is_place = true;
                }
                Kind::Fixed(":") => {
                    self.stream.advance();
                    chain = Chain { name: None, field: Some(self.field_name()?), ..chain };
                    self.called(&chain);
                    last = self.stream.behind();
                    self.arguments(last)?;
                    is_call = true;
                }
                Kind::Fixed("(" | "{") | Kind::String => {
                    self.called(&chain);
                    self.arguments(last)?;
                    is_call = true;
                }
                _ => break,
            }
            chain = Chain { name: None, field, is_call, is_place };
            last = self.stream.behind();
        }
        Ok(chain)
    }

    /// Returns the name by which a function is called that is stored there.
    pub(super) fn callee(&self, chain: &Chain<'a>) -> Option<Callee<'a>> {
        match chain.name {
            Some((_, meaning)) => self.variable(meaning),
            None => chain.field.map(Callee::Field),
        }
    }

    /// Records a call.
    fn called(&mut self, chain: &Chain<'a>) {
        let name = chain.name.map(|(name, _)| name).or(chain.field);
        if let (Some(callee), Some(name)) = (self.callee(chain), name) {
            let at = (self.stream.path(), self.stream.line());
            self.functions.call(callee, name, &self.place, at);
        }
    }

    /// Parses the arguments of a call. `last` is the piece and the line where the called expression
    /// ends.
    fn arguments(&mut self, last: (usize, u32)) -> Result<(), TemplateProblem> {
        self.calls += 1;
        match self.stream.now() {
            Item::Token(LuaToken { kind: Kind::String, .. }) => {
                self.stream.advance();
                Ok(())
            }
            Item::Token(LuaToken { kind: Kind::Fixed("{"), .. }) => self.table(),
            Item::Token(LuaToken { kind: Kind::Fixed("("), line, .. }) => {
                if self.stream.ahead() != last {
                    return self.fail(
                        "does this `(` call the expression on the line before? Put it there, or \
                         `;` before it",
                    );
                }
                self.stream.advance();
                if self.take(")") {
                    return Ok(());
                }
                self.expressions()?;
                self.expect_end(")", "(", line)
            }
            _ => self.unexpected("the arguments of a call"),
        }
    }

    fn table(&mut self) -> Result<(), TemplateProblem> {
        let line = self.stream.line();
        self.expect("{")?;
        while !self.is_next("}") {
            let is_named = matches!(self.stream.now(), Item::Token(t) if t.kind == Kind::Name)
                && self.stream.second().is_some_and(|t| t.kind == Kind::Fixed("="));
            let mut name = None;
            if is_named {
                name = Some(self.field_name()?);
                self.expect("=")?;
            } else if self.take("[") {
                self.expression()?;
                self.expect("]")?;
                self.expect("=")?;
            }
            if let Some(rank) = self.maybe_function()? {
                self.functions.name(rank, name.map(Callee::Field));
            }
            if !self.take(",") && !self.take(";") {
                break;
            }
        }
        self.expect_end("}", "{", line)
    }
}
