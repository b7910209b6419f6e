//! Templates: pages with Lua in them become Lua with pages in it.
//!
//! **In:** the path of a page and the content of the files of a site. **Out:** a [`Template`]: a
//! chunk of Lua, the text that it sends as it is, the files it was made of, and where each of its
//! lines comes from; or a [`TemplateProblem`] with file and line. Nothing is run.
//!
//! ```text
//! files ─ split ─▶ pieces ─ expand ─▶ page ─ lua::Parser ─▶ report ─ emit ─▶ Template
//!          lua::Lexer       includes          place: HTML
//! ```
//!
//! | Module | Holds |
//! |---|---|
//! | `split` | a file → text, values, blocks, tags |
//! | `source` | those pieces |
//! | `format` | the conversions behind a colon: `#[[price:.2f]]` |
//! | [`name`] | what is code, and which requests a page answers |
//! | `path` | paths in includes |
//! | `expand` | includes and layouts: many files → one page |
//! | `lua` | tokens, syntax, names |
//! | `place` | where in HTML, a script or a style a value stands: how it is escaped |
//! | `emit` | page → Lua |
//! | `stray_tags` | `<?php` and other tags that are none of a page |
//! | `template` | [`compile`], and what comes out |
//! | `problem` | [`TemplateProblem`] |
//! | [`limits`] | every bound |
//!
//! **Promises.** No input makes this crate panic, recurse without bound, or take longer than in
//! proportion to the page with all its includes.
#![forbid(unsafe_code)]

// Brings LuaJIT, whose functions mlua calls, to the tests.
#[cfg(test)]
use pinion_luajit as _;

mod emit;
mod expand;
mod format;
pub mod limits;
mod lua;
pub mod name;
mod path;
mod place;
mod problem;
mod source;
mod split;
mod stray_tags;
mod template;

pub use place::Context;
pub use problem::TemplateProblem;
pub use stray_tags::{StrayTag, stray_tags};
pub use template::{Formatted, LENT, SourceLine, Template, compile};
