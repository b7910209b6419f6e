use super::*;
use crate::upstream_group::{AttemptLimits, UpstreamOptions};
use pinion_client::limits::CONNECT_TIMEOUT_MS;
use pinion_http::h1::client::request_writer::{
    ConnectionOption, OutgoingRequest, RequestContent, RequestTarget, write_request,
};
use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
use pinion_http::limits::Limits;
use proptest::prelude::*;

const PSEUDONYM: &str = "pinion-0000";

const CLIENT: ClientIdentity = ClientIdentity { peer: None, is_secured: false };

fn upstream() -> Upstream {
    Upstream::parse("http://127.0.0.1:3000").expect("a URL")
}

fn group() -> UpstreamGroup {
    UpstreamGroup::of_one(upstream())
}

/// Parses a head and forwards it.
fn forwarded(text: &str) -> Result<ClientRequest, ProxyError> {
    let mut storage = HeadStorage::new();
    let parsed = parse(text.as_bytes(), 0, &mut storage, &Limits::default());
    let Ok(Parsed::Head { head, .. }) = parsed else { panic!("{text}") };
    forward(&upstream(), &group(), &head, &CLIENT, PSEUDONYM)
}

fn with_fields(lines: &str) -> ClientRequest {
    forwarded(&format!("GET /a?b HTTP/1.1\r\nHost: example.org\r\n{lines}\r\n")).expect("forwarded")
}

fn lines(request: &ClientRequest) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let lines = request.fields.iter().map(|one| format!("{}={}", text(one.name), text(one.value)));
    lines.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_forwarded_head_has_via_and_forwarding_fields() {
    let request = with_fields("Accept: a\r\nX-Forwarded-For: 192.0.2.1\r\nVia: 1.0 x\r\n");
    let expected = "Accept=a Via=1.0 x Via=1.1 pinion-0000 \
                    X-Forwarded-Host=example.org X-Forwarded-Proto=http";
    assert_eq!(lines(&request), expected);
    let parts = request.forwarded.expect("parts");
    assert_eq!((&*parts.authority, &*parts.target), (&b"example.org"[..], &b"/a?b"[..]));
    assert_eq!((parts.accepts_trailers, parts.upgrade), (false, None));
}

/// The time for all attempts applies to several servers. A single server has the time of any
/// connection.
#[test]
fn only_groups_of_servers_have_the_shorter_connect_timeout() {
    let text = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n";
    let mut storage = HeadStorage::new();
    let parsed = parse(text.as_bytes(), 0, &mut storage, &Limits::default());
    let Ok(Parsed::Head { head, .. }) = parsed else { panic!("a head") };
    for (urls, expected_ms) in
        [(&["http://a"][..], CONNECT_TIMEOUT_MS), (&["http://a", "http://b"], 1_000)]
    {
        let upstreams = urls.iter().map(|url| Upstream::parse(url).expect("a URL")).collect();
        let attempts = AttemptLimits { timeout_ms: 1_000, ..AttemptLimits::default() };
        let options = UpstreamOptions { attempts, ..UpstreamOptions::default() };
        let group = UpstreamGroup::new(upstreams, options).expect("a group");
        let request = forward(&upstream(), &group, &head, &CLIENT, PSEUDONYM).expect("forwarded");
        let parts = request.forwarded.expect("parts");
        assert_eq!(parts.connect_timeout_ms, expected_ms, "{urls:?}");
    }
}

#[test]
fn the_host_policy_determines_the_host() {
    let text = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n";
    let mut storage = HeadStorage::new();
    let parsed = parse(text.as_bytes(), 0, &mut storage, &Limits::default());
    let Ok(Parsed::Head { head, .. }) = parsed else { panic!("a head") };
    for (host, expected) in [
        (UpstreamHost::Client, "example.org"),
        (UpstreamHost::Upstream, "127.0.0.1:3000"),
        (UpstreamHost::Fixed("other.example".into()), "other.example"),
    ] {
        let upstream = Upstream { host, ..upstream() };
        let request = forward(&upstream, &group(), &head, &CLIENT, PSEUDONYM).expect("forwarded");
        let parts = request.forwarded.expect("parts");
        assert_eq!(&*parts.authority, expected.as_bytes());
    }
}

#[test]
fn requests_with_our_via_are_not_forwarded_again() {
    for (via, is_loop) in [
        ("1.1 pinion-0000", true),
        ("1.1 a, 2 pinion-0000 , 1.1 b", true),
        ("1.1 pinion-00001", false),
        ("1.1 pinion-000", false),
    ] {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\nVia: {via}\r\n\r\n");
        let is_refused = matches!(forwarded(&text), Err(ProxyError::Loop));
        assert_eq!(is_refused, is_loop, "{via}");
    }
}

