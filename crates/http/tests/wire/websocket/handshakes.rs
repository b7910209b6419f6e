//! The opening handshake over HTTP/1.1 and over HTTP/2.

use pinion_http::field_section::FieldSection;
use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
use pinion_http::hpack::decoder::Decoder;
use pinion_http::limits::Limits;
use pinion_http::multiplexed_request_head::of_section;
use pinion_http::request_head::RequestHead;
use pinion_http::version::Version;
use pinion_http::websocket::deflate_offer::DeflateAgreement;
use pinion_http::websocket::handshake::{
    HandshakeRefusal as Refusal, WebSocketRequest, accept_value,
};
use pinion_http::websocket::limits::SUBPROTOCOLS_MAX;

/// The example of RFC 6455 §1.2.
const LINES: [&str; 6] = [
    "GET /chat HTTP/1.1",
    "Host: server.example.com",
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
];

/// Reads the example; a line of the same name is replaced by a change, and others are added. A
/// change without a value removes the line.
fn with<R>(changes: &[&str], check: impl FnOnce(&RequestHead<'_>) -> R) -> R {
    let name = |line: &str| line.split([':', ' ']).next().map(str::to_owned);
    let is_changed = |line: &&str| changes.iter().any(|change| name(change) == name(line));
    let start =
        changes.iter().find(|line| line.ends_with("HTTP/1.1") || line.ends_with("HTTP/1.0"));
    let start = *start.unwrap_or(&LINES[0]);
    let kept = LINES[1..].iter().copied().filter(|line| !is_changed(line));
    let added = changes.iter().copied().filter(|line| *line != start && !line.ends_with(':'));
    let lines: Vec<&str> = [start].into_iter().chain(kept).chain(added).collect();
    let text = [&lines.join("\r\n"), "\r\n\r\n"].concat();
    let mut storage = HeadStorage::new();
    match parse(text.as_bytes(), 0, &mut storage, &Limits::default()) {
        Ok(Parsed::Head { head, .. }) => check(&head),
        other => panic!("{text:?}: {other:?}"),
    }
}

/// Returns whether the request with these changes is one for a WebSocket.
fn outcome(changes: &[&str]) -> Result<bool, Refusal> {
    with(changes, |head| WebSocketRequest::of(head).map(|request| request.is_some()))
}

/// Returns the agreement of the server for an offer.
pub(super) fn agreement(offer: &str) -> Option<DeflateAgreement> {
    let line = ["Sec-WebSocket-Extensions: ", offer].concat();
    with(&[&line], |head| {
        WebSocketRequest::of(head).expect("it is good").expect("it is one").deflate
    })
}

#[test]
fn requests_of_http1() {
    for changes in [
        &[][..],
        &["Upgrade: WebSocket"],
        &["Upgrade: foo/1, websocket"],
        &["Connection: keep-alive, UPGRADE"],
        &["Connection: keep-alive", "Connection: upgrade"],
        &["Sec-WebSocket-Protocol: chat, superchat", "Sec-WebSocket-Protocol: third"],
        &["Content-Length: 0"],
        &["Sec-WebSocket-Extensions: foo"],
    ] {
        assert_eq!(outcome(changes), Ok(true), "{changes:?}");
    }
    for changes in [
        &["Upgrade:"][..],
        &["Upgrade: h2c"],
        &["Upgrade: websockets"],
        &["Upgrade: websocket/13"],
        &["Connection:"],
        &["Connection: keep-alive"],
        &["GET /chat HTTP/1.0"],
        &["POST /chat HTTP/1.1"],
        &["HEAD /chat HTTP/1.1"],
        &["Upgrade:", "Sec-WebSocket-Version:"],
    ] {
        assert_eq!(outcome(changes), Ok(false), "{changes:?}");
    }
}

#[test]
fn refused_requests_of_http1() {
    let many = vec!["a"; SUBPROTOCOLS_MAX + 1].join(", ");
    let many = ["Sec-WebSocket-Protocol: ", &many].concat();
    for (changes, refusal, status) in [
        (&["Sec-WebSocket-Version:"][..], Refusal::Version, 426),
        (&["Sec-WebSocket-Version: 12"], Refusal::Version, 426),
        (&["Sec-WebSocket-Version: 13, 8"], Refusal::Version, 426),
        (&["Sec-WebSocket-Version: 013"], Refusal::Version, 426),
        (&["Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 13"], Refusal::Version, 426),
        (&["Sec-WebSocket-Version: 8", "Sec-WebSocket-Key:"], Refusal::Version, 426),
        (&["Sec-WebSocket-Key:"], Refusal::Key, 400),
        (&["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ"], Refusal::Key, 400),
        (&["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j"], Refusal::Key, 400),
        (&["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZWU="], Refusal::Key, 400),
        (&["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZWVl"], Refusal::Key, 400),
        (&["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="; 2], Refusal::Key, 400),
        (&["Sec-WebSocket-Protocol: a b"], Refusal::Subprotocols, 400),
        (&[&many], Refusal::Subprotocols, 400),
        (&["Sec-WebSocket-Extensions: a;"], Refusal::Extensions, 400),
        (&["Content-Length: 5"], Refusal::Content, 400),
        (&["Transfer-Encoding: chunked"], Refusal::Content, 400),
    ] {
        assert_eq!(outcome(changes), Err(refusal), "{changes:?}");
        assert_eq!(refusal.status(Version::Http11), status);
    }
    let fields = |refusal: Refusal, version| -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        refusal.fields(version).map(|field| text(field.name) + ": " + &text(field.value)).collect()
    };
    assert_eq!(
        fields(Refusal::Version, Version::Http11),
        ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"],
    );
    assert_eq!(Refusal::Version.status(Version::Http2), 400);
    assert_eq!(fields(Refusal::Version, Version::Http3), ["Sec-WebSocket-Version: 13"]);
    assert_eq!(fields(Refusal::Key, Version::Http11), [] as [String; 0]);
}

