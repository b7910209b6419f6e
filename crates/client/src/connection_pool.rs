//! A pool of connections that are kept for further requests (RFC 9112 §9.3).
//!
//! This is a state machine: requests for connections and events of connections go in, with the time
//! in milliseconds; [`PoolAction`]s come out. Connections are identifiers of the caller.
//!
//! - A request gets the connection that was released last, since the server is least likely to have
//!   closed it.
//! - The number of connections is bounded, for each key and in total. If an unused connection
//!   prevents a new one, the oldest is closed.
//! - Requests that cannot have a connection wait in the order of their arrival, each until its
//!   deadline. The number of those that wait for one key is bounded.

mod key_connections;

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use thiserror::Error;

use crate::address_policy::AddressPolicy;
use crate::client_tls::TlsIdentity;
use crate::connect_target::ConnectTarget;
use crate::limits::{CONNECTIONS_PER_KEY_MAX, POOL_IDLE_TIMEOUT_MS, POOL_WAITERS_PER_KEY_MAX};
use key_connections::{IdleConnection, KeyConnections, PoolWaiter};

/// The key that connections must have in common so that requests may share them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolKey {
    /// The site whose requests share connections.
    pub site: u64,
    /// Scheme, host and port, or the path of a Unix socket.
    pub target: ConnectTarget,
    /// The TLS settings of encrypted connections.
    pub tls: Option<TlsIdentity>,
    /// The policy by which the address was checked.
    pub policy: Arc<AddressPolicy>,
}

/// The bounds of a [`ConnectionPool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// The maximum number of connections of one key; see [`CONNECTIONS_PER_KEY_MAX`].
    pub connections_per_key_max: usize,
    /// The maximum number of connections of all keys together.
    pub connections_max: usize,
    /// The maximum number of requests that wait for one key; see [`POOL_WAITERS_PER_KEY_MAX`].
    pub waiters_per_key_max: usize,
    /// The time for which an unused connection is kept, in milliseconds; see
    /// [`POOL_IDLE_TIMEOUT_MS`].
    pub idle_timeout_ms: u64,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            connections_per_key_max: CONNECTIONS_PER_KEY_MAX,
            connections_max: usize::MAX,
            waiters_per_key_max: POOL_WAITERS_PER_KEY_MAX,
            idle_timeout_ms: POOL_IDLE_TIMEOUT_MS,
        }
    }
}

/// The bounds of the connections of one key, if they are lower than those of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLimits {
    /// The maximum number of connections, including unused ones and those that are being opened.
    pub connections_max: usize,
    /// The maximum number of unused connections. An application with few processes can serve no
    /// other client by a process that waits for the next request of a connection.
    pub idle_max: usize,
}

impl KeyLimits {
    /// The limits of a key without bounds besides those of the pool.
    pub const NONE: Self = Self { connections_max: usize::MAX, idle_max: usize::MAX };
}

/// The connections that a request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// A connection that was used before, or a new one.
    Allowed,
    /// Only a new connection: the request is repeated because an old connection was dead
    /// ([`crate::retry`]).
    Refused,
}

/// The next action of the caller. Each request gets exactly one of [`Self::Open`], [`Self::Assign`]
/// and [`Self::TimedOut`], unless it was cancelled or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolAction<C, W> {
    /// Opens a connection for this request, and reports its end by [`ConnectionPool::opened`] or
    /// [`ConnectionPool::not_opened`].
    Open(W),
    /// Uses this connection, which is open, for this request, and then calls
    /// [`ConnectionPool::release`] or [`ConnectionPool::closed`].
    Assign {
        /// The request.
        waiter: W,
        /// The connection.
        connection: C,
    },
    /// Closes this connection, which is not in use and has left the pool.
    Close(C),
    /// This request has waited until its deadline.
    TimedOut(W),
}

/// The error of a request for which the queue of its key is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("too many requests wait for a connection (at most {0}); try again later")]
pub struct PoolQueueFull(pub usize);

