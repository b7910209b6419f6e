//! The section table alone, for programs that read an archive in pieces and not through a mapping.

use zerocopy::FromBytes;

use crate::damage::OpenError;
use crate::digest::Digest;
use crate::layout::{FileHeader, HEADER_PAGE_BYTES, SectionKind};
use crate::open::{Section, header_page, section, section_table};

/// The facts in the header page. No other part of the file was looked at.
#[derive(Clone, Debug)]
pub struct SectionTable {
    /// The digest of the archive, see [`Layout::digest`](crate::Layout::digest).
    pub digest: Digest,
    /// The section table, by rising offset; all of them lie within the file.
    pub sections: Vec<Section>,
}

impl SectionTable {
    /// Bytes that [`read`](Self::read) needs of the start of the file.
    pub const BYTES: usize = HEADER_PAGE_BYTES;

    /// Checks the header page and the bounds of all sections. `page` is the start of a file of
    /// `file_bytes` bytes.
    ///
    /// # Errors
    /// The errors of [`Layout::open`](crate::Layout::open), except those of the parts after the
    /// page.
    pub fn read(page: &[u8], file_bytes: u64) -> Result<SectionTable, OpenError> {
        let short = OpenError::NoHeaderPage { bytes: page.len() as u64 };
        let page = header_page(page)?;
        let (header, table) = FileHeader::ref_from_prefix(&page).map_err(|_| short)?;
        let expected = header.total_bytes.get();
        match file_bytes.cmp(&expected) {
            core::cmp::Ordering::Less => {
                return Err(OpenError::Truncated { expected, actual: file_bytes });
            }
            core::cmp::Ordering::Greater => {
                return Err(OpenError::TooLong { expected, actual: file_bytes });
            }
            core::cmp::Ordering::Equal => {}
        }
        let (digest, sections) = section_table(header, table)?;
        Ok(SectionTable { digest, sections })
    }

    /// Returns the first section of a kind, in the version that this program knows.
    #[must_use]
    pub fn section(&self, kind: SectionKind) -> Option<&Section> {
        section(&self.sections, kind)
    }
}
