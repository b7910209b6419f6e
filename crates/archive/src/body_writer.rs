//! The bodies section as it is written: each content once, a digest of each.

use std::io::{self, Read, Seek, Write};

use crate::digest::Digest;
use crate::digest_index::DigestIndex;
use crate::layout::{DigestRow, PAGE_BYTES, RECORD_ALIGN_BYTES};
use crate::limits::{LANDMARK_ALIGN_BYTES, LANDMARK_EVERY_BYTES, PAGE_ALIGNED_BODY_MIN_BYTES};
use crate::section_output::SectionOutput;
use crate::write_error::WriteError;

/// A body that can be named in an entry: stored in the archive, or registered as external. Its
/// writer knows the rest: [`Writer::bytes_of`](crate::Writer::bytes_of).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BodyRef(pub(crate) BodyNumber);

/// A number among its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BodyNumber {
    /// A body without bytes: there is nothing to have a digest of.
    Empty,
    /// Rank in the digests section.
    Stored(u32),
    /// Rank in the externals section.
    External(u32),
}

/// The room that a body is to be copied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyRoom {
    /// Its rank among the stored bodies, in the order of their offsets.
    pub number: u32,
    /// Its offset in the output.
    pub offset: u64,
}

impl BodyRef {
    /// Returns the number of the external file that holds it, `None` when it is in the archive.
    pub fn external(&self) -> Option<u32> {
        match self.0 {
            BodyNumber::External(number) => Some(number),
            BodyNumber::Empty | BodyNumber::Stored(_) => None,
        }
    }
}

/// A file that stays outside the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct External {
    /// Its length in bytes.
    pub bytes: u64,
    /// Its modification time in nanoseconds since 1970.
    pub modified_ns: i64,
}

/// Reads are made in pieces of this size when a body is streamed.
const COPY_BYTES: usize = 128 * 1024;

/// The bodies that were stored so far: 48 bytes for each, and an entry in the table.
#[derive(Default)]
pub(crate) struct BodyWriter {
    /// The rows by rising offset, because that is how they are written. Streamed bodies that turned
    /// out to be others than announced are among them: no entry refers to them, but their bytes are
    /// in the file.
    rows: Vec<DigestRow>,
    known: DigestIndex,
    /// The offset of the body without bytes, once there is one.
    empty: Option<u64>,
    /// No more of them can be stored.
    pub(crate) ended: bool,
    pub(crate) stored: u64,
    pub(crate) stored_bytes: u64,
    pub(crate) repeated: u64,
    pub(crate) repeated_bytes: u64,
}

impl BodyWriter {
    /// Makes room for that many more.
    pub(crate) fn reserve_rows(&mut self, more: usize) {
        self.rows.reserve(more);
        self.known.reserve(more, &self.rows);
    }

    pub(crate) fn known(&self, digest: &Digest) -> Option<BodyRef> {
        let found = self.known.find(digest, &self.rows).map(BodyNumber::Stored);
        let empty = || self.empty.filter(|_| *digest == Digest::of(b"")).map(|_| BodyNumber::Empty);
        found.or_else(empty).map(BodyRef)
    }

    pub(crate) fn store<W: Write + Seek>(
        &mut self,
        output: &mut SectionOutput<W>,
        digest: &Digest,
        body: &[u8],
    ) -> Result<BodyRef, WriteError> {
        if let Some(known) = self.repeat(digest) {
            return Ok(known);
        }
        let offset = self.begin(output, digest, body.len() as u64)?;
        output.write(body)?;
        self.end(digest, offset, body.len() as u64)
    }

    /// Makes room for a body, unless it is stored already or has no bytes.
    pub(crate) fn reserve<W: Write + Seek>(
        &mut self,
        output: &mut SectionOutput<W>,
        digest: &Digest,
        bytes: u64,
    ) -> Result<(BodyRef, Option<BodyRoom>), WriteError> {
        if let Some(known) = self.repeat(digest) {
            return Ok((known, None));
        }
        let offset = self.begin(output, digest, bytes)?;
        output.skip(bytes);
        let body = self.end(digest, offset, bytes)?;
        let room = match body.0 {
            BodyNumber::Stored(number) => Some(BodyRoom { number, offset }),
            BodyNumber::Empty | BodyNumber::External(_) => None,
        };
        Ok((body, room))
    }

