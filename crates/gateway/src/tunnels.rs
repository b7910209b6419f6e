//! Connections that were switched to another protocol (RFC 9110 §7.8), such as WebSocket: the bytes
//! of the client go to the upstream server, and its bytes to the client. The client's side is a
//! connection of HTTP/1.1, or a stream of HTTP/2 or HTTP/3.

use std::collections::HashMap;

use pinion_client::http_client::request::Tunnel;
use pinion_engine::app::{ByteStreamEvent, Event};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::{ContentRoom, Exchange};
use pinion_engine::exchange_address::Address;

use crate::limits::{TUNNEL_HALF_CLOSED_MS, TUNNEL_IDLE_MS, TUNNEL_OPEN_MS, TUNNEL_STALL_MS};
use crate::tunnel_side::{TunnelCarrier, TunnelEnd, TunnelEvent};
use crate::upstream_group::ServerUse;

/// The tunnels of a worker.
#[derive(Default)]
pub(crate) struct Tunnels {
    /// The tunnels, by the tags of the connections to upstream servers.
    tunnels: HashMap<u64, OpenTunnel>,
    /// The tunnel of each client.
    clients: HashMap<ClientKey, u64>,
}

/// The identity of the client of a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ClientKey {
    /// The slot and the generation of a connection, before and after its switch.
    Connection(u32, u64),
    /// The address of a stream.
    Stream(Address),
}

/// Two connections.
struct OpenTunnel {
    client: TunnelEnd,
    upstream: TunnelEnd,
    /// The client's side is open.
    is_open: bool,
    /// Bytes for the client from before its side was open.
    early: Vec<u8>,
    /// The time when the last bytes have come from either side, in monotonic milliseconds.
    active_ms: u64,
    /// Counts the tunnel among the requests of the server.
    _server: ServerUse,
    /// Since when there has been no room for more to the client, in monotonic milliseconds.
    full_since_ms: Option<u64>,
}

/// Which of the two connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TunnelSide {
    Client,
    Upstream,
}

impl OpenTunnel {
    fn ends(&mut self, side: TunnelSide) -> (&mut TunnelEnd, &mut TunnelEnd) {
        match side {
            TunnelSide::Client => (&mut self.client, &mut self.upstream),
            TunnelSide::Upstream => (&mut self.upstream, &mut self.client),
        }
    }
}

impl TunnelEnd {
    pub(crate) fn key(&self) -> ClientKey {
        match self.carrier {
            TunnelCarrier::Connection => {
                ClientKey::Connection(self.address.slot, self.address.generation)
            }
            TunnelCarrier::Stream => ClientKey::Stream(self.address),
        }
    }
}

impl Tunnels {
    /// Returns how many there are.
    pub(crate) fn count(&self) -> usize {
        self.tunnels.len().max(self.clients.len())
    }

    /// Begins a tunnel between the client of an exchange that was just switched, and the connection
    /// to an upstream server. It is open when the client's connection is.
    pub(crate) fn open(
        &mut self,
        client: Address,
        upstream: Tunnel,
        server: ServerUse,
        connections: &mut Connections<'_>,
    ) {
        let client = TunnelEnd::new(client, TunnelCarrier::Connection, 0);
        let tunnel = self.begin(client, upstream, server, connections);
        // Until the client's connection is switched, which looks after the tunnel from then on.
        tunnel.upstream.wait(TUNNEL_OPEN_MS, connections);
    }

    /// Begins a tunnel between the stream of an exchange to which [`Exchange::open_tunnel`] has
    /// responded, and the connection to an upstream server. `has_ended` says that the client has
    /// ended its side with its request.
    pub(crate) fn open_on_stream(
        &mut self,
        client: Address,
        has_ended: bool,
        upstream: Tunnel,
        server: ServerUse,
        connections: &mut Connections<'_>,
    ) {
        let client = TunnelEnd::new(client, TunnelCarrier::Stream, 0);
        let tunnel = self.begin(TunnelEnd { has_ended, ..client }, upstream, server, connections);
        tunnel.opened(connections);
        if has_ended {
            tunnel.upstream.finish(connections);
        }
    }

