//! Byte streams: connections of a listener for byte streams, and upgraded ones. Their events, and
//! the actions that an application can take on one.

use std::net::SocketAddr;

use crate::backend::Slot;
use crate::byte_stream::{ByteStream, StreamState};
use crate::clock::Now;
use crate::connection::Protocol;
use crate::connection_actions::Connections;
use crate::drain_state::WorkerEnding;
use crate::end_reason::Gone;
use crate::exchange::{ContentRoom, Slice};
use crate::exchange_address::Address;
use crate::limits::OUTPUT_HIGH_WATER_BYTES;
use crate::worker_core::WorkerCore;

/// One byte stream, lent to the application for one event.
pub struct ByteStreamHandle<'w> {
    pub(crate) core: &'w mut WorkerCore,
    pub(crate) slot: Slot,
}

impl ByteStreamHandle<'_> {
    /// Returns the address for messages to this stream, from any thread or any event.
    pub fn address(&mut self) -> Address {
        self.core.address(self.slot)
    }

    /// Returns the time of this pass.
    pub fn now(&self) -> Now {
        self.core.now
    }

    /// Returns whether the server has begun to stop. Endless streams should not begin then.
    pub fn is_stopping(&self) -> bool {
        self.core.ending != WorkerEnding::No
    }

    /// Returns the client's address; `None` on a Unix socket.
    pub fn peer(&mut self) -> Option<SocketAddr> {
        self.core.connections.get(self.slot).peer
    }

    /// Sends bytes. Nothing is sent after the [end of our side](Self::finish).
    pub fn write(&mut self, slice: Slice<'_>) -> ContentRoom {
        if self.stream().is_none_or(|stream| stream.finished) {
            return ContentRoom::Gone;
        }
        let WorkerCore { connections, buffers, .. } = &mut *self.core;
        if let Err(why) = buffers.queue(&mut connections.get(self.slot).link.output, slice) {
            self.core.give_up(self.slot, why);
            return ContentRoom::Gone;
        }
        if self.core.queued_bytes(self.slot) < OUTPUT_HIGH_WATER_BYTES {
            return ContentRoom::Free;
        }
        if let Some(stream) = self.stream() {
            stream.owes_writable = true;
        }
        ContentRoom::Full
    }

    /// Requests `bytes` more from the peer. Nothing is read before the first call.
    pub fn want(&mut self, bytes: u64) {
        if let Some(stream) = self.stream() {
            stream.wanted_bytes = stream.wanted_bytes.saturating_add(bytes);
        }
    }

    /// Returns the tag that the application gave the connection when it opened it, or later; `None`
    /// for a client's connection without one.
    pub fn tag(&mut self) -> Option<u64> {
        self.stream()?.tag
    }

    /// Sets the tag of a client's stream, by which the application finds it in later events.
    pub fn set_tag(&mut self, tag: u64) {
        if let Some(stream) = self.stream() {
            stream.tag = Some(tag);
        }
    }

    /// Returns the index of the listener that accepted the client, in the order in which the server
    /// got them, those of QUIC last; `None` for a connection that the server opens.
    pub fn listener(&mut self) -> Option<usize> {
        self.core.connections.get(self.slot).accepted_by().map(usize::from)
    }

    /// Returns the reason why the TLS handshake has failed with the server that the application
    /// wanted to connect to; known during the event `Gone` of the stream.
    pub fn tls_error(&mut self) -> Option<&rustls::Error> {
        match &self.core.connections.get(self.slot).protocol {
            Protocol::Connecting(connecting) => connecting.failure.as_deref(),
            _ => None,
        }
    }

    /// Returns all connections of the worker, to open one or to act on another stream.
    pub fn connections(&mut self) -> Connections<'_> {
        Connections { core: self.core }
    }

    /// Ends our side of the stream once all written bytes have left: nothing is sent after that,
    /// and the peer can still send.
    pub fn finish(&mut self) {
        if let Some(stream) = self.stream() {
            stream.owes_finish = !stream.finished;
            stream.finished = true;
        }
    }

    /// Requests a `Deadline` event `after_ms` from now; `None` cancels it.
    pub fn wait(&mut self, after_ms: Option<u64>) {
        let now = self.core.now.monotonic_ms;
        let at_ms = after_ms.map_or(0, |after| now.saturating_add(after.max(1)));
        self.core.connections.get(self.slot).link.app_deadline_ms = at_ms;
    }

    /// Returns a number that changes when the peer acknowledges bytes, as it was at the last
    /// `Deadline` event; 0 before the first one, or if the system does not report it. It also
    /// counts bytes that the kernel had taken long before, so an upload over a slow path is seen to
    /// go on until its end.
    pub fn acknowledged(&mut self) -> u32 {
        self.stream().map_or(0, |stream| stream.progress)
    }

    /// Closes the connection once all written bytes have left. The stream is over for the
    /// application. One that is not open yet is cut.
    pub fn close(&mut self) {
        if let Protocol::Connecting(_) = self.core.connections.get(self.slot).protocol {
            return self.abort();
        }
        if let Some(stream) = self.stream() {
            stream.state = StreamState::Closed;
        }
    }

    /// Cuts the connection now. The stream is over for the application.
    pub fn abort(&mut self) {
        if let Some(stream) = self.stream() {
            stream.state = StreamState::Gone;
        }
        self.core.give_up(self.slot, Gone::Peer);
    }

    fn stream(&mut self) -> Option<&mut ByteStream> {
        self.core.connections.get(self.slot).protocol.byte_stream()
    }
}
