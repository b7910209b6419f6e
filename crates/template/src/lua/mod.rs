//! Lua as far as a compiler of templates must know it: where a token ends, what a statement is,
//! which names are declared. What it runs as is the business of Lua itself.
//!
//! | Module | Holds |
//! |---|---|
//! | `token` | tokens, keywords, signs |
//! | `lexer` | bytes → tokens |
//! | `literal` | strings and numbers, the tokens with a grammar of their own |
//! | `stream` | what the parser reads: tokens, text, values, blocks that wait |
//! | `parser` | pages, values, and what all that follows needs |
//! | `statement` | statements |
//! | `expression` | expressions |
//! | `functions` | functions that write text, and where they are called |
//! | `scope` | names that are declared, labels, Lua's limits |
//! | `slots` | variables that a slot of a page cannot use |
//! | `hints` | what to write in place of what other languages have |
//!
//! The language is what LuaJIT and Lua 5.4 have, together; what only one of them takes is refused
//! by the other one when the page is loaded. Stricter than both: `goto` is no name, and a bracket
//! at the front of a line never calls what stands on the line before it.

mod expression;
mod functions;
mod hints;
mod lexer;
mod literal;
mod parser;
mod scope;
mod slots;
mod statement;
mod stream;
mod token;

#[cfg(test)]
mod tests;

pub(crate) use lexer::{Gap, Lexer};
pub(crate) use parser::{ChunkReport, Parser};
pub(crate) use token::{Kind, LuaToken};
