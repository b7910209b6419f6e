//! A plain reading of the rules for `:protocol` (RFC 8441 §4, RFC 9220 §3), for a connection on
//! which it was announced.

use pinion_http::field::Fields;
use pinion_http::method::Method;
use pinion_http::multiplexed_request_head::Rejected;
use pinion_http::request_head::{Framing, RequestHead, TunnelProtocol};

/// Compares the result for fields, pseudo-fields among them, with the rules.
pub(crate) fn check(fields: &Fields<'_>, head: &Result<RequestHead<'_>, Rejected>) {
    let all = |name: &[u8]| -> Vec<Vec<u8>> {
        let named = fields.iter().filter(|field| field.name == name);
        named.map(|field| field.value.to_vec()).collect()
    };
    let [protocol, method, scheme, path] =
        [&b":protocol"[..], b":method", b":scheme", b":path"].map(all);
    let is_token = |text: &[u8]| {
        !text.is_empty()
            && text
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
    };
    let is_extended = match protocol.as_slice() {
        [] => false,
        [protocol] => is_token(protocol) && method == [b"CONNECT"],
        _ => return assert_eq!(head.as_ref().err(), Some(&Rejected::Malformed)),
    };
    if !protocol.is_empty() && !is_extended {
        assert_eq!(head.as_ref().err(), Some(&Rejected::Malformed), "{fields:?}");
    }
    let Ok(head) = head else { return };
    let is_websocket = |token: &Vec<u8>| token.eq_ignore_ascii_case(b"websocket");
    let expected = protocol.first().map(|token| {
        if is_websocket(token) { TunnelProtocol::WebSocket } else { TunnelProtocol::Other }
    });
    assert_eq!(head.protocol, expected);
    if is_extended {
        assert_eq!([scheme.len(), path.len()], [1, 1], "{fields:?}");
        assert_eq!(head.target.raw, path[0]);
        assert!(matches!(head.framing, Framing::None | Framing::Frames), "{head:?}");
        assert_eq!(head.fields.get(b"content-length"), None);
    } else if head.method == Method::Connect {
        assert_eq!([scheme.len(), path.len()], [0, 0], "{fields:?}");
    }
}
