//! Servers behind the proxy that misbehave, and clients that try to forward forbidden requests:
//! each gets an error, and others are not affected.

use pinion_tests::body::noise;
use pinion_tests::client::http1::Connection;
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::upstream::Upstream;
use std::net::TcpListener;

/// Runs a case with each backend. `/ok` always responds.
fn serving(upstream: &Upstream, flags: &[&str], case: impl Fn(&Server)) {
    let healthy = Upstream::echo();
    let ok = format!("/ok={}", healthy.url());
    for io in Io::BOTH {
        let url = upstream.url();
        let all = ["--io", io.as_str(), "--workers", "1", "--proxy", &url, "--proxy", &ok];
        let server = Start::serve(&[&all[..], flags].concat()).start();
        case(&server);
        assert_eq!(server.get("/ok").status, 200);
        server.stop();
    }
}

/// Asserts that the client gets no response, or an incomplete one.
#[track_caller]
fn is_cut(server: &Server, target: &str) {
    let mut connection = server.connect();
    connection.send(Request::get(target).bytes());
    let broken = connection.try_receive(false);
    assert!(broken.is_err(), "{target}: {broken:?}");
}

/// A malformed response gives 502, whatever else it contains (RFC 9110 §15.6.3).
#[test]
fn malformed_responses_are_not_forwarded() {
    let long = [&b"HTTP/1.1 200 OK\r\nA: "[..], &[b'a'; 1 << 20]].concat();
    let many = [&b"HTTP/1.1 200 OK\r\n"[..], &b"A: b\r\n".repeat(100_000)].concat();
    let cases: [&[u8]; 15] = [
        b"",
        b"\0\xff garbage\r\n\r\n",
        b"SSH-2.0-OpenSSH_9\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n c\0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: a\r\n\r\n",
        &long,
        &many,
    ];
    for case in cases {
        let upstream = Upstream::saying(case);
        serving(&upstream, &[], |server| {
            let shown = case.get(..60).unwrap_or(case).escape_ascii();
            let response = server.get("/x");
            assert_eq!(response.status, 502, "{shown}: {response}");
            assert!(response.text().contains("Bad Gateway"), "{shown}: {response}");
        });
    }
}

/// A response that ends too early never looks complete (RFC 9112 §8).
#[test]
fn a_truncated_response_never_looks_complete() {
    for case in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\nzz\r\n",
    ] {
        let upstream = Upstream::saying(case);
        serving(&upstream, &[], |server| is_cut(server, "/x"));
    }
}

/// Bytes after a response belong to no request.
#[test]
fn bytes_after_a_response_are_dropped() {
    let twice = "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 3\r\n\r\none\
                 HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled";
    let upstream = Upstream::start(move |connection| {
        while connection.request().is_some() {
            connection.send(twice);
        }
    });
    serving(&upstream, &[], |server| {
        let mut connection = server.connect();
        for _ in 0..5 {
            let response = connection.exchange(&Request::get("/x"));
            assert_eq!((response.status, response.text()), (200, "one"));
        }
    });
}

#[test]
fn an_unreachable_server_is_a_bad_gateway() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let folder = Folder::new("proxy-absent");
    let socket = format!("/socket=unix:{}", folder.join("none").display());
    let name = "/name=http://does-not-exist.invalid";
    let flags = ["--proxy", &url, "--proxy", &socket, "--proxy", name];
    let server = Start::serve(&flags).start();
    for target in ["/x", "/socket", "/name"] {
        assert_eq!(server.get(target).status, 502, "{target}");
    }
    let lines = server.last_words();
    let is_logged = |line: &String| line.contains("502 for /x: ") && line.contains(&url);
    assert!(lines.iter().any(is_logged), "{lines:#?}");
}

/// A server may respond before it has read the request, and then close its connection: the system
/// resets it because of the unread content (RFC 9112 §9.6). The client still gets the whole
/// response.
#[test]
fn an_early_response_arrives_though_the_connection_is_reset() {
    let page = noise(5_000);
    let head = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 5000\r\n\
                Content-Type: text/plain\r\nCache-Control: no-store\r\n\r\n";
    let response = [head.as_bytes(), &page].concat();
    let upstream = Upstream::start(move |connection| {
        if connection.head().is_some() {
            connection.send(&response);
        }
    });
    let content = noise(8 << 20);
    serving(&upstream, &[], |server| {
        for number in 0..8 {
            let mut connection = server.connect();
            let request = Request::new("POST", "/upload").body(&content);
            // This client reads nothing before it has sent everything, as many do.
            connection.send(request.bytes());
            let response = connection.receive();
            assert_eq!(response.status, 413, "{number}");
            assert!(*response.body == page[..], "{number}: {} bytes", response.body.len());
        }
    });
}

