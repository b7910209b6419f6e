//! The actions that an application can take on one HTTP exchange: one half of the contract
//! (docs/ARCHITECTURE.md, "The contract"). They are the same for every version of HTTP. `http1`,
//! `http2` and `http3` carry them out. `response_actions` has those that send the response.

pub(crate) mod added_fields;
mod compressed_content;
mod response_actions;
pub(crate) mod slice;
pub(crate) mod state;
mod tunnel;

use std::net::SocketAddr;
use std::num::NonZeroU32;

use pinion_http::field::Field;

use crate::backend::Slot;
use crate::clock::Now;
use crate::connection::Connection;
use crate::connection_actions::Connections;
use crate::drain_state::WorkerEnding;
use crate::end_reason::Gone;
use crate::exchange_address::Address;
use crate::file_mapping::Mappings;
use crate::multiplexed::{Multiplexed, MultiplexedStream};
use crate::protocol_dispatch::{self, Response};
use crate::worker_core::WorkerCore;

pub use added_fields::AddedFields;
pub(crate) use slice::RangeSource;
pub use slice::{ContentRoom, Slice};
pub(crate) use state::{Carrier, ExchangeStage, ExchangeState};

/// One exchange, lent to the application for one event.
pub struct Exchange<'w> {
    pub(crate) core: &'w mut WorkerCore,
    pub(crate) slot: Slot,
    pub(crate) carrier: Carrier,
}

