//! A client of HTTP/2 or of HTTP/3 with tunnels, and the way to the server under it.

use std::time::Duration;

use pinion_engine::backend::sim::{Client as Connection, Connect, Network, Read};
use pinion_engine::limits::IDLE_TIMEOUT_MS;
use pinion_engine::quic::simulated_sockets::SimulatedClient;

use crate::http3_client::strict_client as http3;
use crate::strict::{self, Manner};

/// A client of either version.
pub(super) enum TunnelClient {
    Http2(Connection, Box<strict::Client>),
    Http3(Box<http3::Client>),
}

/// The end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    Whole,
    /// CANCEL, or H3_REQUEST_CANCELLED (RFC 8441 §5, RFC 9220 §3).
    Cancelled,
    Reset(u64),
    Left,
}

impl TunnelClient {
    /// Connects over HTTP/2.
    pub(super) fn http2(network: &Network, window_bytes: usize, manner: Manner) -> Self {
        let connect = Connect { listener: 0, window_bytes, local: false, protected: true };
        Self::Http2(network.connect(connect), Box::new(strict::Client::new(manner)))
    }

    /// Begins to connect over HTTP/3.
    pub(super) fn http3(network: &Network, seed: u64, manner: Manner) -> Self {
        let peer = network.bind(true);
        let quic = SimulatedClient { seed, hello_bytes: 0, alpn: b"h3".to_vec() };
        let idle = Duration::from_millis(IDLE_TIMEOUT_MS);
        let transport = http3::transport(manner.window_bytes, idle);
        let mut client = http3::Client::connect(network, peer, &quic, transport);
        client.transmit(network);
        Self::Http3(Box::new(client))
    }

    pub(super) fn is_connected(&self) -> bool {
        match self {
            Self::Http2(..) => true,
            Self::Http3(client) => client.is_connected(),
        }
    }

    pub(super) fn request(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        ends: bool,
    ) -> u64 {
        match self {
            Self::Http2(_, client) => client.request(method, path, fields, ends).into(),
            Self::Http3(client) => {
                client.request(method, path, fields, ends).expect("the server permits it")
            }
        }
    }

    /// Sends as many of the bytes as there is space for; `ends` applies after all of them.
    pub(super) fn data(&mut self, id: u64, bytes: &[u8], ends: bool) -> usize {
        match self {
            Self::Http2(_, client) => client.data(id as u32, bytes, ends),
            Self::Http3(client) if client.takes_content(id) => {
                client.data(id, bytes, ends);
                bytes.len()
            }
            Self::Http3(_) => 0,
        }
    }

    pub(super) fn reset(&mut self, id: u64) {
        match self {
            Self::Http2(_, client) => client.reset(id as u32),
            Self::Http3(client) => client.leave_stream(id),
        }
    }

    /// Does not read a stream from now on. Over HTTP/2 its window is used up instead.
    pub(super) fn stop_reading(&mut self, id: u64) {
        if let Self::Http3(client) = self {
            client.unread = Some(id);
        }
    }

    pub(super) fn status(&self, id: u64) -> Option<u16> {
        match self {
            Self::Http2(_, client) => client.streams[&(id as u32)].status,
            Self::Http3(client) => client.streams[&id].status,
        }
    }

    pub(super) fn content(&self, id: u64) -> &[u8] {
        match self {
            Self::Http2(_, client) => &client.streams[&(id as u32)].content,
            Self::Http3(client) => &client.streams[&id].content,
        }
    }

    pub(super) fn end(&self, id: u64) -> Option<Over> {
        Some(match self {
            Self::Http2(_, client) => match client.streams[&(id as u32)].end? {
                strict::End::Whole => Over::Whole,
                strict::End::Reset(8) => Over::Cancelled,
                strict::End::Reset(code) => Over::Reset(code.into()),
                strict::End::Left => Over::Left,
            },
            Self::Http3(client) => match client.streams[&id].end? {
                http3::End::Whole => Over::Whole,
                http3::End::Reset(0x10c) => Over::Cancelled,
                http3::End::Reset(code) => Over::Reset(code),
                http3::End::Left => Over::Left,
            },
        })
    }

    /// Returns whether everything is sent, and the server has announced that it leaves.
    pub(super) fn has_sent_all(&self) -> bool {
        match self {
            Self::Http2(_, client) => client.out.is_empty(),
            Self::Http3(client) => client.has_written_all(),
        }
    }

    pub(super) fn has_received_goaway(&self) -> bool {
        match self {
            Self::Http2(_, client) => !client.leaves.is_empty(),
            Self::Http3(client) => !client.goaways.is_empty() || client.lost.is_some(),
        }
    }

    /// Sends and reads as much as possible, at most `most_bytes` at a time. Returns the time of its
    /// next action, in milliseconds.
    pub(super) fn act(&mut self, network: &Network, most_bytes: usize) -> Option<u64> {
        let now_ms = network.now().monotonic_ms;
        match self {
            Self::Http2(connection, client) => {
                let bytes = client.out.len().min(most_bytes);
                let taken = network.send(*connection, &client.out[..bytes]);
                client.out.drain(..taken);
                let mut came = Vec::new();
                if let Read::Bytes(_) = network.read(*connection, most_bytes, &mut came) {
                    client.take(&came).expect("a server that keeps to the rules");
                }
                (taken > 0 || !came.is_empty()).then_some(now_ms)
            }
            Self::Http3(client) => {
                client.receive(network).expect("a server that keeps to the rules");
                let mut moved = 0;
                if client.is_connected() {
                    moved += client.read(most_bytes).expect("a server that keeps to the rules");
                    moved += client.write(most_bytes);
                }
                client.transmit(network);
                let arrival_ms = network.next_arrival_ms(client.peer);
                let moved_ms = (moved > 0).then_some(now_ms);
                [client.wakes_at_ms(network), arrival_ms, moved_ms].into_iter().flatten().min()
            }
        }
    }

    /// Leaves for good.
    pub(super) fn leave(&mut self, network: &Network) {
        match self {
            Self::Http2(connection, _) => network.leave(*connection),
            Self::Http3(client) => {
                client.close(network);
                client.transmit(network);
            }
        }
    }
}