/// Returns the fields of the response.
fn acceptance(head: &RequestHead<'_>, is_compressed: bool) -> Vec<(String, String)> {
    let request = WebSocketRequest::of(head).expect("it is good").expect("it is one");
    let mut fields = Vec::new();
    let acceptance = request.acceptance(is_compressed);
    acceptance.visit_fields(|name, value| fields.push((name.to_owned(), value.to_owned())));
    fields
}

fn pairs(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn responses_of_http1() {
    // RFC 6455 §1.3.
    assert_eq!(accept_value(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    let upgrade = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
    ];
    let offer = ["Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"];
    with(&offer, |head| {
        assert_eq!(acceptance(head, false), pairs(&upgrade));
        let value = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        let extension = [("Sec-WebSocket-Extensions", value)];
        assert_eq!(acceptance(head, true), pairs(&[&upgrade[..], &extension].concat()));
    });
    with(&["Sec-WebSocket-Protocol: chat, ,superchat", "Sec-WebSocket-Protocol: third"], |head| {
        assert_eq!(acceptance(head, true), pairs(&upgrade));
        let request = WebSocketRequest::of(head).expect("it is good").expect("it is one");
        let subprotocols: Vec<&[u8]> = request.subprotocols().collect();
        assert_eq!(subprotocols, [&b"chat"[..], b"superchat", b"third"]);
    });
}

/// Returns an extended CONNECT (RFC 8441 §5) with a protocol and these fields.
fn with_connect<R>(
    protocol: &str,
    fields: &[(&str, &str)],
    check: impl FnOnce(&RequestHead<'_>) -> R,
) -> R {
    let pseudo = [
        (":method", "CONNECT"),
        (":protocol", protocol),
        (":scheme", "https"),
        (":path", "/chat"),
        (":authority", "server.example.com"),
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
    check(&of_section(Version::Http2, &section, false, &limits, true).expect("a request"))
}

#[test]
fn extended_connects() {
    let version = ("sec-websocket-version", "13");
    let offer = ("sec-websocket-extensions", "permessage-deflate");
    with_connect("websocket", &[version, offer], |head| {
        assert_eq!(acceptance(head, false), []);
        let fields = acceptance(head, true);
        assert_eq!(fields.len(), 1, "no key and no upgrade: {fields:?}");
    });
    let of = |protocol, fields: &[(&str, &str)]| {
        with_connect(protocol, fields, |head| {
            WebSocketRequest::of(head).map(|request| request.is_some())
        })
    };
    assert_eq!(of("connect-udp", &[version]), Ok(false));
    assert_eq!(of("websocket", &[]), Err(Refusal::Version));
    assert_eq!(of("websocket", &[("sec-websocket-version", "8")]), Err(Refusal::Version));
    assert_eq!(
        of("websocket", &[version, ("sec-websocket-protocol", "a b")]),
        Err(Refusal::Subprotocols)
    );
    // Fields between the two ends of a connection do not belong to HTTP/2.
    assert_eq!(of("websocket", &[version, ("sec-websocket-key", "x")]), Ok(true));
}
