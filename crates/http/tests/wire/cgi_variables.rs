//! The variables of requests (RFC 3875 §4.1), and how SCGI writes them.

use std::collections::HashSet;
use std::net::SocketAddr;

use pinion_http::cgi::limits::VARIABLES_MAX_BYTES;
use pinion_http::cgi::variable_error::VariableError;
use pinion_http::cgi::variables::{
    RequestVariables, ScriptVariables, ServerVariables, VariableScratch,
};
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::h1::client::request_error::RequestError;
use pinion_http::h1::client::request_writer::RequestContent;
use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
use pinion_http::limits::Limits;
use pinion_http::method::Method;
use pinion_http::request_head::{RequestHead, RequestIdentity};
use pinion_http::scgi::request_writer::write_request;
use pinion_http::version::Version;

type Pairs = Vec<(String, String)>;
type BytePairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Makes the variables of a request that has come over HTTP/1, with changes.
fn variables_of(
    wire: &str,
    change: impl FnOnce(&mut RequestHead<'_>),
    set: impl FnOnce(&mut RequestVariables<'_>),
) -> Pairs {
    let mut storage = HeadStorage::new();
    let parsed = parse(wire.as_bytes(), 0, &mut storage, &Limits::default());
    let Ok(Parsed::Head { mut head, .. }) = parsed else { panic!("no head: {wire:?}") };
    change(&mut head);
    let peer: SocketAddr = "203.0.113.7:4711".parse().unwrap();
    let mut variables = RequestVariables {
        head: &head,
        client: ClientIdentity { peer: Some(peer), is_secured: false },
        server: ServerVariables { name: b"example.org", port: 80, software: b"pinion" },
        script: ScriptVariables {
            document_root: b"/srv/www",
            filename: b"/srv/www/index.php",
            name: b"/index.php",
            path_info: b"",
        },
        content: RequestContent::Length(0),
        passes_authorization: false,
        added: &[],
    };
    set(&mut variables);
    let mut pairs = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let visited = variables.visit(&mut VariableScratch::default(), |name, value| {
        pairs.push((text(name), text(value)));
        Ok::<(), ()>(())
    });
    assert_eq!(visited, Ok(()));
    let names: HashSet<_> = pairs.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), pairs.len(), "each name comes once: {pairs:?}");
    pairs
}

fn of_lines(lines: &str) -> Pairs {
    variables_of(&format!("GET / HTTP/1.1\r\nHost: h\r\n{lines}\r\n"), |_| {}, |_| {})
}

fn get<'p>(pairs: &'p Pairs, name: &str) -> Option<&'p str> {
    pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.as_str())
}

/// Returns the names of the variables that fields have become, without that of `Host`.
fn field_names(pairs: &Pairs) -> Vec<&str> {
    let names = pairs.iter().map(|pair| pair.0.as_str());
    names.filter(|name| name.starts_with("HTTP_") && *name != "HTTP_HOST").collect()
}

