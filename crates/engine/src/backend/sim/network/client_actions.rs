//! The actions of simulated clients on their connections, and those of the players of the servers
//! to which the engine opens connections.

use std::collections::VecDeque;

use rustix::io::Errno;

use super::Network;
use crate::backend::sim::simulated_connection::{Client, Connect, Facts, Read};
use crate::outgoing_connect::RemoteAddress;

/// Bytes that the kernel takes from a client before the engine has read them.
const INPUT_MAX_BYTES: usize = 64 * 1024;

impl Network {
    /// Connects a client. It waits to be accepted; it may send meanwhile.
    pub fn connect(&self, options: Connect) -> Client {
        let mut state = self.0.borrow_mut();
        let client = state.add(options, true);
        state.waiting[options.listener].push_back(client);
        state.note(format_args!("{client:?} connects"));
        client
    }

    /// Returns the next connection that the engine opens. The player of its server acts with it as
    /// a client does, once it has [accepted](Self::establish) it.
    pub fn next_opened(&self) -> Option<(Client, RemoteAddress)> {
        self.0.borrow_mut().opened.pop_front()
    }

    /// Returns whether a connection is open for the engine. One to a Unix socket may be so before
    /// its server has accepted it, and is not refused then.
    pub fn is_established(&self, server: Client) -> bool {
        self.0.borrow().connections[server.0].established
    }

    /// Accepts a connection as its server.
    pub fn establish(&self, server: Client, window_bytes: usize) {
        let mut state = self.0.borrow_mut();
        let connection = &mut state.connections[server.0];
        connection.established = true;
        connection.options.window_bytes = window_bytes;
        state.note(format_args!("{server:?} accepts"));
    }

    /// Refuses a connection as the system of its server, or fails the path to it.
    pub fn refuse(&self, server: Client, error: Errno) {
        let mut state = self.0.borrow_mut();
        state.connections[server.0].fail(error);
        state.note(format_args!("{server:?} refuses: {error}"));
    }

    /// Returns whether the engine has closed a connection.
    pub fn is_closed(&self, client: Client) -> bool {
        self.0.borrow().connections[client.0].facts.closed_at_ms.is_some()
    }

    /// Sends from a client, and returns the number of bytes that the kernel took. A server that has
    /// closed the connection replies with a reset.
    pub fn send(&self, client: Client, bytes: &[u8]) -> usize {
        let mut state = self.0.borrow_mut();
        let connection = &mut state.connections[client.0];
        assert!(!connection.client_ended, "a client that has ended sends nothing");
        if connection.client_reset {
            return 0;
        }
        if connection.facts.closed_at_ms.is_some() {
            state.reset_client(client);
            return 0;
        }
        let taken = bytes.len().min(INPUT_MAX_BYTES.saturating_sub(connection.to_server.len()));
        connection.to_server.extend(&bytes[..taken]);
        if taken > 0 {
            state.note(format_args!("{client:?} sends {taken}"));
        }
        taken
    }

    /// Reads up to `max` bytes and appends them to `into`.
    pub fn read(&self, client: Client, max: usize, into: &mut Vec<u8>) -> Read {
        let mut state = self.0.borrow_mut();
        let connection = &mut state.connections[client.0];
        let bytes = max.min(connection.to_client.len());
        if bytes > 0 {
            let (front, back) = connection.to_client.as_slices();
            let in_front = bytes.min(front.len());
            into.extend_from_slice(&front[..in_front]);
            into.extend_from_slice(&back[..bytes - in_front]);
            connection.to_client.drain(..bytes);
            connection.acknowledged += bytes as u64;
            state.note(format_args!("{client:?} reads {bytes}"));
            return Read::Bytes(bytes);
        }
        match connection {
            _ if max == 0 => Read::Nothing,
            connection if connection.client_reset => Read::Reset,
            connection if connection.server_ended => Read::Ended,
            _ => Read::Nothing,
        }
    }

    /// Sends the client's end of stream; the client goes on reading.
    pub fn end(&self, client: Client) {
        let mut state = self.0.borrow_mut();
        state.connections[client.0].client_ended = true;
        state.note(format_args!("{client:?} ends"));
    }

    /// Closes the client's socket; bytes that are still sent to it cause a reset.
    pub fn leave(&self, client: Client) {
        let mut state = self.0.borrow_mut();
        let connection = &mut state.connections[client.0];
        connection.client_ended = true;
        connection.client_gone = true;
        connection.to_client = VecDeque::new();
        state.note(format_args!("{client:?} leaves"));
    }

    /// Resets the connection as its client.
    pub fn reset(&self, client: Client) {
        let mut state = self.0.borrow_mut();
        let connection = &mut state.connections[client.0];
        connection.fail(Errno::CONNRESET);
        // None of it is read any more, and a run may have many such connections.
        (connection.to_client, connection.to_server) = (VecDeque::new(), VecDeque::new());
        state.note(format_args!("{client:?} resets"));
    }

    /// Returns the observable state of a connection.
    pub fn facts(&self, client: Client) -> Facts {
        let connection = &self.0.borrow().connections[client.0];
        Facts {
            unread_bytes: connection.to_client.len(),
            untaken_bytes: connection.to_server.len(),
            ..connection.facts
        }
    }
}
