//! The input of connections, the requests that get it, and the next steps of both.

use std::sync::Arc;

use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::ContentRoom;
use pinion_http::h1::client::response_error::ResponseError;
use pinion_http::h1::client::response_parser::{InputEnd, Persistence};

use super::connection::{ClientConnection, ReadStep};
use super::connection_commands::ConnectionCommand;
use super::connection_pool_key::RequestKey;
use super::error::HttpClientError;
use super::protocol_codec::RequestFraming;
use super::request::{PendingRequest, RequestBody, RequestProgress, Tunnel};
use super::request_sending::WrittenHead;
use super::{ConnectionId, HttpClient, RequestId, request_sending, response_head_and_redirects};
use crate::connection_pool::Reuse;
use crate::content_decoder::{ACCEPTED_CODINGS, ACCEPTED_WITHOUT_BROTLI};
use crate::limits::{DISCARD_TIMEOUT_MS, READ_BYTES};
use crate::retry::{FailedRequest, is_safe};

impl HttpClient {
    /// Assigns a connection to a request, and sends its head.
    pub(super) fn assign(
        &mut self,
        id: RequestId,
        on: ConnectionId,
        connections: &mut Connections<'_>,
    ) {
        let Some(connection) = self.connections.get_mut(&on) else {
            // The connection has ended since the pool has chosen it.
            return self.acquire_again(id);
        };
        let Some(pending) = self.requests.get_mut(&id) else { return };
        pending.stage = RequestProgress::Open(on);
        (pending.has_response, pending.is_sent) = (false, false);
        // Brotli is requested only if it can be decoded.
        let request = &pending.request;
        let decodes = request.forwarded.is_none()
            && request.fields.get(request_sending::ACCEPT_ENCODING).is_none();
        pending.brotli = if decodes { self.brotli.take() } else { None };
        let written = match pending.written.take() {
            Some(written) if !decodes || pending.brotli.is_some() => Ok(written),
            _ if pending.brotli.is_some() => {
                request_sending::write_head(&pending.request, ACCEPTED_CODINGS)
            }
            _ => request_sending::write_head(&pending.request, ACCEPTED_WITHOUT_BROTLI),
        };
        let sent = match (written, connections.stream(connection.address)) {
            (Ok(WrittenHead { bytes, reader, mut framing }), Some(mut stream)) => {
                pending.is_sent = true;
                let sent = request_sending::send_head(bytes, &mut framing, pending, &mut stream);
                if pending.has_content() {
                    stream.wait(Some(pending.look_ms()));
                }
                let sent = sent.map(|room| {
                    connection.begin(id, reader, framing);
                    connection.is_blocked = room != ContentRoom::Free;
                });
                sent.map_err(HttpClientError::from)
            }
            // The connection has ended in this pass, and its last event is on the way.
            (Ok(head), None) => {
                connection.begin(id, head.reader, head.framing);
                return self.settle(on, ReadStep::Failed(ResponseError::NoResponse.into()));
            }
            (Err(error), _) => Err(error),
        };
        match sent {
            Err(error) => self.settle(on, ReadStep::Failed(error)),
            Ok(()) => {
                let (due_ms, content) = (pending.due_ms(), &pending.request.content);
                let is_in_pieces = matches!(content, RequestBody::Pieces { .. });
                self.set_alarm(id, due_ms);
                if is_in_pieces {
                    self.announce(id);
                }
                self.go_on(id, connections);
            }
        }
    }

