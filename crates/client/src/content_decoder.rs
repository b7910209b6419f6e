//! Decoding of the content of responses (RFC 9110 §8.4): gzip and brotli, with bounds on the growth
//! of a short response.

use std::fmt;

use flate2::{Decompress, FlushDecompress, Status};
use pinion_brotli::{StreamDecoder, StreamError};
use thiserror::Error;

use crate::limits::{DECODED_FREE_BYTES, DECODED_RATIO_MAX};

/// The value of `Accept-Encoding` for the codings that are decoded here.
pub const ACCEPTED_CODINGS: &[u8] = b"gzip, br";

/// The value of `Accept-Encoding` when no more brotli can be decoded
/// ([`BROTLI_DECODERS_MAX`](crate::limits::BROTLI_DECODERS_MAX)).
pub const ACCEPTED_WITHOUT_BROTLI: &[u8] = b"gzip";

/// A content coding that is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentCoding {
    /// gzip (RFC 9110 §8.4.1.3); also under its old name `x-gzip`.
    Gzip,
    /// brotli (RFC 7932).
    Brotli,
}

impl ContentCoding {
    /// Returns the coding that a value of `Content-Encoding` names, if it names one of these alone.
    #[must_use]
    pub fn of(value: &[u8]) -> Option<Self> {
        let is = |name: &str| value.trim_ascii().eq_ignore_ascii_case(name.as_bytes());
        if is("gzip") || is("x-gzip") {
            Some(Self::Gzip)
        } else if is("br") {
            Some(Self::Brotli)
        } else {
            None
        }
    }
}

impl fmt::Display for ContentCoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Brotli => "brotli",
        })
    }
}

/// The reason why content is not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The content is not valid in its coding.
    #[error("the response's content is not valid {0}")]
    Malformed(ContentCoding),
    /// The content ends within its coding.
    #[error("the response's content ends in the middle of its {0} data")]
    Incomplete(ContentCoding),
    /// The window of brotli needs more memory than it may have.
    #[error("the response's content has a brotli window above 4 MiB; ask for another coding")]
    Window,
    /// The content grows so much that it is an attack (a decompression bomb).
    #[error(
        "the response's content grows more than {DECODED_RATIO_MAX}-fold when it is decoded, which \
         is refused"
    )]
    Ratio,
}

/// The decoder of one response's content.
#[derive(Debug)]
pub struct ContentDecoder {
    machine: Machine,
    /// Encoded bytes that were used.
    used_bytes: u64,
    /// Bytes of content that were decoded from them.
    decoded_bytes: u64,
    is_at_end: bool,
    /// Whether other bytes have followed the end, so that all further input is ignored.
    is_over: bool,
    /// The error, if there was one. The machine is not used again then: its state is invalid.
    failed: Option<DecodeError>,
}

enum Machine {
    Gzip(Box<Decompress>),
    Brotli(Box<StreamDecoder>),
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.coding().fmt(f)
    }
}

impl Machine {
    fn coding(&self) -> ContentCoding {
        match self {
            Self::Gzip(_) => ContentCoding::Gzip,
            Self::Brotli(_) => ContentCoding::Brotli,
        }
    }

    /// Returns how much was used and written, and whether the data is at its end.
    fn step(
        &mut self,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(usize, usize, bool), DecodeError> {
        match self {
            Self::Gzip(machine) => {
                let (before_in, before_out) = (machine.total_in(), machine.total_out());
                let status = machine.decompress(input, output, FlushDecompress::None);
                let status = status.map_err(|_| DecodeError::Malformed(ContentCoding::Gzip))?;
                let used = machine.total_in() - before_in;
                let written = machine.total_out() - before_out;
                Ok((used as usize, written as usize, status == Status::StreamEnd))
            }
            Self::Brotli(machine) => {
                let step = machine.step(input, output).map_err(|error| match error {
                    StreamError::Malformed => DecodeError::Malformed(ContentCoding::Brotli),
                    StreamError::Window => DecodeError::Window,
                })?;
                Ok((step.used, step.written, step.is_at_end))
            }
        }
    }
}

impl ContentDecoder {
    /// Creates a decoder of this coding.
    #[must_use]
    pub fn new(coding: ContentCoding) -> Self {
        let machine = match coding {
            ContentCoding::Gzip => Machine::Gzip(Box::new(Decompress::new_gzip(WINDOW_BITS))),
            ContentCoding::Brotli => Machine::Brotli(Box::default()),
        };
        Self {
            machine,
            used_bytes: 0,
            decoded_bytes: 0,
            is_at_end: false,
            is_over: false,
            failed: None,
        }
    }

    /// Appends at most `room` bytes of content to `out`. Returns how many bytes at the front of
    /// `input` were used; the others have to be passed again.
    ///
    /// # Errors
    /// Fails if the data is malformed, or grows too much. The error is the same each time from then
    /// on.
    pub fn decode(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        room: usize,
    ) -> Result<usize, DecodeError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let decoded = self.decode_on(input, out, room);
        self.failed = decoded.err();
        decoded
    }

    fn decode_on(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        room: usize,
    ) -> Result<usize, DecodeError> {
        let (mut used, mut room) = (0, room);
        loop {
            let rest = input.get(used..).unwrap_or_default();
            if self.is_at_end {
                // Several members of gzip count as one (RFC 1952 §2.2). Any other bytes that follow
                // are padding of some servers, and invalid in any case.
                let Machine::Gzip(machine) = &mut self.machine else { return Ok(input.len()) };
                if self.is_over {
                    return Ok(input.len());
                }
                if rest.len() < GZIP_MAGIC.len() && GZIP_MAGIC.starts_with(rest) {
                    return Ok(used);
                }
                if !rest.starts_with(GZIP_MAGIC) {
                    self.is_over = true;
                    return Ok(input.len());
                }
                **machine = Decompress::new_gzip(WINDOW_BITS);
                self.is_at_end = false;
            }
            let before = out.len();
            let piece = room.min(PIECE_BYTES);
            out.resize(before + piece, 0);
            let step = self.machine.step(rest, out.get_mut(before..).unwrap_or_default());
            let (step_used, written, is_at_end) = match step {
                Ok(step) => step,
                Err(error) => {
                    out.truncate(before);
                    return Err(error);
                }
            };
            out.truncate(before + written);
            (used, room) = (used + step_used, room - written);
            self.used_bytes += step_used as u64;
            self.decoded_bytes += written as u64;
            self.is_at_end = is_at_end;
            let bound = self.used_bytes.saturating_mul(DECODED_RATIO_MAX).max(DECODED_FREE_BYTES);
            if self.decoded_bytes > bound {
                return Err(DecodeError::Ratio);
            }
            if !is_at_end && (room == 0 || step_used + written == 0) {
                return Ok(used);
            }
        }
    }

    /// Checks that the data is complete, once all of it was given and used.
    ///
    /// # Errors
    /// Fails if the data is incomplete. No data at all counts as empty content.
    pub fn end(&self) -> Result<(), DecodeError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.is_at_end || self.used_bytes == 0 {
            return Ok(());
        }
        Err(DecodeError::Incomplete(self.machine.coding()))
    }
}

/// The window of gzip (RFC 1952 with RFC 1951 §2: 32 KiB).
const WINDOW_BITS: u8 = 15;

/// The first bytes of each member of gzip (RFC 1952 §2.3.1).
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

/// The maximum number of bytes of content that one step of a decoder makes.
const PIECE_BYTES: usize = 16 * 1024;

#[cfg(test)]
mod tests;
