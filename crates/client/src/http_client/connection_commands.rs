//! The work on connections that is queued until [`HttpClient::flush`] does it.

use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Slice;
use pinion_engine::exchange_address::Address;
use pinion_http::fastcgi;

use super::connection_establishment::OpeningConnection;
use super::{ConnectionId, HttpClient, RequestId};

/// A command for work on a connection.
#[derive(Debug)]
pub(super) enum ConnectionCommand {
    /// Continues a request: sends more of its content, or reads more of its response.
    Continue(RequestId),
    /// Continues to open a connection.
    Open(RequestId),
    /// Cuts connections that were being opened.
    Abandon(OpeningConnection),
    /// Continues with a connection that no request uses any more: the rest of its response is
    /// discarded.
    Drain(ConnectionId),
    /// Cuts a connection that has left the pool.
    Cut(Address),
    /// Asks the application of a request that is not wanted any more to end it, and closes the
    /// connection, which has left the pool.
    AbortRequest(Address),
}

impl HttpClient {
    /// Does the queued work on connections.
    pub fn flush(&mut self, connections: &mut Connections<'_>) {
        loop {
            while let Some(action) = self.pool.next_action() {
                self.perform(action, connections);
            }
            match self.commands.pop_front() {
                None => return,
                Some(ConnectionCommand::Continue(id)) => self.go_on(id, connections),
                Some(ConnectionCommand::Open(id)) => self.go_on_opening(id, connections),
                Some(ConnectionCommand::Drain(id)) => self.drain(id, connections),
                Some(ConnectionCommand::Cut(address)) => {
                    if let Some(mut stream) = connections.stream(address) {
                        stream.abort();
                    }
                }
                Some(ConnectionCommand::AbortRequest(address)) => {
                    if let Some(mut stream) = connections.stream(address) {
                        stream.write(Slice::Copied(&fastcgi::content_writer::ABORT));
                        stream.close();
                    }
                }
                Some(ConnectionCommand::Abandon(opening)) => {
                    for id in opening.end(None, connections) {
                        self.opening.remove(&id);
                    }
                }
            }
        }
    }

    /// Makes [`Self::flush`] continue a request.
    pub(super) fn go_on_soon(&mut self, id: RequestId) {
        if let Some(pending) = self.requests.get_mut(&id)
            && !std::mem::replace(&mut pending.is_continued, true)
        {
            self.commands.push_back(ConnectionCommand::Continue(id));
        }
    }
}
