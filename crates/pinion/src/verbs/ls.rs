//! `pinion ls FILE`: every path of an archive, in the archive's own order.

use crate::archive_file::ArchiveFile;
use crate::failure::Failure;
use crate::listing::Listed;
use crate::settings::Look;
use crate::terminal::{Align, Columns, Style, size};
use serde_json::Value;
use std::io::{self, BufWriter, Write};

/// Lists the paths, for people or as JSON.
pub(crate) fn run(look: &Look) -> Result<(), Failure> {
    let file = ArchiveFile::open(&look.file)?;
    let mut out = BufWriter::new(io::stdout().lock());
    match look.json {
        true => write_json(&file, &mut out)?,
        false => write_text(&file, &mut out, Style::of_stdout())?,
    }
    Ok(out.flush()?)
}

/// One document with one entry on each line, so that lists of any size stream.
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
    let error = listed.as_ref().err().and_then(Failure::reason);
    match error {
        Some(reason) => writeln!(out, "\n],\"error\":{}}}", Value::from(reason))?,
        None => writeln!(out, "\n]}}")?,
    }
    out.flush()?;
    listed.map_err(Failure::told)
}

fn write_text(file: &ArchiveFile, out: &mut impl Write, style: Style) -> Result<(), Failure> {
    let mut columns = Columns::new([Align::Right, Align::Right, Align::Left, Align::Left]);
    each(file, |listed| {
        columns.measure(&cells(listed, style));
        Ok(())
    })?;
    each(file, |listed| {
        let path = match listed.kind {
            "not-found" => style.dim(format!("anything else below {}", listed.path)),
            _ => listed.path.clone(),
        };
        let arrow = match (&listed.target, listed.kind) {
            (Some(target), "resource") => style.dim(format!("  = {target}")),
            (Some(target), _) => style.dim(format!("  -> {target}")),
            (None, _) => String::new(),
        };
        writeln!(out, "{}  {path}{arrow}", columns.line(&cells(listed, style)))
    })
}

fn cells(listed: &Listed, style: Style) -> [String; 4] {
    let codings: Vec<&str> =
        listed.representations.iter().skip(1).map(|form| form.coding).collect();
    let status = match listed.status {
        200 => style.green(listed.status),
        300..400 => style.yellow(listed.status),
        _ => style.red(listed.status),
    };
    [
        status,
        listed.bytes().map(size).unwrap_or_default(),
        style.dim(codings.join(" ")),
        listed.media_type.clone().unwrap_or_default(),
    ]
}

/// Every entry, one after the other.
fn each(
    file: &ArchiveFile,
    mut visit: impl FnMut(&Listed) -> io::Result<()>,
) -> Result<(), Failure> {
    let archive = file.view();
    let mut entries = archive.entries();
    while let Some(entry) = entries.next_entry().map_err(|damage| file.damaged(damage))? {
        let listed = Listed::new(&archive, &entry).map_err(|damage| file.damaged(damage))?;
        visit(&listed)?;
    }
    Ok(())
}
