//! Writes frames `REQUESTS`: one or more requests as Python values, in one frame.

use super::error::BatchError;
use super::frame::{FRAME_HEADER_BYTES, REQUESTS, header};
use super::limits::{
    BATCH_MAX_BYTES, BATCH_REQUESTS_MAX, BATCHED_CONTENT_MAX_BYTES, KEPT_BATCH_MAX_BYTES,
};
use super::marshal_writer::{
    begin_dict, begin_list, begin_tuple, end_dict, write_bytes, write_int, write_interned,
    write_none, write_str,
};
use crate::cgi::limits::VARIABLES_MAX_BYTES;
use crate::cgi::variable_error::{VariableError, check_variable};

/// Values of the tuple of a request: its number, its environ, its content.
const REQUEST_VALUES: u8 = 3;

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
#[derive(Clone, Debug, Default)]
pub struct RequestBatch {
    /// Empty, or a frame whose lengths are missing.
    frame: Vec<u8>,
    requests: u32,
}

impl RequestBatch {
    /// Makes an empty batch. It allocates nothing before the first request.
    #[must_use]
    pub const fn new() -> RequestBatch {
        RequestBatch { frame: Vec::new(), requests: 0 }
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

    /// Adds a request with this number, which is not 0. `fill` gives the variables; see
    /// [`RequestVariables::visit`](crate::cgi::variables::RequestVariables::visit).
    ///
    /// # Errors
    /// Refuses content that is too long for a batch, a variable that is malformed, more than
    /// [`VARIABLES_MAX_BYTES`] of them, what `fill` returns, and a request for which other ones
    /// have left no space ([`BatchError::Full`]). The batch is then as it was.
    pub fn add(
        &mut self,
        request: u32,
        content: BatchedContent<'_>,
        fill: impl FnOnce(&mut EnvironWriter<'_>) -> Result<(), VariableError>,
    ) -> Result<(), BatchError> {
        debug_assert!(request != 0, "0 is the number of no request");
        if self.is_full() {
            return Err(BatchError::Full);
        }
        if let BatchedContent::Whole(bytes) = content
            && bytes.len() > BATCHED_CONTENT_MAX_BYTES
        {
            return Err(BatchError::ContentTooLarge);
        }
        let before = self.frame.len();
        let written = self.write(request, content, fill);
        if written.is_err() {
            self.frame.truncate(before);
        }
        written
    }

    fn write(
        &mut self,
        request: u32,
        content: BatchedContent<'_>,
        fill: impl FnOnce(&mut EnvironWriter<'_>) -> Result<(), VariableError>,
    ) -> Result<(), BatchError> {
        let out = &mut self.frame;
        if out.is_empty() {
            out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
            begin_list(out, 0);
        }
        begin_tuple(out, REQUEST_VALUES);
        write_int(out, request);
        begin_dict(out);
        fill(&mut EnvironWriter { out, bytes: 0 })?;
        end_dict(out);
        match content {
            BatchedContent::Whole(bytes) => write_bytes(out, bytes),
            BatchedContent::Streamed => write_none(out),
        }
        // A request alone is never too long, see the limits.
        if out.len() - FRAME_HEADER_BYTES > BATCH_MAX_BYTES {
            return Err(BatchError::Full);
        }
        self.requests += 1;
        Ok(())
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

/// Writes the variables of a request as a dictionary of strings.
#[derive(Debug)]
pub struct EnvironWriter<'a> {
    pub(super) out: &'a mut Vec<u8>,
    /// Bytes of all variables.
    pub(super) bytes: usize,
}

impl EnvironWriter<'_> {
    /// Appends a variable; of several with the same name the last one stays.
    ///
    /// # Errors
    /// Refuses a malformed variable, and one that makes all of them longer than
    /// [`VARIABLES_MAX_BYTES`].
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), VariableError> {
        check_variable(name, value)?;
        self.bytes += VARIABLE_BYTES + name.len() + value.len();
        if self.bytes > VARIABLES_MAX_BYTES {
            return Err(VariableError::TooLarge);
        }
        if is_well_known(name) {
            write_interned(self.out, name);
        } else {
            write_str(self.out, name);
        }
        write_str(self.out, value);
        Ok(())
    }
}

/// Bytes that a variable counts besides its name and its value: their types and lengths.
const VARIABLE_BYTES: usize = 10;

/// Returns whether the name of a variable is one of few, so that it may be interned: it is not of a
/// field, or is of one that clients often send.
fn is_well_known(name: &[u8]) -> bool {
    let Some(field) = name.strip_prefix(b"HTTP_") else { return true };
    matches!(
        field,
        b"ACCEPT"
            | b"ACCEPT_ENCODING"
            | b"ACCEPT_LANGUAGE"
            | b"AUTHORIZATION"
            | b"CACHE_CONTROL"
            | b"COOKIE"
            | b"DNT"
            | b"FORWARDED"
            | b"HOST"
            | b"IF_MATCH"
            | b"IF_MODIFIED_SINCE"
            | b"IF_NONE_MATCH"
            | b"IF_RANGE"
            | b"IF_UNMODIFIED_SINCE"
            | b"ORIGIN"
            | b"PRAGMA"
            | b"PRIORITY"
            | b"RANGE"
            | b"REFERER"
            | b"SEC_CH_UA"
            | b"SEC_CH_UA_MOBILE"
            | b"SEC_CH_UA_PLATFORM"
            | b"SEC_FETCH_DEST"
            | b"SEC_FETCH_MODE"
            | b"SEC_FETCH_SITE"
            | b"SEC_FETCH_USER"
            | b"SEC_GPC"
            | b"UPGRADE_INSECURE_REQUESTS"
            | b"USER_AGENT"
            | b"X_FORWARDED_FOR"
            | b"X_FORWARDED_HOST"
            | b"X_FORWARDED_PROTO"
            | b"X_REAL_IP"
            | b"X_REQUESTED_WITH"
    )
}
