//! `pinion inspect FILE`: the content of an archive, in figures.

mod figures;
mod text;

use crate::archive_file::ArchiveFile;
use crate::failure::Failure;
use crate::settings::Look;
use crate::terminal::TerminalStyle;
use figures::Figures;
use std::io::{self, BufWriter, Write};

/// Writes the figures, for people or as JSON.
pub(crate) fn run(look: &Look) -> Result<(), Failure> {
    let file = ArchiveFile::open(&look.file)?;
    let figures = Figures::of(&file).map_err(|damage| file.damaged(damage))?;
    let mut out = BufWriter::new(io::stdout().lock());
    if look.json {
        serde_json::to_writer_pretty(&mut out, &figures).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        text::write(&figures, &mut out, TerminalStyle::of_stdout())?;
    }
    Ok(out.flush()?)
}
