//! The result of the compilation of a page.

use crate::compile_error::{TemplateProblem, quoted};
use crate::escaping::{Context, PageContext};
use crate::include_expansion::{ExpandedPage, Flat, expand};
use crate::lua::Parser;
use crate::lua_emitter;
use crate::source_pieces::PieceKind;

/// The values and functions that the server provides to the code of a page, by name: fields of the
/// first argument of the page function. Each page declares those that it uses.
pub const PAGE_VALUES: [&str; 19] = [
    "fd",
    "session",
    "locals",
    "headers",
    "cookies",
    "body",
    "form",
    "method",
    "endpoint",
    "query",
    "write",
    "fragment",
    "escape",
    "post_render",
    "await",
    "header",
    "status",
    "done",
    "to_url",
];

/// A compiled page.
///
/// [`lua`](Self::lua) is one chunk. It is called once, with the segments (an array of strings, the
/// first one at 1) and a table that has the functions of [`Context`] and `format`, which is
/// `string.format`, by their names. It returns the page function, which is called for each request:
///
/// ```text
/// page(values, out)
///   values   a table with the names of PAGE_VALUES, and `async`
///   out      the output so far: strings and numbers up to out.n, joined by the sender
/// ```
///
/// `values.write` appends to `out` as the page does: `out.n = out.n + 1; out[out.n] = text`. As
/// soon as `out.n` is above `out.most` the page calls `out:full()`, which may send the present
/// pieces, set `out.n` back, or raise `out.most`; other senders may do so, too, while the page
/// waits.
///
/// A block that waits is `values.async(function(done, out, write, fragment) … end)`, the last one
/// only in a page that names `fragment`: it returns when the page goes on, which is after `done()`,
/// or at once if the page is [`parallel`](Self::parallel). Text of the block goes to the `out` that
/// it receives, which in a parallel page is one of its own, with its place in the page reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The source of the chunk. It is UTF-8 if all files of the page are.
    pub lua: Vec<u8>,
    /// Stretches of text that are sent unchanged.
    pub segments: Vec<Vec<u8>>,
    /// The page itself and every file it contains, by their paths in the site.
    pub files: Vec<String>,
    /// The origin of each line of [`lua`](Self::lua).
    pub lines: Vec<SourceLine>,
    /// Whether blocks that wait do so at the same time: `#! parallel`.
    pub parallel: bool,
    /// Whether there are blocks that wait.
    pub has_async: bool,
    /// The values with a format, in the order of the page.
    pub formats: Vec<Formatted>,
    /// The names of [`PAGE_VALUES`] that the code of the page uses, in that order: a page that
    /// never names `post_render` can be sent while it is made.
    pub value_names: Vec<&'static str>,
}

/// A value with a format, such as `#[[price:.2f]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formatted {
    /// The line where it begins.
    pub origin: SourceLine,
    /// The line of its last token, from 1.
    pub last_line: u32,
    /// The expression; the beginning of a long one.
    pub expression: String,
    /// The format, without `%`.
    pub format: String,
}

/// A line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// Its rank in [`Template::files`].
    pub file: u32,
    /// The line, from 1.
    pub line: u32,
}

/// Compiles the page at `path`, which begins with `/`, the root of the site. `lookup` returns the
/// content of files, by such paths.
///
/// # Errors
/// Returns the first error of the page or of a file it includes.
pub fn compile<'a>(
    path: &str,
    lookup: impl Fn(&str) -> Option<&'a [u8]>,
) -> Result<Template, TemplateProblem> {
    let page = expand(path, &lookup)?;
    let own = own_names();
    let report = Parser::page(&page, PageContext::of_file(path), &own, &PAGE_VALUES)?;
    let (lua, segments, lines) = lua_emitter::chunk(&page, &report);
    let names = PAGE_VALUES.iter().zip(&report.used_values).filter(|(_, is_used)| **is_used);
    let value_names = names.map(|(&name, _)| name).collect();
    let formats = formats(&page);
    let ExpandedPage { sources, parallel, .. } = page;
    let files = sources.into_iter().map(|source| source.path).collect();
    let has_async = report.has_async;
    Ok(Template { lua, segments, files, lines, parallel, has_async, formats, value_names })
}

/// Returns the values of a page that have a format.
fn formats(page: &ExpandedPage<'_>) -> Vec<Formatted> {
    let formatted = |&flat: &Flat| {
        let source = page.source(flat);
        let piece = &source.pieces[flat.piece];
        let PieceKind::Show(rank) = piece.kind else { return None };
        let show = &source.shows[rank];
        let conversion = show.conversion.as_ref()?;
        Some(Formatted {
            origin: SourceLine { file: u32::try_from(flat.source).ok()?, line: piece.line },
            last_line: source.tokens(&show.tokens).last()?.last_line,
            expression: quoted(source.expression(show)),
            format: conversion.text.trim_start_matches('%').to_owned(),
        })
    };
    page.flats.iter().filter_map(formatted).collect()
}

/// Returns the variables of the chunk around the page function.
fn own_names() -> Vec<&'static str> {
    ["__s", "__e", "__format"].into_iter().chain(Context::ALL.map(Context::variable)).collect()
}

impl Template {
    /// Returns the file and the line that a line of the chunk comes from; both count from 1.
    #[must_use]
    pub fn origin(&self, line: u32) -> Option<(&str, u32)> {
        let origin = self.lines.get((line as usize).checked_sub(1)?)?;
        Some((self.files.get(origin.file as usize)?, origin.line))
    }

    /// Returns the values with a format on a line of a file.
    pub fn formats_at(&self, file: &str, line: u32) -> impl Iterator<Item = &Formatted> {
        let is_of_file =
            move |rank: u32| self.files.get(rank as usize).is_some_and(|of_rank| of_rank == file);
        self.formats.iter().filter(move |formatted| {
            let lines = formatted.origin.line..=formatted.last_line;
            lines.contains(&line) && is_of_file(formatted.origin.file)
        })
    }

    /// Replaces the lines of the chunk, `chunk:12:`, in a message or a trace of Lua by lines of
    /// files. `chunk` is the name that the chunk was loaded by, as Lua shows it.
    #[must_use]
    pub fn explained(&self, message: &str, chunk: &str) -> String {
        let mut shown = String::with_capacity(message.len());
        let mut rest = message;
        let prefix = format!("{chunk}:");
        while let Some(at) = rest.find(&prefix) {
            let (before, here) = rest.split_at(at);
            let behind = &here[prefix.len()..];
            let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
            shown.push_str(before);
            match behind[..digits].parse().ok().and_then(|line| self.origin(line)) {
                Some((file, line)) => {
                    shown.push_str(&format!("{file}:{line}"));
                    rest = &behind[digits..];
                }
                None => {
                    shown.push_str(&prefix);
                    rest = behind;
                }
            }
        }
        shown.push_str(rest);
        shown
    }
}
