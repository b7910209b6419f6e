//! The opening handshake: an upgrade of a connection of HTTP/1.1 (RFC 6455 §4), or an extended
//! CONNECT of HTTP/2 or HTTP/3 (RFC 8441 §5, RFC 9220).

use core::fmt;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::deflate_offer::{DeflateAgreement, agree};
use super::limits::SUBPROTOCOLS_MAX;
use crate::field::{Field, KnownField};
use crate::grammar::{is_token, list};
use crate::method::Method;
use crate::request_head::{Framing, RequestHead, TunnelProtocol};
use crate::version::Version;

/// The only version of the protocol.
const VERSION: &str = "13";

/// The text that is appended to a key (RFC 6455 §1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Bytes of a key without its base64.
const KEY_BYTES: usize = 16;

const EXTENSIONS: &str = "Sec-WebSocket-Extensions";

/// A request for a WebSocket, which was checked.
#[derive(Clone, Copy, Debug)]
pub struct WebSocketRequest<'h> {
    head: &'h RequestHead<'h>,
    /// The key of an upgrade of HTTP/1.1.
    key: Option<&'h [u8]>,
    /// The parameters to which the server agrees if it compresses messages; `None` if the client
    /// has not offered it in an acceptable way.
    pub deflate: Option<DeflateAgreement>,
}

/// The reason why a request for a WebSocket is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandshakeRefusal {
    /// `Sec-WebSocket-Version` is missing, or it is not 13.
    Version,
    /// `Sec-WebSocket-Key` is missing, repeated, or not 16 bytes in base64.
    Key,
    /// `Sec-WebSocket-Protocol` is not a list of tokens, or has too many.
    Subprotocols,
    /// `Sec-WebSocket-Extensions` breaks the grammar.
    Extensions,
    /// The request has content.
    Content,
}

impl HandshakeRefusal {
    /// Returns the status of the response in this version of HTTP: 400, or 426 for the wrong
    /// version of the protocol in HTTP/1.1, which alone has upgrades.
    #[must_use]
    pub const fn status(self, version: Version) -> u16 {
        match (self, version) {
            (Self::Version, Version::Http11) => 426,
            _ => 400,
        }
    }

    /// Returns the fields of the response, besides those that all responses have.
    pub fn fields(self, version: Version) -> impl Iterator<Item = Field<'static>> + Clone {
        let of_version = Field { name: b"Sec-WebSocket-Version", value: VERSION.as_bytes() };
        let of_upgrade = [
            Field { name: b"Connection", value: b"Upgrade" },
            Field { name: b"Upgrade", value: b"websocket" },
        ];
        let is_version = self == Self::Version;
        let is_upgrade = self.status(version) == 426;
        let of_upgrade = of_upgrade.into_iter().filter(move |_| is_upgrade);
        of_upgrade.chain(is_version.then_some(of_version))
    }

    /// Returns the error in a few words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Version => "the version of the WebSocket protocol is not 13",
            Self::Key => "missing, repeated or malformed Sec-WebSocket-Key",
            Self::Subprotocols => "malformed Sec-WebSocket-Protocol",
            Self::Extensions => "malformed Sec-WebSocket-Extensions",
            Self::Content => "a WebSocket request has content",
        }
    }
}

impl fmt::Display for HandshakeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl core::error::Error for HandshakeRefusal {}

