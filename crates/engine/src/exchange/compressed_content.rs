//! Content that is compressed as it is sent: the part between the actions of an exchange and the
//! protocol that carries it ([`encode`](crate::response_compression)).

use std::os::unix::fs::FileExt;

use pinion_http::content_coding::Coding;
use pinion_http::field::Field;

use super::{ContentRoom, Exchange, ExchangeStage, Slice};
use crate::end_reason::Gone;
use crate::limits::{ENCODE_PIECE_MAX_BYTES, EXTERNAL_READ_BYTES};
use crate::response_compression::{EncoderOperation, Recoded, is_suited};
use crate::worker_buffers::Buffers;

impl Exchange<'_> {
    /// Allows the response to be compressed as it is sent by [`Self::write`], in the coding that
    /// [`encode::choose`](crate::response_compression::choose) gave for the request. It must be
    /// called before [`Self::head`], which checks whether the response is suited: see
    /// [`encode`](crate::response_compression) for that, and for the changes of its fields. A
    /// response is sent uncompressed if the worker compresses enough others, or to an HTTP/1.0
    /// client, which would lose its connection.
    ///
    /// Written content then stays in the encoder until there is enough of it: [`Self::flush`] sends
    /// it. A piece of a mapping or a file is read and compressed at once; one of more than
    /// [`ENCODE_PIECE_MAX_BYTES`] breaks the exchange ([`Gone::Broken`]).
    pub fn compress(&mut self, coding: Coding) {
        if let Some(state) = self.state().filter(|state| state.stage == ExchangeStage::Open) {
            state.coding = Some(coding);
        }
    }

    /// Sends the content written so far, so that the client can decode it: for events that must
    /// arrive now. Each call costs some bytes. It has no effect if nothing waits, as in an
    /// uncompressed response.
    pub fn flush(&mut self) -> ContentRoom {
        let state = self.state().filter(|state| state.stage == ExchangeStage::Streaming);
        let Some(state) = state else { return ContentRoom::Gone };
        let encoder = state.encoder;
        let waits = encoder.is_some_and(|id| self.core.buffers.encoders.holds_content(id));
        if waits && let Err(why) = self.encode(b"", EncoderOperation::Flush) {
            self.give_up(why);
            return ContentRoom::Gone;
        }
        self.room()
    }

    /// Begins a response that may be compressed in this coding.
    pub(super) fn head_in<'f>(
        &mut self,
        coding: Coding,
        status: u16,
        fields: impl Iterator<Item = Field<'f>> + Clone,
        length: Option<u64>,
    ) -> Result<(), Gone> {
        if !is_suited(status, fields.clone(), length) {
            return self.begin(status, fields, length);
        }
        let state = self.state().ok_or(Gone::Peer)?;
        let head_only = state.head_only;
        let mut coding = if state.http10 { Coding::Identity } else { coding };
        if coding != Coding::Identity && !head_only {
            let Buffers { encoders, pool, .. } = &mut self.core.buffers;
            let encoder = encoders.take(coding, pool);
            if encoder.is_none() {
                coding = Coding::Identity;
            }
            if let Some(state) = self.state() {
                state.encoder = encoder;
            }
        }
        let length = if coding == Coding::Identity { length } else { None };
        let recoded = Recoded::new(coding, status, fields.clone());
        self.begin(status, recoded.apply(fields), length)
    }

    /// Compresses content.
    pub(super) fn encode_slice(&mut self, slice: Slice<'_>) -> Result<(), Gone> {
        match slice {
            Slice::Copied(bytes) => self.encode(bytes, EncoderOperation::Process),
            Slice::Shared(bytes) => self.encode(&bytes, EncoderOperation::Process),
            Slice::Mapped { mapping, offset, bytes } => {
                self.encode_pieces(offset, bytes, |exchange, offset, piece| {
                    let mappings = &exchange.core.buffers.mappings;
                    let held = mappings.get(mapping).ok_or(Gone::Broken)?;
                    let range = held.range(offset, piece.len() as u64).ok_or(Gone::Broken)?;
                    piece.copy_from_slice(range);
                    Ok(())
                })
            }
            Slice::File { file, offset, bytes } => {
                self.encode_pieces(offset, bytes, |_, offset, piece| {
                    file.read_exact_at(piece, offset).map_err(|_| Gone::Broken)
                })
            }
        }
    }

    /// Compresses data that does not stay in memory, a piece at a time.
    fn encode_pieces(
        &mut self,
        offset: u64,
        bytes: u64,
        read: impl Fn(&Self, u64, &mut [u8]) -> Result<(), Gone>,
    ) -> Result<(), Gone> {
        let end = offset.checked_add(bytes).filter(|_| bytes <= ENCODE_PIECE_MAX_BYTES);
        let end = end.ok_or(Gone::Broken)?;
        let mut buffer = vec![0; bytes.min(EXTERNAL_READ_BYTES as u64) as usize];
        let mut at = offset;
        while at < end {
            let now = (end - at).min(buffer.len() as u64) as usize;
            let piece = buffer.get_mut(..now).ok_or(Gone::Broken)?;
            read(self, at, piece)?;
            self.encode(piece, EncoderOperation::Process)?;
            at += now as u64;
        }
        Ok(())
    }

    /// Gives content to the encoder and queues its output.
    pub(super) fn encode(
        &mut self,
        content: &[u8],
        operation: EncoderOperation,
    ) -> Result<(), Gone> {
        let id = self.state().and_then(|state| state.encoder).ok_or(Gone::Broken)?;
        let mut encoder = self.core.buffers.encoders.lift(id).ok_or(Gone::Broken)?;
        let mut out = std::mem::take(&mut self.core.encoding);
        let mut rest = content;
        let encoded = loop {
            let Some(step) = encoder.step(rest, operation, &mut out) else {
                break Err(Gone::Broken);
            };
            rest = rest.get(step.used..).unwrap_or_default();
            if !out.is_empty()
                && let Err(why) = self.send(Slice::Copied(&out))
            {
                break Err(why);
            }
            if step.is_done {
                break Ok(());
            }
        };
        self.core.encoding = out;
        self.core.buffers.encoders.put_back(id, encoder, operation == EncoderOperation::Process);
        encoded
    }

    /// Gives the encoder back after the last of the content. A response that is cut gives it back
    /// when the connection or the stream gives back all its resources.
    pub(super) fn drop_encoder(&mut self) {
        let mut encoder = self.state().and_then(|state| state.encoder.take());
        let Buffers { encoders, pool, .. } = &mut self.core.buffers;
        encoders.give_back(&mut encoder, pool);
    }
}
