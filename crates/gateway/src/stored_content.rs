//! Content of a request that is stored before a server is asked or a script is started: in memory
//! first, and the rest in a temporary file.

use std::io;

use pinion_jobs::byte_quota::ByteReservation;
use pinion_jobs::upload_spool::{StoreError, UploadSpool};

use crate::limits::REQUEST_PIECE_BYTES;
use crate::proxy::UploadQuotas;

/// The stored content of a request.
#[derive(Debug)]
pub(crate) struct StoredContent {
    spool: UploadSpool,
    /// The reservation of its part in memory.
    memory: Option<ByteReservation>,
    sent_bytes: u64,
}

impl StoredContent {
    pub(crate) fn new(quotas: &UploadQuotas) -> Self {
        let mut spool = UploadSpool::default();
        spool.belong_to(&quotas.files);
        Self { spool, memory: None, sent_bytes: 0 }
    }

    /// Adds content.
    ///
    /// # Errors
    /// It cannot be stored.
    pub(crate) fn append(&mut self, bytes: &[u8], quotas: &UploadQuotas) -> Result<(), StoreError> {
        self.spool.append(bytes)?;
        let held_bytes = self.spool.held_bytes();
        if self.memory.as_ref().is_some_and(|memory| memory.bytes() >= held_bytes) {
            return Ok(());
        }
        self.memory = None;
        self.memory = quotas.memory.try_reserve(held_bytes);
        if self.memory.is_some() {
            return Ok(());
        }
        Err(StoreError::Full(format!(
            "the uploads of all requests take {} MiB of memory, the most that they may; try again \
             later",
            quotas.memory.max_bytes() >> 20
        )))
    }

    /// Ends the content, all of which is there. Returns its number of bytes.
    ///
    /// # Errors
    /// The content cannot be stored.
    pub(crate) fn finish(&mut self) -> Result<u64, StoreError> {
        self.spool.finish()?;
        // Content in a file takes no memory any more.
        if self.spool.held_bytes() == 0 {
            self.memory = None;
        }
        Ok(self.spool.bytes())
    }

    /// Returns how many bytes there are.
    pub(crate) fn bytes(&self) -> u64 {
        self.spool.bytes()
    }

    /// Returns whether all of it was given out.
    pub(crate) fn is_at_end(&self) -> bool {
        self.sent_bytes == self.spool.bytes()
    }

    /// Makes the content readable once more from its beginning.
    pub(crate) fn rewind(&mut self) {
        self.sent_bytes = 0;
    }

    /// Returns the next piece of the content; `None` at its end.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn next_piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.next_piece_up_to(REQUEST_PIECE_BYTES)
    }

    /// Returns the next piece of the content, as [`Self::next_piece`], of at most so many bytes.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn next_piece_up_to(&mut self, bytes: u64) -> io::Result<Option<Vec<u8>>> {
        let left = self.spool.bytes() - self.sent_bytes;
        if left == 0 {
            return Ok(None);
        }
        let piece_bytes = left.min(bytes).min(REQUEST_PIECE_BYTES);
        let piece = self.spool.read(self.sent_bytes, piece_bytes)?;
        self.sent_bytes += piece.len() as u64;
        Ok(Some(piece))
    }
}
