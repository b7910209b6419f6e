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
//! | `source_splitter` | a file → text, values, blocks, tags |
//! | `source_pieces` | the pieces of a file |
//! | `value_suffix` | the conversions behind a colon: `#[[price:.2f]]` |
//! | [`file_name`] | which files are code, and the requests of a page |
//! | `page_types` | the types of pages: media types, and how values in them are escaped |
//! | `include_path` | paths in includes |
//! | `include_expansion` | includes and layouts: many files → one page |
//! | `lua` | tokens, syntax, names |
//! | `escaping` | the position of a value in HTML, a script or a style, and so its escaping |
//! | `lua_emitter` | page → Lua |
//! | `stray_tags` | `<?php` and other tags that pages do not have |
//! | `compiled_template` | [`compile`], and its result |
//! | `compile_error` | [`TemplateProblem`] |
//! | [`limits`] | every limit |
//!
//! **Promises.** No input makes this crate panic, recurse without bound, or take longer than in
//! proportion to the page with all its includes.
#![forbid(unsafe_code)]

// Brings LuaJIT, whose functions mlua calls, to the tests.
#[cfg(test)]
use pinion_luajit as _;

mod compile_error;
mod compiled_template;
mod escaping;
pub mod file_name;
mod include_expansion;
mod include_path;
pub mod limits;
mod lua;
mod lua_emitter;
mod page_types;
mod source_pieces;
mod source_splitter;
mod stray_tags;
mod value_suffix;

pub use compile_error::TemplateProblem;
pub use compiled_template::{Formatted, PAGE_VALUES, SourceLine, Template, compile};
pub use escaping::Context;
pub use stray_tags::{StrayTag, stray_tags};