    /// Sends more of a request's content, and reads more of its response, as far as there is room.
    pub(super) fn go_on(&mut self, id: RequestId, connections: &mut Connections<'_>) {
        let Self { requests, connections: open, storage, .. } = self;
        let Some(pending) = requests.get_mut(&id) else { return };
        pending.is_continued = false;
        let RequestProgress::Open(on) = pending.stage else { return };
        let Some(connection) = open.get_mut(&on) else { return };
        if !connection.input.is_empty() && pending.has_room() {
            let step = connection.read(b"", pending, storage);
            if step != ReadStep::Pending {
                return self.settle(on, step);
            }
        }
        let is_readable = pending.unread() > 0;
        let mut takes_content = false;
        if let Some(mut stream) = connections.stream(connection.address) {
            if connection.credit < READ_BYTES / 2 && pending.has_room() {
                stream.want(READ_BYTES - connection.credit);
                connection.credit = READ_BYTES;
            }
            if let (false, Some(framing)) = (connection.is_blocked, &mut connection.framing) {
                let had_content = !pending.unsent.is_empty();
                match request_sending::send_pieces(framing, pending, &mut stream) {
                    Ok(room) => connection.is_blocked = room != ContentRoom::Free,
                    Err(error) => {
                        return self.settle(on, ReadStep::Failed(error.into()));
                    }
                }
                if had_content {
                    pending.progress_ms = self.now_ms;
                }
                takes_content = pending.takes_content();
            }
        }
        if is_readable || takes_content {
            self.announce(id);
        }
    }

    /// Handles bytes that have arrived on a connection, or its end.
    pub(super) fn received(&mut self, on: ConnectionId, bytes: &[u8], end: InputEnd) {
        let Self { requests, connections, storage, .. } = self;
        let Some(connection) = connections.get_mut(&on) else { return };
        connection.credit = connection.credit.saturating_sub(bytes.len() as u64);
        if end != InputEnd::Open {
            connection.end = end;
        }
        let step = match connection.user.and_then(|id| requests.get_mut(&id)) {
            Some(pending) => {
                let step = connection.read(bytes, pending, storage);
                // All of the head has to come in time, also from a server that sends it byte by
                // byte, or one interim response after the other.
                if connection.has_response_head {
                    pending.progress_ms = self.now_ms;
                }
                step
            }
            None if connection.reader.is_some() => connection.discard(bytes, storage),
            // No request is open (RFC 9112 §9.2), or the server has closed the connection.
            None => return self.lose(on),
        };
        self.settle(on, step);
    }

    /// Discards more of a response that is not read.
    pub(super) fn drain(&mut self, on: ConnectionId, connections: &mut Connections<'_>) {
        let Self { connections: open, storage, .. } = self;
        let Some(connection) = open.get_mut(&on).filter(|one| one.user.is_none()) else { return };
        let step = connection.discard(b"", storage);
        if step != ReadStep::Pending {
            return self.settle(on, step);
        }
        if connection.credit < READ_BYTES / 2
            && let Some(mut stream) = connections.stream(connection.address)
        {
            stream.want(READ_BYTES - connection.credit);
            connection.credit = READ_BYTES;
        }
    }

    /// Acts upon the result of reading a response.
    fn settle(&mut self, on: ConnectionId, step: ReadStep) {
        let Some(connection) = self.connections.get_mut(&on) else { return };
        let user = connection.user;
        match step {
            ReadStep::Pending => match user {
                None => self.commands.push_back(ConnectionCommand::Drain(on)),
                Some(id) => {
                    if connection.credit < READ_BYTES / 2 {
                        self.go_on_soon(id);
                    }
                    let pending = self.requests.get(&id);
                    let has_news =
                        |one: &PendingRequest| one.response.is_some() || !one.interim.is_empty();
                    if pending.is_some_and(has_news) {
                        self.announce(id);
                    }
                }
            },
            ReadStep::Complete(Persistence::Tunnel) => self.switched(on),
            ReadStep::Complete(persistence) => {
                self.release(on, persistence);
                if let Some(id) = user {
                    if let Some(pending) = self.requests.get_mut(&id) {
                        pending.stage = RequestProgress::Done;
                    }
                    self.count_memory(id);
                    self.announce(id);
                }
            }
            ReadStep::Redirected => {
                connection.user = None;
                self.begin_drain(on);
                if let Some(id) = user {
                    self.redirect(id);
                }
            }
            ReadStep::Failed(error) => {
                self.lose(on);
                if let Some(id) = user {
                    self.failed(id, error);
                }
            }
        }
    }

