//! A simulated connection: the state that the kernel keeps of it, its options, and the facts that a
//! client can observe.

use std::collections::VecDeque;

use rustix::io::Errno;

/// The handle of a connection for its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Client(pub(super) usize);

/// The options of a client's connection.
#[derive(Debug, Clone, Copy)]
pub struct Connect {
    /// The index of the listener.
    pub listener: usize,
    /// Bytes that fit between the engine and this client before it reads.
    pub window_bytes: usize,
    /// Whether this is a Unix socket: its kernel does not report how far a send in flight has come,
    /// only the number of bytes that the client has not read.
    pub local: bool,
    /// Whether the connection is protected from random faults.
    pub protected: bool,
}

/// The result of a client's read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// The number of bytes read, at least one.
    Bytes(usize),
    /// No bytes have arrived yet.
    Nothing,
    /// The server has sent its end of stream.
    Ended,
    /// The connection was reset.
    Reset,
}

/// The observable state of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts {
    /// The time at which the engine attached it, in milliseconds.
    pub attached_at_ms: Option<u64>,
    /// The time at which the engine last took a byte from it.
    pub taken_at_ms: u64,
    /// The time at which the engine last put a byte into it.
    pub given_at_ms: u64,
    /// The time at which the engine closed it.
    pub closed_at_ms: Option<u64>,
    /// Whether the engine had ended its stream before it closed the connection.
    pub lingered: bool,
    /// Whether its client left no room for output at the time it was closed.
    pub stalled: bool,
    /// Whether a failing operation hit it: it need not work any more.
    pub hurt: bool,
    /// Bytes that wait for the client to read them.
    pub unread_bytes: usize,
    /// Bytes of the client that wait for the engine.
    pub untaken_bytes: usize,
}

/// One connection as the kernel sees it.
#[derive(Debug)]
pub(super) struct SimConnection {
    pub(super) options: Connect,
    /// Whether the TCP handshake is over. Only connections that the engine opens wait for that.
    pub(super) established: bool,
    pub(super) to_server: VecDeque<u8>,
    pub(super) client_ended: bool,
    pub(super) to_client: VecDeque<u8>,
    pub(super) server_ended: bool,
    /// The error with which both directions fail for the engine.
    pub(super) broken: Option<Errno>,
    /// Whether both directions have failed for the client.
    pub(super) client_reset: bool,
    /// Whether the client has closed its socket: nothing that arrives is read.
    pub(super) client_gone: bool,
    /// The number of bytes that the client has read.
    pub(super) acknowledged: u64,
    pub(super) facts: Facts,
}

impl SimConnection {
    /// Creates the state of a new connection, which is established or not.
    pub(super) fn new(options: Connect, established: bool) -> Self {
        Self {
            options,
            established,
            to_server: VecDeque::new(),
            client_ended: false,
            to_client: VecDeque::new(),
            server_ended: false,
            broken: None,
            client_reset: false,
            client_gone: false,
            acknowledged: 0,
            facts: Facts::default(),
        }
    }

    /// Returns the number of bytes that the kernel takes from the engine now.
    pub(super) fn room(&self) -> usize {
        let (window, unread) = (self.options.window_bytes, self.to_client.len());
        // A Unix socket takes no more until three quarters of it were read.
        let full = self.options.local && unread > 0 && unread > window / 4;
        if full { 0 } else { window.saturating_sub(unread) }
    }

    /// Returns whether a read of the engine returns at once: with bytes, an end or an error.
    pub(super) fn has_input(&self) -> bool {
        !self.to_server.is_empty() || self.client_ended || self.broken.is_some()
    }

    /// Ends both directions for both sides.
    pub(super) fn fail(&mut self, error: Errno) {
        self.broken = Some(error);
        self.facts.hurt = true;
        self.client_reset = true;
        self.to_server.clear();
    }
}
