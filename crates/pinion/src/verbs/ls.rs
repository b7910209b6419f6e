//! `pinion ls FILE`: every path of an archive, in the archive's own order, the rules that are
//! walked, and the code.

use crate::archive_file::ArchiveFile;
use crate::failure::Failure;
use crate::listed_entry::{ListedCode, ListedEntry, ListedRule};
use crate::settings::Look;
use crate::terminal::{Align, Columns, TerminalStyle, size};
use serde_json::Value;
use std::io::{self, BufWriter, Write};

/// Lists the paths, for people or as JSON.
pub(crate) fn run(look: &Look) -> Result<(), Failure> {
    let file = ArchiveFile::open(&look.file)?;
    let mut out = BufWriter::new(io::stdout().lock());
    if look.json {
        write_json(&file, &mut out)?;
    } else {
        write_text(&file, &mut out, TerminalStyle::of_stdout())?;
    }
    Ok(out.flush()?)
}

/// Writes one document with one entry on each line, so that lists of any size stream.
fn write_json(file: &ArchiveFile, out: &mut impl Write) -> Result<(), Failure> {
    let name = serde_json::to_string(&file.path().to_string_lossy()).map_err(io::Error::from)?;
    write!(out, "{{\"archive\":{name},\"entries\":[")?;
    let mut separator = "\n";
    let listed = each(file, |listed| {
        out.write_all(separator.as_bytes())?;
        separator = ",\n";
        serde_json::to_writer(&mut *out, listed).map_err(io::Error::from)
    });
    // Damage that shows only now ends the list, but not the document.
    let (listed, code) = match listed.and_then(|()| code(file)) {
        Ok(code) => (Ok(()), code),
        Err(failure) => (Err(failure), Vec::new()),
    };
    let error = listed.as_ref().err().and_then(Failure::reason);
    match error {
        Some(reason) => writeln!(out, "\n],\"error\":{}}}", Value::from(reason))?,
        None => {
            write!(out, "\n],\"rules\":[")?;
            let mut separator = "\n";
            for rule in file.view().rules().iter() {
                out.write_all(separator.as_bytes())?;
                separator = ",\n";
                serde_json::to_writer(&mut *out, &ListedRule::new(&rule))
                    .map_err(io::Error::from)?;
            }
            let code = serde_json::to_string(&code).map_err(io::Error::from)?;
            writeln!(out, "],\"code\":{code}}}")?;
        }
    }
    out.flush()?;
    listed.map_err(Failure::printed)
}

fn write_text(
    file: &ArchiveFile,
    out: &mut impl Write,
    style: TerminalStyle,
) -> Result<(), Failure> {
    let mut columns = Columns::new([Align::Right, Align::Right, Align::Left, Align::Left]);
    each(file, |listed| {
        columns.measure(&cells(listed, style));
        Ok(())
    })?;
    each(file, |listed| {
        let path = match listed.kind {
            "not-found" | "fallback" => style.dim(format!("anything else below {}", listed.path)),
            "error-page" => style.dim("errors with this status"),
            "single-page" => style.dim("any other page"),
            "listing" => format!("{}{}", listed.path, style.dim("  list of what is in it")),
            "variant" => format!("{}{}", listed.path, style.dim("  for clients of JSON")),
            "private" => format!("{}{}", listed.path, style.dim("  which no client is sent")),
            _ if listed.previous.is_some() => {
                format!("{}{}", listed.path, style.dim("  of an earlier release"))
            }
            _ => listed.path.clone(),
        };
        let arrow = match (&listed.target, listed.kind) {
            (Some(target), "resource") => style.dim(format!("  = {target}")),
            (Some(target), _) => style.dim(format!("  -> {target}")),
            (None, _) => String::new(),
        };
        writeln!(out, "{}  {path}{arrow}", columns.line(&cells(listed, style)))
    })?;
    let rules = file.view().rules();
    if !rules.is_empty() {
        writeln!(out, "\n{}", style.bold("Rules, in their order"))?;
    }
    for rule in rules.iter() {
        let rule = ListedRule::new(&rule);
        let host = rule.host.map_or(String::new(), |host| format!("//{host}"));
        let query: String = rule.query.iter().map(|condition| format!(" {condition}")).collect();
        let force = if rule.force { "!" } else { " " };
        let arrow = style.dim(format!("  -> {}", rule.target));
        writeln!(out, "{}{force}  {host}{}{query}{arrow}", status(rule.status, style), rule.path)?;
    }
    let code = code(file)?;
    if !code.is_empty() {
        writeln!(out, "\n{}", style.bold("Code, which no client is sent"))?;
    }
    let cells = |file: &ListedCode| [size(file.bytes), style.dim(file.kind), file.path.clone()];
    let rows: Vec<_> = code.iter().map(cells).collect();
    for line in Columns::new([Align::Right, Align::Left, Align::Left]).lines(&rows) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn cells(listed: &ListedEntry, style: TerminalStyle) -> [String; 4] {
    let codings: Vec<&str> =
        listed.representations.iter().skip(1).map(|form| form.coding).collect();
    [
        status(listed.status, style),
        listed.bytes().map(size).unwrap_or_default(),
        style.dim(codings.join(" ")),
        listed.media_type.clone().unwrap_or_default(),
    ]
}

fn status(status: u16, style: TerminalStyle) -> String {
    match status {
        200 => style.green(status),
        300..400 => style.yellow(status),
        _ => style.red(status),
    }
}

/// Returns every file of code.
fn code(file: &ArchiveFile) -> Result<Vec<ListedCode>, Failure> {
    let code = file.view().code().map_err(|damage| file.damaged(damage))?;
    Ok(code.iter().map(|(path, content)| ListedCode::new(path, content)).collect())
}

/// Visits every entry, one after the other.
fn each(
    file: &ArchiveFile,
    mut visit: impl FnMut(&ListedEntry) -> io::Result<()>,
) -> Result<(), Failure> {
    let archive = file.view();
    let previous = archive.previous().map_err(|damage| file.damaged(damage))?;
    let mut entries = archive.entries();
    while let Some(entry) = entries.next_entry().map_err(|damage| file.damaged(damage))? {
        let mut listed =
            ListedEntry::new(&archive, &entry).map_err(|damage| file.damaged(damage))?;
        listed.previous = previous.age(entry.path());
        visit(&listed)?;
    }
    Ok(())
}
