//! Responses whose content is discarded, because a file is sent in its place. They are read to
//! their end, so that the application can finish and its connection can be kept.

use std::collections::BTreeSet;

use pinion_client::http_client::request::ReadOutcome;
use pinion_client::http_client::{HttpClient, RequestId};
use pinion_engine::exchange_address::Address;
use rustc_hash::FxHashMap;

use super::forwarded_request::ForwardedExchange;
use super::stored_upload::StoredUpload;
use super::{ApplicationMessage, Proxy};
use crate::limits::{
    DISCARDED_CONTENT_MAX_BYTES, DISCARDED_RESPONSE_TIMEOUT_MS, RESPONSE_PIECE_BYTES,
};
use crate::upstream_group::ServerUse;

/// The responses of one worker that are discarded.
#[derive(Debug, Default)]
pub(super) struct DiscardedResponses {
    responses: FxHashMap<RequestId, DiscardedResponse>,
    /// The time when each of them has to be at its end, in monotonic milliseconds.
    due: BTreeSet<(u64, RequestId)>,
}

#[derive(Debug)]
struct DiscardedResponse {
    /// The server has the request until its response has ended.
    server: ServerUse,
    /// Bytes that may still come.
    left_bytes: u64,
    /// The time when it has to be at its end; see [`DiscardedResponses::due`].
    due_ms: u64,
}

impl DiscardedResponses {
    /// Discards the rest of the response of a server.
    pub(super) fn add(&mut self, id: RequestId, server: ServerUse, now_ms: u64) {
        let left_bytes = DISCARDED_CONTENT_MAX_BYTES;
        let due_ms = now_ms + DISCARDED_RESPONSE_TIMEOUT_MS;
        self.responses.insert(id, DiscardedResponse { server, left_bytes, due_ms });
        self.due.insert((due_ms, id));
    }

    /// Returns the time when [`Self::next_due`] has something, in monotonic milliseconds.
    pub(super) fn alarm_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    /// Returns a response that has to be at its end now. It is until [`Self::news`] has ended it.
    pub(super) fn next_due(&self, now_ms: u64) -> Option<RequestId> {
        self.due.first().filter(|(due_ms, _)| *due_ms <= now_ms).map(|(_, id)| *id)
    }

    /// Reads the available part of a response, and closes its connection if it is too long. Returns
    /// the text that the application has written to its error stream meanwhile.
    pub(super) fn news(
        &mut self,
        id: RequestId,
        client: &mut HttpClient,
        now_ms: u64,
    ) -> Option<ApplicationMessage> {
        let response = self.responses.get_mut(&id)?;
        let due = (response.due_ms, id);
        let is_over = loop {
            match client.read(id, RESPONSE_PIECE_BYTES, |_| ()) {
                ReadOutcome::Pending => break now_ms >= response.due_ms,
                ReadOutcome::Bytes(bytes) => {
                    response.left_bytes = response.left_bytes.saturating_sub(bytes as u64);
                    if response.left_bytes == 0 {
                        break true;
                    }
                }
                ReadOutcome::End | ReadOutcome::Failed(_) => break true,
            }
        };
        let text = client.take_stderr(id);
        let server = || response.server.to_string().into();
        let message =
            (!text.is_empty()).then(|| ApplicationMessage { server: server(), text: text.into() });
        if is_over {
            self.responses.remove(&id);
            self.due.remove(&due);
            client.close(id);
        }
        message
    }
}

impl Proxy {
    /// Discards the content of the response to an exchange. An application that has all of the
    /// request may finish.
    pub(super) fn leave_response(&mut self, address: Address, now_ms: u64) {
        let is_sent = |one: &ForwardedExchange| {
            one.has_all_content && one.upload.as_ref().is_none_or(StoredUpload::is_sent)
        };
        if !self.exchanges.get(&address).is_some_and(is_sent) {
            return self.forget(address);
        }
        if let Some(forwarding) = self.exchanges.remove(&address) {
            self.requests.remove(&forwarding.id);
            self.discarded.add(forwarding.id, forwarding.attempts.server, now_ms);
            self.discard(forwarding.id, now_ms);
        }
    }

    /// Reads the available part of a response that is discarded. A request whose response is not
    /// discarded is ignored.
    pub(super) fn discard(&mut self, id: RequestId, now_ms: u64) {
        self.messages.extend(self.discarded.news(id, &mut self.client, now_ms));
    }
}
