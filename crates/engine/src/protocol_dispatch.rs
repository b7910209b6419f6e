//! The interface between an exchange and the protocol that carries it: its state, the limits of its
//! request, and its response. No other module distinguishes the protocols for that.

use pinion_http::field::Field;
use pinion_http::prepared_response::Prepared;

use crate::backend::Slot;
use crate::connection::{Connection, Protocol};
use crate::end_reason::Gone;
use crate::exchange::slice::{RangeSource, Slice};
use crate::exchange::state::{Carrier, ExchangeState};
use crate::http1::{self, Http1, OpenExchange};
use crate::http2::{self, Http2};
use crate::http3::{self, Http3};
use crate::multiplexed::Multiplexed;
use crate::response_head_tails::Tails;
use crate::settings::WorkerSettings;
use crate::transport_link::TransportLink;
use crate::worker_buffers::Buffers;
use crate::worker_core::WorkerCore;

/// The destination of a response: its connection, and the shared state of a worker's connections.
pub(crate) struct Sink<'c> {
    pub(crate) link: &'c mut TransportLink,
    pub(crate) buffers: &'c mut Buffers,
    pub(crate) tails: &'c Tails,
    pub(crate) settings: &'c WorkerSettings,
    /// The index of the listener of the connection.
    pub(crate) listener: u16,
    /// The number of exchanges that have begun on the connection.
    pub(crate) exchanges_begun: u32,
}