    /// Handles a connection that the server has switched to another protocol: it leaves the pool,
    /// and waits for its new owner.
    fn switched(&mut self, on: ConnectionId) {
        let Some(mut connection) = self.connections.remove(&on) else { return };
        self.pool.closed(&connection.key, on, self.now_ms);
        let user = connection.user.and_then(|id| Some((id, self.requests.get_mut(&id)?)));
        let Some((id, pending)) = user else {
            return self.commands.push_back(ConnectionCommand::Cut(connection.address));
        };
        pending.stage = RequestProgress::Done;
        pending.tunnel = Some(Tunnel {
            address: connection.address,
            tag: on.0,
            input: std::mem::take(&mut connection.input),
            credit: connection.credit,
        });
        self.announce(id);
    }

    /// Releases the connection of a complete response: it can serve another request, or closes.
    fn release(&mut self, on: ConnectionId, persistence: Persistence) {
        let Some(connection) = self.connections.get_mut(&on) else { return };
        if self.is_stopping || !connection.is_reusable(persistence) {
            return self.lose(on);
        }
        self.draining.remove(&(connection.drain_due_ms, on));
        connection.finish();
        if connection.credit < READ_BYTES / 2 {
            // Its input while it is unused has to be noticed, above all its end.
            self.commands.push_back(ConnectionCommand::Drain(on));
        }
        self.pool.release(&connection.key, on, self.now_ms);
    }

