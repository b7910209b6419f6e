//! The WebSockets of a worker: the requests for them, and the open ones. From the moment in which
//! an application accepts one, its exchange is no request any more, but the client's side of an
//! [`OpenWebSocket`].

use pinion_engine::app::{ByteStreamEvent, Event};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;
use pinion_http::field::Field;
use pinion_http::python::child_frame::ChildFrame;
use pinion_http::python::response_head::HintFields;
use pinion_http::request_head::{RequestHead, TunnelProtocol};
use pinion_http::websocket::close_frame::GOING_AWAY;
use pinion_http::websocket::connection::WebSocketConnection;
use pinion_http::websocket::deflate_pool::DeflatePool;
use pinion_http::websocket::frame_head::MessageKind;
use pinion_http::websocket::handshake::{HandshakeAcceptance, WebSocketRequest};
use pinion_http::websocket::limits::MESSAGE_MAX_BYTES;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

use super::Python;
use super::open_websocket::{OpenWebSocket, WebSocketLife};
use super::python_app::PythonApp;
use crate::limits::TUNNEL_OPEN_MS;
use crate::proxy::Ended;
use crate::proxy_error::ProxyError;
use crate::response_forwarding::forwarded_interim;
use crate::tunnel_side::{TunnelCarrier, TunnelEnd, TunnelEvent};
use crate::tunnels::ClientKey;

/// A request for a WebSocket that the application has not accepted yet.
#[derive(Debug)]
pub(super) struct PendingWebSocket {
    /// The fields of the response if it does.
    pub(super) acceptance: HandshakeAcceptance,
    /// The request is an extended CONNECT: a successful response would open a tunnel.
    pub(super) is_connect: bool,
    /// The client has ended its side.
    pub(super) has_ended: bool,
}

/// The connection to a process, and the number of the request there.
pub(super) type WebSocketKey = (u64, u32);

/// The WebSockets of a worker.
#[derive(Default)]
pub(super) struct WebSockets {
    open: FxHashMap<WebSocketKey, OpenWebSocket>,
    clients: FxHashMap<ClientKey, WebSocketKey>,
    /// WebSockets of HTTP/1.1 whose connections are not switched yet, and the time that it may
    /// take, in monotonic milliseconds.
    opening: VecDeque<(WebSocketKey, u64)>,
    pool: DeflatePool,
}

impl WebSockets {
    /// Returns whether an exchange is the client's side of one.
    pub(super) fn has_stream(&self, exchange: Address) -> bool {
        self.clients.contains_key(&ClientKey::Stream(exchange))
    }

    /// Returns the time when [`Python::pass`] has something to do for them, in monotonic
    /// milliseconds.
    pub(super) fn alarm_ms(&self) -> Option<u64> {
        self.opening.front().map(|(_, due_ms)| *due_ms)
    }
}

