//! The output of the writer: bytes go out in order, and the section table grows with them.

use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use crate::byte_span::padding;
use crate::layout::{SECTION_ALIGN_BYTES, SECTION_REQUIRED, SectionKind, SectionRow};
use crate::open::SECTION_VERSION;

/// Bytes are gathered into writes of this size, and large ones cut: beyond it a system looks for
/// memory in larger pieces than it has at hand, which costs more than the calls that are saved.
const BUFFER_BYTES: usize = 64 * 1024;

/// A buffered output that knows its position and the section it is in.
pub(crate) struct SectionOutput<W: Write + Seek> {
    out: BufWriter<W>,
    position: u64,
    /// The last bytes before the position that were left to others: the output is not there yet.
    skipped: u64,
    section_start: u64,
    rows: Vec<SectionRow>,
}

impl<W: Write + Seek> SectionOutput<W> {
    pub(crate) fn new(out: W) -> SectionOutput<W> {
        SectionOutput {
            out: BufWriter::with_capacity(BUFFER_BYTES, out),
            position: 0,
            skipped: 0,
            section_start: 0,
            rows: Vec::new(),
        }
    }

    /// Returns the number of bytes written so far: where the next one goes.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if std::mem::take(&mut self.skipped) > 0 {
            self.out.seek(SeekFrom::Start(self.position))?;
        }
        for piece in bytes.chunks(BUFFER_BYTES) {
            self.out.write_all(piece)?;
        }
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// Leaves the next bytes to others. The output is empty there: until they come they are zeros.
    pub(crate) fn skip(&mut self, bytes: u64) {
        self.skipped += bytes;
        self.position += bytes;
    }

    /// Writes zeros up to a multiple of `align`.
    pub(crate) fn pad(&mut self, align: u64) -> io::Result<()> {
        static ZEROS: [u8; 4096] = [0; 4096];
        let mut needed = padding(self.position, align);
        if self.skipped > 0 {
            self.skip(needed);
            return Ok(());
        }
        while needed > 0 {
            let piece = usize::try_from(needed).ok().and_then(|most| ZEROS.get(..most));
            let piece = piece.unwrap_or(&ZEROS);
            self.write(piece)?;
            needed -= piece.len() as u64;
        }
        Ok(())
    }

    /// Begins a section at the next aligned offset, and returns that offset.
    pub(crate) fn begin_section(&mut self) -> io::Result<u64> {
        self.pad(SECTION_ALIGN_BYTES)?;
        self.section_start = self.position;
        Ok(self.position)
    }

    /// Ends the section and notes its row. `digest` is blake3 of its bytes.
    pub(crate) fn end_section(&mut self, kind: SectionKind, required: bool, digest: [u8; 32]) {
        self.rows.push(SectionRow {
            kind: kind.0.into(),
            version: SECTION_VERSION.into(),
            flags: if required { SECTION_REQUIRED } else { 0 }.into(),
            offset: self.section_start.into(),
            bytes: (self.position - self.section_start).into(),
            digest,
            reserved: [0; 8],
        });
    }

    /// Returns the rows of the sections that have ended, by rising offset.
    pub(crate) fn rows(&self) -> &[SectionRow] {
        &self.rows
    }

    /// Writes `page` over the first bytes of the output and returns the output, flushed.
    pub(crate) fn finish(mut self, page: &[u8]) -> io::Result<W> {
        self.out.flush()?;
        let mut out = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        out.seek(SeekFrom::Start(0))?;
        out.write_all(page)?;
        out.flush()?;
        Ok(out)
    }
}

/// Writes one whole section.
pub(crate) fn write_section<W: Write + Seek>(
    output: &mut SectionOutput<W>,
    kind: SectionKind,
    required: bool,
    parts: &[&[u8]],
) -> io::Result<()> {
    output.begin_section()?;
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        output.write(part)?;
        hasher.update(part);
    }
    output.end_section(kind, required, *hasher.finalize().as_bytes());
    Ok(())
}
