//! Connections that were switched to another protocol (RFC 9110 §7.8), such as WebSocket: the bytes
//! of the client go to the upstream server, and its bytes to the client.

use std::collections::HashMap;

use pinion_client::http_client::request::Tunnel;
use pinion_engine::address::Address;
use pinion_engine::app::RawEvent;
use pinion_engine::connections::Connections;
use pinion_engine::exchange::{Room, Slice};
use pinion_engine::raw::RawStream;

use crate::limits::{TUNNEL_IDLE_MS, TUNNEL_OPEN_MS, TUNNEL_PIECE_BYTES};
use crate::upstream_group::ServerUse;

/// The tunnels of a worker.
#[derive(Default)]
pub(crate) struct Tunnels {
    /// By the tags of the connections to upstream servers.
    tunnels: HashMap<u64, OpenTunnel>,
    /// The tunnel of each client, by its connection.
    clients: HashMap<(u32, u64), u64>,
}

/// Two connections.
struct OpenTunnel {
    client: TunnelEnd,
    upstream: TunnelEnd,
    /// The client's stream is open.
    is_open: bool,
    /// Bytes for the client from before its stream was open.
    early: Vec<u8>,
    /// When the last bytes have come from either side, in monotonic milliseconds.
    active_ms: u64,
    /// Counts the tunnel among the requests of the server.
    _server: ServerUse,
}

/// One of the two connections.
#[derive(Clone, Copy)]
struct TunnelEnd {
    address: Address,
    /// Bytes that it may still bring before it is asked for more.
    credit: u64,
    /// It will bring no more.
    has_ended: bool,
}

/// Which of the two connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Client,
    Upstream,
}

impl OpenTunnel {
    fn ends(&mut self, side: Side) -> (&mut TunnelEnd, &mut TunnelEnd) {
        match side {
            Side::Client => (&mut self.client, &mut self.upstream),
            Side::Upstream => (&mut self.upstream, &mut self.client),
        }
    }
}

impl TunnelEnd {
    /// Asks for more.
    fn want(&mut self, connections: &mut Connections<'_>) {
        if self.credit < TUNNEL_PIECE_BYTES / 2
            && let Some(mut stream) = connections.stream(self.address)
        {
            stream.want(TUNNEL_PIECE_BYTES - self.credit);
            self.credit = TUNNEL_PIECE_BYTES;
        }
    }
}

/// What tells the connection of a client from others, before and behind its switch.
fn connection(address: Address) -> (u32, u64) {
    (address.slot, address.generation)
}

impl Tunnels {
    /// Begins a tunnel between the client of an exchange that was just switched, and the connection
    /// to an upstream server.
    pub(crate) fn open(
        &mut self,
        client: Address,
        upstream: Tunnel,
        server: ServerUse,
        connections: &mut Connections<'_>,
    ) {
        let now_ms = connections.now().monotonic_ms;
        let Tunnel { address, tag, input, credit } = upstream;
        if let Some(mut stream) = connections.stream(address) {
            // Until the client's stream is open, which looks after the tunnel from then on.
            stream.wait(Some(TUNNEL_OPEN_MS));
        }
        self.clients.insert(connection(client), tag);
        let end = |address, credit| TunnelEnd { address, credit, has_ended: false };
        let tunnel = OpenTunnel {
            client: end(client, 0),
            upstream: end(address, credit),
            is_open: false,
            early: input,
            active_ms: now_ms,
            _server: server,
        };
        self.tunnels.insert(tag, tunnel);
    }

    /// Handles an event of a connection to an upstream server. Returns false if it is none of a
    /// tunnel.
    pub(crate) fn upstream_event(
        &mut self,
        tag: u64,
        event: &RawEvent<'_>,
        stream: &mut RawStream<'_>,
    ) -> bool {
        let is_known = self.tunnels.contains_key(&tag);
        if is_known {
            self.event(tag, Side::Upstream, event, stream);
        }
        is_known
    }

    /// Handles an event of a client's connection. Returns false if it is none of a tunnel.
    pub(crate) fn client_event(
        &mut self,
        event: &RawEvent<'_>,
        stream: &mut RawStream<'_>,
    ) -> bool {
        let Some(tag) = self.clients.get(&connection(stream.address())).copied() else {
            return false;
        };
        self.event(tag, Side::Client, event, stream);
        true
    }

    fn event(&mut self, tag: u64, side: Side, event: &RawEvent<'_>, stream: &mut RawStream<'_>) {
        let Some(tunnel) = self.tunnels.get_mut(&tag) else { return };
        let now_ms = stream.now().monotonic_ms;
        match event {
            RawEvent::Open => tunnel.opened(stream),
            RawEvent::Bytes(bytes) => {
                tunnel.active_ms = now_ms;
                tunnel.transfer(side, bytes, &mut stream.connections());
            }
            RawEvent::Writable => {
                let (_, other) = tunnel.ends(side);
                other.want(&mut stream.connections());
            }
            RawEvent::End => {
                let (from, to) = tunnel.ends(side);
                from.has_ended = true;
                let (is_over, to) = (to.has_ended, to.address);
                if let Some(mut stream) = stream.connections().stream(to) {
                    stream.finish();
                }
                if is_over {
                    self.end(tag, &mut stream.connections());
                }
            }
            RawEvent::Deadline if side == Side::Upstream => {
                if !tunnel.is_open {
                    self.end(tag, &mut stream.connections());
                }
            }
            RawEvent::Deadline => {
                let left_ms = (tunnel.active_ms + TUNNEL_IDLE_MS).saturating_sub(now_ms);
                match left_ms {
                    0 => self.end(tag, &mut stream.connections()),
                    left_ms => stream.wait(Some(left_ms)),
                }
            }
            RawEvent::Gone(_) => self.end(tag, &mut stream.connections()),
            RawEvent::Posted(_) | RawEvent::Stopping => {}
        }
    }

    /// Ends a tunnel. What is on the way to either side still leaves.
    fn end(&mut self, tag: u64, connections: &mut Connections<'_>) {
        let Some(tunnel) = self.tunnels.remove(&tag) else { return };
        self.clients.remove(&connection(tunnel.client.address));
        for end in [tunnel.client, tunnel.upstream] {
            if let Some(mut stream) = connections.stream(end.address) {
                stream.close();
            }
        }
    }
}

impl OpenTunnel {
    /// The client's connection was switched.
    fn opened(&mut self, stream: &mut RawStream<'_>) {
        self.is_open = true;
        self.client.address = stream.address();
        let early = std::mem::take(&mut self.early);
        if !early.is_empty() {
            stream.write(Slice::Copied(&early));
        }
        if self.upstream.has_ended {
            stream.finish();
        }
        stream.wait(Some(TUNNEL_IDLE_MS));
        let connections = &mut stream.connections();
        self.client.want(connections);
        self.upstream.want(connections);
    }

    /// Hands bytes on to the other side, and asks for more if there is room.
    fn transfer(&mut self, side: Side, bytes: &[u8], connections: &mut Connections<'_>) {
        let is_early = side == Side::Upstream && !self.is_open;
        if is_early {
            self.early.extend_from_slice(bytes);
        }
        let (from, to) = self.ends(side);
        from.credit = from.credit.saturating_sub(bytes.len() as u64);
        if is_early {
            return;
        }
        let Some(mut other) = connections.stream(to.address) else { return };
        if other.write(Slice::Copied(bytes)) == Room::Free {
            from.want(connections);
        }
    }
}
