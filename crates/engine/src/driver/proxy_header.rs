//! The PROXY protocol header, with which the connections of a trusted proxy begin, before TLS and
//! before requests. From then on the client's address is the one in the header.

use std::net::SocketAddr;

use pinion_http::limits::PROXY_HEADER_MAX_BYTES;
use pinion_http::proxy_protocol::{ParsedHeader, ProxiedClient, parse};

use super::protocol_detection;
use crate::app::App;
use crate::backend::Slot;
use crate::connection::Protocol;
use crate::end_reason::Gone;
use crate::worker::SharedByWorkers;
use crate::worker_core::WorkerCore;

/// Takes bytes of a proxy that has connected from `socket_peer`. Returns the bytes after the
/// header; none while it is not complete, and if the connection is to be cut.
#[cold]
pub(super) fn take_in<'i, A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    shared: &SharedByWorkers,
    slot: Slot,
    socket_peer: Option<SocketAddr>,
    input: &'i [u8],
) -> &'i [u8] {
    let link = &mut core.connections.get(slot).link;
    let mut kept = std::mem::take(&mut link.input);
    let kept_bytes = kept.len();
    // The front of a header is shorter than the longest header.
    let front = &input[..input.len().min(PROXY_HEADER_MAX_BYTES - kept_bytes)];
    if !kept.keep(&mut core.buffers.pool, front) {
        link.input = kept;
        core.overloaded(slot);
        return &[];
    }
    let parsed = parse(kept.unused());
    if parsed == Ok(ParsedHeader::Partial) {
        debug_assert!(front.len() == input.len(), "the longest header is whole");
        core.connections.get(slot).link.input = kept;
        return &[];
    }
    kept.give_back(&mut core.buffers.pool);
    match parsed {
        Ok(ParsedHeader::Header { client, bytes }) => {
            let peer = match client {
                ProxiedClient::OfSocket => socket_peer,
                ProxiedClient::Address(address) => Some(address),
                ProxiedClient::Unix => None,
            };
            if begin(app, core, shared, slot, peer, socket_peer) {
                return &input[bytes - kept_bytes..];
            }
        }
        Ok(ParsedHeader::Partial) | Err(_) => core.give_up(slot, Gone::Refused),
    }
    &[]
}

/// Begins the connection of a client. Returns false if the client holds as many as it may.
fn begin<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    shared: &SharedByWorkers,
    slot: Slot,
    peer: Option<SocketAddr>,
    socket_peer: Option<SocketAddr>,
) -> bool {
    if !shared.client_limit.admit(core.worker, peer) {
        if let Some(peer) = peer {
            app.connection_refused(peer, core.now);
        }
        core.give_up(slot, Gone::Overload);
        return false;
    }
    let connection = core.connections.get(slot);
    connection.peer = peer;
    connection.proxy_peer = Some(Box::new(socket_peer));
    connection.protocol = Protocol::Handshake;
    if core.listener(slot).tls.is_none() {
        protocol_detection::begin(app, core, slot, None);
    }
    true
}