    /// Streams a body. When it turns out to be another one than announced, the bytes stay in the
    /// section as a gap that nothing refers to.
    pub(crate) fn store_from<W: Write + Seek>(
        &mut self,
        output: &mut SectionOutput<W>,
        digest: &Digest,
        bytes: u64,
        from: &mut dyn Read,
    ) -> Result<BodyRef, WriteError> {
        if let Some(known) = self.repeat(digest) {
            return Ok(known);
        }
        let offset = self.begin(output, digest, bytes)?;
        let mut hasher = blake3::Hasher::new();
        let copied = copy(output, bytes, from, &mut hasher);
        let stored = Digest(*hasher.finalize().as_bytes());
        let failure = match copied {
            Ok(()) if stored == *digest => return self.end(digest, offset, bytes),
            Ok(()) => WriteError::BodyChanged,
            Err(error) => error,
        };
        let bytes = output.position() - offset;
        if bytes > 0 {
            self.rows.push(digest_row(&stored, offset, bytes));
        }
        Err(failure)
    }

    /// Returns where a body is and how long it is, from the first byte of the file.
    pub(crate) fn location(&self, number: u32) -> Option<(u64, u64)> {
        self.row(number).map(|row| (row.offset.get(), row.bytes.get()))
    }

    pub(crate) fn digest(&self, number: u32) -> Option<Digest> {
        self.row(number).map(|row| Digest(row.digest))
    }

    /// Returns where the body without bytes is.
    pub(crate) fn empty(&self) -> u64 {
        self.empty.unwrap_or_default()
    }

    /// Pads up to where a body begins.
    fn begin<W: Write + Seek>(
        &self,
        output: &mut SectionOutput<W>,
        digest: &Digest,
        bytes: u64,
    ) -> Result<u64, WriteError> {
        if self.ended {
            return Err(WriteError::BodiesEnded);
        }
        output.pad(if is_landmark(digest, bytes) {
            LANDMARK_ALIGN_BYTES
        } else if bytes >= PAGE_ALIGNED_BODY_MIN_BYTES {
            PAGE_BYTES
        } else {
            RECORD_ALIGN_BYTES
        })?;
        Ok(output.position())
    }

    fn end(&mut self, digest: &Digest, offset: u64, bytes: u64) -> Result<BodyRef, WriteError> {
        self.stored += 1;
        self.stored_bytes += bytes;
        if bytes == 0 {
            self.empty = Some(offset);
            return Ok(BodyRef(BodyNumber::Empty));
        }
        let number = u32::try_from(self.rows.len()).map_err(|_| WriteError::TooLarge)?;
        self.rows.push(digest_row(digest, offset, bytes));
        self.known.insert(number, &self.rows);
        Ok(BodyRef(BodyNumber::Stored(number)))
    }

    fn repeat(&mut self, digest: &Digest) -> Option<BodyRef> {
        let known = self.known(digest)?;
        self.repeated += 1;
        if let BodyNumber::Stored(number) = known.0 {
            self.repeated_bytes += self.location(number).map_or(0, |(_, bytes)| bytes);
        }
        Some(known)
    }

    fn row(&self, number: u32) -> Option<&DigestRow> {
        self.rows.get(usize::try_from(number).ok()?)
    }

    /// Returns a row for everything in the section, by rising offset.
    pub(crate) fn digests(&self) -> &[DigestRow] {
        &self.rows
    }
}

/// Returns whether a body's digest makes it a landmark, as it does one in [`LANDMARK_EVERY_BYTES`]
/// on average.
///
/// When a body changes, comes or goes, the bodies after it move; but from the next landmark on, by
/// multiples of [`LANDMARK_ALIGN_BYTES`] only. The next archive then carries them over in pieces
/// that the system has in memory as they are, or that a file system shares.
fn is_landmark(digest: &Digest, bytes: u64) -> bool {
    let [a, b, c, d, ..] = digest.0;
    let drawn = u64::from(u32::from_le_bytes([a, b, c, d]));
    (drawn * LANDMARK_EVERY_BYTES) >> 32 < bytes
}

/// Copies exactly `bytes` bytes, and feeds the copied bytes to `hasher` in every case.
fn copy<W: Write + Seek>(
    output: &mut SectionOutput<W>,
    bytes: u64,
    from: &mut dyn Read,
    hasher: &mut blake3::Hasher,
) -> Result<(), WriteError> {
    let mut piece = vec![0; COPY_BYTES];
    let mut left = bytes;
    loop {
        let read = match from.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(WriteError::Read(error)),
        };
        let piece = piece.get(..read).unwrap_or_default();
        left = left.checked_sub(read as u64).ok_or(WriteError::BodyChanged)?;
        output.write(piece)?;
        hasher.update(piece);
    }
    if left == 0 { Ok(()) } else { Err(WriteError::BodyChanged) }
}

fn digest_row(digest: &Digest, offset: u64, bytes: u64) -> DigestRow {
    DigestRow { offset: offset.into(), bytes: bytes.into(), digest: digest.0 }
}