    /// Begins to discard the rest of a response, so that its connection can serve another request,
    /// unless that is not to be expected soon.
    fn begin_drain(&mut self, on: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&on) else { return };
        if !connection.is_sent() || !connection.has_response_head {
            return self.lose(on);
        }
        // Most of the bytes have already arrived, so that the next request can have the connection.
        let step = connection.discard(b"", &mut self.storage);
        if step != ReadStep::Pending {
            return self.settle(on, step);
        }
        connection.drain_due_ms = self.now_ms.saturating_add(DISCARD_TIMEOUT_MS);
        self.draining.insert((connection.drain_due_ms, on));
        self.commands.push_back(ConnectionCommand::Drain(on));
    }

    /// Ends the connections whose responses were to be discarded and have not ended in time.
    pub(super) fn end_drains(&mut self) {
        while let Some((due_ms, on)) = self.draining.first().copied()
            && due_ms <= self.now_ms
        {
            self.draining.pop_first();
            let is_due = |one: &ClientConnection| one.user.is_none() && one.drain_due_ms == due_ms;
            if self.connections.get(&on).is_some_and(is_due) {
                self.lose(on);
            }
        }
    }

    /// Ends a connection.
    pub(super) fn lose(&mut self, on: ConnectionId) {
        let Some(connection) = self.connections.remove(&on) else { return };
        self.draining.remove(&(connection.drain_due_ms, on));
        self.pool.closed(&connection.key, on, self.now_ms);
        self.commands.push_back(ConnectionCommand::Cut(connection.address));
    }

    /// Closes an unused connection for which the pool has no room any more.
    pub(super) fn close_connection(&mut self, on: ConnectionId, connections: &mut Connections<'_>) {
        let Some(connection) = self.connections.remove(&on) else { return };
        if let Some(mut stream) = connections.stream(connection.address) {
            stream.close();
        }
    }

    /// Redirects a request to the target of its response.
    fn redirect(&mut self, id: RequestId) {
        let Some(pending) = self.requests.get_mut(&id) else { return };
        (pending.stage, pending.reuse) = (RequestProgress::Done, Reuse::Allowed);
        pending.progress_ms = self.now_ms;
        let changed = response_head_and_redirects::redirect(pending);
        // A connection without TLS must never take the place of one with TLS.
        if let Err(error) = changed.and_then(|()| pending.request.check_tls()) {
            return self.fail(id, error);
        }
        pending.key = self.keys.of(&pending.request);
        self.count_memory(id);
        self.acquire_again(id);
    }

    /// Handles the failure of a request's connection: the request is sent again if that is
    /// harmless.
    fn failed(&mut self, id: RequestId, error: HttpClientError) {
        let Some(pending) = self.requests.get_mut(&id) else { return };
        pending.stage = RequestProgress::Done;
        pending.end_decoding();
        let failed = FailedRequest {
            method: pending.method(),
            is_connection_reused: pending.is_connection_reused,
            is_sent: pending.is_sent,
            has_response: pending.has_response,
            is_content_kept: !pending.has_sent_pieces,
            is_repeated: pending.reuse == Reuse::Refused,
        };
        let is_dead = error.is_no_response();
        let is_forwarded = pending.request.forwarded.is_some();
        let is_harmless = !is_forwarded
            || !pending.is_sent
            || (is_safe(pending.method()) && !pending.has_content());
        let is_repeated = is_dead
            && is_harmless
            && failed.is_worth_another_attempt()
            && (!is_forwarded || self.retry_budget.take());
        if !is_repeated {
            return self.fail(id, error);
        }
        pending.reuse = Reuse::Refused;
        self.acquire_again(id);
    }

    /// Fails a request finally.
    pub(super) fn fail(&mut self, id: RequestId, error: HttpClientError) {
        let Some(pending) = self.requests.get_mut(&id) else { return };
        if let RequestProgress::Open(on) = pending.stage {
            // The connection is not usable any more.
            pending.stage = RequestProgress::Done;
            self.lose(on);
        }
        let Some(pending) = self.requests.get_mut(&id) else { return };
        let stage = std::mem::replace(&mut pending.stage, RequestProgress::Done);
        pending.error.get_or_insert_with(|| Arc::new(error));
        pending.end_decoding();
        let key = pending.key.clone();
        self.count_memory(id);
        self.leave(&key, stage, id);
        self.announce(id);
    }

    /// Ends the wait of a request.
    pub(super) fn leave(&mut self, key: &RequestKey, stage: RequestProgress, id: RequestId) {
        match stage {
            RequestProgress::Done => {}
            RequestProgress::Waiting => {
                if !self.pool.cancel(key, id) {
                    self.abandoned.insert(id, key.clone());
                }
            }
            RequestProgress::Opening(opening) => {
                self.pool.not_opened(key, self.now_ms);
                self.commands.push_back(ConnectionCommand::Abandon(opening));
            }
            RequestProgress::Open(on) => {
                let Some(connection) = self.connections.get_mut(&on) else { return };
                connection.user = None;
                match connection.framing {
                    Some(RequestFraming::FastCgi(_)) => self.abort_request(on),
                    _ => self.begin_drain(on),
                }
            }
        }
    }

    /// Ends the request of a FastCGI application that is not wanted any more: the application is
    /// informed (§5.4), also one that does not read its connection, by the close of the connection.
    fn abort_request(&mut self, on: ConnectionId) {
        let Some(connection) = self.connections.remove(&on) else { return };
        self.draining.remove(&(connection.drain_due_ms, on));
        self.pool.closed(&connection.key, on, self.now_ms);
        self.commands.push_back(ConnectionCommand::AbortRequest(connection.address));
    }

    /// Announces news of a request to the caller.
    pub(super) fn announce(&mut self, id: RequestId) {
        if let Some(pending) = self.requests.get_mut(&id)
            && !std::mem::replace(&mut pending.is_announced, true)
        {
            self.news.push_back(id);
        }
    }
}

impl ClientConnection {
    /// Returns whether the whole request was sent.
    fn is_sent(&self) -> bool {
        self.framing.as_ref().is_none_or(RequestFraming::is_complete)
    }

    /// Ends its complete response; it waits for the next request.
    fn finish(&mut self) {
        (self.user, self.reader, self.framing) = (None, None, None);
        self.has_response_head = false;
        // The buffer may have had to hold a long head.
        self.input = Vec::new();
    }
}
