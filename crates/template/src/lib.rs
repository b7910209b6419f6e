//! Templates: compiles pages with Lua in them to Lua with pages in it.
//!
//! **In:** the path of a page and the content of the files of a site. **Out:** a [`Template`]: a
//! chunk of Lua, the text that it sends as it is, the files it was made of, and the origin of each
//! of its lines; or a [`TemplateProblem`] with file and line. No code is run.
//!
//! ```text
//! files ─ split ─▶ pieces ─ expand ─▶ page ─ lua::Parser ─▶ report ─ emit ─▶ Template
//!          lua::Lexer       includes          place: HTML
//! ```
//!
//! | Module | Holds |
//! |---|---|
//! | `split` | a file → text, values, blocks, tags |
//! | `source` | the pieces of a file |
//! | `value_suffix` | the conversions behind a colon: `#[[price:.2f]]` |
//! | [`name`] | which files are code, and the requests of a page |
//! | `path` | paths in includes |
//! | `expand` | includes and layouts: many files → one page |
//! | `lua` | tokens, syntax, names |
//! | `escaping` | the position of a value in HTML, a script or a style, and so its escaping |
//! | `emit` | page → Lua |
//! | `stray_tags` | `<?php` and other tags that pages do not have |
//! | `template` | [`compile`], and its result |
//! | `problem` | [`TemplateProblem`] |
//! | [`limits`] | every limit |
//!
//! **Promises.** No input makes this crate panic, recurse without bound, or take longer than in
//! proportion to the page with all its includes.
#![forbid(unsafe_code)]

// Brings LuaJIT, whose functions mlua calls, to the tests.
#[cfg(test)]
use pinion_luajit as _;

mod emit;
mod escaping;
mod expand;
pub mod limits;
mod lua;
pub mod name;
mod path;
mod problem;
mod source;
mod split;
mod stray_tags;
mod template;
mod value_suffix;

pub use escaping::Context;
pub use problem::TemplateProblem;
pub use stray_tags::{StrayTag, stray_tags};
pub use template::{Formatted, LENT, SourceLine, Template, compile};