/// The carrier of an exchange: an HTTP/1 connection, or a stream with its number.
enum ExchangeCarrier<'c> {
    Http1(&'c mut OpenExchange),
    Http2(&'c mut Http2, u32),
    Http3(&'c mut Http3, u32),
}

/// The response of an open exchange.
pub(crate) struct Response<'c> {
    carried: ExchangeCarrier<'c>,
    sink: Sink<'c>,
}

/// Returns the state of the exchange on `carrier`, while it is open.
#[inline]
pub(crate) fn state(protocol: &mut Protocol, carrier: Carrier) -> Option<&mut ExchangeState> {
    match (protocol, carrier) {
        (Protocol::Http1(Http1::Exchange(open)), Carrier::Connection) => Some(&mut open.state),
        (Protocol::Multiplexed(multiplexed), Carrier::Stream(id)) => {
            multiplexed.stream(id).map(|stream| &mut stream.state)
        }
        (protocol, carrier) => {
            assert_is_over(protocol, carrier);
            None
        }
    }
}

/// Returns whether the announced content of an open exchange's request is within its limit; true if
/// the exchange is over.
pub(crate) fn content_fits(protocol: &mut Protocol, carrier: Carrier) -> bool {
    match (protocol, carrier) {
        (Protocol::Http1(Http1::Exchange(open)), Carrier::Connection) => open.fits(),
        (Protocol::Multiplexed(multiplexed), Carrier::Stream(id)) => {
            multiplexed.stream(id).is_none_or(|stream| stream.fits())
        }
        (protocol, carrier) => {
            assert_is_over(protocol, carrier);
            true
        }
    }
}

/// Sets the maximum number of bytes of content of an open exchange's request.
pub(crate) fn set_content_max(protocol: &mut Protocol, carrier: Carrier, bytes: u64) {
    match (protocol, carrier) {
        (Protocol::Http1(Http1::Exchange(open)), Carrier::Connection) => {
            if let Some(content) = &mut open.content {
                content.set_content_max(bytes);
            }
        }
        (Protocol::Multiplexed(multiplexed), Carrier::Stream(id)) => {
            if let Some(stream) = multiplexed.stream(id) {
                stream.content_max_bytes = bytes;
            }
        }
        (protocol, carrier) => assert_is_over(protocol, carrier),
    }
}

/// Makes the connection a byte stream after this event. The response of its exchange was
/// [`Response::upgrade`], or it has none and is taken over.
pub(crate) fn upgraded(protocol: &mut Protocol) {
    *protocol = Protocol::Http1(Http1::Upgraded);
}

/// Asserts that no exchange of this kind can be open on a connection. An HTTP/1 exchange ends
/// before its connection waits for the next request, lingers, becomes a byte stream or closes. An
/// exchange on a stream ends when its connection lingers or closes.
#[cold]
fn assert_is_over(protocol: &Protocol, carrier: Carrier) {
    let is_over = match carrier {
        Carrier::Connection => matches!(
            protocol,
            Protocol::Http1(_) | Protocol::ByteStream(_) | Protocol::Linger(_) | Protocol::Closing
        ),
        Carrier::Stream(_) => matches!(protocol, Protocol::Linger(_) | Protocol::Closing),
    };
    assert!(is_over, "an exchange is carried by the protocol that it began with");
}

impl<'c> Response<'c> {
    /// Returns the response of the exchange on `carrier`, while its connection has the protocol of
    /// the exchange.
    #[inline(always)]
    pub(crate) fn of(core: &'c mut WorkerCore, slot: Slot, carrier: Carrier) -> Option<Self> {
        let WorkerCore { connections, buffers, tails, settings, .. } = core;
        let connection = connections.get(slot);
        let (listener, exchanges_begun) = (connection.listener(), connection.exchanges_begun);
        let Connection { link, protocol, .. } = connection;
        let carried = match (protocol, carrier) {
            (Protocol::Http1(Http1::Exchange(open)), Carrier::Connection) => {
                ExchangeCarrier::Http1(open)
            }
            (Protocol::Multiplexed(Multiplexed::Http2(http2)), Carrier::Stream(id)) => {
                ExchangeCarrier::Http2(http2, id)
            }
            (Protocol::Multiplexed(Multiplexed::Http3(http3)), Carrier::Stream(id)) => {
                ExchangeCarrier::Http3(http3, id)
            }
            (protocol, carrier) => {
                assert_is_over(protocol, carrier);
                return None;
            }
        };
        Some(Self {
            carried,
            sink: Sink { link, buffers, tails, settings, listener, exchanges_begun },
        })
    }

    /// Returns the state of the exchange; `None` if its stream has ended.
    #[inline(always)]
    pub(crate) fn state(&mut self) -> Option<&mut ExchangeState> {
        match &mut self.carried {
            ExchangeCarrier::Http1(open) => Some(&mut open.state),
            ExchangeCarrier::Http2(http2, id) => {
                http2.session.own(*id).map(|stream| &mut stream.state)
            }
            ExchangeCarrier::Http3(http3, id) => {
                http3.streams.get(*id).map(|open| &mut open.own.state)
            }
        }
    }

    /// Queues a complete response.
    ///
    /// # Errors
    /// Returns the reason if that is not possible.
    #[inline(always)]
    pub(crate) fn prepared(
        &mut self,
        response: &Prepared<'_>,
        source: RangeSource<'_>,
    ) -> Result<(), Gone> {
        let Self { carried, sink } = self;
        match carried {
            ExchangeCarrier::Http1(open) => http1::response::prepared(open, sink, response, source),
            ExchangeCarrier::Http2(http2, id) => {
                http2::response::prepared(http2, *id, sink, response, source)
            }
            ExchangeCarrier::Http3(http3, id) => {
                http3::response::prepared(http3, *id, sink, response, source)
            }
        }
    }

    /// Queues an interim response.
    ///
    /// # Errors
    /// Returns the reason if that is not possible.
    pub(crate) fn interim<'f>(
        &mut self,
        status: u16,
        fields: impl Iterator<Item = Field<'f>> + Clone,
    ) -> Result<(), Gone> {
        let Self { carried, sink } = self;
        match carried {
            ExchangeCarrier::Http1(_) => http1::response::interim(sink, status, fields),
            ExchangeCarrier::Http2(http2, id) => {
                http2::response::interim(http2, *id, sink, status, fields)
            }
            ExchangeCarrier::Http3(http3, id) => {
                http3::response::interim(http3, *id, sink, status, fields)
            }
        }
    }

    /// Queues the head of a response whose content follows.
    ///
    /// # Errors
    /// Returns the reason if that is not possible.
    pub(crate) fn head<'f>(
        &mut self,
        status: u16,
        fields: impl Iterator<Item = Field<'f>> + Clone,
        length: Option<u64>,
    ) -> Result<(), Gone> {
        let Self { carried, sink } = self;
        match carried {
            ExchangeCarrier::Http1(open) => {
                http1::response::head(open, sink, status, fields, length)
            }
            ExchangeCarrier::Http2(http2, id) => {
                http2::response::head(http2, *id, sink, status, fields, length)
            }
            ExchangeCarrier::Http3(http3, id) => {
                http3::response::head(http3, *id, sink, status, fields, length)
            }
        }
    }

    /// Queues content; at least one byte.
    ///
    /// # Errors
    /// Returns the reason if that is not possible.
    pub(crate) fn content(&mut self, slice: Slice<'_>) -> Result<(), Gone> {
        let Self { carried, sink } = self;
        match carried {
            ExchangeCarrier::Http1(open) => http1::response::content(open, sink, slice),
            ExchangeCarrier::Http2(http2, id) => http2::response::content(http2, *id, sink, slice),
            ExchangeCarrier::Http3(http3, id) => http3::response::content(http3, *id, sink, slice),
        }
    }

    /// Marks the end of a response, after its queued part.
    ///
    /// # Errors
    /// Returns the reason if that is not possible.
    pub(crate) fn end<'f>(
        &mut self,
        trailers: impl Iterator<Item = Field<'f>> + Clone,
    ) -> Result<(), Gone> {
        let Self { carried, sink } = self;
        match carried {
            ExchangeCarrier::Http1(open) => http1::response::end(open, sink, trailers),
            ExchangeCarrier::Http2(http2, id) => http2::response::end(http2, *id, trailers),
            ExchangeCarrier::Http3(http3, id) => http3::response::end(http3, *id, sink, trailers),
        }
    }

    /// Returns whether the connection can become a byte stream instead of a response: it has
    /// HTTP/1, the request has no content, and there is no response yet.
    pub(crate) fn can_be_taken_over(&mut self) -> bool {
        match &self.carried {
            ExchangeCarrier::Http1(open) => open.can_be_taken_over(),
            ExchangeCarrier::Http2(..) | ExchangeCarrier::Http3(..) => false,
        }
    }

    /// Queues the response after which the connection is a byte stream. Returns `None` if the
    /// exchange cannot be upgraded: only one of HTTP/1.1 can, before its response and without
    /// content.
    pub(crate) fn upgrade<'f>(
        &mut self,
        fields: impl Iterator<Item = Field<'f>> + Clone,
    ) -> Option<Result<(), Gone>> {
        let Self { carried: ExchangeCarrier::Http1(open), sink } = self else { return None };
        open.can_upgrade().then(|| http1::response::interim(sink, 101, fields))
    }
}