/// §4.1: all variables that a program gets of an ordinary request.
#[test]
fn an_ordinary_request() {
    let wire = "POST /index.php/a%20b?x=1&y HTTP/1.1\r\nHost: example.org:8080\r\n\
                Content-Type: text/plain\r\nContent-Length: 5\r\nUser-Agent: x/1\r\n\
                Accept: text/html\r\naccept: */*\r\n\r\n";
    let pairs = variables_of(
        wire,
        |_| {},
        |variables| {
            variables.content = RequestContent::Length(5);
            variables.script.path_info = b"/a b";
        },
    );
    let expected = [
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("REQUEST_METHOD", "POST"),
        ("QUERY_STRING", "x=1&y"),
        ("REQUEST_URI", "/index.php/a%20b?x=1&y"),
        ("SCRIPT_NAME", "/index.php"),
        ("PATH_INFO", "/a b"),
        ("SCRIPT_FILENAME", "/srv/www/index.php"),
        ("DOCUMENT_ROOT", "/srv/www"),
        ("CONTENT_LENGTH", "5"),
        ("CONTENT_TYPE", "text/plain"),
        ("SERVER_NAME", "example.org"),
        ("SERVER_PORT", "80"),
        ("SERVER_SOFTWARE", "pinion"),
        ("REMOTE_ADDR", "203.0.113.7"),
        ("REMOTE_PORT", "4711"),
        ("REQUEST_SCHEME", "http"),
        ("HTTP_HOST", "example.org:8080"),
        ("HTTP_USER_AGENT", "x/1"),
        ("HTTP_ACCEPT", "text/html, */*"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(pairs, expected);
}

/// CVE-2016-5385 and its like: no client can name a variable that a program trusts.
#[test]
fn dangerous_fields() {
    for line in [
        "Proxy: http://evil/",
        "PROXY: http://evil/",
        "X_Forwarded_For: 1.2.3.4",
        "X-Real_IP: 1.2.3.4",
        "_: x",
        "X.Y: x",
        "X~Y: x",
        "X!: x",
        "Content_Length: 7",
        "Transfer_Encoding: chunked",
        "Authorization: Basic eDp5",
        "Proxy-Authorization: Basic eDp5",
        "Proxy-Connection: keep-alive",
        "Keep-Alive: 5",
        "Connection: close",
        "TE: trailers",
        "Trailer: X",
        "Upgrade: websocket",
        "HTTP2-Settings: x",
        "Expect: 100-continue",
        "Content-Length: 0",
        "Content-Type: a/b",
        "Connection: X-Hop\r\nX-Hop: 1",
        "Connection: close, x-hop\r\nX-HOP: 1\r\nX-Hop: 2",
    ] {
        let pairs = of_lines(&format!("{line}\r\n"));
        assert!(field_names(&pairs).is_empty(), "{line}: {pairs:?}");
    }
    // Fields of these names are no variables of the server.
    let pairs = of_lines("Remote-User: root\r\nHttps: on\r\nRemote-Addr: x\r\nPath: /x\r\n");
    assert_eq!(
        field_names(&pairs),
        ["HTTP_REMOTE_USER", "HTTP_HTTPS", "HTTP_REMOTE_ADDR", "HTTP_PATH"]
    );
    assert_eq!(get(&pairs, "REMOTE_USER"), None);
    assert_eq!(get(&pairs, "HTTPS"), None);
    assert_eq!(get(&pairs, "AUTH_TYPE"), None);
    // A name that `Connection` cannot take from the program.
    assert_eq!(get(&of_lines("Connection: Host\r\n"), "HTTP_HOST"), Some("h"));
}

/// §4.1.18: "If multiple header fields with the same field-name are received then the server MUST
/// rewrite them as a single value". Crumbs of a cookie have another separator (RFC 9113 §8.2.3).
#[test]
fn several_lines_of_a_name() {
    let pairs = of_lines("X-A: 1\r\nCookie: a=b\r\nx-a: 2\r\nX-B:\r\nCookie: c=d\r\nX-A: 3\r\n");
    assert_eq!(field_names(&pairs), ["HTTP_X_A", "HTTP_COOKIE", "HTTP_X_B"]);
    assert_eq!(get(&pairs, "HTTP_X_A"), Some("1, 2, 3"));
    assert_eq!(get(&pairs, "HTTP_COOKIE"), Some("a=b; c=d"));
    assert_eq!(get(&pairs, "HTTP_X_B"), Some(""));
}

#[test]
fn credentials_only_by_option() {
    let wire = "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\n\r\n";
    let pairs = variables_of(wire, |_| {}, |variables| variables.passes_authorization = true);
    assert_eq!(get(&pairs, "HTTP_AUTHORIZATION"), Some("Bearer x"));
    // `Connection` takes it away all the same (RFC 9110 §7.6.1).
    let wire = "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\n\
                Connection: authorization\r\n\r\n";
    let pairs = variables_of(wire, |_| {}, |variables| variables.passes_authorization = true);
    assert_eq!(get(&pairs, "HTTP_AUTHORIZATION"), None);
}

/// §4.1.1, §4.1.11: the user is the one whose password the server has verified.
#[test]
fn users() {
    let identity = RequestIdentity { user: Some("ann".into()), id: None };
    let wire = "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Basic eDp5\r\n\r\n";
    let with_user = |head: &mut RequestHead<'_>| head.identity = Some(leak(&identity));
    let pairs = variables_of(wire, with_user, |_| {});
    assert_eq!(get(&pairs, "REMOTE_USER"), Some("ann"));
    assert_eq!(get(&pairs, "AUTH_TYPE"), Some("Basic"));
    assert_eq!(get(&pairs, "HTTP_AUTHORIZATION"), None);
    let pairs = variables_of(wire, |_| {}, |_| {});
    assert_eq!(get(&pairs, "REMOTE_USER"), None);
}

/// Returns an identity that a head of a test can borrow for any time.
fn leak(identity: &RequestIdentity) -> &'static RequestIdentity {
    Box::leak(Box::new(identity.clone()))
}

#[test]
fn clients() {
    let wire = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let of = |peer: Option<&str>, is_secured| {
        let peer = peer.map(|peer| peer.parse().unwrap());
        let client = ClientIdentity { peer, is_secured };
        variables_of(wire, |_| {}, move |variables| variables.client = client)
    };
    let pairs = of(Some("[2001:db8::1]:443"), true);
    assert_eq!(get(&pairs, "REMOTE_ADDR"), Some("2001:db8::1"));
    assert_eq!(get(&pairs, "REMOTE_PORT"), Some("443"));
    assert_eq!(get(&pairs, "HTTPS"), Some("on"));
    assert_eq!(get(&pairs, "REQUEST_SCHEME"), Some("https"));
    let pairs = of(Some("192.0.2.1:0"), false);
    assert_eq!(get(&pairs, "REMOTE_ADDR"), Some("192.0.2.1"));
    assert_eq!(get(&pairs, "REMOTE_PORT"), None, "a proxy has not said it");
    assert_eq!(get(&pairs, "HTTPS"), None);
    let pairs = of(None, false);
    assert_eq!(get(&pairs, "REMOTE_ADDR"), Some("unix:"));
    assert_eq!(get(&pairs, "REMOTE_PORT"), None);
}

/// The target is that of the request line, in its origin form.
#[test]
fn targets() {
    let of = |line: &str| variables_of(&format!("{line}\r\nHost: h\r\n\r\n"), |_| {}, |_| {});
    for (line, uri, query) in [
        ("GET /a?b?c HTTP/1.1", "/a?b?c", "b?c"),
        ("GET /a? HTTP/1.1", "/a?", ""),
        ("GET /a HTTP/1.0", "/a", ""),
        ("GET http://other/a?b HTTP/1.1", "/a?b", "b"),
        ("OPTIONS * HTTP/1.1", "*", ""),
    ] {
        let pairs = of(line);
        assert_eq!(get(&pairs, "REQUEST_URI"), Some(uri), "{line}");
        assert_eq!(get(&pairs, "QUERY_STRING"), Some(query), "{line}");
    }
    assert_eq!(get(&of("GET http://other/ HTTP/1.1"), "HTTP_HOST"), Some("other"));
    assert_eq!(get(&of("BREW / HTTP/1.1"), "REQUEST_METHOD"), Some("BREW"));
    assert_eq!(get(&of("GET / HTTP/1.0"), "SERVER_PROTOCOL"), Some("HTTP/1.0"));
    let second = variables_of(
        "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        |head| head.version = Version::Http2,
        |_| {},
    );
    assert_eq!(get(&second, "SERVER_PROTOCOL"), Some("HTTP/2.0"));
}

/// §4.1.2: "The server MUST set this meta-variable if and only if the request is accompanied by a
/// message-body entity." Methods that expect content have it also without.
#[test]
fn lengths() {
    let of = |method: &str, content| {
        let wire = format!("{method} / HTTP/1.1\r\nHost: h\r\n\r\n");
        let pairs = variables_of(&wire, |_| {}, |variables| variables.content = content);
        get(&pairs, "CONTENT_LENGTH").map(str::to_owned)
    };
    assert_eq!(of("GET", RequestContent::Length(0)), None);
    assert_eq!(of("GET", RequestContent::Length(7)).as_deref(), Some("7"));
    assert_eq!(of("POST", RequestContent::Length(0)).as_deref(), Some("0"));
    assert_eq!(of("POST", RequestContent::Chunked), None);
}

#[test]
fn added_variables_replace_others() {
    let added: [(&[u8], &[u8]); 3] =
        [(b"APP_ENV", b"live"), (b"SERVER_NAME", b"other"), (b"HTTP_USER_AGENT", b"")];
    let wire = "GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: x\r\n\r\n";
    let pairs = variables_of(
        wire,
        |_| {},
        |variables| {
            variables.script = ScriptVariables { name: b"", ..ScriptVariables::default() };
            variables.added = leak_pairs(&added);
        },
    );
    assert_eq!(get(&pairs, "APP_ENV"), Some("live"));
    assert_eq!(get(&pairs, "SERVER_NAME"), Some("other"));
    assert_eq!(get(&pairs, "HTTP_USER_AGENT"), Some(""));
    assert_eq!(get(&pairs, "SCRIPT_NAME"), Some(""), "it may be empty, and is always there");
    assert_eq!(get(&pairs, "SCRIPT_FILENAME"), None);
    assert_eq!(get(&pairs, "PATH_INFO"), None);
}

fn leak_pairs(
    pairs: &[(&'static [u8], &'static [u8])],
) -> &'static [(&'static [u8], &'static [u8])] {
    Box::leak(pairs.to_vec().into())
}

