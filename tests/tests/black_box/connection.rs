//! The use and the end of one connection (RFC 9112 §6, §9; RFC 9110 §7.6.1, §9, §10.1.1).

use pinion_tests::client::http2::Http2;
use pinion_tests::client::{Broken, Connection};
use pinion_tests::matrix::{Matrix, every_way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::temporary_folder::Folder;
use std::thread;

const LARGE_BYTES: usize = 3 << 20;
/// The reason why a case does not run over other versions.
const HTTP1: &str = "how HTTP/1 uses and ends a connection";
/// More than the buffers of both ends of a connection can hold.
const MORE_THAN_BUFFERS_BYTES: usize = 16 << 20;
/// The most content of one request (docs/serving.md, "Limits").
const BODY_MAX_BYTES: usize = 1 << 20;

fn site() -> Folder {
    let folder = Folder::with("connection", [("index.html", "home"), ("docs/index.html", "docs")]);
    folder.write("large.bin", (0..LARGE_BYTES).map(|at| (at % 251) as u8).collect::<Vec<u8>>());
    folder
}

/// Asserts that the connection gets one more response.
#[track_caller]
fn stays_open(connection: &mut Connection) {
    let response = connection.exchange(&Request::get("/"));
    assert_eq!((response.status, response.text()), (200, "home"));
}

#[test]
fn http_1_1_connections_stay_open_unless_closed_by_option() {
    // RFC 9112 §9.3.
    Matrix::of(site().path()).http1_only(HTTP1).run(|server| {
        for option in [None, Some("keep-alive"), Some("upgrade, foo")] {
            let mut connection = server.connect();
            let request = Request::get("/");
            let request = match option {
                Some(option) => request.field("Connection", option),
                None => request,
            };
            assert!(!connection.exchange(&request).says_close());
            stays_open(&mut connection);
        }
        for option in ["close", "Close", "keep-alive, close", "foo,close"] {
            let mut connection = server.connect();
            let response = connection.exchange(&Request::get("/").field("Connection", option));
            assert!(response.says_close(), "Connection: {option}: {response}");
            connection.expect_close();
        }
    });
}

#[test]
fn http_1_0_connections_stay_open_only_with_keep_alive() {
    // RFC 9112 §9.3, C.2.2.
    Matrix::of(site().path()).http1_only(HTTP1).run(|server| {
        let mut connection = server.connect();
        let response = connection.exchange(&Request::get("/").http10());
        assert!(response.says_close(), "{response}");
        connection.expect_close();

        let mut connection = server.connect();
        for _ in 0..3 {
            let request = Request::get("/").http10().field("Connection", "Keep-Alive");
            let response = connection.exchange(&request);
            assert_eq!(response.field("Connection"), Some("keep-alive"), "{response}");
            assert_eq!(response.field("Keep-Alive"), Some("timeout=60"), "{response}");
        }
        stays_open(&mut connection);

        let mut connection = server.connect();
        connection.send("GET / HTTP/1.0\r\n\r\n"); // RFC 9112 §3.2: Host came with 1.1
        assert_eq!(connection.receive().status, 200);
        connection.expect_close();
    });
}

#[test]
fn a_connection_closes_after_its_maximum_of_requests() {
    let site = site();
    Matrix::of(site.path()).serve(&["--max-requests-per-connection", "3"]).http1_only(HTTP1).run(
        |server| {
            let mut connection = server.connect();
            assert!(!connection.exchange(&Request::get("/")).says_close());
            assert!(!connection.exchange(&Request::get("/nothing")).says_close());
            assert!(connection.exchange(&Request::get("/")).says_close());
            connection.expect_close();

            let mut connection = server.connect();
            let request = Request::get("/").http10().field("Connection", "keep-alive");
            for left in ["timeout=60, max=2", "timeout=60, max=1"] {
                let response = connection.exchange(&request);
                assert_eq!(response.field("Keep-Alive"), Some(left), "{response}");
            }
            assert!(connection.exchange(&request).says_close());
            connection.expect_close();

            let mut connection = server.connect();
            connection.send(Request::get("/").bytes().repeat(5));
            for _ in 0..3 {
                assert_eq!(connection.receive().status, 200);
            }
            connection.expect_close();
        },
    );
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    // RFC 9112 §9.3.2.
    Matrix::of(site().path()).http1_only(HTTP1).run(|server| {
        let tag = server.get("/").field("ETag").expect("a tag").to_owned();
        let requests = [
            Request::get("/"),
            Request::get("/nothing"),
            Request::head("/large.bin"),
            Request::get("/").field("If-None-Match", tag),
            Request::get("/large.bin"),
            Request::get("/docs?a"),
            Request::new("POST", "/").body(b"some content"),
            Request::get("/large.bin").field("Range", "bytes=1-2,1000000-1000001"),
            Request::new("PUT", "/nothing").chunked(b"more content", 5),
            Request::new("OPTIONS", "*"),
            Request::get("/large.bin").field("Range", "bytes=2000000-"),
            Request::get("/docs/"),
        ];
        let mut connection = server.connect();
        let bytes: Vec<u8> = requests.iter().flat_map(Request::bytes).collect();
        connection.send(bytes);
        for request in &requests {
            let (mut pipelined, mut alone) =
                (connection.receive_to(request), server.exchange(request));
            for response in [&mut pipelined, &mut alone] {
                response.fields.retain(|(name, _)| name != "Date");
            }
            assert!(pipelined == alone, "{request:?}\n{pipelined}\n{alone}");
        }
        stays_open(&mut connection);
    });
}

#[test]
fn pipelined_requests_wait_until_the_client_reads() {
    Matrix::of(site().path()).plain_only("two threads share the socket").run(|server| {
        let mut connection = server.connect();
        let mut sending = connection.stream().try_clone().expect("a second handle");
        let requests = 40;
        let writer = thread::spawn(move || {
            use std::io::Write;
            let mix = [Request::get("/large.bin").bytes(), Request::get("/").bytes()].concat();
            sending.write_all(&mix.repeat(requests)).expect("the server takes them in time");
        });
        for _ in 0..requests {
            assert_eq!(connection.receive().body.len(), LARGE_BYTES);
            assert_eq!(connection.receive().text(), "home");
        }
        writer.join().expect("written");
        stays_open(&mut connection);
    });
}

#[test]
fn a_request_may_come_in_any_pieces() {
    Matrix::of(site().path()).http1_only(HTTP1).run(|server| {
        let mut connection = server.connect();
        let mut bytes = b"\r\n".to_vec(); // RFC 9112 §2.2: an empty line before is ignored
        bytes.extend(Request::new("POST", "/nothing").chunked(b"abcdef", 2).bytes());
        bytes.extend(Request::get("/").bytes());
        for byte in bytes {
            connection.send([byte]);
        }
        assert_eq!(connection.receive().status, 404);
        assert_eq!(connection.receive().text(), "home");
    });
}

#[test]
fn unwanted_request_content_is_read_and_discarded() {
    every_way(&site(), |server| {
        let content = vec![b'x'; BODY_MAX_BYTES];
        let mut client = server.client();
        for (method, status) in [("POST", 405), ("GET", 200), ("BREW", 501)] {
            for bytes in [1, 1000, 100_000, BODY_MAX_BYTES] {
                let framed = [
                    Request::new(method, "/").body(&content[..bytes]),
                    Request::new(method, "/").chunked(&content[..bytes], 7000),
                ];
                for request in framed {
                    let response = client.exchange(&request);
                    assert_eq!(response.status, status, "{method} with {bytes} bytes: {response}");
                    assert!(!response.says_close(), "{method} with {bytes} bytes");
                }
            }
        }
        assert_eq!(client.exchange(&Request::get("/")).text(), "home");
    });
}

#[test]
fn chunk_extensions_and_trailers_are_dropped_with_the_content() {
    // RFC 9112 §7.1.1, §7.1.2.
    Matrix::of(site().path()).http1_only(HTTP1).run(|server| {
        let mut connection = server.connect();
        connection.send(
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\nTrailer: X\r\n\r\n\
             00003;name=value;other=\"a;b\\\"c\"\r\nabc\r\n\
             A\r\n0123456789\r\n0;last\r\nX: y\r\n\r\n",
        );
        assert_eq!(connection.receive().status, 405);
        stays_open(&mut connection);
    });
}

#[test]
fn too_much_content_is_refused_and_the_refusal_arrives() {
    // RFC 9110 §15.5.14; RFC 9112 §9.6: closing at once would reset the connection before the
    // response is read.
    Matrix::of(site().path()).http1_only(HTTP1).run(|server| {
        let mut connection = server.connect();
        let length = BODY_MAX_BYTES + 1;
        connection.send(format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"));
        connection.send_if_open(vec![b'x'; 200_000]);
        let response = connection.receive();
        assert_eq!(response.status, 413);
        assert!(response.says_close());
        assert_eq!(connection.rest(), b"");

        // The length of chunked content is unknown: the response has been sent before the limit is
        // exceeded.
        let mut connection = server.connect();
        let request = Request::new("POST", "/").chunked(&vec![b'x'; BODY_MAX_BYTES + 1], 65_536);
        connection.send(request.bytes());
        connection.send(Request::get("/").bytes());
        assert_eq!(connection.receive().status, 405);
        assert_eq!(connection.rest(), b"", "and the end is no reset");
    });
}

#[test]
fn an_expectation_gets_the_final_response_at_once() {
    // RFC 9110 §10.1.1: a server that responds at once must not wait for the content.
    Matrix::of(site().path()).http1_only(HTTP1).run(|server| {
        for request in [
            Request::new("POST", "/").field("Expect", "100-continue").body(b"content"),
            Request::new("PUT", "/nothing").field("Expect", "100-Continue").chunked(b"abc", 3),
        ] {
            let mut connection = server.connect();
            connection.send(request.head_bytes());
            let response = connection.receive();
            assert!(matches!(response.status, 404 | 405), "{response}");
            assert!(response.says_close(), "whether the content follows is the client's choice");
            connection.send_if_open(request.body_bytes());
            connection.expect_close();
        }
        let mut connection = server.connect();
        let without_content = Request::get("/").field("Expect", "100-continue");
        assert_eq!(connection.exchange(&without_content).status, 200);
        let unknown = Request::get("/").field("Expect", "a-miracle");
        assert_eq!(connection.exchange(&unknown).status, 417);
    });
}

#[test]
fn a_half_closed_http1_connection_gets_its_responses() {
    // RFC 9112 §9.6: a half-closed connection can still get responses.
    Matrix::of(site().path()).http1_only(HTTP1).run(|server| {
        let mut connection = server.connect();
        let requests = ["/", "/large.bin", "/nothing", "/large.bin"].map(Request::get);
        connection.send(requests.iter().flat_map(Request::bytes).collect::<Vec<u8>>());
        connection.finish();
        let lengths: Vec<usize> =
            requests.iter().map(|_| connection.receive().body.len()).collect();
        assert_eq!((lengths[0], lengths[1], lengths[3]), (4, LARGE_BYTES, LARGE_BYTES));
        connection.expect_close();

        let mut connection = server.connect();
        connection.send("GET / HTTP/1.1\r\nHost");
        connection.finish();
        connection.expect_close();
    });
}

#[test]
fn a_half_closed_http2_connection_gets_its_response() {
    // RFC 9293 §3.6, RFC 8446 §6.1: the end of one direction does not affect the other one.
    let folder = site();
    let content = vec![b'x'; 60_000];
    folder.write("medium.bin", &content);
    let is_http2 = |protocol| matches!(protocol, Protocol::Http2 | Protocol::Http2Clear);
    Matrix::of(folder.path()).over(is_http2, "how HTTP/2 ends a connection").run(|server| {
        for request in [
            Request::get("/medium.bin"),
            Request::get("/medium.bin").body(b"some content"),
            Request::get("/nothing"),
        ] {
            let mut client = Http2::try_open(server.peer()).expect("a connection");
            assert_eq!(client.try_exchange(&Request::get("/")).expect("an answer").text(), "home");
            let response = client.try_last_exchange(&request).expect("an answer, and the end");
            assert!(response.status == 404 || response.body == content, "{response}");
        }
    });
}

#[test]
fn a_line_end_after_the_last_request_does_not_truncate_its_response() {
    // RFC 9112 §9.6; §2.2: some clients send an additional line end.
    let folder = Folder::new("last");
    let large: Vec<u8> = (0..MORE_THAN_BUFFERS_BYTES).map(|at| (at % 251) as u8).collect();
    folder.write("large.bin", &large);
    Matrix::of(folder.path()).http1_only(HTTP1).run(|server| {
        let request = Request::get("/large.bin");
        for request in [request.clone().field("Connection", "close"), request.http10()] {
            // The end comes while the server still writes, and when it has written all bytes but
            // the client has not read them.
            for read_before_bytes in [1, MORE_THAN_BUFFERS_BYTES - (100 << 10)] {
                let mut connection = server.connect();
                connection.send(request.bytes());
                let mut read_bytes = 0;
                while read_bytes < read_before_bytes {
                    let most_bytes = (read_before_bytes - read_bytes).min(1 << 16);
                    read_bytes += connection.read_some(most_bytes).expect("more of the answer");
                }
                connection.send("\r\n");
                let response = connection.receive();
                assert!(response.body == large, "{} bytes: {response}", response.body.len());
                connection.expect_close();
            }
        }
    });
}

#[test]
fn many_bytes_after_the_last_request_do_not_reset_its_response() {
    let folder = Folder::with("behind", [("index.html", "home")]);
    Matrix::of(folder.path()).http1_only(HTTP1).run(|server| {
        let last = Request::get("/").field("Connection", "close");
        let mut connection = server.connect();
        // More than the server reads at once.
        connection.send([last.bytes().as_slice(), &[b'x'; 60_000]].concat());
        assert_eq!(connection.receive().text(), "home");
        assert_eq!(connection.read_some(1).expect("an orderly end"), 0);
    });
}

#[test]
fn a_client_that_reads_only_after_its_whole_upload_has_the_response() {
    // RFC 9112 §9.6: Python's requests, wget and others send all of the content before they read.
    let folder = Folder::with("upload", [("index.html", "home")]);
    Matrix::of(folder.path()).http1_only(HTTP1).run(|server| {
        let content = vec![b'x'; MORE_THAN_BUFFERS_BYTES];
        let refused = Request::new("POST", "/").body(&content);
        let response = server.connect().exchange(&refused);
        assert_eq!((response.status, response.says_close()), (413, true), "{response}");
    });
}

#[test]
fn every_form_of_target_is_understood() {
    // RFC 9112 §3.2.
    every_way(&site(), |server| {
        for (method, target, status) in [
            ("GET", "http://localhost/docs/", 200),
            ("GET", "HTTP://other.example:8080/docs/?a", 200),
            ("GET", "http://[::1]:80/", 200),
            ("GET", "http://localhost", 200),
            ("GET", "http://localhost?a", 200),
            ("GET", "http://localhost/docs", 308),
            ("OPTIONS", "*", 204),
            ("OPTIONS", "http://localhost", 204),
            ("OPTIONS", "/", 204),
            ("GET", "*", 400),
            ("GET", "docs/", 400),
            ("GET", "http:///docs/", 400),
            ("GET", "http://user@localhost/", 400),
            ("CONNECT", "localhost:80", 501),
            ("CONNECT", "/", 400),
        ] {
            match server.client().try_exchange(&Request::new(method, target)) {
                Ok(response) => {
                    assert_eq!(response.status, status, "{method} {target}: {response}");
                }
                // RFC 9113 §8.1.1, RFC 9114 §4.1.2: a malformed request may end its stream.
                Err(Broken::Reset(0x1 | 0x10e)) => assert_eq!(status, 400, "{method} {target}"),
                Err(broken) => panic!("{method} {target}: {broken:?}"),
            }
        }
    });
}

#[test]
fn the_lookup_precedes_the_method_check() {
    // RFC 9110 §9.1, §15.5.6; methods are case-sensitive.
    every_way(&site(), |server| {
        let mut client = server.client();
        let allow = Some("GET, HEAD, OPTIONS");
        let known = ["POST", "PUT", "DELETE", "PATCH", "TRACE"].map(|method| (method, 405, allow));
        let unknown = ["BREW", "get", "M-SEARCH"].map(|method| (method, 501, None));
        for (method, status, allow) in known.into_iter().chain(unknown) {
            let response = client.exchange(&Request::new(method, "/"));
            assert_eq!(response.status, status, "{method}: {response}");
            assert_eq!(response.field("Allow"), allow, "{method}");
            assert_eq!(client.exchange(&Request::new(method, "/nothing")).status, 404);
        }
        let response = client.exchange(&Request::new("OPTIONS", "/"));
        assert_eq!((response.status, response.field("Allow")), (204, allow));
        assert_eq!(client.exchange(&Request::new("OPTIONS", "/nothing")).status, 404);
    });
}

#[test]
fn each_exceeded_limit_has_its_own_status() {
    // RFC 9110 §15.5.15, RFC 6585 §5, RFC 9110 §15.6.2. The numbers are in docs/serving.md,
    // "Limits".
    Matrix::of(site().path()).http1_only(HTTP1).run(|server| {
        let target = |bytes: usize| Request::get(&format!("/{}", "x".repeat(bytes - 1)));
        let fields = |count: usize| {
            // One field is Host.
            (1..count).fold(Request::get("/"), |request, at| request.field(&format!("X-{at}"), "y"))
        };
        let head = |bytes: usize| {
            let rest = Request::get("/").field("X", "").bytes().len();
            Request::get("/").field("X", "y".repeat(bytes - rest))
        };
        let mut stays = server.connect();
        let long_method = stays.exchange(&Request::new(&"M".repeat(32), "/"));
        assert_eq!((long_method.status, long_method.says_close()), (501, false), "{long_method}");
        for (request, status) in [
            (target(8 * 1024), 404),
            (target(8 * 1024 + 1), 414),
            (target(15 * 1024), 414),
            (fields(100), 200),
            (fields(101), 431),
            (head(16 * 1024), 200),
            (head(16 * 1024 + 1), 431),
            (head(64 * 1024), 431),
            (Request::new(&"M".repeat(33), "/"), 501),
        ] {
            let mut connection = server.connect();
            connection.send_if_open(request.bytes());
            let response = connection.receive();
            assert_eq!(response.status, status, "{response}");
            if !matches!(status, 200 | 404) {
                assert!(response.says_close(), "{response}");
                connection.expect_close();
            }
        }
    });
}

#[test]
fn an_endless_head_is_refused_when_it_is_too_large() {
    Matrix::of(site().path()).http1_only(HTTP1).run(|server| {
        for (endless, status) in [
            ("GET /".to_owned() + &"x".repeat(9000), 414),
            ("GET / HTTP/1.1\r\nX: ".to_owned() + &"y".repeat(20_000), 431),
            ("M".repeat(100), 501),
        ] {
            let mut connection = server.connect();
            connection.send(endless);
            assert_eq!(connection.receive().status, status);
            connection.expect_close();
        }
    });
}

#[test]
fn later_minor_versions_are_served_and_other_major_ones_refused() {
    // RFC 9110 §2.5, §15.6.6: a higher minor version is served like the server's own, another major
    // one is refused.
    Matrix::of(site().path()).http1_only(HTTP1).run(|server| {
        for (version, status) in
            [("HTTP/1.2", 200), ("HTTP/1.9", 200), ("HTTP/2.0", 505), ("HTTP/3.0", 505)]
        {
            let mut connection = server.connect();
            connection.send(format!("GET / {version}\r\nHost: x\r\n\r\n"));
            assert_eq!(connection.receive().status, status, "{version}");
        }
        // RFC 9113 §3.1: an unsupported upgrade is ignored.
        let upgrade = Request::get("/").field("Connection", "Upgrade, HTTP2-Settings");
        let upgrade =
            upgrade.field("Upgrade", "h2c").field("HTTP2-Settings", "AAMAAABkAAQCAAAAAAIAAAAA");
        let mut connection = server.connect();
        assert_eq!(connection.exchange(&upgrade).status, 200);
        stays_open(&mut connection);
    });
}
