//! Requests that another server responds to (RFC 9110 §3.7, §7.6): the forwarded requests and the
//! responses, with widely used servers.

use crate::lua_fetch::Running;
use pinion_tests::body::noise;
use pinion_tests::external_programs::{program, python_program, stdout};
use pinion_tests::matrix::{Form, Io, Matrix, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::upstream::Upstream;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::Stdio;

/// An application in Node; its head describes the responses.
const APPLICATION: &str = include_str!("../../src/proxied.mjs");

/// curl over HTTP/3; its head describes the requests.
const CURL_OVER_HTTP3: &str = include_str!("../../src/curl_h3.py");

/// An application that runs as long as the value exists, and the files of the site in front of it.
struct Application {
    folder: Folder,
    port: u16,
    _node: Running,
}

impl Application {
    fn start() -> Application {
        let files = [("site/index.html", "home"), ("site/api/file.txt", "hidden")];
        let folder = Folder::with("proxy", files);
        folder.write("application.mjs", APPLICATION);
        let mut node = program("node", "nodejs");
        node.arg(folder.join("application.mjs")).stdout(Stdio::piped());
        let mut running = Running::start(&mut node);
        let mut line = String::new();
        BufReader::new(running.stdout()).read_line(&mut line).expect("its port");
        Application { folder, port: line.trim().parse().expect("a port"), _node: running }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// Returns the description of a request by the application.
#[track_caller]
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Files come first, unless all requests for a path are forwarded.
#[test]
fn requests_are_forwarded_where_no_file_responds() {
    let application = Application::start();
    let (fallback, api) = (application.url(), format!("/api={}", application.url()));
    let site = application.folder.join("site");
    let flags = ["--proxy", &fallback, "--proxy", &api];
    Matrix::of(&site).serve(&flags).run(|server| {
        assert_eq!(server.get("/").text(), "home");
        for target in ["/api", "/api/", "/api/file.txt", "/%61pi/file.txt?a=b&c", "/missing"] {
            let response = server.get(target);
            assert_eq!(response.status, 200, "{response}");
            assert_eq!(parsed(response.text())["url"], target);
            assert_eq!(response.field("X-App"), Some("node"));
            // The security fields of the site, which the application has not set.
            assert_eq!(response.field("X-Content-Type-Options"), Some("nosniff"));
        }
        let response = server.exchange(&Request::new("POST", "/form").body(b"a=1"));
        assert_eq!(
            (parsed(response.text())["method"].as_str(), response.status),
            (Some("POST"), 200)
        );
        let head = server.exchange(&Request::head("/missing"));
        assert_eq!((head.status, &*head.body), (200, &b""[..]));
    });
}

/// A rule with status 404 is not forwarded to the application.
#[test]
fn rules_precede_the_application() {
    let upstream = Upstream::echo();
    let files = [
        ("site/index.html", "home"),
        ("site/404.html", "nothing"),
        ("site/_redirects", "/private/* /404.html 404\n/secret /404.html 404\n/old /new 301\n"),
    ];
    let (folder, url) = (Folder::with("proxy-rules", files), upstream.url());
    let site = folder.join("site");
    let log = folder.join("log");
    let log = log.to_str().expect("a path");
    let matrix = Matrix::of(&site);
    matrix.serve(&["--proxy", &url, "--access-log", log]).run(|server| {
        for (target, status) in
            [("/private/a", 404), ("/secret", 404), ("/old", 301), ("/new", 200), ("/", 200)]
        {
            assert_eq!(server.get(target).status, status, "{target}");
        }
    });
    assert!(upstream.heads().iter().all(|head| head.starts_with("GET /new ")));
    let logged = std::fs::read_to_string(log).expect("the log");
    assert!(logged.contains("\"GET /new HTTP/") && logged.contains("\"GET /old HTTP/"), "{logged}");
}

/// Content that is too long for everything but an application does not bypass rules and files.
#[test]
fn long_content_is_routed_like_short_content() {
    // More content than is accepted if only a file could be the response.
    const BYTES: usize = 3 << 20;
    let upstream = Upstream::start(|connection| {
        while connection.request().is_some() {
            connection.note();
            connection.respond(b"");
        }
    });
    let files = [
        ("site/index.html", "home"),
        ("site/404.html", "nothing"),
        ("site/_redirects", "/private/* /404.html 404\n/old /new 301\n/page /index.html 200\n"),
    ];
    let (folder, url) = (Folder::with("proxy-long-content", files), upstream.url());
    for io in Io::BOTH {
        let flags = ["--proxy", &url, "--io", io.as_str()];
        let server = Start::site(&folder.join("site")).flags(&flags).start();
        for target in ["/private/a", "/old", "/page", "/"] {
            let request = Request::new("POST", target).body(&vec![b'x'; BYTES]);
            let mut connection = server.connect();
            connection.send(request.head_bytes());
            assert_eq!(connection.receive().status, 413, "{target}");
        }
        let before = upstream.notes();
        assert!(upstream.heads().iter().all(|head| head.starts_with("POST /new ")));
        let request = Request::new("POST", "/new").body(&vec![b'x'; BYTES]);
        assert_eq!(server.exchange(&request).status, 200);
        assert_eq!(upstream.notes(), before + 1);
        server.stop();
    }
}

/// RFC 9110 §7.6.1, §7.6.3.
#[test]
fn the_application_gets_the_client_and_no_hop_by_hop_fields() {
    let application = Application::start();
    let (url, site) = (application.url(), application.folder.join("site"));
    let flags = ["--proxy", &url];
    Matrix::of(&site).serve(&flags).run(|server| {
        let mut request = Request::get("/who")
            .field("Cookie", "a=1")
            .field("X-Forwarded-For", "192.0.2.1")
            .field("X-Forwarded-Proto", "gopher")
            .field("Forwarded", "for=192.0.2.1")
            .field("X-Real-IP", "192.0.2.1")
            .field("X-Forwarded-Ssl", "on")
            .field("X-Original-URL", "/admin")
            .field("Date", "Sun, 06 Nov 1994 08:49:37 GMT")
            .field("Proxy", "http://192.0.2.1/")
            .field("Via", "1.0 earlier")
            .field("X-Custom", "kept");
        if matches!(server.protocol(), Protocol::Http1 | Protocol::Http1Tls) {
            request = request
                .field("Connection", "X-Hop")
                .field("X-Hop", "1")
                .field("Keep-Alive", "timeout=9")
                .field("TE", "gzip");
        } else {
            // RFC 9113 §8.2.3: the parts of a cookie are joined again.
            request = request.field("Cookie", "b=2");
        }
        let received = parsed(server.exchange(&request).text());
        let headers = &received["headers"];
        let is_secured = !matches!(server.protocol(), Protocol::Http1 | Protocol::Http2Clear);
        assert_eq!(headers["x-forwarded-for"], "127.0.0.1", "{received}");
        assert_eq!(headers["x-forwarded-proto"], if is_secured { "https" } else { "http" });
        assert_eq!(headers["x-forwarded-host"], headers["host"], "{received}");
        assert_eq!(headers["x-custom"], "kept");
        assert_eq!(headers["date"], "Sun, 06 Nov 1994 08:49:37 GMT", "signatures may cover it");
        assert_eq!(headers["x-forwarded-ssl"], Value::Null);
        assert_eq!(headers["x-original-url"], Value::Null);
        let via = headers["via"].as_str().expect("Via");
        assert!(via.starts_with("1.0 earlier, ") && via.contains(" pinion-"), "{via}");
        let cookie = headers["cookie"].as_str();
        assert!(cookie == Some("a=1") || cookie == Some("a=1; b=2"), "{received}");
        for name in ["x-hop", "keep-alive", "te", "forwarded", "x-real-ip", "proxy", "upgrade"] {
            assert_eq!(headers[name], Value::Null, "{name}: {received}");
        }
    });
}

/// More bytes than all buffers on the way can hold.
const LARGE_BYTES: usize = 5 << 20;

#[test]
fn large_content_passes_in_both_directions() {
    let application = Application::start();
    let folder = Folder::with("proxy-large", [("www/small.txt", "small")]);
    let content = noise(LARGE_BYTES);
    folder.write("www/large.bin", &content);
    let mut python = program("python3", "python3");
    python.args(["-u", "-m", "http.server", "--protocol", "HTTP/1.1", "--bind", "127.0.0.1", "0"]);
    python.current_dir(folder.join("www")).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut python = Running::start(&mut python);
    let mut line = String::new();
    BufReader::new(python.stdout()).read_line(&mut line).expect("its address");
    let url = line.split_once('(').and_then(|(_, rest)| rest.split_once(')')).expect("a URL").0;
    let files = format!("/files={}", url.trim_end_matches('/'));
    folder.write("www/files/large.bin", &content);
    let (app, site) = (application.url(), application.folder.join("site"));
    Matrix::of(&site).serve(&["--proxy", &app, "--proxy", &files]).run(|server| {
        let response = server.get("/files/large.bin");
        assert_eq!((response.status, response.body == content), (200, true), "{response}");
        for request in [
            Request::new("PUT", "/up").body(&content),
            Request::new("PUT", "/up").chunked(&content, 10_000),
        ] {
            let response = server.exchange(&request);
            assert_eq!(parsed(response.text())["bytes"], LARGE_BYTES, "{response}");
        }
    });
}

/// The site over HTTP/3 only, requested by curl; the script has the requests.
#[test]
fn curl_is_served_over_http3() {
    let application = Application::start();
    let site = application.folder.join("site");
    for io in Io::BOTH {
        let way = Way { protocol: Protocol::Http3, io, form: Form::Folder };
        let server = Start::site(&site).in_way(way).flags(&["--proxy", &application.url()]).start();
        let port = server.address().port().to_string();
        stdout(python_program("python").args(["-c", CURL_OVER_HTTP3, &port]));
        server.stop();
    }
}

#[test]
fn interim_responses_and_trailers_pass() {
    let application = Application::start();
    let site = application.folder.join("site");
    for io in Io::BOTH {
        let url = application.url();
        let server = Start::site(&site).flags(&["--io", io.as_str(), "--proxy", &url]).start();
        let mut connection = server.connect();
        connection.send(Request::get("/hints").field("Connection", "close").bytes());
        let text = String::from_utf8(connection.rest()).expect("text");
        let (hints, response) = text.split_once("\r\n\r\n").expect("two heads");
        assert!(hints.starts_with("HTTP/1.1 103 ") && hints.contains("</style.css>"), "{hints}");
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
        let mut connection = server.connect();
        connection.send(Request::get("/trailers").field("Connection", "close").bytes());
        let text = String::from_utf8(connection.rest()).expect("text");
        assert!(text.contains("content") && text.ends_with("0\r\nX-Sum: 7\r\n\r\n"), "{text}");
        server.stop();
    }
}

/// Each event reaches the client before the next one is made.
#[test]
fn an_event_stream_passes_event_by_event() {
    let application = Application::start();
    let site = application.folder.join("site");
    for io in Io::BOTH {
        let url = application.url();
        let server = Start::site(&site).flags(&["--io", io.as_str(), "--proxy", &url]).start();
        let mut stream = TcpStream::connect(server.address()).expect("connected");
        stream.write_all(&Request::get("/stream").bytes()).expect("sent");
        let mut text = String::new();
        for event in 0..4 {
            let awaited = format!("data: {event}\n\n");
            while !text.contains(&awaited) {
                let mut buffer = [0; 4096];
                let bytes = stream.read(&mut buffer).expect("an event");
                assert!(bytes > 0, "{text}");
                text += std::str::from_utf8(&buffer[..bytes]).expect("text");
            }
            if event < 3 {
                assert_eq!(server.get("/next").text(), "next");
            }
        }
        server.stop();
    }
}

/// RFC 9110 §7.8: the bytes after 101 belong to the other protocol, in both directions.
#[test]
fn a_connection_can_be_switched_to_another_protocol() {
    let application = Application::start();
    let site = application.folder.join("site");
    let content = noise(LARGE_BYTES);
    for io in Io::BOTH {
        let url = application.url();
        let flags = ["--io", io.as_str(), "--proxy", &url, "--access-log", "-"];
        let server = Start::site(&site).flags(&flags).start();
        let mut connection = server.connect();
        let head = "GET /socket HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\n\
                    Upgrade: h2c, echo\r\n\r\nearly";
        connection.send(head);
        let mut stream = connection.stream().try_clone().expect("a copy");
        let writer = content.clone();
        let sending = std::thread::spawn(move || {
            stream.write_all(&writer).expect("sent");
            stream.shutdown(Shutdown::Write).expect("shut down");
        });
        let all = connection.rest();
        sending.join().expect("sent");
        let end = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8_lossy(&all[..end]);
        assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("Upgrade: echo\r\n"), "{head}");
        assert!(all[end..] == [b"early", &content[..], b"over"].concat(), "{} bytes", all.len());
        server.stop();
    }
}

/// Without `Upgrade` in `Connection`, and to HTTP/2, no connection is switched (RFC 9110 §7.8).
#[test]
fn only_requested_protocols_are_switched_to() {
    let upstream = Upstream::saying(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nsecret",
    );
    let server = Start::serve(&["--proxy", &upstream.url()]).start();
    for lines in [
        "",
        "Upgrade: echo\r\n",
        "Connection: Upgrade\r\nUpgrade: h2c\r\n",
        "Connection: Upgrade\r\nUpgrade: other\r\n",
    ] {
        let mut connection = server.connect();
        connection.send(format!("GET / HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n"));
        let response = connection.receive();
        assert_eq!(response.status, 502, "{lines}: {response}");
    }
    for head in upstream.heads() {
        assert!(!head.contains("h2c"), "{head}");
    }
    server.stop();
}

/// Connections are kept for further requests.
#[test]
fn requests_share_connections() {
    let upstream = Upstream::echo();
    for io in Io::BOTH {
        let before = upstream.connections();
        let flags = ["--io", io.as_str(), "--workers", "1", "--proxy", &upstream.url()];
        let server = Start::serve(&flags).start();
        let mut connection = server.connect();
        for _ in 0..50 {
            assert_eq!(connection.exchange(&Request::get("/x")).status, 200);
        }
        assert_eq!(upstream.connections() - before, 1);
        server.stop();
    }
}

/// A server may close a persistent connection at any time (RFC 9112 §9.3.1): only a safe request is
/// sent again.
#[test]
fn only_safe_requests_are_repeated() {
    // The server closes after each response without an announcement.
    let upstream = Upstream::start(|connection| {
        if let Some(head) = connection.request() {
            connection.respond(head.as_bytes());
            // The next request has arrived before it closes.
            connection.head();
        }
    });
    for (method, body, expected) in [
        ("GET", None, 200),
        ("OPTIONS", None, 200),
        ("POST", Some("a"), 502),
        ("PUT", Some("a"), 502),
        ("DELETE", None, 502),
        ("GET", Some("a"), 502),
    ] {
        let server = Start::serve(&["--workers", "1", "--proxy", &upstream.url()]).start();
        let mut connection = server.connect();
        assert_eq!(connection.exchange(&Request::get("/first")).status, 200);
        let request = Request::new(method, "/second");
        let request = body.map_or(request.clone(), |body| request.body(body.as_bytes()));
        let response = connection.exchange(&request);
        assert_eq!(response.status, expected, "{method} {body:?}: {response}");
        server.stop();
    }
}

#[test]
fn a_request_that_returns_is_a_loop() {
    let folder = Folder::new("proxy-loop");
    let socket = folder.join("socket");
    let (listen, proxy) =
        (format!("unix:{}", socket.display()), format!("unix:{}", socket.display()));
    let server =
        Start::serve(&["--listen", "127.0.0.1:0", "--listen", &listen, "--proxy", &proxy]).start();
    let response = server.get("/");
    assert_eq!(response.status, 508, "{response}");
    server.stop();
}

/// Paths that this server and the next one could interpret differently.
#[test]
fn paths_with_dot_segments_are_refused() {
    let upstream = Upstream::echo();
    let server = Start::serve(&["--proxy", &format!("/api={}", upstream.url())]).start();
    for target in [
        "/api/../x",
        "/api/%2e%2E/x",
        "/api/.",
        "/api/%2e",
        "/api/a/.%2e",
        "/api/..;/x",
        "/api/..%2fx",
    ] {
        assert_eq!(server.get(target).status, 400, "{target}");
    }
    for target in ["/api/..a", "/api/...", "/api/.well-known/x", "/api/a?b=../c", "/api/a;.."] {
        assert_eq!(server.get(target).status, 200, "{target}");
    }
    assert_eq!(server.exchange(&Request::new("TRACE", "/api")).status, 405);
    server.stop();
}

/// A new version of the site forwards to another server while a request is open.
#[test]
fn a_reload_changes_where_requests_go() {
    let one =
        Upstream::saying("HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 3\r\n\r\none");
    let two =
        Upstream::saying("HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 3\r\n\r\ntwo");
    let configured = |url: &str| format!("[[site]]\nproxy = \"{url}\"\n");
    let folder = Folder::new("proxy-reload");
    folder.write("p.toml", configured(&one.url()));
    let server = Start::site(&folder.join("p.toml")).start();
    assert_eq!(server.get("/").text(), "one");
    folder.write("p.toml", configured(&two.url()));
    reload(&server);
    assert_eq!(server.get("/").text(), "two");
    server.stop();
}

fn reload(server: &Server) {
    let from = server.lines().len();
    server.signal(rustix::process::Signal::HUP);
    server.wait_for_line(from, |line| line.contains("1 new, 1 removed"));
}

#[test]
fn invalid_proxy_flags_end_the_start() {
    for (value, reason) in [
        ("127.0.0.1:3000", "has to begin with http:// or https://"),
        ("http://a/b", "has no path"),
        ("http://user@a", "user name"),
        ("api=http://a", "http"),
    ] {
        let ended = pinion_tests::server::run(&["serve", "--proxy", value]);
        assert_eq!(ended.code, Some(2), "{value}: {}", ended.stderr);
        assert!(ended.stderr.contains(reason), "{value}: {}", ended.stderr);
    }
    let ended = pinion_tests::server::run(&["serve", "--proxy", "http://a", "--proxy", "http://b"]);
    assert!(ended.stderr.contains("--proxy: the path / is given twice"), "{}", ended.stderr);
}
