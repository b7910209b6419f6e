//! The meaning of fields (RFC 9113 §8).

use pinion_http::field_section::FieldSection;
use pinion_http::h2::event::Event;
use pinion_http::h2::session::SessionSettings;
use pinion_http::hpack::decoder::Decoder;
use pinion_http::limits::{FIELDS_MAX, Limits, METHOD_MAX_BYTES, TARGET_MAX_BYTES};
use pinion_http::method::Method;
use pinion_http::multiplexed_request_head::{Rejected, of_section};
use pinion_http::refusal::Refusal;
use pinion_http::request_head::{Framing, RequestHead, TunnelProtocol};
use pinion_http::request_target::{Form, Scheme};
use pinion_http::version::Version;

use super::raw_client::*;

fn with<R>(
    fields: &[(&str, &str)],
    end: bool,
    f: impl FnOnce(Result<RequestHead<'_>, Rejected>) -> R,
) -> R {
    with_extended(false, fields, end, f)
}

/// Does the same with extended CONNECT enabled or not.
fn with_extended<R>(
    extended: bool,
    fields: &[(&str, &str)],
    end: bool,
    f: impl FnOnce(Result<RequestHead<'_>, Rejected>) -> R,
) -> R {
    let mut section = FieldSection::new();
    let limits = Limits::default();
    Decoder::new(4096).decode(&block(fields), &mut section, &limits).expect("a block");
    f(of_section(Version::Http2, &section, end, &limits, extended))
}

fn rejected(fields: &[(&str, &str)]) -> Option<Rejected> {
    let mut rejected = None;
    with(fields, false, |head| rejected = head.err());
    rejected
}

/// Returns a GET with these fields, in place of its own ones or after them.
fn get_with<'f>(changes: &[(&'f str, &'f str)]) -> Vec<(&'f str, &'f str)> {
    let mut fields: Vec<(&str, &str)> = GET.to_vec();
    for change in changes {
        match fields.iter_mut().find(|field| field.0 == change.0 && change.0.starts_with(':')) {
            Some(field) => *field = *change,
            None => fields.push(*change),
        }
    }
    fields
}

const MALFORMED: Option<Rejected> = Some(Rejected::Malformed);

#[test]
fn a_browsers_request() {
    let fields = get_with(&[
        (":authority", "www.example.com:8443"),
        (":scheme", "https"),
        (":path", "/a/b.css?v=1"),
        ("accept-encoding", "gzip, br"),
        ("cookie", "a=1"),
        ("cookie", "b=2"),
        ("te", "trailers"),
        ("priority", "u=1, i"),
    ]);
    with(&fields, true, |head| {
        let head = head.unwrap();
        assert_eq!((head.method, head.method_token), (Method::Get, &b"GET"[..]));
        assert_eq!(head.version, Version::Http2);
        assert_eq!((head.target.form, head.target.scheme), (Form::Origin, Some(Scheme::Https)));
        assert_eq!((head.target.path, head.target.query), (&b"/a/b.css"[..], Some(&b"v=1"[..])));
        assert_eq!(head.authority, Some(&b"www.example.com:8443"[..]));
        assert_eq!(head.fields.len(), 4);
        let encoding = pinion_http::field::KnownField::AcceptEncoding;
        assert_eq!(head.value(encoding), Some(&b"gzip, br"[..]));
        // RFC 9113 §8.2.3: the parts of a cookie are joined again.
        assert_eq!(head.fields.all(b"Cookie").collect::<Vec<_>>(), [b"a=1; b=2"]);
        assert_eq!(head.framing, Framing::None);
        assert!(head.keep_alive && !head.expect_continue);
    });
}

/// RFC 9113 §8.3: pseudo-fields are before all others, each once, and only those defined.
#[test]
fn pseudo_fields() {
    assert_eq!(rejected(&GET), None);
    for (missing, field) in GET.iter().enumerate() {
        let mut fields = GET.to_vec();
        fields.remove(missing);
        let expected = match field.0 {
            // RFC 9110 §7.2, as in HTTP/1.1.
            ":authority" => Some(Rejected::Refused(Refusal::Host)),
            _ => MALFORMED,
        };
        assert_eq!(rejected(&fields), expected, "without {}", field.0);
        // The field is after an ordinary one, or repeated.
        fields.push(("x", "y"));
        fields.push(*field);
        assert_eq!(rejected(&fields), MALFORMED);
        assert_eq!(rejected(&[&GET[..], &[*field]].concat()), MALFORMED);
    }
    for name in [":status", ":protocol", ":", ":Method", ":x"] {
        assert_eq!(rejected(&[&GET[..], &[(name, "200")]].concat()), MALFORMED, "{name}");
    }
    assert_eq!(rejected(&[]), MALFORMED);
}

/// RFC 9113 §8.2.1: names and values.
#[test]
fn names_and_values() {
    for name in ["", "X", "aB", "a b", "a\u{7f}", "a\u{e9}", "a:b", "a\0", " a", "a\n", "é"] {
        assert_eq!(rejected(&get_with(&[(name, "y")])), MALFORMED, "{name:?}");
    }
    for value in [" y", "y ", "\ty", "y\t", "a\rb", "a\nb", "a\0b", "a\x01b", "a\x7fb", " "] {
        assert_eq!(rejected(&get_with(&[("x", value)])), MALFORMED, "{value:?}");
        assert_eq!(rejected(&get_with(&[(":path", value)])), MALFORMED, "{value:?}");
    }
    for (name, value) in [("x", ""), ("x-y_z", "a\tb  c"), ("!#$%&'*+-.^_`|~0", "\u{e9}\"")] {
        assert_eq!(rejected(&get_with(&[(name, value)])), None, "{name:?}");
    }
}

/// RFC 9113 §8.2.2: fields of the connection.
#[test]
fn fields_of_the_connection() {
    for (name, value) in [
        ("connection", "close"),
        ("connection", ""),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
        ("te", "trailers, gzip"),
        ("te", ""),
    ] {
        assert_eq!(rejected(&get_with(&[(name, value)])), MALFORMED, "{name}: {value}");
    }
    assert_eq!(rejected(&get_with(&[("te", "Trailers"), ("keep-alives", "x")])), None);
}

/// RFC 9113 §8.3.1: `:path` is not empty, and `*` is only for OPTIONS. Errors that have a status in
/// HTTP/1 get that response.
#[test]
fn targets() {
    assert_eq!(rejected(&get_with(&[(":path", "")])), MALFORMED);
    for path in ["*", "a", "?x", "http://a/", "/a#b", "/\u{e9}", "/a b"] {
        let refused = Some(Rejected::Refused(Refusal::Target));
        assert_eq!(rejected(&get_with(&[(":path", path)])), refused, "{path}");
    }
    with(&get_with(&[(":method", "OPTIONS"), (":path", "*")]), true, |head| {
        assert_eq!(head.unwrap().target.form, Form::Asterisk);
    });
    let long = format!("/{}", "a".repeat(TARGET_MAX_BYTES - 1));
    assert_eq!(rejected(&get_with(&[(":path", &long)])), None);
    let longer = format!("{long}a");
    let refused = Some(Rejected::Refused(Refusal::TargetTooLong));
    assert_eq!(rejected(&get_with(&[(":path", &longer)])), refused);
    for scheme in ["ftp", "h2+x", "coap.s"] {
        let refused = Some(Rejected::Refused(Refusal::Target));
        assert_eq!(rejected(&get_with(&[(":scheme", scheme)])), refused, "{scheme}");
    }
    for scheme in ["", "1", "http:", "ht tp"] {
        assert_eq!(rejected(&get_with(&[(":scheme", scheme)])), MALFORMED, "{scheme}");
    }
    assert_eq!(rejected(&get_with(&[(":scheme", "HTTPS")])), None);
}

#[test]
fn methods() {
    for method in ["", "G T", "GET,", "é"] {
        assert_eq!(rejected(&get_with(&[(":method", method)])), MALFORMED, "{method}");
    }
    let longest = "M".repeat(METHOD_MAX_BYTES);
    assert_eq!(rejected(&get_with(&[(":method", &longest)])), None);
    let longer = format!("{longest}M");
    let refused = Some(Rejected::Refused(Refusal::MethodTooLong));
    assert_eq!(rejected(&get_with(&[(":method", &longer)])), refused);
}

/// RFC 9113 §8.5: CONNECT has an authority and neither scheme nor path.
#[test]
fn connect() {
    let connect = [(":method", "CONNECT"), (":authority", "a:443")];
    with(&connect, false, |head| {
        let head = head.unwrap();
        assert_eq!((head.target.form, head.target.raw), (Form::Authority, &b"a:443"[..]));
        assert_eq!((head.authority, head.framing), (Some(&b"a:443"[..]), Framing::Frames));
    });
    assert_eq!(rejected(&[connect[0]]), MALFORMED);
    assert_eq!(rejected(&[&connect[..], &[(":path", "/")]].concat()), MALFORMED);
    assert_eq!(rejected(&[&connect[..], &[(":scheme", "http")]].concat()), MALFORMED);
    let refused = Some(Rejected::Refused(Refusal::Target));
    assert_eq!(rejected(&[connect[0], (":authority", "a")]), refused);
}

/// RFC 8441 §4: with `:protocol`, CONNECT has scheme and path, and the authority of any request.
#[test]
fn extended_connect() {
    with_extended(true, &TUNNEL, false, |head| {
        let head = head.unwrap();
        assert_eq!((head.method, head.method_token), (Method::Connect, &b"CONNECT"[..]));
        assert_eq!(head.protocol, Some(TunnelProtocol::WebSocket));
        assert_eq!((head.target.form, head.target.path), (Form::Origin, &b"/chat"[..]));
        assert_eq!(head.target.scheme, Some(Scheme::Https));
        assert_eq!((head.authority, head.framing), (Some(&b"a"[..]), Framing::Frames));
    });
    let rejected = |fields: &[(&str, &str)]| {
        let mut rejected = None;
        with_extended(true, fields, false, |head| rejected = head.err());
        rejected
    };
    for (missing, field) in TUNNEL.iter().enumerate() {
        let mut fields = TUNNEL.to_vec();
        fields.remove(missing);
        let expected = match field.0 {
            ":authority" => Some(Rejected::Refused(Refusal::Host)),
            _ => MALFORMED,
        };
        assert_eq!(rejected(&fields), expected, "without {}", field.0);
        fields.extend([("x", "y"), *field]);
        assert_eq!(rejected(&fields), MALFORMED, "{} behind a field", field.0);
        assert_eq!(rejected(&[&TUNNEL[..], &[*field]].concat()), MALFORMED, "{} twice", field.0);
    }
    for method in ["GET", "POST", "connect", "OPTIONS"] {
        let fields = [&[(":method", method)], &TUNNEL[1..]].concat();
        assert_eq!(rejected(&fields), MALFORMED, "{method}");
    }
    for protocol in ["", "a b", "a/1", "websocket, x", "(", "é"] {
        let fields = [&[TUNNEL[0], (":protocol", protocol)], &TUNNEL[2..]].concat();
        assert_eq!(rejected(&fields), MALFORMED, "{protocol:?}");
    }
    let refused = |refusal| Some(Rejected::Refused(refusal));
    for length in ["0", "7"] {
        let fields = [&TUNNEL[..], &[("content-length", length)]].concat();
        assert_eq!(rejected(&fields), refused(Refusal::ContentLength), "{length}");
    }
    for path in ["*", "a:443", "chat"] {
        let fields = [&TUNNEL[..3], &[(":path", path), TUNNEL[4]]].concat();
        assert_eq!(rejected(&fields), refused(Refusal::Target), "{path}");
    }
    // An authority of a URL needs no port, as that of an ordinary CONNECT does.
    assert_eq!(rejected(&[TUNNEL[0], TUNNEL[4]]), refused(Refusal::Target));
    // RFC 8441 §3: a client may use it only after the server has announced it.
    assert_eq!(super::field_semantics::rejected(&TUNNEL), MALFORMED);
}

/// RFC 9113 §8.5: nothing but DATA, so trailers are an error of the stream.
#[test]
fn a_tunnel_has_no_trailers() {
    let settings = SessionSettings { extended_connect: true, ..SessionSettings::default() };
    let mut peer = Peer::open_with(&settings);
    assert_eq!(peer.send(&headers(1, 0, &TUNNEL)), ["head 1 CONNECT /chat"]);
    let seen = peer.send(&[data(1, 0, b"x"), headers(1, END_STREAM, &[("sum", "7")])].concat());
    assert_eq!(seen, ["data 1 x", "reset 1 ProtocolError by us"]);
    // The slot of the stream is used by one that may have trailers.
    peer.send(&[post(3), data(3, 0, b"x")].concat());
    assert_eq!(peer.send(&headers(3, END_STREAM, &[("sum", "7")])), ["trailers 3 sum=7"]);
}

/// A tunnel of which one side has ended continues in the other direction (RFC 8441 §5).
#[test]
fn each_side_of_a_tunnel_ends_independently() {
    let settings = SessionSettings { extended_connect: true, ..SessionSettings::default() };
    let mut peer = Peer::open_with(&settings);
    peer.send(&headers(1, 0, &TUNNEL));
    peer.begin(1);
    assert!(peer.session.data(1, 0, true, &mut peer.out));
    assert_eq!(peer.sent(), ["HEADERS 1", "DATA 1 0 end"]);
    let window = 65_535 / 2 + 1;
    assert_eq!(peer.send(&data(1, 0, &vec![b'x'; 16_000])), ["data 1 (16000 bytes)"]);
    assert_eq!(peer.send(&data(1, 0, &vec![b'x'; window - 16_000 - 16_000])).len(), 1);
    assert_eq!(peer.send(&data(1, 0, &vec![b'x'; 16_000])).len(), 1);
    let opened = peer.sent();
    assert!(opened.iter().any(|frame| frame.starts_with("WINDOW_UPDATE 1 ")), "{opened:?}");
    assert_eq!(peer.send(&data(1, END_STREAM, b"")), ["data 1  end"]);
    assert!(peer.session.close(1, &mut peer.out).is_some());
    assert!(peer.sent().is_empty() && peer.session.is_at_rest());
}

/// RFC 9113 §8.3.1: "MUST NOT include the deprecated userinfo subcomponent"; "SHOULD treat a
/// request as malformed if it contains a Host header field that identifies an entity that differs
/// from the entity in the ':authority' pseudo-header field".
#[test]
fn authorities() {
    for (authority, host, scheme, same) in [
        ("a", "a", "http", true),
        ("a", "A", "http", true),
        ("a", "a:80", "http", true),
        ("a:443", "a", "https", true),
        ("a", "a:443", "http", false),
        ("a:1", "a:2", "http", false),
        ("a", "b", "http", false),
        ("a", "a.", "http", false),
    ] {
        let fields = [(":authority", authority), (":scheme", scheme), ("host", host)];
        let expected = if same { None } else { MALFORMED };
        assert_eq!(rejected(&get_with(&fields)), expected, "{authority} {host}");
    }
    for authority in ["u@a", "u:p@a", "@a"] {
        assert_eq!(rejected(&get_with(&[(":authority", authority)])), MALFORMED);
    }
    let refused = Some(Rejected::Refused(Refusal::Host));
    for authority in ["", "a b", "a/b", ":80", "[::1"] {
        assert_eq!(rejected(&get_with(&[(":authority", authority)])), refused, "{authority}");
        assert_eq!(rejected(&get_with(&[("host", authority)])), refused, "{authority}");
    }
    assert_eq!(rejected(&get_with(&[("host", "a"), ("host", "a")])), refused);
    with(&[&GET[..3], &[("host", "b:8")]].concat(), true, |head| {
        assert_eq!(head.unwrap().authority, Some(&b"b:8"[..]));
    });
}

/// RFC 9110 §8.6, §10.1.1, RFC 9113 §8.1.1.
#[test]
fn content_length_and_end_stream_determine_the_framing() {
    for (length, end, expected) in [
        ("", true, Ok(Framing::None)),
        ("", false, Ok(Framing::Frames)),
        ("0", true, Ok(Framing::None)),
        ("0", false, Ok(Framing::None)),
        ("17", false, Ok(Framing::Length(17))),
        ("17", true, Err(Rejected::Malformed)),
        ("+1", false, Err(Refusal::ContentLength.into())),
        ("1,1", false, Err(Refusal::ContentLength.into())),
        ("99999999999999999999", false, Err(Refusal::ContentTooLarge.into())),
    ] {
        let mut fields = GET.to_vec();
        if !length.is_empty() {
            fields.push(("content-length", length));
        }
        with(&fields, end, |head| {
            assert_eq!(head.map(|head| head.framing), expected, "{length:?} {end}");
        });
    }
    let twice = get_with(&[("content-length", "1"), ("content-length", "1")]);
    assert_eq!(rejected(&twice), Some(Rejected::Refused(Refusal::ContentLength)));
    let empty = get_with(&[("content-length", "")]);
    assert_eq!(rejected(&empty), Some(Rejected::Refused(Refusal::ContentLength)));
    for (end, waits) in [(false, true), (true, false)] {
        with(&get_with(&[("expect", "100-Continue")]), end, |head| {
            assert_eq!(head.unwrap().expect_continue, waits);
        });
    }
    let other = get_with(&[("expect", "something")]);
    assert_eq!(rejected(&other), Some(Rejected::Refused(Refusal::Expectation)));
}

/// RFC 9113 §8.1.1: "Malformed requests or responses that are detected MUST be treated as a stream
/// error (Section 5.4.2) of type PROTOCOL_ERROR." Refused requests get a response.
#[test]
fn malformed_requests_are_stream_errors_and_refused_ones_get_responses() {
    let mut peer = Peer::open();
    assert!(peer.send(&headers(1, 0, &[(":method", "GET")])).is_empty());
    assert!(peer.send(&data(1, END_STREAM, b"late")).is_empty());
    assert_eq!(peer.sent(), ["RST_STREAM 1 PROTOCOL_ERROR"]);
    let refused = get_with(&[(":method", "HEAD"), (":path", "x"), ("accept", "text/plain")]);
    let seen = peer.send(&[headers(3, 0, &refused), data(3, END_STREAM, b"x")].concat());
    assert_eq!(seen, ["refused 3 400 head-only text", "data 3 x end"]);
    let many = [&GET[..], &vec![("x", "y"); FIELDS_MAX]].concat();
    assert_eq!(peer.send(&headers(5, END_STREAM, &many)), ["refused 5 431 end"]);
    assert_eq!(peer.send(&headers(7, END_STREAM, &many[..FIELDS_MAX + 3])), ["head 7 GET / end"]);
    let large = "y".repeat(9000);
    let large = block(&get_with(&[("x", &large), ("z", &large)]));
    let parts =
        [frame(HEADERS, 1, 9, &large[..16_000]), frame(CONTINUATION, 4, 9, &large[16_000..])];
    assert_eq!(peer.send(&parts.concat()), ["refused 9 431 end"]);
    assert!(peer.sent().is_empty());
    assert_eq!(peer.session.open_streams(), 4);
}

/// RFC 9113 §8.1.1: "A request or response is also malformed if the value of a content-length
/// header field does not equal the sum of the DATA frame payload lengths".
#[test]
fn content_must_match_the_announced_length() {
    let announced = |bytes| [&POST[..], &[("content-length", bytes)]].concat();
    let begin = |bytes| headers(1, 0, &announced(bytes));
    let malformed = ["reset 1 ProtocolError by us"];
    for (bytes, frames, good) in [
        ("5", vec![data(1, 0, b"he"), data(1, END_STREAM, b"llo")], true),
        ("5", vec![data(1, PADDED, b"\x01he\0"), data(1, 0, b"llo"), data(1, 1, b"")], true),
        ("5", vec![data(1, 0, b"hello"), headers(1, END_STREAM, &[("x", "y")])], true),
        ("0", vec![data(1, END_STREAM, b"")], true),
        ("5", vec![data(1, END_STREAM, b"hell")], false),
        ("5", vec![data(1, 0, b"hello!")], false),
        ("5", vec![data(1, 0, b"hell"), headers(1, END_STREAM, &[("x", "y")])], false),
        ("0", vec![data(1, 0, b"x")], false),
        ("5", vec![data(1, END_STREAM, b"")], false),
    ] {
        let mut peer = Peer::open();
        peer.send(&begin(bytes));
        let seen = peer.send(&frames.concat());
        assert_eq!(seen.last().unwrap() == malformed[0], !good, "{bytes} {seen:?}");
        assert_eq!(peer.sent().len(), usize::from(!good));
    }
    // Content that exceeds the length is not passed on.
    let mut peer = Peer::open();
    peer.send(&begin("3"));
    assert_eq!(peer.send(&data(1, END_STREAM, b"abcd")), malformed);
}

/// RFC 9113 §8.1: trailers end the stream, have no pseudo-fields, and keep to the rules for fields;
/// RFC 9110 §6.5.1: some are left out.
#[test]
fn trailers() {
    let run = |flags, fields: &[(&str, &str)]| {
        let mut peer = Peer::open();
        peer.send(&[post(1), data(1, 0, b"x")].concat());
        peer.send(&headers(1, flags, fields))
    };
    let some = [("digest", "x"), ("host", "evil"), ("x-forwarded-for", "1"), ("sum", "7")];
    assert_eq!(run(END_STREAM, &some), ["trailers 1 digest=x sum=7"]);
    assert_eq!(run(END_STREAM, &[]), ["trailers 1"]);
    for (flags, fields) in [
        (0, ("sum", "7")),
        (END_STREAM, (":path", "/")),
        (END_STREAM, ("Sum", "7")),
        (END_STREAM, ("connection", "close")),
    ] {
        assert_eq!(run(flags, &[fields]), ["reset 1 ProtocolError by us"], "{fields:?}");
    }
    let many = vec![("x", "y"); FIELDS_MAX + 1];
    assert_eq!(run(END_STREAM, &many), ["reset 1 EnhanceYourCalm by us"]);
}

/// All parts of a head are available during its event.
#[test]
fn all_parts_of_a_head_are_available_in_its_event() {
    let mut peer = Peer::open();
    let bytes = headers(1, 0, &get_with(&[("content-length", "7"), ("x", "y")]));
    let mut place = None;
    let step = peer.session.step(&bytes, &mut peer.section, &mut place, 0, &mut peer.out);
    let Event::Head { stream: 1, head, end: false } = step.event else { panic!() };
    assert_eq!((step.used, head.framing), (bytes.len(), Framing::Length(7)));
    assert_eq!(head.fields.get(b"X"), Some(&b"y"[..]));
    assert_eq!(head.version, Version::Http2);
}
