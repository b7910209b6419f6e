//! The part of Lua that a compiler of templates must know: tokens, statements and declared names.
//! The meaning of the code at run time is left to Lua itself.
//!
//! | Module | Holds |
//! |---|---|
//! | `token` | tokens, keywords, signs |
//! | `lexer` | bytes → tokens |
//! | `literal` | strings and numbers, the tokens with a grammar of their own |
//! | `parser_input` | the input of the parser: tokens, text, values, blocks that wait |
//! | `parser` | pages, values, and functions that all parts of the parser need |
//! | `statement` | statements |
//! | `expression` | expressions |
//! | `output_functions` | functions that write text, and their calls |
//! | `scope` | names that are declared, labels, Lua's limits |
//! | `slot_variables` | variables that a slot of a page cannot use |
//! | `syntax_hints` | hints for syntax of other languages |
//!
//! The language is the union of LuaJIT and Lua 5.4; syntax that only one of them accepts is refused
//! by the other one when the page is loaded. It is stricter than both in two points: `goto` is no
//! name, and a bracket at the front of a line never calls the expression on the line before it.

mod expression;
mod lexer;
mod literal;
mod output_functions;
mod parser;
mod parser_input;
mod scope;
mod slot_variables;
mod statement;
mod syntax_hints;
mod token;

#[cfg(test)]
mod tests;

pub(crate) use lexer::{Gap, Lexer};
pub(crate) use parser::{ChunkReport, Parser};
pub(crate) use token::{Kind, LuaToken};