/// A silent server leads to 504, before and within its response, and delays no other request.
#[test]
fn a_silent_server_is_a_gateway_timeout() {
    let upstream = Upstream::start(|connection| {
        let Some(head) = connection.request() else { return };
        if head.starts_with("GET /part") {
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart");
        } else if head.starts_with("GET /head") {
            connection.send("HTTP/1.1 200 OK\r\nA: ");
        }
        connection.wait_for_end();
    });
    serving(&upstream, &["--proxy-timeout", "1"], |server| {
        let mut waiting: Vec<Connection> = Vec::new();
        for _ in 0..20 {
            let mut connection = server.connect();
            connection.send(Request::get("/silent").bytes());
            waiting.push(connection);
        }
        assert_eq!(server.get("/ok").status, 200);
        assert_eq!(server.get("/head").status, 504);
        is_cut(server, "/part");
        for mut connection in waiting {
            assert_eq!(connection.receive().status, 504);
        }
    });
}

/// Requests that two servers could parse differently (RFC 9112 §11.2) are not forwarded, or only in
/// one form.
#[test]
fn ambiguous_requests_are_not_forwarded() {
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let chunked = format!("0\r\n\r\n{smuggled}");
    let length = chunked.len();
    let cases = [
        format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n\r\n{chunked}"),
        format!("Content-Length: 0\r\nContent-Length: {}\r\n\r\n{smuggled}", smuggled.len()),
        format!("Content-Length : {}\r\n\r\n{smuggled}", smuggled.len()),
        format!("Transfer-Encoding: xchunked\r\nContent-Length: {length}\r\n\r\n{chunked}"),
        format!("Transfer-Encoding : chunked\r\nContent-Length: {length}\r\n\r\n{chunked}"),
        format!("Transfer_Encoding: chunked\r\nContent-Length: {length}\r\n\r\n{chunked}"),
        format!("X: y\nTransfer-Encoding: chunked\r\nContent-Length: {length}\r\n\r\n{chunked}"),
        format!("X: y\rTransfer-Encoding: chunked\r\nContent-Length: {length}\r\n\r\n{chunked}"),
        format!("Connection: Content-Length\r\nContent-Length: {length}\r\n\r\n{chunked}"),
        format!("Connection: Host\r\nContent-Length: {length}\r\n\r\n{chunked}"),
        format!("Expect: 100-continue\r\nContent-Length: {length}\r\n\r\n{chunked}"),
        format!(
            "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAAA\r\n\
                 Content-Length: {length}\r\n\r\n{chunked}"
        ),
    ];
    let upstream = Upstream::echo();
    serving(&upstream, &[], |server| {
        for case in &cases {
            let mut connection = server.connect();
            let head = "POST /first HTTP/1.1\r\nHost: localhost\r\nX-Last: 1\r\n";
            connection.send_if_open(format!("{head}{case}"));
            let _refused_or_answered = connection.try_receive(false);
        }
        // A request of another client uses the same connection.
        assert!(server.get("/other").text().starts_with("GET /other "));
    });
    for head in upstream.heads() {
        assert!(!head.starts_with("GET /smuggled"), "{head}");
        let count = |name: &str| {
            head.lines().filter(|line| line.to_ascii_lowercase().starts_with(name)).count()
        };
        assert_eq!(count("host:"), 1, "{head}");
        assert!(count("content-length:") + count("transfer-encoding:") <= 1, "{head}");
        for name in ["content_length", "transfer_encoding", "upgrade:", "http2-settings:"] {
            assert_eq!(count(name), 0, "{head}");
        }
    }
}

