//! The figures as a page for people.

use super::figures::Figures;
use crate::terminal::{Align, Columns, TerminalStyle, count, counted, percent, size};
use std::io::{self, Write};

/// Media types that are shown; JSON has all of them.
const TYPES: usize = 8;

/// Writes the page.
pub(crate) fn write(
    figures: &Figures,
    out: &mut impl Write,
    style: TerminalStyle,
) -> io::Result<()> {
    writeln!(out, "{}  {}", style.bold(&figures.archive), size(figures.bytes))?;
    writeln!(out, "digest {}", figures.digest)?;
    block(out, style, "Paths", &paths(figures))?;
    block(out, style, "Bodies", &bodies(figures))?;
    block(out, style, "Code", &code(figures))?;
    block(out, style, "Codings", &codings(figures))?;
    block(out, style, "Types", &types(figures))?;
    block(out, style, "Largest", &largest(figures))?;
    block(out, style, "Sections", &sections(figures))?;
    block(out, style, "Build", &build(figures))
}

fn block(
    out: &mut impl Write,
    style: TerminalStyle,
    title: &str,
    lines: &[String],
) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", style.bold(title))?;
    lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
}

fn paths(figures: &Figures) -> Vec<String> {
    let paths = &figures.paths;
    let rows = [
        (paths.resources, "resource", "resources"),
        (paths.aliases, "further name of a resource", "further names of resources"),
        (paths.listings, "list of a folder", "lists of folders"),
        (paths.redirects, "redirect", "redirects"),
        (paths.others, "other", "others"),
        (paths.not_found_pages, "not-found page", "not-found pages"),
        (paths.error_pages, "page of errors", "pages of errors"),
        (paths.fallback_pages, "fallback page", "fallback pages"),
        (paths.variants, "JSON variant", "JSON variants"),
        (figures.rules.count, "rule by pattern or condition", "rules by pattern or condition"),
    ];
    let rows: Vec<_> = rows
        .into_iter()
        .filter(|(number, ..)| *number > 0)
        .map(|(number, one, many)| [count(number), if number == 1 { one } else { many }.to_owned()])
        .collect();
    Columns::new([Align::Right, Align::Left]).lines(&rows)
}

fn bodies(figures: &Figures) -> Vec<String> {
    let bodies = &figures.bodies;
    let mut rows = vec![[count(bodies.stored), size(bodies.stored_bytes), "stored".to_owned()]];
    if bodies.repeated > 0 {
        let gain = "saved, as equal content is stored once".to_owned();
        rows.push([count(bodies.repeated), size(bodies.repeated_bytes), gain]);
    }
    let mut lines = Columns::new([Align::Right, Align::Right, Align::Left]).lines(&rows);
    if bodies.external > 0 {
        lines.push(format!("{} of them in files outside of the archive", count(bodies.external)));
    }
    lines
}

fn code(figures: &Figures) -> Vec<String> {
    let code = &figures.code;
    let line = || format!("{}, {}, never sent", counted(code.files, "file"), size(code.bytes));
    (code.files > 0).then(line).into_iter().collect()
}

fn codings(figures: &Figures) -> Vec<String> {
    let rows: Vec<_> = figures
        .codings
        .iter()
        .map(|(coding, of)| {
            let share = match *coding {
                "identity" => String::new(),
                _ => format!("{} of identity", percent(of.bytes, of.identity_bytes)),
            };
            [(*coding).to_owned(), count(of.bodies), size(of.bytes), share]
        })
        .collect();
    Columns::new([Align::Left, Align::Right, Align::Right, Align::Right]).lines(&rows)
}

fn types(figures: &Figures) -> Vec<String> {
    let mut types: Vec<_> = figures.media_types.iter().collect();
    types.sort_by_key(|(_, of)| std::cmp::Reverse(of.bytes));
    let rows: Vec<_> = types
        .iter()
        .take(TYPES)
        .map(|(name, of)| [count(of.resources), size(of.bytes), (*name).clone()])
        .collect();
    let mut lines = Columns::new([Align::Right, Align::Right, Align::Left]).lines(&rows);
    if types.len() > TYPES {
        lines.push(format!("and {}", counted((types.len() - TYPES) as u64, "other type")));
    }
    lines
}

fn largest(figures: &Figures) -> Vec<String> {
    let rows: Vec<_> =
        figures.largest.iter().map(|large| [size(large.bytes), large.path.clone()]).collect();
    Columns::new([Align::Right, Align::Left]).lines(&rows)
}

fn sections(figures: &Figures) -> Vec<String> {
    let rows: Vec<_> = figures
        .sections
        .iter()
        .map(|section| {
            let offset = format!("at byte {}", count(section.offset));
            [section.name.to_owned(), size(section.bytes), offset]
        })
        .collect();
    Columns::new([Align::Left, Align::Right, Align::Left]).lines(&rows)
}

fn build(figures: &Figures) -> Vec<String> {
    let rows: Vec<_> =
        figures.build.iter().map(|(key, value)| [key.clone(), value.clone()]).collect();
    Columns::new([Align::Left, Align::Left]).lines(&rows)
}
