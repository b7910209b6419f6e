//! One of the two sides of a tunnel, over either carrier: a connection, or a stream of HTTP/2 or
//! HTTP/3, which stays an exchange of the engine ([`Exchange::open_tunnel`]).

use pinion_engine::app::{ByteStreamEvent, Event};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::{ContentRoom, Exchange, Slice};
use pinion_engine::exchange_address::Address;

use crate::limits::TUNNEL_PIECE_BYTES;

/// One of the two sides of a tunnel.
#[derive(Clone, Copy)]
pub(crate) struct TunnelEnd {
    pub(crate) address: Address,
    pub(crate) carrier: TunnelCarrier,
    /// Bytes that it may still bring before it is asked for more.
    pub(crate) credit: u64,
    /// It will bring no more.
    pub(crate) has_ended: bool,
}

/// The carrier of one side of a tunnel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TunnelCarrier {
    /// A whole connection, which is a byte stream.
    Connection,
    /// A stream of HTTP/2 or HTTP/3 (RFC 8441, RFC 9220).
    Stream,
}

/// An event on one side of a tunnel.
#[derive(Clone, Copy)]
pub(crate) enum TunnelEvent<'a> {
    /// Its connection was switched to the other protocol.
    Open(Address),
    Bytes(&'a [u8]),
    /// It will bring no more.
    End,
    /// There is room for more.
    Writable,
    /// The deadline of [`TunnelEnd::wait`] has passed.
    Deadline,
    /// It is gone. Bytes may be lost in either direction.
    Gone,
}

impl<'a> TunnelEvent<'a> {
    /// Returns the meaning of an event of a byte stream for a tunnel; `None` if it has none.
    pub(crate) fn of_connection(event: &ByteStreamEvent<'a>, address: Address) -> Option<Self> {
        Some(match event {
            ByteStreamEvent::Open => Self::Open(address),
            ByteStreamEvent::Bytes(bytes) => Self::Bytes(bytes),
            ByteStreamEvent::End => Self::End,
            ByteStreamEvent::Writable => Self::Writable,
            ByteStreamEvent::Deadline => Self::Deadline,
            ByteStreamEvent::Gone(_) => Self::Gone,
            ByteStreamEvent::Posted(_) | ByteStreamEvent::Stopping => return None,
        })
    }

    /// Returns the meaning of an event of an exchange for a tunnel; `None` if it has none.
    pub(crate) fn of_exchange(event: &Event<'a>, exchange: &mut Exchange<'_>) -> Option<Self> {
        Some(match event {
            Event::Body(bytes) => Self::Bytes(bytes),
            Event::BodyEnd(_) => Self::End,
            Event::Writable => Self::Writable,
            Event::Deadline => Self::Deadline,
            Event::Gone(_) => Self::Gone,
            Event::InputEnd => {
                // The client of a connection that has ended opens no window any more.
                exchange.abort();
                Self::Gone
            }
            // A refused exchange is followed by its end.
            Event::Refused(_) | Event::Head(_) | Event::Posted(_) | Event::Stopping => return None,
        })
    }
}

impl TunnelEnd {
    pub(crate) fn new(address: Address, carrier: TunnelCarrier, credit: u64) -> Self {
        Self { address, carrier, credit, has_ended: false }
    }

    /// Asks for more bytes.
    pub(crate) fn want(&mut self, connections: &mut Connections<'_>) {
        if self.credit >= TUNNEL_PIECE_BYTES / 2 {
            return;
        }
        let bytes = TUNNEL_PIECE_BYTES - self.credit;
        let is_open = match self.carrier {
            TunnelCarrier::Connection => {
                connections.stream(self.address).map(|mut stream| stream.want(bytes))
            }
            TunnelCarrier::Stream => {
                connections.exchange(self.address).map(|mut exchange| exchange.want(bytes))
            }
        };
        if is_open.is_some() {
            self.credit = TUNNEL_PIECE_BYTES;
        }
    }

    /// Sends bytes.
    pub(crate) fn write(&self, bytes: &[u8], connections: &mut Connections<'_>) -> ContentRoom {
        let slice = Slice::Copied(bytes);
        let room = match self.carrier {
            TunnelCarrier::Connection => {
                connections.stream(self.address).map(|mut stream| stream.write(slice))
            }
            TunnelCarrier::Stream => {
                connections.exchange(self.address).map(|mut exchange| exchange.write(slice))
            }
        };
        room.unwrap_or(ContentRoom::Gone)
    }

    /// Sends no more after the bytes that were written, and continues to receive.
    pub(crate) fn finish(&self, connections: &mut Connections<'_>) {
        match self.carrier {
            TunnelCarrier::Connection => {
                connections.stream(self.address).iter_mut().for_each(ByteStreamHandle::finish);
            }
            TunnelCarrier::Stream => {
                connections.exchange(self.address).iter_mut().for_each(Exchange::finish);
            }
        }
    }

    /// Asks for a deadline so many milliseconds from now.
    pub(crate) fn wait(&self, after_ms: u64, connections: &mut Connections<'_>) {
        match self.carrier {
            TunnelCarrier::Connection => {
                let mut stream = connections.stream(self.address);
                stream.iter_mut().for_each(|stream| stream.wait(Some(after_ms)));
            }
            TunnelCarrier::Stream => {
                let mut exchange = connections.exchange(self.address);
                exchange.iter_mut().for_each(|exchange| exchange.wait(Some(after_ms)));
            }
        }
    }

    /// Ends it in both directions. Written bytes are still sent.
    pub(crate) fn close(&self, connections: &mut Connections<'_>) {
        match self.carrier {
            TunnelCarrier::Connection => {
                connections.stream(self.address).iter_mut().for_each(ByteStreamHandle::close);
            }
            TunnelCarrier::Stream => {
                let mut exchange = connections.exchange(self.address);
                exchange.iter_mut().for_each(|exchange| exchange.end(std::iter::empty()));
            }
        }
    }

    /// Resets it (RFC 8441 §5).
    pub(crate) fn abort(&self, connections: &mut Connections<'_>) {
        match self.carrier {
            TunnelCarrier::Connection => {
                connections.stream(self.address).iter_mut().for_each(ByteStreamHandle::abort);
            }
            TunnelCarrier::Stream => {
                connections.exchange(self.address).iter_mut().for_each(Exchange::abort);
            }
        }
    }
}
