//! What comes on connections, which request it is for, and what becomes of both.

use std::rc::Rc;
use std::sync::Arc;

use pinion_engine::connections::Connections;
use pinion_engine::exchange::Room;
use pinion_http::h1::client::limits::ResponseLimits;
use pinion_http::h1::client::response_error::ResponseError;
use pinion_http::h1::client::response_parser::{InputEnd, Persistence, ResponseParser};

use super::connection::{ClientConnection, ReadStep};
use super::error::HttpClientError;
use super::request::{ClientRequest, RequestBody, Stage};
use super::{Command, ConnectionId, HttpClient, RequestId, key_of, response_start, sending};
use crate::connection_pool::Reuse;
use crate::limits::{DISCARD_TIMEOUT_MS, READ_BYTES};
use crate::retry::FailedRequest;

impl HttpClient {
    /// A request has got a connection: its head is sent.
    pub(super) fn assign(
        &mut self,
        id: RequestId,
        on: ConnectionId,
        connections: &mut Connections<'_>,
    ) {
        let Some(connection) = self.connections.get_mut(&on) else { return };
        let Some(pending) = self.requests.get_mut(&id) else { return };
        pending.stage = Stage::Open(on);
        pending.has_response = false;
        let written = match pending.written.take() {
            Some(written) => Ok(written),
            None => sending::write_head(&pending.request),
        };
        let parser = |sent| ResponseParser::new(sent, &ResponseLimits::default());
        let sent = match (written, connections.stream(connection.address)) {
            (Ok(head), Some(mut stream)) => {
                let parser = parser(head.sent);
                let sent = sending::send_head(head, pending, &mut stream);
                sent.map(|(writer, room)| {
                    connection.begin(id, parser, writer);
                    connection.is_blocked = room != Room::Free;
                })
            }
            // It has ended in this pass, and its last event is on the way.
            (Ok(head), None) => {
                connection.begin(id, parser(head.sent), head.writer);
                return self.settle(on, ReadStep::Failed(ResponseError::NoResponse.into()));
            }
            (Err(error), _) => Err(error),
        };
        match sent {
            Err(error) => self.settle(on, ReadStep::Failed(error.into())),
            Ok(()) => {
                self.deadlines.insert((pending.due_ms(), id));
                if matches!(pending.request.content, RequestBody::Pieces { .. }) {
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
        let Stage::Open(on) = pending.stage else { return };
        let Some(connection) = open.get_mut(&on) else { return };
        if !connection.input.is_empty() && pending.room() > 0 {
            let step = connection.read(b"", pending, storage);
            if step != ReadStep::Pending {
                return self.settle(on, step);
            }
        }
        let is_readable = pending.unread() > 0;
        let mut takes_content = false;
        if let Some(mut stream) = connections.stream(connection.address) {
            if connection.credit < READ_BYTES / 2 && pending.room() > 0 {
                stream.want(READ_BYTES - connection.credit);
                connection.credit = READ_BYTES;
            }
            if let (false, Some(writer)) = (connection.is_blocked, &mut connection.writer) {
                let had_content = !pending.unsent.is_empty();
                match sending::send_pieces(writer, pending, &mut stream) {
                    Ok(room) => connection.is_blocked = room != Room::Free,
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

    /// Bytes have come on a connection, or its end.
    pub(super) fn received(&mut self, on: ConnectionId, bytes: &[u8], end: InputEnd) {
        let Self { requests, connections, storage, .. } = self;
        let Some(connection) = connections.get_mut(&on) else { return };
        connection.credit = connection.credit.saturating_sub(bytes.len() as u64);
        if end != InputEnd::Open {
            connection.end = end;
        }
        let step = match connection.user.and_then(|id| requests.get_mut(&id)) {
            Some(pending) => {
                pending.progress_ms = self.now_ms;
                connection.read(bytes, pending, storage)
            }
            None if connection.parser.is_some() => connection.discard(bytes, storage),
            // Nobody has asked for anything (RFC 9112 §9.2), or the server has closed it.
            None => return self.lose(on),
        };
        self.settle(on, step);
    }

    /// Throws away more of a response that nobody reads.
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

    /// Looks at how far the response of a connection is.
    fn settle(&mut self, on: ConnectionId, step: ReadStep) {
        let Some(connection) = self.connections.get_mut(&on) else { return };
        let user = connection.user;
        match step {
            ReadStep::Pending => match user {
                None => self.commands.push_back(Command::Drain(on)),
                Some(id) => {
                    if connection.credit < READ_BYTES / 2 {
                        self.commands.push_back(Command::Continue(id));
                    }
                    let pending = self.requests.get(&id);
                    if pending.is_some_and(|one| one.response.is_some()) {
                        self.announce(id);
                    }
                }
            },
            ReadStep::Complete(persistence) => {
                self.release(on, persistence);
                if let Some(id) = user {
                    if let Some(pending) = self.requests.get_mut(&id) {
                        pending.stage = Stage::Done;
                    }
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

    /// A response is complete: its connection can serve another request, or closes.
    fn release(&mut self, on: ConnectionId, persistence: Persistence) {
        let Some(connection) = self.connections.get_mut(&on) else { return };
        if self.is_stopping || !connection.is_reusable(persistence) {
            return self.lose(on);
        }
        connection.finish();
        let key = Rc::clone(&connection.key);
        self.pool.release(&key, on, self.now_ms);
    }

    /// What is left of a response is thrown away, so that its connection can serve another request,
    /// unless that is not to be expected soon.
    fn begin_drain(&mut self, on: ConnectionId) {
        let Some(connection) = self.connections.get(&on) else { return };
        if !connection.is_sent() || !connection.has_response_head {
            return self.lose(on);
        }
        self.draining.insert((self.now_ms.saturating_add(DISCARD_TIMEOUT_MS), on));
        self.commands.push_back(Command::Drain(on));
    }

    /// Ends the connections whose responses were to be thrown away and have not ended in time.
    pub(super) fn end_drains(&mut self) {
        while let Some((due_ms, on)) = self.draining.first().copied()
            && due_ms <= self.now_ms
        {
            self.draining.pop_first();
            let is_draining = |one: &ClientConnection| one.user.is_none() && one.parser.is_some();
            if self.connections.get(&on).is_some_and(is_draining) {
                self.lose(on);
            }
        }
    }

    /// A connection ends.
    pub(super) fn lose(&mut self, on: ConnectionId) {
        let Some(connection) = self.connections.remove(&on) else { return };
        self.pool.closed(&connection.key, on, self.now_ms);
        self.commands.push_back(Command::Cut(connection.address));
    }

    /// The pool has no room for an unused connection any more.
    pub(super) fn close_connection(&mut self, on: ConnectionId, connections: &mut Connections<'_>) {
        let Some(connection) = self.connections.remove(&on) else { return };
        if let Some(mut stream) = connections.stream(connection.address) {
            stream.close();
        }
    }

    /// The response has redirected a request.
    fn redirect(&mut self, id: RequestId) {
        let Some(pending) = self.requests.get_mut(&id) else { return };
        (pending.stage, pending.reuse) = (Stage::Waiting, Reuse::Allowed);
        pending.progress_ms = self.now_ms;
        let is_changed = response_start::redirect(pending).and_then(|()| self.acquire(id));
        if let Err(error) = is_changed {
            self.fail(id, error);
        }
    }

    /// The connection of a request has failed: the request is sent again if that is harmless.
    fn failed(&mut self, id: RequestId, error: HttpClientError) {
        let Some(pending) = self.requests.get_mut(&id) else { return };
        pending.stage = Stage::Done;
        let failed = FailedRequest {
            method: pending.method(),
            is_connection_reused: pending.is_connection_reused,
            is_sent: true,
            has_response: pending.has_response,
            is_content_kept: !pending.has_sent_pieces,
            is_repeated: pending.reuse == Reuse::Refused,
        };
        let is_dead = error == HttpClientError::Response(ResponseError::NoResponse);
        if !is_dead || !failed.is_worth_another_attempt() {
            return self.fail(id, error);
        }
        pending.reuse = Reuse::Refused;
        if let Err(error) = self.acquire(id) {
            self.fail(id, error);
        }
    }

    /// A request has failed for good.
    pub(super) fn fail(&mut self, id: RequestId, error: HttpClientError) {
        let Some(pending) = self.requests.get_mut(&id) else { return };
        if let Stage::Open(on) = pending.stage {
            // Nothing good is to be expected of it.
            pending.stage = Stage::Done;
            self.lose(on);
        }
        let Some(pending) = self.requests.get_mut(&id) else { return };
        let stage = std::mem::replace(&mut pending.stage, Stage::Done);
        pending.error.get_or_insert_with(|| Arc::new(error));
        let request = pending.request.clone();
        self.leave(&request, stage, id);
        self.announce(id);
    }

    /// A request does not need any more what it waits for.
    pub(super) fn leave(&mut self, request: &ClientRequest, stage: Stage, id: RequestId) {
        match stage {
            Stage::Done => {}
            Stage::Waiting => {
                let key = key_of(request);
                if !self.pool.cancel(&key, id) {
                    self.abandoned.insert(id, key);
                }
            }
            Stage::Opening(opening) => {
                self.pool.not_opened(&key_of(request), self.now_ms);
                self.commands.push_back(Command::Abandon(opening));
            }
            Stage::Open(on) => {
                let Some(connection) = self.connections.get_mut(&on) else { return };
                connection.user = None;
                self.begin_drain(on);
            }
        }
    }

    /// The time of a request has come: it has waited for too long, or its connection is tried at
    /// the next address.
    pub(super) fn due(&mut self, id: RequestId) {
        let now_ms = self.now_ms;
        let Some(pending) = self.requests.get_mut(&id) else { return };
        if let Stage::Opening(opening) = &pending.stage
            && opening.wait_ms().is_some_and(|wait_ms| wait_ms <= now_ms)
        {
            self.commands.push_back(Command::Open(id));
        }
        if matches!(pending.stage, Stage::Done) {
            return;
        }
        // It is the caller that is slow, not the server.
        let waits_for_caller =
            pending.unread() > 0 || (pending.takes_content() && pending.unsent.is_empty());
        if waits_for_caller {
            pending.progress_ms = now_ms;
        }
        if pending.due_ms() > now_ms {
            self.deadlines.insert((pending.due_ms(), id));
            return;
        }
        let timeout_ms = pending.request.timeout_ms;
        let error = match (&pending.stage, &pending.response) {
            (Stage::Waiting, _) => HttpClientError::QueueTimeout(timeout_ms),
            (Stage::Opening(_), _) => HttpClientError::ConnectTimeout(timeout_ms),
            (_, None) => HttpClientError::HeadTimeout(timeout_ms),
            (_, Some(_)) => HttpClientError::ContentTimeout(timeout_ms),
        };
        self.fail(id, error);
    }

    /// Tells the caller that there is something to look at.
    pub(super) fn announce(&mut self, id: RequestId) {
        if let Some(pending) = self.requests.get_mut(&id)
            && !std::mem::replace(&mut pending.is_announced, true)
        {
            self.news.push_back(id);
        }
    }
}

impl ClientConnection {
    /// Whether the whole request was sent.
    fn is_sent(&self) -> bool {
        self.writer.as_ref().is_none_or(|writer| writer.is_complete())
    }

    /// Its response is complete, and it waits for the next request.
    fn finish(&mut self) {
        (self.user, self.parser, self.writer) = (None, None, None);
        self.has_response_head = false;
    }
}