/// A pool of connections, which is a state machine without I/O. `K` stands for a [`PoolKey`], and
/// hashes itself with a secret, since the table has none; `C` identifies a connection, and `W` a
/// request.
#[derive(Debug)]
pub struct ConnectionPool<K, C, W> {
    settings: PoolSettings,
    keys: FxHashMap<K, KeyConnections<C, W>>,
    /// The number of connections of all keys, including those that are being opened.
    connections: usize,
    /// The number of requests of all keys that wait.
    waiting: usize,
    /// The deadlines of waiting requests and of unused connections: time and serial number.
    deadlines: BTreeMap<(u64, u64), K>,
    /// The next serial number of requests and releases.
    next_serial: u64,
    actions: VecDeque<PoolAction<C, W>>,
}

impl<K: Clone + Eq + Hash, C: Copy + Eq, W: Copy + Eq> ConnectionPool<K, C, W> {
    /// Creates an empty pool.
    #[must_use]
    pub fn new(settings: PoolSettings) -> Self {
        Self {
            settings,
            keys: FxHashMap::default(),
            connections: 0,
            waiting: 0,
            deadlines: BTreeMap::new(),
            next_serial: 0,
            actions: VecDeque::new(),
        }
    }

    /// Sets the bounds of a key. [`Self::acquire`] has to follow: the bounds are forgotten when the
    /// key has neither connections nor waiting requests.
    pub fn limit(&mut self, key: &K, limits: KeyLimits) {
        self.keys.entry(key.clone()).or_default().limits = limits;
    }

    /// Requests a connection for a request. The reply is an action, now or later.
    ///
    /// # Errors
    /// Fails if no connection is free and the queue is full. The request is not kept.
    pub fn acquire(
        &mut self,
        key: &K,
        waiter: W,
        reuse: Reuse,
        deadline_ms: u64,
        now_ms: u64,
    ) -> Result<(), PoolQueueFull> {
        if deadline_ms > now_ms && reuse == Reuse::Allowed && self.assign_idle(key, waiter, now_ms)
        {
            return Ok(());
        }
        let serial = self.serial();
        let entry = self.keys.entry(key.clone()).or_default();
        entry.waiters.push_back(PoolWaiter { waiter, reuse, deadline_ms, serial });
        self.waiting += 1;
        self.deadlines.insert((deadline_ms, serial), key.clone());
        self.dispatch(key, now_ms);
        let max = self.settings.waiters_per_key_max;
        let is_full = self.keys.get(key).is_some_and(|entry| entry.waiters.len() > max);
        if is_full {
            // All requests before it wait, so it is the last one.
            self.remove_waiter(key, |entry| entry.serial == serial);
        }
        self.forget_if_empty(key);
        if is_full { Err(PoolQueueFull(max)) } else { Ok(()) }
    }

    /// Cancels a waiting request. Returns false for a request that has got an action already, to
    /// which the caller has to react all the same.
    pub fn cancel(&mut self, key: &K, waiter: W) -> bool {
        let is_cancelled = self.remove_waiter(key, |entry| entry.waiter == waiter).is_some();
        self.forget_if_empty(key);
        is_cancelled
    }

    /// Notes that the connection of [`PoolAction::Open`] is open, and is used by its request.
    pub fn opened(&mut self, key: &K, connection: C) {
        let Some(entry) = self.keys.get_mut(key) else { return };
        debug_assert!(entry.opening > 0, "an action has asked for it");
        debug_assert!(!entry.in_use.contains(&connection), "identifiers are unique");
        if entry.opening > 0 {
            entry.opening -= 1;
            entry.in_use.push(connection);
        }
    }

    /// Notes that the connection of [`PoolAction::Open`] could not be opened.
    pub fn not_opened(&mut self, key: &K, now_ms: u64) {
        let Some(entry) = self.keys.get_mut(key) else { return };
        debug_assert!(entry.opening > 0, "an action has asked for it");
        if entry.opening > 0 {
            entry.opening -= 1;
            self.freed(key, now_ms);
        }
    }

    /// Releases a connection that can serve another request. A connection that is not in use is
    /// ignored.
    pub fn release(&mut self, key: &K, connection: C, now_ms: u64) {
        let end_ms = now_ms.saturating_add(self.settings.idle_timeout_ms);
        let serial = self.serial();
        let Some(entry) = self.keys.get_mut(key) else { return };
        if !entry.end_use(connection) {
            return;
        }
        entry.idle.push(IdleConnection { connection, end_ms, serial });
        self.deadlines.insert((end_ms, serial), key.clone());
        self.dispatch(key, now_ms);
        let idle_max = self.keys.get(key).map_or(usize::MAX, |entry| entry.limits.idle_max);
        while self.keys.get(key).is_some_and(|entry| entry.idle.len() > idle_max) {
            self.close_oldest_idle(key);
        }
        // Another key may wait for the total number of connections.
        self.dispatch_all(now_ms);
        self.forget_if_empty(key);
    }