/// When a client disconnects, its request to the other server ends too.
#[test]
fn a_disconnected_client_ends_its_upstream_request() {
    let upstream = Upstream::start(|connection| {
        let Some(head) = connection.request() else { return };
        if head.starts_with("GET /endless") {
            connection.send("HTTP/1.1 200 OK\r\n\r\n");
            // The loop ends when the proxy does not read any more.
            let piece = [b'x'; 64 * 1024];
            while connection.try_send(&piece) {}
            connection.note();
        }
    });
    serving(&upstream, &[], |server| {
        let before = upstream.notes();
        let mut connection = server.connect();
        connection.send(Request::get("/endless").bytes());
        connection.read_some(100_000).expect("content");
        drop(connection);
        pinion_tests::wait_for("the end of the request", || {
            (upstream.notes() > before).then_some(())
        });
    });
}

/// A client that reads nothing also stops the other server: buffered data is bounded.
#[test]
fn a_slow_client_slows_the_upstream_server() {
    const SENT_MAX_BYTES: usize = 16 << 20;
    let upstream = Upstream::start(|connection| {
        if connection.request().is_some() {
            connection.send("HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n\r\n");
            let mut bytes = 0;
            while bytes < SENT_MAX_BYTES && connection.try_send(&[b'x'; 64 * 1024]) {
                bytes += 64 * 1024;
                connection.note();
            }
        }
    });
    serving(&upstream, &[], |server| {
        let before = upstream.notes();
        let mut connection = server.connect();
        connection.send(Request::get("/slow").field("Connection", "close").bytes());
        connection.read_some(1).expect("the response");
        // The other server stops: it has sent nothing more in half a second.
        let stopped = pinion_tests::wait_for("a stop of the other server", || {
            let notes = upstream.notes();
            std::thread::sleep(std::time::Duration::from_millis(500));
            (upstream.notes() == notes).then_some(notes - before)
        });
        let bytes = stopped * 64 * 1024;
        assert!(bytes < SENT_MAX_BYTES, "{bytes} bytes were taken for a client that reads nothing");
        // The server continues when the client reads.
        let rest = connection.rest();
        assert!(rest.len() > SENT_MAX_BYTES, "{}", rest.len());
    });
}

/// A client that ends its side of the connection counts as disconnected.
#[test]
fn a_half_closed_client_ends_its_upstream_request() {
    let upstream = Upstream::start(|connection| {
        if connection.request().is_some() {
            connection.note();
            connection.wait_for_end();
            connection.note();
        }
    });
    serving(&upstream, &[], |server| {
        let before = upstream.notes();
        let mut connection = server.connect();
        connection.send(Request::get("/long").bytes());
        let reach = |notes: usize| {
            pinion_tests::wait_for("the other server", || {
                (upstream.notes() >= before + notes).then_some(())
            });
        };
        reach(1);
        connection.finish();
        reach(2);
    });
}

/// Content is forwarded in pieces, in both directions: the server holds as little of 100 MiB as of
/// 5 MiB.
#[test]
fn a_hundred_mebibytes_use_as_much_memory_as_five() {
    const PIECE: usize = 1 << 20;
    let upstream = Upstream::start(|connection| {
        let piece = vec![b'x'; PIECE];
        while let Some(head) = connection.head() {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let mut rest: usize = length.map_or(0, |length| length.parse().expect("a length"));
            while rest > 0 {
                let Some(bytes) = connection.take(rest.min(PIECE)) else { return };
                rest -= bytes.len();
            }
            let count: usize =
                head.split(['/', ' ']).find_map(|part| part.parse().ok()).unwrap_or(0);
            connection.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCache-Control: no-store\r\n\
                 Content-Length: {}\r\n\r\n",
                count * PIECE
            ));
            for _ in 0..count {
                connection.send(&piece);
            }
        }
    });
    let grows = |server: &Server, mebibytes: usize| {
        let content = vec![b'x'; mebibytes * PIECE];
        let mut connection = server.connect();
        connection.send(Request::new("POST", "/up").body(&content).bytes());
        assert_eq!(connection.receive().status, 200);
        let response = server.get(&format!("/{mebibytes}"));
        assert_eq!(response.body.len(), mebibytes * PIECE);
        server.memory_bytes("VmHWM")
    };
    serving(&upstream, &[], |server| {
        let few = grows(server, 5);
        let many = grows(server, 100);
        assert!(many < few + few / 4 + (1 << 20), "{few} bytes, then {many}");
    });
}