    fn begin(
        &mut self,
        client: TunnelEnd,
        upstream: Tunnel,
        server: ServerUse,
        connections: &Connections<'_>,
    ) -> &mut OpenTunnel {
        let active_ms = connections.now().monotonic_ms;
        let Tunnel { address, tag, input: early, credit } = upstream;
        let upstream = TunnelEnd::new(address, TunnelCarrier::Connection, credit);
        self.clients.insert(client.key(), tag);
        let tunnel = OpenTunnel {
            client,
            upstream,
            is_open: false,
            early,
            active_ms,
            _server: server,
            full_since_ms: None,
        };
        self.tunnels.entry(tag).insert_entry(tunnel).into_mut()
    }

    /// Handles an event of a connection to an upstream server. Returns false if it is none of a
    /// tunnel.
    pub(crate) fn upstream_event(
        &mut self,
        tag: u64,
        event: &ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
    ) -> bool {
        let is_known = self.tunnels.contains_key(&tag);
        if is_known && let Some(event) = TunnelEvent::of_connection(event, stream.address()) {
            self.event(tag, TunnelSide::Upstream, event, &mut stream.connections());
        }
        is_known
    }

    /// Handles an event of a client's connection. Returns false if it is none of a tunnel.
    pub(crate) fn client_event(
        &mut self,
        event: &ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
    ) -> bool {
        let address = stream.address();
        let key = ClientKey::Connection(address.slot, address.generation);
        let Some(tag) = self.clients.get(&key).copied() else { return false };
        if let Some(event) = TunnelEvent::of_connection(event, address) {
            self.event(tag, TunnelSide::Client, event, &mut stream.connections());
        }
        true
    }

    /// Returns whether an exchange is the client's side of a tunnel.
    pub(crate) fn has_stream(&self, exchange: Address) -> bool {
        self.clients.contains_key(&ClientKey::Stream(exchange))
    }

    /// Handles an event of a client's stream. Returns false if it is none of a tunnel.
    pub(crate) fn stream_event(&mut self, event: &Event<'_>, exchange: &mut Exchange<'_>) -> bool {
        let key = ClientKey::Stream(exchange.address());
        let Some(tag) = self.clients.get(&key).copied() else { return false };
        if let Some(event) = TunnelEvent::of_exchange(event, exchange) {
            self.event(tag, TunnelSide::Client, event, &mut exchange.connections());
        }
        true
    }

    fn event(
        &mut self,
        tag: u64,
        side: TunnelSide,
        event: TunnelEvent<'_>,
        connections: &mut Connections<'_>,
    ) {
        let Some(tunnel) = self.tunnels.get_mut(&tag) else { return };
        let now_ms = connections.now().monotonic_ms;
        match event {
            TunnelEvent::Open(address) => {
                if side == TunnelSide::Client {
                    tunnel.client.address = address;
                    tunnel.opened(connections);
                }
            }
            TunnelEvent::Bytes(bytes) => {
                tunnel.active_ms = now_ms;
                tunnel.transfer(side, bytes, connections);
            }
            TunnelEvent::Writable => {
                if side == TunnelSide::Client {
                    tunnel.full_since_ms = None;
                }
                let (_, other) = tunnel.ends(side);
                other.want(connections);
            }
            TunnelEvent::End => {
                let (from, to) = tunnel.ends(side);
                from.has_ended = true;
                to.finish(connections);
                if to.has_ended {
                    return self.end(tag, connections);
                }
                // The other side has its time from now on.
                tunnel.active_ms = now_ms;
                if tunnel.is_open {
                    tunnel.client.wait(tunnel.due_ms().saturating_sub(now_ms), connections);
                }
            }
            TunnelEvent::Deadline if side == TunnelSide::Upstream => {
                if !tunnel.is_open {
                    self.end(tag, connections);
                }
            }
            TunnelEvent::Deadline => {
                let at_ms = tunnel.due_ms();
                if at_ms > now_ms {
                    return tunnel.client.wait(at_ms - now_ms, connections);
                }
                // Bytes that still wait for the client of a stream would wait on.
                if tunnel.client.carrier == TunnelCarrier::Stream {
                    tunnel.client.abort(connections);
                }
                self.end(tag, connections);
            }
            TunnelEvent::Gone => {
                let (gone, other) = tunnel.ends(side);
                // Who had ended its side before has sent all that it wanted to.
                if !gone.has_ended {
                    other.abort(connections);
                }
                self.end(tag, connections);
            }
        }
    }

