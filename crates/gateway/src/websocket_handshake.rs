//! WebSockets over HTTP/2 and HTTP/3 (RFC 8441 §5, RFC 9220): the client asks for a tunnel with an
//! extended CONNECT, and the upstream server gets the handshake of HTTP/1.1 for it (RFC 6455 §4).
//! What proves to a client of HTTP/1.1 that the server has understood, the key and the response to
//! it, is between this server and the upstream server.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinion_client::http_client::request::{ClientRequest, ResponseStart};
use pinion_http::method::Method;
use pinion_http::request::{Framing, RequestHead};

use crate::proxy_error::ProxyError;

/// The one protocol that is spoken in such a tunnel, as `Upgrade` has it.
const PROTOCOL: &str = "websocket";

const KEY: &str = "Sec-WebSocket-Key";
const ACCEPT: &str = "Sec-WebSocket-Accept";

/// What a server adds to the key (RFC 6455 §1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The handshake that the upstream server gets in place of an extended CONNECT.
pub(crate) struct WebSocketHandshake {
    /// The key, 16 random bytes in base64.
    key: Box<str>,
    /// The client has ended its side of the stream with its request.
    pub(crate) has_ended: bool,
}

impl WebSocketHandshake {
    /// Makes one if a request is an extended CONNECT. `random` fills the bytes of the key.
    ///
    /// # Errors
    /// The protocol of the tunnel is another one.
    pub(crate) fn of(
        head: &RequestHead<'_>,
        random: impl FnOnce(&mut [u8]),
    ) -> Result<Option<Self>, ProxyError> {
        let Some(protocol) = head.protocol else { return Ok(None) };
        if !protocol.eq_ignore_ascii_case(PROTOCOL.as_bytes()) {
            return Err(ProxyError::Protocol);
        }
        let mut key = [0; 16];
        random(&mut key);
        let has_ended = head.framing == Framing::None;
        Ok(Some(Self { key: STANDARD.encode(key).into(), has_ended }))
    }

    /// Returns the head of the request that is forwarded: what the client sends belongs to the
    /// tunnel, and is no content.
    pub(crate) fn head<'h>(&self, head: &RequestHead<'h>) -> RequestHead<'h> {
        let (method, method_token) = (Method::Get, &b"GET"[..]);
        let framing = Framing::None;
        RequestHead { method, method_token, framing, protocol: None, ..*head }
    }

    /// Adds to the request what only HTTP/1.1 has.
    pub(crate) fn complete(&self, request: &mut ClientRequest) {
        request.fields.remove(&[KEY]);
        request.fields.push(KEY.as_bytes(), self.key.as_bytes());
        if let Some(forwarded) = &mut request.forwarded {
            forwarded.upgrade = Some(PROTOCOL.into());
        }
    }

    /// Takes the response to the key out of a 101. Returns false if it is not the right one.
    pub(crate) fn take_accept(&self, start: &mut ResponseStart) -> bool {
        let is_right = start.fields.get(ACCEPT) == Some(accept(&self.key).as_bytes());
        start.fields.remove(&[ACCEPT]);
        is_right
    }
}

/// Returns the response to a key (RFC 6455 §4.2.2).
fn accept(key: &str) -> String {
    let text = [key, GUID].concat();
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455 §1.3.
    #[test]
    fn a_key_has_one_response() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
