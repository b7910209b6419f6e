//! `pinion verify FILE`: every hash of an archive checked, all damage named.

use crate::archive_file;
use crate::failure::Failure;
use crate::progress::Bar;
use crate::settings::Look;
use crate::terminal::{TerminalStyle, count, counted, size};
use anyhow::anyhow;
use pinion_archive::verify::{Report, verify};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Checks the archive; exit 1 when anything is wrong with it.
pub(crate) fn run(look: &Look) -> Result<(), Failure> {
    let mapping = archive_file::map(&look.file)?;
    let bar = Bar::new(look.json);
    let report = verify(mapping.bytes(), &mut |done, total| bar.set(done, total, ""));
    bar.clear();
    let mut out = io::stdout().lock();
    let name = look.file.to_string_lossy();
    let report = report.map_err(|error| anyhow!("{name}: {error}"))?;
    if look.json {
        writeln!(out, "{}", document(&name, &report))?;
    } else {
        write_text(&mut out, &name, &report, mapping.bytes().len() as u64)?;
    }
    if report.is_sound() { Ok(()) } else { Err(Failure::AlreadyReported) }
}

fn document(name: &str, report: &Report) -> Value {
    let damages = report.damages.iter().map(|damage| {
        json!({
            "part": damage.part.to_string(),
            "offset": damage.offset,
            "fault": damage.fault.to_string(),
        })
    });
    json!({
        "archive": name,
        "sound": report.is_sound(),
        "digest": report.digest.to_string(),
        "entries": report.entries,
        "sections": report.sections,
        "damages": damages.collect::<Vec<_>>(),
        "more_damages": report.more_damages,
    })
}

fn write_text(out: &mut impl Write, name: &str, report: &Report, bytes: u64) -> io::Result<()> {
    let style = TerminalStyle::of_stdout();
    for damage in &report.damages {
        writeln!(out, "{} {damage}", style.red("damaged"))?;
    }
    if report.more_damages > 0 {
        writeln!(out, "and {}", counted(report.more_damages, "more damaged place"))?;
    }
    let entries = match report.entries {
        1 => "1 entry".to_owned(),
        entries => format!("{} entries", count(entries)),
    };
    let extent = format!("{entries} in {}", size(bytes));
    if report.is_sound() {
        writeln!(out, "{name}: {}, {extent}", style.green("sound"))?;
        writeln!(out, "digest {}", report.digest)
    } else {
        writeln!(out, "{name}: {}, {extent} could be read", style.red("damaged"))
    }
}
