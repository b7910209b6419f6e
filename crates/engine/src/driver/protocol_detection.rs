//! The beginning of a connection. The protocol of the peer is decided only here: by the protocol of
//! its listener, and by the first bytes. Requests cost nothing for it.

use pinion_http::error_page;
use pinion_http::refusal::{Refusal, RefusedRequest};

use super::{byte_streams, http1};
use crate::app::App;
use crate::backend::Slot;
use crate::connection::Protocol;
use crate::deadline::DeadlineKind;
use crate::http1::Http1;
use crate::settings::{Protocol as Spoken, Protocols};
use crate::tls::Inside;
use crate::worker_core::WorkerCore;

/// Begins the protocol of a connection: at once, or after its handshake, which may have negotiated
/// the protocol `inside`. A byte stream begins without a byte of the peer, which may be waiting for
/// ours.
pub(crate) fn begin<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    inside: Option<Inside>,
) {
    let connection = core.connections.get(slot);
    match core.settings.listeners[usize::from(connection.listener())].protocol {
        Spoken::Http(_) if inside == Some(Inside::Http2) => {
            core.begin_http2(slot, app.takes_extended_connect());
        }
        Spoken::Http(Protocols { http1: false, .. }) => {
            core.begin_http2(slot, app.takes_extended_connect());
        }
        Spoken::Http(_) => connection.protocol = Protocol::Undetected,
        Spoken::ByteStream => {
            let first_byte_ms =
                core.settings.stream_timeout_ms(connection.direction, DeadlineKind::FirstByte);
            let stream = connection.begin_stream();
            stream.awaits_first_byte = first_byte_ms.is_some() && !stream.end_event_pending;
            byte_streams::open(app, core, slot);
        }
    }
}

/// Checks the first bytes of a connection and moves it on, unless more of them are needed. None is
/// used up.
pub(crate) fn look<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, input: &[u8]) {
    match PeerPreface::of(input) {
        PeerPreface::Unclear => {}
        PeerPreface::Http1 => core.connections.get(slot).protocol = Protocol::Http1(Http1::IDLE),
        PeerPreface::Http2 if speaks_http2(core, slot) => {
            core.begin_http2(slot, app.takes_extended_connect());
        }
        PeerPreface::Http2 => {
            let unknown = RefusedRequest::default();
            http1::send_page(app, core, slot, Refusal::Version.status(), &unknown);
        }
        PeerPreface::Tls => http1::refuse_with(app, core, slot, error_page::response_to_tls),
    }
}

/// Returns whether a connection may use HTTP/2 by its first bytes alone. Over TLS it would have
/// been negotiated in the handshake (RFC 9113 §3.2).
fn speaks_http2(core: &mut WorkerCore, slot: Slot) -> bool {
    let listener = core.listener(slot);
    let has_it = matches!(listener.protocol, Spoken::Http(Protocols { http2: true, .. }));
    has_it && listener.tls.is_none()
}

/// The protocol of a peer of an HTTP listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerPreface {
    /// HTTP/1, or bytes that its parser can reject.
    Http1,
    /// HTTP/2 with prior knowledge (RFC 9113 §3.4).
    Http2,
    /// TLS (RFC 8446 §5.1), for which the listener has no key.
    Tls,
    /// Too few bytes to decide.
    Unclear,
}

/// The request line with which every HTTP/2 connection begins. It is no request line of HTTP/1.
const HTTP2_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";

impl PeerPreface {
    fn of(input: &[u8]) -> Self {
        match input {
            // A record of the type handshake, of any version 3.x.
            [0x16, 0x03, ..] => Self::Tls,
            [] | [0x16] => Self::Unclear,
            [b'P', ..] if input.starts_with(HTTP2_LINE) => Self::Http2,
            [b'P', ..] if HTTP2_LINE.starts_with(input) => Self::Unclear,
            _ => Self::Http1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_is_unclear_until_enough_bytes_have_arrived() {
        use PeerPreface as O;
        for (bytes, opening, needed) in [
            (&b"GET / HTTP/1.1\r\n"[..], O::Http1, 1),
            (b"\r\nGET / HTTP/1.1\r\n", O::Http1, 1),
            (b"POST / HTTP/1.1\r\n", O::Http1, 2),
            (b"PRI / HTTP/1.1\r\n", O::Http1, 5),
            (b"PRI * HTTP/2.0\n", O::Http1, 15),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", O::Http2, 16),
            (b"\x16\x03\x01\x02\x00", O::Tls, 2),
            (b"\x16\x04", O::Http1, 2),
            (b"SSH-2.0-x\r\n", O::Http1, 1),
        ] {
            for until in 0..=bytes.len() {
                let expected = if until < needed { O::Unclear } else { opening };
                let text = bytes[..until].escape_ascii();
                assert_eq!(PeerPreface::of(&bytes[..until]), expected, "{text}");
            }
        }
    }
}
