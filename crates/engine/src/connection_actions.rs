//! The connections of a worker, lent to the application outside of their own events: a message or a
//! timer of the application can write to any stream, end it, or open another one.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use bytes::Bytes;

use crate::backend::Slot;
use crate::byte_stream::{ByteStream, ConnectStep, Connecting};
use crate::byte_stream_handle::ByteStreamHandle;
use crate::clock::Now;
use crate::connection::{Connection, Protocol};
use crate::connection_direction::ConnectionDirection;
use crate::drain_state::WorkerEnding;
use crate::end_reason::Gone;
use crate::exchange::state::Carrier;
use crate::exchange::{ContentRoom, Exchange, Slice};
use crate::exchange_address::Address;
use crate::file_mapping::Mappings;
use crate::http1::Http1;
use crate::limits::BROADCAST_QUEUE_MAX_BYTES;
use crate::outgoing_connect::{Connect, ConnectError, RemoteAddress, RemoteOrigin};
use crate::worker_core::WorkerCore;

/// The connections of a worker.
pub struct Connections<'w> {
    pub(crate) core: &'w mut WorkerCore,
}

/// The result of a [broadcast](Connections::broadcast): each stream is counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Broadcast {
    /// Streams that have the message in their queue.
    pub queued: usize,
    /// Streams that are cut instead, and whose applications get the reason.
    pub cut: usize,
    /// Streams that were over before, or whose side was finished.
    pub over: usize,
}

/// The outcome of a message for one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delivery {
    Queued,
    Cut,
    Over,
}

impl ByteStreamHandle<'_> {
    /// Queues a message, or cuts the stream.
    fn deliver(&mut self, message: &Bytes) -> Delivery {
        let Connection { link, protocol, .. } = self.core.connections.get(self.slot);
        let is_finished = protocol.byte_stream().is_none_or(|stream| stream.finished);
        if is_finished || link.cut.is_some() {
            return Delivery::Over;
        }
        if self.core.queued_bytes(self.slot) >= BROADCAST_QUEUE_MAX_BYTES {
            self.core.give_up(self.slot, Gone::SlowReader);
            return Delivery::Cut;
        }
        match self.write(Slice::Shared(message.clone())) {
            ContentRoom::Gone => Delivery::Cut,
            ContentRoom::Free | ContentRoom::Full => Delivery::Queued,
        }
    }
}