#[test]
fn the_first_error_ends_it() {
    let mut storage = HeadStorage::new();
    let wire = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let parsed = parse(wire, 0, &mut storage, &Limits::default());
    let Ok(Parsed::Head { head, .. }) = parsed else { panic!("no head") };
    let variables = RequestVariables {
        head: &head,
        client: ClientIdentity { peer: None, is_secured: false },
        server: ServerVariables { name: b"h", port: 80, software: b"pinion" },
        script: ScriptVariables::default(),
        content: RequestContent::Length(0),
        passes_authorization: false,
        added: &[],
    };
    let mut calls = 0;
    let visited = variables.visit(&mut VariableScratch::default(), |_, _| {
        calls += 1;
        if calls == 3 { Err("stop") } else { Ok(()) }
    });
    assert_eq!((visited, calls), (Err("stop"), 3));
}

/// Reads the head of an SCGI request by its specification: a netstring of pairs. Returns the bytes
/// after it as well.
pub(crate) fn read_scgi(wire: &[u8]) -> (BytePairs, &[u8]) {
    let colon = wire.iter().position(|&byte| byte == b':').expect("a colon");
    let digits = std::str::from_utf8(&wire[..colon]).expect("digits");
    assert!(!digits.starts_with('0'));
    let (text, rest) = wire[colon + 1..].split_at(digits.parse().expect("a number"));
    assert_eq!(text.last(), Some(&0));
    let parts: Vec<_> = text[..text.len() - 1].split(|&byte| byte == 0).collect();
    assert_eq!(parts.len() % 2, 0);
    let pairs: Vec<_> = parts.chunks(2).map(|pair| (pair[0].into(), pair[1].into())).collect();
    (pairs, rest.strip_prefix(b",").expect("a comma"))
}

