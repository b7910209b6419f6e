//! The actions with which an application sends the response of an exchange: one that is prepared,
//! or a head whose content follows.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use pinion_http::field::Field;
use pinion_http::prepared_response::{Prepared, SharedFields};
use pinion_http::status::{StatusContent, status_content};

use super::{AddedFields, Carrier, ContentRoom, Exchange, ExchangeStage, RangeSource, Slice};
use crate::end_reason::Gone;
use crate::file_mapping::MappingId;
use crate::http1::Http1;
use crate::limits::{OUTPUT_HIGH_WATER_BYTES, STREAM_HIGH_WATER_BYTES};
use crate::protocol_dispatch::Response;
use crate::response_compression::EncoderOperation;

impl Exchange<'_> {
    /// Sends a complete response from memory or from an archive. Its archive ranges and external
    /// files refer to `mapping`. The call is ignored if a final head was already sent. The exchange
    /// is over for the application, whether or not the response reaches the client.
    #[inline]
    pub fn prepared(&mut self, response: &Prepared<'_>, mapping: Option<MappingId>) {
        self.prepared_of(response, RangeSource::of(mapping));
    }

    /// Sends a complete response as [`Self::prepared`] does, with ranges of an open file: each
    /// external range of the body is a range of this file, regardless of the file, size and time
    /// that it names. They are sent as a [`Slice::File`] is.
    pub fn prepared_file(&mut self, response: &Prepared<'_>, file: &Arc<File>) {
        self.prepared_of(response, RangeSource::File(file));
    }

    /// Sends a complete response as [`Self::prepared`] does, with ranges of bytes in memory: each
    /// external range of the body is one of them. Long ones are shared, short ones copied.
    #[inline]
    pub fn prepared_shared(&mut self, response: &Prepared<'_>, bytes: &Bytes) {
        self.prepared_of(response, RangeSource::Shared(bytes));
    }

    #[inline(always)]
    fn prepared_of(&mut self, response: &Prepared<'_>, source: RangeSource<'_>) {
        let Some(mut writer) = self.response() else { return };
        let Some(state) = writer.state() else { return };
        match state.stage {
            ExchangeStage::Open => state.stage = ExchangeStage::Done,
            ExchangeStage::Broken => return state.stage = ExchangeStage::Aborted,
            _ => return,
        }
        let queued = match state.added.take() {
            None => writer.prepared(response, source),
            Some(added) => prepared_with(&mut writer, &added, response, source),
        };
        self.give_up_unless(queued);
    }

    /// Adds fields to the final response, regardless of its origin: whole lines in the form of
    /// HTTP/1. They replace fields of the response with the same names, except that `Vary` has the
    /// values of both; a line without a value is not sent and only removes others. The call is
    /// ignored if a final head was already sent.
    pub fn add_fields(&mut self, lines: &[u8]) {
        if let Some(state) = self.state().filter(|state| state.stage == ExchangeStage::Open) {
            state.added.get_or_insert_default().append(lines);
        }
    }

    /// Forbids caches to keep a prepared response for several users, because it is for one user
    /// ([`AddedFields::set_private`]). The call is ignored in the cases of [`Self::add_fields`].
    pub fn set_private(&mut self) {
        if let Some(state) = self.state().filter(|state| state.stage == ExchangeStage::Open) {
            state.added.get_or_insert_default().set_private();
        }
    }

    /// Returns whether the request is HEAD, so that its response is sent without content.
    pub fn is_head_only(&mut self) -> bool {
        self.state().is_some_and(|state| state.head_only)
    }

    /// Sends an interim response (1xx), such as 103 Early Hints. It is not sent to HTTP/1.0 clients
    /// (RFC 9110 §15.2).
    pub fn interim<'f>(&mut self, status: u16, fields: impl Iterator<Item = Field<'f>> + Clone) {
        debug_assert!((100..200).contains(&status) && status != 101);
        let Some(mut response) = self.response() else { return };
        if !response
            .state()
            .is_some_and(|state| state.stage == ExchangeStage::Open && !state.http10)
        {
            return;
        }
        let queued = response.interim(status, fields);
        self.give_up_unless(queued);
    }

    /// Begins a final response whose content follows by [`Self::write`]. Over HTTP/1 a response
    /// without a length is sent in chunks, or until close to HTTP/1.0 clients. Content of a status
    /// that has none is dropped.
    pub fn head<'f>(
        &mut self,
        status: u16,
        fields: impl Iterator<Item = Field<'f>> + Clone,
        length: Option<u64>,
    ) {
        let Some(state) = self.state().filter(|state| state.stage == ExchangeStage::Open) else {
            return;
        };
        state.stage = ExchangeStage::Streaming;
        // RFC 9110 §15.3.6: "the server MUST NOT generate content". Content-Length: 0 shows that to
        // the client.
        let content = status_content(status);
        let is_reset = content == StatusContent::Empty;
        let length = if is_reset { Some(0) } else { length };
        state.left = length.filter(|_| !is_reset);
        state.head_only |= content != StatusContent::Any;
        let queued = match state.coding {
            None => self.begin(status, fields, length),
            Some(coding) => self.head_in(coding, status, fields, length),
        };
        self.give_up_unless(queued);
    }

    /// Queues a final head without changes.
    pub(super) fn begin<'f>(
        &mut self,
        status: u16,
        fields: impl Iterator<Item = Field<'f>> + Clone,
        length: Option<u64>,
    ) -> Result<(), Gone> {
        let mut response = self.response().ok_or(Gone::Peer)?;
        let added = response.state().and_then(|state| state.added.take());
        let added = added.as_deref();
        let vary = added.and_then(|added| added.vary(fields.clone()));
        let vary = vary.as_deref().map(|value| Field { name: b"Vary", value });
        let is_kept = |field: &Field<'f>| added.is_none_or(|added| !added.replace(field.name));
        let added_fields = added.into_iter().flat_map(AddedFields::iter).chain(vary);
        // The added fields do not live as long as the others.
        let fields = fields.filter(is_kept).map(|Field { name, value }| Field { name, value });
        response.head(status, fields.chain(added_fields), length)
    }

    /// Sends content. Content beyond the announced length aborts the exchange: a client must never
    /// mistake a wrong response for a complete one.
    pub fn write(&mut self, slice: Slice<'_>) -> ContentRoom {
        let state = self.state().filter(|state| state.is_writable());
        let Some(state) = state else { return ContentRoom::Gone };
        let bytes = slice.bytes();
        let is_sent = bytes > 0 && !state.head_only;
        if let Some(left) = &mut state.left {
            if bytes > *left {
                self.give_up(Gone::Broken);
                return ContentRoom::Gone;
            }
            *left -= bytes;
        }
        if !is_sent {
            return self.room();
        }
        let is_encoded = state.encoder.is_some();
        let queued = if is_encoded { self.encode_slice(slice) } else { self.send(slice) };
        if let Err(why) = queued {
            self.give_up(why);
            return ContentRoom::Gone;
        }
        self.room()
    }

    /// Queues content without changes; at least one byte.
    pub(super) fn send(&mut self, slice: Slice<'_>) -> Result<(), Gone> {
        self.response().ok_or(Gone::Peer)?.content(slice)
    }

    pub(super) fn room(&mut self) -> ContentRoom {
        let is_free = match self.carrier {
            Carrier::Connection => self.queued_bytes() < OUTPUT_HIGH_WATER_BYTES,
            Carrier::Stream(_) => {
                let Some(output) = self.stream().map(|stream| stream.output) else {
                    return ContentRoom::Gone;
                };
                self.core.buffers.outputs.bytes(output) < STREAM_HIGH_WATER_BYTES
            }
        };
        if is_free {
            return ContentRoom::Free;
        }
        if let Some(state) = self.state() {
            state.owes_writable = true;
        }
        ContentRoom::Full
    }

    /// Completes the response. One that is shorter than announced is aborted instead. The exchange
    /// is over for the application.
    pub fn end<'f>(&mut self, trailers: impl Iterator<Item = Field<'f>> + Clone) {
        let Some(state) = self.state() else { return };
        match state.stage {
            ExchangeStage::Streaming => {}
            ExchangeStage::Broken => return state.stage = ExchangeStage::Aborted,
            _ => return,
        }
        if state.left.is_some_and(|left| left > 0) && !state.head_only {
            return self.abort();
        }
        let mut queued = Ok(());
        if state.encoder.is_some() {
            queued = self.encode(b"", EncoderOperation::Finish);
            self.drop_encoder();
        }
        let Some(mut response) = self.response() else { return };
        if let Some(state) = response.state() {
            state.stage = ExchangeStage::Done;
        }
        let queued = queued.and_then(|()| response.end(trailers));
        self.give_up_unless(queued);
    }

    /// Aborts the exchange. An incomplete response never looks like a complete one: the connection
    /// is cut, or the stream reset. The exchange is over for the application.
    pub fn abort(&mut self) {
        if let Some(state) = self.state() {
            state.stage = ExchangeStage::Aborted;
        }
        if self.carrier == Carrier::Connection {
            self.core.give_up(self.slot, Gone::Peer);
        }
    }

    /// Ends a response that cannot be completed, after the queued part of it. It never looks like a
    /// complete one: the connection ends inside the content, or the stream is reset. If only the
    /// end of the connection would end the content, and over HTTP/3, where a reset discards
    /// unacknowledged bytes, the response is [aborted](Self::abort).
    pub fn cut_short(&mut self) {
        if !self.is_cut_visible() {
            return self.abort();
        }
        let mut queued = Ok(());
        if self.state().is_some_and(|state| state.encoder.is_some()) {
            queued = self.encode(b"", EncoderOperation::Flush);
            self.drop_encoder();
        }
        if let Some(open) =
            self.core.connections.get(self.slot).protocol.http1().and_then(Http1::exchange)
        {
            open.keep_alive = false;
        }
        if let Some(state) = self.state() {
            (state.stage, state.is_cut_short) = (ExchangeStage::Done, true);
        }
        self.give_up_unless(queued);
    }

    /// Returns whether the client sees that content is missing if the response ends here.
    fn is_cut_visible(&mut self) -> bool {
        let protocol = &mut self.core.connections.get(self.slot).protocol;
        let is_chunked = match self.carrier {
            Carrier::Connection => {
                protocol.http1().and_then(Http1::exchange).map(|it| it.is_chunked)
            }
            Carrier::Stream(_) => protocol.http2().map(|_| true),
        };
        let (Some(is_chunked), Some(state)) = (is_chunked, self.state()) else { return false };
        let is_incomplete = is_chunked || state.left.is_some_and(|left| left > 0);
        state.stage == ExchangeStage::Streaming
            && !state.is_tunnel
            && !state.head_only
            && is_incomplete
    }
}

/// Queues a complete response with the fields that the application has added.
#[cold]
fn prepared_with(
    writer: &mut Response<'_>,
    added: &AddedFields,
    response: &Prepared<'_>,
    source: RangeSource<'_>,
) -> Result<(), Gone> {
    let lines = added.with(&response.shared);
    writer.prepared(&Prepared { shared: SharedFields::h1(&lines), ..*response }, source)
}