    /// Notes that a connection has ended, or cannot serve another request and is closed by the
    /// caller: one in use, or an unused one that the server has closed.
    pub fn closed(&mut self, key: &K, connection: C, now_ms: u64) {
        let Some(entry) = self.keys.get_mut(key) else { return };
        if let Some(idle) = entry.remove_idle(|idle| idle.connection == connection) {
            self.deadlines.remove(&(idle.end_ms, idle.serial));
        } else if !entry.end_use(connection) {
            return;
        }
        self.freed(key, now_ms);
    }

    /// Ends the waits and closes the unused connections whose time has passed.
    pub fn tick(&mut self, now_ms: u64) {
        while let Some(first) = self.deadlines.first_entry() {
            let (due_ms, serial) = *first.key();
            if due_ms > now_ms {
                break;
            }
            let key = first.remove();
            let Some(entry) = self.keys.get_mut(&key) else { continue };
            if let Some(idle) = entry.remove_idle(|idle| idle.serial == serial) {
                self.actions.push_back(PoolAction::Close(idle.connection));
                self.freed(&key, now_ms);
            } else if let Some(waiter) = self.remove_waiter(&key, |entry| entry.serial == serial) {
                self.actions.push_back(PoolAction::TimedOut(waiter));
                self.forget_if_empty(&key);
            }
        }
    }

    /// Closes all connections that are not in use, such as when memory or descriptors are short.
    pub fn close_idle(&mut self) {
        let keys: Vec<K> = self.keys.keys().cloned().collect();
        for key in keys {
            while self.close_oldest_idle(&key) {}
            self.forget_if_empty(&key);
        }
    }

    /// Returns the next action. The caller takes actions until there are none, after each call of
    /// another function.
    pub fn next_action(&mut self) -> Option<PoolAction<C, W>> {
        self.actions.pop_front()
    }

