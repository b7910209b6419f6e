//! The bodies section as it is written: each content once, a digest of each.

use std::collections::HashMap;
use std::io::{self, Read, Seek, Write};

use crate::digest::Digest;
use crate::layout::{DigestRow, PAGE_BYTES, RECORD_ALIGN_BYTES};
use crate::limits::PAGE_ALIGNED_BODY_MIN_BYTES;
use crate::sink::Sink;
use crate::writer::WriteError;

/// A body that can be named in an entry: stored in the archive, or registered as external.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyRef {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) external: Option<u32>,
}

impl BodyRef {
    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of the external file that holds it, None when it is in the archive.
    pub fn external(&self) -> Option<u32> {
        self.external
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

/// What was stored so far.
#[derive(Default)]
pub(crate) struct Bodies {
    known: HashMap<Digest, BodyRef>,
    /// Streamed bodies that turned out to be others than announced: nothing refers to them, but
    /// their bytes are in the file.
    unused: Vec<DigestRow>,
    pub(crate) stored: u64,
    pub(crate) stored_bytes: u64,
    pub(crate) repeated: u64,
    pub(crate) repeated_bytes: u64,
}

impl Bodies {
    pub(crate) fn known(&self, digest: &Digest) -> Option<BodyRef> {
        self.known.get(digest).copied()
    }

    pub(crate) fn store<W: Write + Seek>(
        &mut self,
        sink: &mut Sink<W>,
        digest: &Digest,
        body: &[u8],
    ) -> io::Result<BodyRef> {
        if let Some(known) = self.repeat(digest) {
            return Ok(known);
        }
        let offset = self.begin(sink, body.len() as u64)?;
        sink.write(body)?;
        Ok(self.end(digest, offset, body.len() as u64))
    }

    /// Streams a body. When it turns out to be another one than announced, the bytes stay in the
    /// section as a gap that nothing refers to.
    pub(crate) fn store_from<W: Write + Seek>(
        &mut self,
        sink: &mut Sink<W>,
        digest: &Digest,
        bytes: u64,
        from: &mut dyn Read,
    ) -> Result<BodyRef, WriteError> {
        if let Some(known) = self.repeat(digest) {
            return Ok(known);
        }
        let offset = self.begin(sink, bytes)?;
        let mut hasher = blake3::Hasher::new();
        let copied = copy(sink, bytes, from, &mut hasher);
        let stored = Digest(*hasher.finalize().as_bytes());
        let failure = match copied {
            Ok(()) if stored == *digest => return Ok(self.end(digest, offset, bytes)),
            Ok(()) => WriteError::BodyChanged,
            Err(error) => error,
        };
        let bytes = sink.position() - offset;
        self.unused.push(digest_row(&stored, offset, bytes));
        Err(failure)
    }

    /// Pads up to where a body of that length begins.
    fn begin<W: Write + Seek>(&self, sink: &mut Sink<W>, bytes: u64) -> io::Result<u64> {
        let large = bytes >= PAGE_ALIGNED_BODY_MIN_BYTES;
        sink.pad(if large { PAGE_BYTES } else { RECORD_ALIGN_BYTES })?;
        Ok(sink.position())
    }

    fn end(&mut self, digest: &Digest, offset: u64, bytes: u64) -> BodyRef {
        let body = BodyRef { offset, bytes, external: None };
        self.known.insert(*digest, body);
        self.stored += 1;
        self.stored_bytes += bytes;
        body
    }

    fn repeat(&mut self, digest: &Digest) -> Option<BodyRef> {
        let known = self.known(digest)?;
        self.repeated += 1;
        self.repeated_bytes += known.bytes;
        Some(known)
    }

    /// A row for everything in the section, by rising offset.
    pub(crate) fn into_digests(self) -> Vec<DigestRow> {
        let known = self.known.iter();
        let known = known.map(|(digest, body)| digest_row(digest, body.offset, body.bytes));
        let mut rows: Vec<DigestRow> =
            known.chain(self.unused).filter(|row| row.bytes.get() > 0).collect();
        rows.sort_unstable_by_key(|row| row.offset.get());
        rows
    }
}

/// Copies exactly `bytes` bytes, and feeds what was copied to `hasher` whatever happens.
fn copy<W: Write + Seek>(
    sink: &mut Sink<W>,
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
        sink.write(piece)?;
        hasher.update(piece);
    }
    if left == 0 { Ok(()) } else { Err(WriteError::BodyChanged) }
}

fn digest_row(digest: &Digest, offset: u64, bytes: u64) -> DigestRow {
    DigestRow { offset: offset.into(), bytes: bytes.into(), digest: digest.0 }
}