    /// Ends a tunnel. Bytes on their way to either side are still sent.
    fn end(&mut self, tag: u64, connections: &mut Connections<'_>) {
        let Some(tunnel) = self.tunnels.remove(&tag) else { return };
        self.clients.remove(&tunnel.client.key());
        tunnel.client.close(connections);
        tunnel.upstream.close(connections);
    }
}

impl OpenTunnel {
    /// Returns when the tunnel ends unless something happens, in monotonic milliseconds.
    fn due_ms(&self) -> u64 {
        let is_half_closed = self.client.has_ended || self.upstream.has_ended;
        let idle_ms = if is_half_closed { TUNNEL_HALF_CLOSED_MS } else { TUNNEL_IDLE_MS };
        let idle_at_ms = self.active_ms + idle_ms;
        let stalls_at_ms = self.full_since_ms.map(|since_ms| since_ms + TUNNEL_STALL_MS);
        stalls_at_ms.map_or(idle_at_ms, |at_ms| at_ms.min(idle_at_ms))
    }

    /// Continues after the client's side was opened.
    fn opened(&mut self, connections: &mut Connections<'_>) {
        self.is_open = true;
        let early = std::mem::take(&mut self.early);
        if !early.is_empty() {
            self.client.write(&early, connections);
        }
        if self.upstream.has_ended {
            self.client.finish(connections);
        }
        let now_ms = connections.now().monotonic_ms;
        self.client.wait(self.due_ms().saturating_sub(now_ms), connections);
        self.client.want(connections);
        self.upstream.want(connections);
    }

    /// Passes bytes on to the other side, and asks for more if there is room.
    fn transfer(&mut self, side: TunnelSide, bytes: &[u8], connections: &mut Connections<'_>) {
        let is_early = side == TunnelSide::Upstream && !self.is_open;
        if is_early {
            self.early.extend_from_slice(bytes);
        }
        let (from, to) = self.ends(side);
        from.credit = from.credit.saturating_sub(bytes.len() as u64);
        if is_early {
            return;
        }
        match to.write(bytes, connections) {
            ContentRoom::Free => from.want(connections),
            ContentRoom::Full if side == TunnelSide::Upstream && self.full_since_ms.is_none() => {
                self.full_since_ms = Some(connections.now().monotonic_ms);
                self.client.wait(TUNNEL_STALL_MS, connections);
            }
            ContentRoom::Full | ContentRoom::Gone => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balancing::BalanceKey;
    use crate::upstream::Upstream;
    use crate::upstream_group::{TriedServers, UpstreamGroup};
    use std::sync::Arc;

    #[test]
    fn a_tunnel_counts_as_open_while_it_may_deliver_data() {
        let upstream = Upstream::parse("http://127.0.0.1:3000").expect("a URL");
        let group = Arc::new(UpstreamGroup::of_one(upstream));
        let server = group.choose(BalanceKey::Load, TriedServers::default(), 0, 0);
        let address = Address { worker: 0, slot: 1, generation: 1, exchange: 1 };
        let end = TunnelEnd::new(address, TunnelCarrier::Connection, 0);
        let mut tunnel = OpenTunnel {
            client: end,
            upstream: end,
            is_open: true,
            early: Vec::new(),
            active_ms: 5_000,
            _server: server.expect("a server"),
            full_since_ms: None,
        };
        assert_eq!(tunnel.due_ms(), 5_000 + TUNNEL_IDLE_MS);
        tunnel.upstream.has_ended = true;
        assert_eq!(tunnel.due_ms(), 5_000 + TUNNEL_HALF_CLOSED_MS);
        tunnel.upstream.has_ended = false;
        tunnel.client.has_ended = true;
        assert_eq!(tunnel.due_ms(), 5_000 + TUNNEL_HALF_CLOSED_MS);
        tunnel.full_since_ms = Some(4_000);
        let stalls_ms = 4_000 + TUNNEL_STALL_MS;
        assert_eq!(tunnel.due_ms(), stalls_ms.min(5_000 + TUNNEL_HALF_CLOSED_MS));
        // A tunnel that still transfers data has the whole time again.
        (tunnel.full_since_ms, tunnel.active_ms) = (None, 90_000);
        assert_eq!(tunnel.due_ms(), 90_000 + TUNNEL_HALF_CLOSED_MS);
    }
}
