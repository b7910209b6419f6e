//! The bodies section as it is written: each content once, digests by block.

use std::collections::HashMap;
use std::io::{self, Read, Seek, Write};

use crate::digest::Digest;
use crate::layout::{PAGE_BYTES, RECORD_ALIGN_BYTES};
use crate::limits::{DIGEST_BLOCK_BYTES, PAGE_ALIGNED_BODY_MIN_BYTES};
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
    blocks: BlockDigests,
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
        self.append(sink, body)?;
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
            hasher.update(piece);
            self.append(sink, piece)?;
        }
        if left != 0 || hasher.finalize().as_bytes() != &digest.0 {
            return Err(WriteError::BodyChanged);
        }
        Ok(self.end(digest, offset, bytes))
    }

    /// Pads up to where a body of that length begins.
    fn begin<W: Write + Seek>(&mut self, sink: &mut Sink<W>, bytes: u64) -> io::Result<u64> {
        let large = bytes >= PAGE_ALIGNED_BODY_MIN_BYTES;
        let zeros = sink.pad(if large { PAGE_BYTES } else { RECORD_ALIGN_BYTES })?;
        self.blocks.update(zeros);
        Ok(sink.position())
    }

    fn append<W: Write + Seek>(&mut self, sink: &mut Sink<W>, bytes: &[u8]) -> io::Result<()> {
        sink.write(bytes)?;
        self.blocks.update(bytes);
        Ok(())
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

    /// The digests of all blocks; the section is complete.
    pub(crate) fn into_block_digests(self) -> Vec<[u8; 32]> {
        self.blocks.finish()
    }
}

/// blake3 over every [`DIGEST_BLOCK_BYTES`] of a stream.
#[derive(Default)]
struct BlockDigests {
    done: Vec<[u8; 32]>,
    open: blake3::Hasher,
    open_bytes: u64,
}

impl BlockDigests {
    fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = (DIGEST_BLOCK_BYTES - self.open_bytes) as usize;
            let (head, tail) = bytes.split_at(room.min(bytes.len()));
            self.open.update(head);
            self.open_bytes += head.len() as u64;
            if self.open_bytes == DIGEST_BLOCK_BYTES {
                self.close();
            }
            bytes = tail;
        }
    }

    fn close(&mut self) {
        self.done.push(*self.open.finalize().as_bytes());
        self.open.reset();
        self.open_bytes = 0;
    }

    fn finish(mut self) -> Vec<[u8; 32]> {
        if self.open_bytes > 0 {
            self.close();
        }
        self.done
    }
}