impl Connections<'_> {
    /// Returns the time of this pass.
    pub fn now(&self) -> Now {
        self.core.now
    }

    /// Returns whether the server has begun to stop.
    pub fn is_stopping(&self) -> bool {
        self.core.ending != WorkerEnding::No
    }

    /// Returns the mappings that this worker holds.
    pub fn mappings(&mut self) -> &mut Mappings {
        &mut self.core.buffers.mappings
    }

    /// Opens a connection, as a byte stream with the returned address. Its first event is
    /// [`Open`](crate::app::ByteStreamEvent::Open) when it is open, or
    /// [`Gone`](crate::app::ByteStreamEvent::Gone); neither comes before the end of the event in
    /// which this is called. Output that is written before the connection is open is sent then.
    ///
    /// # Errors
    /// Fails if the server has opened as many as it may, or there is no memory for one more.
    pub fn connect(&mut self, connect: Connect) -> Result<Address, ConnectError> {
        self.core.connect(connect)
    }

    /// Makes a byte stream of a socket that is connected already, such as one end of a socket pair
    /// whose other end a program has. Events and early output are as for [`Self::connect`].
    ///
    /// # Errors
    /// Fails as [`Self::connect`] does; the socket is closed then.
    pub fn adopt(&mut self, socket: OwnedFd, tag: u64) -> Result<Address, ConnectError> {
        self.core.adopt(socket, tag)
    }

    /// Returns the byte stream with this address; `None` if it is over. Actions on it take effect
    /// at the end of this pass.
    pub fn stream(&mut self, address: Address) -> Option<ByteStreamHandle<'_>> {
        let (core, slot) = (&mut *self.core, address.slot);
        if !core.connections.is(slot, address.generation) {
            return None;
        }
        let connection = core.connections.get(slot);
        if !connection.has_single_open_exchange() || connection.protocol.byte_stream().is_none() {
            return None;
        }
        if connection.last_exchange_number() != address.exchange {
            return None;
        }
        core.mark_dirty(slot);
        Some(ByteStreamHandle { core, slot })
    }

    /// Sends a message to each of these byte streams. All of them share its bytes, which count once
    /// against the memory budget for buffers; each stream is flushed once at the end of the pass,
    /// regardless of the number of writes. The cost is a look at each stream.
    ///
    /// No message is lost silently: a stream whose peer is [too far
    /// behind](crate::limits::BROADCAST_QUEUE_MAX_BYTES) is cut with [`Gone::SlowReader`]; so is
    /// one for which there is no memory, with [`Gone::Overload`].
    ///
    /// To reach the streams of all workers, post the message to their applications
    /// ([`Poster::post_to_apps`](crate::Poster::post_to_apps)), and call this in each.
    pub fn broadcast(
        &mut self,
        streams: impl IntoIterator<Item = Address>,
        message: &Bytes,
    ) -> Broadcast {
        let mut sent = Broadcast::default();
        for address in streams {
            let stream = self.stream(address);
            let delivery = stream.map_or(Delivery::Over, |mut stream| stream.deliver(message));
            match delivery {
                Delivery::Queued => sent.queued += 1,
                Delivery::Cut => sent.cut += 1,
                Delivery::Over => sent.over += 1,
            }
        }
        sent
    }

    /// Returns the exchange with this address; `None` if it is over. Actions on it take effect at
    /// the end of this pass. It stays open unless it is responded to.
    pub fn exchange(&mut self, address: Address) -> Option<Exchange<'_>> {
        let (core, slot) = (&mut *self.core, address.slot);
        if !core.connections.is(slot, address.generation) {
            return None;
        }
        let connection = core.connections.get(slot);
        let is_last_begun = connection.exchanges_begun == address.exchange;
        let (carrier, is_open) = match &mut connection.protocol {
            Protocol::Multiplexed(multiplexed) => {
                let stream = multiplexed.stream(address.exchange)?;
                (Carrier::Stream(address.exchange), stream.state.stage.is_open())
            }
            Protocol::Http1(Http1::Exchange(open)) => {
                (Carrier::Connection, is_last_begun && open.state.stage.is_open())
            }
            _ => return None,
        };
        if !is_open {
            return None;
        }
        core.mark_dirty(slot);
        Some(Exchange { core, slot, carrier })
    }
}

impl WorkerCore {
    /// Opens a connection for [`Connections::connect`].
    fn connect(&mut self, connect: Connect) -> Result<Address, ConnectError> {
        let Connect { remote, tls, timeout_ms, tag } = connect;
        let peer = match remote {
            RemoteAddress::Tcp(address) => Some(address),
            RemoteAddress::Unix(_) => None,
        };
        let due_ms = self.now.monotonic_ms.saturating_add(timeout_ms.max(1));
        let stream = ByteStream::opened(tag);
        let (origin, step) = (RemoteOrigin::Remote(remote), ConnectStep::Wanted);
        self.begin_opening(Connecting { stream, origin, tls, due_ms, step, failure: None }, peer)
    }

    /// Begins a byte stream for [`Connections::adopt`].
    fn adopt(&mut self, socket: OwnedFd, tag: u64) -> Result<Address, ConnectError> {
        let connecting = Connecting {
            stream: ByteStream::opened(tag),
            origin: RemoteOrigin::Socket(Some(socket)),
            tls: None,
            // It is open as soon as the backend has it.
            due_ms: u64::MAX,
            step: ConnectStep::Wanted,
            failure: None,
        };
        self.begin_opening(connecting, None)
    }

    fn begin_opening(
        &mut self,
        connecting: Connecting,
        peer: Option<SocketAddr>,
    ) -> Result<Address, ConnectError> {
        if !self.make_room() || self.to_connect.try_reserve(1).is_err() {
            return Err(ConnectError::NoMemory);
        }
        if !self.outgoing.take() {
            return Err(ConnectError::TooMany);
        }
        let slot = self.connections.open(true, ConnectionDirection::Outgoing, peer);
        let connection = self.connections.get(slot);
        connection.count_exchange();
        connection.protocol = Protocol::Connecting(Box::new(connecting));
        self.to_connect.push(slot);
        Ok(self.address(slot))
    }

    /// Marks a connection as dirty, so that the worker settles it at the end of this pass.
    pub(crate) fn mark_dirty(&mut self, slot: Slot) {
        if !std::mem::replace(&mut self.connections.get(slot).link.dirty, true) {
            self.dirty.push(slot);
        }
    }
}
