//! The digests section as a reader uses it: the content of a stored body by its digest. No lookup
//! of a server needs it; a program that compares or copies bodies does.

use zerocopy::FromBytes;

use crate::archive::{Archive, BodyLocation};
use crate::byte_span::slice;
use crate::damage::{ArchivePart, Damage, Fault};
use crate::digest::Digest;
use crate::entry::Representation;
use crate::layout::{DigestRow, SectionKind};

/// The rows of the section, which were hashed as a whole.
#[derive(Clone, Copy)]
pub struct BodyDigests<'a> {
    rows: &'a [DigestRow],
}

impl<'a> Archive<'a> {
    /// Reads the digests section: 48 bytes for each body, all of them hashed once.
    ///
    /// # Errors
    /// [`Damage`] of the section.
    pub fn digests(&self) -> Result<BodyDigests<'a>, Damage> {
        let span = self.layout.digests;
        let damage = |fault| Damage {
            part: ArchivePart::Section(SectionKind::DIGESTS),
            offset: span.offset,
            fault,
        };
        let bytes = slice(self.bytes, span.offset, span.bytes).ok_or(damage(Fault::Outside))?;
        let section = self.layout.section(SectionKind::DIGESTS);
        if section.is_none_or(|section| section.digest != Digest::of(bytes)) {
            return Err(damage(Fault::Checksum));
        }
        let rows = <[DigestRow]>::ref_from_bytes(bytes).map_err(|_| damage(Fault::Length))?;
        Ok(BodyDigests { rows })
    }
}

impl BodyDigests<'_> {
    /// Returns the digest of the stored bytes of a representation of the same archive, as it was
    /// when they were written; `None` when they are in an external file.
    ///
    /// # Errors
    /// [`Damage`] when the section does not know the body.
    pub fn of(
        &self,
        archive: &Archive<'_>,
        representation: &Representation<'_>,
    ) -> Result<Option<Digest>, Damage> {
        let BodyLocation::Archive(range) = archive.body_location(representation)? else {
            return Ok(None);
        };
        if range.bytes == 0 {
            return Ok(Some(Digest::of(b"")));
        }
        let row = self.rows.binary_search_by_key(&range.offset, |row| row.offset.get());
        let row = row.ok().and_then(|rank| self.rows.get(rank));
        match row.filter(|row| row.bytes.get() == range.bytes) {
            Some(row) => Ok(Some(Digest(row.digest))),
            None => Err(Damage {
                part: ArchivePart::Body,
                offset: range.offset,
                fault: Fault::Unlisted,
            }),
        }
    }

    /// Returns the stored bytes of a representation, which are those of their digest; `None` when
    /// they are in an external file.
    ///
    /// # Errors
    /// [`Damage`] when they are others, or cannot be found.
    pub fn sound_body<'a>(
        &self,
        archive: &Archive<'a>,
        representation: &Representation<'_>,
    ) -> Result<Option<(Digest, &'a [u8])>, Damage> {
        let BodyLocation::Archive(range) = archive.body_location(representation)? else {
            return Ok(None);
        };
        let (body, digest) = (archive.body(representation)?, self.of(archive, representation)?);
        match body.zip(digest) {
            Some((body, digest)) if Digest::of(body) == digest => Ok(Some((digest, body))),
            _ => Err(Damage {
                part: ArchivePart::Body,
                offset: range.offset,
                fault: Fault::Checksum,
            }),
        }
    }
}

impl core::fmt::Debug for BodyDigests<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} digests", self.rows.len())
    }
}