/// The specification of SCGI, §3: `CONTENT_LENGTH` is first, and `SCGI` is present.
#[test]
fn scgi_requests() {
    let mut out = b"before".to_vec();
    let content = RequestContent::Length(5);
    let mut written = write_request(&mut out, Method::Head, content, |pairs| {
        pairs.add(b"CONTENT_LENGTH", b"7")?;
        pairs.add(b"REQUEST_METHOD", b"HEAD")?;
        pairs.add(b"SCGI", b"2")?;
        pairs.add(b"QUERY_STRING", b"")
    })
    .unwrap();
    assert_eq!((written.request.method, written.request.close), (Method::Head, true));
    written.content.write(&mut out, b"hello").unwrap();
    assert!(written.content.is_complete());
    assert_eq!(written.content.write(&mut out, b"x"), Err(RequestError::ContentTooLong));
    let (pairs, content) = read_scgi(&out[6..]);
    let expected: [(&[u8], &[u8]); 4] = [
        (b"CONTENT_LENGTH", b"5"),
        (b"SCGI", b"1"),
        (b"REQUEST_METHOD", b"HEAD"),
        (b"QUERY_STRING", b""),
    ];
    assert_eq!(pairs, expected.map(|(name, value)| (name.to_vec(), value.to_vec())));
    assert_eq!(content, b"hello");
}

#[test]
fn scgi_requests_that_are_refused() {
    let refused = |content, name: &[u8], value: &[u8]| {
        let mut out = b"before".to_vec();
        let written = write_request(&mut out, Method::Get, content, |pairs| {
            pairs.add(b"A", b"1")?;
            pairs.add(name, value)
        });
        if written.is_err() {
            assert_eq!(out, b"before");
        }
        written.err()
    };
    let none = RequestContent::Length(0);
    assert_eq!(refused(RequestContent::Chunked, b"B", b""), Some(VariableError::LengthRequired));
    assert_eq!(refused(none, b"", b""), Some(VariableError::Name));
    assert_eq!(refused(none, b"B\0", b""), Some(VariableError::Name));
    assert_eq!(refused(none, b"B", b"\0"), Some(VariableError::Value));
    let own = b"CONTENT_LENGTH\x000\0SCGI\x001\0A\x001\0B\0\0".len();
    let most = VARIABLES_MAX_BYTES - own;
    assert_eq!(refused(none, b"B", &vec![b'x'; most]), None);
    assert_eq!(refused(none, b"B", &vec![b'x'; most + 1]), Some(VariableError::TooLarge));
}
