//! Requests that two servers could parse differently (RFC 9112 §11.2). A second request follows
//! each of them, and must never get a response.

use pinion_tests::matrix::Matrix;
use pinion_tests::request::Request;
use pinion_tests::server::Server;
use pinion_tests::temporary_folder::Folder;

/// The reason why these cases only run over HTTP/1.
const FRAMING: &str = "where HTTP/1 ends a request, and what it lets stand in a line";
const SMUGGLED: &str = "GET /smuggled.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn site() -> Folder {
    Folder::with("smuggling", [("index.html", "home"), ("smuggled.txt", "smuggled")])
}

/// Returns a request with these field lines besides `Host`, and the bytes after its blank line.
fn with(lines: &str, body: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n\r\n{body}").into_bytes()
}

/// Asserts that the bytes get `status`, then the end, without a response to later bytes. They are
/// sent at once, and again with the last byte alone, so that the parser gets them whole and in two
/// parts.
#[track_caller]
fn is_refused(server: &Server, status: u16, bytes: &[u8]) {
    let bytes = [bytes, SMUGGLED.as_bytes()].concat();
    for cut in [0, bytes.len() - SMUGGLED.len() - 1] {
        let mut connection = server.connect();
        connection.send(&bytes[..cut]);
        connection.send_if_open(&bytes[cut..]);
        let shown = bytes.escape_ascii();
        let response = match connection.try_receive(false) {
            Ok(response) => response,
            Err(broken) => panic!("{broken:?} to {shown}"),
        };
        assert_eq!(response.status, status, "{shown}: {response}");
        assert!(response.says_close(), "{shown}: {response}");
        assert!(connection.is_silent_until_close(), "an answer behind {shown}");
    }
}

#[test]
fn a_length_that_could_be_read_twice_is_refused() {
    // RFC 9112 §6.3 no. 3 to 5.
    Matrix::of(site().path()).http1_only(FRAMING).run(|server| {
        for (status, lines) in [
            (400, "Content-Length: 4\r\nTransfer-Encoding: chunked"),
            (400, "Transfer-Encoding: chunked\r\nContent-Length: 4"),
            (400, "content-length: 4\r\ntransfer-encoding: chunked"),
            (400, "Content-Length: 4\r\nContent-Length: 4"),
            (400, "Content-Length: 4\r\nContent-Length: 5"),
            (400, "Content-Length: 4\r\nX: y\r\nCONTENT-LENGTH: 0"),
            (400, "Content-Length: 4, 4"),
            (400, "Content-Length: 4,5"),
            (400, "Content-Length: +4"),
            (400, "Content-Length: -4"),
            (400, "Content-Length: 0x4"),
            (400, "Content-Length: 4a"),
            (400, "Content-Length: 4 4"),
            (400, "Content-Length: \"4\""),
            (400, "Content-Length: 4.0"),
            (400, "Content-Length:"),
            (400, "Content-Length: \u{0664}"),
            (413, "Content-Length: 18446744073709551620"),
            (413, "Content-Length: 99999999999999999999999999999999999999999999"),
        ] {
            is_refused(server, status, &with(lines, "0\r\n\r\n"));
        }
    });
}