/// RFC 9110 §7.6.2.
#[test]
fn max_forwards_counts_down() {
    let options = |lines: &str| forwarded(&format!("OPTIONS / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
    assert!(matches!(options("Max-Forwards: 0\r\n"), Err(ProxyError::Method)));
    let field = |request: ClientRequest| request.fields.get("Max-Forwards").map(<[u8]>::to_vec);
    assert_eq!(field(options("Max-Forwards: 7\r\n").expect("forwarded")), Some(b"6".to_vec()));
    assert_eq!(field(options("Max-Forwards: x\r\n").expect("forwarded")), None);
    assert_eq!(field(with_fields("Max-Forwards: 0\r\n")), None);
}

#[test]
fn only_protocols_of_the_application_are_offered() {
    for (lines, expected) in [
        ("Connection: upgrade\r\nUpgrade: websocket\r\n", Some("websocket")),
        ("Connection: a, Upgrade\r\nUpgrade: h2c, websocket\r\n", Some("websocket")),
        ("Connection: Upgrade\r\nUpgrade: a/1\r\nUpgrade: b\r\n", Some("a/1, b")),
        ("Connection: Upgrade\r\nUpgrade: h2c\r\n", None),
        ("Connection: Upgrade\r\nUpgrade: TLS/1.0, HTTP/2.0\r\n", None),
        ("Connection: keep-alive\r\nUpgrade: websocket\r\n", None),
        ("Upgrade: websocket\r\n", None),
        ("Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n", None),
    ] {
        let upgrade = with_fields(lines).forwarded.and_then(|one| one.upgrade);
        assert_eq!(upgrade.as_deref(), expected, "{lines}");
    }
}

#[test]
fn dot_segments_are_found_in_any_spelling() {
    for path in [
        "/.",
        "/..",
        "/a/./b",
        "/a/..",
        "/%2e",
        "/.%2E/",
        "/%2e%2e/a",
        "/..;/a",
        "/..%2fa",
        "/a%5c..",
        "/a\\..\\b",
        "/.;x",
        "/%252e%252e/a",
        "/%20../a",
        "/..%00/a",
        "/a/%09../b",
    ] {
        assert!(has_dot_segment(path.as_bytes()), "{path}");
    }
    for path in ["/", "/...", "/.a", "/a.", "/a..b", "/%2f", "/%25", "/a/.well-known", "/a;.."] {
        assert!(!has_dot_segment(path.as_bytes()), "{path}");
    }
}

fn field() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec![
        "Accept",
        "Connection",
        "connection",
        "Upgrade",
        "TE",
        "Keep-Alive",
        "Cookie",
        "Via",
        "X-Forwarded-For",
        "x_forwarded_for",
        "Forwarded",
        "Proxy",
        "Trailer",
        "Expect",
        "X-A",
        "X-B",
        "Proxy-Connection",
        "HTTP2-Settings",
        "Max-Forwards",
        "Content_Length",
        "Transfer_Encoding",
        "Date",
    ]);
    let values = prop::sample::select(vec![
        "",
        "x",
        "X-A",
        "close, X-B",
        "upgrade",
        "websocket, h2c",
        "trailers",
        "100-continue",
        "a=1",
        "1.1 other",
        "5",
        "Accept, Host, Via",
    ]);
    (names, values).prop_map(|(name, value)| format!("{name}: {value}\r\n"))
}

proptest! {
    /// Any forwarded head can be written, and is one request with one meaning: no field of it
    /// frames the message, names another host or describes the connection.
    #[test]
    fn any_head_becomes_one_request(fields in prop::collection::vec(field(), 0..8), chunked: bool) {
        let framing = if chunked { "Transfer-Encoding: chunked\r\n" } else { "" };
        let text =
            format!("POST /p HTTP/1.1\r\nHost: example.org\r\n{}{framing}\r\n", fields.concat());
        let mut storage = HeadStorage::new();
        let parsed = parse(text.as_bytes(), 0, &mut storage, &Limits::default());
        let Ok(Parsed::Head { head, .. }) = parsed else { return Ok(()) };
        let forwarded = forward(&upstream(), &group(), &head, &CLIENT, PSEUDONYM);
        let Ok(request) = forwarded else { return Ok(()) };
        let parts = request.forwarded.expect("parts");
        let outgoing = OutgoingRequest {
            method: request.method.as_bytes(),
            target: RequestTarget::Origin { authority: &parts.authority, target: &parts.target },
            content: if chunked { RequestContent::Chunked } else { RequestContent::Length(0) },
            connection: ConnectionOption::KeepAlive,
            expect_continue: false,
            accepts_trailers: parts.accepts_trailers,
        };
        let mut bytes = Vec::new();
        let written = write_request(&mut bytes, &outgoing, request.fields.iter());
        prop_assert!(written.is_ok(), "{written:?}: {text}");
        let mut storage = HeadStorage::new();
        let again = parse(&bytes, 0, &mut storage, &Limits::default());
        let Ok(Parsed::Head { head: again, .. }) = again else { panic!("{again:?}") };
        prop_assert_eq!(again.framing == Framing::Chunked, chunked);
        prop_assert_eq!(again.authority, Some(&b"example.org"[..]));
        let connections: Vec<&[u8]> =
            head.fields.all(b"Connection").flat_map(|value| value.split(|b| *b == b',')).collect();
        for field in request.fields.iter() {
            let is_listed = connections
                .iter()
                .any(|option| option.trim_ascii().eq_ignore_ascii_case(field.name));
            let is_own = matches!(FieldClass::of(field.name), FieldClass::Origin);
            prop_assert!(is_own || !is_listed, "{text}");
        }
    }
}