    /// Returns whether there are actions.
    #[inline]
    #[must_use]
    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Returns when [`Self::tick`] has to be called next.
    #[must_use]
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.deadlines.first_key_value().map(|((due_ms, _), _)| *due_ms)
    }

    /// Returns the number of connections, also of those that are being opened.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// Returns the number of requests that wait for a connection.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    fn serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }

    /// Removes a request from the queue of a key, with its deadline.
    fn remove_waiter(&mut self, key: &K, is_match: impl Fn(&PoolWaiter<W>) -> bool) -> Option<W> {
        let removed = self.keys.get_mut(key)?.take_waiter(is_match)?;
        self.waiting -= 1;
        self.deadlines.remove(&(removed.deadline_ms, removed.serial));
        Some(removed.waiter)
    }

    fn forget_if_empty(&mut self, key: &K) {
        if self.keys.get(key).is_some_and(KeyConnections::is_empty) {
            self.keys.remove(key);
        }
    }

    /// Handles the end of a connection of a key.
    fn freed(&mut self, key: &K, now_ms: u64) {
        self.connections -= 1;
        self.dispatch(key, now_ms);
        self.dispatch_all(now_ms);
        self.forget_if_empty(key);
    }

    /// Closes the connection of a key that has been unused for the longest time. Returns whether
    /// there was one.
    fn close_oldest_idle(&mut self, key: &K) -> bool {
        let Some(entry) = self.keys.get_mut(key) else { return false };
        if entry.idle.is_empty() {
            return false;
        }
        let idle = entry.idle.remove(0);
        self.deadlines.remove(&(idle.end_ms, idle.serial));
        self.actions.push_back(PoolAction::Close(idle.connection));
        self.connections -= 1;
        true
    }

    /// Serves the requests that wait for one key, as far as connections are free.
    fn dispatch(&mut self, key: &K, now_ms: u64) {
        while self.serve_first(key, now_ms) {}
    }

    /// Serves requests of any key, those that have waited longest first, as long as a connection
    /// may be opened.
    fn dispatch_all(&mut self, now_ms: u64) {
        while self.waiting > 0 {
            let has_room = self.connections < self.settings.connections_max || self.has_idle();
            let max = self.settings.connections_per_key_max;
            let can_open = |entry: &KeyConnections<C, W>| {
                has_room && entry.count() < max.min(entry.limits.connections_max)
            };
            let waiting = self.keys.iter().filter(|(_, entry)| can_open(entry));
            let first =
                waiting.filter_map(|(key, entry)| Some((entry.waiters.front()?.serial, key)));
            let Some(key) = first.min_by_key(|(serial, _)| *serial).map(|(_, key)| key.clone())
            else {
                return;
            };
            if !self.serve_first(&key, now_ms) {
                return;
            }
        }
    }

    fn has_idle(&self) -> bool {
        self.keys.values().any(|entry| !entry.idle.is_empty())
    }

    /// Serves the first request that waits for a key. Returns false if there is none, or if it has
    /// to wait.
    fn serve_first(&mut self, key: &K, now_ms: u64) -> bool {
        let Some(entry) = self.keys.get_mut(key) else { return false };
        let Some(first) = entry.waiters.front().copied() else { return false };
        if first.deadline_ms <= now_ms {
            self.remove_waiter(key, |entry| entry.serial == first.serial);
            self.actions.push_back(PoolAction::TimedOut(first.waiter));
            return true;
        }
        let action = if first.reuse == Reuse::Allowed
            && let Some(connection) = self.take_idle(key, now_ms)
        {
            PoolAction::Assign { waiter: first.waiter, connection }
        } else if self.make_room(key) {
            self.connections += 1;
            PoolAction::Open(first.waiter)
        } else {
            return false;
        };
        self.remove_waiter(key, |entry| entry.serial == first.serial);
        if let Some(entry) = self.keys.get_mut(key) {
            match action {
                PoolAction::Assign { connection, .. } => entry.in_use.push(connection),
                _ => entry.opening += 1,
            }
        }
        self.actions.push_back(action);
        true
    }

    /// Assigns an unused connection to a request at once if no other one waits for it.
    fn assign_idle(&mut self, key: &K, waiter: W, now_ms: u64) -> bool {
        if self.keys.get(key).is_none_or(|entry| !entry.waiters.is_empty()) {
            return false;
        }
        let Some(connection) = self.take_idle(key, now_ms) else { return false };
        if let Some(entry) = self.keys.get_mut(key) {
            entry.in_use.push(connection);
        }
        self.actions.push_back(PoolAction::Assign { waiter, connection });
        true
    }

    /// Takes the connection of a key that was released last, unless its time has passed. In that
    /// case it is closed, and so are all others, which are older.
    fn take_idle(&mut self, key: &K, now_ms: u64) -> Option<C> {
        let entry = self.keys.get_mut(key)?;
        let is_fresh = entry.idle.last()?.end_ms > now_ms;
        if is_fresh {
            let idle = entry.idle.pop()?;
            self.deadlines.remove(&(idle.end_ms, idle.serial));
            return Some(idle.connection);
        }
        while self.close_oldest_idle(key) {}
        None
    }

    /// Makes sure that a connection for a key may be opened, if necessary by closing an unused one:
    /// of the key itself if it has as many as it may, else the oldest of all.
    fn make_room(&mut self, key: &K) -> bool {
        let entry = self.keys.get(key);
        let key_max = entry.map_or(usize::MAX, |entry| entry.limits.connections_max);
        let count = entry.map_or(0, KeyConnections::count);
        if count >= self.settings.connections_per_key_max.min(key_max) {
            return self.close_oldest_idle(key);
        }
        if self.connections < self.settings.connections_max {
            return true;
        }
        let oldest = |entry: &KeyConnections<C, W>| Some(entry.idle.first()?.serial);
        let keys = self.keys.iter().filter_map(|(key, entry)| Some((oldest(entry)?, key)));
        let oldest = keys.min_by_key(|(serial, _)| *serial).map(|(_, key)| key.clone());
        oldest.is_some_and(|oldest| {
            let is_closed = self.close_oldest_idle(&oldest);
            if oldest != *key {
                self.forget_if_empty(&oldest);
            }
            is_closed
        })
    }
}

#[cfg(test)]
mod tests;
