//! Writes frames `REQUESTS`: one or more requests as Python values, in one frame.

use super::environ::Environ;
use super::error::BatchError;
use super::frame_header::{FRAME_HEADER_BYTES, REQUESTS, header};
use super::limits::{
    BATCH_MAX_BYTES, BATCH_REQUESTS_MAX, BATCHED_CONTENT_MAX_BYTES, KEPT_BATCH_MAX_BYTES,
};
use super::marshal_shared_values::SharedValues;
use super::marshal_writer::{
    begin_dict, begin_list, begin_tuple, end_dict, write_bytes, write_int, write_none,
};

/// Values of the tuple of a request: its number, its environ, its content.
const REQUEST_VALUES: u8 = 3;

/// Bytes of a request besides its environ and its content: at most eleven for its number, and the
/// others for types, ends and the length of the content.
const REQUEST_EXTRA_BYTES: usize = 24;

/// Bytes before the first request: the header of the frame, and the front of the list.
const FRONT_BYTES: usize = FRAME_HEADER_BYTES + 5;

/// The content of a request in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchedContent<'a> {
    /// The whole content, which may be empty. At most [`BATCHED_CONTENT_MAX_BYTES`].
    Whole(&'a [u8]),
    /// Content follows in frames of its own, when the application wants it.
    Streamed,
}

/// Requests that go to a Python process together: the bytes of one frame, which are written in
/// place. An empty batch can be filled again, and then allocates nothing for usual requests.
#[derive(Clone, Debug)]
pub struct RequestBatch {
    /// The frame, whose lengths are missing; it may be empty.
    frame: Vec<u8>,
    requests: u32,
    shared: SharedValues,
}

impl Default for RequestBatch {
    fn default() -> RequestBatch {
        RequestBatch::new()
    }
}

impl RequestBatch {
    /// Makes an empty batch. It allocates nothing before the first request.
    #[must_use]
    pub const fn new() -> RequestBatch {
        RequestBatch { frame: Vec::new(), requests: 0, shared: SharedValues::new() }
    }

    /// Returns how many requests the batch has.
    #[must_use]
    pub const fn requests(&self) -> u32 {
        self.requests
    }

    /// Returns whether the batch has no requests.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.requests == 0
    }

    /// Returns whether the batch has [`BATCH_REQUESTS_MAX`] requests, so that no other one fits.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.requests >= BATCH_REQUESTS_MAX
    }

    /// Returns how many bytes the frame has, its header included.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.frame.len()
    }

    /// Adds a request with this number, which is not 0.
    ///
    /// # Errors
    /// Refuses content that is too long for a batch, and a request for which other ones have left
    /// no space ([`BatchError::Full`]). The batch is then as it was.
    pub fn add(
        &mut self,
        request: u32,
        content: BatchedContent<'_>,
        environ: &Environ,
    ) -> Result<(), BatchError> {
        debug_assert!(request != 0, "0 is the number of no request");
        let content_bytes = match content {
            BatchedContent::Whole(bytes) => bytes.len(),
            BatchedContent::Streamed => 0,
        };
        if content_bytes > BATCHED_CONTENT_MAX_BYTES {
            return Err(BatchError::ContentTooLarge);
        }
        // A request alone is never too long, see the limits.
        let most = REQUEST_EXTRA_BYTES + environ.encoded.len() + content_bytes;
        let free = BATCH_MAX_BYTES - self.frame.len().saturating_sub(FRAME_HEADER_BYTES);
        if self.is_full() || !self.is_empty() && most > free {
            return Err(BatchError::Full);
        }
        self.write(request, content, environ);
        Ok(())
    }

    fn write(&mut self, request: u32, content: BatchedContent<'_>, environ: &Environ) {
        let out = &mut self.frame;
        if out.is_empty() {
            out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
            begin_list(out, 0);
        }
        begin_tuple(out, REQUEST_VALUES);
        write_int(out, request);
        begin_dict(out);
        // Many batches have one request: its values are not searched for those of others.
        if self.requests == 0 {
            out.extend_from_slice(&environ.encoded);
        } else {
            self.shared.append(&environ.encoded, out);
        }
        end_dict(out);
        match content {
            BatchedContent::Whole(bytes) => write_bytes(out, bytes),
            BatchedContent::Streamed => write_none(out),
        }
        self.requests += 1;
    }

    /// Completes the lengths, and returns the bytes of the frame: none if the batch is empty. More
    /// requests may still be added, but the bytes must be sent only once; see
    /// [`RequestBatch::clear`].
    #[must_use]
    pub fn frame(&mut self) -> &[u8] {
        if let Some((front, rest)) = self.frame.split_first_chunk_mut::<FRONT_BYTES>() {
            let frame_bytes = FRONT_BYTES - FRAME_HEADER_BYTES + rest.len();
            let (head, list) = front.split_at_mut(FRAME_HEADER_BYTES);
            head.copy_from_slice(&header(REQUESTS, 0, frame_bytes as u32));
            if let Some((_, values)) = list.split_first_mut() {
                values.copy_from_slice(&self.requests.to_le_bytes());
            }
        }
        &self.frame
    }

    /// Makes the batch empty. It keeps its memory, but not that of unusual requests.
    pub fn clear(&mut self) {
        self.frame.clear();
        self.frame.shrink_to(KEPT_BATCH_MAX_BYTES);
        self.requests = 0;
        self.shared.clear();
    }

    /// Appends the frame to `out`, and makes the batch empty. If `out` is empty, no bytes are
    /// copied.
    pub fn move_to(&mut self, out: &mut Vec<u8>) {
        let _ = self.frame();
        if out.is_empty() {
            core::mem::swap(out, &mut self.frame);
        } else {
            out.extend_from_slice(&self.frame);
        }
        self.clear();
    }
}
