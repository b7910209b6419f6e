//! The connections of one key of a pool, and the requests that wait for one of them.

use std::collections::VecDeque;

use super::{KeyLimits, Reuse};

/// The connections of one key, and the requests that wait.
#[derive(Debug)]
pub(super) struct KeyConnections<C, W> {
    pub(super) limits: KeyLimits,
    /// The number of connections that are being opened.
    pub(super) opening: usize,
    pub(super) in_use: Vec<C>,
    /// The connections that are not in use, the one that was released last at the end.
    pub(super) idle: Vec<IdleConnection<C>>,
    pub(super) waiters: VecDeque<PoolWaiter<W>>,
}

/// A connection that is not in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleConnection<C> {
    pub(super) connection: C,
    pub(super) end_ms: u64,
    pub(super) serial: u64,
}

/// A request that waits for a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolWaiter<W> {
    pub(super) waiter: W,
    pub(super) reuse: Reuse,
    pub(super) deadline_ms: u64,
    pub(super) serial: u64,
}

impl<C, W> KeyConnections<C, W> {
    /// Returns the number of connections, including those that are being opened.
    pub(super) fn count(&self) -> usize {
        self.opening + self.in_use.len() + self.idle.len()
    }

    /// Returns whether there are neither connections nor waiting requests.
    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0 && self.waiters.is_empty()
    }

    /// Takes the first matching request out of the queue.
    pub(super) fn take_waiter(
        &mut self,
        is_match: impl Fn(&PoolWaiter<W>) -> bool,
    ) -> Option<PoolWaiter<W>> {
        let position = self.waiters.iter().position(is_match)?;
        self.waiters.remove(position)
    }

    /// Removes the first matching unused connection, and keeps the order of the others.
    pub(super) fn remove_idle(
        &mut self,
        is_match: impl Fn(&IdleConnection<C>) -> bool,
    ) -> Option<IdleConnection<C>> {
        let position = self.idle.iter().position(is_match)?;
        Some(self.idle.remove(position))
    }
}

impl<C: Copy + Eq, W> KeyConnections<C, W> {
    /// Ends the use of a connection. Returns whether it was in use.
    pub(super) fn end_use(&mut self, connection: C) -> bool {
        let position = self.in_use.iter().position(|in_use| *in_use == connection);
        position.map(|position| self.in_use.remove(position)).is_some()
    }
}

impl<C, W> Default for KeyConnections<C, W> {
    fn default() -> Self {
        let limits = KeyLimits::NONE;
        Self { limits, opening: 0, in_use: Vec::new(), idle: Vec::new(), waiters: VecDeque::new() }
    }
}