#[test]
fn a_transfer_coding_that_could_be_read_twice_is_refused() {
    // RFC 9112 §6.1, §6.3 no. 4: 501 for an unknown coding, 400 if the end is unclear.
    Matrix::of(site().path()).http1_only(FRAMING).run(|server| {
        for (status, lines) in [
            (400, "Transfer-Encoding: chunked, chunked"),
            (400, "Transfer-Encoding: chunked, identity"),
            (400, "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
            (400, "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked"),
            (400, "Transfer-Encoding:"),
            (400, "Transfer-Encoding: ,"),
            (400, "Transfer-Encoding : chunked"),
            (400, "Transfer-Encoding:\r\n chunked"),
            (400, "Transfer-Encoding\r\n : chunked"),
            (400, "Transfer-Encoding: \u{b}chunked"),
            (400, "Transfer-Encoding: chun\0ked"),
            (400, "Transfer-Encoding: \"chunked\""),
            (501, "Transfer-Encoding: identity"),
            (501, "Transfer-Encoding: gzip, chunked"),
            (501, "Transfer-Encoding: xchunked"),
            (501, "Transfer-Encoding: gzip"),
        ] {
            is_refused(server, status, &with(lines, "0\r\n\r\n"));
        }
        // §6.1: not defined for HTTP/1.0.
        let old = b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
        is_refused(server, 400, old);
    });
}

#[test]
fn a_field_line_that_could_be_read_twice_is_refused() {
    // RFC 9112 §2.2, §5.1, §5.2; RFC 9110 §5.5.
    Matrix::of(site().path()).http1_only(FRAMING).run(|server| {
        for lines in [
            "X: a\r\n folded",
            "X: a\r\n\tfolded",
            "X : a",
            "X\t: a",
            " X: a",
            "X",
            ": a",
            "X Y: a",
            "X(Y): a",
            "X: a\nContent-Length: 4",
            "X: a\rContent-Length: 4",
            "X: a\r\r\nY: b",
            "X: a\0b",
            "X: a\u{7f}b",
            "X: a\u{1}b",
            "X\0: a",
            "\u{e4}: a",
        ] {
            is_refused(server, 400, &with(lines, ""));
        }
        is_refused(server, 400, b"GET / HTTP/1.1\r\n Host: localhost\r\n\r\n");
        is_refused(server, 400, b"GET / HTTP/1.1\nHost: localhost\n\n");
        is_refused(server, 400, b"GET / HTTP/1.1\r\nHost: localhost\n\r\n");
        is_refused(server, 400, b"GET / HTTP/1.1\r\nHost: localhost\r\n\n");
        is_refused(server, 400, b"GET / HTTP/1.1\nHost: localhost\r\n\r\n");
    });
}

#[test]
fn a_host_that_could_be_read_twice_is_refused() {
    // RFC 9112 §3.2: exactly one valid Host, whatever the form of the target.
    Matrix::of(site().path()).http1_only(FRAMING).run(|server| {
        for host in [
            "X: y",
            "Host: a\r\nHost: a",
            "Host: a\r\nhost: b",
            "Host: a b",
            "Host: a, b",
            "Host: a/b",
            "Host: user@a",
            "Host: a:b",
            "Host: a:80:80",
            "Host: a:65536000000",
            "Host: [::1",
            "Host: ::1",
            "Host: [::1]x",
            "Host: a\\b",
            "Host: a?b",
            "Host: a#b",
            "Host: %zz",
            "Host: \u{e4}",
        ] {
            for target in ["/", "http://localhost/"] {
                is_refused(
                    server,
                    400,
                    format!("GET {target} HTTP/1.1\r\n{host}\r\n\r\n").as_bytes(),
                );
            }
        }
        is_refused(server, 400, b"GET http://a b/ HTTP/1.1\r\nHost: a\r\n\r\n");
        is_refused(server, 400, b"GET http://a:b/ HTTP/1.1\r\nHost: a\r\n\r\n");
        is_refused(server, 400, b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n");
    });
}

#[test]
fn a_request_line_that_could_be_read_twice_is_refused() {
    // RFC 9112 §3: three parts, one space between them.
    Matrix::of(site().path()).http1_only(FRAMING).run(|server| {
        for (status, line) in [
            (400, "GET  / HTTP/1.1"),
            (400, "GET /  HTTP/1.1"),
            (400, "GET / HTTP/1.1 "),
            (400, " GET / HTTP/1.1"),
            (400, "GET\t/ HTTP/1.1"),
            (400, "GET /\tHTTP/1.1"),
            (400, "GET / x HTTP/1.1"),
            (400, "GET /a\u{b}b HTTP/1.1"),
            (400, "GET /a\0b HTTP/1.1"),
            (400, "GET /a\rb HTTP/1.1"),
            (400, "GET /a#b HTTP/1.1"),
            (400, "GET /a\"b HTTP/1.1"),
            (400, "GET /a<b> HTTP/1.1"),
            (400, "GET /a\\b HTTP/1.1"),
            (400, "GET /a^b`{|} HTTP/1.1"),
            (400, "GET /\u{e4} HTTP/1.1"),
            (400, "GET / http/1.1"),
            (400, "GET / HTTP/1,1"),
            (400, "GET / HTTP/11"),
            (400, "GET / HTTP/1.1x"),
            (400, "GET /"),
            (400, "GET"),
            (400, "G(T / HTTP/1.1"),
            (400, "HTTP/1.1 200 OK"),
        ] {
            let bytes = format!("{line}\r\nHost: localhost\r\n\r\n");
            is_refused(server, status, bytes.as_bytes());
        }
        is_refused(server, 400, b"\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
        is_refused(server, 400, b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    });
}

#[test]
fn a_chunk_that_could_be_read_twice_ends_the_connection() {
    // RFC 9112 §7.1. The head was correct, so it gets a response, but nothing after it does.
    Matrix::of(site().path()).http1_only(FRAMING).run(|server| {
        let long_line = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(300));
        for body in [
            "x\r\n",
            "\r\n",
            "-1\r\n",
            "+4\r\nabcd\r\n0\r\n\r\n",
            "0x4\r\nabcd\r\n0\r\n\r\n",
            "4\nabcd\r\n0\r\n\r\n",
            "4\r\nabcd\n0\r\n\r\n",
            "4\r\nabcd\r\n0\r\n\n",
            "4\r\nabcd\r\n0\n\r\n",
            "4\rabcd\r\n0\r\n\r\n",
            "4 \r\nabcd\r\n0\r\n\r\n",
            " 4\r\nabcd\r\n0\r\n\r\n",
            "4;\nabcd\r\n0\r\n\r\n",
            "4;a=\"\n\"\r\nabcd\r\n0\r\n\r\n",
            "4\r\nabcde\r\n0\r\n\r\n",
            "4\r\nabcd0\r\n\r\n",
            "10000000000000004\r\nabcd\r\n0\r\n\r\n",
            "ffffffffffffffff\r\nabcd\r\n0\r\n\r\n",
            "0\r\nX : y\r\n\r\n",
            "0\r\n X: y\r\n\r\n",
            "0\r\nX\r\n\r\n",
            &long_line,
        ] {
            let mut connection = server.connect();
            connection.send(with("Transfer-Encoding: chunked", body));
            connection.send_if_open(SMUGGLED);
            assert!(matches!(connection.receive().status, 400 | 405 | 413), "{body:?}");
            assert!(connection.is_silent_until_close(), "an answer behind {body:?}");
        }
    });
}

#[test]
fn bytes_after_a_refused_connect_are_not_a_request() {
    // RFC 9110 §9.3.6: a client may send bytes before it knows that there is no tunnel.
    Matrix::of(site().path()).http1_only(FRAMING).run(|server| {
        is_refused(server, 501, b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n");
    });
}

#[test]
fn content_that_looks_like_a_request_is_content() {
    Matrix::of(site().path()).http1_only(FRAMING).run(|server| {
        let mut connection = server.connect();
        connection.send(Request::get("/").body(SMUGGLED.as_bytes()).bytes());
        connection.send(Request::new("POST", "/").chunked(SMUGGLED.as_bytes(), 9).bytes());
        connection.send(Request::get("/").field("Connection", "close").bytes());
        connection.send_if_open(SMUGGLED);
        let statuses = [(); 3].map(|()| connection.receive().status);
        assert_eq!(statuses, [200, 405, 200]);
        connection.expect_close();
    });
}

#[test]
fn other_protocols_are_refused() {
    Matrix::of(site().path()).http1_only(FRAMING).run(|server| {
        // RFC 8446 §4.1.2: a TLS handshake is no valid request.
        for (bytes, statuses) in [
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".as_slice(), [400, 400]),
            (b"SSH-2.0-OpenSSH_9.2\r\n", [400, 400]),
            (b"*1\r\n$4\r\nPING\r\n", [400, 400]),
        ] {
            let mut connection = server.connect();
            connection.send(bytes);
            let response = connection.receive();
            assert!(statuses.contains(&response.status), "{}: {response}", bytes.escape_ascii());
            connection.expect_close();
        }
        // RFC 9113 §3.2: over TLS both sides negotiate HTTP/2 by ALPN, and here they have
        // negotiated HTTP/1.1.
        if server.protocol().is_encrypted() {
            let mut connection = server.connect();
            connection.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
            assert_eq!(connection.receive().status, 505);
            connection.expect_close();
        }
    });
}
