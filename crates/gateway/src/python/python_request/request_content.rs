//! Content of a request: it is stored before a process gets the request, or comes from the client
//! as the process reads it.

use pinion_engine::exchange::Exchange;
use pinion_http::python::frame_writer::{write_content, write_content_end};
use pinion_jobs::upload_spool::StoreError;

use super::super::limits::{CONTENT_PIECE_BYTES, WHOLE_CONTENT_MAX_BYTES};
use super::super::python_failure::PythonFailure;
use super::PythonRequest;
use crate::proxy::UploadQuotas;
use crate::proxy_error::ProxyError;
use crate::stored_content::StoredContent;

impl PythonRequest {
    /// Returns how much content the client is asked for before a process wants it. If it has come
    /// by the time the request goes to the process, it goes with it.
    pub(in crate::python) fn prefetched_bytes(&self) -> u64 {
        self.asked_bytes
    }

    /// Returns how much content the client may send.
    pub(in crate::python) fn content_max_bytes(&self) -> u64 {
        match self.stored {
            Some(_) => self.app.stored_max_bytes.max(WHOLE_CONTENT_MAX_BYTES),
            // The application decides how much it takes.
            None => u64::MAX,
        }
    }

    /// Stores content.
    ///
    /// # Errors
    /// There is no space for it.
    pub(in crate::python) fn store(
        &mut self,
        bytes: &[u8],
        uploads: &UploadQuotas,
    ) -> Result<(), ProxyError> {
        let Some(stored) = &mut self.stored else { return Ok(()) };
        stored.append(bytes, uploads).map_err(not_stored)
    }

    /// Ends the stored content, all of which is there.
    ///
    /// # Errors
    /// It cannot be stored, or the variables become too long by its length.
    pub(in crate::python) fn finish_storing(&mut self) -> Result<(), ProxyError> {
        self.has_all_content = true;
        let Some(stored) = &mut self.stored else { return Ok(()) };
        let bytes = stored.finish().map_err(not_stored)?;
        if self.lacks_length {
            let added = self.environ.add(b"CONTENT_LENGTH", bytes.to_string().as_bytes());
            added.map_err(|error| self.error(PythonFailure::Variables(error)))?;
        }
        let taken = self.take_whole_content();
        taken.map_err(|error| ProxyError::Stored(error.to_string().into()))
    }

    /// Takes the content that goes to the process with the request if that is short. Other content
    /// is streamed.
    fn take_whole_content(&mut self) -> std::io::Result<()> {
        let Some(stored) = &mut self.stored else { return Ok(()) };
        if stored.bytes() > WHOLE_CONTENT_MAX_BYTES {
            return Ok(());
        }
        let mut whole = Vec::new();
        while let Some(piece) = stored.next_piece()? {
            whole.extend_from_slice(&piece);
        }
        self.stored = None;
        self.whole_content = Some(whole);
        Ok(())
    }

    /// Takes content that has come from the client, perhaps more than it was asked for.
    pub(in crate::python) fn add_content(&mut self, bytes: &[u8]) {
        self.asked_bytes = self.asked_bytes.saturating_sub(bytes.len() as u64);
        self.waiting_content.extend_from_slice(bytes);
    }

    /// Records that all content has come from the client, and none of it is waited for any more.
    pub(in crate::python) fn end_content(&mut self) {
        self.has_all_content = true;
        self.asked_bytes = 0;
    }

    /// Records that the process wants so many more bytes of content. Content that has come is given
    /// later.
    pub(super) fn want_content(&mut self, bytes: u64, exchange: &mut Exchange<'_>) {
        self.wanted_bytes = self.wanted_bytes.saturating_add(bytes);
        let coming_bytes = self.asked_bytes + self.waiting_content.len() as u64;
        let missing_bytes = self.wanted_bytes.saturating_sub(coming_bytes);
        if !self.has_all_content && missing_bytes > 0 {
            exchange.want(missing_bytes);
            self.asked_bytes += missing_bytes;
        }
    }

    /// Gives the process the wanted part of the content that has come, up to a piece, and the end
    /// of it. Returns whether there is more to give.
    ///
    /// # Errors
    /// Stored content cannot be read.
    pub(in crate::python) fn give_content(
        &mut self,
        number: u32,
        out: &mut Vec<u8>,
    ) -> Result<bool, ProxyError> {
        let bytes = self.wanted_bytes.min(CONTENT_PIECE_BYTES);
        match &mut self.stored {
            Some(stored) if bytes > 0 => {
                let piece = stored.next_piece_up_to(bytes);
                let piece = piece.map_err(|error| ProxyError::Stored(error.to_string().into()))?;
                let piece = piece.unwrap_or_default();
                self.wanted_bytes -= piece.len() as u64;
                write_content(out, number, &piece);
            }
            Some(_) => {}
            None => {
                let waiting = &mut self.waiting_content;
                let bytes = waiting.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
                self.wanted_bytes -= bytes as u64;
                write_content(out, number, &waiting[..bytes]);
                waiting.drain(..bytes);
            }
        }
        if self.stored.as_ref().is_some_and(StoredContent::is_at_end) {
            // Its file and its share of the space are free for others.
            self.stored = None;
        }
        let is_all = self.stored.is_none() && self.waiting_content.is_empty();
        if is_all && self.has_all_content && !self.has_given_end {
            self.has_given_end = true;
            write_content_end(out, number);
        }
        Ok(self.wanted_bytes > 0 && !is_all)
    }
}

fn not_stored(error: StoreError) -> ProxyError {
    match error {
        StoreError::Full(why) => ProxyError::StorageFull(why.into()),
        StoreError::Io(error) => ProxyError::Stored(error.to_string().into()),
    }
}