impl<'h> WebSocketRequest<'h> {
    /// Returns the request for a WebSocket that a head is; `None` if it is another request. A
    /// server may ignore `Upgrade` (RFC 9110 §7.8), which it does for all methods but GET and for
    /// HTTP/1.0.
    ///
    /// # Errors
    /// The request is malformed, or of another version of the protocol.
    pub fn of(head: &'h RequestHead<'h>) -> Result<Option<WebSocketRequest<'h>>, HandshakeRefusal> {
        let is_connect = head.protocol == Some(TunnelProtocol::WebSocket);
        if !is_connect && !is_upgrade(head) {
            return Ok(None);
        }
        if single(head, "Sec-WebSocket-Version") != Some(VERSION.as_bytes()) {
            return Err(HandshakeRefusal::Version);
        }
        let key = if is_connect { None } else { Some(key(head)?) };
        if !is_connect && head.framing != Framing::None {
            return Err(HandshakeRefusal::Content);
        }
        let request = WebSocketRequest { head, key, deflate: None };
        let mut count = 0;
        for subprotocol in request.subprotocols() {
            count += 1;
            if !is_token(subprotocol) || count > SUBPROTOCOLS_MAX {
                return Err(HandshakeRefusal::Subprotocols);
            }
        }
        let offers = head.fields.all(EXTENSIONS.as_bytes());
        let deflate = agree(offers).map_err(|_| HandshakeRefusal::Extensions)?;
        Ok(Some(WebSocketRequest { deflate, ..request }))
    }

    /// Returns the subprotocols that the client offers, tokens in the order of its preference.
    pub fn subprotocols(&self) -> impl Iterator<Item = &'h [u8]> + use<'h> {
        self.head.fields.all(b"Sec-WebSocket-Protocol").flat_map(list)
    }

    /// Returns the fields that the handshake adds to the response that accepts the WebSocket: a 101
    /// of HTTP/1.1, or a 200. The caller adds `Sec-WebSocket-Protocol` with the subprotocol that
    /// the application has chosen. `is_compressed` says that messages are compressed if the client
    /// has offered it.
    #[must_use]
    pub fn acceptance(&self, is_compressed: bool) -> HandshakeAcceptance {
        let deflate = self.deflate.filter(|_| is_compressed);
        HandshakeAcceptance { accept: self.key.map(accept_value), deflate }
    }
}

/// The values of the response that accepts a WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeAcceptance {
    /// The value of `Sec-WebSocket-Accept` over HTTP/1.1.
    pub accept: Option<String>,
    /// The parameters of compression, if messages are compressed.
    pub deflate: Option<DeflateAgreement>,
}

impl HandshakeAcceptance {
    /// Passes the fields of the response to `add`: over HTTP/1.1 those of the upgrade, and that of
    /// the extension if messages are compressed.
    pub fn visit_fields(&self, mut add: impl FnMut(&str, &str)) {
        if let Some(accept) = &self.accept {
            add("Connection", "Upgrade");
            add("Upgrade", "websocket");
            add("Sec-WebSocket-Accept", accept);
        }
        if let Some(deflate) = self.deflate {
            add(EXTENSIONS, &deflate.response());
        }
    }
}

/// Returns the value of `Sec-WebSocket-Accept` for that of `Sec-WebSocket-Key` (RFC 6455 §4.2.2).
#[must_use]
pub fn accept_value(key: &[u8]) -> String {
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, GUID].concat()))
}

/// Returns whether a request asks to upgrade its connection to a WebSocket.
fn is_upgrade(head: &RequestHead<'_>) -> bool {
    let has = |field, token: &[u8]| {
        head.values(field).flat_map(list).any(|member| member.eq_ignore_ascii_case(token))
    };
    head.version == Version::Http11
        && head.method == Method::Get
        && has(KnownField::Upgrade, b"websocket")
        && has(KnownField::Connection, b"upgrade")
}

/// Returns the key of an upgrade.
fn key<'h>(head: &RequestHead<'h>) -> Result<&'h [u8], HandshakeRefusal> {
    let key = single(head, "Sec-WebSocket-Key").ok_or(HandshakeRefusal::Key)?;
    let mut decoded = [0; KEY_BYTES + 2];
    match STANDARD.decode_slice(key, &mut decoded) {
        Ok(KEY_BYTES) => Ok(key),
        _ => Err(HandshakeRefusal::Key),
    }
}

/// Returns the value of a field that came in exactly one line.
fn single<'h>(head: &RequestHead<'h>, name: &str) -> Option<&'h [u8]> {
    let mut values = head.fields.all(name.as_bytes());
    values.next().filter(|_| values.next().is_none())
}
