//! An open connection to a server, and the response that is read from it.

use pinion_engine::exchange_address::Address;
use pinion_http::cgi::response_event::GatewayEvent;
use pinion_http::h1::client::response_error::ResponseError;
use pinion_http::h1::client::response_parser::{InputEnd, Persistence, ResponseEvent};
use pinion_http::h1::head_parser::HeadStorage;

use super::RequestId;
use super::connection_pool_key::RequestKey;
use super::error::HttpClientError;
use super::protocol_codec::{RequestFraming, ResponseReader};
use super::request::PendingRequest;
use super::response_head_and_redirects::{is_followed, response_start};
use crate::limits::DISCARDED_MAX_BYTES;

/// An open connection.
#[derive(Debug)]
pub(super) struct ClientConnection {
    pub(super) address: Address,
    pub(super) key: RequestKey,
    /// The request that it serves; `None` if it is unused, or if the rest of a response is
    /// discarded.
    pub(super) user: Option<RequestId>,
    /// The response that is read; `None` if it is unused.
    pub(super) reader: Option<ResponseReader>,
    pub(super) framing: Option<RequestFraming>,
    /// Bytes that have arrived and were not used yet.
    pub(super) input: Vec<u8>,
    pub(super) end: InputEnd,
    /// Bytes that the connection may still bring before more are requested.
    pub(super) credit: u64,
    /// The number of discarded bytes of content.
    discarded_bytes: usize,
    /// The time until which the response may be discarded, in monotonic milliseconds, if it is.
    pub(super) drain_due_ms: u64,
    /// Whether there is no room for more output until the connection reports some.
    pub(super) is_blocked: bool,
    /// Whether the head of the response was read.
    pub(super) has_response_head: bool,
}

/// The result of reading the response of a connection.
#[derive(Debug, PartialEq)]
pub(super) enum ReadStep {
    /// More has to arrive, or to be read by the caller.
    Pending,
    /// The response redirects the request; its head is the last thing that was read.
    Redirected,
    /// The response is complete.
    Complete(Persistence),
    /// The response has failed.
    Failed(HttpClientError),
}

impl ClientConnection {
    pub(super) fn new(address: Address, key: RequestKey) -> Self {
        Self {
            address,
            key,
            user: None,
            reader: None,
            framing: None,
            input: Vec::new(),
            end: InputEnd::Open,
            credit: 0,
            discarded_bytes: 0,
            drain_due_ms: 0,
            is_blocked: false,
            has_response_head: false,
        }
    }

    /// Returns whether another request may be sent (RFC 9112 §9.3).
    pub(super) fn is_reusable(&self, persistence: Persistence) -> bool {
        let is_sent = self.framing.as_ref().is_none_or(RequestFraming::is_complete);
        persistence == Persistence::Reuse
            && is_sent
            && self.input.is_empty()
            && self.end == InputEnd::Open
    }

    /// Begins to read a response.
    pub(super) fn begin(
        &mut self,
        user: RequestId,
        reader: ResponseReader,
        framing: RequestFraming,
    ) {
        self.user = Some(user);
        self.reader = Some(reader);
        self.framing = Some(framing);
        self.discarded_bytes = 0;
        self.has_response_head = false;
    }

    /// Reads the response from `bytes`, or from earlier bytes if there are some, and passes it to
    /// the request. Bytes that cannot be used yet are kept.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        request: &mut PendingRequest,
        storage: &mut HeadStorage,
    ) -> ReadStep {
        let mut kept = std::mem::take(&mut self.input);
        let (used, step);
        if kept.is_empty() {
            (used, step) = self.read_from(bytes, request, storage);
            kept.extend_from_slice(bytes.get(used..).unwrap_or_default());
        } else {
            kept.extend_from_slice(bytes);
            (used, step) = self.read_from(&kept, request, storage);
            kept.drain(..used);
        }
        self.input = kept;
        step
    }

    fn read_from(
        &mut self,
        input: &[u8],
        request: &mut PendingRequest,
        storage: &mut HeadStorage,
    ) -> (usize, ReadStep) {
        let Some(reader) = &mut self.reader else { return (0, ReadStep::Pending) };
        let mut used = 0;
        loop {
            let rest = input.get(used..).unwrap_or_default();
            let step = match reader.step(rest, self.end, request.room() as u64, storage) {
                Ok(step) => step,
                Err(error) => return (used, ReadStep::Failed(error)),
            };
            used += step.used;
            let event = match step.event {
                GatewayEvent::Response(event) => event,
                GatewayEvent::Stderr(text) => {
                    request.take_stderr(text);
                    continue;
                }
                GatewayEvent::LocalRedirect(target) => {
                    let error = HttpClientError::LocalRedirect(target.into());
                    return (used, ReadStep::Failed(error));
                }
            };
            let taken = match event {
                ResponseEvent::NeedMore => return (used, ReadStep::Pending),
                ResponseEvent::Interim(head) => {
                    request.take_interim(&head);
                    Ok(())
                }
                ResponseEvent::Head(head) => {
                    request.has_response = true;
                    self.has_response_head = true;
                    let is_redirect = is_followed(&head, request);
                    let start = response_start(&head, request, !is_redirect);
                    let start = start.map(|start| request.response = Some(start));
                    if is_redirect && start.is_ok() {
                        return (used, ReadStep::Redirected);
                    }
                    start
                }
                ResponseEvent::Content(content) => request.take_content(content),
                ResponseEvent::End { trailers, persistence } => {
                    request.take_trailers(trailers);
                    let step = match request.end_content() {
                        Ok(()) => ReadStep::Complete(persistence),
                        Err(error) => ReadStep::Failed(error),
                    };
                    return (used, step);
                }
            };
            if let Err(error) = taken {
                return (used, ReadStep::Failed(error));
            }
        }
    }

    /// Discards the rest of a response.
    pub(super) fn discard(&mut self, bytes: &[u8], storage: &mut HeadStorage) -> ReadStep {
        self.input.extend_from_slice(bytes);
        let Some(reader) = &mut self.reader else { return ReadStep::Pending };
        let mut used = 0;
        let step = loop {
            let rest = self.input.get(used..).unwrap_or_default();
            match reader.step(rest, self.end, u64::MAX, storage) {
                Err(error) => break ReadStep::Failed(error),
                Ok(step) => {
                    used += step.used;
                    let GatewayEvent::Response(event) = step.event else { continue };
                    match event {
                        ResponseEvent::NeedMore => break ReadStep::Pending,
                        ResponseEvent::Content(content) => self.discarded_bytes += content.len(),
                        ResponseEvent::End { persistence, .. } => {
                            break ReadStep::Complete(persistence);
                        }
                        ResponseEvent::Interim(_) | ResponseEvent::Head(_) => {}
                    }
                }
            }
            if self.discarded_bytes > DISCARDED_MAX_BYTES {
                let max_bytes = DISCARDED_MAX_BYTES as u64;
                break ReadStep::Failed(ResponseError::ContentTooLarge { max_bytes }.into());
            }
        };
        self.input.drain(..used);
        step
    }
}
