//! The timeouts of requests.

use pinion_engine::byte_stream_handle::ByteStreamHandle;

use super::connection_commands::ConnectionCommand;
use super::error::HttpClientError;
use super::request::{PendingRequest, RequestProgress};
use super::{ConnectionId, HttpClient, RequestId};

impl HttpClient {
    /// Sets the alarm of a request to this time at the latest, in monotonic milliseconds. A request
    /// has one alarm; it may come early, and is then set again.
    pub(super) fn set_alarm(&mut self, id: RequestId, due_ms: u64) {
        let Some(pending) = self.requests.get_mut(&id) else { return };
        if pending.alarm_ms.is_some_and(|alarm_ms| alarm_ms <= due_ms) {
            return;
        }
        if let Some(alarm_ms) = pending.alarm_ms.replace(due_ms) {
            self.deadlines.remove(&(alarm_ms, id));
        }
        self.deadlines.insert((due_ms, id));
    }

    /// Removes a request, with its alarm.
    pub(super) fn remove(&mut self, id: RequestId) -> Option<PendingRequest> {
        let pending = self.requests.remove(&id)?;
        if let Some(alarm_ms) = pending.alarm_ms {
            self.deadlines.remove(&(alarm_ms, id));
        }
        self.memory.change(pending.request.site, pending.counted_bytes, 0);
        Some(pending)
    }

    /// Counts the memory of a request again, after a lasting change.
    pub(super) fn count_memory(&mut self, id: RequestId) {
        let Some(pending) = self.requests.get_mut(&id) else { return };
        let bytes = pending.held_bytes();
        let before_bytes = std::mem::replace(&mut pending.counted_bytes, bytes);
        self.memory.change(pending.request.site, before_bytes, bytes);
    }

    /// Checks whether the server has taken more of a request's content, which is progress.
    pub(super) fn look_at_upload(&mut self, on: ConnectionId, stream: &mut ByteStreamHandle<'_>) {
        let user = self.connections.get(&on).and_then(|connection| connection.user);
        let Some(pending) = user.and_then(|id| self.requests.get_mut(&id)) else { return };
        if !pending.has_content() {
            return;
        }
        let acknowledged = stream.acknowledged();
        if std::mem::replace(&mut pending.acknowledged, acknowledged) != acknowledged {
            pending.progress_ms = self.now_ms;
        }
        stream.wait(Some(pending.look_ms()));
    }

    /// Handles the alarm of a request: it has waited for too long, or its connection is tried at
    /// the next address.
    pub(super) fn due(&mut self, id: RequestId) {
        let now_ms = self.now_ms;
        let Some(pending) = self.requests.get_mut(&id) else { return };
        pending.alarm_ms = None;
        if let RequestProgress::Opening(opening) = &pending.stage
            && opening.wait_ms().is_some_and(|wait_ms| wait_ms <= now_ms)
        {
            self.commands.push_back(ConnectionCommand::Open(id));
        }
        if matches!(pending.stage, RequestProgress::Done) {
            return;
        }
        // The caller is slow, not the server.
        let waits_for_caller =
            pending.unread() > 0 || (pending.takes_content() && pending.unsent.is_empty());
        if waits_for_caller {
            pending.progress_ms = now_ms;
        }
        let due_ms = pending.due_ms();
        if due_ms > now_ms {
            return self.set_alarm(id, due_ms);
        }
        let timeout_ms = pending.request.timeout_ms;
        let is_blocked = |on| self.connections.get(on).is_some_and(|one| one.is_blocked);
        let error = match (&pending.stage, &pending.response) {
            (RequestProgress::Open(on), None) if is_blocked(on) => {
                HttpClientError::SendTimeout(timeout_ms)
            }
            (RequestProgress::Waiting, _) => HttpClientError::QueueTimeout(timeout_ms),
            (RequestProgress::Opening(_), _) => HttpClientError::ConnectTimeout(timeout_ms),
            (_, None) => HttpClientError::HeadTimeout(timeout_ms),
            (_, Some(_)) => HttpClientError::ContentTimeout(timeout_ms),
        };
        self.fail(id, error);
    }
}