impl Exchange<'_> {
    /// Returns the address for messages to this exchange, from any thread or any event.
    pub fn address(&mut self) -> Address {
        let address = self.core.address(self.slot);
        match self.carrier {
            Carrier::Connection => address,
            Carrier::Stream(exchange) => Address { exchange, ..address },
        }
    }

    /// Requests a call of [`App::ended`](crate::app::App::ended), with a number of the
    /// application's own, at the end of the exchange. Returns whether the exchange has not ended
    /// yet; if it has, there is no call.
    #[must_use]
    pub fn notify_end(&mut self, number: NonZeroU32) -> bool {
        if self.state().is_none() {
            return false;
        }
        match self.stream() {
            Some(stream) => stream.end_number = Some(number),
            None => {
                self.core.connections.get(self.slot).link.exchange_end_pending = true;
                self.core.http1_ends.insert(self.slot, number);
            }
        }
        true
    }

    /// Returns the number of [`Self::notify_end`], if the application has called it.
    pub fn end_number(&mut self) -> Option<NonZeroU32> {
        match self.carrier {
            Carrier::Connection => {
                let is_owed = self.core.connections.get(self.slot).link.exchange_end_pending;
                self.core.http1_ends.get(&self.slot).copied().filter(|_| is_owed)
            }
            Carrier::Stream(_) => self.stream().and_then(|stream| stream.end_number),
        }
    }

    /// Returns the time of this pass.
    pub fn now(&self) -> Now {
        self.core.now
    }

    /// Returns whether the server has begun to stop. Endless responses should not begin then.
    pub fn is_stopping(&self) -> bool {
        self.core.ending != WorkerEnding::No
    }

    /// Returns the index of the listener that accepted the client, in the order in which the server
    /// got them, those of QUIC last.
    pub fn listener(&mut self) -> usize {
        self.core.connections.get(self.slot).listener().into()
    }

    /// Returns the client's address; `None` on a Unix socket.
    pub fn peer(&mut self) -> Option<SocketAddr> {
        self.core.connections.get(self.slot).peer
    }

    /// Returns the address at the other end of the socket: the client's, or that of the proxy whose
    /// PROXY protocol header carried the client's; `None` on a Unix socket.
    pub fn socket_peer(&mut self) -> Option<SocketAddr> {
        let connection = self.core.connections.get(self.slot);
        connection.proxy_peer.as_deref().copied().unwrap_or(connection.peer)
    }

    /// Returns whether the connection is encrypted.
    pub fn is_secured(&mut self) -> bool {
        self.core.listener(self.slot).tls.is_some()
    }

    /// Returns the bytes that wait to be sent on the connection, of this response and those before
    /// it.
    pub fn queued_bytes(&mut self) -> u64 {
        self.core.queued_bytes(self.slot)
    }

    /// Returns all connections of the worker, to open one or to act on another stream.
    pub fn connections(&mut self) -> Connections<'_> {
        Connections { core: self.core }
    }

    /// Returns the mappings that this worker holds.
    pub fn mappings(&self) -> &Mappings {
        &self.core.buffers.mappings
    }

    /// Returns whether the announced content of the request is within its limit. Chunked content
    /// announces nothing; it is refused when it exceeds the limit.
    pub fn content_fits(&mut self) -> bool {
        protocol_dispatch::content_fits(
            &mut self.core.connections.get(self.slot).protocol,
            self.carrier,
        )
    }

    /// Allows the request `bytes` of content, regardless of `WorkerSettings::limits`: more for an
    /// upload, less for a form. It has no effect after the first [`Self::want`].
    pub fn body_limit(&mut self, bytes: u64) {
        if self.state().is_none_or(|state| state.wanted.is_some()) {
            return;
        }
        protocol_dispatch::set_content_max(
            &mut self.core.connections.get(self.slot).protocol,
            self.carrier,
            bytes,
        );
    }

    /// Requests `bytes` more of the request's content. None of it is read before the first call,
    /// which sends 100 Continue to a client that waits for it; `want(0)` begins the content and
    /// requests none. Content beyond its limit is refused with 413 now, or when it exceeds the
    /// limit.
    pub fn want(&mut self, bytes: u64) {
        let fits = self.content_fits();
        let now_ms = self.core.now.monotonic_ms;
        let Some(state) = self.state() else { return };
        state.wanted = Some(state.wanted.unwrap_or(0).saturating_add(bytes));
        if fits && std::mem::take(&mut state.expects_continue) && state.stage == ExchangeStage::Open
        {
            self.interim(100, std::iter::empty());
        }
        if fits && let Some(stream) = self.stream() {
            stream.waits_since_ms = now_ms;
        }
    }

    /// Keeps the exchange open after this event, for `deadline_ms` if a deadline is given.
    pub fn wait(&mut self, deadline_ms: Option<u64>) {
        let now = self.core.now.monotonic_ms;
        let at_ms = deadline_ms.map_or(0, |after| now.saturating_add(after.max(1)));
        let Some(state) = self.state() else { return };
        state.waiting = true;
        if let Some(stream) = self.stream() {
            stream.app_deadline_ms = at_ms;
        }
        let Connection { link, protocol, .. } = self.core.connections.get(self.slot);
        link.app_deadline_ms = protocol.multiplexed().map_or(at_ms, Multiplexed::app_deadline_ms);
    }

    /// Responds with 101 and these fields, and turns the connection into a byte stream; the
    /// application gets its events by `byte_stream_event`. Only HTTP/1.1 clients without content
    /// can be upgraded.
    pub fn upgrade<'f>(&mut self, fields: impl Iterator<Item = Field<'f>> + Clone) {
        match self.response().and_then(|mut response| response.upgrade(fields)) {
            Some(queued) => {
                protocol_dispatch::upgraded(&mut self.core.connections.get(self.slot).protocol);
                self.give_up_unless(queued);
            }
            None => self.abort(),
        }
    }

    /// Turns the connection into a byte stream without a response; the application gets its events
    /// by `byte_stream_event` and sends the bytes that the client expects, such as the `200` that
    /// opens a tunnel for CONNECT (RFC 9110 §9.3.6). Bytes that the client has sent after its
    /// request come as bytes of the stream, and responses to earlier requests leave before the
    /// output of the stream. This works only over HTTP/1, before there is a response and without
    /// content; otherwise the exchange is aborted.
    pub fn take_over(&mut self) {
        if self.response().is_some_and(|mut response| response.can_be_taken_over()) {
            protocol_dispatch::upgraded(&mut self.core.connections.get(self.slot).protocol);
        } else {
            self.abort();
        }
    }

    /// Returns the response, while the exchange is open.
    #[inline]
    fn response(&mut self) -> Option<Response<'_>> {
        Response::of(self.core, self.slot, self.carrier)
    }

    /// Returns the engine's state of the exchange, while it is open.
    #[inline]
    fn state(&mut self) -> Option<&mut ExchangeState> {
        protocol_dispatch::state(&mut self.core.connections.get(self.slot).protocol, self.carrier)
    }

    /// Returns the stream that carries the exchange, if there is one and it is open.
    fn stream(&mut self) -> Option<&mut MultiplexedStream> {
        let Carrier::Stream(id) = self.carrier else { return None };
        self.core.connections.get(self.slot).protocol.multiplexed()?.stream(id)
    }

    fn give_up(&mut self, why: Gone) {
        match self.carrier {
            Carrier::Connection => self.core.give_up(self.slot, why),
            Carrier::Stream(_) => {
                if let Some(stream) = self.stream() {
                    stream.give_up(why);
                }
            }
        }
    }

    #[inline]
    fn give_up_unless(&mut self, queued: Result<(), Gone>) {
        if let Err(why) = queued {
            self.give_up(why);
        }
    }
}
