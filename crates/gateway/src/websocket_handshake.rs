//! WebSockets over HTTP/2 and HTTP/3 (RFC 8441 §5, RFC 9220): the client asks for a tunnel with an
//! extended CONNECT, and the upstream server gets the handshake of HTTP/1.1 for it (RFC 6455 §4).
//! The key and the response to it, which prove to a client of HTTP/1.1 that the server has
//! understood, are exchanged between this server and the upstream server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinion_client::http_client::request::{ClientRequest, ResponseStart};
use pinion_http::method::Method;
use pinion_http::request_head::{Framing, RequestHead, TunnelProtocol};
use pinion_http::websocket::handshake::accept_value;

use crate::proxy_error::ProxyError;

/// The one protocol that is spoken in such a tunnel, as `Upgrade` has it.
const PROTOCOL: &str = "websocket";

const KEY: &str = "Sec-WebSocket-Key";
const ACCEPT: &str = "Sec-WebSocket-Accept";

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
        if protocol != TunnelProtocol::WebSocket {
            return Err(ProxyError::Protocol);
        }
        let mut key = [0; 16];
        random(&mut key);
        let has_ended = head.framing == Framing::None;
        Ok(Some(Self { key: STANDARD.encode(key).into(), has_ended }))
    }

    /// Returns the head of the request that is forwarded: bytes from the client belong to the
    /// tunnel, and are no content.
    pub(crate) fn head<'h>(&self, head: &RequestHead<'h>) -> RequestHead<'h> {
        let (method, method_token) = (Method::Get, &b"GET"[..]);
        let framing = Framing::None;
        RequestHead { method, method_token, framing, protocol: None, ..*head }
    }

    /// Adds to the request the fields that only HTTP/1.1 has.
    pub(crate) fn complete(&self, request: &mut ClientRequest) {
        request.fields.remove(&[KEY]);
        request.fields.push(KEY.as_bytes(), self.key.as_bytes());
        if let Some(forwarded) = &mut request.forwarded {
            forwarded.upgrade = Some(PROTOCOL.into());
        }
    }

    /// Takes the response to the key out of a 101. Returns false if it is not the right one.
    pub(crate) fn take_accept(&self, start: &mut ResponseStart) -> bool {
        let is_right =
            start.fields.get(ACCEPT) == Some(accept_value(self.key.as_bytes()).as_bytes());
        start.fields.remove(&[ACCEPT]);
        is_right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_forwarding::forward;
    use crate::upstream::Upstream;
    use crate::upstream_group::UpstreamGroup;
    use pinion_client::http_client::request::OwnedFields;
    use pinion_http::field_section::FieldSection;
    use pinion_http::forwarded_client::ClientIdentity;
    use pinion_http::hpack::decoder::Decoder;
    use pinion_http::limits::Limits;
    use pinion_http::multiplexed_request_head::of_section;
    use pinion_http::version::Version;

    /// Returns the request that the upstream server gets for an extended CONNECT with these fields.
    fn forwarded(protocol: &str, fields: &[(&str, &str)]) -> Result<ClientRequest, ProxyError> {
        let pseudo = [
            (":method", "CONNECT"),
            (":protocol", protocol),
            (":scheme", "https"),
            (":path", "/chat?a"),
            (":authority", "example.org"),
        ];
        let mut block = Vec::new();
        for (name, value) in pseudo.iter().chain(fields) {
            // A literal without an index and without Huffman (RFC 7541 §6.2.2).
            block.extend([0, name.len() as u8]);
            block.extend(name.bytes());
            block.push(value.len() as u8);
            block.extend(value.bytes());
        }
        let (mut section, limits) = (FieldSection::new(), Limits::default());
        Decoder::new(4096).decode(&block, &mut section, &limits).expect("a block");
        let head = of_section(Version::Http2, &section, false, &limits, true).expect("a request");
        let handshake = WebSocketHandshake::of(&head, |key| key.fill(b'k'))?.expect("a handshake");
        assert!(!handshake.has_ended);
        let upstream = Upstream::parse("http://127.0.0.1:3000").expect("a URL");
        let client = ClientIdentity { peer: None, is_secured: true };
        let group = UpstreamGroup::of_one(upstream.clone());
        let mut request =
            forward(&upstream, &group, &handshake.head(&head), &client, "pinion-0000")?;
        handshake.complete(&mut request);
        Ok(request)
    }

    /// RFC 8441 §5: the request of HTTP/1.1 for the same WebSocket.
    #[test]
    fn the_upstream_server_gets_the_handshake_of_http1() {
        let fields = [
            ("sec-websocket-key", "own"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-protocol", "chat"),
        ];
        let request = forwarded("WebSocket", &fields).expect("forwarded");
        let key = STANDARD.encode([b'k'; 16]);
        assert_eq!(&*request.method, "GET");
        for (name, value) in [
            (KEY, &*key),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Protocol", "chat"),
            ("Via", "2 pinion-0000"),
        ] {
            assert_eq!(request.fields.get(name), Some(value.as_bytes()), "{name}");
        }
        let keys =
            request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(KEY.as_bytes()));
        assert_eq!(keys.count(), 1);
        let parts = request.forwarded.expect("parts");
        assert_eq!(
            (&*parts.target, parts.upgrade.as_deref()),
            (&b"/chat?a"[..], Some("websocket"))
        );
        let other = forwarded("connect-udp", &[]).err();
        assert_eq!(other.map(|error| (error.status(), error.is_logged())), Some((501, false)));
    }

    #[test]
    fn only_the_accept_value_of_the_key_is_accepted() {
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        let handshake = WebSocketHandshake { key: key.into(), has_ended: false };
        let url = Upstream::parse("http://a").expect("a URL").url;
        for (value, is_right) in [
            (Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), true),
            (Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo"), false),
            (Some(key), false),
            (None, false),
        ] {
            let mut fields = OwnedFields::default();
            fields.push(b"X-App", b"a");
            if let Some(value) = value {
                fields.push(b"sec-websocket-accept", value.as_bytes());
            }
            let url = url.clone();
            let mut start = ResponseStart { status: 101, fields, content_length: None, url };
            assert_eq!(handshake.take_accept(&mut start), is_right, "{value:?}");
            assert_eq!(start.fields.iter().count(), 1, "the client gets no response to a key");
        }
    }
}