impl Python {
    /// Accepts the WebSocket that an exchange has asked for, as the application does. Returns false
    /// if there is no such exchange.
    pub(super) fn accept(
        &mut self,
        key: WebSocketKey,
        address: Address,
        fields: &HintFields<'_>,
        connections: &mut Connections<'_>,
        ended: &mut impl FnMut(Ended, &mut Exchange<'_>),
    ) -> bool {
        // Without an exchange its last event is on the way.
        let Some(mut exchange) = connections.exchange(address) else { return false };
        let Some(request) = self.requests.remove(&address) else { return false };
        let Some(pending) = request.websocket else { return false };
        let PendingWebSocket { acceptance, is_connect, has_ended } = *pending;
        // A request of HTTP/1.1 for a WebSocket has no content, and its connection goes on.
        let has_ended = is_connect && has_ended;
        let mut own = Vec::new();
        acceptance.visit_fields(|name, value| own.push((name.to_owned(), value.to_owned())));
        let own = own
            .iter()
            .map(|(name, value)| Field { name: name.as_bytes(), value: value.as_bytes() });
        let fields = forwarded_interim(fields.fields.iter(), &request.app.response_fields);
        let fields = fields.chain(own);
        let carrier = if is_connect { TunnelCarrier::Stream } else { TunnelCarrier::Connection };
        let now_ms = exchange.now().monotonic_ms;
        let status = if is_connect { 200 } else { 101 };
        if is_connect {
            exchange.open_tunnel(fields);
        } else {
            exchange.upgrade(fields);
        }
        let WebSockets { open, clients, opening, pool } = &mut self.websockets;
        let deflate = acceptance.deflate.map(|agreement| (agreement, pool.clone()));
        let codec = WebSocketConnection::new(MESSAGE_MAX_BYTES, deflate);
        let client = TunnelEnd { has_ended, ..TunnelEnd::new(address, carrier, 0) };
        let mut websocket = OpenWebSocket::new(client, codec, key.1, now_ms);
        if is_connect {
            exchange.wait(None);
            websocket.opened(&mut exchange.connections());
        } else {
            opening.push_back((key, now_ms + TUNNEL_OPEN_MS));
        }
        clients.insert(client.key(), key);
        open.insert(key, websocket);
        ended(Ended::Answered { status, body_bytes: 0 }, &mut exchange);
        self.catch_up(key, connections);
        true
    }

    /// Handles the events on the exchange of a WebSocket before it was accepted. Frames for the
    /// process come into `self.frames`.
    fn catch_up(&mut self, key: WebSocketKey, connections: &mut Connections<'_>) {
        let Some(websocket) = self.websockets.open.get_mut(&key) else { return };
        let frames = &mut self.frames;
        let life = if websocket.client.has_ended {
            websocket.left(frames)
        } else if connections.is_stopping() {
            websocket.stop(GOING_AWAY, frames, connections)
        } else {
            WebSocketLife::Continues
        };
        self.live_on(key, life, connections);
    }

    /// Handles a frame of a process about an open WebSocket. Frames for the process come into
    /// `self.frames`.
    pub(super) fn websocket_frame(
        &mut self,
        key: WebSocketKey,
        frame: &ChildFrame<'_>,
        connections: &mut Connections<'_>,
    ) {
        let Some(websocket) = self.websockets.open.get_mut(&key) else { return };
        if websocket.has_left_process() {
            return;
        }
        let frames = &mut self.frames;
        let life = match *frame {
            ChildFrame::Want { bytes, .. } => websocket.wanted(bytes, frames, connections),
            ChildFrame::Message { is_binary, bytes, room_bytes, is_end, .. } => {
                let kind = if is_binary { MessageKind::Binary } else { MessageKind::Text };
                websocket.message((kind, bytes, is_end), room_bytes, frames, connections)
            }
            ChildFrame::Close { code, reason, .. } => {
                let reason = String::from_utf8_lossy(reason);
                websocket.close(code, &reason, frames, connections)
            }
            ChildFrame::End { .. } => websocket.ended(true, frames, connections),
            ChildFrame::Abort { .. } => websocket.ended(false, frames, connections),
            _ if frame.is_last() => websocket.ended(false, frames, connections),
            _ => websocket.violated(frames, connections),
        };
        self.live_on(key, life, connections);
    }

    /// Closes a WebSocket because the connection to its process is lost.
    pub(super) fn lose_websocket(&mut self, key: WebSocketKey, connections: &mut Connections<'_>) {
        let Some(websocket) = self.websockets.open.get_mut(&key) else { return };
        let mut frames = Vec::new();
        let life = websocket.ended(false, &mut frames, connections);
        self.live_on(key, life, connections);
    }

    /// Handles an event on the connection of a client. Returns false if it is not that of a
    /// WebSocket.
    pub fn raw_of_client(
        &mut self,
        event: &ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
    ) -> bool {
        let address = stream.address();
        let client = ClientKey::Connection(address.slot, address.generation);
        let Some(key) = self.websockets.clients.get(&client).copied() else { return false };
        if matches!(event, ByteStreamEvent::Stopping) {
            self.stop_websocket(key, &mut stream.connections());
        } else if let Some(event) = TunnelEvent::of_connection(event, address) {
            self.websocket_event(key, event, &mut stream.connections());
        }
        true
    }

    /// Handles an event of an exchange. Returns false if it is not that of a WebSocket.
    pub(super) fn websocket_stream_event(
        &mut self,
        event: &Event<'_>,
        exchange: &mut Exchange<'_>,
    ) -> bool {
        let client = ClientKey::Stream(exchange.address());
        let Some(key) = self.websockets.clients.get(&client).copied() else { return false };
        if matches!(event, Event::Stopping) {
            self.stop_websocket(key, &mut exchange.connections());
        } else if let Some(event) = TunnelEvent::of_exchange(event, exchange) {
            self.websocket_event(key, event, &mut exchange.connections());
        }
        true
    }

    /// Drops WebSockets whose clients have left before their connections were switched.
    pub(super) fn websocket_pass(&mut self, connections: &mut Connections<'_>) {
        let now_ms = connections.now().monotonic_ms;
        while let Some((key, due_ms)) = self.websockets.opening.front().copied()
            && due_ms <= now_ms
        {
            self.websockets.opening.pop_front();
            let open = &self.websockets.open;
            if open.get(&key).is_some_and(|websocket| !websocket.is_open()) {
                self.websocket_event(key, TunnelEvent::Gone, connections);
            }
        }
    }

    fn stop_websocket(&mut self, key: WebSocketKey, connections: &mut Connections<'_>) {
        self.with_websocket(key, connections, |websocket, frames, connections| {
            websocket.stop(GOING_AWAY, frames, connections)
        });
    }

    fn websocket_event(
        &mut self,
        key: WebSocketKey,
        event: TunnelEvent<'_>,
        connections: &mut Connections<'_>,
    ) {
        self.with_websocket(key, connections, |websocket, frames, connections| match event {
            TunnelEvent::Open(address) => {
                websocket.client.address = address;
                websocket.opened(connections);
                websocket.give_room(frames);
                WebSocketLife::Continues
            }
            TunnelEvent::Bytes(bytes) => websocket.bytes(bytes, frames, connections),
            TunnelEvent::Writable => websocket.writable(frames, connections),
            TunnelEvent::Deadline => websocket.deadline(frames, connections),
            TunnelEvent::End | TunnelEvent::Gone => websocket.left(frames),
        });
    }

    /// Does something with a WebSocket, and sends the frames for its process.
    fn with_websocket(
        &mut self,
        key: WebSocketKey,
        connections: &mut Connections<'_>,
        act: impl FnOnce(&mut OpenWebSocket, &mut Vec<u8>, &mut Connections<'_>) -> WebSocketLife,
    ) {
        let Some(websocket) = self.websockets.open.get_mut(&key) else { return };
        self.frames.clear();
        let life = act(websocket, &mut self.frames, connections);
        if let Some(link) = self.links.get_mut(&key.0) {
            link.write(&self.frames, connections);
        }
        self.frames.clear();
        self.live_on(key, life, connections);
    }

    fn live_on(
        &mut self,
        key: WebSocketKey,
        life: WebSocketLife,
        connections: &mut Connections<'_>,
    ) {
        if life == WebSocketLife::Continues {
            return;
        }
        if let Some(websocket) = self.websockets.open.remove(&key) {
            // The key of a connection stays the same when it is switched.
            self.websockets.clients.remove(&websocket.client.key());
            websocket.client.close(connections);
        }
    }
}

/// Returns the request for a WebSocket that a request to an ASGI application is, if it is one. With
/// an error the fields are added that its response has.
pub(super) fn websocket_request<'h>(
    app: &PythonApp,
    head: &'h RequestHead<'h>,
    exchange: &mut Exchange<'_>,
) -> Result<Option<WebSocketRequest<'h>>, ProxyError> {
    let is_other = head.protocol.is_some_and(|protocol| protocol != TunnelProtocol::WebSocket);
    if is_other || head.protocol.is_some() && !app.is_asgi() {
        return Err(ProxyError::Protocol);
    }
    if !app.is_asgi() {
        return Ok(None);
    }
    WebSocketRequest::of(head).map_err(|refusal| {
        let mut lines = Vec::new();
        for Field { name, value } in refusal.fields(head.version) {
            lines.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
        }
        exchange.add_fields(&lines);
        ProxyError::WebSocket { refusal, version: head.version }
    })
}
