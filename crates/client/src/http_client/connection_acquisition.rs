//! How a request gets its connection: the pool assigns one that was kept, or one is opened.

use pinion_engine::connection_actions::Connections;

use super::connection::ClientConnection;
use super::connection_commands::ConnectionCommand;
use super::connection_establishment::{OpeningConnection, OpeningContext, OpeningOutcome};
use super::error::{AttemptError, HttpClientError};
use super::request::RequestProgress;
use super::{ConnectionId, HttpClient, RequestId};
use crate::connection_pool::{KeyLimits, PoolAction};

impl HttpClient {
    /// Makes the pool find a connection for a request that has none.
    pub(super) fn acquire(&mut self, id: RequestId) -> Result<(), HttpClientError> {
        let Self { requests, pool, .. } = self;
        let Some(pending) = requests.get_mut(&id) else { return Ok(()) };
        pending.stage = RequestProgress::Done;
        let limits = pending.request.connections;
        if limits != KeyLimits::NONE {
            pool.limit(&pending.key, limits);
        }
        pool.acquire(&pending.key, id, pending.reuse, pending.due_ms(), self.now_ms)?;
        pending.stage = RequestProgress::Waiting;
        Ok(())
    }

    /// Requests another connection for a request.
    pub(super) fn acquire_again(&mut self, id: RequestId) {
        if let Err(error) = self.acquire(id) {
            self.fail(id, error);
        }
    }

    /// Performs an action of the pool.
    pub(super) fn perform(
        &mut self,
        action: PoolAction<ConnectionId, RequestId>,
        connections: &mut Connections<'_>,
    ) {
        match action {
            PoolAction::Close(connection) => self.close_connection(connection, connections),
            PoolAction::TimedOut(id) => {
                self.abandoned.remove(&id);
                let Some(pending) = self.requests.get_mut(&id) else { return };
                if let RequestProgress::Waiting = pending.stage {
                    // The pool has no connection for it any more.
                    pending.stage = RequestProgress::Done;
                    let timeout_ms = pending.request.timeout_ms;
                    self.fail(id, HttpClientError::QueueTimeout(timeout_ms));
                }
            }
            PoolAction::Open(id) => {
                if let Some(key) = self.abandoned.remove(&id) {
                    return self.pool.not_opened(&key, self.now_ms);
                }
                let Some(pending) = self.requests.get_mut(&id) else { return };
                self.next_opening += 1;
                let opening =
                    OpeningConnection::new(&pending.request, self.next_opening, self.now_ms);
                pending.stage = RequestProgress::Opening(opening);
                self.resolve(id);
                self.go_on_opening(id, connections);
            }
            PoolAction::Assign { waiter, connection } => {
                if let Some(key) = self.abandoned.remove(&waiter) {
                    return self.pool.release(&key, connection, self.now_ms);
                }
                if let Some(pending) = self.requests.get_mut(&waiter) {
                    pending.is_connection_reused = true;
                }
                self.assign(waiter, connection, connections);
            }
        }
    }

    /// Continues to open the connection of a request.
    pub(super) fn go_on_opening(&mut self, id: RequestId, connections: &mut Connections<'_>) {
        let Some(pending) = self.requests.get_mut(&id) else { return };
        let RequestProgress::Opening(opening) = &mut pending.stage else { return };
        let opened = opening.advance(&mut OpeningContext {
            connections,
            request: &pending.request,
            id,
            next_connection: &mut self.next_connection,
            opening: &mut self.opening,
        });
        if let Some(wait_ms) = opening.wait_ms() {
            self.set_alarm(id, wait_ms);
        }
        self.settle_opening(id, opened, connections);
    }

    fn settle_opening(
        &mut self,
        id: RequestId,
        opened: OpeningOutcome,
        connections: &mut Connections<'_>,
    ) {
        let (connection, address) = match opened {
            OpeningOutcome::Pending => return,
            OpeningOutcome::Connection(connection, address) => (connection, address),
            OpeningOutcome::Failed(error) => return self.fail(id, error),
        };
        let Some(pending) = self.requests.get_mut(&id) else { return };
        if let RequestProgress::Opening(opening) =
            std::mem::replace(&mut pending.stage, RequestProgress::Waiting)
        {
            for other in opening.end(Some(connection), connections) {
                self.opening.remove(&other);
            }
        }
        self.opening.remove(&connection);
        let key = pending.key.clone();
        pending.is_connection_reused = false;
        self.pool.opened(&key, connection);
        self.connections.insert(connection, ClientConnection::new(address, key));
        self.assign(id, connection, connections);
    }

    /// Handles a connection that is open now.
    pub(super) fn connected(&mut self, connection: ConnectionId) {
        let Some(id) = self.opening.get(&connection).copied() else { return };
        let Some(pending) = self.requests.get_mut(&id) else { return };
        let RequestProgress::Opening(opening) = &mut pending.stage else { return };
        opening.connected(connection, self.now_ms);
        self.commands.push_back(ConnectionCommand::Open(id));
    }

    /// Handles a connection that could not be opened.
    pub(super) fn not_connected(&mut self, connection: ConnectionId, error: AttemptError) {
        let Some(id) = self.opening.remove(&connection) else { return };
        let Some(pending) = self.requests.get_mut(&id) else { return };
        let RequestProgress::Opening(opening) = &mut pending.stage else { return };
        match opening.failed(connection, error, self.now_ms) {
            OpeningOutcome::Failed(error) => self.fail(id, error),
            _ => self.commands.push_back(ConnectionCommand::Open(id)),
        }
    }
}
